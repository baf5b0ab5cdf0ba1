//! A thread that waits in a call of a window or a send buffer blocks no other thread of its task.
//! `tests/c/c_threads_wait.c` tests the same for all calls in C.

#![allow(clippy::unwrap_used, reason = "a thread of a test says by its panic what was wrong")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use am_double::{Config, Reach};
use mpi_over_am::window::{Assertion, Lock};
use mpi_over_am::{Info, Source, Tag, Threads};

use crate::threads::{Communicator, Environment, Window, job};

const TOKEN: i32 = 77;
const LONG: usize = 100_000;

/// One of two tasks.
struct Task<'a> {
    environment: &'a Environment<Threads>,
    world: Communicator<Threads>,
    /// Number of times that task 0 has let task 1 go on.
    told: &'a AtomicU32,
    /// Whether task 1 waits for `told` outside MPI, so that it makes no progress.
    outside: bool,
}

impl Task<'_> {
    fn waits(&self) -> bool {
        self.world.rank() == 0
    }

    /// The second thread of task 0 lets task 1 make its call while the first thread is in the tested call.
    fn meet(&self, call: impl Fn() + Sync) {
        let before = self.told.load(Ordering::Acquire);
        self.world.barrier().unwrap();
        if self.waits() {
            let entered = AtomicBool::new(false);
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    while !entered.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    std::thread::sleep(Duration::from_millis(2));
                    self.world.iprobe(Source::Any, Tag::Any).unwrap();
                    self.told.fetch_add(1, Ordering::AcqRel);
                    self.world.send(&[1u8], 1, TOKEN).unwrap();
                });
                entered.store(true, Ordering::Release);
                call();
            });
        } else {
            while self.outside && self.told.load(Ordering::Acquire) == before {
                std::thread::sleep(Duration::from_micros(100));
            }
            self.world.recv(&mut [0u8], 0, TOKEN).unwrap();
            call();
        }
        self.world.barrier().unwrap();
    }

    /// A window on the task's private memory, which peers reach by the method that is available.
    fn window(&self) -> Window<Threads> {
        self.world.create_window(vec![0u8; LONG], 1, &Info::new()).unwrap()
    }
}

/// Runs a test in jobs of two tasks, with each method of memory access.
fn everywhere(outside: impl Fn(Reach) -> bool, test: impl Fn(&Task<'_>) + Sync) {
    for reach in [Reach::Direct, Reach::Posted, Reach::Staged] {
        for config in [Config::new(2), Config::hostile(2, 41)] {
            let (told, outside) = (AtomicU32::new(0), outside(reach));
            let run = |environment: &Environment<Threads>| {
                let world = environment.world();
                test(&Task { environment, world, told: &told, outside });
            };
            job(Config { reach, atomics: reach, ..config }, 2, run, |_| {});
        }
    }
}

#[test]
fn windows_are_made_and_freed() {
    everywhere(
        |_| true,
        |task| {
            let info = Info::new();
            task.meet(|| drop(task.window().free().unwrap()));
            task.meet(|| drop(task.world.allocate_window(100, 1, &info).unwrap().free().unwrap()));
            task.meet(|| drop(task.world.create_dynamic_window(&info).unwrap().free().unwrap()));
            task.meet(|| task.world.allocate_shared_window::<u64>(100, &info).unwrap().free().unwrap());
            let (window, array) =
                (task.window(), task.world.allocate_shared_window::<u64>(100, &info).unwrap());
            task.meet(|| array.barrier().unwrap());
            let (window, array) = (Mutex::new(Some(window)), Mutex::new(Some(array)));
            task.meet(|| drop(window.lock().unwrap().take().unwrap().free().unwrap()));
            task.meet(|| array.lock().unwrap().take().unwrap().free().unwrap());
        },
    );
}

#[test]
fn epochs_of_a_window() {
    everywhere(
        |_| true,
        |task| {
            let window = task.window();
            let group = |rank: u32| window.group().incl(&[rank]).unwrap();
            task.meet(|| {
                window.fence(Assertion::NONE).unwrap();
                window.put(&[1u8; LONG], 1 - window.rank(), 0).unwrap();
                window.fence(Assertion::NO_SUCCEED).unwrap();
            });
            // Each of the two tasks is origin once, and target once.
            for origin in 0..2 {
                task.meet(|| {
                    if task.world.rank() == origin {
                        window.start(&group(1 - origin), Assertion::NONE).unwrap();
                        window.put(&[2u8; LONG], 1 - origin, 0).unwrap();
                        window.complete().unwrap();
                    } else {
                        window.post(&group(origin), Assertion::NONE).unwrap();
                        window.wait().unwrap();
                    }
                });
            }
            window.free().unwrap();
        },
    );
}

#[test]
fn locks_of_a_window() {
    everywhere(
        |_| true,
        |task| {
            let window = task.window();
            let kinds = [
                (Lock::Exclusive, Lock::Exclusive),
                (Lock::Exclusive, Lock::Shared),
                (Lock::Shared, Lock::Exclusive),
            ];
            for target in 0..2 {
                for (held, wanted) in kinds {
                    if !task.waits() {
                        window.lock(held, target, Assertion::NONE).unwrap();
                    }
                    task.meet(|| {
                        if task.waits() {
                            window.lock(wanted, target, Assertion::NONE).unwrap();
                        }
                        window.unlock(target).unwrap();
                    });
                }
                if !task.waits() {
                    window.lock(Lock::Exclusive, target, Assertion::NONE).unwrap();
                }
                task.meet(|| {
                    if task.waits() {
                        window.lock_all(Assertion::NONE).unwrap();
                        window.unlock_all().unwrap();
                    } else {
                        window.unlock(target).unwrap();
                    }
                });
            }
            window.free().unwrap();
        },
    );
}

#[test]
fn transfers_while_the_target_computes() {
    everywhere(
        |_| true,
        |task| {
            let window = task.window();
            window.lock_all(Assertion::NONE).unwrap();
            let by_waiter = |call: &(dyn Fn() + Sync)| {
                task.meet(|| {
                    if task.waits() {
                        call();
                    }
                });
            };
            for len in [1, LONG] {
                by_waiter(&|| {
                    window.put(&vec![3u8; len], 1, 0).unwrap();
                    window.flush(1).unwrap();
                });
                by_waiter(&|| window.get(&mut vec![0u8; len], 1, 0).unwrap());
                by_waiter(&|| {
                    window.rput_owned(vec![4u8; len], 1, 0).unwrap().wait().unwrap();
                    window.flush_all().unwrap();
                });
                by_waiter(&|| window.rget_owned(vec![0u8; len], 1, 0).unwrap().wait().map(drop).unwrap());
            }
            window.unlock_all().unwrap();
            window.free().unwrap();
        },
    );
}

#[test]
fn send_buffers() {
    everywhere(
        |_| true,
        |task| {
            task.environment.attach_buffer(vec![0; 2 * LONG]).unwrap();
            for _ in 0..2 {
                task.meet(|| {
                    if task.waits() {
                        task.world.bsend(&[5u8; LONG], 1, 1).unwrap();
                        task.environment.flush_buffer().unwrap();
                    } else {
                        task.world.recv(&mut [0u8; LONG], 0, 1).unwrap();
                    }
                });
            }
            task.meet(|| {
                if task.waits() {
                    task.world.bsend(&[6u8; LONG], 1, 1).unwrap();
                    assert_eq!(task.environment.detach_buffer().unwrap().unwrap().len(), 2 * LONG);
                } else {
                    task.world.recv(&mut [0u8; LONG], 0, 1).unwrap();
                }
            });
        },
    );
}
