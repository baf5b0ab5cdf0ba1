//! The network thread of a context. The first demand starts it. Without a demand it sleeps, and after some time ends, because every system
//! call on a file takes longer in a process with several threads.
//!
//! The thread is the *alarm* of a task that sleeps on its doorbell: it waits on the provider's file in place of the task, and rings the
//! doorbell once, so that a task waits for near and far peers in one sleep.
//!
//! The thread is also the *carrier* of waiting messages. A provider connects two endpoints only while both make progress, so the first
//! message to a peer waits for the connection. Meanwhile, the program may compute without a call of the library. At growing intervals, the
//! thread makes the progress that the task does not make, until no message waits.

use std::any::Any;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use am_via_os::event::Event;
use am_via_os::{fork, poll, signal};
use am_via_shm::{Doorbell, Shared};

/// First and longest interval of the carrier.
const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// How long the thread sleeps without a demand before it ends. A program that sleeps regularly should not start a thread for each wait.
pub(super) const REST_MAX: Duration = Duration::from_millis(100);

/// The messages that wait.
pub(super) trait Waiting: Debug + Send {
    /// Sends the messages as far as possible, unless the task makes progress or the alarm is set. Returns whether some still wait.
    fn carry(&mut self) -> bool;

    /// Tells the task that the thread has failed. The thread then rings the doorbell.
    fn fail(&mut self, why: String);
}

#[derive(Debug)]
struct Demands {
    is_set: AtomicBool,
    carries: AtomicBool,
    is_over: AtomicBool,
    /// Whether the thread serves further demands. The thread clears this only while `is_set` and `carries` are false.
    runs: Mutex<bool>,
    /// Wakes the thread after one of the flags above was set.
    changed: Event,
    /// `None` after [`end`](NetworkThread::end). Locked while the thread carries.
    waiting: Mutex<Option<Box<dyn Waiting>>>,
}

/// The thread of one endpoint.
#[derive(Debug)]
pub(super) struct NetworkThread(Arc<Demands>);

impl NetworkThread {
    /// Starts the thread, which rings `doorbell` when the alarm is set and `file` is readable, and carries the messages of `waiting` on
    /// demand. It ends after `rest_max` without a demand.
    pub(super) fn start(
        file: Option<BorrowedFd<'_>>,
        doorbell: Shared<Doorbell>,
        waiting: Box<dyn Waiting>,
        rest_max: Duration,
    ) -> io::Result<Self> {
        let demands = Arc::new(Demands {
            is_set: AtomicBool::new(false),
            carries: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            runs: Mutex::new(true),
            changed: Event::new()?,
            waiting: Mutex::new(Some(waiting)),
        });
        // The thread may outlive the endpoint by a moment.
        let file = file.map(|file| file.try_clone_to_owned()).transpose()?.map(File::from);
        let shared = Arc::clone(&demands);
        thread::Builder::new().name("am network".to_owned()).spawn(move || {
            // Signals are for the program's threads.
            signal::block_all();
            // Unwind safety: the report of the panic ends the task's use of the network.
            let served = catch_unwind(AssertUnwindSafe(|| shared.serve(file.as_ref(), &doorbell, rest_max)));
            if let Err(payload) = served {
                shared.fail(&*payload);
                doorbell.ring();
            }
        })?;
        Ok(Self(demands))
    }

    /// Sets the alarm. Returns `Some(false)` if it was already set and has not rung since, and `None` if the thread has ended.
    pub(super) fn set_alarm(&self) -> Option<bool> {
        // AcqRel: pairs with the swap in `serve`. The thread that clears the flag sees that the task is about to sleep.
        self.demand(&self.0.is_set)
    }

    pub(super) fn alarm_is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// Lets the thread carry the waiting messages, until none waits. Returns whether the demand is new; `None` if the thread has ended.
    pub(super) fn carry(&self) -> Option<bool> {
        self.demand(&self.0.carries)
    }

    fn demand(&self, what: &AtomicBool) -> Option<bool> {
        let is_new = !what.swap(true, Ordering::AcqRel);
        if is_new {
            // Before the thread ends, it checks the flags under this lock: so it sees this flag, or has already ended.
            if !*self.0.runs() {
                // Relaxed: the thread has ended, and no other thread reads the flag.
                what.store(false, Ordering::Relaxed);
                return None;
            }
            self.0.changed.set();
        }
        Some(is_new)
    }

    /// Ends the carrier: when this call returns, the thread no longer uses the waiting messages. The caller must not hold a lock that
    /// [`Waiting::carry`] takes.
    pub(super) fn end(&self) {
        self.0.end();
        *self.0.waiting() = None;
    }
}

impl Drop for NetworkThread {
    fn drop(&mut self) {
        // The thread is not joined, because a forked copy of the process does not have it.
        self.0.end();
    }
}

