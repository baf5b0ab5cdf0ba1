//! Reads of the memory of tasks on other hosts, over the network.
//!
//! The reader asks for a registration's key once and keeps it. The owner lends the memory to the network when the first peer asks. When the
//! registration ends, the owner revokes the key; the memory is free when all holders of the key have answered. The caller numbers the
//! peers.
//!
//! If memory is read only once, such as the data of an announced message, the key comes unasked, with a line. The reader uses the key for
//! this read and drops it. If the owner knows that the read has ended, the registration ends without a message.

mod lent;
mod words;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use am_via_ofi::{Endpoint, PeerAddress, READ_BYTES_MAX, ReadId};
use am_via_shm::regions::ClaimFault;
use am_via_shm::{CheckedRange, HeldRange};

use crate::device::{Claim, MemHandle};
use lent::Lending;
pub(super) use words::{KEY_MESSAGE_BYTES, KeyMessage};
use words::{Key, Name, Outbox, Words};

/// Maximum number of offered keys that a message brings, and that a reader keeps. If more arrive, the reader drops the oldest key, and asks
/// for that key when it reads the memory.
pub(super) const OFFERED_MAX: usize = 64;

/// A peer's request for a key.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Question {
    from: usize,
    /// The registration, and the tag that it must have.
    pub(in super::super) handle: MemHandle,
    pub(in super::super) ptag: u32,
}

#[derive(Debug)]
enum Known {
    /// The reads that wait for the answer.
    Asked(Vec<u64>),
    Here(Key),
}

#[derive(Debug)]
struct Read {
    peer: usize,
    name: Name,
    offset: u64,
    to: HeldRange,
    /// A key that was offered, for this read alone.
    key: Option<Key>,
    /// Number of bytes for which network reads have begun, and number that have arrived.
    begun: usize,
    arrived: usize,
}

/// A network read, which is a part of the read `id`.
#[derive(Clone, Copy, Debug)]
struct Piece {
    id: u64,
    peer: usize,
    handle: MemHandle,
    offset: usize,
}

/// All reads of a context: those that it makes of peers' memory, and those that peers make of its memory.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// The reads, by the caller's number.
    under_way: HashMap<u64, Read>,
    /// The numbers of the reads that begin next. A number whose read has ended is skipped.
    due: VecDeque<u64>,
    keys: HashMap<(usize, Name), Known>,
    /// Offered keys, the latest last.
    offered: VecDeque<((usize, Name), Key)>,
    pieces: HashMap<ReadId, Piece>,
    /// Peers that have closed, and so give no more keys.
    closed: HashSet<usize>,
    /// Registrations that peers have revoked. A revocation is answered when no read of the registration is under way.
    to_answer: Vec<(usize, MemHandle)>,
    lent: Lending,
    outbox: Outbox,
    pub(super) questions: Vec<Question>,
    /// Reads that have ended, by the caller's number.
    pub(super) ended: Vec<(u64, Result<u64, ClaimFault>)>,
}

impl Reads {
    /// Begins a read. Its end is reported in `ended`.
    pub(super) fn begin(&mut self, peer: usize, from: Claim, to: CheckedRange<'_>, id: u64) {
        let name = Name { handle: MemHandle::of(from), ptag: from.ptag };
        let to = HeldRange::hold(to);
        let at = self.offered.iter().position(|&(of, _)| of == (peer, name));
        let key = at.and_then(|at| self.offered.remove(at)).map(|(_, key)| key);
        self.under_way.insert(id, Read { peer, name, offset: from.offset, to, key, begun: 0, arrived: 0 });
        self.due.push_back(id);
    }

    fn queue(&mut self, to: usize, what: KeyMessage, words: Words) {
        self.outbox.push_back((to, what, words.to_bytes()));
    }

    /// Keeps the key of memory that is read once. The key is a claim, which the peer's network checks.
    pub(super) fn receive_offered(&mut self, from: usize, bytes: &[u8]) {
        let Some(words) = Words::from_bytes(bytes) else { return };
        if self.offered.len() == OFFERED_MAX {
            self.offered.pop_front();
        }
        self.offered.push_back(((from, words.name()), words.key()));
    }

