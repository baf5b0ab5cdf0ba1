//! The job of this process, and its symmetric objects: where the bytes of another PE are.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use am_core::RemoteAddress;
use am_core::pgas::Common;
use am_core::shared::SharedContext;
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_via::job::Job;
use am_via::{ShmFabric, Task};

use crate::objects::{Teams, Tokens};
use crate::symmetric_heap;

/// Bytes at the start of each PE's part of the heap that the program does not see: the words below, and the tokens of collectives.
pub(crate) const HEADER_BYTES: usize = 4096;
/// The context of OpenSHMEM: the last of a task, since MPI uses them from the first on.
pub(crate) const CONTEXT: ContextNumber = ContextNumber(15);
/// Offset of a word that is not 0 when a thread of the PE sleeps, or is about to, until a word changes.
const ASLEEP: usize = 0;
/// Offset of a word that is not 0 when the PE is to end: see `shmem_global_exit`.
pub(crate) const EXIT: usize = 64;

/// What the fast paths need. `pes` is 0 before `shmem_init` and after `shmem_finalize`.
pub(crate) struct Fast {
    pes: AtomicU32,
    me: AtomicU32,
    /// Start and length of this PE's part of the heap, header included.
    base: AtomicUsize,
    len: AtomicUsize,
    /// For each PE, where its part of the heap is mapped; null: it is on another host.
    parts: AtomicPtr<*mut u8>,
}

pub(crate) static FAST: Fast = Fast {
    pes: AtomicU32::new(0),
    me: AtomicU32::new(0),
    base: AtomicUsize::new(0),
    len: AtomicUsize::new(0),
    parts: AtomicPtr::new(std::ptr::null_mut()),
};

/// The world while the library is in use.
static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());
/// Whether some PE is on another host.
static HAS_FAR: AtomicBool = AtomicBool::new(false);

/// The job, and this PE in it.
pub(crate) struct World {
    pub(crate) shared: SharedContext<ShmFabric>,
    pub(crate) job: Arc<Job>,
    pub(crate) me: u32,
    pub(crate) pes: u32,
    pub(crate) heap: symmetric_heap::SymmetricHeap,
    pub(crate) tokens: Tokens,
    pub(crate) teams: Teams,
    pub(crate) heap_memory: Common,
    pub(crate) statics: Vec<Statics>,
    parts: Box<[*mut u8]>,
    pub(crate) _task: Task,
}

// SAFETY: the pointers are to mappings that stay until the world ends; they are used by any thread.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

/// A writable segment of the program.
pub(crate) struct Statics {
    /// Where the segment begins in this PE.
    pub(crate) base: usize,
    pub(crate) memory: Common,
}

/// Bytes of another PE.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// They are mapped here.
    Mapped(Target),
    /// They are on another host.
    Far(RemoteAddress),
}

/// Mapped bytes of a PE.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) at: *mut u8,
    /// The PE's part of the heap, whose first bytes tell whether it sleeps.
    pub(crate) part: *mut u8,
}

impl World {
    pub(crate) fn new(
        task: Task,
        shared: SharedContext<ShmFabric>,
        (heap_memory, own_part): (Common, *mut u8),
        statics: Vec<Statics>,
        control_bytes: usize,
    ) -> Self {
        let job = Arc::clone(task.job());
        let (me, pes) = (job.task(), job.num_tasks());
        let mut parts: Box<[*mut u8]> =
            (0..pes).map(|pe| heap_memory.at(TaskId(pe)).unwrap_or(std::ptr::null_mut())).collect();
        parts[me as usize] = own_part;
        let heap = symmetric_heap::SymmetricHeap::new(control_bytes as u64, heap_memory.len());
        Self {
            shared,
            job,
            me,
            pes,
            heap,
            tokens: Tokens::new(pes),
            teams: Teams::new(me, pes, |pe| !parts[pe as usize].is_null()),
            heap_memory,
            statics,
            parts,
            _task: task,
        }
    }

