//! Finds the file of a program by its name.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::LaunchError;

/// The file of program `name`. A name with a slash is a path; a name without a slash is looked up in PATH, then in the current directory.
///
/// # Errors
/// There is no such file, or it cannot be executed.
pub fn find(name: &OsStr) -> Result<PathBuf, LaunchError> {
    let path = env::var_os("PATH").unwrap_or_default();
    find_in(name, &path)
}

fn find_in(name: &OsStr, path: &OsStr) -> Result<PathBuf, LaunchError> {
    let here = Path::new(name);
    let has_slash = name.as_encoded_bytes().contains(&b'/');
    let listed = env::split_paths(path).map(|folder| folder.join(here));
    if !has_slash && let Some(found) = listed.into_iter().find(|file| why_not_executable(file).is_none()) {
        return absolute(&found);
    }
    if name.is_empty() || !here.exists() {
        return Err(LaunchError::ProgramNotFound { program: here.to_owned() });
    }
    match why_not_executable(here) {
        None => absolute(here),
        Some(why) => Err(LaunchError::NotExecutable { program: here.to_owned(), why }),
    }
}

/// Makes the path absolute: tasks may start in another directory.
fn absolute(file: &Path) -> Result<PathBuf, LaunchError> {
    std::path::absolute(file).map_err(LaunchError::system("looking up the current directory"))
}

fn why_not_executable(file: &Path) -> Option<&'static str> {
    match file.metadata() {
        Err(_) => Some("its attributes cannot be read"),
        Ok(data) if data.is_dir() => Some("it is a directory"),
        Ok(data) if data.permissions().mode() & 0o111 == 0 => Some("no execute permission"),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_slash_is_looked_up_in_path_and_one_with_a_slash_is_not() {
        let found = find_in(OsStr::new("sh"), OsStr::new("/no/such/folder:/bin:/usr/bin")).unwrap();
        assert!(found.is_absolute() && found.ends_with("sh"));
        assert!(matches!(
            find_in(OsStr::new("./sh"), OsStr::new("/bin")),
            Err(LaunchError::ProgramNotFound { .. })
        ));
    }

    #[test]
    fn what_is_not_there_and_what_is_no_program_are_told_apart() {
        let path = OsStr::new("/bin");
        for missing in ["no-such-program", "./no-such-program", ""] {
            let error = find_in(OsStr::new(missing), path).unwrap_err();
            assert_eq!(error.exit_code(), 127, "{error}");
        }
        for refused in ["Cargo.toml", "./src"] {
            let error = find_in(OsStr::new(refused), path).unwrap_err();
            assert_eq!(error.exit_code(), 126, "{error}");
        }
    }
}
