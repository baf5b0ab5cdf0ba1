//! Selects the protocol of a message.

use crate::message::route::{EagerLimits, Mode};

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The message is sent at once with its data.
    Eager,
    /// The message is sent at once with its data; the receiver acknowledges the match.
    Synchronous,
    /// The message is sent with its data, in pieces, if all can be sent at once; otherwise it is announced.
    InPieces,
    /// Announced; the data are fetched when the receive is posted.
    Rendezvous,
    /// The message is sent at once: its receive must have been posted.
    Ready,
}

/// The protocol for a message of `len` bytes.
#[inline(always)]
pub(crate) fn select(mode: Mode, len: usize, limits: EagerLimits) -> Protocol {
    match mode {
        Mode::Standard | Mode::Buffered if len <= limits.bytes => Protocol::Eager,
        Mode::Standard if len <= limits.in_pieces => Protocol::InPieces,
        Mode::Synchronous if len < limits.synchronous_end => Protocol::Synchronous,
        Mode::Standard | Mode::Buffered | Mode::Synchronous => Protocol::Rendezvous,
        Mode::Ready => Protocol::Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_eager_and_synchronous_messages_are_by_a_setting() {
        let limits = EagerLimits { bytes: 4096, unsplit: 4096, synchronous_end: 4093, in_pieces: 0 };
        for mode in [Mode::Standard, Mode::Buffered] {
            assert_eq!(select(mode, 4096, limits), Protocol::Eager);
            assert_eq!(select(mode, 4097, limits), Protocol::Rendezvous);
        }
        assert_eq!(select(Mode::Ready, 4097, limits), Protocol::Ready);
        assert_eq!(select(Mode::Synchronous, 4092, limits), Protocol::Synchronous);
        assert_eq!(select(Mode::Synchronous, 4093, limits), Protocol::Rendezvous);
        let never = EagerLimits { synchronous_end: 0, ..limits };
        assert_eq!(select(Mode::Synchronous, 0, never), Protocol::Rendezvous);
    }
}
