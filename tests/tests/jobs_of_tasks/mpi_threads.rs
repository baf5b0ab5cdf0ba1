//! Tasks with several threads, between processes, with each method of memory access. Tests that need no processes are in mpi-over-am, over
//! a simulated network.

#![allow(clippy::unwrap_used, reason = "a task of a test says by its panic what was wrong")]

use std::sync::Barrier;

use am_tests::harness::jobs;
use mpi_over_am::op::{self, PredefinedOp};
use mpi_over_am::window::{Assertion, Lock};
use mpi_over_am::{Environment, Info, JobFabric, Mode, Threads, collective};

type Communicator = mpi_over_am::Communicator<JobFabric, Threads>;

const THREADS: usize = 3;

/// Runs `body` with several numbers of tasks and each method of memory access.
fn everywhere(test: &'static str, body: fn(&Communicator)) {
    for job in jobs(test, &[1, 2, 3]) {
        job.run(|| {
            let environment = Environment::init_threads().expect("the launcher made a job");
            body(&environment.world());
            environment.finalize().expect("all tasks finalize");
        });
    }
}

fn next(world: &Communicator) -> u32 {
    (world.rank() + 1) % world.size()
}

fn previous(world: &Communicator) -> u32 {
    (world.rank() + world.size() - 1) % world.size()
}

/// Runs all threads, each with its number.
fn team(thread: impl Fn(usize) + Sync) {
    std::thread::scope(|threads| {
        for number in 0..THREADS {
            let thread = &thread;
            threads.spawn(move || thread(number));
        }
    });
}

#[test]
fn threads_fill_parts_of_messages() {
    everywhere("threads_fill_parts_of_messages", |world| {
        const PART: usize = 20_000;
        let mut receive =
            world.precv_init(vec![0u32; PART * THREADS], 2 * THREADS, previous(world), 1).unwrap();
        let send = world.psend_init(vec![0u32; PART * THREADS], THREADS, next(world), 1).unwrap();
        for round in 0..3 {
            receive.start().unwrap();
            send.start().unwrap();
            team(|thread| {
                let mut part = send.part(thread).unwrap();
                part.fill(round * 100 + u32::try_from(thread).unwrap());
                part.ready().unwrap();
                for half in [2 * thread, 2 * thread + 1] {
                    let got = receive.wait_for(half).unwrap();
                    assert!(got.iter().all(|&got| got == round * 100 + u32::try_from(thread).unwrap()));
                }
            });
            send.wait().unwrap();
            receive.wait().unwrap();
        }
        assert_eq!(receive.buffer().unwrap().len(), PART * THREADS);
    });
}

#[test]
fn threads_start_what_is_kept_and_talk_in_scopes() {
    everywhere("threads_start_what_is_kept_and_talk_in_scopes", |world| {
        let (next, previous) = (next(world), previous(world));
        let own: Vec<_> = (0..THREADS).map(|_| world.dup().unwrap()).collect();
        team(|thread| {
            let world = &own[thread];
            let mut receive = world.recv_init(vec![0u64; 30_000], previous, 0).unwrap();
            let mut send = world.send_init(Mode::Standard, vec![0u64; 30_000], next, 0).unwrap();
            let mut sum = collective::allreduce_in_place(vec![0u64; 3], op::Sum).keep(world).unwrap();
            for round in 0..4 {
                send.buffer().unwrap().fill(round);
                sum.buffer().unwrap().fill(round);
                sum.start().unwrap();
                receive.start().unwrap();
                send.start().unwrap();
                send.wait().unwrap();
                receive.wait().unwrap();
                sum.wait().unwrap();
                assert!(receive.buffer().unwrap().iter().all(|&got| got == round));
                assert_eq!(sum.buffer().unwrap(), [round * u64::from(world.size()); 3]);
                let (out, mut into) = (vec![round + 1; 30_000], vec![0u64; 30_000]);
                world
                    .scope(|s| {
                        let arriving = s.irecv(&mut into, previous, 1)?;
                        s.isend(&out, next, 1).map(|_| ())?;
                        s.wait(arriving)
                    })
                    .unwrap();
                assert_eq!(into, out);
            }
        });
    });
}

#[test]
fn threads_share_windows() {
    everywhere("threads_share_windows", |world| {
        const STRIPE: usize = 10_000;
        let (next, previous) = (next(world), previous(world));
        let allocated = world.allocate_window(8 * STRIPE * THREADS, 8, &Info::new()).unwrap();
        let created = world.create_window(vec![0; 8 * STRIPE * THREADS], 8, &Info::new()).unwrap();
        for window in [&allocated, &created] {
            let together = Barrier::new(THREADS);
            window.fence(Assertion::NONE).unwrap();
            team(|thread| {
                let at = i64::try_from(thread * STRIPE).unwrap();
                window.put(&vec![u64::from(world.rank()) + 1; STRIPE], next, at).unwrap();
                if together.wait().is_leader() {
                    window.fence(Assertion::NONE).unwrap();
                }
                together.wait();
                let mut own = vec![0u64; STRIPE];
                window.read(at.cast_unsigned() * 8, &mut own).unwrap();
                assert!(
                    own.iter().all(|&word| word == u64::from(previous) + 1),
                    "the put has not arrived whole"
                );
                let (got, _) = window.rget_owned(own, next, at).unwrap().wait().unwrap();
                assert!(got.iter().all(|&word| word == u64::from(world.rank()) + 1));
            });
            window.fence(Assertion::NO_SUCCEED).unwrap();
            window.lock(Lock::Exclusive, next, Assertion::NONE).unwrap();
            window.put(&[0u64; 3], next, 0).unwrap();
            window.unlock(next).unwrap();
            world.barrier().unwrap();
            window.lock_all(Assertion::NONE).unwrap();
            team(|_| {
                for _ in 0..50 {
                    window.fetch_and_op(1u64, 0, 1, PredefinedOp::Sum).unwrap();
                }
            });
            window.unlock_all().unwrap();
            world.barrier().unwrap();
            let mut words = [0u64; 3];
            window.read(0, &mut words).unwrap();
            let all = 50 * THREADS as u64 * u64::from(world.size());
            assert_eq!(words, [0, if world.rank() == 0 { all } else { 0 }, 0]);
        }
        created.free().unwrap();
        allocated.free().unwrap();
        let array = world.allocate_shared_window::<u32>(THREADS, &Info::new()).unwrap();
        team(|thread| array.store(next, thread as u64, world.rank() + 1).unwrap());
        array.barrier().unwrap();
        team(|thread| assert_eq!(array.load(world.rank(), thread as u64).unwrap(), previous + 1));
        array.barrier().unwrap();
        array.free().unwrap();
    });
}
