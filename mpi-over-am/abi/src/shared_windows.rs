//! Windows on memory that all tasks load from and store to (MPI 5.0 section 12.2.3).
//!
//! The first rank makes one memory file for all parts and says by which of its descriptors it has it; the others open it through
//! the system's table of open files, and all map it. The file has no name and lives as long as somebody has it mapped.
//!
//! SAFETY: every function here is called by C, under the contract that the standard gives it: pointers are good for what the
//! standard says they are for, buffers are left alone until their operation has ended, and one thread at a time is inside
//! (`state`).

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

use mpi_over_am::{Communicator, ErrorClass, WindowMemory, op};

use crate::data::dest_of;
use crate::errors::{Failure, Outcome, on_communicator, place};
use crate::infos::info_of;
use crate::types::{MPI_Comm, MPI_Info, MPI_PROC_NULL, MPI_Win};
use crate::windows::{SHARED, keep_as, on_window, size_of, unit_of};

/// Where a part of its own begins, if the parts need not lie side by side: nobody shares a page with another.
const PAGE_BYTES: u64 = 4096;

/// A task's part.
#[derive(Clone, Copy, Debug)]
struct Part {
    offset: u64,
    size: u64,
    unit: u64,
}

/// The memory of all parts, mapped.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    at: *mut u8,
    len: usize,
    parts: Vec<Part>,
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: this value has mapped it, and the window on it is gone: it stands before this in its object. The program uses
        // no address of a window that it has freed.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

impl SharedMemory {
    fn base_of(&self, part: Part) -> *mut u8 {
        self.at.wrapping_add(part.offset as usize)
    }

    /// Makes the memory. Collective.
    ///
    /// # Errors
    /// There is no memory, or a task cannot map it: then all have this error.
    fn new(communicator: &Communicator, size: u64, unit: u64, apart: bool) -> Outcome<Self> {
        let mut all = vec![[0u64; 2]; communicator.size() as usize];
        communicator.allgather(&[[size, unit]], &mut all)?;
        let (mut parts, mut end) = (Vec::with_capacity(all.len()), 0u64);
        for [size, unit] in all {
            parts.push(Part { offset: end, size, unit });
            let step = if apart { size.checked_next_multiple_of(PAGE_BYTES) } else { Some(size) };
            let next = step.and_then(|step| end.checked_add(step));
            end = next.ok_or_else(|| Failure::new(ErrorClass::Size, "the parts are too large together"))?;
        }
        let mapped = map_of_all(communicator, end.max(1))?;
        let mut are_there = [u32::from(mapped.is_ok())];
        communicator.allreduce_in_place(&mut are_there, op::Min)?;
        // The value unmaps, whatever comes now.
        let own = mapped.map(|(at, len)| Self { at, len, parts });
        match own {
            Ok(own) if are_there == [1] => Ok(own),
            Ok(_) => Err(refused("another task cannot map it")),
            Err(error) => Err(refused(&error.to_string())),
        }
    }
}

fn refused(why: &str) -> Failure {
    Failure::new(ErrorClass::RmaShared, format!("memory that all tasks share is not to be had: {why}"))
}

/// A new memory file.
fn new_file(len: u64) -> io::Result<File> {
    // SAFETY: the name is a string that ends; the descriptor belongs to the file from here on.
    let file = unsafe {
        match libc::memfd_create(c"mpi shared window".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => return Err(io::Error::last_os_error()),
            descriptor => File::from_raw_fd(descriptor),
        }
    };
    file.set_len(len)?;
    Ok(file)
}

fn map(file: &File, len: usize) -> io::Result<(*mut u8, usize)> {
    // SAFETY: a new mapping at a place of the system's choice, of a file that is open and has this length.
    let at = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok((at.cast(), len)) }
}

