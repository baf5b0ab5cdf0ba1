//! Virtual interfaces (VIs): each is one end of a connection, with the state machine of VIA 1.0 chapter 2.

use std::fmt;

use crate::credits::{CREDIT_RETURNS, CreditPlan, Credits, Immediate, Packets};
use crate::device::{
    Device, DeviceError, Endpoint, Entry, Link, Operation, Payload, Posted, Seen, Storing, ViNumber,
};
use am_contract::transfer::Class;
use am_via_shm::CheckedRange;

/// The states of a VI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViState {
    /// Not connected.
    Idle,
    /// A connection was requested.
    ConnectPending,
    /// Connected: descriptors are carried out.
    Connected,
    /// Broken: descriptors are flushed. A disconnect makes the VI idle, and so does a call that returns the loss as the outcome of a
    /// connection request.
    Error,
}

/// VIA's reliability levels (`VIP_SERVICE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reliability {
    /// Data may be lost, but never duplicated. An error affects one descriptor, and the connection stays.
    Unreliable = 1,
    /// Data arrive once and in order, or the connection is broken. A descriptor is done when its data were sent.
    ReliableDelivery = 2,
    /// Like `ReliableDelivery`, but a descriptor is done only when its data are stored at the peer.
    ReliableReception = 4,
}

impl fmt::Display for Reliability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreliable => "Unreliable Delivery",
            Self::ReliableDelivery => "Reliable Delivery",
            Self::ReliableReception => "Reliable Reception",
        })
    }
}

/// A VI: one end of a connection. `W` is the state that its user keeps with it. The alignment makes a place of the fabric's table 128 bytes
/// long, so that a shift finds it.
#[derive(Debug)]
#[repr(align(32))]
pub struct Vi<W = ()> {
    /// The accounts that allow posts. Unless the state and the reliability level allow posts, only answers that are due may be posted.
    credits: Credits,
    /// The device's connection, [`NO_LINK`] if there is none. Other VIs of the two NICs may share it.
    link: ViNumber,
    state: ViState,
    reliability: Reliability,
    /// The peer, or the NIC that this VI asks for a connection. Meaningless while a program's VI is idle.
    pub peer: Endpoint,
    /// Whether the peer is alive, and has closed its NIC.
    pub is_peer_closed: bool,
    /// The state that the VI's user keeps with it.
    pub work: W,
}

/// The number that stands for no connection.
const NO_LINK: ViNumber = ViNumber(u32::MAX);

/// The plan of a program's VI, whose receives are not counted: the ring of the device is the only limit.
const UNCOUNTED: CreditPlan = CreditPlan { credits: u32::MAX, answers: 0 };

/// Maximum number of tries of a post with a reserved slot. If the last one is refused, the peer is blamed.
const INSIST_TRIES: u32 = 100;

impl Vi {
    /// An idle VI with standing receives, which need reliable delivery.
    pub(crate) fn standing(peer: Endpoint, plan: CreditPlan) -> Self {
        Self::new(peer, Reliability::ReliableDelivery, plan, ())
    }
}

impl<W> Vi<W> {
    /// An idle VI whose receives are not counted, such as one with work queues. `own` is the NIC's own address.
    pub fn uncounted(own: Endpoint, reliability: Reliability, work: W) -> Self {
        Self::new(own, reliability, UNCOUNTED, work)
    }

    fn new(peer: Endpoint, reliability: Reliability, plan: CreditPlan, work: W) -> Self {
        let mut vi = Self {
            credits: Credits::new(plan),
            link: NO_LINK,
            state: ViState::Idle,
            reliability,
            peer,
            is_peer_closed: false,
            work,
        };
        vi.set_state(ViState::Idle);
        vi
    }

    /// The number of the device's connection that carries this VI.
    #[inline(always)]
    #[must_use]
    pub fn link(&self) -> ViNumber {
        self.link
    }