    /// Makes this the process's world.
    pub(crate) fn begin(self) {
        let world = Box::leak(Box::new(self));
        let base = world.parts[world.me as usize];
        FAST.base.store(base.addr(), Ordering::Relaxed);
        FAST.len.store(world.heap_memory.len() as usize, Ordering::Relaxed);
        FAST.parts.store(world.parts.as_mut_ptr(), Ordering::Relaxed);
        FAST.me.store(world.me, Ordering::Relaxed);
        HAS_FAR.store(world.parts.iter().any(|part| part.is_null()), Ordering::Relaxed);
        let pes = world.pes;
        WORLD.store(world, Ordering::Release);
        FAST.pes.store(pes, Ordering::Release);
    }

    /// Takes the world away: no call uses it any more.
    pub(crate) fn end() -> Option<Box<Self>> {
        FAST.pes.store(0, Ordering::Release);
        let world = WORLD.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: the pointer comes from `Box::leak` in `begin`. The swap returns it to one caller only, which therefore owns the box.
        (!world.is_null()).then(|| unsafe { Box::from_raw(world) })
    }

    /// The part of the heap of a PE that is mapped here.
    pub(crate) fn part(&self, pe: u32) -> Option<*mut u8> {
        self.parts.get(pe as usize).copied().filter(|part| !part.is_null())
    }

    /// Where `len` bytes at `at`, an address of this PE, are in the memory of `pe`; `None`: they do not all lie in one symmetric object.
    pub(crate) fn find(&self, at: usize, len: usize, pe: u32) -> Option<Place> {
        let objects = std::iter::once((self.parts[self.me as usize].addr(), &self.heap_memory))
            .chain(self.statics.iter().map(|statics| (statics.base, &statics.memory)));
        for (base, memory) in objects {
            let offset = at.wrapping_sub(base) as u64;
            if offset < memory.len() && len as u64 <= memory.len() - offset {
                let part = self.parts[pe as usize];
                if pe == self.me {
                    return Some(Place::Mapped(Target {
                        at: std::ptr::with_exposed_provenance_mut(at),
                        part,
                    }));
                }
                return match memory.at(TaskId(pe)) {
                    // SAFETY: the offset lies in the part, which has the same length in every task.
                    Some(start) => {
                        Some(Place::Mapped(Target { at: unsafe { start.add(offset as usize) }, part }))
                    }
                    None => memory.address(TaskId(pe), offset, len as u64).ok().map(Place::Far),
                };
            }
        }
        None
    }

    /// The word of this PE that says that it is to end.
    pub(crate) fn exit_word(&self, pe: u32) -> Option<&AtomicU64> {
        // SAFETY: a word of the header, which is accessed by atomics only.
        self.part(pe).map(|part| unsafe { AtomicU64::from_ptr(part.add(EXIT).cast()) })
    }

    /// The word of a PE that says that a thread of it sleeps, or is about to.
    pub(crate) fn asleep(&self, pe: u32) -> Option<&AtomicU32> {
        // SAFETY: as in `exit_word`.
        self.part(pe).map(|part| unsafe { AtomicU32::from_ptr(part.add(ASLEEP).cast()) })
    }
}

/// The world, for `call`; an error if the library is not in use.
pub(crate) fn world(call: &str) -> &'static World {
    match try_world() {
        Some(world) => world,
        None => fail(
            call,
            format_args!("the library is not in use: call shmem_init before it, and shmem_finalize after it"),
        ),
    }
}

pub(crate) fn try_world() -> Option<&'static World> {
    // SAFETY: `begin` has leaked it, and `end` frees it when no call uses it any more (OpenSHMEM: no calls after `shmem_finalize`).
    unsafe { WORLD.load(Ordering::Acquire).as_ref() }
}

pub(crate) fn has_far() -> bool {
    HAS_FAR.load(Ordering::Relaxed)
}

/// Bytes of a PE of this host that lie in the heap; `None`: find them by [`locate`].
#[inline(always)]
pub(crate) fn mapped(at: usize, len: usize, pe: c_int) -> Option<Target> {
    let pe = pe as u32;
    if pe >= FAST.pes.load(Ordering::Relaxed) {
        return None;
    }
    let offset = at.wrapping_sub(FAST.base.load(Ordering::Relaxed));
    let heap_len = FAST.len.load(Ordering::Relaxed);
    // A heap is longer than its header. So for a short access, whose length the compiler knows, one comparison is left.
    if len > HEADER_BYTES && len > heap_len || offset > heap_len.wrapping_sub(len) {
        return None;
    }
    // SAFETY: the table has an entry for each PE; the part is as long as this PE's.
    let part = unsafe { *FAST.parts.load(Ordering::Relaxed).add(pe as usize) };
    if part.is_null() {
        return None;
    }
    // SAFETY: as above.
    Some(Target { at: unsafe { part.add(offset) }, part })
}

