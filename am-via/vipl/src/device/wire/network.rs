//! The common state of all NICs of one wire, under one lock: links, frames in flight, registered memory, dead tasks.
//!
//! The network does what the NICs of a cluster would do: it carries frames, and serves writes, reads and atomics of memory whose owner does
//! not poll. Its clock counts the polls of all NICs. Each poll moves the frames in flight, and a NIC that waits advances the clock to the
//! next frame.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::device::{ClaimFault, DeviceError, Entry, NodeAddress, Operation, Payload, Posted};
use am_via_shm::{HeldRange, PrivateBytes, PrivateRegions};

use super::WireOptions;
use super::faults::{FaultGenerator, Kill, WireStatistics};
use super::link::{Area, Frame, Link, Part, Taken};
use super::rdma::{Kind, Transfer};

/// The network that all NICs of a wire share.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) options: WireOptions,
    state: Mutex<State>,
}

impl Network {
    pub(super) fn new(options: WireOptions) -> Self {
        Self { options, state: Mutex::new(State::new(options)) }
    }

    /// The state. It is consistent even after a panic under the lock: no step of the state calls code that may panic halfway.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events that wait for a NIC.
#[derive(Debug)]
pub(super) enum NicEvent {
    Frame { vi: u32, frame: Arc<Frame> },
    Connected { peer: NodeAddress },
    Ended { id: u64, result: Result<u64, ClaimFault>, read: Option<(PrivateBytes, HeldRange)> },
    TaskFailed(u32),
}

/// The network's record of a NIC, which may not be open yet.
#[derive(Debug, Default)]
pub(super) struct NicState {
    pub(super) open: bool,
    pub(super) events: VecDeque<NicEvent>,
    /// Whether the owner was rung, and has to look.
    pub(super) rung: bool,
    pub(super) bell: Arc<Condvar>,
    vis: Vec<ViEnd>,
    transfers: u32,
}

impl NicState {
    fn next_vi(&self) -> u32 {
        u32::try_from(self.vis.len()).expect("a wire never makes 2^32 connections")
    }

    fn deliver(&mut self, events: NicEvent) {
        self.events.push_back(events);
        self.bell.notify_all();
    }

    /// Ends the owner's current or next sleep.
    pub(super) fn ring(&mut self) {
        self.rung = true;
        self.bell.notify_all();
    }
}

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
struct ViEnd {
    out: usize,
    back: usize,
}

/// Something in flight.
#[derive(Debug)]
enum InTransit {
    Frame(usize, Arc<Frame>),
    Part(usize, Arc<Frame>, Part),
    Connection(NodeAddress, NodeAddress),
    Transfer(Transfer),
}

#[derive(Clone, Copy, Debug)]
enum Pair {
    Asked,
    Made { low_vi: u32, high_vi: u32 },
}

/// Maximum number of transfers of one NIC in flight.
const TRANSFERS_MAX: u32 = 1024;
/// Number of polls after which a transfer that the wire lost is retried.
const TRANSFER_AGAIN_POLLS: u64 = 50;

/// Everything under the lock.
#[derive(Debug)]
pub(super) struct State {
    options: WireOptions,
    now: u64,
    pub(super) nics: BTreeMap<NodeAddress, NicState>,
    pairs: BTreeMap<(NodeAddress, NodeAddress), Pair>,
    links: Vec<Link>,
    /// Links with unacknowledged frames.
    waiting: BTreeSet<usize>,
    /// Ordered by the poll of arrival, and then by departure.
    flights: BTreeMap<(u64, u64), InTransit>,
    departures: u64,
    pub(super) regions: Vec<PrivateRegions>,
    failures: Vec<Option<String>>,
    generator: FaultGenerator,
    kill: Option<Kill>,
    pub(super) statistics: WireStatistics,
}

impl State {
    fn new(options: WireOptions) -> Self {
        let generator = FaultGenerator::new(options.faults);
        Self {
            options,
            now: 0,
            nics: BTreeMap::new(),
            pairs: BTreeMap::new(),
            links: Vec::new(),
            waiting: BTreeSet::new(),
            flights: BTreeMap::new(),
            departures: 0,
            regions: (0..options.num_tasks).map(|_| PrivateRegions::new(options.regions_max)).collect(),
            failures: vec![None; options.num_tasks as usize],
            kill: generator.kill(),
            generator,
            statistics: WireStatistics::default(),
        }
    }