    /// The state of the VI.
    #[must_use]
    pub fn state(&self) -> ViState {
        self.state
    }

    /// Number of packets so far, in each direction.
    pub(crate) fn packets(&self) -> Packets {
        self.credits.packets()
    }

    /// Connects the VI, over this connection of the device.
    pub fn connected(&mut self, link: ViNumber) {
        self.link = link;
        self.set_state(ViState::Connected);
    }

    /// The only function that changes the state, and with it the allowance for posts.
    pub fn set_state(&mut self, state: ViState) {
        self.state = state;
        if self.is_open() && self.is_reliable() {
            self.credits.open();
        } else {
            self.credits.stop();
        }
    }

    /// The check of the state: whether descriptors and packets may be sent.
    pub fn is_open(&self) -> bool {
        #[cfg(all(feature = "testing", debug_assertions))]
        if crate::testing::is_state_check_broken() {
            return true;
        }
        self.state == ViState::Connected
    }

    /// Whether data arrive once and in order, or the connection is broken.
    pub fn is_reliable(&self) -> bool {
        self.reliability != Reliability::Unreliable
    }

    /// The device's connection, if there is one.
    pub fn linked(&self) -> Option<ViNumber> {
        Some(self.link).filter(|&link| link != NO_LINK)
    }

    /// Changes the device's connection that carries this VI.
    pub fn set_link(&mut self, link: Option<ViNumber>) {
        self.link = link.unwrap_or(NO_LINK);
    }

    /// Changes the reliability level of an idle VI.
    pub fn set_reliability(&mut self, reliability: Reliability) {
        self.reliability = reliability;
        self.set_state(self.state);
    }

    /// Posts an entry; returns whether the entry was posted. Checks only the accounts: unless the VI may send, they allow only
    /// answers that are due. If this returns false, call [`post_slowly`](Self::post_slowly).
    #[inline(always)]
    pub fn post<D: Device>(
        &mut self,
        device: &mut D,
        class: Class,
        entry: Entry,
        bytes: &mut impl Carry<D>,
    ) -> bool {
        let done =
            self.credits.may_send(class) && matches!(bytes.carry(device, self.link, entry), Ok(Posted::Done));
        if done {
            self.credits.sent(class);
        }
        done
    }

