//! Collectives of tasks on several hosts, in three stages: within each host, between the leaders of the hosts, and within each host again.
//!
//! Each stage is one of the algorithms that ignore hosts, among some of the tasks ([`Among`](super::among::Among)). Data cross the network
//! once per host, and not once per task. All stages of a collective use the same tag. This is safe: two tasks exchange messages in one
//! stage only, except for tasks of the same host, whose first and last stages follow each other in order.

use super::Plan;
use super::allgather::{self};
use super::allreduce::{self};
use super::alltoall::{self};
use super::among::Stages;
use super::barrier::{self};
use super::broadcast::{self};
use super::chunks::Chunks;
use super::gather::{self};
use super::parts::Parts;
use super::reduce::{self};
use super::reduce_scatter::{self};
use super::scan::{self};
use crate::communicator::hosts::Hosts;
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;
use mpi_datatype::{Datatype, Predefined};

/// Maximum bytes that a leader collects from, or for, the tasks of its host, in collectives where this saves messages but no bytes between
/// hosts. Longer data go directly, without an additional copy. With this length, an alltoall of two hosts with two tasks each took 0.98 of
/// the time of direct messages; with twice this length, 1.27.
const COLLECTED_BYTES_MAX: u64 = 32 << 10;

/// Whether leaders collect `len` bytes of each task. The answer is the same at all tasks.
fn are_collected(hosts: &Hosts, len: u64) -> bool {
    len.checked_mul(hosts.largest().into()).is_some_and(|all| all <= COLLECTED_BYTES_MAX)
}

fn bytes(plan: &mut dyn Plan, count: u64) -> Result<RecvData> {
    plan.scratch(count, &Datatype::predefined(Predefined::Byte))
}

pub(super) fn barrier(plan: &mut dyn Plan, hosts: &Hosts) -> Result<()> {
    let mut stages = Stages::new(plan, hosts);
    barrier::arrive(&mut stages.near())?;
    if stages.leads() {
        barrier::barrier(&mut stages.leaders())?;
    }
    barrier::leave(&mut stages.near())
}

pub(super) fn broadcast(plan: &mut dyn Plan, hosts: &Hosts, data: &RecvData, root: u32) -> Result<()> {
    let mut stages = Stages::led_by(plan, hosts, root);
    let host = hosts.host_of(root);
    // A chain in the order of the hosts enters each host once, and all hosts work at the same time.
    if data.packed_len() > stages.plan().selection().broadcast_tree_bytes_max {
        return broadcast::broadcast(&mut stages.all(), data, hosts.of(host).start);
    }
    if stages.leads() {
        broadcast::broadcast(&mut stages.leaders(), data, host)?;
    }
    broadcast::broadcast(&mut stages.near(), data, 0)
}

/// If the operation does not commute, the ranks of each host must follow those of the previous host.
pub(super) fn reduce(
    plan: &mut dyn Plan,
    hosts: &Hosts,
    (own, into): (Option<&SendData>, Option<&RecvData>),
    root: u32,
) -> Result<()> {
    let is_root = plan.rank() == root;
    let host = hosts.host_of(root);
    let into = into.filter(|_| is_root);
    let Some(vector) = own.cloned().or_else(|| into.map(RecvData::as_send)) else { return Ok(()) };
    // To combine in the order of the ranks, the leader of a host must be its first rank.
    let mut stages =
        if plan.is_commutative() { Stages::led_by(plan, hosts, root) } else { Stages::new(plan, hosts) };
    let leader = stages.leader_of(host);
    if stages.leads() {
        let reduced = match into {
            Some(into) => into.clone(),
            None => stages.plan().scratch(vector.count(), vector.datatype())?,
        };
        reduce::reduce(&mut stages.near(), own, Some(&reduced), 0)?;
        let result = Some(&reduced).filter(|_| hosts.own() == host);
        let own = reduced.as_send();
        reduce::reduce(&mut stages.leaders(), Some(&own).filter(|_| result.is_none()), result, host)?;
        if hosts.own() == host && !is_root {
            stages.plan().push(&own, root)?;
        }
        return Ok(());
    }
    reduce::reduce(&mut stages.near(), Some(&vector), None, 0)?;
    into.map_or(Ok(()), |into| stages.plan().pull(into, leader))
}

