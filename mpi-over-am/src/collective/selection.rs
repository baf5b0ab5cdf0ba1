//! Which algorithm a collective uses: all limits in one place.

/// From where on which algorithm is used. The defaults are what was measured on 2 cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Up to this many tasks a barrier goes in rounds of notices; more use a tree.
    pub barrier_rounds_tasks_max: u32,
    /// Up to this many bytes a broadcast goes down a tree; longer ones along a chain, in pieces.
    pub broadcast_tree_bytes_max: u64,
    /// Bytes of a piece in that chain.
    pub broadcast_piece_bytes: u64,
    /// Up to this many bytes a reduction goes up a tree; in longer ones each task reduces a part of the vector.
    pub reduce_tree_bytes_max: u64,
    /// Up to this many bytes all tasks reduce by recursive doubling; longer ones in parts.
    pub allreduce_doubling_bytes_max: u64,
    /// Up to this many tasks an allgather sends each block to each task; more go in rounds, if the result is short.
    pub allgather_linear_tasks_max: u32,
    /// The longest result, in bytes, that an allgather of many tasks collects in rounds.
    pub allgather_rounds_bytes_max: u64,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            barrier_rounds_tasks_max: 4,
            broadcast_tree_bytes_max: 64 << 10,
            broadcast_piece_bytes: 128 << 10,
            reduce_tree_bytes_max: 16 << 10,
            allreduce_doubling_bytes_max: 16 << 10,
            allgather_linear_tasks_max: 4,
            allgather_rounds_bytes_max: 16 << 10,
        }
    }
}
