//! The common state of all NICs of one wire, under one lock: links, frames in flight, registered memory, dead tasks.
//!
//! The network does what the NICs of a cluster would do: it carries frames, and serves writes, reads and atomics of memory whose owner does
//! not poll. Its clock counts the polls of all NICs. Each poll moves the frames in flight, and carries out transfers of the NIC that polls;
//! a NIC that waits advances the clock to the next of these.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use am_via_nic::device::NICS_MAX;
use am_via_nic::{ClaimFault, DeviceError, Endpoint, MemHandle, Posted};
use am_via_nic::{Entry, Operation, Payload, ViNumber};
use am_via_shm::PrivateRegions;

use super::WireOptions;
use super::faults::{FaultGenerator, Kill, WireStatistics};
use super::link::{Area, Frame, Link, Part, Taken};
use super::rdma::{Ended, Kind, Transfer};

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

    /// The state. It is consistent even after a panic under the lock: no step of the state panics halfway.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events that wait for a NIC.
#[derive(Debug)]
pub(super) enum NicEvent {
    Frame { vi: u32, frame: Arc<Frame> },
    Connected { peer: Endpoint },
    Ended { id: u64, end: Ended },
    TaskFailed(u32),
    PeerClosed(Endpoint),
}

/// The network's record of a NIC, which may not be open yet.
#[derive(Debug, Default)]
pub(super) struct NicState {
    pub(super) open: bool,
    pub(super) events: VecDeque<NicEvent>,
    /// Whether the owner was rung, and has to look.
    pub(super) rung: bool,
    /// Number of sleeps, and the longest limit of one.
    pub(super) sleeps: (u64, Duration),
    pub(super) bell: Arc<Condvar>,
    vis: Vec<ViEnd>,
    /// Posted transfers, oldest first, each with the poll from which on it may be carried out.
    transfers: VecDeque<(u64, Transfer)>,
}

impl NicState {
    fn next_vi(&self) -> u32 {
        u32::try_from(self.vis.len()).expect("a wire never makes 2^32 connections")
    }

    /// The place of the next entry of a VI, if only entries come before it.
    fn next_of(&self, of: u32) -> Option<usize> {
        let mut entries = self.events.iter().map_while(|event| match event {
            NicEvent::Frame { vi, .. } => Some(*vi),
            _ => None,
        });
        entries.position(|vi| vi == of)
    }