/// The order of combination is that of [`reduce`](reduce()).
pub(super) fn allreduce(
    plan: &mut dyn Plan,
    hosts: &Hosts,
    own: Option<&SendData>,
    into: &RecvData,
) -> Result<()> {
    let mut stages = Stages::new(plan, hosts);
    if stages.leads() {
        reduce::reduce(&mut stages.near(), own, Some(into), 0)?;
        allreduce::allreduce(&mut stages.leaders(), None, into)?;
    } else {
        let own = own.cloned().unwrap_or_else(|| into.as_send());
        reduce::reduce(&mut stages.near(), Some(&own), None, 0)?;
    }
    broadcast::broadcast(&mut stages.near(), into, 0)
}

/// The order of combination is that of [`reduce`](reduce()).
pub(super) fn reduce_scatter(
    plan: &mut dyn Plan,
    hosts: &Hosts,
    (own, into): (Option<&SendData>, &RecvData),
    chunks: &Chunks,
) -> Result<()> {
    let own = own.cloned().unwrap_or_else(|| into.as_send());
    let result = into.part(0, chunks.of(plan.rank()).1);
    let mut stages = Stages::new(plan, hosts);
    if !stages.leads() {
        reduce::reduce(&mut stages.near(), Some(&own), None, 0)?;
        return gather::scatter(&mut stages.near(), None, Some(&result), 0);
    }
    let count = own.count();
    let mut reduced = stages.plan().scratch(count, into.datatype())?;
    reduce::reduce(&mut stages.near(), Some(&own), Some(&reduced), 0)?;
    let chunk_at = |position| chunks.of(hosts.rank_at(position));
    let by_host = Chunks::listed((0..hosts.size()).map(|position| chunk_at(position).1));
    if !hosts.are_in_order() {
        let moved = stages.plan().scratch(count, into.datatype())?;
        for position in 0..hosts.size() {
            let (first, count) = chunk_at(position);
            let to = by_host.part(&moved, position..position + 1);
            stages.plan().copy(&reduced.part(first, count).as_send(), &to)?;
        }
        reduced = moved;
    }
    let of_host = |host| by_host.part(&reduced, hosts.of(host)).count();
    let part = stages.plan().scratch(of_host(hosts.own()), into.datatype())?;
    let of_hosts = Chunks::listed((0..hosts.count()).map(of_host));
    reduce_scatter::reduce_scatter(&mut stages.leaders(), Some(&reduced.as_send()), &part, &of_hosts)?;
    let near = Chunks::listed(hosts.of(hosts.own()).map(|position| chunk_at(position).1));
    let tasks = 0..stages.near().size();
    let parts = Parts::Listed(tasks.map(|task| near.part(&part, task..task + 1).as_send()).collect());
    gather::scatter(&mut stages.near(), Some(&parts), Some(&result), 0)
}

/// The ranks of each host must follow those of the previous host.
pub(super) fn inclusive_scan(
    plan: &mut dyn Plan,
    hosts: &Hosts,
    own: Option<&SendData>,
    into: &RecvData,
) -> Result<()> {
    let before = plan.scratch(into.count(), into.datatype())?;
    let mut stages = Stages::new(plan, hosts);
    scan::inclusive(&mut stages.near(), own, into)?;
    if before_this_host(&mut stages, hosts, into, &before)? {
        stages.plan().combine(&before.as_send(), into)?;
    }
    Ok(())
}

/// The ranks of each host must follow those of the previous host.
pub(super) fn exclusive_scan(
    plan: &mut dyn Plan,
    hosts: &Hosts,
    own: Option<&SendData>,
    into: &RecvData,
) -> Result<()> {
    let before = plan.scratch(into.count(), into.datatype())?;
    let with_own = plan.scratch(into.count(), into.datatype())?;
    plan.copy(&own.cloned().unwrap_or_else(|| into.as_send()), &with_own)?;
    let mut stages = Stages::new(plan, hosts);
    scan::exclusive(&mut stages.near(), own, into)?;
    let is_first = stages.near().rank() == 0;
    if !is_first {
        stages.plan().combine(&into.as_send(), &with_own)?;
    }
    match (before_this_host(&mut stages, hosts, &with_own, &before)?, is_first) {
        (false, _) => Ok(()),
        (true, true) => stages.plan().copy(&before.as_send(), into),
        (true, false) => stages.plan().combine(&before.as_send(), into),
    }
}

/// Combines the results of all hosts before this one into `before`. Returns false on the first host. On the last rank of each host, `own`
/// must hold the host's result.
fn before_this_host(stages: &mut Stages, hosts: &Hosts, own: &RecvData, before: &RecvData) -> Result<bool> {
    let near = stages.near();
    let (rank, last) = (near.rank(), near.size() - 1);
    if rank == last {
        scan::exclusive(&mut stages.last(), Some(&own.as_send()), before)?;
    }
    if hosts.own() == 0 {
        return Ok(false);
    }
    broadcast::broadcast(&mut stages.near(), before, last).map(|()| true)
}