    /// The fast path of a post: a free slot for a packet of this class, if a credit is at hand and the device knows such a slot. After a
    /// post into the slot, [`sent`](Self::sent) must be called. If this returns `None`, call [`post_slowly`](Self::post_slowly).
    #[inline(always)]
    pub fn free_slot<'d, D: Device>(&self, device: &'d mut D, class: Class) -> Option<D::FreeSlot<'d>> {
        if self.credits.may_send(class) { device.free_slot(self.link) } else { None }
    }

    /// Books a packet posted into a [`free_slot`](Self::free_slot), with the word of [`immediate`](Self::immediate).
    #[inline(always)]
    pub fn sent(&mut self, class: Class) {
        self.credits.sent(class);
    }

    /// Whether a packet of this class may be posted now. Without a credit, consumes the next entries as long as they only return credits. A
    /// one-way stream calls this each time that its credits are used up, and so needs no poll.
    pub fn may_send_now<D: Device>(&mut self, device: &mut D, class: Class) -> bool {
        self.credits.may_send(class) || self.take_credits(device, class)
    }

    #[cold]
    #[inline(never)]
    fn take_credits<D: Device>(&mut self, device: &mut D, class: Class) -> bool {
        // Entries for a program's VI return no credits, and their words belong to the program.
        let is_standing = self.credits.plan() != UNCOUNTED;
        let Some(mut link) = device.link(self.link).filter(|_| is_standing) else { return false };
        // A peer has at most this number of entries in flight that only return credits.
        for _ in 0..CREDIT_RETURNS {
            let Some(Seen { entry, .. }) = link.look(false) else { break };
            let word = Immediate(entry.immediate);
            if entry.operation != Operation::Inline as u32 || word.class().is_some() {
                break;
            }
            link.take();
            self.credits.returned(word);
        }
        self.credits.may_send(class)
    }

    /// Posts an entry that [`post`](Self::post) did not post, if the state and the credits allow it. Entries of an unreliable VI are always
    /// posted here.
    ///
    /// # Errors
    /// The VI is not connected, or its connection is closed.
    #[cold]
    #[inline(never)]
    pub fn post_slowly<D: Device>(
        &mut self,
        device: &mut D,
        class: Class,
        entry: Entry,
        bytes: &mut impl Carry<D>,
    ) -> Result<Posted, DeviceError> {
        if !self.is_open() {
            return Err(DeviceError::NotConnected(self.link));
        }
        if !self.is_reliable() {
            device.allow_loss(self.link, true);
            let posted = bytes.carry(device, self.link, entry);
            device.allow_loss(self.link, false);
            return posted;
        }
        if !self.credits.may_send(class) {
            if self.credits.plan() != UNCOUNTED {
                return Ok(Posted::Retry);
            }
            self.credits.open();
        }
        let posted = bytes.carry(device, self.link, entry);
        if let Ok(Posted::Done) = posted {
            self.credits.sent(class);
        }
        posted
    }

    /// Whether this number of one-way packets may be posted now.
    pub fn may_send_several<D: Device>(&mut self, device: &mut D, packets: u32) -> bool {
        self.credits.may_send_several(packets)
            || self.take_credits(device, Class::OneWay) && self.credits.may_send_several(packets)
    }

    /// Whether the peer returns credits for this number of packets, however few it has consumed since it last returned credits.
    pub fn gets_credits_for(&self, packets: u32) -> bool {
        // The peer may owe fewer than half of the credits.
        packets <= self.credits.plan().credits / 2
    }

    /// The immediate word of the next packet; with standing receives, it carries the accounts.
    #[inline(always)]
    pub fn immediate(&self, class: Class, label: u32) -> u32 {
        self.credits.immediate(class, label)
    }

    /// Books an arrival on a standing receive, with the credits that its immediate word returns. An inline packet is consumed at once,
    /// because its bytes have been copied. `None`: the packet only returned credits.
    #[inline(always)]
    pub fn take<D: Device>(&mut self, device: &mut D, word: Immediate, is_inline: bool) -> Option<Class> {
        self.credits.returned(word);
        let Some(class) = word.class() else {
            if !is_inline {
                device.release(self.link);
            }
            return None;
        };
        if is_inline {
            self.consumed(device, class);
        }
        Some(class)
    }

    /// Borrows the VI and its connection to receive packets in line. `None`: the device does not support it.
    #[inline(always)]
    pub fn in_line<'a, D: Device>(&'a mut self, device: &'a mut D) -> Option<InLine<'a, impl Link>> {
        Some(InLine { link: device.link(self.link)?, credits: &mut self.credits, word: Immediate(0) })
    }

    /// Reposts the standing receive of the oldest packet in the receive area: its slot belongs to the peer from now on.
    #[inline(always)]
    pub fn release<D: Device>(&mut self, device: &mut D, class: Class) {
        device.release(self.link);
        self.consumed(device, class);
    }

    #[inline(always)]
    fn consumed<D: Device>(&mut self, device: &mut D, class: Class) {
        if self.credits.consumed(class) {
            self.return_credits(device);
        }
    }

    /// Books that a request of the peer will not be answered.
    #[inline(always)]
    pub fn waive<D: Device>(&mut self, device: &mut D) {
        if self.credits.waive() {
            self.return_credits(device);
        }
    }

    /// Returns the owed credits in a packet of their own, for which slots are reserved. Called when the peer is owed many. If the post
    /// fails, because the peer has filled these slots with other packets or is gone, the next packet returns the credits.
    #[cold]
    #[inline(never)]
    fn return_credits<D: Device>(&mut self, device: &mut D) {
        let entry = accounts_only(&self.credits);
        if matches!(insist(|| device.post(self.link, entry, &Payload::default())), Ok(Posted::Done)) {
            self.credits.told();
        }
    }
}

