//! Reads of memory of tasks of other hosts, by the network.
//!
//! The reader asks for a registration's key once and keeps it. The owner lends the memory to the network when the first peer asks, and
//! tells all that have the key when the registration ends; the memory is free when they have answered. A peer is a number that the caller
//! gives.

mod lent;
mod words;

use std::collections::HashMap;

use am_via_ofi::{Endpoint, PeerAddress, READ_BYTES_MAX, ReadId, RemoteKey};
use am_via_shm::regions::ClaimFault;
use am_via_shm::{CheckedRange, HeldRange};

use crate::device::{MemHandle, RemoteMemory};
use lent::Lending;
use words::{Name, Outbox, Words};
pub(super) use words::{SAYING_BYTES, Saying};

/// A peer's question for a key.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Question {
    from: usize,
    /// The registration, and the tag that it must have.
    pub(in super::super) handle: MemHandle,
    pub(in super::super) ptag: u32,
}

#[derive(Clone, Copy, Debug)]
enum Known {
    Asked,
    Here { remote: RemoteKey, len: u64 },
}

#[derive(Debug)]
struct Read {
    id: u64,
    peer: usize,
    name: Name,
    offset: u64,
    to: HeldRange,
    /// Bytes that reads of the network were begun for, and that have arrived.
    begun: usize,
    arrived: usize,
}

/// A read of the network: part of the read `id`.
#[derive(Clone, Copy, Debug)]
struct Piece {
    id: u64,
    peer: usize,
    handle: MemHandle,
    offset: usize,
}

/// Both sides of all reads of a context.
#[derive(Debug, Default)]
pub(super) struct Reads {
    under_way: Vec<Read>,
    keys: HashMap<(usize, Name), Known>,
    pieces: HashMap<ReadId, Piece>,
    /// Registrations that a peer ends, while reads by them are under way.
    to_answer: Vec<(usize, MemHandle)>,
    lent: Lending,
    outbox: Outbox,
    pub(super) questions: Vec<Question>,
    /// What has ended, by the caller's number.
    pub(super) ended: Vec<(u64, Result<u64, ClaimFault>)>,
}

impl Reads {
    /// Begins a read. Its end is reported in `ended`.
    pub(super) fn begin(&mut self, peer: usize, from: RemoteMemory, to: CheckedRange<'_>, id: u64) {
        let name = Name { handle: from.handle, ptag: from.ptag };
        let to = HeldRange::hold(to);
        self.under_way.push(Read { id, peer, name, offset: from.offset, to, begun: 0, arrived: 0 });
    }

    fn say(&mut self, to: usize, what: Saying, words: Words) {
        self.outbox.push_back((to, what, words.to_bytes()));
    }

    /// Handles a message of a peer. Its contents are not trusted.
    pub(super) fn hear(&mut self, from: usize, what: Saying, bytes: &[u8]) {
        let Some(words) = Words::from_bytes(bytes) else { return };
        let handle = words.handle();
        match what {
            Saying::Ask => self.questions.push(Question { from, handle, ptag: words.ptag }),
            Saying::Key => {
                let Some(known) = self.keys.get_mut(&(from, words.name())) else { return };
                match words.fault() {
                    None => {
                        let remote = RemoteKey { key: words.key, base: words.base };
                        *known = Known::Here { remote, len: words.len };
                    }
                    Some(fault) => {
                        self.keys.remove(&(from, words.name()));
                        self.end_reads(|read| (read.peer, read.name) == (from, words.name()), fault);
                    }
                }
            }
            Saying::End => {
                self.keys.retain(|&(peer, name), known| {
                    (peer, name.handle) != (from, handle) || matches!(known, Known::Asked)
                });
                self.to_answer.push((from, handle));
            }
            Saying::Ended => self.lent.note_ended(from, handle),
        }
    }

    fn end_reads(&mut self, is_it: impl Fn(&Read) -> bool, fault: ClaimFault) {
        for read in self.under_way.extract_if(.., |read| is_it(read)) {
            self.ended.push((read.id, Err(fault)));
        }
    }

