//! Finds the file of a program by its name.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::LaunchError;
use am_via_job::settings::nearest;

/// The file of program `name`. A name with a slash is a path; a name without a slash is looked up in PATH, then in the directory of the
/// tasks. That directory is `wdir`, or else the current one. Relative paths begin there, as with the launchers of other MPI libraries.
///
/// # Errors
/// There is no such file, or it cannot be executed.
pub(super) fn find(name: &OsStr, wdir: Option<&Path>) -> Result<PathBuf, LaunchError> {
    find_also_in(name, None, wdir)
}

/// Like [`find`], but looks a name without a slash up in the folders `first` before those of PATH.
pub(super) fn find_also_in(
    name: &OsStr,
    first: Option<&OsStr>,
    wdir: Option<&Path>,
) -> Result<PathBuf, LaunchError> {
    let mut path = first.unwrap_or_default().to_owned();
    if let Some(own) = env::var_os("PATH") {
        if !path.is_empty() {
            path.push(":");
        }
        path.push(own);
    }
    find_in(name, &path, wdir)
}

fn find_in(name: &OsStr, path: &OsStr, wdir: Option<&Path>) -> Result<PathBuf, LaunchError> {
    let has_slash = name.as_encoded_bytes().contains(&b'/');
    let listed = env::split_paths(path).map(|folder| folder.join(name));
    if !has_slash && let Some(found) = listed.into_iter().find(|file| why_not_executable(file).is_none()) {
        return absolute(&found);
    }
    let file = wdir.unwrap_or(Path::new("")).join(name);
    if name.is_empty() || !file.exists() {
        return Err(not_found(name, &file, path, wdir));
    }
    match why_not_executable(&file) {
        None => absolute(&file),
        Some(why) => Err(LaunchError::NotExecutable { program: file, why }),
    }
}

/// The error about a program that is not there. It names a program whose name is similar, if there is one.
fn not_found(name: &OsStr, file: &Path, path: &OsStr, wdir: Option<&Path>) -> LaunchError {
    let has_slash = name.as_encoded_bytes().contains(&b'/');
    let mut why = match (has_slash, wdir) {
        (true, None) => "does not exist".to_owned(),
        (true, Some(wdir)) => format!("does not exist in the directory of the tasks, {wdir:?}"),
        (false, None) => "is neither in the directories of PATH nor a file here".to_owned(),
        (false, Some(wdir)) => {
            format!("is neither in the directories of PATH nor in the directory of the tasks, {wdir:?}")
        }
    };
    let wanted = file.file_name().unwrap_or_default().to_string_lossy();
    let near_in = |folder: &Path| nearest(&wanted, programs_of(folder));
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = Path::new(name).parent().filter(|folder| !folder.as_os_str().is_empty());
    let near = near_in(folder).map(|near| written.unwrap_or(Path::new(".")).join(near));
    let in_path = || env::split_paths(path).find_map(|folder| near_in(&folder)).map(PathBuf::from);
    let near = near.or_else(|| if has_slash { None } else { in_path() });
    if wdir.is_some() && !name.is_empty() && Path::new(name).exists() {
        why += "; the current directory has it: write its full path";
    } else if let Some(near) = near {
        why += &format!("; perhaps {near:?} is meant");
    } else if !has_slash {
        why += "; write a path with a slash, or --example NAME for an example";
    }
    LaunchError::ProgramNotFound { program: PathBuf::from(name), why }
}

/// The names of the programs in a folder.
fn programs_of(folder: &Path) -> Vec<String> {
    let files = folder.read_dir().into_iter().flatten().flatten();
    let programs = files.filter(|file| why_not_executable(&file.path()).is_none());
    programs.filter_map(|file| file.file_name().into_string().ok()).collect()
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
        let found = find_in(OsStr::new("sh"), OsStr::new("/no/such/folder:/bin:/usr/bin"), None).unwrap();
        assert!(found.is_absolute() && found.ends_with("sh"));
        assert!(matches!(
            find_in(OsStr::new("./sh"), OsStr::new("/bin"), None),
            Err(LaunchError::ProgramNotFound { .. })
        ));
    }

    #[test]
    fn what_is_not_there_and_what_is_no_program_are_told_apart() {
        let path = OsStr::new("/bin");
        for missing in ["no-such-program", "./no-such-program", ""] {
            let error = find_in(OsStr::new(missing), path, None).unwrap_err();
            assert_eq!(error.exit_code(), 127, "{error}");
        }
        for refused in ["Cargo.toml", "./src"] {
            let error = find_in(OsStr::new(refused), path, None).unwrap_err();
            assert_eq!(error.exit_code(), 126, "{error}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_told_with_the_place_and_a_similar_name() {
        let said = |name: &str, wdir: Option<&str>| {
            let error = find_in(OsStr::new(name), OsStr::new("/bin"), wdir.map(Path::new)).unwrap_err();
            error.to_string()
        };
        assert_eq!(said("./no-such", None), r#"the program "./no-such" does not exist"#);
        assert_eq!(
            said("/bin/shh", None),
            r#"the program "/bin/shh" does not exist; perhaps "/bin/sh" is meant"#
        );
        assert!(said("no-such", None).ends_with("--example NAME for an example"));
        assert!(
            said("./shh", Some("/bin")).contains(r#"in the directory of the tasks, "/bin"; perhaps "./sh""#)
        );
        // This test runs in the folder of its package.
        let said = said("./src", Some("/bin"));
        assert!(said.ends_with("the current directory has it: write its full path"), "{said}");
    }
}
