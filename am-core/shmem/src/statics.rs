//! Symmetric static data: the writable segments of the program, over which memory of all tasks is mapped.
//!
//! The segments' contents move there first. The part that the loader makes read-only after relocation is left out. Shared libraries are
//! not symmetric (OpenSHMEM 1.6, section 3.1).

use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr::NonNull;

use am_core::pgas::{Common, agree};
use am_core::task::TaskId;
use am_core::{Context, Error, Result};
use am_via::ShmFabric;
use am_via_os::fork;

use crate::second_mapping;
use crate::world::Statics;

const PAGE: usize = 4096;

/// The program: its writable segments, and what tells it from others.
struct Program {
    /// Whole pages, as addresses.
    segments: Vec<(usize, usize)>,
    identity: u64,
    /// What is added to the addresses in its file.
    base: usize,
}

/// What is added to the addresses in the program's file.
pub(crate) fn base() -> usize {
    find().base
}

/// Collective: makes the program's static data symmetric. No other thread of the program may run.
///
/// # Errors
/// Tasks that run different programs, or those of [`Common::new`].
pub(crate) fn share(context: &mut Context<ShmFabric>) -> Result<Vec<Statics>> {
    let program = find();
    agree(
        context,
        program.identity,
        "as the identity of its program (a digest of its segments and build id)",
    )?;
    agree(context, program.segments.len() as u64, "writable segments of its program")?;
    let me = context.task();
    program.segments.into_iter().map(|segment| map(context, me, segment)).collect()
}

fn map(context: &mut Context<ShmFabric>, me: TaskId, (from, to): (usize, usize)) -> Result<Statics> {
    let len = to - from;
    let memory = Common::new(context, len as u64)?;
    let own = memory
        .at(me)
        .ok_or(Error::System { doing: "mapping static data", source: "it is not mapped".into() })?;
    let base: *mut u8 = std::ptr::with_exposed_provenance_mut(from);
    // SAFETY: the pages of the segment are readable, and nothing changes them before the next call; the memory is as long. It takes their
    // place with the same contents, so the program sees no change.
    unsafe {
        std::ptr::copy_nonoverlapping(base.cast_const(), own, len);
        second_mapping::map(&memory, base, "mapping memory over the program's static data")?;
    }
    memory.keep(context);
    if let Some(at) = NonNull::new(base) {
        // SAFETY: one whole mapping, made above, which stays until the process ends; a child expects its contents.
        unsafe {
            fork::note(at, len, fork::Keeps::Contents);
            am_via_os::memory::set_in_dumps(at, len, true);
        }
    }
    Ok(Statics { base: from, memory })
}

fn find() -> Program {
    /// The program is the first object.
    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut std::ffi::c_void,
    ) -> c_int {
        // SAFETY: the loader passes a description that lives during the call, and `data` is the program below.
        unsafe {
            let (info, program) = (&*info, &mut *data.cast::<Program>());
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            *program = of_headers(info.dlpi_addr as usize, headers);
        }
        1
    }
    let mut program = Program { segments: Vec::new(), identity: 0, base: 0 };
    // SAFETY: the function has the type that the loader calls, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut program).cast()) };
    program
}

/// # Safety
/// The headers must be those of an object that is loaded at `base`.
unsafe fn of_headers(base: usize, headers: &[libc::Elf64_Phdr]) -> Program {
    let mut hasher = DefaultHasher::new();
    let mut segments = Vec::new();
    let read_only = headers.iter().find(|header| header.p_type == libc::PT_GNU_RELRO);
    // The loader protects whole pages.
    let read_only = read_only.map(|header| {
        let from = base + header.p_vaddr as usize;
        (from / PAGE * PAGE, (from + header.p_memsz as usize) / PAGE * PAGE)
    });
    for header in headers {
        (header.p_type, header.p_vaddr, header.p_memsz, header.p_filesz, header.p_flags).hash(&mut hasher);
        if header.p_type == libc::PT_NOTE {
            let at: *const u8 = std::ptr::with_exposed_provenance(base + header.p_vaddr as usize);
            // SAFETY: a segment of the object, which is loaded and readable. It has the build id.
            unsafe { std::slice::from_raw_parts(at, header.p_memsz as usize) }.hash(&mut hasher);
        }
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W == 0 || header.p_memsz == 0 {
            continue;
        }
        let mut from = (base + header.p_vaddr as usize) / PAGE * PAGE;
        let to = (base + header.p_vaddr as usize + header.p_memsz as usize).next_multiple_of(PAGE);
        if let Some((_, end)) = read_only.filter(|&(begin, end)| begin < to && end > from) {
            from = end;
        }
        if from < to {
            segments.push((from, to));
        }
    }
    Program { segments, identity: hasher.finish(), base }
}
