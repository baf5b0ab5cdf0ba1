//! Synchronous mode below the eager limit: depending on a setting, a message carries its data and is acknowledged, or is announced.

use std::panic::{AssertUnwindSafe, catch_unwind};

use am_double::{Config, Double};
use mpi_over_am::{Error, Mode, Settings, Source, Tag, Tested};

use super::super::Policy;
use super::common::{Communicator, everywhere, job, job_without_finalize, networks};

fn settings(eager_synchronous: bool) -> Settings {
    Settings { eager_synchronous, ..Settings::default() }
}

/// Starts a send of one word, and returns its request.
fn issend(world: &Communicator, word: u32, dest: u32, tag: i32) -> Request {
    world.isend_owned_in_mode(Mode::Synchronous, vec![word], dest, tag).expect("the receiver lives")
}

type Request = mpi_over_am::OwnedRequest<u32, Double, Policy>;

/// Makes progress in both tasks until they have exchanged all notices about a match.
fn settle(world: &Communicator) {
    for _ in 0..20 {
        world.barrier().expect("all tasks reach the barrier");
    }
}

fn receive(world: &Communicator, source: impl Into<Source>, tag: impl Into<Tag>) -> u32 {
    let mut got = 0u32;
    world.recv(&mut got, source, tag).expect("a word is sent");
    got
}

#[test]
fn a_send_is_over_when_its_receive_has_started_and_not_before() {
    everywhere(2, |_, world| {
        let sent = (world.rank() == 0).then(|| issend(world, 7, 1, 3));
        settle(world);
        assert!(sent.as_ref().is_none_or(|sent| !sent.is_over().unwrap()), "no receive is posted");
        settle(world);
        if world.rank() == 1 {
            assert_eq!(receive(world, Source::Any, Tag::Any), 7);
        }
        settle(world);
        if let Some(sent) = sent {
            assert!(sent.is_over().unwrap());
            assert_eq!(sent.wait().unwrap().0, [7]);
        }
    });
}

#[test]
fn a_receive_that_is_posted_ends_a_blocking_send_of_any_length() {
    everywhere(2, |_, world| {
        for len in [0usize, 1, 4, 100, 900, 1000, 1001, 5000] {
            let data = vec![world.rank(); len];
            let mut got = vec![9u32; len];
            world
                .scope(|s| {
                    let receive = s.irecv(&mut got, 1 - world.rank(), Tag::Any)?;
                    world.ssend(&data, 1 - world.rank(), 1)?;
                    s.wait(receive)
                })
                .unwrap();
            assert!(got.iter().all(|&word| word == 1 - world.rank()));
        }
    });
}

#[test]
fn a_message_to_oneself_meets_its_receive() {
    everywhere(1, |_, world| {
        let sent = issend(world, 5, 0, 0);
        assert!(!sent.is_over().unwrap());
        assert_eq!(receive(world, 0, 0), 5);
        sent.wait().unwrap();
    });
}

#[test]
fn a_matched_probe_is_no_receive_yet() {
    everywhere(2, |_, world| {
        if world.rank() == 0 {
            let sent = issend(world, 7, 1, 3);
            settle(world);
            assert!(!sent.is_over().unwrap(), "only a probe has matched it");
            world.send(&0u32, 1, 4).unwrap();
            sent.wait().unwrap();
        } else {
            let (message, status) = world.mprobe(Source::Any, 3).unwrap();
            assert_eq!((status.source(), status.tag(), status.len()), (0, 3, 4));
            settle(world);
            receive(world, 0, 4);
            let mut got = [0u32];
            world.mrecv(&mut got, message).unwrap();
            assert_eq!(got, [7]);
        }
    });
}

/// The statistics of the receiver count announced messages.
#[test]
fn the_setting_says_whether_a_short_message_is_announced() {
    const MESSAGES: u64 = 20;
    for (is_eager, announced) in [(true, 0), (false, MESSAGES)] {
        job(Config::new(2), settings(is_eager), |environment, world| {
            for turn in 0..MESSAGES {
                // An early message, and one whose receive is posted.
                if world.rank() == 0 {
                    world.barrier().unwrap();
                    world.ssend(&[1u64, turn], 1, 0).unwrap();
                } else {
                    let mut got = [0u64; 2];
                    if turn % 2 == 0 {
                        world.barrier().unwrap();
                        while world.iprobe(0, 0).unwrap().is_none() {}
                        world.recv(&mut got, 0, 0).unwrap();
                    } else {
                        let expected = world.irecv_owned(vec![0u64; 2], 0, 0).unwrap();
                        world.barrier().unwrap();
                        got.copy_from_slice(&expected.wait().unwrap().0);
                    }
                    assert_eq!(got, [1, turn]);
                }
            }
            let received = environment.counts().unwrap().long_messages_received;
            assert_eq!(received, if world.rank() == 1 { announced } else { 0 });
        });
    }
}