    pub(super) fn nic(&mut self, at: NodeAddress) -> &mut NicState {
        self.nics.entry(at).or_default()
    }

    /// Advances the clock by one poll.
    pub(super) fn tick(&mut self) {
        self.statistics.polls += 1;
        self.advance_to(self.now + 1);
    }

    /// Advances the clock to the next arrival, retransmission or death; returns whether there was one.
    pub(super) fn skip_to_next(&mut self) -> bool {
        let resend = self.waiting.iter().filter_map(|&link| self.links[link].next_due()).min();
        let flight = self.flights.keys().next().map(|&(due, _)| due);
        let kill = self.kill.map(|kill| kill.at_poll);
        let next = [resend, flight, kill].into_iter().flatten().min();
        if let Some(next) = next {
            self.advance_to(next.max(self.now + 1));
        }
        next.is_some()
    }

    fn advance_to(&mut self, now: u64) {
        self.now = now;
        if let Some(kill) = self.kill.take_if(|kill| now >= kill.at_poll) {
            self.fail(kill.task, "killed by the emulated wire");
            for (_, nic) in self.nics.iter_mut().filter(|(at, _)| at.task == kill.task) {
                nic.events.clear();
                nic.deliver(NicEvent::TaskFailed(kill.task));
            }
        }
        while let Some(first) = self.flights.first_entry() {
            if first.key().0 > now {
                break;
            }
            let flight = first.remove();
            self.land(flight);
        }
        if !self.waiting.is_empty() {
            self.send_again();
        }
    }

    fn land(&mut self, flight: InTransit) {
        match flight {
            InTransit::Frame(link, frame) => self.arrive(link, &frame),
            InTransit::Part(link, frame, part) => self.arrive_in_part(link, &frame, part),
            InTransit::Connection(low, high) => self.make_pair(low, high),
            InTransit::Transfer(transfer) => self.carry_out(transfer),
        }
    }

    fn schedule(&mut self, due: u64, flight: InTransit) {
        self.departures += 1;
        self.flights.insert((due, self.departures), flight);
    }

    /// Connects two NICs after a delay; returns the VI of `me` when the connection is made.
    pub(super) fn connect(&mut self, me: NodeAddress, to: NodeAddress) -> Result<Option<u32>, DeviceError> {
        to.check(self.options.num_tasks)?;
        if self.failures[to.task as usize].is_some() {
            return Err(ClaimFault::PeerDead.into());
        }
        let (low, high) = if me <= to { (me, to) } else { (to, me) };
        match self.pairs.get(&(low, high)) {
            Some(Pair::Asked) => return Ok(None),
            Some(&Pair::Made { low_vi, high_vi }) => {
                return Ok(Some(if me == low { low_vi } else { high_vi }));
            }
            None => {}
        }
        self.pairs.insert((low, high), Pair::Asked);
        self.schedule(self.now + self.options.connect_polls, InTransit::Connection(low, high));
        Ok(None)
    }