/// Maps one file in all tasks. The inner error is the system's.
fn map_of_all(communicator: &Communicator, len: u64) -> Outcome<io::Result<(*mut u8, usize)>> {
    let bytes =
        usize::try_from(len).map_err(|_| Failure::new(ErrorClass::Size, "the parts are too large"))?;
    let is_first = communicator.rank() == 0;
    let made = if is_first { new_file(len).map(Some) } else { Ok(None) };
    let descriptor = made.as_ref().ok().and_then(Option::as_ref).map_or(-1, AsRawFd::as_raw_fd);
    // Who has it, by which descriptor; -1 if it could not be made.
    let mut where_it_is = [i64::from(std::process::id()), i64::from(descriptor)];
    communicator.broadcast(&mut where_it_is, 0)?;
    let [process, descriptor] = where_it_is;
    let mapped = match made {
        Err(error) => Err(error),
        Ok(Some(file)) => map(&file, bytes).map(|mapped| (mapped, Some(file))),
        Ok(None) if descriptor < 0 => Err(io::Error::other("the first task could not make it")),
        Ok(None) => File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{process}/fd/{descriptor}"))
            .and_then(|file| map(&file, bytes))
            .map(|mapped| (mapped, None)),
    };
    // The first one keeps its descriptor until all have looked.
    communicator.barrier()?;
    Ok(mapped.map(|(mapped, _)| mapped))
}

pub(crate) unsafe fn mpi_win_allocate_shared_c(
    size: i64,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> c_int {
    on_communicator("MPI_Win_allocate_shared", comm, |mpi, object| {
        let (size, unit, info) = (size_of(size)?, unit_of(disp_unit)?, info_of(info)?);
        let (win, baseptr) = (place(win)?, place(baseptr)?);
        let communicator = &object.communicator;
        let apart = info.get("alloc_shared_noncontig")? == Some("true");
        let memory = SharedMemory::new(communicator, size as u64, unit.into(), apart)?;
        let base = memory.base_of(memory.parts[communicator.rank() as usize]);
        // The part is mapped as long as the window is there.
        let part = unsafe { WindowMemory::from_raw(base, size) };
        let window = communicator.create_window(part, unit, &info)?;
        unsafe { *baseptr.cast::<*mut u8>() = base };
        keep_as(mpi, window, SHARED, Some(memory), win)
    })
}

pub(crate) unsafe fn mpi_win_shared_query_c(
    win: MPI_Win,
    rank: c_int,
    size: *mut i64,
    disp_unit: *mut i64,
    baseptr: *mut c_void,
) -> c_int {
    on_window("MPI_Win_shared_query", win, |_, object| {
        let (size, disp_unit, baseptr) = (place(size)?, place(disp_unit)?, place(baseptr)?);
        let tasks = object.window.group().size();
        let asked = dest_of(rank)?;
        if rank != MPI_PROC_NULL && asked >= tasks {
            let what = format!("rank {rank} does not exist: the window has {tasks}");
            return Err(Failure::new(ErrorClass::Rank, what));
        }
        let (part, base) = match &object.shared {
            Some(memory) => {
                // Nobody's part is the first one that has a byte.
                let first = || memory.parts.iter().find(|part| part.size > 0).copied();
                let part = memory.parts.get(asked as usize).copied().or_else(first);
                (part, part.map_or(std::ptr::null_mut(), |part| memory.base_of(part)))
            }
            // Of other windows only the own part can be reached: of the others it is no byte at no address.
            None if asked == object.window.rank() || rank == MPI_PROC_NULL && tasks == 1 => {
                let own = Part { offset: 0, size: object.window.size(), unit: object.window.unit() };
                (Some(own), object.window.base())
            }
            None => (None, std::ptr::null_mut()),
        };
        unsafe {
            *size = part.map_or(0, |part| part.size as i64);
            *disp_unit = part.map_or(1, |part| part.unit as i64);
            *baseptr.cast::<*mut u8>() = base;
        }
        Ok(())
    })
}
