//! Makes the exported functions from the table of OpenSHMEM's calls.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsma.so");
    fs::write(out.join("exports.rs"), am_shmem_table::exports())?;
    // The other name that builds look for, in the folder of the library, which is three folders above.
    let folder = out.ancestors().nth(3).ok_or("the build's folder is not where it is expected")?;
    match std::os::unix::fs::symlink("libsma.so", folder.join("liboshmem.so")) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}
