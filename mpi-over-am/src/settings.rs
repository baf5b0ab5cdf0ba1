//! The settings of this layer, read once when the environment is made. Their names in the environment, older ones too, are in the
//! table of am-via, which `amrun info` prints.

/// How the receiver learns that an eager message is complete: the three variants of the seed paper's section 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompletionVariant {
    /// A completion handler on the handler thread (section 5.1).
    Thread,
    /// A target counter, one for each sender (section 5.2).
    Counter,
    /// A predefined completion in the polling context (section 5.3).
    #[default]
    InContext,
}

/// The settings of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Standard-mode messages up to this many bytes are sent at once; longer ones are announced first. Also bounded by what a
    /// packet holds. `AM_EAGER_LIMIT_BYTES`.
    pub eager_limit_bytes: usize,
    /// Bytes of memory that messages which came before their receive may take, all senders together.
    /// `AM_EARLY_ARRIVAL_BYTES_MAX`.
    pub early_arrival_bytes_max: u64,
    /// How the receiver learns that an eager message is complete. `AM_COMPLETION`.
    pub completion: CompletionVariant,
    /// Messages that came eagerly before their receive, at most. `AM_EARLY_ARRIVALS_MAX`.
    pub early_arrivals_max: Option<u64>,
    /// Non-blocking receives that may be posted at once. `AM_POSTED_RECEIVES_MAX`.
    pub posted_receives_max: Option<u64>,
    /// Non-blocking sends that may be under way when another one beyond the eager limit is started. `AM_LONG_SENDS_MAX`.
    pub long_sends_max: Option<u64>,
    /// Say on standard error with what MPI starts, and what it has done at its end. `AM_DEBUG`.
    pub debug: bool,
    /// Print the queues when SIGUSR2 comes. `AM_DUMP_QUEUES`.
    pub dump_queues: bool,
    /// From where on which algorithm a collective uses.
    pub collectives: Selection,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // As much as a packet of am-via holds. On 2 cores two copies are faster than fetching up to 32 KiB, if the data are new; but
            // each pair of tasks has 128 places of this length.
            eager_limit_bytes: 16384,
            early_arrival_bytes_max: 64 << 20,
            completion: CompletionVariant::default(),
            early_arrivals_max: None,
            posted_receives_max: None,
            long_sends_max: None,
            debug: false,
            dump_queues: false,
            collectives: Selection::default(),
        }
    }
}

/// From where on which algorithm is used. The defaults were set on 2 busy cores, and are to be measured again on more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Each collective begins with an exchange in which all tasks compare which one they are in, with which root, operator, datatype and
    /// length ([`Error::Mismatched`](crate::Error::Mismatched)). All tasks have the same. Off by default, but
    /// [`Environment::init`](crate::Environment::init) turns it on in builds for debugging. `AM_CHECK_COLLECTIVES`.
    pub check: bool,
    /// Communicators of up to this many tasks carry short collectives out by puts and counters, with no message; 0: none does.
    pub puts_tasks_max: u32,
    /// The longest data, in bytes, of which a collective goes by puts. Barriers, which have none, always do.
    pub puts_bytes_max: u64,
    /// The same for broadcasts among at least [`broadcast_puts_tasks_min`](Self::broadcast_puts_tasks_min) tasks, if it is more.
    pub broadcast_puts_bytes_max: u64,
    /// From how many tasks on it holds.
    pub broadcast_puts_tasks_min: u32,
    /// Up to this many tasks a barrier goes in rounds of notices; more use a tree.
    pub barrier_rounds_tasks_max: u32,
    /// Up to this many bytes a broadcast goes down a tree; longer ones along a chain, in pieces.
    pub broadcast_tree_bytes_max: u64,
    /// Bytes of a piece in that chain.
    pub broadcast_piece_bytes: u64,
    /// Up to this many bytes a reduction goes up a tree; in longer ones each task reduces a part of the vector.
    pub reduce_tree_bytes_max: u64,
    /// Bytes of a piece of a long vector: what the others send of it should stay in the cache.
    pub reduce_piece_bytes: u64,
    /// Up to this many bytes all tasks reduce by recursive doubling; longer ones in parts.
    pub allreduce_doubling_bytes_max: u64,
    /// Up to this many tasks an allgather sends each block to each task; more go in rounds, if the result is short.
    pub allgather_linear_tasks_max: u32,
    /// The longest result, in bytes, that an allgather of many tasks collects in rounds.
    pub allgather_rounds_bytes_max: u64,
}

impl Selection {
    /// The longest data of which a broadcast among so many tasks goes by puts.
    pub(crate) fn broadcast_put_bytes(&self, tasks: u32) -> u64 {
        if tasks < self.broadcast_puts_tasks_min {
            self.puts_bytes_max
        } else {
            self.broadcast_puts_bytes_max.max(self.puts_bytes_max)
        }
    }
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            check: false,
            puts_tasks_max: 32,
            // On 2 busy cores, puts took 0.9 to 1.1 of the time of messages in barriers of 2 to 16 tasks, and 0.4 to 0.7 in broadcasts of
            // 64 bytes to 16 KiB among 12 and 16 tasks (of 8 bytes 1.2 to 2); otherwise, with data, 1.0 to 1.4 among 2 tasks, and 0.9 to
            // 1.3 among 4.
            puts_bytes_max: 0,
            broadcast_puts_bytes_max: 16 << 10,
            broadcast_puts_tasks_min: 9,
            barrier_rounds_tasks_max: 4,
            broadcast_tree_bytes_max: 64 << 10,
            broadcast_piece_bytes: 128 << 10,
            reduce_tree_bytes_max: 16 << 10,
            reduce_piece_bytes: 1 << 20,
            allreduce_doubling_bytes_max: 16 << 10,
            allgather_linear_tasks_max: 4,
            allgather_rounds_bytes_max: 16 << 10,
        }
    }
}
