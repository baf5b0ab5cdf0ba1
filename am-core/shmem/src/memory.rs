//! Allocation in the symmetric heap (OpenSHMEM 1.6, section 9.3).

use std::ffi::{c_long, c_void};

use crate::objects::Team;
use crate::symmetric_heap::ALIGN_MAX;
use crate::team::members;
use crate::world::{World, fail, world};
use crate::{progress, tokens};

/// A barrier in which all PEs show what they pass.
fn agree(call: &str, world: &World, argument: &str, value: u64) {
    progress::quiet(call);
    let mut other = None;
    tokens::exchange(call, world, members(call, Team::WORLD), &value.to_ne_bytes(), |pe, letter| {
        let told = letter.try_into().map_or(0, u64::from_ne_bytes);
        if told != value && other.is_none() {
            other = Some((pe, told));
        }
    });
    if let Some((pe, told)) = other {
        fail(
            call,
            format_args!(
                "{argument} = {value:#x} here, and {told:#x} at PE {pe}: all PEs must call it together with the same arguments"
            ),
        );
    }
}

/// Where this PE has the byte at an offset of its part.
fn address(world: &World, offset: u64) -> *mut c_void {
    match world.part(world.me) {
        // SAFETY: an offset of the heap, which lies in the part.
        Some(part) => unsafe { part.add(offset as usize).cast() },
        None => std::ptr::null_mut(),
    }
}

fn allocate(call: &str, size: usize, align: usize) -> *mut c_void {
    let world = world(call);
    if size == 0 {
        return std::ptr::null_mut();
    }
    agree(call, world, "size", size as u64);
    // Nothing is written if the heap is full; the same happens at all PEs.
    world.heap.take(size as u64, align as u64).map_or(std::ptr::null_mut(), |offset| address(world, offset))
}

/// The offset of a block of the program.
fn block(call: &str, world: &World, at: *mut c_void) -> u64 {
    let offset = at.addr().wrapping_sub(address(world, 0).addr()) as u64;
    match world.heap.len(offset) {
        Some(_) => offset,
        None => fail(
            call,
            format_args!(
                "ptr = {at:?}: not the start of a block of the symmetric heap, or it was freed before"
            ),
        ),
    }
}

pub(crate) unsafe fn malloc(call: &str, size: usize) -> *mut c_void {
    allocate(call, size, 1)
}

pub(crate) unsafe fn malloc_with_hints(call: &str, size: usize, _hints: c_long) -> *mut c_void {
    allocate(call, size, 1)
}

pub(crate) unsafe fn align(call: &str, alignment: usize, size: usize) -> *mut c_void {
    if !alignment.is_power_of_two() {
        fail(call, format_args!("alignment = {alignment}: use a power of two"));
    }
    if alignment > ALIGN_MAX {
        fail(call, format_args!("alignment = {alignment}: at most {ALIGN_MAX} can be had"));
    }
    allocate(call, size, alignment)
}

pub(crate) unsafe fn calloc(call: &str, count: usize, size: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else { return std::ptr::null_mut() };
    let world = world(call);
    let at = allocate(call, bytes, 1);
    if !at.is_null() {
        unsafe { at.cast::<u8>().write_bytes(0, bytes) };
        // No PE writes before the zeroes are there.
        tokens::barrier(call, world, members(call, Team::WORLD));
    }
    at
}

pub(crate) unsafe fn realloc(call: &str, ptr: *mut c_void, size: usize) -> *mut c_void {
    let world = world(call);
    if ptr.is_null() {
        return allocate(call, size, 1);
    }
    if size == 0 {
        unsafe { free(call, ptr) };
        return std::ptr::null_mut();
    }
    let old = block(call, world, ptr);
    agree(call, world, "ptr, as an offset, plus size", old.wrapping_add(size as u64));
    let old_len = world.heap.len(old).unwrap_or(0);
    if size as u64 <= old_len {
        return ptr;
    }
    let Some(new) = world.heap.take(size as u64, 1) else { return std::ptr::null_mut() };
    let at = address(world, new);
    unsafe { std::ptr::copy_nonoverlapping(ptr.cast::<u8>(), at.cast::<u8>(), old_len as usize) };
    world.heap.give_back(old);
    tokens::barrier(call, world, members(call, Team::WORLD));
    at
}

pub(crate) unsafe fn free(call: &str, ptr: *mut c_void) {
    if ptr.is_null() {
        return;
    }
    let world = world(call);
    let offset = block(call, world, ptr);
    agree(call, world, "ptr, as an offset", offset);
    world.heap.give_back(offset);
}
