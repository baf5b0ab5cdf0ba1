//! Carries out a collective by the algorithms: in stages if its tasks are on several hosts, otherwise all tasks alike.

use crate::communicator::hosts::Hosts;
use crate::error::Result;

use super::call::Collective;
use super::chunks::Chunks;
use super::{Plan, allgather, allreduce, alltoall, barrier, broadcast, gather, hosts, neighbour};
use super::{reduce, reduce_scatter, scan};

impl Collective {
    /// Carries out this task's part.
    ///
    /// # Errors
    /// Those of the plan.
    pub(super) fn perform(&self, plan: &mut impl Plan) -> Result<()> {
        match plan.hosts() {
            Some(hosts) => self.perform_in_stages(plan, &hosts),
            None => self.perform_alike(plan),
        }
    }

    /// Carries out this task's part of a collective of tasks on several hosts. All tasks choose stages, or choose none.
    fn perform_in_stages(&self, plan: &mut impl Plan, hosts: &Hosts) -> Result<()> {
        // The order of the hosts matters only to operations that do not commute, and to scans.
        let reduces = plan.is_commutative() || hosts.are_in_order();
        match self {
            Self::Barrier => hosts::barrier(plan, hosts),
            Self::Broadcast { data, root } => hosts::broadcast(plan, hosts, data, *root),
            Self::Gather { is_equal: true, send, recv, root } => {
                hosts::gather(plan, hosts, (send.as_ref(), recv.as_ref()), *root)
            }
            Self::Scatter { is_equal: true, send, recv, root } => {
                hosts::scatter(plan, hosts, (send.as_ref(), recv.as_ref()), *root)
            }
            Self::Allgather { send, recv } => hosts::allgather(plan, hosts, send.as_ref(), recv),
            Self::Alltoall { send, recv } => hosts::alltoall(plan, hosts, send.as_ref(), recv),
            Self::Reduce { send, recv, root, .. } if reduces => {
                hosts::reduce(plan, hosts, (send.as_ref(), recv.as_ref()), *root)
            }
            Self::Allreduce { send, recv, .. } if reduces => {
                hosts::allreduce(plan, hosts, send.as_ref(), recv)
            }
            Self::ReduceScatterBlock { send, recv, .. } | Self::ReduceScatter { send, recv, .. }
                if reduces =>
            {
                hosts::reduce_scatter(plan, hosts, (send.as_ref(), recv), &self.chunks())
            }
            Self::Scan { send, recv, .. } if hosts.are_in_order() => {
                hosts::inclusive_scan(plan, hosts, send.as_ref(), recv)
            }
            Self::ExclusiveScan { send, recv, .. } if hosts.are_in_order() => {
                hosts::exclusive_scan(plan, hosts, send.as_ref(), recv)
            }
            _ => self.perform_alike(plan),
        }
    }

    /// Carries out this task's part, whatever host each task is on.
    fn perform_alike(&self, plan: &mut impl Plan) -> Result<()> {
        match self {
            Self::Barrier => barrier::barrier(plan),
            Self::Broadcast { data, root } => broadcast::broadcast(plan, data, *root),
            Self::Gather { send, recv, root, .. } => {
                gather::gather(plan, send.as_ref(), recv.as_ref(), *root)
            }
            Self::Scatter { send, recv, root, .. } => {
                gather::scatter(plan, send.as_ref(), recv.as_ref(), *root)
            }
            Self::Allgather { send, recv } => allgather::allgather(plan, send.as_ref(), recv),
            Self::Alltoall { send, recv } => alltoall::alltoall(plan, send.as_ref(), recv),
            Self::Reduce { send, recv, root, .. } => {
                reduce::reduce(plan, send.as_ref(), recv.as_ref(), *root)
            }
            Self::Allreduce { send, recv, .. } => allreduce::allreduce(plan, send.as_ref(), recv),
            Self::ReduceScatterBlock { send, recv, .. } | Self::ReduceScatter { send, recv, .. } => {
                reduce_scatter::reduce_scatter(plan, send.as_ref(), recv, &self.chunks())
            }
            Self::Scan { send, recv, .. } => scan::inclusive(plan, send.as_ref(), recv),
            Self::ExclusiveScan { send, recv, .. } => scan::exclusive(plan, send.as_ref(), recv),
            Self::NeighbourAllgather { send, recv, neighbours } => {
                neighbour::allgather(plan, send, recv, neighbours)
            }
            Self::NeighbourAlltoall { send, recv, neighbours } => {
                neighbour::alltoall(plan, send, recv, neighbours)
            }
        }
    }

    /// The part of a reduced vector that each task gets.
    pub(super) fn chunks(&self) -> Chunks {
        match self {
            Self::ReduceScatterBlock { count, .. } => Chunks::Equal { count: *count },
            Self::ReduceScatter { counts, .. } => Chunks::listed(counts.iter().copied()),
            _ => Chunks::listed([]),
        }
    }
}
