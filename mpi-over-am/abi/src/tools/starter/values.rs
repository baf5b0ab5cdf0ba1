//! Values of options that are small languages of their own.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::{Plan, number};

impl Plan {
    /// Binds tasks: `core`, `core:2`, with qualifiers such as `core:overload-allowed`. Tasks are not bound to sets that the machine's
    /// topology gives.
    pub(super) fn bind(&mut self, option: &str, place: &str) -> Result<(), String> {
        let (unit, number) = match place.split_once(':') {
            Some((unit, number)) if number.parse::<u32>().is_ok() => (unit, Some(number)),
            Some((unit, "overload-allowed" | "if-supported" | "no-overload" | "report")) => (unit, None),
            Some(_) => ("", None),
            None => (place, None),
        };
        match (unit, number) {
            ("core" | "hwthread" | "rr", None) => self.pass("--bind", "core"),
            ("core" | "hwthread", Some(number)) => self.pass("--bind", format!("core:{number}")),
            ("none" | "machine", None) => self.pass("--bind", "none"),
            ("board" | "socket" | "package" | "numa" | "l3cache" | "l2cache" | "l1cache", _) => {
                mpi_over_am::complain!(
                    "mpiexec: {option} {place}: tasks are not bound; {option} core:N binds each task to N processors"
                );
                self.pass("--bind", "none");
            }
            _ => {
                return Err(format!(
                    "{option} {place}: write core, core:N (N processors for each task), or none; --cpu-set names processors"
                ));
            }
        }
        Ok(())
    }

    /// `--map-by`: the number of tasks on each host (`ppr:N:node`), the processors of each task (`PE=N`), and whether there may be more
    /// tasks than slots. Tasks fill the hosts in order.
    pub(super) fn map(&mut self, option: &str, mapping: &str) -> Result<(), String> {
        let lower = mapping.to_ascii_lowercase();
        let mut words = lower.split([':', ',']);
        while let Some(word) = words.next() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("ppr", _) => {
                    match (words.next().and_then(|tasks| tasks.parse::<u32>().ok()), words.next()) {
                        (Some(tasks), Some("node")) if tasks > 0 => self.tasks_a_host = Some(tasks),
                        _ => {
                            return Err(format!(
                                "{option} {mapping}: write ppr:N:node, or -N N, for N tasks on each host"
                            ));
                        }
                    }
                }
                ("pe", cores) => {
                    let cores = number(&format!("{option} pe="), OsStr::new(cores))?;
                    self.pass("--bind", format!("core:{cores}"));
                }
                ("oversubscribe", _) => self.options.push("--oversubscribe".into()),
                ("nooversubscribe", _) => self.forbids_oversubscription = true,
                ("rankfile" | "seq" | "file" | "pe-list", _) => {
                    return Err(format!(
                        "{option} {mapping}: -host HOST:TASKS,... places tasks on hosts, --bind-to core:N and --cpu-set on processors"
                    ));
                }
                ("node" | "span" | "dist", _) => mpi_over_am::complain!(
                    "mpiexec: {option} {mapping}: on several hosts, tasks fill the hosts in order; -N N gives each host N tasks"
                ),
                (
                    "slot" | "core" | "hwthread" | "l1cache" | "l2cache" | "l3cache" | "numa" | "package"
                    | "socket" | "board",
                    _,
                )
                | (
                    "inherit" | "noinherit" | "display" | "displaydevel" | "hwtcpus" | "corecpus" | "nolocal"
                    | "",
                    _,
                ) => {}
                _ => {
                    return Err(format!(
                        "{option} {mapping}: {word} is not known; ppr:N:node gives each host N tasks, PE=N each task N processors"
                    ));
                }
            }
        }
        Ok(())
    }

    /// `--output`: tags, times, and files.
    pub(super) fn output(&mut self, option: &str, list: &str) -> Result<(), String> {
        for part in list.split(',') {
            let (word, folder) = part.split_once('=').unwrap_or((part, ""));
            match &*word.to_ascii_lowercase() {
                "tag" | "rank" | "tag-detailed" | "tag_detailed" | "tag-fullname" | "tag_fullname" => {
                    self.options.push("--tag-output".into());
                }
                "timestamp" => self.options.push("--timestamp-output".into()),
                "merge" | "merge-stderr-to-stdout" => self.options.push("--merge-output".into()),
                "dir" | "directory" | "file" | "filename" if !folder.is_empty() => {
                    let folder = folder.split(':').next().unwrap_or(folder);
                    self.pass("--output-dir", folder);
                }
                _ => {
                    return Err(format!(
                        "{option} {part}: write tag, timestamp, merge, or dir=FOLDER (or file=FOLDER)"
                    ));
                }
            }
        }
        Ok(())
    }

    /// `--display`.
    pub(super) fn display(&mut self, option: &str, list: &str) {
        for part in list.split(',') {
            match part.split([':', '-']).next().unwrap_or(part) {
                "map" | "allocation" | "alloc" => self.options.push("--verbose".into()),
                "bind" | "bindings" => self.options.push("--report-bindings".into()),
                _ => mpi_over_am::complain!(
                    "mpiexec: {option} {part} has no effect: write map or bind; mpiexec --info describes the machine"
                ),
            }
        }
    }
}

/// `--report-pid`: the number of this process, which becomes the launcher.
pub(super) fn report_pid(option: &str, file: &OsStr) -> Result<(), String> {
    let line = format!("{}\n", std::process::id());
    match file.to_str() {
        Some("-") => {
            let _ = mpi_over_am::say("mpiexec", &line);
            Ok(())
        }
        Some("+") => {
            mpi_over_am::complain!("{}", line.trim_end());
            Ok(())
        }
        _ => {
            fs::write(file, line).map_err(|error| format!("{option} {}: {error}", Path::new(file).display()))
        }
    }
}
