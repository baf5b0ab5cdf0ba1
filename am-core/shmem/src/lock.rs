//! Locks (OpenSHMEM 1.6, section 9.13): a lock is the word at one PE, its home. The high half counts those that have asked, the low half
//! those that have finished, so that PEs get the lock in the order in which they asked.

use std::ffi::{c_int, c_long};
use std::time::Duration;

use am_atomics::{AtomicOp, Width};

use crate::world::{fail, world};
use crate::{atomics, progress};

/// The bit from which those are counted that have asked.
const ASKED: u32 = 32;
/// Number of looks before a PE that waits for a lock sleeps between two looks, and the longest such sleep.
const LOOKS: u32 = 200;
const PAUSE_MAX: Duration = Duration::from_micros(200);

/// The PE at which the lock's word counts: locks are spread by their addresses.
fn home(call: &str, lock: *mut c_long) -> c_int {
    let world = world(call);
    let place = world.find(lock.addr(), size_of::<c_long>(), world.me);
    if place.is_none() || !lock.is_aligned() {
        fail(call, format_args!("lock = {lock:?}: not a symmetric object of type long"));
    }
    // Offsets are the same at all PEs; addresses need not be.
    let part = world.part(world.me).map_or(0, |part| part.addr());
    let statics = world.statics.iter().map(|statics| (statics.base, statics.memory.len()));
    let objects = std::iter::once((part, world.heap_memory.len())).chain(statics);
    let offset = objects
        .map(|(base, len)| (lock.addr().wrapping_sub(base) as u64, len))
        .find_map(|(offset, len)| (offset < len).then_some(offset));
    (offset.unwrap_or(0) / 8 % u64::from(world.pes)) as c_int
}

fn update(call: &str, lock: *mut c_long, home: c_int, operation: AtomicOp) -> u64 {
    unsafe { atomics::update_slowly(call, lock.addr(), Width::Bits64, home, operation) }
}

pub(crate) unsafe fn set(call: &str, lock: *mut c_long) {
    let home = home(call, lock);
    let ticket = update(call, lock, home, AtomicOp::FetchAdd(1 << ASKED)) >> ASKED;
    let mut looks = 0;
    while update(call, lock, home, AtomicOp::FetchAdd(0)) & u64::from(u32::MAX) != ticket {
        looks += 1;
        pause(call, looks);
    }
}

/// Waits between two looks.
fn pause(call: &str, looks: u32) {
    progress::progress(call);
    match looks {
        0..LOOKS => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(u64::from(looks - LOOKS + 1)).min(PAUSE_MAX)),
    }
}

pub(crate) unsafe fn clear(call: &str, lock: *mut c_long) {
    progress::quiet(call);
    let home = home(call, lock);
    let word = update(call, lock, home, AtomicOp::FetchAdd(0));
    if word >> ASKED == word & u64::from(u32::MAX) {
        fail(call, format_args!("lock = {lock:?}: no PE has set it"));
    }
    // The low half may wrap, and must not change the high half.
    let done = (word as u32).wrapping_add(1);
    // The low half is the first on the machines that this library supports.
    unsafe { atomics::update_slowly(call, lock.addr(), Width::Bits32, home, AtomicOp::Swap(done.into())) };
}

pub(crate) unsafe fn test(call: &str, lock: *mut c_long) -> c_int {
    let home = home(call, lock);
    let word = update(call, lock, home, AtomicOp::FetchAdd(0));
    if word >> ASKED != word & u64::from(u32::MAX) {
        progress::progress(call);
        return 1;
    }
    let new = word.wrapping_add(1 << ASKED);
    let old = update(call, lock, home, AtomicOp::CompareSwap { expected: word, new });
    (old != word).into()
}
