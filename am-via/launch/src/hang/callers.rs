//! The call that a task waits in and the function that made it, from the return addresses that the task has noted.
//!
//! The names are looked up here and not in the task, so that a waiting task does not load debug information for a report that may never be
//! printed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use addr2line::Loader;

/// The call in which a task waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// The call: the outermost function of this library.
    pub(super) name: Option<String>,
    /// The program's function that made the call, with file and line.
    pub(super) caller: Option<String>,
}

/// Symbols of the files read so far, kept for the other tasks, which run the same program.
#[derive(Default)]
pub(crate) struct Symbols {
    files: HashMap<PathBuf, Option<Loader>>,
    /// The last call of each process, and its return addresses: a process that still waits in that call is not looked up again.
    last: HashMap<u32, (Vec<u64>, Call)>,
}

/// A function on the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    /// The function's name; for an inlined function often without its path.
    function: String,
    /// The function's source file.
    file: Option<String>,
    line: Option<u32>,
}

impl Symbols {
    /// The call in which a process waits, from the return addresses on its stack, the innermost first.
    pub(super) fn call(&mut self, pid: u32, addresses: &[u64]) -> Call {
        if let Some((_, call)) = self.last.get(&pid).filter(|(known, _)| known == addresses) {
            return call.clone();
        }
        let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return Call::default() };
        let mut frames = Vec::new();
        for &address in addresses {
            // A return address is that of the instruction after the call.
            let at = address.wrapping_sub(1);
            let Some((file, begin)) = mapped_file(&maps, at) else { continue };
            self.add_frames(&file, begin, at, &mut frames);
        }
        let call = call_of(&frames);
        self.last.insert(pid, (addresses.to_owned(), call.clone()));
        call
    }

    /// Adds the functions at an address, the innermost inlined one first.
    fn add_frames(&mut self, file: &Path, begin: u64, at: u64, frames: &mut Vec<Frame>) {
        let loader = self.files.entry(file.to_owned()).or_insert_with(|| Loader::new(file).ok());
        let Some(loader) = loader else { return };
        let at = if has_fixed_addresses(file) { at } else { at.wrapping_sub(begin) };
        let mut found = false;
        if let Ok(mut inlined) = loader.find_frames(at) {
            while let Ok(Some(frame)) = inlined.next() {
                let Some(name) = &frame.function else { continue };
                let Ok(function) = name.demangle() else { continue };
                let (file, line) = match &frame.location {
                    Some(location) => (location.file.map(str::to_owned), location.line),
                    None => (None, None),
                };
                found = true;
                frames.push(Frame { function: function.into_owned(), file, line });
            }
        }
        if !found && let Some(symbol) = loader.find_symbol(at) {
            let function = addr2line::demangle_auto(symbol.into(), None).into_owned();
            frames.push(Frame { function, file: None, line: None });
        }
    }
}

/// The file that is mapped at an address, and the address at which its beginning is (or would be) mapped. `None` if no file is mapped
/// there.
fn mapped_file(maps: &str, at: u64) -> Option<(PathBuf, u64)> {
    let line = maps.lines().find(|line| range_of(line).is_some_and(|(from, to)| (from..to).contains(&at)))?;
    let path = line.get(line.find('/')?..)?;
    let first = maps.lines().find(|line| line.ends_with(path))?;
    let offset = u64::from_str_radix(first.split_ascii_whitespace().nth(2)?, 16).ok()?;
    Some((path.into(), range_of(first)?.0.wrapping_sub(offset)))
}

fn range_of(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.split_ascii_whitespace().next()?.split_once('-')?;
    Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
}

/// Whether the file is a program with fixed addresses (`ET_EXEC` of ELF).
fn has_fixed_addresses(file: &Path) -> bool {
    use std::io::Read as _;
    let mut head = [0; 18];
    std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head[16..] == [2, 0]
}

/// The folders of this library's crates and of the crates below them.
const CRATES: [&str; 3] = ["am-core", "am-via", "mpi-over-am"];
const CRATES_BELOW: [&str; 20] = [
    "abi", "atomics", "conform", "contract", "copies", "datatype", "double", "engine", "events", "io", "job",
    "launch", "malloc", "matching", "nic", "ofi", "os", "shm", "shmem", "vipl",
];