/// Where `len` bytes at the symmetric address `at` are in the memory of `pe`; an error ends the job.
#[inline(never)]
pub(crate) fn locate(call: &str, argument: &str, at: usize, len: usize, pe: c_int) -> Place {
    let world = world(call);
    let number = check_pe(call, pe);
    world.find(at, len, number).unwrap_or_else(|| not_symmetric(call, argument, at, len, pe))
}

/// A PE's number.
pub(crate) fn check_pe(call: &str, pe: c_int) -> u32 {
    let pes = world(call).pes;
    match u32::try_from(pe) {
        Ok(number) if number < pes => number,
        _ => fail(call, format_args!("there is no PE {pe}: this job has PEs 0 to {}", pes - 1)),
    }
}

#[cold]
fn not_symmetric(call: &str, argument: &str, at: usize, len: usize, pe: c_int) -> ! {
    let world = world(call);
    let heap = world.parts[world.me as usize].addr();
    let is_in_heap = at.wrapping_sub(heap) < world.heap_memory.len() as usize;
    let is_in_statics =
        world.statics.iter().any(|statics| (at.wrapping_sub(statics.base) as u64) < statics.memory.len());
    let why = match (is_in_heap, is_in_statics) {
        (true, _) => "they run out of the symmetric heap",
        (_, true) => "they run out of the program's static data",
        _ => {
            "the address is not symmetric: use memory of shmem_malloc, or global and static variables of the program (not of its libraries, not of its stack)"
        }
    };
    fail(call, format_args!("{argument} = {at:#x}, {len} bytes for PE {pe}: {why}"))
}

/// Wakes the PE whose part this is, if it sleeps, after a store there.
#[inline(always)]
pub(crate) fn wake(target: Target, pe: c_int) {
    // The compiler keeps the order of the store and this load. The processor may load first: the sleeper waits until stores that it might
    // have missed have left their store buffers (`wait::block`).
    compiler_fence(Ordering::SeqCst);
    // SAFETY: a word of the header, which is accessed by atomics only.
    if unsafe { AtomicU32::from_ptr(target.part.add(ASLEEP).cast()) }.load(Ordering::Relaxed) != 0 {
        ring(pe as u32);
    }
}

#[cold]
#[inline(never)]
pub(crate) fn ring(pe: u32) {
    // Only the first of those that store rings: a PE that sleeps on says so again.
    if let Some(world) = try_world()
        && world.asleep(pe).is_none_or(|word| word.swap(0, Ordering::Relaxed) != 0)
    {
        // If the ring fails, the sleeper wakes when its time limit ends, and looks again.
        let _ = world.shared.with(|context| context.ring(Endpoint::new(TaskId(pe), CONTEXT)));
    }
}

/// Ends the job with an error.
#[cold]
#[inline(never)]
pub(crate) fn fail(call: &str, what: std::fmt::Arguments<'_>) -> ! {
    let text = match try_world() {
        Some(world) => format!("{call} at PE {}: {what}", world.me),
        None => format!("{call}: {what}"),
    };
    am_via::complain!("{text}");
    if let Some(world) = try_world() {
        world.job.mark_failed(&text);
    }
    end_process(1)
}

/// Ends the job because of an error of am-core.
#[cold]
pub(crate) fn fail_by(call: &str, error: &am_core::Error) -> ! {
    fail(call, format_args!("{error}"))
}

#[expect(clippy::exit, reason = "errors and shmem_global_exit end the process")]
pub(crate) fn end_process(code: i32) -> ! {
    std::process::exit(code)
}

/// Leaves the job without waiting for others, and ends the process.
pub(crate) fn leave(status: i32) -> ! {
    drop(World::end());
    end_process(status)
}
