//! Messages between hosts: one reliable-datagram endpoint of libfabric. Only lending memory to peers is unsafe.
//!
//! libfabric (`libfabric.so.1`, version 1.17 or later) is opened with the first endpoint, so that a build needs none of its headers, and a
//! job on one host does not need the library. The library's objects are tables of functions: `sys` declares the few that are called here,
//! and [`Endpoint`] is the only caller.
//!
//! Memory that is [lent](Endpoint::lend) can be [read](Endpoint::read) by peers, if the provider supports such reads
//! ([`can_read`](Endpoint::can_read)). Peers never write it: a caller that has data for a peer asks the peer to read. So a peer that is
//! lost or misbehaves cannot change memory here.
//!
//! An endpoint sends and receives messages of up to [`message_bytes_max`](Endpoint::message_bytes_max) bytes, each with a word of
//! [`WORD_BITS`] bits beside its bytes. Each message arrives once, or its peer is reported as broken. Some providers let a short message
//! arrive before a long one that was sent earlier: a caller that needs an order numbers its messages. Memory that the network writes
//! belongs to the endpoint: received and read bytes are lent to the caller for one call, and no peer's bytes reach other memory of this
//! process.
//!
//! Each endpoint has a random key, which is a part of its [address](Endpoint::address). A message without the key of its receiver is
//! dropped and counted ([`strangers`](Endpoint::strangers)): only those who were given the address can send something that arrives. The
//! keys of lent memory are random, too, as far as the provider's keys are long enough. Nothing is encrypted: who can read the network's
//! traffic sees the keys.
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
mod key;
mod library;
mod objects;
mod reading;
mod reads;
mod strangers;
mod sys;

pub use endpoint::{Endpoint, Reserved};
pub use key::WORD_BITS;
pub use library::{OfiError, Provider, providers};
pub use objects::PeerAddress;
pub use reads::{LentMemory, ReadId, RemoteKey};
pub use strangers::Strangers;

/// Longest message of most providers, in bytes. ofi_rxm sends a message of this length in one piece. It splits longer messages, and version
/// 1.17 loses a piece when two tasks send many such messages to a third task.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Longest message of a provider that writes messages of all lengths to a stream, in bytes: 64 KiB of data and the heads before the data.
const STREAM_MESSAGE_BYTES_MAX: usize = 66 << 10;

/// Longest read, in bytes: long enough for the network's full speed, short enough for the bytes to be in a cache when they are copied.
pub const READ_BYTES_MAX: usize = 256 << 10;

/// Longest address of an endpoint, in bytes: an address of the library, and the endpoint's key.
pub const ADDRESS_BYTES_MAX: usize = 64;
