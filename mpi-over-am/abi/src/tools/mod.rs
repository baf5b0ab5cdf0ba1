//! The programs beside the library: compiler wrappers, starters, the installer. All are one program that acts according to the name under
//! which it is called; an installation has this program once, with links to it.

pub(crate) mod face_names;
mod faces;
pub mod fortran;
pub mod install;
mod options;
mod pages;
pub mod standard_output;
pub mod starter;
pub mod wrapper;

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::ExitCode;

use wrapper::Wrapper;

/// A tool.
#[derive(Clone, Copy, Debug)]
enum Tool {
    Compiler(Wrapper),
    Starter,
    Install,
}

/// The tool of a name, including names that users know from other libraries.
fn tool(name: &str) -> Option<Tool> {
    Some(match name {
        "mpicc" => Tool::Compiler(Wrapper { name: "mpicc", ..wrapper::C }),
        "mpicxx" | "mpic++" => Tool::Compiler(Wrapper { name: "mpicxx", ..wrapper::CXX }),
        "mpifort" | "mpif90" | "mpif77" => Tool::Compiler(wrapper::FORTRAN),
        "oshcc" => Tool::Compiler(Wrapper { name: "oshcc", ..wrapper::C }),
        "oshc++" | "oshcxx" | "oshCC" => Tool::Compiler(Wrapper { name: "oshc++", ..wrapper::CXX }),
        "mpiexec" | "mpirun" | "oshrun" => Tool::Starter,
        "mpi-install" => Tool::Install,
        _ => return None,
    })
}

/// The first argument of a script that stands for a link, where there are no links, as in a wheel. The link's name follows.
const CALLED_AS: &str = "--called-as";

/// Becomes this program under another name, with the arguments behind it, if the arguments say so. Returns if they do not, or on an error.
fn become_called() -> Option<std::io::Error> {
    let mut words = std::env::args_os().skip(1);
    words.next().filter(|word| word == CALLED_AS)?;
    let name = words.next()?;
    let become_it = |own| mpi_over_am::become_program(std::process::Command::new(own).arg0(name).args(words));
    Some(std::env::current_exe().map_or_else(|error| error, become_it))
}

/// Lets the tasks that this process starts wait where they join the job, for a debugger.
pub fn hold_tasks() {
    starter::HOLDS_TASKS.store(true, std::sync::atomic::Ordering::Relaxed);
}

/// Runs the tool under whose name this process was called; if that is not a tool's name, runs the tool that was built as `own`.
#[must_use]
pub fn run(own: &'static str) -> ExitCode {
    if let Some(error) = become_called() {
        mpi_over_am::complain!("{own}: cannot run this program again: {error}");
        return ExitCode::FAILURE;
    }
    mpi_over_am::keep_ended_children();
    let called = std::env::args_os().next();
    let called = called.as_deref().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
    let (name, tool) = match called.and_then(|name| Some((name, tool(name)?))) {
        Some(found) => found,
        None => match tool(own) {
            Some(tool) => (own, tool),
            None => {
                mpi_over_am::complain!("{own} is not a tool of mpi-over-am");
                return ExitCode::FAILURE;
            }
        },
    };
    match tool {
        Tool::Compiler(wrapper) => wrapper.run(),
        Tool::Starter => starter::run(name),
        Tool::Install => install::run(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_installed_name_is_a_tool() {
        for name in install::NAMES {
            assert!(tool(name).is_some(), "{name}");
        }
        assert!(tool("amrun").is_none());
    }
}
