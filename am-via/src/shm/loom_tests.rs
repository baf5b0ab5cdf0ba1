//! All interleavings, and all that the memory model allows, of the lock-free parts. The fence form of the sleep handshake only:
//! a barrier on other processors is beyond the model, and has a stress test of its own.

use std::sync::Arc;
use std::time::Duration;

use loom::model::Builder;
use loom::thread;

use crate::shm::atomics::{AtomicU32, Ordering};
use crate::shm::layout::Attention;
use crate::shm::ring::{Entry, Lines, Payload, RingReader, RingWriter};
use crate::shm::wait::{Doorbell, SleepBarrier};

const BARRIER: SleepBarrier = SleepBarrier::SenderFence;

/// Runs a model in which no thread is preempted more often than that: enough for every error of two threads that was ever
/// seen here, and few enough to end.
fn model(preemptions_max: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions_max);
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

/// A ring of one line, used again as soon as its reader has said that it has read: "slots released".
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

/// Nobody sleeps through a line: a lost wake-up would be a loop without end, which the model reports.
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

/// As a wait for a counter goes: two senders, each with a ring of its own, and a waiter that sleeps until both have come.
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

/// Two peers name VIs while the owner takes what was named: nothing is lost.
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

/// A ring leaves the poll set while its peer writes: either the owner sees the line in its last look, or the peer sees that the
/// ring is parked and raises attention.
#[test]
fn loom_a_parked_ring_is_never_forgotten() {
    model(3, || {
        let (mut writer, reader) = ring(1);
        let parked = Arc::new(AtomicU32::new(0));
        let attention = Arc::new(Attention::default());
        let (theirs, raised) = (Arc::clone(&parked), Arc::clone(&attention));
        let sender = thread::spawn(move || {
            write(&mut writer, 0);
            BARRIER.after_store();
            if theirs.load(Ordering::Relaxed) != 0 {
                raised.raise(5);
            }
        });
        parked.store(1, Ordering::Relaxed);
        BARRIER.before_look();
        let mut polled = reader.is_ready();
        sender.join().unwrap();
        attention.take(|vi| polled |= vi == 5);
        assert!(polled, "the line would lie there for ever");
    });
}
