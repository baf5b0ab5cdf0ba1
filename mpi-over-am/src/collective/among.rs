//! Groups of a communicator's tasks, each of which carries out one stage of a collective.

use super::plan::{Others, Plan};
use crate::communicator::hosts::Hosts;
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;
use crate::settings::Selection;
use mpi_datatype::Datatype;

/// Divides a collective into stages, and makes the plan of each stage. Each host has a leader: its first rank, or the root if the root is
/// on that host.
pub(super) struct Stages<'a> {
    plan: &'a mut dyn Plan,
    hosts: &'a Hosts,
    /// Two positions whose ranks are exchanged: the first position of the root's host, and the root's position.
    swapped: (u32, u32),
}

/// The tasks of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Members {
    /// All tasks, host by host.
    All,
    /// The tasks of this task's host, the leader first.
    Near,
    /// The leader of each host.
    Leaders,
    /// The last rank of each host.
    Last,
}

impl<'a> Stages<'a> {
    /// Stages in which the first rank of each host is its leader.
    pub(super) fn new(plan: &'a mut dyn Plan, hosts: &'a Hosts) -> Self {
        Self { plan, hosts, swapped: (0, 0) }
    }

    /// Stages in which `root` is the leader of its host.
    pub(super) fn led_by(plan: &'a mut dyn Plan, hosts: &'a Hosts, root: u32) -> Self {
        let first = hosts.of(hosts.host_of(root)).start;
        Self { plan, hosts, swapped: (first, hosts.position_of(root)) }
    }

    pub(super) fn plan(&mut self) -> &mut dyn Plan {
        self.plan
    }

    /// The rank at a position, after the exchange: the leader of each host comes first.
    pub(super) fn rank_at(&self, position: u32) -> u32 {
        self.hosts.rank_at(self.swap(position))
    }

    /// The rank of a host's leader.
    pub(super) fn leader_of(&self, host: u32) -> u32 {
        self.rank_at(self.hosts.of(host).start)
    }

    /// Whether this task is the leader of its host.
    pub(super) fn leads(&self) -> bool {
        self.plan.rank() == self.leader_of(self.hosts.own())
    }

    /// All tasks, host by host.
    pub(super) fn all(&mut self) -> Among<'_> {
        self.among(Members::All)
    }

    /// The tasks of this host, the leader first.
    pub(super) fn near(&mut self) -> Among<'_> {
        self.among(Members::Near)
    }

    /// The leaders, by host. Only a leader may call this.
    pub(super) fn leaders(&mut self) -> Among<'_> {
        self.among(Members::Leaders)
    }

    /// The last rank of each host. Only such a rank may call this.
    pub(super) fn last(&mut self) -> Among<'_> {
        self.among(Members::Last)
    }

    fn swap(&self, position: u32) -> u32 {
        match self.swapped {
            (first, root) if position == first => root,
            (first, root) if position == root => first,
            _ => position,
        }
    }

    fn among(&mut self, members: Members) -> Among<'_> {
        let Self { hosts, swapped, .. } = *self;
        let (own, near) = (self.swap(hosts.position_of(self.plan.rank())), hosts.of(hosts.own()));
        let (rank, size) = match members {
            Members::All => (own, hosts.size()),
            Members::Near => (own - near.start, near.end - near.start),
            Members::Leaders | Members::Last => (hosts.own(), hosts.count()),
        };
        Among { stages: Stages { plan: &mut *self.plan, hosts, swapped }, members, rank, size }
    }
}

/// The plan of a stage. Its ranks number the tasks of the stage.
pub(super) struct Among<'a> {
    stages: Stages<'a>,
    members: Members,
    rank: u32,
    size: u32,
}

impl Among<'_> {
    /// The rank in the communicator of the task that has rank `rank` in the stage.
    fn whole(&self, rank: u32) -> u32 {
        let hosts = self.stages.hosts;
        self.stages.rank_at(match self.members {
            Members::All => rank,
            Members::Near => hosts.of(hosts.own()).start + rank,
            Members::Leaders => hosts.of(rank).start,
            Members::Last => hosts.of(rank).end - 1,
        })
    }
}

impl Plan for Among<'_> {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn peers(&self) -> u32 {
        self.size
    }

    fn is_inter(&self) -> bool {
        false
    }

    fn is_commutative(&self) -> bool {
        self.stages.plan.is_commutative()
    }

    fn selection(&self) -> Selection {
        self.stages.plan.selection()
    }

    fn send(&mut self, data: &SendData, to: u32) -> Result<()> {
        let to = self.whole(to);
        self.stages.plan.send(data, to)
    }

    fn receive(&mut self, data: &RecvData, from: u32) -> Result<()> {
        let from = self.whole(from);
        self.stages.plan.receive(data, from)
    }

    fn wait(&mut self) -> Result<()> {
        self.stages.plan.wait()
    }

    fn wait_for_receives(&mut self) -> Result<()> {
        self.stages.plan.wait_for_receives()
    }

    fn combine(&mut self, earlier: &SendData, later: &RecvData) -> Result<()> {
        self.stages.plan.combine(earlier, later)
    }

    fn copy(&mut self, from: &SendData, to: &RecvData) -> Result<()> {
        self.stages.plan.copy(from, to)
    }

    fn examine(&mut self, bytes: &SendData, look: fn(&[u8]) -> Result<()>) -> Result<()> {
        self.stages.plan.examine(bytes, look)
    }

    fn scratch(&mut self, count: u64, datatype: &Datatype) -> Result<RecvData> {
        self.stages.plan.scratch(count, datatype)
    }

    fn among_own(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        part(self)
    }

    fn push(&mut self, data: &SendData, to: u32) -> Result<()> {
        let to = self.whole(to);
        self.stages.plan.push(data, to)
    }

    fn pull(&mut self, data: &RecvData, from: u32) -> Result<()> {
        let from = self.whole(from);
        self.stages.plan.pull(data, from)
    }

    fn pull_and_combine(&mut self, buffer: &RecvData, from: u32, others: Others<'_>) -> Result<()> {
        let from = self.whole(from);
        self.stages.plan.pull_and_combine(buffer, from, others)
    }

    fn across(&mut self, (out, to): (&SendData, u32), (data, from): (&RecvData, u32)) -> Result<()> {
        let (to, from) = (self.whole(to), self.whole(from));
        self.stages.plan.across((out, to), (data, from))
    }
}
