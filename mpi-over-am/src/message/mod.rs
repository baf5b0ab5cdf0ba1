//! Messages: envelopes, protocols, matching and early arrivals; the requests' table, the environment's state with the turns of its calls,
//! and the progress of what runs by itself.

pub(crate) mod attached_buffers;
pub(crate) mod board;
pub(crate) mod budget;
pub(crate) mod completion;
pub(crate) mod consensus;
pub(crate) mod counts;
pub(crate) mod early_message;
pub(crate) mod envelope;
pub(crate) mod handlers;
pub(crate) mod helper_thread;
pub(crate) mod notes;
pub(crate) mod ports;
pub(crate) mod progress;
pub(crate) mod progress_thread;
pub(crate) mod protocol;
pub(crate) mod request_id;
pub(crate) mod request_table;
pub(crate) mod route;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod tree;
pub(crate) mod turn;
pub(crate) mod under_way;
pub(crate) mod waits;
