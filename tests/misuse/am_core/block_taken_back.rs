//! A block is freed only when its last user drops it.
#![forbid(unsafe_code)]

fn wrong(owner: &dyn am_core::buffer::BlockOwner, at: std::ptr::NonNull<u8>) {
    owner.take_back(at, 8);
}

fn main() {
    let _ = wrong;
}
