//! `LAPI_Qenv` and `LAPI_Senv`: values and settings of a context, under LAPI's names.

use std::time::Duration;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Traffic};
use crate::handler::HandlerSet;
use crate::task::Endpoint;

/// A value that a program can query, and in some cases set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Query {
    /// This task's number (`TASK_ID`).
    TaskId,
    /// Number of tasks in the job (`NUM_TASKS`).
    NumTasks,
    /// This context's number in its task (LAPI's `instance_no`).
    Instance,
    /// Maximum number of contexts of a task in LAPI (`MAX_PORTS`): always 16. See [`Limits::contexts_max`](crate::Limits::contexts_max) for
    /// the fabric's maximum.
    MaxPorts,
    /// Maximum bytes of a user header (`MAX_UHDR_SZ`).
    MaxUhdrSize,
    /// Maximum bytes of user data (`MAX_DATA_SZ`).
    MaxDataSize,
    /// Bytes of a packet (`MAX_PKT_SZ`).
    MaxPacketSize,
    /// Maximum number of handlers (`LOC_ADDRTBL_SZ`).
    LocalAddressTableSize,
    /// Maximum number of packets in flight from one task to another (`MAX_PKTS_OUT`).
    MaxPacketsOut,
    /// Whether calls are checked (`ERROR_CHK`): always 1.
    ErrorCheck,
    /// Seconds after which a wait for a counter ends with [`Error::TimedOut`] if nothing arrives (`TIMEOUT`); 0, the default, means never.
    /// Can be set.
    Timeout,
    /// The shortest time-out (`MIN_TIMEOUT`).
    MinTimeout,
    /// The longest time-out (`MAX_TIMEOUT`).
    MaxTimeout,
    /// The number of consumed packets after which their credits are returned, even if no packet goes to the sender (`ACK_THRESHOLD`).
    AckThreshold,
}

/// The longest time-out that can be set, in seconds.
const TIMEOUT_MAX: u64 = 86_400;

/// The queries that [`Context::query`] answers.
const ALL: [Query; 14] = [
    Query::TaskId,
    Query::NumTasks,
    Query::Instance,
    Query::MaxPorts,
    Query::MaxUhdrSize,
    Query::MaxDataSize,
    Query::MaxPacketSize,
    Query::LocalAddressTableSize,
    Query::MaxPacketsOut,
    Query::ErrorCheck,
    Query::Timeout,
    Query::MinTimeout,
    Query::MaxTimeout,
    Query::AckThreshold,
];

/// LAPI's names that are answered elsewhere, or not at all.
const ELSEWHERE: [(&str, &str); 26] = [
    (
        "INTERRUPT_SET",
        "call SharedContext::has_interrupts to query it, and SharedContext::set_interrupts to set it",
    ),
    ("QUERY_STATISTICS", "call Context::statistics, or Context::peer_statistics for one peer"),
    ("PRINT_STATISTICS", "print what Context::statistics returns"),
    ("QUERY_SHM_STATISTICS", "statistics cover all devices together: call Context::statistics"),
    ("QUERY_LOCAL_SEND_STATISTICS", "call Context::peer_statistics with the context's own endpoint"),
    ("QUERY_SHM_ENABLED", "the fabric decides: `amrun info` shows how each task is reached"),
    ("QUERY_SHM_NUM_TASKS", "the fabric decides: `amrun info` shows how each task is reached"),
    ("QUERY_SHM_TASKS", "the fabric decides: `amrun info` shows how each task is reached"),
    ("RCV_FIFO_SIZE", "each peer has its own receive slots: MAX_PKTS_OUT times MAX_PKT_SZ bytes"),
    ("BUF_CP_SIZE", "data that fit into a packet (MAX_PKT_SZ) are copied during the call"),
    ("MAX_ATOM_SIZE", "a sink or a gatherer takes blocks of any length"),
    ("NUM_REX_BUFS", "nothing is sent twice: the fabric is reliable"),
    ("REX_BUF_SZ", "nothing is sent twice: the fabric is reliable"),
    ("EPOCH_NUM", "operations are told apart by a region's generation, and by resume_totask after a purge"),
    ("USE_THRESH", "LAPI itself ignored it"),
    ("BULK_XFER", "the fabric chooses the protocol of a long message from how its memory was registered"),
    ("BULK_MIN_MSG_SIZE", "data that do not fit into a packet (MAX_PKT_SZ) are announced"),
    ("RDMA_REMOTE_RCXT_AVAIL", "memory is accessed by regions, not by contexts of an adapter"),
    ("RDMA_REMOTE_RCXT_TOTAL", "memory is accessed by regions, not by contexts of an adapter"),
    ("RC_MAX_QP", "a connection is made at the first message and stays"),
    ("RC_QP_IN_USE", "a connection is made at the first message and stays"),
    ("RC_QP_USE_LRU", "a connection is made at the first message and stays"),
    ("RC_QP_USE_LMC", "a connection is made at the first message and stays"),
    ("RC_QP_INIT_SETUP", "a connection is made at the first message and stays"),
    ("LIB_VERS", "the version is that of the crate"),
    ("PROTOCOL", "the protocol is that of the context's fabric"),
];

