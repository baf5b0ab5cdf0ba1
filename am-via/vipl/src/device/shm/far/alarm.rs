//! Wakes a task that sleeps on its doorbell when the network has an event, so that one sleep waits for near and far peers.
//!
//! A thread waits on the provider's file in place of the task, and rings the doorbell once. Then the thread parks until the task is about
//! to sleep again, so that it uses no processor while the task is awake. The task's first sleep starts the thread.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use am_via_os::{poll, signal};
use am_via_shm::{Doorbell, Shared};

/// How often the thread checks whether its endpoint is gone.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct State {
    is_set: AtomicBool,
    is_over: AtomicBool,
}

/// The alarm of one endpoint.
#[derive(Debug)]
pub(super) struct Alarm {
    state: Arc<State>,
    thread: Thread,
}

impl Alarm {
    /// Starts the thread, which rings `doorbell` when `file` is readable.
    pub(super) fn start(file: BorrowedFd<'_>, doorbell: Shared<Doorbell>) -> io::Result<Self> {
        let state = Arc::new(State::default());
        // The thread may outlive the endpoint by a moment.
        let file = File::from(file.try_clone_to_owned()?);
        let shared = Arc::clone(&state);
        let started = thread::Builder::new().name("am network".to_owned()).spawn(move || {
            // Signals are for the threads of the program.
            signal::block_all();
            watch(&shared, &file, &doorbell);
        })?;
        Ok(Self { state, thread: started.thread().clone() })
    }

    /// Sets the alarm. Returns `false` if it was set already and has not rung since.
    pub(super) fn set(&self) -> bool {
        // AcqRel: the thread that clears it sees that the task is about to sleep.
        let is_new = !self.state.is_set.swap(true, Ordering::AcqRel);
        if is_new {
            self.thread.unpark();
        }
        is_new
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Release);
        // The thread is not joined, because a forked copy of the process does not have it.
        self.thread.unpark();
    }
}

fn watch(state: &State, file: &File, doorbell: &Doorbell) {
    while !state.is_over.load(Ordering::Acquire) {
        if !state.is_set.load(Ordering::Acquire) {
            thread::park();
            continue;
        }
        // If the call fails for lack of memory, the alarm rings, so that the task polls.
        let is_readable = poll::poll(&[file.as_fd()], Some(LOOK_EVERY)).map_or(true, |ready| ready[0]);
        if is_readable {
            // Cleared before the ring, so that the woken task can set the alarm again. AcqRel: pairs with `set`.
            state.is_set.swap(false, Ordering::AcqRel);
            doorbell.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use am_via_os::test_aids::guarded;
    use am_via_shm::{Mapping, SleepBarrier};

    use super::*;

    #[test]
    fn what_arrives_while_the_task_goes_to_sleep_or_sleeps_wakes_it() {
        guarded(|| {
            let (_file, mapping) = Mapping::anonymous(4096).expect("a page");
            let doorbell: Shared<Doorbell> = mapping.atomics(0).expect("a doorbell fits into a page");
            let (mut network, mut peer) = io::pipe().expect("a pipe");
            let alarm = Alarm::start(network.as_fd(), doorbell.clone()).expect("a thread");
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
                let slept = doorbell.sleep(SleepBarrier::SenderFence, Duration::from_secs(3600), || {
                    alarm.set();
                    false
                });
                assert!(!slept, "the doorbell was rung");
                network.read_exact(&mut [0]).expect("a byte has come");
                sender.into_iter().for_each(|sender| sender.join().expect("it only writes"));
            }
            assert!(alarm.set() && !alarm.set(), "it has rung, and is set once");
        });
    }
}