#[test]
fn a_hundred_thousand_that_nobody_receives_block_nothing() {
    // Within the budget of early messages, and beyond it, where messages are announced.
    for (sends, early_arrival_bytes_max) in [(100_000, 64 << 20), (2000, 1 << 18)] {
        let config = Config { credits: 200, requests_max: 60, ..Config::new(2) };
        let settings = Settings { early_arrival_bytes_max, ..settings(true) };
        job(config, settings, |environment, world| {
            let words: Vec<_> = (0..sends).collect();
            if world.rank() == 0 {
                let all = world.scope(|s| {
                    let mut sent = Vec::new();
                    for word in &words {
                        sent.push(s.issend(word, 1, 1)?);
                        // Other messages are sent in between. Credits return with the answers, so these sends always find one.
                        if (word + 1) % 50 == 0 {
                            world.send(word, 1, 2)?;
                            assert_eq!(receive(world, 1, 2), *word);
                        }
                    }
                    if let Some(last) = sent.pop() {
                        match s.test(last)? {
                            Tested::Done(_) => panic!("no receive is posted"),
                            Tested::Pending(last) => sent.push(last),
                        }
                    }
                    world.barrier()?;
                    s.wait_all(sent)
                });
                assert_eq!(all.unwrap().len(), words.len());
            } else {
                for _ in 0..sends / 50 {
                    let word = receive(world, 0, 2);
                    world.send(&word, 0, 2).unwrap();
                }
                world.barrier().unwrap();
                assert_eq!(environment.counts().unwrap().early_messages, u64::from(sends));
                for word in words {
                    assert_eq!(receive(world, 0, 1), word);
                }
                let announced = environment.counts().unwrap().long_messages_received;
                assert_eq!(announced > 0, sends == 2000, "{announced} were announced");
            }
        });
    }
}

#[test]
fn a_send_that_is_cancelled_before_its_match_is_gone_and_after_it_goes_on() {
    everywhere(2, |_, world| {
        if world.rank() == 0 {
            let [gone, met] = [1, 2].map(|tag| issend(world, 7, 1, tag));
            settle(world);
            // Whether the send is cancelled may be known only after the receiver's answer.
            gone.cancel().unwrap();
            gone.cancel().unwrap();
            assert!(matches!(gone.wait().unwrap_err().error, Error::Cancelled));
            world.barrier().unwrap();
            settle(world);
            met.cancel().unwrap();
            assert_eq!(met.wait().unwrap().0, [7]);
        } else {
            settle(world);
            world.barrier().unwrap();
            assert!(world.iprobe(0, 1).unwrap().is_none());
            assert_eq!(receive(world, 0, Tag::Any), 7);
            settle(world);
        }
    });
}

/// A withdrawn message frees its part of the budget, which would not suffice for all messages.
#[test]
fn a_cancelled_message_leaves_the_memory_of_early_messages_free() {
    let settings = Settings { early_arrival_bytes_max: 2 * 10 * (128 + 256), ..settings(true) };
    job(Config::new(2), settings, |environment, world| {
        for _ in 0..20 {
            if world.rank() == 0 {
                let sent = world.isend_owned_in_mode(Mode::Synchronous, vec![1u8; 200], 1, 1).unwrap();
                settle(world);
                sent.cancel().unwrap();
                assert!(matches!(sent.wait().unwrap_err().error, Error::Cancelled));
                settle(world);
            } else {
                settle(world);
                settle(world);
                assert_eq!(environment.counts().unwrap().early_messages, 0);
            }
        }
        if world.rank() == 0 {
            world.ssend(&[1u8; 200], 1, 2).unwrap();
        } else {
            let mut got = [0u8; 200];
            world.recv(&mut got, 0, 2).unwrap();
            assert_eq!(environment.counts().unwrap().long_messages_received, 0, "it was not announced");
        }
    });
}

#[test]
fn a_send_whose_request_is_freed_is_received_all_the_same() {
    everywhere(2, |_, world| {
        if world.rank() == 0 {
            let mut persistent = world.send_init(Mode::Synchronous, vec![4u32], 1, 1).unwrap();
            persistent.start().unwrap();
            drop(persistent);
            for word in 0..3 {
                drop(issend(world, word, 1, 0));
            }
        } else {
            assert_eq!([0; 3].map(|_| receive(world, 0, 0)), [0, 1, 2]);
            assert_eq!(receive(world, 0, 1), 4);
        }
    });
}

#[test]
fn the_death_of_the_receiver_ends_the_send_and_no_other() {
    for config in networks(3) {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            job_without_finalize(config, settings(true), |environment| {
                let world = environment.world();
                environment.set_go_on(true).unwrap();
                match world.rank() {
                    0 => {
                        let [lost, other] = [2, 1].map(|dest| issend(&world, 7, dest, 0));
                        // Both messages have arrived.
                        assert_eq!([2, 1].map(|from| receive(&world, from, 1)), [1; 2]);
                        world.send(&0u32, 2, 2).unwrap();
                        let error = lost.wait().unwrap_err().error;
                        assert!(error.to_string().contains("task 2 has failed"), "{error}");
                        assert!(!other.is_over().unwrap());
                        world.send(&0u32, 1, 2).unwrap();
                        other.wait().unwrap();
                        world.send(&0u32, 1, 3).unwrap();
                    }
                    rank => {
                        while world.iprobe(0, 0).unwrap().is_none() {}
                        world.send(&1u32, 0, 1).unwrap();
                        receive(&world, 0, 2);
                        assert!(rank == 1, "as planned");
                        assert_eq!(receive(&world, 0, 0), 7);
                        receive(&world, 0, 3);
                    }
                }
            });
        }));
        let panic = caught.unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"as planned"));
    }
}