impl Demands {
    fn waiting(&self) -> MutexGuard<'_, Option<Box<dyn Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs(&self) -> MutexGuard<'_, bool> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.changed.set();
    }

    /// The loop of the thread.
    fn serve(&self, file: Option<&File>, doorbell: &Doorbell, rest_max: Duration) {
        let mut pause = PAUSE_MIN;
        while !self.is_over.load(Ordering::Acquire) {
            let carries = self.carries.load(Ordering::Acquire);
            let alarm = file.filter(|_| self.is_set.load(Ordering::Acquire));
            let rest = if alarm.is_some() { None } else { Some(rest_max) };
            let (has_changed, is_readable) = self.wait(alarm, if carries { Some(pause) } else { rest });
            if alarm.is_some() {
                // A task that is awake may have left the alarm set. Nothing is carried while the alarm is set, so if messages still wait
                // after the interval, the alarm rings. If the task has sent them, the demand is over.
                if is_readable || carries && !has_changed && self.carry() {
                    // Cleared before the ring, so that the woken task can set the alarm again. AcqRel: pairs with `demand`.
                    self.is_set.swap(false, Ordering::AcqRel);
                    doorbell.ring();
                }
            } else if carries && !has_changed {
                pause = (2 * pause).min(PAUSE_MAX);
                self.carry();
            } else if !carries {
                pause = PAUSE_MIN;
                if !has_changed && self.rests_for_good() {
                    return;
                }
            }
        }
    }

    /// Whether the thread ends, because there is no demand. From then on it refuses demands.
    fn rests_for_good(&self) -> bool {
        // Excludes forks, so that a copy of the process finds the lock free.
        fork::exclude(|| {
            let mut runs = self.runs();
            *runs = self.is_set.load(Ordering::Acquire) || self.carries.load(Ordering::Acquire);
            !*runs
        })
    }

    /// Waits until a flag was set or the file of the alarm is readable, at most for `limit`. Returns whether each of the two has happened.
    fn wait(&self, alarm: Option<&File>, limit: Option<Duration>) -> (bool, bool) {
        let changed = self.changed.as_fd();
        let ready = match alarm {
            Some(file) => poll::poll(&[changed, file.as_fd()], limit),
            None => poll::poll(&[changed], limit),
        };
        let Ok(ready) = ready else {
            // The call failed for lack of memory. The alarm rings, so that the task polls.
            thread::sleep(PAUSE_MAX);
            return (false, true);
        };
        let has_changed = ready[0];
        if has_changed {
            // Before the flags are read again: a flag that is set from now on sets the event again.
            self.changed.clear();
        }
        (has_changed, ready.get(1).is_some_and(|&is_readable| is_readable))
    }

    /// Returns whether messages still wait.
    fn carry(&self) -> bool {
        // Cleared first, so that a message that has to wait from now on is a new demand. AcqRel: pairs with `demand`.
        self.carries.swap(false, Ordering::AcqRel);
        // Excludes forks, so that a copy of the process finds these locks free.
        let waits = fork::exclude(|| self.waiting().as_mut().is_some_and(|waiting| waiting.carry()));
        if waits {
            self.carries.store(true, Ordering::Release);
        }
        waits
    }

    /// Reports a panic of the thread to the task.
    #[cold]
    fn fail(&self, panic: &(dyn Any + Send)) {
        let message = panic.downcast_ref::<&str>().copied();
        let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let why = format!("the network thread has panicked: {}", message.unwrap_or("no message"));
        fork::exclude(|| self.waiting().as_mut().map(|waiting| waiting.fail(why)));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use am_via_os::test_aids::guarded;
    use am_via_shm::{Mapping, SleepBarrier};

    use super::*;

    /// Tells each call of `carry` to the test, which answers whether something still waits.
    #[derive(Debug)]
    struct Told(Sender<()>, Receiver<bool>);

    impl Waiting for Told {
        fn carry(&mut self) -> bool {
            self.0.send(()).is_ok() && self.1.recv().unwrap_or(false)
        }

        fn fail(&mut self, why: String) {
            panic!("{why}");
        }
    }

    const LONG: Duration = Duration::from_secs(3600);

    fn doorbell() -> Shared<Doorbell> {
        let (_file, mapping) = Mapping::anonymous(4096).expect("a page");
        mapping.atomics(0).expect("a doorbell fits into a page")
    }

    #[test]
    fn what_arrives_while_the_task_goes_to_sleep_or_sleeps_wakes_it() {
        guarded(|| {
            let doorbell = doorbell();
            let (mut network, mut peer) = io::pipe().expect("a pipe");
            let waiting = Box::new(Told(channel().0, channel().1));
            let thread = NetworkThread::start(Some(network.as_fd()), doorbell.clone(), waiting, LONG)
                .expect("a thread");
            for round in 0..2000_u32 {
                let before = round % 3 == 0;
                if before {
                    peer.write_all(&[1]).expect("the pipe is empty");
                }
                let sender = (!before).then(|| {
                    let mut peer = peer.try_clone().expect("a descriptor");
                    thread::spawn(move || peer.write_all(&[1]).expect("the pipe is empty"))
                });
                // Without the alarm the task sleeps for an hour, and the watchdog reports that.
                let slept = doorbell.sleep(SleepBarrier::SenderFence, LONG, || {
                    thread.set_alarm();
                    false
                });
                assert!(!slept, "the doorbell was rung");
                network.read_exact(&mut [0]).expect("a byte has come");
                sender.into_iter().for_each(|sender| sender.join().expect("it only writes"));
            }
            assert_eq!(
                [thread.set_alarm(), thread.set_alarm()],
                [Some(true), Some(false)],
                "it has rung, and is set once"
            );
        });
    }

    /// The thread carries until no message waits, rings an alarm that is left set, and begins again on demand.
    #[test]
    fn it_carries_until_nothing_waits() {
        guarded(|| {
            let (network, _peer) = io::pipe().expect("a pipe");
            let ((told, is_told), (answer, answers)) = (channel(), channel());
            let waiting = Box::new(Told(told, answers));
            let thread =
                NetworkThread::start(Some(network.as_fd()), doorbell(), waiting, LONG).expect("a thread");
            let rests = || assert!(is_told.recv_timeout(Duration::from_millis(20)).is_err(), "nothing waits");
            for leaves_the_alarm_set in [false, true, false] {
                if leaves_the_alarm_set {
                    assert_eq!(thread.set_alarm(), Some(true));
                }
                // The thread sleeps, and waits on the file if the alarm is set.
                rests();
                thread.carry();
                if leaves_the_alarm_set {
                    is_told.recv().expect("it asks whether messages wait");
                    assert!(thread.alarm_is_set(), "it has not rung");
                    answer.send(true).expect("it waits for the answer");
                }
                for waits in [true, true, false] {
                    is_told.recv().expect("it carries");
                    assert!(!thread.alarm_is_set(), "it has rung");
                    answer.send(waits).expect("it waits for the answer");
                }
            }
            // The task has sent the messages, and sleeps: it is not woken for them.
            assert_eq!(thread.set_alarm(), Some(true));
            thread.carry();
            is_told.recv().expect("it asks whether messages wait");
            answer.send(false).expect("it waits for the answer");
            rests();
            assert!(thread.alarm_is_set(), "it has not rung");
            rests();
            thread.end();
            assert!(is_told.recv().is_err(), "it is gone, with what it used");
        });
    }

    /// A demand reaches a thread that waits on the provider's file, and so does the request to end.
    #[test]
    fn a_thread_with_a_set_alarm_ends() {
        guarded(|| {
            let (network, _peer) = io::pipe().expect("a pipe");
            let (told, is_told) = channel();
            let waiting = Box::new(Told(told, channel().1));
            let thread =
                NetworkThread::start(Some(network.as_fd()), doorbell(), waiting, LONG).expect("a thread");
            assert_eq!(thread.set_alarm(), Some(true));
            drop(thread);
            assert!(is_told.recv().is_err(), "it is gone, with what it used");
        });
    }

    #[test]
    fn a_thread_without_a_demand_ends_and_one_with_a_demand_does_not() {
        guarded(|| {
            let (network, mut peer) = io::pipe().expect("a pipe");
            let waiting = || Box::new(Told(channel().0, channel().1));
            let short = Duration::from_millis(1);
            let doorbell = doorbell();
            let start = || NetworkThread::start(Some(network.as_fd()), doorbell.clone(), waiting(), short);
            let idle = start().expect("a thread");
            while *idle.0.runs() {
                thread::yield_now();
            }
            assert_eq!([idle.set_alarm(), idle.carry(), idle.set_alarm()], [None; 3]);
            assert!(!idle.alarm_is_set());
            // The thread may end before the demand. The test then starts another thread, as a task does.
            let slow = loop {
                let thread = start().expect("a thread");
                if thread.set_alarm().is_some() {
                    break thread;
                }
            };
            thread::sleep(20 * short);
            assert!(slow.alarm_is_set() && *slow.0.runs());
            peer.write_all(&[1]).expect("the pipe is empty");
            while *slow.0.runs() {
                thread::yield_now();
            }
            assert!(!slow.alarm_is_set(), "it has rung");
        });
    }

    /// Panics when it has to carry, and sends on the text that says why the thread ended.
    #[derive(Debug)]
    struct Panics(Sender<String>);

    impl Waiting for Panics {
        fn carry(&mut self) -> bool {
            panic!("a mistake of the test: {}", 7);
        }

        fn fail(&mut self, why: String) {
            self.0.send(why).expect("the test waits");
        }
    }

    #[test]
    fn a_panic_of_the_thread_is_reported_and_wakes_the_task() {
        guarded(|| {
            let doorbell = doorbell();
            let (told, is_told) = channel();
            let thread = NetworkThread::start(None, doorbell.clone(), Box::new(Panics(told)), LONG);
            let thread = thread.expect("a thread");
            thread.carry();
            let mut why: Option<String> = None;
            while why.is_none() {
                // Without the ring the task sleeps for an hour, and the watchdog reports that.
                doorbell.sleep(SleepBarrier::SenderFence, LONG, || {
                    why = why.take().or_else(|| is_told.try_recv().ok());
                    why.is_some()
                });
            }
            assert_eq!(why.as_deref(), Some("the network thread has panicked: a mistake of the test: 7"));
            thread.carry();
            thread.end();
        });
    }
}
