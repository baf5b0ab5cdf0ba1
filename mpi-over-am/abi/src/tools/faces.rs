//! The libraries for programs that were built for other MPI libraries: where they are, and how a program's loader finds them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::face_names::{FACES, FOLDER};

/// Folders that the system's loader searches after those that are written in a program, separated by colons.
pub(super) const SEARCHED: &str = "LD_LIBRARY_PATH";

/// The folder with the libraries, by the names that programs ask for: beside this program after a build, else in the library folder of an
/// installation.
pub(super) fn folder(own: &Path) -> Option<PathBuf> {
    let installed = own.parent()?.parent().map(|prefix| prefix.join("lib").join(FOLDER));
    [Some(own.with_file_name(FOLDER)), installed].into_iter().flatten().find(|folder| folder.is_dir())
}

/// The library for programs of an interface, which `--abi` names.
pub(super) fn library(own: &Path, interface: &str) -> Result<PathBuf, String> {
    let names = FACES.map(|(name, ..)| name).join(" or ");
    let (.., names) = FACES
        .iter()
        .find(|(name, ..)| *name == interface)
        .ok_or_else(|| format!("--abi takes {names}, not {interface}; the standard's needs no option"))?;
    let found = folder(own).map(|folder| folder.join(names[0])).filter(|library| library.is_file());
    found.ok_or_else(|| {
        format!("--abi needs {FOLDER}/{} beside mpiexec, which `cargo build --workspace` makes", names[0])
    })
}

/// The folders to search, with the libraries' folder behind the user's.
pub(super) fn behind(users: &OsStr, folder: &Path) -> OsString {
    let mut all = users.to_owned();
    if !users.is_empty() {
        all.push(":");
    }
    all.push(folder);
    all
}

/// Whether the loader can take a path in a list: it has neither a colon nor a space.
pub(super) fn is_plain(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b": ".contains(byte))
}