/// An entry that carries only the accounts.
fn accounts_only(credits: &Credits) -> Entry {
    let immediate = credits.accounts_only().0;
    Entry { immediate, operation: Operation::Inline as u32, ..Entry::default() }
}

/// A VI with standing receives and its connection, borrowed to receive packets in line.
#[derive(Debug)]
pub struct InLine<'a, L> {
    link: L,
    credits: &'a mut Credits,
    /// The immediate word of the packet that was looked at.
    word: Immediate,
}

impl<L: Link> InLine<'_, L> {
    /// Waits briefly for the next packet, and looks at the packet if it is one-way and has this label. The packet stays in the ring until
    /// the next poll, or [`take`](Self::take).
    #[inline(always)]
    pub fn look(&mut self, label: u16) -> Option<(Seen<'_>, &L)> {
        let seen = self.link.look(true)?;
        self.word = Immediate(seen.entry.immediate);
        self.word.is_one_way(label).then_some((seen, &self.link))
    }

    /// Lets the next polls begin with the packets of other peers.
    #[cold]
    pub fn end_turn(&mut self) {
        self.link.end_turn();
    }

    /// Consumes the packet that was looked at, and books the accounts in its immediate word.
    #[inline(always)]
    pub fn take(&mut self) {
        self.link.take();
        self.credits.returned(self.word);
        // If the post fails, the next packet returns the credits.
        if self.credits.consumed(Class::OneWay) && self.link.post_reserved(accounts_only(self.credits)) {
            self.credits.told();
        }
    }
}

/// How the bytes of an entry are passed to the device.
pub trait Carry<D: Device> {
    /// Posts the entry with its bytes.
    fn carry(&mut self, device: &mut D, link: ViNumber, entry: Entry) -> Result<Posted, DeviceError>;
}

/// Bytes in the entry.
#[derive(Debug)]
pub struct InEntry<'a>(pub &'a Payload);

impl<D: Device> Carry<D> for InEntry<'_> {
    #[inline(always)]
    fn carry(&mut self, device: &mut D, link: ViNumber, entry: Entry) -> Result<Posted, DeviceError> {
        device.post(link, entry, self.0)
    }
}

/// Bytes in the entry, and at most this number of bytes in the peer's receive area, written by the function. The function returns the
/// number of bytes, or `None` to post nothing.
#[derive(Debug)]
pub struct InArea<'a, F>(pub &'a Payload, pub usize, pub F);

impl<D: Device, F: FnMut(CheckedRange<'_>, Storing) -> Option<usize>> Carry<D> for InArea<'_, F> {
    #[inline(always)]
    fn carry(&mut self, device: &mut D, link: ViNumber, entry: Entry) -> Result<Posted, DeviceError> {
        device.post_area(link, entry, self.0, self.1, |area, storing| (self.2)(area, storing))
    }
}

/// Calls `post`, which posts an entry with a reserved slot (an answer, or returned credits), until it does not return [`Posted::Retry`],
/// but at most 100 times. A device that refuses at random may refuse such an entry. Otherwise the peer has filled its ring beyond its
/// share, and only that peer suffers.
#[cold]
#[inline(never)]
pub fn insist(mut post: impl FnMut() -> Result<Posted, DeviceError>) -> Result<Posted, DeviceError> {
    (0..INSIST_TRIES).map(|_| post()).find(|posted| !matches!(posted, Ok(Posted::Retry))).unwrap_or({
        Err(DeviceError::Exhausted {
            resource: "reserved slots in a peer's receive queue",
            needed: 1,
            available: 0,
            remedy: "the peer breaks the protocol: it asks for more answers than it has slots for",
        })
    })
}
