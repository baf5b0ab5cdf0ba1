//! All interleavings, and all orders that the memory model allows, of the lock-free parts. A barrier on other processors is beyond the
//! model, and has a separate stress test: here it is a full fence on both sides, as with `SleepBarrier::SenderFence`.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use loom::model::Builder;
use loom::thread;

use crate::block::{HeapBlock, HeapOwner};
use crate::connection::{Bell, Connection, ViSlot, Written};
use crate::copy::{CheckedRange, Copied};
use crate::layout::{
    ACCESS_READ, ACCESS_WRITE, ATTENTION_OFFSET, Attention, ControlLayout, DOORBELL_OFFSET, HAZARD_OFFSET,
    Hazard, PairWord, REGION_OFFSET, RING_LINES,
};
use crate::mapped_regions::MappedRegions;
use crate::pipe::{self, HEADER_BYTES, PIECE_BYTES, PIPE_BYTES, PipeWriter};
use crate::regions::{Claim, ClaimFault, Claimer, OwnRegions, PeerMemory, Registration, Ways, is_quiet};
use crate::ring::{Entry, Lines, Payload, RingReader, RingWriter};
use crate::segment::{Mapping, Shared};
use crate::shared_files::SharedFiles;
use crate::wait::{Doorbell, SleepBarrier};
use am_via_os::atomics::{AtomicU32, AtomicU64, Ordering};

const BARRIER: SleepBarrier = SleepBarrier::Membarrier;

/// Runs a model with at most `preemptions_max` preemptions per thread, which was enough to find every known error of two threads. With
/// LOOM_UNBOUNDED in the environment there is no limit, and each model ends after at most ten minutes.
fn model(preemptions_max: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    if std::env::var_os("LOOM_UNBOUNDED").is_some() {
        builder.preemption_bound = None;
        builder.max_duration = Some(Duration::from_secs(600));
    } else {
        builder.preemption_bound = Some(preemptions_max);
    }
    builder.check(test);
}

fn ring(lines: u32) -> (RingWriter, RingReader) {
    let lines = Lines::private(lines).expect("a power of two");
    (RingWriter::new(lines.clone()), RingReader::new(lines))
}

fn write(writer: &mut RingWriter, number: u32) {
    let entry = Entry { immediate: number, length: number + 1, operation: number + 2, extra: number.into() };
    writer.write(entry, &[u64::from(number) + 3; 5]);
}

fn check(entry: Entry, payload: Payload, number: u32) {
    let wanted = Entry { immediate: number, length: number + 1, operation: number + 2, extra: number.into() };
    assert_eq!((entry, payload), (wanted, [u64::from(number) + 3; 5]));
}

#[test]
fn loom_a_line_is_seen_whole_or_not_at_all() {
    model(3, || {
        let (mut writer, mut reader) = ring(2);
        let sender = thread::spawn(move || (0..2).for_each(|number| write(&mut writer, number)));
        let mut seen = 0;
        for _ in 0..3 {
            let mut payload = Payload::default();
            if let Some(entry) = reader.poll(&mut payload) {
                check(entry, payload, seen);
                seen += 1;
            }
        }
        sender.join().unwrap();
        for number in seen..2 {
            let mut payload = Payload::default();
            let entry = reader.poll(&mut payload).expect("the writer has ended");
            check(entry, payload, number);
        }
        assert!(reader.poll(&mut Payload::default()).is_none());
    });
}

/// A ring of one line. The line is reused only when its reader has reported that the line was read: "slots released".
#[test]
fn loom_a_line_is_used_again_only_after_it_was_read() {
    model(2, || {
        let (mut writer, mut reader) = ring(1);
        let consumed = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&consumed);
        let sender = thread::spawn(move || {
            write(&mut writer, 0);
            while told.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            write(&mut writer, 1);
        });
        for number in 0..2 {
            let mut payload = Payload::default();
            let entry = loop {
                match reader.poll(&mut payload) {
                    Some(entry) => break entry,
                    None => thread::yield_now(),
                }
            };
            check(entry, payload, number);
            consumed.store(number + 1, Ordering::Release);
        }
        sender.join().unwrap();
    });
}

/// A lost wake-up would be an endless loop, which the model reports.
#[test]
fn loom_a_sleeper_never_misses_a_line() {
    model(3, || {
        let (mut writer, mut reader) = ring(1);
        let doorbell = Arc::new(Doorbell::default());
        let rung = Arc::clone(&doorbell);
        let sender = thread::spawn(move || {
            write(&mut writer, 0);
            BARRIER.after_store();
            if rung.is_sleeping() {
                rung.ring();
            }
        });
        let mut payload = Payload::default();
        while reader.poll(&mut payload).is_none() {
            doorbell.sleep(BARRIER, Duration::MAX, || reader.is_ready());
        }
        sender.join().unwrap();
    });
}

