//! A limit of registered memory, as a NIC has one: an all-to-all exchange that needs more than the limit completes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use am_core::buffer::{Access, JobBuffer};
use am_core::error::{Error, Fault};
use am_core::handler::{Answer, Completion};
use am_core::task::TaskId;
use am_core::{AmOptions, Amsend, Context, PutOptions};
use am_core_conform::pattern;
use am_tests::harness::{Job, job};
use am_via::Task;
use am_via::start::ShmFabric;
use mpi_over_am::Environment;

const TASKS: u32 = 6;
const BLOCK_BYTES: usize = 4 << 20;

/// The values of `AM_MEMORY`, which decides which task must register which buffer.
const MEMORIES: [&str; 2] = ["auto", "staged"];

fn limited(test: &'static str, memory: &str) -> Job {
    job(test)
        .tasks(TASKS)
        .env("AM_REGISTERED_BYTES_MAX", "10M")
        .env("AM_MEMORY", memory)
        .time_limit(Duration::from_secs(600))
}

/// The data that task `from` sends to task `to` in round `round`.
fn block(from: u32, to: u32, round: u32) -> Vec<u8> {
    pattern(u64::from((round * TASKS + from) * TASKS + to), BLOCK_BYTES)
}

/// All sends of a task are in flight at once, and need twice the memory that may be registered, before anything has been received.
#[test]
fn an_exchange_beyond_the_limit_finishes() {
    for memory in MEMORIES {
        limited("an_exchange_beyond_the_limit_finishes", memory).run(|| {
            let mpi = Environment::init().expect("the launcher made a job");
            let world = mpi.world();
            let own = world.rank();
            let others = || (0..TASKS).filter(move |&rank| rank != own);
            let send: Vec<Vec<u8>> = (0..TASKS).map(|to| block(own, to, 0)).collect();
            let mut receive = vec![vec![0_u8; BLOCK_BYTES]; TASKS as usize];
            world
                .scope(|s| {
                    let mut requests = Vec::new();
                    for rank in others() {
                        requests.push(s.isend(&send[rank as usize], rank, 1)?);
                    }
                    for (rank, place) in (0..TASKS).zip(&mut receive).filter(|(rank, _)| *rank != own) {
                        requests.push(s.irecv(place, rank, 1)?);
                    }
                    s.wait_all(requests)
                })
                .expect("it finishes");
            for rank in others() {
                assert!(receive[rank as usize] == block(rank, own, 0), "block of {rank}");
            }
            drop(receive);
            let mut all = vec![0_u8; TASKS as usize * BLOCK_BYTES];
            world.alltoall(&send.concat(), &mut all).expect("all tasks take part");
            for (rank, got) in (0..TASKS).zip(all.chunks(BLOCK_BYTES)) {
                assert!(got == block(rank, own, 0), "block of {rank}");
            }
            drop(world);
            mpi.finalize().expect("all tasks finalize");
        });
    }
}

/// The same exchange by active messages, whose statistics tell that data beyond the limit came in pieces.
#[test]
fn data_beyond_the_limit_come_in_pieces() {
    let test = "data_beyond_the_limit_come_in_pieces";
    for memory in MEMORIES {
        limited(test, memory).run(|| {
            let task = Task::join().expect("the launcher made a job");
            let mut context = task.context().expect("the job has memory");
            let own = task.number();
            let came: Arc<Mutex<Vec<(u32, JobBuffer)>>> = Arc::default();
            let keep = Arc::clone(&came);
            let handler = context
                .register_handler(move |message| {
                    let keep = Arc::clone(&keep);
                    let place = JobBuffer::from(vec![0; usize::try_from(message.len).expect("a length")]);
                    let done = move |delivered: am_core::handler::Delivered| {
                        delivered.outcome.expect("the message arrives whole");
                        let buffer = delivered.buffer.expect("it had a buffer");
                        let mut came = keep.lock().unwrap_or_else(PoisonError::into_inner);
                        came.push((delivered.source.task.0, buffer));
                    };
                    Answer::owned(place, Completion::Call(Box::new(done)))
                })
                .expect("the first handler");
            context.gfence().expect("all tasks reach the fence");
            let mut send = vec![0_u8; BLOCK_BYTES * TASKS as usize];
            for round in 0..2 {
                for (to, bytes) in (0..TASKS).zip(send.chunks_mut(BLOCK_BYTES)) {
                    bytes.copy_from_slice(&block(own, to, round));
                }
                context
                    .scope(|scope| {
                        for (to, bytes) in (0..TASKS).zip(send.chunks(BLOCK_BYTES)) {
                            if to != own {
                                scope.start(
                                    Amsend {
                                        target: TaskId(to),
                                        handler,
                                        uhdr: &[],
                                        options: AmOptions::default(),
                                    },
                                    bytes,
                                )?;
                            }
                        }
                        Ok::<_, Error>(())
                    })
                    .expect("no message is lost")
                    .expect("each begins");
                context
                    .wait_until(|_| Ok(came.lock().is_ok_and(|came| came.len() == TASKS as usize - 1)))
                    .expect("the wait ends");
                for (from, buffer) in came.lock().expect("no handler panicked").drain(..) {
                    assert!(buffer[..] == block(from, own, round), "block of {from}");
                }
                context.gfence().expect("all tasks reach the fence");
                let now = context.statistics();
                println!("round {round}: {now:?}");
                assert!(now.pieces_sent > 0, "{now:?}");
            }
        });
    }
}

#[test]
fn exposing_more_than_the_limit_is_refused_with_values_and_what_was_exposed_counts() {
    let test = "exposing_more_than_the_limit_is_refused_with_values_and_what_was_exposed_counts";
    job(test).tasks(2).env("AM_REGISTERED_BYTES_MAX", "8M").run(|| {
        let task = Task::join().expect("the launcher made a job");
        let mut context = task.context().expect("the job has memory");
        let expose = |context: &mut Context<ShmFabric>, bytes: usize| {
            context.expose(vec![0; bytes].into(), Access::READ_WRITE)
        };
        let first = expose(&mut context, 4 << 20).expect("8 MiB may be registered");
        let error = expose(&mut context, 5 << 20).expect_err("4 MiB are left");
        assert_eq!(error.fault(), Fault::Resource);
        let Error::Exhausted { needed, available, .. } = error else { panic!("{error}") };
        assert_eq!((needed, available), (5 << 20, 4 << 20));
        assert!(error.to_string().contains("AM_REGISTERED_BYTES_MAX"), "{error}");
        // Job memory does not count towards the limit, and transfers of all lengths to and from exposed memory succeed.
        let heap = context.alloc(16 << 20).expect("the job has memory");
        let heap = context.expose(heap, Access::READ_WRITE).expect("it does not count");
        for region in [&first, &heap] {
            let addresses = context.address_init(region.address(0)).expect("all tasks exchange addresses");
            let other = addresses[1 - task.number() as usize];
            let mark = if task.number() == 0 { 5 } else { 6 };
            let mine = vec![mark; 3 << 20];
            context.put(other, &mine, PutOptions::default()).expect("the put completes");
            context.gfence().expect("all tasks reach the fence");
            let mut got = vec![0; 3 << 20];
            context.get(other, &mut got, am_core::GetOptions::default()).expect("the get completes");
            assert!(got == mine);
            context.gfence().expect("all tasks reach the fence");
        }
        context.unexpose(first).expect("no copy is under way");
        expose(&mut context, 8 << 20).expect("its bytes are free again");
    });
}