/// The blocks must have the same length.
pub(super) fn gather(
    plan: &mut impl Plan,
    hosts: &Hosts,
    (own, into): (Option<&SendData>, Option<&Parts<RecvData>>),
    root: u32,
) -> Result<()> {
    let at_root = || into.map_or(0, |into| into.of(root).packed_len());
    if !are_collected(hosts, own.map_or_else(at_root, SendData::packed_len)) {
        return gather::gather(plan, own, into, root);
    }
    let is_root = plan.rank() == root;
    let mut stages = Stages::led_by(plan, hosts, root);
    if !stages.leads() {
        return gather::gather(&mut stages.near(), own, None, 0);
    }
    let host = hosts.host_of(root);
    let Some(into) = into.filter(|_| is_root) else {
        let Some(own) = own else { return Ok(()) };
        let (block, near) = (own.packed_len(), hosts.of(hosts.own()).len() as u64);
        let all = bytes(stages.plan(), near * block)?;
        let parts = Parts::Equal { all: all.clone(), count: block };
        gather::gather(&mut stages.near(), Some(own), Some(&parts), 0)?;
        return gather::gather(&mut stages.leaders(), Some(&all.as_send()), None, host);
    };
    let near = hosts.of(hosts.own()).map(|position| into.of(stages.rank_at(position)));
    let near = Parts::Listed(near.collect());
    gather::gather(&mut stages.near(), own, Some(&near), 0)?;
    let block = into.of(root).packed_len();
    let all = bytes(stages.plan(), u64::from(hosts.size()) * block)?;
    let blocks = Chunks::Equal { count: block };
    let regions = (0..hosts.count()).map(|host| blocks.part(&all, hosts.of(host)));
    let regions = Parts::Listed(regions.collect());
    gather::gather(&mut stages.leaders(), None, Some(&regions), host)?;
    for position in (0..hosts.size()).filter(|position| !hosts.of(host).contains(position)) {
        let to = into.of(stages.rank_at(position));
        stages.plan().copy(&blocks.part(&all, position..position + 1).as_send(), &to)?;
    }
    Ok(())
}

/// The blocks must have the same length.
pub(super) fn scatter(
    plan: &mut impl Plan,
    hosts: &Hosts,
    (parts, into): (Option<&Parts<SendData>>, Option<&RecvData>),
    root: u32,
) -> Result<()> {
    let at_root = || parts.map_or(0, |parts| parts.of(root).packed_len());
    if !are_collected(hosts, into.map_or_else(at_root, RecvData::packed_len)) {
        return gather::scatter(plan, parts, into, root);
    }
    let is_root = plan.rank() == root;
    let mut stages = Stages::led_by(plan, hosts, root);
    if !stages.leads() {
        return gather::scatter(&mut stages.near(), None, into, 0);
    }
    let host = hosts.host_of(root);
    let Some(parts) = parts.filter(|_| is_root) else {
        let Some(into) = into else { return Ok(()) };
        let (block, near) = (into.packed_len(), hosts.of(hosts.own()).len() as u64);
        let all = bytes(stages.plan(), near * block)?;
        gather::scatter(&mut stages.leaders(), None, Some(&all), host)?;
        let parts = Parts::Equal { all: all.as_send(), count: block };
        return gather::scatter(&mut stages.near(), Some(&parts), Some(into), 0);
    };
    let block = parts.of(root).packed_len();
    let all = bytes(stages.plan(), u64::from(hosts.size()) * block)?;
    let blocks = Chunks::Equal { count: block };
    for position in (0..hosts.size()).filter(|position| !hosts.of(host).contains(position)) {
        let from = parts.of(stages.rank_at(position));
        stages.plan().copy(&from, &blocks.part(&all, position..position + 1))?;
    }
    let regions = (0..hosts.count()).map(|host| blocks.part(&all, hosts.of(host)).as_send());
    gather::scatter(&mut stages.leaders(), Some(&Parts::Listed(regions.collect())), None, host)?;
    let near = hosts.of(hosts.own()).map(|position| parts.of(stages.rank_at(position)));
    let near = Parts::Listed(near.collect());
    gather::scatter(&mut stages.near(), Some(&near), into, 0)
}

