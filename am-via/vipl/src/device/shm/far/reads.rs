//! Reads of memory of tasks of other hosts, by the network.
//!
//! The reader asks for a registration's key once and keeps it. The owner lends the memory to the network when the first peer asks, and
//! tells all that have the key when the registration ends; the memory is free when they have answered. A peer is a number that the caller
//! gives.

use std::collections::{HashMap, VecDeque};

use am_via_ofi::{Endpoint, LentMemory, PeerAddress, READ_BYTES_MAX, ReadId, RemoteKey};
use am_via_shm::regions::ClaimFault;
use am_via_shm::{CheckedRange, HeldRange};

use crate::device::{MemHandle, RemoteMemory};

/// The messages between reader and owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saying {
    /// The reader asks for the key of a registration.
    Ask,
    /// The key, or why there is none.
    Key,
    /// The owner ends a registration.
    End,
    /// The reader uses it no more.
    Ended,
}

/// Bytes of each of them: region, generation, tag, fault; key, address, length.
pub(super) const SAYING_BYTES: usize = 40;

#[derive(Clone, Copy, Debug, Default)]
struct Words {
    region: u32,
    generation: u32,
    ptag: u32,
    /// 0: none.
    fault: u32,
    key: u64,
    base: u64,
    len: u64,
}

impl Words {
    fn to_bytes(self) -> [u8; SAYING_BYTES] {
        let mut bytes = [0; SAYING_BYTES];
        for (place, word) in
            bytes.chunks_exact_mut(4).zip([self.region, self.generation, self.ptag, self.fault])
        {
            place.copy_from_slice(&word.to_le_bytes());
        }
        for (place, word) in bytes[16..].chunks_exact_mut(8).zip([self.key, self.base, self.len]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; SAYING_BYTES] = bytes.try_into().ok()?;
        let at =
            |at: usize| bytes[at..].iter().take(4).rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        let long = |place: usize| u64::from(at(place)) | u64::from(at(place + 4)) << 32;
        Some(Self {
            region: at(0),
            generation: at(4),
            ptag: at(8),
            fault: at(12),
            key: long(16),
            base: long(24),
            len: long(32),
        })
    }

    fn name(self) -> Name {
        Name { handle: self.handle(), ptag: self.ptag }
    }

    fn handle(self) -> MemHandle {
        MemHandle { region: self.region, generation: self.generation }
    }
}

/// A registration, as a reader names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Name {
    handle: MemHandle,
    ptag: u32,
}

impl Name {
    fn words(self) -> Words {
        let MemHandle { region, generation } = self.handle;
        Words { region, generation, ptag: self.ptag, ..Words::default() }
    }
}

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

#[derive(Debug)]
struct Lent {
    handle: MemHandle,
    memory: LentMemory,
    len: u64,
    /// The peers that have the key.
    holders: Vec<usize>,
    is_ending: bool,
}

/// Both sides of all reads of a context.
#[derive(Debug, Default)]
pub(super) struct Reads {
    under_way: Vec<Read>,
    keys: HashMap<(usize, Name), Known>,
    pieces: HashMap<ReadId, Piece>,
    /// Registrations that a peer ends, while reads by them are under way.
    to_answer: Vec<(usize, MemHandle)>,
    lent: Vec<Lent>,
    outbox: VecDeque<(usize, Saying, [u8; SAYING_BYTES])>,
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
                match fault_of(words) {
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
            Saying::Ended => {
                let is_it = |lent: &&mut Lent| lent.is_ending && lent.handle == handle;
                if let Some(lent) =
                    self.lent.iter_mut().filter(is_it).find(|lent| lent.holders.contains(&from))
                {
                    lent.holders.retain(|&holder| holder != from);
                }
            }
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
        self.lent.retain(|lent| {
            let is_over = lent.is_ending && lent.holders.is_empty();
            if is_over {
                endpoint.end_lend(&lent.memory);
            }
            !is_over
        });
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
        let words = match memory.and_then(|memory| self.lend(endpoint, from, handle, memory)) {
            Ok((RemoteKey { key, base }, len)) => Words { key, base, len, ..words },
            Err(fault) => with_fault(words, fault),
        };
        self.say(from, Saying::Key, words);
    }

    fn lend(
        &mut self,
        endpoint: &mut Endpoint,
        to: usize,
        handle: MemHandle,
        memory: CheckedRange<'_>,
    ) -> Result<(RemoteKey, u64), ClaimFault> {
        let at = match self.lent.iter().position(|lent| lent.handle == handle && !lent.is_ending) {
            Some(at) => at,
            None => {
                let len = memory.len() as u64;
                let memory = endpoint.lend(HeldRange::hold(memory)).map_err(|error| {
                    tracing::warn!(%error, "the network does not take memory that peers read");
                    ClaimFault::Stale
                })?;
                self.lent.push(Lent { handle, memory, len, holders: Vec::new(), is_ending: false });
                self.lent.len() - 1
            }
        };
        let lent = &mut self.lent[at];
        if !lent.holders.contains(&to) {
            lent.holders.push(to);
        }
        Ok((lent.memory.remote, lent.len))
    }

    /// Ends the loans of a registration. Returns whether no peer reads it. `finished`: the caller knows that none does.
    pub(super) fn end_lent(&mut self, endpoint: &mut Endpoint, handle: MemHandle, finished: bool) -> bool {
        let words = Name { handle, ptag: 0 }.words();
        let Self { lent, outbox, .. } = self;
        for lent in lent.iter_mut().filter(|lent| lent.handle == handle) {
            if !std::mem::replace(&mut lent.is_ending, true) {
                outbox.extend(lent.holders.iter().map(|&holder| (holder, Saying::End, words.to_bytes())));
            }
        }
        lent.retain(|lent| {
            let is_over = lent.handle == handle && (finished || lent.holders.is_empty());
            if is_over {
                endpoint.end_lend(&lent.memory);
            }
            !is_over
        });
        !lent.iter().any(|lent| lent.handle == handle)
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
        self.lent.iter_mut().for_each(|lent| lent.holders.retain(|&holder| holder != peer));
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

const FAULTS: [ClaimFault; 5] = [
    ClaimFault::Stale,
    ClaimFault::Tag,
    ClaimFault::NotReadable,
    ClaimFault::NotWritable,
    ClaimFault::PeerDead,
];

fn with_fault(words: Words, fault: ClaimFault) -> Words {
    // All others are found by the reader.
    let number = (1..).zip(FAULTS).find(|&(_, known)| known == fault).map_or(1, |(number, _)| number);
    Words { fault: number, ..words }
}

fn fault_of(words: Words) -> Option<ClaimFault> {
    (words.fault != 0)
        .then(|| (1..).zip(FAULTS).find(|&(number, _)| number == words.fault))?
        .map(|(_, fault)| fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_and_shorter_ones_are_none() {
        let words =
            Words { region: 1, generation: 2, ptag: 3, fault: 0, key: 4 << 40, base: 5 << 33, len: 6 };
        let back = Words::from_bytes(&words.to_bytes()).expect("all of its bytes are there");
        assert_eq!(format!("{back:?}"), format!("{words:?}"));
        assert!(Words::from_bytes(&words.to_bytes()[1..]).is_none());
        assert_eq!(fault_of(words), None);
        assert!(FAULTS.iter().all(|&fault| fault_of(with_fault(words, fault)) == Some(fault)));
    }
}