    fn make_pair(&mut self, low: NodeAddress, high: NodeAddress) {
        if [low, high].iter().any(|at| self.failures[at.task as usize].is_some()) {
            return;
        }
        let low_vi = self.nic(low).next_vi();
        if low == high {
            let link = self.new_link(low, low, low_vi);
            self.nic(low).vis.push(ViEnd { out: link, back: link });
            self.pairs.insert((low, high), Pair::Made { low_vi, high_vi: low_vi });
            self.nic(low).deliver(NicEvent::Connected { peer: low });
            return;
        }
        let high_vi = self.nic(high).next_vi();
        let up = self.new_link(low, high, high_vi);
        let down = self.new_link(high, low, low_vi);
        self.nic(low).vis.push(ViEnd { out: up, back: down });
        self.nic(high).vis.push(ViEnd { out: down, back: up });
        self.pairs.insert((low, high), Pair::Made { low_vi, high_vi });
        self.nic(low).deliver(NicEvent::Connected { peer: high });
        self.nic(high).deliver(NicEvent::Connected { peer: low });
    }

    fn new_link(&mut self, from: NodeAddress, to: NodeAddress, to_vi: u32) -> usize {
        self.links.push(Link::new(from, to, to_vi, self.options.ring_lines));
        self.links.len() - 1
    }

    fn end(&self, at: NodeAddress, vi: u32) -> Option<ViEnd> {
        self.nics.get(&at)?.vis.get(vi as usize).copied()
    }

    /// Closes a VI: both directions refuse posts from now on, and the peer gets an event after earlier posts have arrived. The two NICs may
    /// connect again, with another VI.
    pub(super) fn disconnect(&mut self, at: NodeAddress, vi: u32) {
        let Some(ViEnd { out, back }) = self.end(at, vi) else { return };
        if !self.links[out].closed {
            let goodbye = Entry { operation: Operation::Disconnect as u32, ..Entry::default() };
            self.launch(out, goodbye, Payload::default(), None);
        }
        self.links[out].closed = true;
        self.links[back].closed = true;
        let peer = self.links[out].to;
        let key = if at <= peer { (at, peer) } else { (peer, at) };
        let vi_of_pair = match self.pairs.get(&key) {
            Some(&Pair::Made { low_vi, high_vi }) => Some(if at == key.0 { low_vi } else { high_vi }),
            _ => None,
        };
        if vi_of_pair == Some(vi) {
            self.pairs.remove(&key);
        }
    }

    pub(super) fn allow_loss(&mut self, at: NodeAddress, vi: u32, allowed: bool) {
        if let Some(end) = self.end(at, vi) {
            self.links[end.out].lossy = allowed;
        }
    }

    /// Whether a post on this VI is accepted now.
    pub(super) fn admit(&mut self, at: NodeAddress, vi: u32) -> Result<Posted, DeviceError> {
        let number = crate::device::ViNumber(vi);
        let end = self.end(at, vi).ok_or(DeviceError::NotConnected(number))?;
        if self.links[end.out].closed {
            return Err(DeviceError::Closed(number));
        }
        if !self.links[end.out].has_free_line() {
            return Ok(Posted::Retry);
        }
        if self.generator.cuts() {
            self.cut(end);
            return Err(DeviceError::Closed(number));
        }
        if self.generator.refuses() {
            self.statistics.refused += 1;
            return Ok(Posted::Retry);
        }
        Ok(Posted::Done)
    }

    /// Breaks a connection: frames in flight are lost, and both ends see a disconnect.
    fn cut(&mut self, end: ViEnd) {
        self.statistics.cuts += 1;
        let goodbye = Entry { operation: Operation::Disconnect as u32, ..Entry::default() };
        for link in [end.out, end.back] {
            self.links[link].give_up();
            self.waiting.remove(&link);
            let (to, vi) = (self.links[link].to, self.links[link].to_vi);
            let frame = Frame {
                entry: goodbye,
                payload: Payload::default(),
                area: None,
                lossy: true,
                sequence: u64::MAX,
                parts: AtomicU8::new(0),
            };
            self.nic(to).deliver(NicEvent::Frame { vi, frame: Arc::new(frame) });
        }
        let (one, other) = (self.links[end.out].from, self.links[end.out].to);
        self.pairs.remove(&if one <= other { (one, other) } else { (other, one) });
        let is_lost = |flight: &InTransit| match flight {
            InTransit::Frame(link, _) | InTransit::Part(link, ..) => *link == end.out || *link == end.back,
            _ => false,
        };
        self.flights.retain(|_, flight| !is_lost(flight));
    }

