//! Schedules: operations as lists of steps, with the memory that they need.

use crate::data::buffer::{RecvData, Scratch, SendData};
use crate::data::op::Op;
use crate::error::Result;
use crate::matching::Pattern;
use crate::message::helper_thread::Outcome;
use crate::message::route::Route;

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Starts a send.
    Send { route: Route, data: SendData },
    /// Starts a receive of as many bytes as `data` has.
    Receive { pattern: Pattern, data: RecvData },
    /// Waits until everything started is complete.
    Wait,
    /// Waits until the receives that were started are complete.
    WaitForReceives,
    /// Combines each element of `earlier` into the element of `later` with the same index, by the operator.
    Combine { earlier: SendData, later: RecvData },
    /// Copies elements.
    Copy { from: SendData, to: RecvData },
    /// Checks bytes.
    Examine { bytes: SendData, look: fn(&[u8]) -> Result<()> },
    /// Waits until this can be carried out at the communicator's board, and carries it out.
    AtBoard(Act),
    /// Waits until the helper thread has done its work, whose status becomes that of the request.
    ByHelper(Outcome),
}

/// A part of another task's data on a board with a counter: the task's rank, the offset in its data, and the destination.
pub(crate) type MetPart = (u32, u64, RecvData);
/// A part of another task's data on a board with lines: the task's rank, the length of its data, the offset in them, and the destination.
pub(crate) type LinesPart = (u32, u64, u64, RecvData);

/// A step of a schedule at the communicator's board.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Writes this task's data to a board with a counter, and arrives. If the vectors of all tasks are to be reduced, the last task to
    /// arrive does so; they are as long as `reduced`.
    Arrive { own: SendData, reduced: Option<RecvData> },
    /// Waits until all tasks have arrived.
    Meet,
    /// Reads data of tasks, each of this length.
    Read { len: u64, parts: Vec<MetPart> },
    /// Reads the reduced vector.
    ReadReduced { into: RecvData },
    /// Enters the next step of a board with lines, with data or without.
    Enter { data: Option<SendData> },
    /// Waits until tasks have entered the present step.
    Await(Awaited),
    /// Reads data of tasks.
    ReadLines { parts: Vec<LinesPart> },
}

/// The tasks for which a task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    All,
    Rank(u32),
}

/// An operation that can be started, more than once if its request is persistent.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) steps: Vec<Step>,
    pub(crate) op: Option<Op>,
    /// The memory of intermediate results.
    #[expect(dead_code, reason = "the steps use its elements; it only has to outlive them")]
    pub(crate) scratch: Vec<Scratch>,
}

impl Schedule {
    /// The context id of its messages; `None` if it has none.
    pub(crate) fn context_id(&self) -> Option<u32> {
        self.steps.iter().find_map(|step| match step {
            Step::Send { route, .. } => Some(route.envelope.context_id().0),
            Step::Receive { pattern, .. } => Some(pattern.context_id().0),
            _ => None,
        })
    }
}