impl Frame {
    /// Whether the function belongs to this library: to its C or Fortran interface, or its crates.
    fn is_ours(&self) -> bool {
        let of_mpi = ["MPI_", "PMPI_", "mpi_", "pmpi_"];
        let of_crate = ["am_contract", "am_core", "am_events", "am_via", "mpi_over_am"];
        let path = self.function.trim_start_matches(['<', '&']);
        of_mpi.iter().any(|prefix| path.starts_with(prefix))
            || of_crate
                .iter()
                .any(|name| path.strip_prefix(name).is_some_and(|rest| rest.starts_with(['_', ':'])))
            || self.file.as_deref().is_some_and(is_our_source)
    }

    /// Whether the function is part of Rust's standard library, which may be between this library's frames and the program's.
    fn is_between(&self) -> bool {
        let path = self.function.trim_start_matches('<');
        ["core::", "std::", "alloc::", "__rust_try"].iter().any(|prefix| path.starts_with(prefix))
            || self.file.as_deref().is_some_and(|file| file.starts_with("/rustc/"))
    }
}

/// Whether a file is a source of this library's crates, in this workspace or as a package with a version.
fn is_our_source(file: &str) -> bool {
    let is_ours = |name: &str| {
        let versioned =
            |own: &str| name.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with("-0."));
        CRATES.into_iter().any(versioned)
    };
    // The interfaces of other libraries name their sources `mpi-over-am/abi/mpich/../src`.
    let mut folders: Vec<&str> = Vec::new();
    for part in file.split('/') {
        if part != ".." {
            folders.push(part);
        } else {
            folders.pop();
        }
    }
    folders.iter().enumerate().filter(|&(_, &part)| part == "src").any(|(at, _)| match folders[..at] {
        [.., above, last] if CRATES_BELOW.contains(&last) => is_ours(above),
        [.., last] => is_ours(last),
        [] => false,
    })
}

/// The outermost function of the innermost sequence of this library's frames, and its caller.
fn call_of(frames: &[Frame]) -> Call {
    let ours = frames.iter().position(Frame::is_ours);
    let Some(begin) = ours else { return Call::default() };
    let foreign = frames[begin..]
        .iter()
        .position(|frame| !frame.is_ours() && !frame.is_between())
        .map_or(frames.len(), |run| begin + run);
    let outermost = frames[begin..foreign].iter().rev().find(|frame| frame.is_ours());
    let caller = frames.get(foreign).map(|frame| {
        let mut text = short(&frame.function);
        if let (Some(file), Some(line)) = (&frame.file, frame.line) {
            // Writing to a String cannot fail.
            let _ = write!(text, " at {}:{line}", file.rsplit('/').next().unwrap_or(file));
        }
        text
    });
    Call { name: outermost.map(|frame| short(&frame.function)), caller }
}

