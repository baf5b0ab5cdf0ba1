//! What parallel debuggers read of the launcher: the MPIR Process Acquisition Interface (MPI Forum, version 1.1).
//!
//! A debugger starts `mpiexec` or `amrun`, or attaches to it, and reads the variables below by their names: they are those of the process
//! that the user sees, which guards the launcher. The launcher sends that process a list of its tasks. If a debugger has set
//! `MPIR_being_debugged`, tasks wait where they join the job until the debugger, which stops in `MPIR_Breakpoint`, lets this process go on.

use std::ffi::{CString, c_char, c_int};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use serde::{Deserialize, Serialize};

use crate::Running;

/// `MPIR_DEBUG_SPAWNED`.
const SPAWNED: c_int = 1;

/// `MPIR_PROCDESC`: an entry of the table of tasks.
#[repr(C)]
struct ProcDesc {
    host_name: *mut c_char,
    executable_name: *mut c_char,
    pid: c_int,
}

/// Set by the debugger.
// SAFETY: the interface's name, which no other symbol of this program has; so below.
#[unsafe(no_mangle)]
static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);
#[unsafe(no_mangle)]
static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);
#[unsafe(no_mangle)]
static MPIR_proctable: AtomicPtr<ProcDesc> = AtomicPtr::new(ptr::null_mut());
#[unsafe(no_mangle)]
static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);
/// That it is there says that this process is not a task.
#[unsafe(no_mangle)]
static MPIR_i_am_starter: AtomicI32 = AtomicI32::new(1);
/// That it is there says that the debugger need not attach to all tasks.
#[unsafe(no_mangle)]
static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(1);

/// The debugger stops here when the table of tasks is filled.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn MPIR_Breakpoint() {
    std::hint::black_box(());
}

/// A task, as the launcher tells the process that guards it.
#[derive(Debug, Serialize, Deserialize)]
struct Described {
    host: String,
    program: String,
    pid: u32,
}

/// The guard's ends of two pipes: by one the launcher sends the list of tasks, by the other it learns that they need not wait any more.
#[derive(Debug)]
pub(crate) struct Tasks {
    list: PipeReader,
    go_on: PipeWriter,
    /// The launcher opens its ends by the guard's numbers. Kept until it has.
    of_launcher: Option<(PipeWriter, PipeReader)>,
}

impl Tasks {
    pub(crate) fn new() -> io::Result<Self> {
        // The linker keeps what is used.
        std::hint::black_box([&MPIR_i_am_starter, &MPIR_partial_attach_ok]);
        let ((list, write), (read, go_on)) = (io::pipe()?, io::pipe()?);
        Ok(Self { list, go_on, of_launcher: Some((write, read)) })
    }

    /// The launcher's arguments: the numbers of its ends among this process's files; whether tasks wait, unless `hold` says so already.
    pub(crate) fn arguments(&self, hold: bool) -> Vec<String> {
        let numbers = self
            .of_launcher
            .iter()
            .map(|(write, read)| format!("{},{}", write.as_raw_fd(), read.as_raw_fd()));
        let mut words: Vec<String> = numbers.flat_map(|numbers| ["--debugger".to_owned(), numbers]).collect();
        if hold {
            MPIR_being_debugged.store(1, Ordering::Relaxed);
        } else if MPIR_being_debugged.load(Ordering::Relaxed) != 0 {
            words.push("--hold".to_owned());
        }
        words
    }

    /// What is readable when the list comes, or the launcher has closed its end.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.list.as_fd()
    }

    /// Takes the list, shows it to a debugger, and lets the tasks go on.
    pub(crate) fn take(mut self) -> io::Result<()> {
        self.of_launcher = None;
        let mut text = String::new();
        self.list.read_to_string(&mut text)?;
        let tasks: Vec<Described> = serde_json::from_str(&text)?;
        let text = |text: String| CString::new(text).unwrap_or_default().into_raw();
        let table: Vec<ProcDesc> = tasks
            .into_iter()
            .map(|task| ProcDesc {
                host_name: text(task.host),
                executable_name: text(task.program),
                pid: task.pid.cast_signed(),
            })
            .collect();
        MPIR_proctable_size.store(c_int::try_from(table.len()).unwrap_or(c_int::MAX), Ordering::Relaxed);
        // Never freed: a debugger may read it as long as this process lives. Release, though no load here pairs with it: a debugger may
        // stop this process anywhere, and must find the table and its size if it finds the state.
        MPIR_proctable.store(Box::leak(table.into_boxed_slice()).as_mut_ptr(), Ordering::Release);
        MPIR_debug_state.store(SPAWNED, Ordering::Release);
        if MPIR_being_debugged.load(Ordering::Relaxed) != 0 {
            MPIR_Breakpoint();
        }
        // A launcher that does not wait may have closed its end.
        let _ = self.go_on.write_all(&[1]);
        Ok(())
    }
}

/// Tells the process that guards this launcher of the tasks. With `hold`, waits until it says that they may go on.
///
/// # Errors
/// The guard's pipes, which `numbers` names among the files of process `guard`, cannot be opened, written or read.
pub fn show_tasks(running: &Running, guard: u32, numbers: &str, hold: bool) -> io::Result<()> {
    let file = |number: &str| format!("/proc/{guard}/fd/{number}");
    let (list, go_on) = numbers.split_once(',').unwrap_or_default();
    let mut go_on = File::open(file(go_on))?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let described = |(task, pid): (u32, u32)| Described {
        host: host.trim().to_owned(),
        program: std::fs::read_link(format!("/proc/{pid}/exe"))
            .map_or_else(|_| format!("task {task}"), |path| path.to_string_lossy().into_owned()),
        pid,
    };
    let tasks: Vec<Described> = running.pids().map(described).collect();
    File::options().write(true).open(file(list))?.write_all(&serde_json::to_vec(&tasks)?)?;
    if hold {
        go_on.read_exact(&mut [0])?;
    }
    Ok(())
}
