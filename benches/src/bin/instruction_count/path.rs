//! The counted actions.

use am_examples::Failure;
use clap::ValueEnum;

/// The counted action of rank 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Path {
    /// amsend of one-way messages, at the origin.
    Amsend,
    /// amsend of one-way messages, at the target.
    AmsendTarget,
    /// put with a target counter, at the origin.
    Put,
    /// put with a target counter, at the target.
    PutTarget,
    /// put without counters.
    PutAlone,
    /// get without counters.
    Get,
    /// A fetch-and-add by rmw.
    Rmw,
    /// A write through a global pointer.
    PointerWrite,
    /// A read through a global pointer.
    PointerRead,
    /// A fetch-and-add through a global pointer.
    PointerAdd,
    /// A blocking send of the Rust interface.
    Send,
    /// A blocking receive of the Rust interface.
    Receive,
}

/// Messages before the counted ones: they connect the two tasks and touch memory for the first time.
const UNCOUNTED: u32 = 256;
/// The rank of the counted task.
pub(crate) const COUNTED: u32 = 1;

/// Runs `step` for each message, with `false` for the messages that are not counted, and then with `true`.
pub(crate) fn each(messages: u32, mut step: impl FnMut(bool) -> Result<(), Failure>) -> Result<(), Failure> {
    for i in 0..UNCOUNTED + messages {
        step(i >= UNCOUNTED)?;
    }
    Ok(())
}