    fn deliver(&mut self, event: NicEvent) {
        self.events.push_back(event);
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
    Connection(Endpoint, Endpoint),
}

#[derive(Clone, Copy, Debug)]
enum Pair {
    Asked,
    Made { low_vi: u32, high_vi: u32 },
}

/// Maximum number of transfers of one NIC in flight.
const TRANSFERS_MAX: usize = 1024;
/// Number of polls after which a transfer that the wire lost is retried.
const TRANSFER_AGAIN_POLLS: u64 = 50;

/// Everything under the lock.
#[derive(Debug)]
pub(super) struct State {
    options: WireOptions,
    now: u64,
    pub(super) nics: BTreeMap<Endpoint, NicState>,
    pairs: BTreeMap<(Endpoint, Endpoint), Pair>,
    links: Vec<Link>,
    /// Links with unacknowledged frames.
    waiting: BTreeSet<usize>,
    /// Ordered by the poll of arrival, and then by departure.
    flights: BTreeMap<(u64, u64), InTransit>,
    departures: u64,
    pub(super) regions: Vec<PrivateRegions>,
    /// Registrations whose end waits for transfers in flight, by owner. New transfers are refused.
    ending: Vec<(u32, MemHandle)>,
    /// Tasks whose next end of a registration fails.
    pub(super) fails_deregister: BTreeSet<u32>,
    failures: Vec<Option<String>>,
    /// NICs that their owners have closed, and whether their peers still have to be told.
    closed: BTreeMap<Endpoint, bool>,
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
            ending: Vec::new(),
            fails_deregister: BTreeSet::new(),
            failures: vec![None; options.num_tasks as usize],
            closed: BTreeMap::new(),
            kill: generator.kill(),
            generator,
            statistics: WireStatistics::default(),
        }
    }

    pub(super) fn nic(&mut self, at: Endpoint) -> &mut NicState {
        self.nics.entry(at).or_default()
    }

    /// Advances the clock by one poll of this NIC.
    pub(super) fn tick(&mut self, at: Endpoint) {
        self.statistics.polls += 1;
        self.advance_to(self.now + 1);
        self.carry_out_due(at);
    }

    /// Advances the clock to the next arrival, retransmission or death, or to the next transfer of this NIC; returns whether there was one.
    pub(super) fn skip_to_next(&mut self, at: Endpoint) -> bool {
        let resend = self.waiting.iter().filter_map(|&link| self.links[link].next_due()).min();
        let flight = self.flights.keys().next().map(|&(due, _)| due);
        let kill = self.kill.map(|kill| kill.at_poll);
        let transfer = self.nic(at).transfers.iter().map(|&(due, _)| due).min();
        let next = [resend, flight, kill, transfer].into_iter().flatten().min();
        if let Some(next) = next {
            self.advance_to(next.max(self.now + 1));
            self.carry_out_due(at);
        }
        next.is_some()
    }

    fn advance_to(&mut self, now: u64) {
        self.now = now;
        if let Some(kill) = self.kill.take_if(|kill| now >= kill.at_poll) {
            self.fail(kill.task, "killed by the emulated wire");
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
        self.announce_closed();
    }

    fn land(&mut self, flight: InTransit) {
        match flight {
            InTransit::Frame(link, frame) => self.arrive(link, &frame),
            InTransit::Part(link, frame, part) => self.arrive_in_part(link, &frame, part),
            InTransit::Connection(low, high) => self.make_pair(low, high),
        }
    }

    fn schedule(&mut self, due: u64, flight: InTransit) {
        self.departures += 1;
        self.flights.insert((due, self.departures), flight);
    }

    /// Connects two NICs after a delay; returns the VI of `me` when the connection is made.
    pub(super) fn connect(&mut self, me: Endpoint, to: Endpoint) -> Result<Option<u32>, DeviceError> {
        to.check(self.options.num_tasks, NICS_MAX)?;
        if [me, to].iter().any(|at| self.failures[at.task.index()].is_some()) {
            return Err(ClaimFault::PeerDead.into());
        }
        if self.has_closed(to) {
            return Err(DeviceError::PeerClosed(to));
        }
        let (low, high) = if me <= to { (me, to) } else { (to, me) };
        match self.pairs.get(&(low, high)) {
            Some(Pair::Asked) => return Ok(None),
            Some(&Pair::Made { low_vi, high_vi }) => {
                return Ok(Some(if me == low { low_vi } else { high_vi }));
            }
            None => {}
        }
        if self.options.connect_polls == 0 {
            self.make_pair(low, high);
            return self.connect(me, to);
        }
        self.pairs.insert((low, high), Pair::Asked);
        self.schedule(self.now + self.options.connect_polls, InTransit::Connection(low, high));
        Ok(None)
    }

    fn make_pair(&mut self, low: Endpoint, high: Endpoint) {
        if [low, high].iter().any(|at| self.failures[at.task.index()].is_some()) {
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

    fn new_link(&mut self, from: Endpoint, to: Endpoint, to_vi: u32) -> usize {
        self.links.push(Link::new(from, to, to_vi, self.options.ring_lines));
        self.links.len() - 1
    }

    fn end(&self, at: Endpoint, vi: u32) -> Option<ViEnd> {
        self.nics.get(&at)?.vis.get(vi as usize).copied()
    }

    /// Closes a VI: both directions refuse posts from now on, and the peer gets an event after earlier posts have arrived. The two NICs may
    /// connect again, with another VI.
    pub(super) fn disconnect(&mut self, at: Endpoint, vi: u32) {
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

    pub(super) fn allow_loss(&mut self, at: Endpoint, vi: u32, allowed: bool) {
        if let Some(end) = self.end(at, vi) {
            self.links[end.out].lossy = allowed;
        }
    }

    /// Whether a post on this VI is accepted now.
    pub(super) fn admit(&mut self, at: Endpoint, vi: u32) -> Result<Posted, DeviceError> {
        let number = ViNumber(vi);
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
        self.lose_frames(|at, _| at == end.out || at == end.back);
    }

    /// Removes the frames in flight on these links.
    fn lose_frames(&mut self, is_lost: impl Fn(usize, &Link) -> bool) {
        let links = &self.links;
        self.flights.retain(|_, flight| match flight {
            InTransit::Frame(at, _) | InTransit::Part(at, ..) => !is_lost(*at, &links[*at]),
            InTransit::Connection(..) => true,
        });
    }

    /// Posts an admitted entry.
    pub(super) fn post(&mut self, at: Endpoint, vi: u32, entry: Entry, payload: Payload, area: Option<Area>) {
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
    pub(super) fn release(&mut self, at: Endpoint, vi: u32, lossy: bool) {
        if let Some(end) = self.end(at, vi) {
            self.links[end.back].release(lossy);
        }
    }

    /// Starts a transfer; `false`: too many are in flight.
    pub(super) fn start_transfer(&mut self, transfer: Transfer) -> bool {
        let mut due = self.now + 1 + self.generator.late_polls();
        let transfers = &mut self.nic(transfer.by).transfers;
        let is_write = |transfer: &Transfer| matches!(transfer.kind, Kind::Write(_));
        if is_write(&transfer) {
            // Writes keep the order of their posts.
            let writes = transfers.iter().filter(|(_, earlier)| is_write(earlier));
            due = writes.map(|&(due, _)| due).fold(due, u64::max);
        }
        let fits = transfers.len() < TRANSFERS_MAX;
        if fits {
            transfers.push_back((due, transfer));
        }
        fits
    }

    /// Carries out the writes in flight from the link's sender to its receiver: they must be stored before later posts are seen.
    fn finish_writes(&mut self, link: usize) {
        let (from, to) = (self.links[link].from, self.links[link].to.task);
        self.carry_out_if(from, |_, transfer| transfer.at.0 == to && matches!(transfer.kind, Kind::Write(_)));
    }

    /// Carries out the transfers of a NIC whose time has come, unless the wire loses one, which is then tried again.
    fn carry_out_due(&mut self, by: Endpoint) {
        let now = self.now;
        for at in 0..self.nic(by).transfers.len() {
            if self.nic(by).transfers[at].0 <= now && self.generator.loses() {
                self.statistics.dropped += 1;
                self.nic(by).transfers[at].0 = now + TRANSFER_AGAIN_POLLS;
            }
        }
        self.carry_out_if(by, |due, _| due <= now);
    }

    /// Carries out the transfers of a NIC for which `is_next` returns true, in the order of their posts.
    fn carry_out_if(&mut self, by: Endpoint, is_next: impl Fn(u64, &Transfer) -> bool) {
        let transfers = &mut self.nic(by).transfers;
        if transfers.iter().any(|(due, transfer)| is_next(*due, transfer)) {
            let (next, left) =
                std::mem::take(transfers).into_iter().partition(|(due, transfer)| is_next(*due, transfer));
            *transfers = left;
            let next: VecDeque<_> = next;
            for (_, transfer) in next {
                self.end_transfer(transfer);
            }
        }
    }

    fn end_transfer(&mut self, transfer: Transfer) {
        let (by, id) = (transfer.by, transfer.id);
        let end = self.carry_out_now(transfer);
        self.nic(by).deliver(NicEvent::Ended { id, end });
    }

    /// Carries out a transfer.
    pub(super) fn carry_out_now(&mut self, transfer: Transfer) -> Ended {
        let owner = transfer.at.0.index();
        self.statistics.transfers += 1;
        let dead = self.failures[owner].is_some();
        transfer.carry_out(Some(&self.regions[owner]).filter(|_| !dead))
    }

    /// Whether a direct access is refused for now.
    pub(super) fn refuses(&mut self) -> bool {
        self.generator.refuses()
    }

    /// Whether a transfer to or from this registration is in flight. A peer that has died or closed its NIC has none.
    pub(super) fn is_in_use(&self, owner: u32, handle: MemHandle) -> bool {
        let transfers = self.nics.values().flat_map(|nic| &nic.transfers);
        transfers.map(|(_, transfer)| transfer.at).any(|at| (at.0.0, MemHandle::of(at.1)) == (owner, handle))
    }

    /// Refuses new transfers to and from this registration.
    pub(super) fn begin_end(&mut self, owner: u32, handle: MemHandle) {
        if !self.is_ending(owner, handle) {
            self.ending.push((owner, handle));
        }
    }

    /// Whether the registration accepts no new transfers.
    pub(super) fn is_ending(&self, owner: u32, handle: MemHandle) -> bool {
        self.ending.contains(&(owner, handle))
    }

    /// Ends a registration that no peer uses.
    pub(super) fn end_registration(&mut self, owner: u32, handle: MemHandle) -> Result<Posted, DeviceError> {
        self.ending.retain(|&ending| ending != (owner, handle));
        if self.regions[owner as usize].remove(handle.region, handle.generation) {
            Ok(Posted::Done)
        } else {
            Err(ClaimFault::Stale.into())
        }
    }

    /// The next event of a NIC, which may hold it back for a while.
    pub(super) fn next_event(&mut self, at: Endpoint) -> Option<NicEvent> {
        if self.generator.holds_back() {
            return None;
        }
        let events = &mut self.nics.get_mut(&at)?.events;
        let Some(may_overtake) = self.options.may_overtake else { return events.pop_front() };
        // The entries before the first other event: those of different VIs come in any order, and of each VI those that may overtake.
        let entries = || {
            events.iter().enumerate().map_while(|(place, event)| match event {
                NicEvent::Frame { vi, frame } => Some((place, *vi, frame)),
                _ => None,
            })
        };
        let vis: BTreeSet<u32> = entries().map(|(_, vi, _)| vi).collect();
        let Some(&chosen) = vis.iter().nth(self.generator.one_of(vis.len())) else {
            return events.pop_front();
        };
        let of_vi = || entries().filter(|(_, vi, _)| *vi == chosen);
        let overtaking = of_vi().take_while(|(.., frame)| may_overtake(frame.entry.immediate)).count();
        let (place, ..) = of_vi().nth(self.generator.one_of(overtaking))?;
        events.remove(place)
    }

    /// The next entry of this VI, unless an event that is no entry comes before it.
    pub(super) fn look_at_next(&mut self, at: Endpoint, of: u32) -> Option<Arc<Frame>> {
        if self.generator.holds_back() {
            return None;
        }
        let nic = self.nics.get(&at)?;
        match &nic.events[nic.next_of(of)?] {
            NicEvent::Frame { frame, .. } => Some(Arc::clone(frame)),
            _ => None,
        }
    }

    /// Consumes the entry that was looked at, and returns its slot.
    pub(super) fn take_next(&mut self, at: Endpoint, of: u32, lossy: bool) {
        if self.failures[at.task.index()].is_some() {
            // The task has died since it looked.
            return;
        }
        let nic = self.nic(at);
        let taken = nic.next_of(of).and_then(|next| nic.events.remove(next));
        assert!(taken.is_some(), "an entry is taken that is not there");
        self.release(at, of, lossy);
    }

    pub(super) fn failure(&self, task: u32) -> Option<&str> {
        self.failures.get(task as usize)?.as_deref()
    }

    /// Marks a task as dead: every NIC gets one event, and the task's links stop. Nothing of the task arrives after that event, which may
    /// come before entries that have arrived.
    pub(super) fn fail(&mut self, task: u32, why: &str) {
        let Some(failure @ None) = self.failures.get_mut(task as usize) else { return };
        *failure = Some(why.to_owned());
        for (at, link) in self.links.iter_mut().enumerate() {
            if link.from.task.0 == task || link.to.task.0 == task {
                link.give_up();
                self.waiting.remove(&at);
            }
        }
        self.lose_frames(|_, link| link.from.task.0 == task || link.to.task.0 == task);
        let links = &self.links;
        for (at, nic) in &mut self.nics {
            let mut place = 0;
            if at.task.0 == task {
                nic.transfers.clear();
                nic.events.clear();
            } else {
                place = self.generator.place_of_death(nic.events.len());
                let mut behind = nic.events.split_off(place);
                behind.retain(|event| match event {
                    NicEvent::Frame { vi, .. } => links[nic.vis[*vi as usize].back].from.task.0 != task,
                    NicEvent::Connected { peer } | NicEvent::PeerClosed(peer) => peer.task.0 != task,
                    NicEvent::Ended { .. } | NicEvent::TaskFailed(_) => true,
                });
                nic.events.append(&mut behind);
            }
            nic.events.insert(place, NicEvent::TaskFailed(task));
            nic.bell.notify_all();
        }
    }

    /// Closes a NIC: its registered memory becomes inaccessible. If it `leaves`, its peers are told after its last entry.
    pub(super) fn close(&mut self, at: Endpoint, leaves: bool) {
        let nic = self.nic(at);
        nic.open = false;
        nic.transfers.clear();
        self.regions[at.task.index()].remove_context(u32::from(at.context.0));
        self.closed.insert(at, leaves && self.failures[at.task.index()].is_none());
        self.announce_closed();
    }

    /// Opens a NIC again that its owner has closed; `false`: it had connections, and its peers keep state about it.
    pub(super) fn open_again(&mut self, at: Endpoint) -> bool {
        let nic = self.nic(at);
        let is_unused = nic.vis.is_empty();
        if is_unused {
            nic.events.clear();
            self.closed.remove(&at);
        }
        is_unused
    }

    /// Whether the owner has closed this NIC.
    pub(super) fn has_closed(&self, nic: Endpoint) -> bool {
        self.closed.contains_key(&nic)
    }

    /// Tells the peers of closed NICs, once everything that these NICs sent has arrived.
    fn announce_closed(&mut self) {
        if !self.closed.values().any(|is_untold| *is_untold) {
            return;
        }
        let links = &self.links;
        let mut sending: BTreeSet<Endpoint> = self.waiting.iter().map(|&link| links[link].from).collect();
        sending.extend(self.flights.values().filter_map(|flight| match flight {
            InTransit::Frame(link, _) | InTransit::Part(link, ..) => Some(links[*link].from),
            _ => None,
        }));
        let told = self.closed.iter_mut().filter(|(at, is_untold)| **is_untold && !sending.contains(at));
        for (&closed, is_untold) in told {
            *is_untold = false;
            for (_, nic) in self.nics.iter_mut().filter(|(at, _)| **at != closed) {
                nic.deliver(NicEvent::PeerClosed(closed));
            }
        }
    }
}
