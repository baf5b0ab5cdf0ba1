//! Messages between hosts: one reliable-datagram endpoint of libfabric, for callers without unsafe code.
//!
//! libfabric is opened when the first endpoint is (`libfabric.so.1`, version 1.17 or later), so that a build needs no header of it and a
//! job on one host needs no library. Its objects are tables of functions: `sys` declares the few that are called here, and
//! [`Endpoint`] is the only caller.
//!
//! Memory that is [lent](Endpoint::lend) can be [read](Endpoint::read) by peers, where the provider has such reads
//! ([`can_read`](Endpoint::can_read)). There are no writes by the network: a caller asks its peer to read. So a peer that is lost, or
//! wrong, has no operation under way that would change memory here.
//!
//! An endpoint sends and receives messages of up to [`message_bytes_max`](Endpoint::message_bytes_max) bytes, each with a word of 32 bits
//! beside its bytes. Each arrives once, or its peer is reported as broken. Some providers let a short message arrive before a long one that
//! was sent earlier: a caller that needs an order numbers its messages. Memory that the network writes belongs to the endpoint: bytes that
//! were received or read are lent for a call, and nothing of a peer's reaches other memory of this process.
//!
//! ```no_run
//! let mut endpoint = am_via_ofi::Endpoint::open()?;
//! let own = endpoint.address().to_vec();
//! let myself = endpoint.add_peer(&own)?;
//! while !endpoint.send(myself, 7, 5, |bytes| bytes.copy_from_slice(b"hello"))? {}
//! let mut arrived = false;
//! while !arrived {
//!     endpoint.poll(&mut Vec::new(), |word, bytes| arrived = (word, bytes) == (7, b"hello"))?;
//! }
//! # Ok::<(), am_via_ofi::OfiError>(())
//! ```

#![expect(unsafe_code, reason = "calls into libfabric")]

mod buffers;
mod endpoint;
mod library;
mod objects;
mod reading;
mod reads;
mod sys;

pub use endpoint::Endpoint;
pub use library::{OfiError, Provider, providers};
pub use objects::PeerAddress;
pub use reads::{LentMemory, ReadId, RemoteKey};

/// For tests: whether libfabric is there. Prints why a test is left out; fails where none may be (`TESTS_NEED_TOOLS`, as in `.ci/run`).
///
/// # Panics
/// libfabric is missing, and `TESTS_NEED_TOOLS` is set.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub fn is_there_for_tests() -> bool {
    match providers() {
        Ok(_) => true,
        Err(why) => {
            assert!(std::env::var_os("TESTS_NEED_TOOLS").is_none(), "{why}");
            println!("left out: {why}");
            false
        }
    }
}

/// Longest message of most providers, in bytes. ofi_rxm carries that much whole. It cuts longer ones, and version 1.17 loses a part when
/// two tasks send many of them to a third.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Longest message of a provider that writes its messages to a stream whatever their length, in bytes: 64 KiB and what goes before them.
const STREAM_MESSAGE_BYTES_MAX: usize = 66 << 10;

/// Longest read, in bytes: long enough for the network's full speed, short enough for the bytes to be in a cache when they are copied.
pub const READ_BYTES_MAX: usize = 256 << 10;

/// Longest address of an endpoint, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 64;