impl Query {
    /// The query that LAPI calls `name`, in the environment or in a program (`TASK_ID`).
    ///
    /// # Errors
    /// [`Error::UnknownQuery`]: LAPI's name is answered elsewhere (the error says where) or not at all, or it is not a name of LAPI's.
    pub fn of_name(name: &str) -> Result<Self> {
        if let Some(query) = ALL.into_iter().find(|query| query.name() == name) {
            return Ok(query);
        }
        let elsewhere = ELSEWHERE.iter().find(|&&(known, _)| known == name);
        let why = elsewhere.map_or("it is not a name of LAPI's", |&(_, why)| why);
        Err(Error::UnknownQuery { name: name.to_owned(), why })
    }

    /// LAPI's name of the query.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TaskId => "TASK_ID",
            Self::NumTasks => "NUM_TASKS",
            Self::Instance => "INSTANCE_NO",
            Self::MaxPorts => "MAX_PORTS",
            Self::MaxUhdrSize => "MAX_UHDR_SZ",
            Self::MaxDataSize => "MAX_DATA_SZ",
            Self::MaxPacketSize => "MAX_PKT_SZ",
            Self::LocalAddressTableSize => "LOC_ADDRTBL_SZ",
            Self::MaxPacketsOut => "MAX_PKTS_OUT",
            Self::ErrorCheck => "ERROR_CHK",
            Self::Timeout => "TIMEOUT",
            Self::MinTimeout => "MIN_TIMEOUT",
            Self::MaxTimeout => "MAX_TIMEOUT",
            Self::AckThreshold => "ACK_THRESHOLD",
        }
    }
}

/// The traffic between this context and one other (`QUERY_STATISTICS` for one peer).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerStatistics {
    /// Packets sent to the peer.
    pub packets_sent: u64,
    /// Packets of the peer that were handled.
    pub packets_received: u64,
    /// Whether operations with the peer are under way.
    pub operations_under_way: bool,
    /// Whether packets to the peer wait for credits.
    pub packets_waiting: bool,
    /// Messages of the peer that are not complete, or have no destination yet.
    pub messages_unfinished: u64,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Returns a value or setting (`LAPI_Qenv`).
    #[must_use]
    pub fn query(&self, query: Query) -> u64 {
        let limits = self.limits();
        match query {
            Query::TaskId => u64::from(self.task().0),
            Query::NumTasks => u64::from(self.num_tasks()),
            Query::Instance => u64::from(self.endpoint().context.0),
            Query::MaxPorts => 16,
            Query::MaxUhdrSize => limits.uhdr_bytes_max as u64,
            Query::MaxDataSize => i64::MAX.cast_unsigned(),
            Query::MaxPacketSize => limits.packet_bytes_max as u64,
            Query::LocalAddressTableSize => limits.handlers_max as u64,
            Query::MaxPacketsOut => u64::from(limits.credits),
            Query::ErrorCheck => 1,
            Query::Timeout => self.timeout.map_or(0, |timeout| timeout.as_secs()),
            Query::MinTimeout => 1,
            Query::MaxTimeout => TIMEOUT_MAX,
            Query::AckThreshold => u64::from(limits.credits.div_ceil(2)),
        }
    }

    /// Changes a setting (`LAPI_Senv`).
    ///
    /// # Errors
    /// [`Error::Setting`]: the setting cannot be changed, or the value is out of range.
    pub fn set(&mut self, setting: Query, value: u64) -> Result<()> {
        let why = match setting {
            Query::Timeout if value <= TIMEOUT_MAX => {
                self.timeout = (value > 0).then(|| Duration::from_secs(value));
                return Ok(());
            }
            Query::Timeout => "the value is in seconds: 0 (no time-out) to 86400 (one day)",
            Query::ErrorCheck if value == 1 => return Ok(()),
            Query::ErrorCheck => "calls are always checked",
            Query::MaxPacketSize | Query::MaxPacketsOut | Query::AckThreshold => {
                "it is a setting of the whole job, fixed when the job starts"
            }
            _ => "it is read-only",
        };
        Err(Error::Setting { name: setting.name(), value, why })
    }

    /// The traffic between this context and `peer` so far.
    ///
    /// # Errors
    /// An unknown endpoint.
    pub fn peer_statistics(&mut self, peer: Endpoint) -> Result<PeerStatistics> {
        let peer = self.fabric.peer(peer)?;
        let Traffic { packets_sent, packets_received } = self.fabric.traffic(peer.index);
        Ok(PeerStatistics {
            packets_sent,
            packets_received,
            operations_under_way: self.engine.ops.is_busy(peer),
            packets_waiting: self.engine.pending.has(peer),
            messages_unfinished: self.engine.unfinished_from(peer),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_lapi_is_answered_or_says_where_to_ask() {
        for query in ALL {
            assert_eq!(Query::of_name(query.name()).expect("its own name"), query);
        }
        for (name, why) in ELSEWHERE {
            let error = Query::of_name(name).expect_err("it is not answered here");
            assert_eq!(error.fault(), crate::error::Fault::Caller);
            assert!(error.to_string().contains(name) && error.to_string().contains(why), "{error}");
        }
        let error = Query::of_name("COLOUR").expect_err("no setting has this name");
        assert!(error.to_string().contains("COLOUR"), "{error}");
    }
}
