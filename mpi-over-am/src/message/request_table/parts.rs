//! Operations that consist of several messages, as requests.

use crate::data::buffer::{RecvData, SendData};
use crate::error::Error;
use crate::matching::Pattern;
use crate::message::attached_buffers::BufferOwner;
use crate::message::request_id::RequestId;
use crate::message::route::Route;
use crate::message::status::Status;

/// Tags of partitions are negative, so that they differ from the program's tags: the sender's description of the partitions has the
/// program's tag, in the same message space.
const PARTITION: i32 = i32::MIN;

/// The parts of an operation that consists of several messages.
#[derive(Debug)]
pub(crate) enum Parts {
    /// A partitioned send.
    Send(Sending),
    /// A partitioned receive.
    Receive(Receiving),
    /// A send and a receive as one operation.
    Exchange(Exchange),
    /// A flush of an attached buffer: all its messages up to number `until`, which other calls have sent.
    Flush { owner: BufferOwner, until: u64 },
}

/// A partitioned send.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) route: Route,
    pub(crate) channel: Channel,
    pub(crate) count: u64,
    pub(crate) data: SendData,
    pub(crate) ready: Vec<bool>,
    pub(crate) under_way: Vec<RequestId>,
    pub(crate) failure: Option<Error>,
}

/// A partitioned receive.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) pattern: Pattern,
    pub(crate) status: Status,
    pub(crate) data: RecvData,
    pub(crate) partitions: u64,
    /// The receive for the sender's description of its partitions, until the description arrives.
    pub(crate) meeting: Option<RequestId>,
    pub(crate) channel: Option<Channel>,
    /// The receives of the sender's partitions in this round; `None` for partitions that have arrived.
    pub(crate) under_way: Vec<Option<RequestId>>,
    pub(crate) is_posted: bool,
    pub(crate) failure: Option<Error>,
}

/// The sender's description of its partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    pub(crate) first_tag: i32,
    pub(crate) partitions: u64,
    pub(crate) partition_len: u64,
}

impl Channel {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let tag = u64::from(self.first_tag.cast_unsigned());
        [tag, self.partitions, self.partition_len].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let &[tag, partitions, partition_len] = words else { return None };
        let first_tag = u32::try_from(u64::from_le_bytes(tag)).ok().filter(|_| rest.is_empty())?;
        Some(Self {
            first_tag: first_tag.cast_signed(),
            partitions: u64::from_le_bytes(partitions),
            partition_len: u64::from_le_bytes(partition_len),
        })
    }

    #[expect(clippy::cast_possible_truncation, reason = "tags wrap around")]
    pub(crate) fn tag(&self, partition: u64) -> i32 {
        self.first_tag.wrapping_add(partition as i32) | PARTITION
    }
}

/// The two halves of a combined send and receive.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) under_way: Vec<RequestId>,
    /// The status of the receive.
    pub(crate) status: Status,
    pub(crate) failure: Option<Error>,
}