/// A function's short name: without crates, generics and hashes. `PMPI_Recv` is shown as `MPI_Recv`, another symbol of the same address.
fn short(function: &str) -> String {
    let of_mpi = |name: &&str| name.starts_with("MPI_") || name.starts_with("mpi_");
    let function = function.strip_prefix(['P', 'p']).filter(of_mpi).unwrap_or(function);
    let mut plain = String::new();
    let mut depth = 0_u32;
    for (at, character) in function.char_indices() {
        match character {
            // The type in the name of a trait's method is in brackets too: `<Type as Trait>::method`.
            '<' if at == 0 => {}
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    let plain = plain.split(" as ").next().map_or_else(String::new, |first| match plain.rsplit_once("::") {
        Some((before, method)) if before.len() > first.len() => format!("{first}::{method}"),
        _ => plain.clone(),
    });
    let parts: Vec<&str> = plain
        .split("::")
        .filter(|part| !part.is_empty() && !part.starts_with('{') && !is_hash(part))
        .collect();
    let from = parts.len().saturating_sub(2);
    // The module before a function that is not a method is left out.
    match parts.get(from..) {
        Some([module, function]) if !module.starts_with(char::is_uppercase) => (*function).to_owned(),
        Some(names) => names.join("::"),
        None => plain,
    }
}

/// Whether a part of a name is a hash that the compiler has added.
fn is_hash(part: &str) -> bool {
    part.len() == 17 && part.starts_with('h') && part[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(functions: &[&str]) -> Vec<Frame> {
        functions
            .iter()
            .map(|&function| Frame { function: function.into(), file: None, line: None })
            .collect()
    }

    #[test]
    fn names_are_short() {
        for (long, expected) in [
            ("MPI_Recv", "MPI_Recv"),
            ("PMPI_Recv", "MPI_Recv"),
            ("pmpi_recv_", "mpi_recv_"),
            ("print", "print"),
            ("am_core::context::Context<F,H>::wait_counter", "Context::wait_counter"),
            (
                "am_core::context::Context<am_via::fabric::ViaFabric, H>::wait_until::{{closure}}",
                "Context::wait_until",
            ),
            ("ring::exchange::h0123456789abcdef", "exchange"),
            ("<mpi_over_am::request::Kept as core::future::Future>::poll", "Kept::poll"),
            ("main", "main"),
        ] {
            assert_eq!(short(long), expected, "{long}");
        }
    }

    #[test]
    fn the_call_is_the_outermost_function_of_ours_next_to_the_wait() {
        let stack = frames(&[
            "am_via_shm::Doorbell::sleep",
            "am_core::context::Context<F,H>::wait_until",
            "core::ops::function::FnOnce::call_once",
            "mpi_over_am::turn::Turn<F,L>::wait_for",
            "MPI_Recv",
            "exchange",
            "main",
            "mpi_over_am::environment::run",
        ]);
        let call = call_of(&stack);
        assert_eq!((call.name.as_deref(), call.caller.as_deref()), (Some("MPI_Recv"), Some("exchange")));
        assert_eq!(call_of(&frames(&["futex", "main"])), Call::default());
    }

    #[test]
    fn an_inlined_function_is_known_by_its_source() {
        let mut stack = frames(&["sleep", "recv", "exchange"]);
        stack[0].file = Some("/home/x/am/am-core/src/context.rs".into());
        stack[1].file = Some("/home/x/.cargo/registry/src/y/mpi-over-am-0.1.0/src/communicator.rs".into());
        (stack[2].file, stack[2].line) = (Some("/home/x/mpi-over-am/examples/src/main.rs".into()), Some(7));
        let call = call_of(&stack);
        assert_eq!(
            (call.name.as_deref(), call.caller.as_deref()),
            (Some("recv"), Some("exchange at main.rs:7"))
        );
    }

    #[test]
    fn functions_of_the_interfaces_of_other_libraries_are_known_by_their_sources() {
        let mut stack = frames(&["mprobe", "{closure#0}", "mpi_mprobe", "MPI_Mprobe", "exchange"]);
        stack[0].file = Some("/home/x/am/mpi-over-am/src/communicator/probe.rs".into());
        for (interface, crate_name) in [("mpich", "mpi_mpich"), ("openmpi", "mpi_openmpi")] {
            stack[1].file = Some(format!("mpi-over-am/abi/{interface}/../src/point_to_point.rs"));
            stack[2].function = format!("{crate_name}::point_to_point::mpi_mprobe");
            let call = call_of(&stack);
            assert_eq!(
                (call.name.as_deref(), call.caller.as_deref()),
                (Some("MPI_Mprobe"), Some("exchange"))
            );
        }
    }

    #[test]
    fn addresses_are_found_in_the_mappings() {
        let maps = "1000-2000 r--p 00000000 08:01 5 /usr/bin/prog\n2000-3000 r-xp 00001000 08:01 5 /usr/bin/prog\n\
                    7000-8000 rw-p 00000000 00:00 0 [heap]\n";
        assert_eq!(mapped_file(maps, 0x2345), Some((PathBuf::from("/usr/bin/prog"), 0x1000)));
        assert_eq!(mapped_file(maps, 0x7345), None);
        assert_eq!(mapped_file(maps, 0x9345), None);
    }

    #[test]
    fn this_function_is_found_by_its_address() {
        let at = this_test_looks_here as fn() as usize as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let (file, begin) = mapped_file(&maps, at).unwrap();
        let mut frames = Vec::new();
        Symbols::default().add_frames(&file, begin, at, &mut frames);
        assert!(frames.iter().any(|frame| frame.function.contains("this_test_looks_here")), "{frames:?}");
    }

    #[inline(never)]
    fn this_test_looks_here() {
        std::hint::black_box(());
    }
}
