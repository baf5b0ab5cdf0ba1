//! The stack of the calling thread, as return addresses.

use std::ffi::c_void;

/// The unwinder's record of one frame, opaque to callers.
#[repr(C)]
struct Frame {
    _private: [u8; 0],
}

/// `_URC_NO_REASON` and `_URC_END_OF_STACK` of the Itanium C++ ABI, level I.
const GO_ON: i32 = 0;
const END: i32 = 5;

// The unwinder that Rust's standard library links: libgcc_s, or one with its interface.
unsafe extern "C" {
    fn _Unwind_Backtrace(
        on_frame: extern "C" fn(frame: *mut Frame, argument: *mut c_void) -> i32,
        argument: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIP(frame: *mut Frame) -> usize;
}

/// Receives the addresses.
struct Found<'a> {
    addresses: &'a mut [u64],
    len: usize,
}

/// Stores the innermost return addresses of the calling thread, beginning with this function's caller, and returns their number.
///
/// For set-up and diagnosis: the call reads unwind tables.
pub fn return_addresses(addresses: &mut [u64]) -> usize {
    let mut found = Found { addresses, len: 0 };
    // SAFETY: `on_frame` has the type that the unwinder calls, and does not unwind; `argument` is its `Found`, which lives through the call
    // and which nothing else uses meanwhile.
    unsafe { _Unwind_Backtrace(on_frame, (&raw mut found).cast()) };
    found.len
}

extern "C" fn on_frame(frame: *mut Frame, argument: *mut c_void) -> i32 {
    // SAFETY: `return_addresses` has given the address of its `Found` and does not touch it before the unwinder returns.
    let found = unsafe { &mut *argument.cast::<Found<'_>>() };
    // SAFETY: the unwinder gives a frame that is valid in this call.
    let address = unsafe { _Unwind_GetIP(frame) };
    match found.addresses.get_mut(found.len) {
        Some(place) if address != 0 => {
            *place = address as u64;
            found.len += 1;
            GO_ON
        }
        _ => END,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn deeper(levels: u32, addresses: &mut [u64]) -> usize {
        let len = if levels == 0 { return_addresses(addresses) } else { deeper(levels - 1, addresses) };
        std::hint::black_box(len)
    }

    #[test]
    fn each_level_adds_an_address_and_no_more_than_fit_are_taken() {
        let mut addresses = [0; 200];
        let (one, five) = (deeper(1, &mut addresses), deeper(5, &mut addresses));
        assert_eq!(five, one + 4);
        assert!(addresses[..five].iter().all(|&address| address != 0));
        assert_eq!(deeper(5, &mut addresses[..3]), 3);
    }
}
