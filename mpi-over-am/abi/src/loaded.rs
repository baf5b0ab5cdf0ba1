//! The MPI libraries that this process has loaded: there must be no other one beside this.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::raise::rank_in_job;

/// Environment variable with which `mpiexec --verbose` asks each task to name its library.
pub(crate) const SAYS_LIBRARY: &str = "AM_SAYS_LIBRARY";

/// The beginnings of the names of MPI libraries: this project's as they are built, then those of all.
const NAMES: [&str; 5] =
    ["libmpi_mpich.so", "libmpi_openmpi.so", "libmpi_abi.so", "libmpi.so", "libmpich.so"];

fn is_mpi(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    NAMES.iter().any(|known| {
        name.strip_prefix(known).is_some_and(|version| version.is_empty() || version.starts_with('.'))
    })
}

/// Whether a library has code: a library of a wheel that only leads to another one has none.
fn has_code(info: &libc::dl_phdr_info) -> bool {
    if info.dlpi_phdr.is_null() {
        return false;
    }
    // SAFETY: the loader says how many segments the library has, and where their headers are; they live as long as the description.
    let segments = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    segments.iter().any(|segment| segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0)
}

unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes a description that lives until this function returns, with a name that ends in NUL or is null, and the
    // address that was given with this function: that of the list in `loaded`.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<PathBuf>>()) };
    let name = info.dlpi_name;
    if !name.is_null() && has_code(info) {
        // SAFETY: as above.
        let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
        if is_mpi(path) {
            found.push(path.to_owned());
        }
    }
    0
}

/// The MPI libraries in this process, in the order in which they were loaded.
fn loaded() -> Vec<PathBuf> {
    let mut found = Vec::new();
    // SAFETY: `add` has the type that the loader calls, and gets the address of a list that nothing else uses meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut found).cast()) };
    found
}

/// The file of this library; `None` in a program that contains it.
fn own() -> Option<PathBuf> {
    // SAFETY: all zeros are a value of this structure of addresses.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the first address is that of a function, the second that of a place for the result.
    let is_known = unsafe { libc::dladdr(loaded as *const c_void, &raw mut found) } != 0;
    if !is_known || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: not null, so a name that ends in NUL and lives as long as this library is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())).to_owned())
}

/// Checks that this process has no other MPI library: their functions have the same names, so calls would reach one or the other. Names
/// this library if `mpiexec --verbose` asks for it.
///
/// # Errors
/// There is another one: the text names both.
pub(crate) fn check() -> Result<(), String> {
    let Some(own) = own() else { return Ok(()) };
    let file = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let Some(other) = loaded().into_iter().find(|other| file(other) != file(&own)) {
        return Err(format!(
            "this process has two MPI libraries, {} and {}: a program, its modules and its libraries must be built for one (see mpiexec --abi)",
            own.display(),
            other.display()
        ));
    }
    if std::env::var_os(SAYS_LIBRARY).is_some() {
        mpi_over_am::complain!("task {}: {}, {}", rank_in_job(), own.display(), crate::face::NAME);
    }
    Ok(())
}