    /// Begins what can begin, and takes what has arrived. `address` returns the address of a peer.
    pub(super) fn progress(&mut self, endpoint: &mut Endpoint, address: impl Fn(usize) -> PeerAddress) {
        while endpoint.ended_read(|piece, bytes| self.take(piece, bytes)) {}
        let mut faults = Vec::new();
        for read in &mut self.under_way {
            let len = read.to.range().len();
            let key = (read.peer, read.name);
            match self.keys.get(&key) {
                _ if len > 0 && read.begun == len => {}
                None => {
                    self.keys.insert(key, Known::Asked);
                    self.outbox.push_back((read.peer, Saying::Ask, read.name.words().to_bytes()));
                }
                Some(Known::Asked) => {}
                Some(&Known::Here { len: region_len, .. }) if !fits(read.offset, len, region_len) => {
                    faults.push((read.id, Err(ClaimFault::Bounds { len: region_len })));
                }
                Some(Known::Here { .. }) if len == 0 => faults.push((read.id, Ok(0))),
                Some(&Known::Here { remote, .. }) => {
                    while read.begun < len {
                        let part = READ_BYTES_MAX.min(len - read.begun);
                        let at = read.offset + read.begun as u64;
                        match endpoint.read(address(read.peer), remote, at, part) {
                            Ok(Some(piece)) => {
                                let (id, peer, handle) = (read.id, read.peer, read.name.handle);
                                self.pieces.insert(piece, Piece { id, peer, handle, offset: read.begun });
                                read.begun += part;
                            }
                            Ok(None) => break,
                            Err(error) => {
                                tracing::warn!(%error, "memory of a task of another host cannot be read");
                                faults.push((read.id, Err(ClaimFault::PeerDead)));
                                break;
                            }
                        }
                    }
                }
            }
        }
        self.under_way.retain(|read| !faults.iter().any(|&(id, _)| id == read.id));
        self.ended.append(&mut faults);
        self.answer_ends();
        self.lent.give_back(endpoint);
    }

    /// A piece has arrived, or cannot.
    fn take(&mut self, piece: ReadId, bytes: Option<&[u8]>) {
        let Some(piece) = self.pieces.remove(&piece) else { return };
        let Some(at) = self.under_way.iter().position(|read| read.id == piece.id) else { return };
        let read = &mut self.under_way[at];
        let Some(bytes) = bytes else {
            let read = self.under_way.swap_remove(at);
            return self.ended.push((read.id, Err(ClaimFault::PeerDead)));
        };
        let to = read.to.range();
        if let Some(to) = to.part(piece.offset, bytes.len()) {
            to.copy_from_slice(bytes);
        }
        read.arrived += bytes.len();
        if read.arrived == to.len() {
            let read = self.under_way.swap_remove(at);
            self.ended.push((read.id, Ok(0)));
        }
    }

    /// Tells the owners of registrations that have ended, when no read by them is under way.
    fn answer_ends(&mut self) {
        let Self { to_answer, pieces, outbox, .. } = self;
        to_answer.retain(|&(peer, handle)| {
            let is_used = pieces.values().any(|piece| (piece.peer, piece.handle) == (peer, handle));
            if !is_used {
                let words = Name { handle, ptag: 0 }.words();
                outbox.push_back((peer, Saying::Ended, words.to_bytes()));
            }
            is_used
        });
    }

    /// Answers a question: with the whole memory of the registration, or with why it may not be read.
    pub(super) fn answer(
        &mut self,
        endpoint: &mut Endpoint,
        question: Question,
        memory: Result<CheckedRange<'_>, ClaimFault>,
    ) {
        let Question { from, handle, ptag } = question;
        let words = Name { handle, ptag }.words();
        let words = match memory.and_then(|memory| self.lent.lend(endpoint, from, handle, memory)) {
            Ok((RemoteKey { key, base }, len)) => Words { key, base, len, ..words },
            Err(fault) => words.with_fault(fault),
        };
        self.say(from, Saying::Key, words);
    }

    /// Ends the loans of a registration. Returns whether no peer reads it. `finished`: the caller knows that none does.
    pub(super) fn end_lent(&mut self, endpoint: &mut Endpoint, handle: MemHandle, finished: bool) -> bool {
        self.lent.end(endpoint, &mut self.outbox, handle, finished)
    }

    /// A peer is gone.
    pub(super) fn lose(&mut self, endpoint: &mut Endpoint, peer: usize, address: PeerAddress) {
        endpoint.abandon_reads(address);
        self.end_reads(|read| read.peer == peer, ClaimFault::PeerDead);
        self.pieces.retain(|_, piece| piece.peer != peer);
        self.keys.retain(|&(of, _), _| of != peer);
        self.to_answer.retain(|&(of, _)| of != peer);
        self.outbox.retain(|&(to, ..)| to != peer);
        self.questions.retain(|question| question.from != peer);
        self.lent.lose(peer);
    }

    /// Passes the waiting messages to `send` until it refuses one.
    pub(super) fn send(&mut self, mut send: impl FnMut(usize, Saying, &[u8; SAYING_BYTES]) -> bool) {
        while let Some((to, what, bytes)) = self.outbox.front()
            && send(*to, *what, bytes)
        {
            self.outbox.pop_front();
        }
    }

    /// Whether something waits here that progress alone moves on.
    pub(super) fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }
}

/// Whether a claim of `len` bytes lies in the registration.
fn fits(offset: u64, len: usize, region_len: u64) -> bool {
    offset.checked_add(len as u64).is_some_and(|end| end <= region_len)
}
