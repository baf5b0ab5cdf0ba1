//! The checks, by what they are about. Each function is one check and is run by both sides at once; `pair.is_a()` tells them
//! apart where their parts differ.

pub(super) mod client_server;
pub(super) mod faults;
pub(super) mod memory;
pub(super) mod nic;
pub(super) mod notices;
pub(super) mod peers;
pub(super) mod queues;
pub(super) mod rdma;
pub(super) mod reliability;
pub(super) mod send_receive;
pub(super) mod stress;
pub(super) mod vis;
