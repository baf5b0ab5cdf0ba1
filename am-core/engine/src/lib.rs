//! The protocol of am-core: the meaning of its packets.
//!
//! An [`Engine`](protocol::Engine) holds the protocol state of one context. It reads no clock, does no input or output and starts no
//! thread; a [`Fabric`](fabric::Fabric) sends and receives its packets, and code of the program runs through
//! [`UserCode`](user_code::UserCode). A test can drive any number of engines in one thread. Programs use am-core's `Context`, which owns
//! and drives an engine; that crate re-exports what programs and authors of fabrics need.
//!
//! Functions on the message path are generic or `#[inline]`, so that they are compiled together with their fabric.

#![no_std]
#![deny(unsafe_code)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths are u64 on the wire and usize in memory, which have the same width here (asserted below); narrower \
              numbers are truncated where a format says so, after they were checked"
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[expect(unsafe_code, reason = "holds user memory beyond a call")]
pub mod buffer;
pub mod counter;
pub mod error;
pub mod fabric;
pub mod handler;
pub mod progress;
pub mod protocol;
pub mod task;
pub mod transfer;
pub mod user_code;
pub mod vector;

const _: () = assert!(usize::BITS == 64, "am-core counts bytes of memory in 64 bits");
