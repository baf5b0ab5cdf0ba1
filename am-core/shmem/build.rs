//! Makes the exported functions from the table of OpenSHMEM's calls.

use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=build.rs");
    fs::write(out.join("exports.rs"), am_shmem_table::exports())?;
    Ok(())
}
