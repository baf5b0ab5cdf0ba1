//! Programs of safe code that would corrupt memory if the library believed them: calls by numbers of requests that are typed, and operators
//! that panic while an operation is started.

#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use super::common::{Communicator, job, job_without_finalize};
use am_double::Config;
use mpi_over_am::{Equivalence, Error, RequestId, Settings, Tested, collective, op};

/// The number of every request that can be in one of the first slots: slots are bits 0 to 23 of a handle, generations bits 24 to 29.
fn every_number() -> impl Iterator<Item = RequestId> {
    (4..24).flat_map(|slot| (0..64).map(move |generation| 1 << 30 | generation << 24 | slot)).map(|handle| {
        let id = RequestId::from_handle(handle);
        assert_eq!(id.handle(), handle);
        id
    })
}

/// All calls that change a request, with every number. They must find none.
fn call_by_every_number(world: &Communicator) {
    for id in every_number() {
        let ended = [
            world.start(id),
            world.pready(id, 0),
            world.free(id),
            world.cancel(id).map(drop),
            world.wait(id).map(drop),
            world.test(id).map(drop),
            world.parrived(id, 0).map(drop),
            world.wait_all(&[id], |_, _| ()),
            world.wait_any(&[id]).map(drop),
            world.wait_some(&[id], |_, _| ()).map(drop),
            world.test_all(&[id], |_, _| ()).map(drop),
            world.test_any(&[id]).map(drop),
            world.test_some(&[id], |_, _| ()).map(drop),
            world.request_status(id).map(drop),
            world.request_facts(id).map(drop),
            world.is_active(id).map(drop),
            world.was_cancelled(id).map(drop),
        ];
        for (call, ended) in ended.into_iter().enumerate() {
            assert!(
                matches!(ended, Err(Error::UnknownRequest { .. })),
                "call {call} of {id:?} found a typed request: {ended:?}"
            );
        }
        world.abandon(id);
        world.own_request(id);
    }
}

/// Makes progress, during which operators may unwind. After an unwound scope, the task counts as failed.
fn progress(world: &Communicator) {
    for _ in 0..4 {
        let _ = unwinds(|| world.iprobe(0, 99).map(drop));
    }
}

#[test]
fn a_number_does_not_start_a_persistent_receive_whose_buffer_is_borrowed() {
    job(Config::new(1), Settings::default(), |_, world| {
        let mut receive = world.recv_init(vec![1u8; 8], 0, 5).unwrap();
        let buffer = receive.buffer().unwrap();
        let started: Vec<_> = every_number().filter(|&id| world.start(id).is_ok()).collect();
        world.send(&[0xee_u8; 8], 0, 5).unwrap();
        progress(world);
        assert_eq!(buffer, [1; 8], "a message was received behind a borrow, by {started:?}");
        call_by_every_number(world);
        receive.start().unwrap();
        receive.wait().unwrap();
        assert_eq!(receive.buffer().unwrap(), [0xee; 8]);
    });
}

#[test]
fn a_number_neither_sends_nor_receives_a_part_that_is_borrowed() {
    job(Config::new(1), Settings::default(), |_, world| {
        let send = world.psend_init(vec![1u8; 8], 1, 0, 5).unwrap();
        let receive = world.precv_init(vec![0u8; 8], 1, 0, 5).unwrap();
        for round in 1..4 {
            receive.start().unwrap();
            let mut part = send.part(0).unwrap();
            send.start().unwrap();
            let marked: Vec<_> = every_number().filter(|&id| world.pready(id, 0).is_ok()).collect();
            assert!(marked.is_empty(), "{marked:?} sent a part while the program writes it");
            part.fill(round);
            call_by_every_number(world);
            part.ready().unwrap();
            send.wait().unwrap();
            let arrived = receive.wait_for(0).unwrap();
            receive.wait().unwrap();
            let started: Vec<_> = every_number().filter(|&id| world.start(id).is_ok()).collect();
            assert!(started.is_empty(), "{started:?} started a round while a part is borrowed");
            assert_eq!(arrived[..], [round; 8]);
        }
    });
}

/// Slots have 64 generations: after the request of a persistent operation was freed by its number, another one could have that number, and
/// the drop of the first would free the memory of the second.
#[test]
fn the_drop_of_a_persistent_operation_frees_no_other_memory() {
    job(Config::new(1), Settings::default(), |_, world| {
        let first = world.recv_init(vec![1u8; 64], 0, 5).unwrap();
        for id in every_number() {
            let _ = world.free(id);
        }
        let mut others = Vec::new();
        for _ in 0..63 {
            drop(world.irecv_owned(vec![0u8; 1], mpi_over_am::PROC_NULL, 5).unwrap());
        }
        for _ in 0..4 {
            others.push(world.irecv_owned(vec![7u8; 64], 0, 6).unwrap());
        }
        drop(first);
        for _ in 0..4 {
            world.send(&[9u8; 64], 0, 6).unwrap();
        }
        for other in others {
            assert_eq!(other.wait().expect("it keeps its memory").0, [9; 64]);
        }
    });
}

