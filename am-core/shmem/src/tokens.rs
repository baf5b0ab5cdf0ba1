//! Tokens: what collectives tell each other. Each ordered pair of PEs has, in each of 64 slots, a word in which the sender counts, and two
//! short letters. A team has a slot of its own, so that collectives of different teams do not meet.
//!
//! The counts are never set back: both sides of a pair go on counting when the slot is used by another team.

use std::sync::atomic::{AtomicU64, Ordering};

use am_core::Description;
use am_core::fabric::UnderWay;
use am_core::task::TaskId;

use crate::objects::{Members, SLOTS};
use crate::wait;
use crate::world::{self, HEADER_BYTES, World};

/// Bytes of a letter.
pub(crate) const LETTER_BYTES: usize = 64;
/// A word on a line of its own, and two letters.
const CELL_BYTES: usize = 64 + 2 * LETTER_BYTES;

/// Bytes before the program's part of the heap.
pub(crate) fn control_bytes(pes: u32) -> usize {
    (HEADER_BYTES + SLOTS as usize * pes as usize * CELL_BYTES).next_multiple_of(1 << 16)
}

/// Offset of the cell into which `from` writes, in the part of its peer.
fn cell(world: &World, slot: u32, from: u32) -> usize {
    HEADER_BYTES + (slot * world.pes + from) as usize * CELL_BYTES
}

/// Stores bytes at an offset of a PE's part of the heap.
fn store(call: &str, world: &World, pe: u32, offset: usize, bytes: &[u8]) {
    match world.part(pe) {
        // SAFETY: a cell of the part; only this PE writes it, and its owner reads it after the token.
        Some(part) => unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.add(offset), bytes.len());
        },
        None => {
            let to = world.heap_memory.address(TaskId(pe), offset as u64, bytes.len() as u64);
            let put =
                to.and_then(|to| world.shared.with(|context| context.put(to, bytes, Default::default())));
            put.unwrap_or_else(|error| world::fail_by(call, &error));
        }
    }
}

/// Gives `to` a token: it then sees everything that this PE stored before in its memory.
pub(crate) fn send(call: &str, world: &World, slot: u32, to: u32) {
    let count = world.tokens.pair(slot, to).sent.fetch_add(1, Ordering::Relaxed) + 1;
    let offset = cell(world, slot, world.me);
    match world.part(to) {
        Some(part) => {
            // SAFETY: a word that is accessed by atomics only.
            // Release: pairs with the Acquire in `has_come`.
            unsafe { AtomicU64::from_ptr(part.add(offset).cast()) }.store(count, Ordering::Release);
            world::wake(world::Target { at: part, part }, to as i32);
        }
        None => {
            crate::progress::complete(call);
            store(call, world, to, offset, &count.to_ne_bytes());
        }
    }
}

/// Waits for the next token of `from`.
pub(crate) fn receive(call: &str, world: &World, slot: u32, from: u32) {
    let count = world.tokens.pair(slot, from).received.fetch_add(1, Ordering::Relaxed) + 1;
    let word = own_cell(world, slot, from);
    // SAFETY: as in `send`.
    let word = unsafe { AtomicU64::from_ptr(word.cast()) };
    let about = || {
        let call = call.to_owned();
        let partner = Some(TaskId(from));
        Description::new(move || UnderWay {
            what: format!("receive for {call}").into(),
            partner,
            details: String::new(),
        })
    };
    wait::block(call, || word.load(Ordering::Acquire) >= count, about);
}

fn own_cell(world: &World, slot: u32, from: u32) -> *mut u8 {
    let offset = cell(world, slot, from);
    match world.part(world.me) {
        // SAFETY: a cell of this PE's own part.
        Some(part) => unsafe { part.add(offset) },
        None => unreachable!("a PE's own part is mapped"),
    }
}

/// Gives each member but this PE the letter and a token, and gets theirs; `read` gets the letters in the order of the members, this PE's
/// own among them. No member leaves before all have come.
pub(crate) fn exchange(
    call: &str,
    world: &World,
    members: &Members,
    letter: &[u8],
    mut read: impl FnMut(usize, &[u8]),
) {
    let slot = members.slot;
    let others = || members.list.iter().copied().filter(|&pe| pe != world.me);
    let place = |count: u64| 64 + (count % 2) as usize * LETTER_BYTES;
    for pe in others() {
        // A pair exchanges letters both ways, so the peer has read the last but one when this PE has its last.
        let count = world.tokens.pair(slot, pe).letters.load(Ordering::Relaxed);
        store(call, world, pe, cell(world, slot, world.me) + place(count), letter);
        send(call, world, slot, pe);
    }
    for (at, &pe) in members.list.iter().enumerate() {
        if pe == world.me {
            read(at, letter);
            continue;
        }
        receive(call, world, slot, pe);
        let count = world.tokens.pair(slot, pe).letters.fetch_add(1, Ordering::Relaxed);
        let mut copy = [0; LETTER_BYTES];
        // SAFETY: the letter of this count, which the peer does not write again before this PE has given it the next.
        unsafe {
            let from = own_cell(world, slot, pe).add(place(count));
            std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), letter.len());
        }
        read(at, &copy[..letter.len()]);
    }
}

/// A barrier of the members: rounds with doubling distance.
pub(crate) fn barrier(call: &str, world: &World, members: &Members) {
    let (count, me) = (members.list.len(), members.me);
    let mut distance = 1;
    while distance < count {
        send(call, world, members.slot, members.list[(me + distance) % count]);
        receive(call, world, members.slot, members.list[(me + count - distance) % count]);
        distance *= 2;
    }
}