/// The wait for a counter: two senders, each with its own ring, and a waiter that sleeps until both messages have arrived.
#[test]
fn loom_a_wait_for_two_senders_ends() {
    model(2, || {
        let doorbell = Arc::new(Doorbell::default());
        let mut readers = Vec::new();
        let senders: Vec<_> = (0..2)
            .map(|number| {
                let (mut writer, reader) = ring(1);
                readers.push(reader);
                let rung = Arc::clone(&doorbell);
                thread::spawn(move || {
                    write(&mut writer, number);
                    BARRIER.after_store();
                    if rung.is_sleeping() {
                        rung.ring();
                    }
                })
            })
            .collect();
        let (mut counter, mut payload) = (0, Payload::default());
        while counter < 2 {
            let came = readers.iter_mut().filter_map(|reader| reader.poll(&mut payload)).count();
            counter += came;
            if came == 0 {
                doorbell.sleep(BARRIER, Duration::MAX, || readers.iter().any(RingReader::is_ready));
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// Two peers name VIs while the owner takes them: none is lost.
#[test]
fn loom_what_is_raised_is_taken() {
    model(3, || {
        let attention = Arc::new(Attention::default());
        let raisers: Vec<_> = [[3, 70], [4, 71]]
            .into_iter()
            .map(|vis| {
                let attention = Arc::clone(&attention);
                thread::spawn(move || vis.into_iter().for_each(|vi| attention.raise(vi)))
            })
            .collect();
        let mut taken = Vec::new();
        for _ in 0..2 {
            if attention.is_raised() {
                attention.take(|vi| taken.push(vi));
            }
        }
        raisers.into_iter().for_each(|raiser| raiser.join().unwrap());
        attention.take(|vi| taken.push(vi));
        taken.sort_unstable();
        assert_eq!(taken, [3, 4, 70, 71]);
    });
}

const LAYOUT: ControlLayout = ControlLayout { num_tasks: 2, packet_bytes: 128, vis: 64 };
/// Bytes that fit beside a line, and bytes that need the area.
const LENGTHS: [u32; 2] = [8, 72];
const VI: u32 = 5;

/// The shared part of a connection between two tasks: the VI slot and the doorbell of each.
#[derive(Clone)]
struct Ends {
    slots: [Arc<Mapping>; 2],
    bells: [Bell; 2],
}

impl Ends {
    fn new() -> Self {
        let (_file, head) = Mapping::anonymous(REGION_OFFSET).expect("memory");
        let bell = |side: usize| Bell {
            doorbell: head.atomics(DOORBELL_OFFSET + 64 * side).expect("it lies inside"),
            attention: head.atomics(ATTENTION_OFFSET + 576 * side).expect("it lies inside"),
            outlet: None,
        };
        let slot = |_| Mapping::anonymous(LAYOUT.vi_slot_bytes()).expect("memory").1;
        let ends = Self { slots: [0, 1].map(slot), bells: [0, 1].map(bell) };
        // A model makes all that it uses before its threads start.
        for side in [0, 1] {
            let connection = ends.open(side);
            for slot in 0..RING_LINES {
                // SAFETY: the bytes are not accessed: a model makes all that it uses before its threads start.
                let area = |len| unsafe { connection.area(slot, len) };
                LENGTHS.into_iter().for_each(|len| assert_eq!(area(len).len(), len as usize));
            }
        }
        ends
    }

    fn slot(&self, side: usize) -> ViSlot {
        // SAFETY: each slot gets one connection that reads it, and one that writes it.
        unsafe { ViSlot::new(Arc::clone(&self.slots[side]), LAYOUT) }.expect("it is long enough")
    }

    fn open(&self, side: usize) -> Connection {
        let (own, theirs) = (self.slot(side), self.slot(1 - side));
        Connection::new(own, theirs, VI, self.bells[1 - side].clone(), BARRIER, usize::MAX)
            .expect("both are whole")
    }
}

/// A ring leaves the poll set and its owner goes to sleep while the peer writes. Either the owner finds the line in its last look, or the
/// peer finds the ring parked, raises attention, and wakes the owner. The peer writes only one line: if two threads store to a word
/// repeatedly, loom allows orders that no machine has.
#[test]
fn loom_a_parked_ring_is_never_forgotten() {
    model(3, || {
        let ends = Ends::new();
        let (mut sender, mut owner) = (ends.open(0), ends.open(1));
        let sender = thread::spawn(move || {
            assert_eq!(sender.post(Entry::default(), &Payload::default()), Written::Done);
        });
        let Bell { doorbell, attention, .. } = &ends.bells[1];
        owner.set_parked(true);
        BARRIER.before_look();
        let mut polled = owner.is_ready();
        while !polled {
            doorbell.sleep(BARRIER, Duration::MAX, || attention.is_raised());
            attention.take(|vi| polled |= vi == VI);
        }
        owner.set_parked(false);
        assert!(owner.poll(&mut Payload::default()).is_some(), "attention was raised for a line");
        sender.join().unwrap();
    });
}

/// The ring is full: the sender refills the bytes beside a line, or a slot of the area, only after the owner has read and released it.
#[test]
fn loom_a_slot_is_filled_again_only_after_its_release() {
    LENGTHS.into_iter().for_each(a_slot_is_filled_again_only_after_its_release);
}

fn a_slot_is_filled_again_only_after_its_release(length: u32) {
    fn fill(sender: &mut Connection, length: u32) -> Written {
        let len = length as usize;
        let fill = |slot: CheckedRange<'_>, _| {
            slot.copy_from_slice(&vec![7; len]);
            Some(len)
        };
        sender.post_area(&Payload::default(), len, fill, |_| Entry { length, ..Entry::default() })
    }
    model(2, move || {
        let ends = Ends::new();
        let (mut sender, mut owner) = (ends.open(0), ends.open(1));
        (0..RING_LINES).for_each(|_| assert_eq!(fill(&mut sender, length), Written::Done));
        assert_eq!(fill(&mut sender, length), Written::Full);
        let sender = thread::spawn(move || {
            while fill(&mut sender, length) == Written::Full {
                thread::yield_now();
            }
        });
        for _ in 0..=RING_LINES {
            let (entry, slot) = loop {
                match owner.poll(&mut Payload::default()) {
                    Some(found) => break found,
                    None => thread::yield_now(),
                }
            };
            let mut bytes = vec![0; length as usize];
            // SAFETY: the entry has arrived, and is not released.
            unsafe { owner.area(slot, entry.length) }.copy_to_slice(&mut bytes);
            assert!(bytes.iter().all(|&byte| byte == 7));
            owner.release();
        }
        sender.join().unwrap();
    });
}

/// Both sides connect at the same time: one side makes the connection, both sides get it, and messages of both arrive.
#[test]
fn loom_two_that_connect_at_once_share_one_connection() {
    model(2, || {
        let ends = Ends::new();
        let pair = Arc::new(PairWord::default());
        let made = Arc::new(AtomicU32::new(0));
        let connect = move |side: usize, ends: Ends| {
            let make = || {
                made.fetch_add(1, Ordering::Relaxed);
                for side in [0, 1] {
                    ends.slot(side).header().identity.write([3, 1 - side as u32, 4, VI]);
                }
                Ok::<_, ()>((VI, VI))
            };
            let vis = loop {
                match pair.agree(make).expect("it makes it") {
                    Some(vis) => break vis,
                    None => thread::yield_now(),
                }
            };
            assert_eq!((vis, made.load(Ordering::Relaxed)), ((VI, VI), 1));
            assert_eq!(ends.slot(side).header().identity.read(), [3, 1 - side as u32, 4, VI]);
            let mut connection = ends.open(side);
            connection.raise_attention();
            assert_eq!(connection.post(Entry::default(), &Payload::default()), Written::Done);
        };
        let (other, theirs) = (connect.clone(), ends.clone());
        let peer = thread::spawn(move || other(1, theirs));
        connect(0, ends.clone());
        // If the peer has already named the VI, it has also written the VI's identity.
        ends.bells[0].attention.take(|vi| {
            assert_eq!((vi, ends.slot(0).header().identity.read()), (VI, [3, 1, 4, VI]));
        });
        peer.join().unwrap();
        for side in [0, 1] {
            assert!(ends.open(side).poll(&mut Payload::default()).is_some());
        }
    });
}

/// If a peer rings while the owner is in `Attention::take`, the owner finds it in the same look or in the next one.
#[test]
fn loom_no_ring_is_lost() {
    model(3, || {
        let attention = Arc::new(Attention::default());
        let theirs = Arc::clone(&attention);
        let peer = thread::spawn(move || theirs.raise_ring());
        let look = || {
            attention.is_raised() && {
                attention.take(|_| {});
                attention.take_ring()
            }
        };
        let mut is_rung = look();
        peer.join().unwrap();
        is_rung |= look();
        assert!(is_rung, "the owner would sleep on");
    });
}

const WAYS: Ways = Ways { mapped: true, kernel: false };

/// A context with an 8-byte region for each of `offsets` in its heap, a peer's view of it, and that peer's hazard line.
fn regions(offsets: &[usize]) -> (OwnRegions, Vec<(u32, u32)>, Arc<Mapping>, PeerMemory, Shared<Hazard>) {
    let (_file, head) = Mapping::anonymous(REGION_OFFSET + 4096).expect("memory");
    let (_file, heap) = Mapping::anonymous(1 << 16).expect("memory");
    let hazard = head.atomics(HAZARD_OFFSET).expect("it lies inside");
    let mut own = OwnRegions::new(Arc::clone(&head), Arc::clone(&heap), 0, WAYS);
    let names = offsets.iter().map(|&offset| open(&mut own, &heap, offset)).collect();
    // SAFETY: the files are those of `own`, and the one hazard line is that of the peer. The copies are what the models check.
    let peer = unsafe { PeerMemory::new(0, 0, head, Arc::clone(&heap)) };
    (own, names, heap, peer, hazard)
}

fn bytes_of(heap: &Mapping, offset: usize, len: usize) -> CheckedRange<'_> {
    // SAFETY: the models check the accesses.
    unsafe { heap.checked(offset, len) }.expect("it lies inside")
}

fn open(own: &mut OwnRegions, heap: &Mapping, offset: usize) -> (u32, u32) {
    let registration = Registration { access: ACCESS_READ | ACCESS_WRITE, ptag: 0 };
    // SAFETY: the mapping lives longer than the table. The copies are what the models check.
    unsafe { own.insert(bytes_of(heap, offset, 8), registration, &SharedFiles::default()) }
        .expect("the table is empty")
}

/// Copies 8 bytes into each region in turn; returns whether that was allowed.
fn copy_to(peer: &PeerMemory, hazard: &Hazard, names: &[(u32, u32)]) -> Vec<bool> {
    let shared = SharedFiles::default();
    let claimer = Claimer { task: 1, hazard, barrier: BARRIER, ways: WAYS, shared: &shared };
    let bytes = [1_u8; 8];
    let copy = |&(region, generation): &(u32, u32)| {
        let claim = Claim { region, generation, offset: 0, len: 8, ptag: 0 };
        // SAFETY: eight live bytes that nothing writes.
        let from = unsafe { CheckedRange::new(NonNull::from(&bytes).cast(), 8) };
        match peer.write(&claimer, claim, from) {
            Ok(Copied::Done) => true,
            Err(ClaimFault::Stale) => false,
            other => panic!("{other:?}"),
        }
    };
    names.iter().map(copy).collect()
}

/// Closes a region as its owner does, and waits until no peer copies.
fn close(own: &mut OwnRegions, (region, generation): (u32, u32), hazard: &Hazard) {
    assert!(own.remove(region, generation));
    BARRIER.before_look();
    while !is_quiet(std::iter::once(hazard), 0, region) {
        thread::yield_now();
    }
    own.recycle(region);
}

/// The peer copies into a region that its owner closes, and then into another one. The owner uses the memory of the closed region again.
#[test]
fn loom_memory_is_used_again_only_after_its_copies() {
    model(3, || {
        let (mut own, names, heap, peer, hazard) = regions(&[0, 4096]);
        let (closed, theirs) = (names[0], hazard.clone());
        let copier = thread::spawn(move || {
            assert!(copy_to(&peer, &theirs, &names)[1], "the other region stays open");
        });
        close(&mut own, closed, &hazard);
        bytes_of(&heap, 0, 8).zero();
        copier.join().unwrap();
    });
}

/// The slot of a closed region is reused at once: a claim to the old region never accesses the new one's memory.
#[test]
fn loom_an_old_claim_never_reaches_new_memory() {
    model(3, || {
        let (mut own, names, heap, peer, hazard) = regions(&[0]);
        let (closed, theirs) = (names[0], hazard.clone());
        let other = bytes_of(&heap, 4096, 8);
        let copier = thread::spawn(move || drop(copy_to(&peer, &theirs, &names)));
        close(&mut own, closed, &hazard);
        let (region, generation) = open(&mut own, &heap, 4096);
        assert_eq!((region, generation), (closed.0, closed.1 + 1), "the same slot");
        other.zero();
        bytes_of(&heap, 0, 8).zero();
        copier.join().unwrap();
    });
}

/// Lets the peer find the first region before anything is closed. The returned function zeroes the region through the cache, and returns
/// whether that was allowed.
fn found(peer: &PeerMemory, hazard: &Shared<Hazard>, names: &[(u32, u32)]) -> impl FnOnce() -> bool + use<> {
    let (region, generation) = names[0];
    let claim = Claim { region, generation, offset: 0, len: 8, ptag: 0 };
    let shared = SharedFiles::default();
    let claimer = Claimer { task: 1, hazard, barrier: BARRIER, ways: WAYS, shared: &shared };
    let mut known = MappedRegions::default();
    known.keep(0, region, peer.mapped_region(&claimer, claim, ACCESS_WRITE).expect("it is open"));
    let hazard = hazard.clone();
    move || match known.lend((&hazard, BARRIER), 0, claim, ACCESS_WRITE) {
        Ok(lent) => {
            lent.expect("it is mapped").range().zero();
            true
        }
        Err(ClaimFault::Stale) => false,
        Err(other) => panic!("{other}"),
    }
}

/// Like [`loom_memory_is_used_again_only_after_its_copies`], with a cached region.
#[test]
fn loom_memory_that_was_found_is_used_again_only_after_its_copies() {
    model(3, || {
        let (mut own, names, heap, peer, hazard) = regions(&[0]);
        let use_it = found(&peer, &hazard, &names);
        let copier = thread::spawn(move || drop(use_it()));
        close(&mut own, names[0], &hazard);
        bytes_of(&heap, 0, 8).zero();
        copier.join().unwrap();
    });
}

/// Like [`loom_an_old_claim_never_reaches_new_memory`], with a cached region.
#[test]
fn loom_memory_that_was_found_is_not_reached_by_its_slot_s_next_name() {
    model(3, || {
        let (mut own, names, heap, peer, hazard) = regions(&[0]);
        let other = bytes_of(&heap, 4096, 8);
        let use_it = found(&peer, &hazard, &names);
        let copier = thread::spawn(move || drop(use_it()));
        close(&mut own, names[0], &hazard);
        let (region, _) = open(&mut own, &heap, 4096);
        assert_eq!(region, names[0].0, "the same slot");
        other.zero();
        bytes_of(&heap, 0, 8).zero();
        copier.join().unwrap();
    });
}

#[derive(Debug)]
struct NoOwner;

impl HeapOwner for NoOwner {
    unsafe fn take_back(&self, _at: NonNull<u8>, _len: usize) {}
}

/// A message of two pieces through a pipe with one slot: the receiver takes pieces that are staged in time, and copies the rest itself; the
/// sender refills the slot only after the slot was read.
#[test]
fn loom_a_piece_is_read_before_its_slot_is_filled_again() {
    model(3, || {
        let (_file, heap) = Mapping::anonymous(PIPE_BYTES + 8192).expect("memory");
        let at = |offset, len| bytes_of(&heap, offset, len);
        // SAFETY: zeroed, and used by nothing else; `heap` keeps it mapped.
        let block = unsafe { HeapBlock::new(at(0, PIPE_BYTES), Arc::new(NoOwner)) };
        let mut pipe = PipeWriter::new(&heap, block).expect("it lies inside");
        // A model makes all that it uses before its threads start.
        at(HEADER_BYTES, PIECE_BYTES);
        let message = at(8192, 2 * PIECE_BYTES);
        message.copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        let word = AtomicU64::new(pipe.restart());
        let theirs = Arc::clone(&heap);
        let sender = thread::spawn(move || {
            let message = bytes_of(&theirs, 8192, 2 * PIECE_BYTES);
            (0..3).filter(|_| pipe.stage(message)).count()
        });
        let mut bytes = [0_u8; 2 * PIECE_BYTES];
        // SAFETY: a live array that only this thread accesses.
        let to = unsafe { CheckedRange::new(NonNull::from(&mut bytes).cast(), 2 * PIECE_BYTES) };
        let kernel = |from: u64, part: CheckedRange<'_>| {
            assert!(part.copy_from(message.part(from as usize, part.len()).expect("it lies inside")));
            Ok::<_, ()>(Copied::Done)
        };
        assert_eq!(pipe::read(&word, &heap, (0, to), kernel, || false), Ok(Copied::Done));
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        assert!(sender.join().unwrap() <= 2);
    });
}