#[test]
fn a_number_does_not_reach_requests_of_scopes_and_of_vectors() {
    job(Config::new(1), Settings::default(), |_, world| {
        let (mut into, mut later) = ([0u8; 4], [0u8; 4]);
        let owned = world.irecv_owned(vec![0u8; 4], 0, 1).unwrap();
        let sum = collective::allreduce_in_place(vec![3u64], op::Sum).start_owned(world).unwrap();
        world
            .scope(|s| {
                let receive = s.irecv(&mut into, 0, 2)?;
                let pending = s.irecv(&mut later, 0, 3)?;
                let out = s.issend(&[5u8; 4], 0, 4)?;
                call_by_every_number(world);
                for tag in 1..3 {
                    world.send(&[8u8; 4], 0, tag)?;
                }
                progress(world);
                // They are complete now, and still cannot be reached.
                call_by_every_number(world);
                assert_eq!(s.wait(receive)?.tag(), 2);
                let Tested::Pending(pending) = s.test(pending)? else { panic!("no message was sent") };
                world.send(&[6u8; 4], 0, 3)?;
                s.wait(pending)?;
                world.recv(&mut [0u8; 4], 0, 4)?;
                s.wait(out).map(drop)
            })
            .unwrap();
        assert_eq!((into, later), ([8; 4], [6; 4]));
        assert_eq!(owned.wait().unwrap().0, [8; 4]);
        assert_eq!(sum.wait().unwrap().0, [3]);
    });
}

/// An operator of the program that panics when it runs for the first time.
fn panics_first() -> impl op::Operation<u64> + Send + Sync + 'static {
    let has_run = AtomicBool::new(false);
    op::from_fn(move |&a: &u64, &b: &u64| {
        assert!(has_run.swap(true, Ordering::Relaxed), "as planned");
        a.wrapping_add(b)
    })
}

/// Elements of each vector. Freed memory of this size is allocated again at once.
const LEN: usize = 64;

/// Runs `start` at task 0 for a reduction to which task 1 has sent its part, so that a start may run the operator.
fn with_part_of_other(start: impl Fn(&Communicator) + Sync) {
    job_without_finalize(Config::new(2), Settings::default(), |environment| {
        let world = &environment.world();
        if world.rank() == 1 {
            // Both messages are short, and sent at once.
            let part = collective::reduce_in_place(vec![1u64; LEN], op::from_fn(|a: &u64, b| a + b), 0);
            let part = part.start_owned(world).expect("it starts");
            world.send(&(), 0, 1).expect("it is short");
            drop(part);
            let _ = world.recv(&mut (), 0, 2);
        } else {
            world.recv(&mut (), 1, 1).expect("it was sent");
            start(world);
            let _ = world.send(&(), 1, 2);
        }
    });
}

/// Whether `start` unwinds.
fn unwinds<R>(start: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(start)).is_err()
}

#[test]
fn nothing_uses_a_vector_after_the_operator_unwound_out_of_the_start() {
    with_part_of_other(|world| {
        let reduction = collective::reduce_in_place(vec![1u64; LEN], panics_first(), 0);
        let has_unwound = unwinds(|| drop(reduction.start_owned(world)));
        let others: Vec<_> = (0..8).map(|_| vec![7u64; LEN]).collect();
        progress(world);
        for other in others {
            assert!(other.iter().all(|&element| element == 7), "a freed vector was written, {has_unwound}");
        }
    });
}

#[test]
fn nothing_uses_a_borrow_after_the_operator_unwound_out_of_a_scope() {
    for catches_inside in [false, true] {
        with_part_of_other(|world| {
            let mut sums = vec![1u64; LEN];
            let _ = unwinds(|| {
                world.scope(|s| {
                    let reduction = collective::reduce_in_place(&mut sums, panics_first(), 0);
                    match catches_inside {
                        true => drop(unwinds(|| reduction.start(s).map(drop))),
                        false => reduction.start(s).map(drop)?,
                    }
                    Ok(())
                })
            });
            sums.fill(7);
            progress(world);
            assert!(sums.iter().all(|&element| element == 7), "a buffer was written after its scope");
        });
    }
}

#[test]
fn a_buffer_is_not_lent_after_the_operator_unwound_out_of_the_start() {
    job(Config::new(2), Settings::default(), |_, world| {
        let reduction = collective::reduce_in_place(vec![1u64; LEN], panics_first(), 0);
        let mut reduction = reduction.keep(world).unwrap();
        if world.rank() == 1 {
            reduction.start().unwrap();
            reduction.wait().unwrap();
            return world.send(&(), 0, 1).unwrap();
        }
        world.recv(&mut (), 1, 1).unwrap();
        let _ = unwinds(|| reduction.start());
        if let Ok(buffer) = reduction.buffer() {
            buffer.fill(7);
            progress(world);
            assert!(buffer.iter().all(|&element| element == 7), "the reduction wrote behind a borrow");
        }
        progress(world);
    });
}

/// The destructor of an element runs when its operation ends, inside the engine if the request was dropped before.
#[test]
fn a_destructor_that_panics_does_not_unwind_through_the_engine() {
    #[derive(Equivalence)]
    struct Bomb {
        number: u64,
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert_eq!(self.number, 0, "as planned");
        }
    }
    job(Config::new(1), Settings::default(), |_, world| {
        for len in [1, 5000] {
            drop(world.irecv_owned((0..len).map(|_| Bomb { number: 0 }).collect(), 0, 5).unwrap());
            let has_unwound = unwinds(|| {
                let mut elements = vec![0u64; len];
                elements[0] = 7;
                let send = world.isend_owned(elements, 0, 5).unwrap();
                send.wait().map(drop).unwrap();
                world.sendrecv(&1u8, 0, 6, &mut 0u8, 0, 6).map(drop).unwrap();
            });
            assert!(!has_unwound, "a destructor unwound through the engine");
        }
    });
}
