//! Which protocol carries a message: the one place where the eager limit is applied.

/// The communication modes (MPI 4.1 section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `MPI_Send`: the library decides whether it buffers.
    Standard,
    /// `MPI_Rsend`: the receive has been posted.
    Ready,
    /// `MPI_Ssend`: complete when the receive has started.
    Synchronous,
    /// `MPI_Bsend`: complete at once, from the attached buffer.
    Buffered,
}

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// With its data, now.
    Eager,
    /// Announced; fetched when its receive is there.
    Rendezvous,
    /// Now, its receive is there.
    Ready,
}

/// The protocol for a message of `len` bytes.
#[inline(always)]
pub(crate) fn select(mode: Mode, len: usize, eager_limit_bytes: usize) -> Protocol {
    match mode {
        Mode::Standard | Mode::Buffered if len <= eager_limit_bytes => Protocol::Eager,
        Mode::Standard | Mode::Buffered | Mode::Synchronous => Protocol::Rendezvous,
        Mode::Ready => Protocol::Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_eager_and_synchronous_messages_never_are() {
        for mode in [Mode::Standard, Mode::Buffered] {
            assert_eq!(select(mode, 4096, 4096), Protocol::Eager);
            assert_eq!(select(mode, 4097, 4096), Protocol::Rendezvous);
        }
        assert_eq!(select(Mode::Ready, 4097, 4096), Protocol::Ready);
        assert_eq!(select(Mode::Synchronous, 0, 4096), Protocol::Rendezvous);
    }
}