    /// Posts an admitted entry.
    pub(super) fn post(
        &mut self,
        at: NodeAddress,
        vi: u32,
        entry: Entry,
        payload: Payload,
        area: Option<Area>,
    ) {
        if let Some(end) = self.end(at, vi) {
            self.launch(end.out, entry, payload, area);
        }
    }

    fn launch(&mut self, link: usize, entry: Entry, payload: Payload, area: Option<Area>) {
        self.statistics.frames += 1;
        self.finish_writes(link);
        // A disconnect is never lost for good, even on a lossy link.
        let lossy = self.links[link].lossy && entry.operation != Operation::Disconnect as u32;
        let frame = self.links[link].send(entry, payload, area, lossy, self.now);
        if !lossy {
            self.waiting.insert(link);
        }
        self.transmit(link, frame);
    }

    fn transmit(&mut self, link: usize, frame: Arc<Frame>) {
        if !self.generator.touches_frames() {
            self.arrive(link, &frame);
            return;
        }
        let frame_faults = self.generator.frame_faults();
        let counts = &mut self.statistics;
        counts.reordered += u64::from(frame_faults.late_polls > 0);
        counts.delayed += u64::from(frame_faults.delay_polls > 0);
        counts.duplicated += u64::from(frame_faults.duplicated);
        let held = &mut self.links[link].held_up_until;
        if frame_faults.delay_polls > 0 {
            *held = self.now.max(*held) + frame_faults.delay_polls;
        }
        let in_order = self.now.max(*held);
        if frame_faults.duplicated {
            self.schedule(in_order + 1, InTransit::Frame(link, Arc::clone(&frame)));
        }
        if frame_faults.dropped {
            self.statistics.dropped += 1;
        } else if frame_faults.overrun {
            self.statistics.overruns += 1;
        } else if let Some([line, area]) = frame_faults.apart.filter(|_| frame.area.is_some()) {
            self.schedule(in_order + line, InTransit::Part(link, Arc::clone(&frame), Part::Line));
            self.schedule(in_order + area, InTransit::Part(link, frame, Part::Area));
        } else if in_order + frame_faults.late_polls > self.now {
            self.schedule(in_order + frame_faults.late_polls, InTransit::Frame(link, frame));
        } else {
            self.arrive(link, &frame);
        }
        // A sleeping NIC has to help to advance the clock.
        let to = self.links[link].to;
        self.nic(to).bell.notify_all();
    }

    /// A frame has arrived when its line and its area have, in either order.
    fn arrive_in_part(&mut self, at: usize, frame: &Arc<Frame>, part: Part) {
        let before = frame.part_came(part);
        if before | part as u8 != Part::Line as u8 | Part::Area as u8 {
            return;
        }
        self.statistics.area_first += u64::from(before == Part::Area as u8);
        self.statistics.line_first += u64::from(before == Part::Line as u8);
        self.arrive(at, frame);
    }

    fn arrive(&mut self, at: usize, frame: &Arc<Frame>) {
        let link = &mut self.links[at];
        let (to, vi) = (link.to, link.to_vi);
        match link.receive(frame) {
            Taken::Frames(frames) => {
                for frame in frames {
                    self.nic(to).deliver(NicEvent::Frame { vi, frame });
                }
            }
            Taken::Duplicate => self.statistics.duplicates_suppressed += 1,
            Taken::Overrun => self.statistics.overruns += 1,
        }
        if !frame.lossy {
            self.acknowledge(at);
        }
    }

    fn acknowledge(&mut self, at: usize) {
        if self.generator.loses() {
            self.statistics.dropped += 1;
            return;
        }
        let link = &mut self.links[at];
        link.acknowledged(link.received_up_to());
        if !link.is_waiting() {
            self.waiting.remove(&at);
        }
    }