    /// Handles a message of a peer. Its contents are not trusted.
    pub(super) fn receive(&mut self, from: usize, what: KeyMessage, bytes: &[u8]) {
        let Some(words) = Words::from_bytes(bytes) else { return };
        let handle = words.handle();
        match what {
            KeyMessage::Request => self.questions.push(Question { from, handle, ptag: words.ptag }),
            KeyMessage::Grant => {
                let Some(known) = self.keys.get_mut(&(from, words.name())) else { return };
                match words.fault() {
                    None => {
                        if let Known::Asked(waiting) = std::mem::replace(known, Known::Here(words.key())) {
                            self.due.extend(waiting);
                        }
                    }
                    Some(fault) => {
                        self.keys.remove(&(from, words.name()));
                        self.end_reads(|read| (read.peer, read.name) == (from, words.name()), fault);
                    }
                }
            }
            KeyMessage::Revoke => {
                self.keys.retain(|&(peer, name), known| {
                    (peer, name.handle) != (from, handle) || matches!(known, Known::Asked(_))
                });
                self.offered.retain(|&((peer, name), _)| (peer, name.handle) != (from, handle));
                let is_it = |read: &&mut Read| (read.peer, read.name.handle) == (from, handle);
                self.under_way.values_mut().filter(is_it).for_each(|read| read.key = None);
                self.to_answer.push((from, handle));
            }
            KeyMessage::Released => self.lent.note_ended(from, handle),
        }
    }

    fn end_reads(&mut self, is_it: impl Fn(&Read) -> bool, fault: ClaimFault) {
        for (id, _) in self.under_way.extract_if(|_, read| is_it(read)) {
            self.ended.push((id, Err(fault)));
        }
    }

    /// Begins the reads that can begin, and takes the pieces that have arrived. `address` returns the address of a peer.
    pub(super) fn progress(&mut self, endpoint: &mut Endpoint, address: impl Fn(usize) -> PeerAddress) {
        while endpoint.ended_read(|piece, bytes| self.take(piece, bytes)) {}
        while let Some(&id) = self.due.front()
            && self.start(endpoint, &address, id)
        {
            self.due.pop_front();
        }
        self.answer_ends();
        self.lent.give_back(endpoint);
    }

    /// Starts as many pieces of a read as the network has buffers for, or asks for the key. Returns whether the next read may start.
    fn start(&mut self, endpoint: &mut Endpoint, address: impl Fn(usize) -> PeerAddress, id: u64) -> bool {
        let Some(read) = self.under_way.get_mut(&id) else { return true };
        let (remote, region_len) = match (read.key, self.keys.entry((read.peer, read.name))) {
            (Some(key), _) => key,
            (None, Entry::Vacant(_)) if self.closed.contains(&read.peer) => {
                self.under_way.remove(&id);
                self.ended.push((id, Err(ClaimFault::Stale)));
                return true;
            }
            (None, Entry::Vacant(key)) => {
                key.insert(Known::Asked(vec![id]));
                self.outbox.push_back((read.peer, KeyMessage::Request, read.name.words().to_bytes()));
                return true;
            }
            (None, Entry::Occupied(mut key)) => match key.get_mut() {
                Known::Asked(waiting) => {
                    waiting.push(id);
                    return true;
                }
                Known::Here(key) => *key,
            },
        };
        let len = read.to.len();
        let ended = if !fits(read.offset, len, region_len) {
            Err(ClaimFault::Bounds { len: region_len })
        } else if len == 0 {
            Ok(0)
        } else {
            loop {
                if read.begun == len {
                    return true;
                }
                let part = READ_BYTES_MAX.min(len - read.begun);
                let at = read.offset + read.begun as u64;
                match endpoint.read(address(read.peer), remote, at, part) {
                    Ok(Some(piece)) => {
                        let (peer, handle) = (read.peer, read.name.handle);
                        self.pieces.insert(piece, Piece { id, peer, handle, offset: read.begun });
                        read.begun += part;
                    }
                    Ok(None) => return false,
                    Err(error) => {
                        tracing::warn!(%error, "memory of a task of another host cannot be read");
                        break Err(ClaimFault::PeerDead);
                    }
                }
            }
        };
        self.under_way.remove(&id);
        self.ended.push((id, ended));
        true
    }

    /// Stores a piece that has arrived. Without `bytes`, the piece has failed, and so has its read.
    fn take(&mut self, piece: ReadId, bytes: Option<&[u8]>) {
        let Some(piece) = self.pieces.remove(&piece) else { return };
        let Some(read) = self.under_way.get_mut(&piece.id) else { return };
        let Some(bytes) = bytes else {
            self.under_way.remove(&piece.id);
            return self.ended.push((piece.id, Err(ClaimFault::PeerDead)));
        };
        // SAFETY: live and unused until the read's end is reported (`Device::rdma_read`'s contract): the read is in `under_way`.
        let to = unsafe { read.to.range() };
        if let Some(to) = to.part(piece.offset, bytes.len()) {
            to.copy_from_slice(bytes);
        }
        read.arrived += bytes.len();
        if read.arrived == to.len() {
            self.under_way.remove(&piece.id);
            self.ended.push((piece.id, Ok(0)));
        }
    }

