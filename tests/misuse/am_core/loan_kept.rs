//! Only the library can lend memory to an operation: a range has no lifetime, and could be kept beyond the borrow.
#![forbid(unsafe_code)]

fn main() {
    let mut kept = None;
    am_core::buffer::lend(&mut (), &[1], |(), raw| Ok(kept = Some(raw)), |()| Ok(())).unwrap();
}