pub(super) fn allgather(
    plan: &mut dyn Plan,
    hosts: &Hosts,
    own: Option<&SendData>,
    into: &Parts<RecvData>,
) -> Result<()> {
    let rank = plan.rank();
    // The blocks by host: the result itself, if its blocks are in this order and without gaps.
    let (all, blocks, is_result) = match into {
        Parts::Equal { all, count } if hosts.are_in_order() => {
            (all.clone(), Chunks::Equal { count: *count }, true)
        }
        _ => {
            let lens = (0..hosts.size()).map(|position| into.of(hosts.rank_at(position)).packed_len());
            (bytes(plan, lens.clone().sum())?, Chunks::listed(lens), false)
        }
    };
    let block = |position| blocks.part(&all, position..position + 1);
    let is_there = is_result && own.is_none();
    let own = own.cloned().unwrap_or_else(|| into.of(rank).as_send());
    let mut stages = Stages::new(plan, hosts);
    if stages.leads() {
        let near = hosts.of(hosts.own());
        let first = block(near.start);
        if !is_there {
            stages.plan().copy(&own, &first)?;
        }
        let parts = Parts::Listed(near.map(block).collect());
        gather::gather(&mut stages.near(), None, Some(&parts), 0)?;
        let regions =
            Parts::Listed((0..hosts.count()).map(|host| blocks.part(&all, hosts.of(host))).collect());
        allgather::allgather(&mut stages.leaders(), None, &regions)?;
    } else {
        gather::gather(&mut stages.near(), Some(&own), None, 0)?;
    }
    broadcast::broadcast(&mut stages.near(), &all, 0)?;
    if is_result {
        return Ok(());
    }
    (0..hosts.size()).try_for_each(|position| {
        stages.plan().copy(&block(position).as_send(), &into.of(hosts.rank_at(position)))
    })
}

/// Blocks of different lengths go directly.
pub(super) fn alltoall(
    plan: &mut impl Plan,
    hosts: &Hosts,
    parts: Option<&Parts<SendData>>,
    blocks: &Parts<RecvData>,
) -> Result<()> {
    let (own, into) = match (parts, blocks) {
        (None, Parts::Equal { all, .. }) => (&all.as_send(), all),
        (Some(Parts::Equal { all: own, .. }), Parts::Equal { all, .. }) => (own, all),
        _ => return alltoall::alltoall(plan, parts, blocks),
    };
    if !are_collected(hosts, into.packed_len()) {
        return alltoall::alltoall(plan, parts, blocks);
    }
    let mut stages = Stages::new(plan, hosts);
    if !stages.leads() {
        gather::gather(&mut stages.near(), Some(own), None, 0)?;
        return gather::scatter(&mut stages.near(), None, Some(into), 0);
    }
    let (near, size) = (hosts.of(hosts.own()), hosts.size());
    let tasks = near.end - near.start;
    let (row, block) = (into.packed_len(), into.packed_len() / u64::from(size));
    let mut memory = || bytes(stages.plan(), u64::from(tasks) * row);
    let [rows, out, incoming] = [memory()?, memory()?, memory()?];
    let at = |memory: &RecvData, first: u32, count: u32| {
        memory.part((u64::from(first) * block).cast_signed(), u64::from(count) * block)
    };
    let all = Parts::Equal { all: rows.clone(), count: row };
    gather::gather(&mut stages.near(), Some(own), Some(&all), 0)?;
    // For each destination host: the blocks from the first task of this host, then the blocks from its second task, and so on.
    for host in (0..hosts.count()).map(|host| hosts.of(host)) {
        for (number, position) in (0..tasks).flat_map(|number| host.clone().map(move |at| (number, at))) {
            let to = tasks * host.start + number * (host.end - host.start) + (position - host.start);
            let from = at(&rows, number * size + hosts.rank_at(position), 1).as_send();
            stages.plan().copy(&from, &at(&out, to, 1))?;
        }
    }
    let regions = |memory: &RecvData| -> Vec<RecvData> {
        let of = |host: std::ops::Range<u32>| at(memory, tasks * host.start, tasks * (host.end - host.start));
        (0..hosts.count()).map(|host| of(hosts.of(host))).collect()
    };
    let sent = Parts::Listed(regions(&out).iter().map(RecvData::as_send).collect());
    alltoall::alltoall(&mut stages.leaders(), Some(&sent), &Parts::Listed(regions(&incoming)))?;
    // The blocks have arrived in the order of their senders, one from each sender for each task of this host. Each task gets a row.
    for (position, number) in (0..size).flat_map(|position| (0..tasks).map(move |number| (position, number)))
    {
        let from = at(&incoming, tasks * position + number, 1).as_send();
        stages.plan().copy(&from, &at(&rows, number * size + hosts.rank_at(position), 1))?;
    }
    let all = Parts::Equal { all: rows.as_send(), count: row };
    gather::scatter(&mut stages.near(), Some(&all), Some(into), 0)
}