    /// Answers the owners of revoked registrations of which no read is under way.
    fn answer_ends(&mut self) {
        let Self { to_answer, pieces, outbox, .. } = self;
        to_answer.retain(|&(peer, handle)| {
            let is_used = pieces.values().any(|piece| (piece.peer, piece.handle) == (peer, handle));
            if !is_used {
                let words = Name { handle, ptag: 0 }.words();
                outbox.push_back((peer, KeyMessage::Released, words.to_bytes()));
            }
            is_used
        });
    }

    /// Answers a peer's request for a key: lends it the registration's whole memory, or gives the reason why the peer may not read the
    /// memory.
    pub(super) fn answer(
        &mut self,
        endpoint: &mut Endpoint,
        question: Question,
        memory: Result<CheckedRange<'_>, ClaimFault>,
    ) {
        let Question { from, handle, ptag } = question;
        if self.closed.contains(&from) {
            return;
        }
        let words = Name { handle, ptag }.words();
        let words = match memory.and_then(|memory| self.lent.lend(endpoint, from, handle, memory)) {
            Ok(lent) => lent.words(words),
            Err(fault) => words.with_fault(fault),
        };
        self.queue(from, KeyMessage::Grant, words);
    }

    /// Lends memory that the peer `to` will read once. Returns the key; `None` if the network cannot read memory of peers, or cannot
    /// register this memory.
    pub(super) fn lend_once(
        &mut self,
        endpoint: &mut Endpoint,
        to: usize,
        (handle, ptag): (MemHandle, u32),
        memory: CheckedRange<'_>,
    ) -> Option<[u8; KEY_MESSAGE_BYTES]> {
        self.lent.lend_once(endpoint, to, Name { handle, ptag }, memory)
    }

    /// Ends the loans of a registration. Returns true when no peer can still be reading the memory. `finished`: the caller knows that no
    /// peer is reading it, so the loans end at once.
    pub(super) fn end_lent(&mut self, endpoint: &mut Endpoint, handle: MemHandle, finished: bool) -> bool {
        self.lent.end(endpoint, &mut self.outbox, handle, finished)
    }

    /// Notes that a peer has closed: it gives no more keys, and uses no key of this task. The reads that wait for a key end. The others go
    /// on: the network ends them, because the peer serves reads until it leaves.
    pub(super) fn note_closed(&mut self, peer: usize) {
        self.closed.insert(peer);
        let unanswered =
            self.keys.extract_if(|&(of, _), known| of == peer && matches!(known, Known::Asked(_)));
        for (_, known) in unanswered {
            if let Known::Asked(waiting) = known {
                // Each of them is reported as ended when it would begin.
                self.due.extend(waiting);
            }
        }
        self.lent.lose(peer);
    }

    /// Forgets a peer that is gone, and ends the reads of its memory.
    pub(super) fn lose(&mut self, endpoint: &mut Endpoint, peer: usize, address: PeerAddress) {
        endpoint.abandon_reads(address);
        self.end_reads(|read| read.peer == peer, ClaimFault::PeerDead);
        self.pieces.retain(|_, piece| piece.peer != peer);
        self.keys.retain(|&(of, _), _| of != peer);
        self.offered.retain(|&((of, _), _)| of != peer);
        self.to_answer.retain(|&(of, _)| of != peer);
        self.outbox.retain(|&(to, ..)| to != peer);
        self.questions.retain(|question| question.from != peer);
        self.lent.lose(peer);
    }

    /// Passes the waiting messages to `send` until it refuses one.
    pub(super) fn send(&mut self, mut send: impl FnMut(usize, KeyMessage, &[u8; KEY_MESSAGE_BYTES]) -> bool) {
        while let Some((to, what, bytes)) = self.outbox.front()
            && send(*to, *what, bytes)
        {
            self.outbox.pop_front();
        }
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }
}

/// Whether a claim of `len` bytes lies in the registration.
fn fits(offset: u64, len: usize, region_len: u64) -> bool {
    offset.checked_add(len as u64).is_some_and(|end| end <= region_len)
}

#[cfg(test)]
impl Reads {
    /// The registrations whose keys peers have offered. Forgets the keys.
    pub(super) fn take_offered(&mut self) -> Vec<MemHandle> {
        self.offered.drain(..).map(|((_, name), _)| name.handle).collect()
    }
}

#[cfg(test)]
mod tests;