    fn send_again(&mut self) {
        let now = self.now;
        let due: Vec<usize> = self
            .waiting
            .iter()
            .copied()
            .filter(|&link| self.links[link].next_due().is_some_and(|due| due <= now))
            .collect();
        for link in due {
            if let Some(frame) = self.links[link].due_again(now) {
                self.statistics.retransmitted += 1;
                self.transmit(link, frame);
            }
        }
    }

    /// The owner of a VI has returned the slot of a received frame.
    pub(super) fn release(&mut self, at: NodeAddress, vi: u32, lossy: bool) {
        if let Some(end) = self.end(at, vi) {
            self.links[end.back].release(lossy);
        }
    }

    /// Starts a transfer; `false`: too many are in flight.
    pub(super) fn start_transfer(&mut self, transfer: Transfer) -> bool {
        let nic = self.nic(transfer.by);
        if nic.transfers >= TRANSFERS_MAX {
            return false;
        }
        nic.transfers += 1;
        self.schedule(self.now + 1, InTransit::Transfer(transfer));
        true
    }

    /// Carries out the writes in flight from the link's sender to its receiver: they must be stored before later posts are seen.
    fn finish_writes(&mut self, link: usize) {
        let (from, to) = (self.links[link].from, self.links[link].to.task);
        if self.nic(from).transfers == 0 {
            return;
        }
        let is_before = |flight: &InTransit| match flight {
            InTransit::Transfer(transfer) => {
                transfer.by == from && transfer.at.task == to && matches!(transfer.kind, Kind::Write(_))
            }
            _ => false,
        };
        let mut writes: Vec<_> =
            self.flights.iter().filter(|(_, flight)| is_before(flight)).map(|(&key, _)| key).collect();
        // In the order of the posts, even if some were retried.
        writes.sort_by_key(|&(_, departure)| departure);
        for key in writes {
            if let Some(InTransit::Transfer(transfer)) = self.flights.remove(&key) {
                self.end_transfer(transfer);
            }
        }
    }

    fn carry_out(&mut self, transfer: Transfer) {
        let by = transfer.by;
        if self.failures[by.task as usize].is_some() || !self.nic(by).open {
            return;
        }
        if self.generator.loses() {
            self.statistics.dropped += 1;
            self.schedule(self.now + TRANSFER_AGAIN_POLLS, InTransit::Transfer(transfer));
            return;
        }
        self.end_transfer(transfer);
    }

    fn end_transfer(&mut self, transfer: Transfer) {
        let (by, owner) = (transfer.by, transfer.at.task);
        self.statistics.transfers += 1;
        let id = transfer.id;
        let dead = self.failures[owner as usize].is_some();
        let regions = Some(&self.regions[owner as usize]).filter(|_| !dead);
        let (result, read) = transfer.carry_out(regions);
        let nic = self.nic(by);
        nic.transfers -= 1;
        nic.deliver(NicEvent::Ended { id, result, read });
    }

    pub(super) fn failure(&self, task: u32) -> Option<&str> {
        self.failures.get(task as usize)?.as_deref()
    }

    /// Marks a task as dead: every NIC of another task gets one event, and the task's links stop.
    pub(super) fn fail(&mut self, task: u32, why: &str) {
        let Some(failure @ None) = self.failures.get_mut(task as usize) else { return };
        *failure = Some(why.to_owned());
        for (at, link) in self.links.iter_mut().enumerate() {
            if link.from.task == task || link.to.task == task {
                link.give_up();
                self.waiting.remove(&at);
            }
        }
        for (_, nic) in self.nics.iter_mut().filter(|(at, _)| at.task != task) {
            nic.deliver(NicEvent::TaskFailed(task));
        }
    }

    /// Closes a NIC: its registered memory becomes inaccessible.
    pub(super) fn close(&mut self, at: NodeAddress) {
        self.nic(at).open = false;
        self.regions[at.task as usize].remove_context(at.context);
    }
}
