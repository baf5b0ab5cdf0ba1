//! Only one thread can copy to memory that a program may register.
#![forbid(unsafe_code)]

fn shared<T: Sync>() {}

fn main() {
    shared::<am_via_vipl::Memory>();
}
