//! The checks, by subject. Each function is one check, which both sides run at once; it uses `pair.is_a()` where their parts differ.

mod client_server;
mod faults;
mod memory;
mod nic;
mod notices;
mod peers;
mod queues;
mod rdma;
mod reliability;
mod send_receive;
mod stress;
mod vis;

use am_via_nic::Device;

use crate::suite::Check;

/// Every check, by level.
pub(super) fn all<D: Device>() -> Vec<Check<D>> {
    let mut checks: Vec<Check<D>> = [
        nic::table,
        memory::table,
        vis::table,
        client_server::table,
        peers::table,
        send_receive::table,
        rdma::table,
        queues::table,
        reliability::table,
        notices::table,
        faults::table,
        stress::table,
    ]
    .iter()
    .flat_map(|table| table())
    .collect();
    checks.sort_by_key(|check| check.level);
    checks
}
