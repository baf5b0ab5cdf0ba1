//! Persistent and partitioned operations, matched probes, cancelling, several requests at once, and `PROC_NULL`.

use super::common::{everywhere, job, networks, pattern};
use am_core_conform::Random;
use am_double::Config;
use mpi_over_am::{
    ANY_TAG, AnyCompleted, Error, ErrorClass, MessageId, Mode, PROC_NULL, PartitionedSend, RecvData,
    RequestId, SendData, Settings, Source, Tag,
};

#[test]
fn a_persistent_operation_is_started_as_often_as_wanted() {
    everywhere(2, |environment, world| {
        environment.attach_buffer(vec![0; 1 << 20]).unwrap();
        let other = 1 - world.rank();
        for len in [8, 900, 20_000] {
            for mode in [Mode::Standard, Mode::Synchronous, Mode::Buffered] {
                let mut receive = world.recv_init(vec![0u8; len], other, 5).unwrap();
                let mut send = world.send_init(mode, vec![0u8; len], other, 5).unwrap();
                // A request that was not started is complete at once, with an empty status.
                assert_eq!(receive.wait().unwrap().len(), 0);
                for round in 0..6 {
                    send.buffer().unwrap().copy_from_slice(&pattern(round, len));
                    receive.start().unwrap();
                    send.start().unwrap();
                    if mode == Mode::Synchronous {
                        assert!(matches!(send.start(), Err(Error::NotStartable { is_persistent: true, .. })));
                        assert!(send.buffer().is_err());
                    }
                    let status = if round % 2 == 0 {
                        receive.wait().unwrap()
                    } else {
                        loop {
                            if let Some(status) = receive.test().unwrap() {
                                break status;
                            }
                        }
                    };
                    assert_eq!((status.source(), status.tag(), status.len()), (other, 5, len as u64));
                    assert_eq!(receive.buffer().unwrap()[..], pattern(round, len));
                    send.wait().unwrap();
                }
            }
        }
        // An operation completes even if its active request is dropped.
        let mut send = world.send_init(Mode::Synchronous, vec![world.rank(); 5000], other, 6).unwrap();
        send.start().unwrap();
        drop(send);
        let mut got = vec![9u32; 5000];
        world.recv(&mut got, other, 6).unwrap();
        assert_eq!(got, vec![other; 5000]);
    });
}

#[test]
fn only_what_is_persistent_can_be_started() {
    job(Config::new(1), Settings::default(), |_, world| {
        let into = RecvData::from_buffer(am_core::buffer::RawBuffer::EMPTY);
        let request = world.irecv_data(&into, 0, 0).unwrap();
        let error = world.start(request).unwrap_err();
        assert!(matches!(error, Error::NotStartable { is_persistent: false, .. }), "{error}");
        assert_eq!(error.class(), ErrorClass::Request);
        world.send(&(), 0, 0).unwrap();
        world.wait(request).unwrap();
        assert!(matches!(world.start(request), Err(Error::UnknownRequest { .. })));
        // A send that was complete at once has no request of its own, and is not persistent, either.
        let nothing = SendData::from_bytes(am_core::buffer::RawBytes::EMPTY);
        let ended = world.isend_data(Mode::Standard, &nothing, 0, 0).unwrap();
        assert_eq!(ended, RequestId::ENDED_SEND);
        assert!(matches!(world.start(ended), Err(Error::NotStartable { is_persistent: false, .. })));
        world.recv(&mut (), 0, 0).unwrap();
        let receive =
            world.recv_init_data(&RecvData::from_buffer(am_core::buffer::RawBuffer::EMPTY), 0, 0).unwrap();
        world.start_all(&[receive]).unwrap();
        assert!(world.cancel(receive).unwrap());
        assert!(matches!(world.wait(receive), Err(Error::Cancelled)));
        // Only this round is cancelled: the request can be started again.
        world.start(receive).unwrap();
        world.send(&(), 0, 0).unwrap();
        assert_eq!(world.wait(receive).unwrap().source(), 0);
        world.free(receive).unwrap();
        assert!(matches!(world.start(receive), Err(Error::UnknownRequest { .. })));
    });
}

#[test]
fn partitions_go_in_any_order_and_arrive_one_by_one() {
    everywhere(2, |_, world| {
        let mut random = Random::new(77);
        for (parts, of_receiver, len) in [(1, 1, 24), (8, 8, 64), (6, 4, 1200), (4, 12, 24_000), (3, 3, 0)] {
            if world.rank() == 0 {
                let send = world.psend_init(vec![0u8; len], parts, 1, 3).unwrap();
                for round in 0..4 {
                    send.start().unwrap();
                    let data = pattern(round, len);
                    let mut left: Vec<usize> = (0..parts).collect();
                    while !left.is_empty() {
                        let part = left.swap_remove(random.below(left.len()));
                        let part_len = len / parts;
                        send.part(part).unwrap().copy_from_slice(&data[part * part_len..][..part_len]);
                        send.ready(part).unwrap();
                        assert!(matches!(send.ready(part), Err(Error::Partition { .. })));
                        if !left.is_empty() {
                            assert!(send.part(part).is_err());
                        }
                    }
                    send.wait().unwrap();
                }
                let error = send.ready(0).unwrap_err();
                assert_eq!(error.class(), ErrorClass::Argument, "{error}");
                assert!(send.part(parts).is_err());
            } else {
                let mut receive = world.precv_init(vec![0u8; len], of_receiver, 0, 3).unwrap();
                for round in 0..4 {
                    receive.start().unwrap();
                    let data = pattern(round, len);
                    let mut left: Vec<usize> = (0..of_receiver).collect();
                    while round % 2 == 0 && !left.is_empty() {
                        left.retain(|&part| {
                            let part_len = len / of_receiver;
                            match receive.arrived(part).unwrap() {
                                Some(got) => {
                                    assert_eq!(got[..], data[part * part_len..][..part_len], "round {round}");
                                    false
                                }
                                None => true,
                            }
                        });
                    }
                    let status = receive.wait().unwrap();
                    assert_eq!((status.source(), status.tag(), status.len()), (0, 3, len as u64));
                    assert_eq!(receive.buffer().unwrap()[..], data);
                }
                assert!(receive.arrived(0).unwrap().is_some());
                assert!(matches!(receive.arrived(of_receiver), Err(Error::Partition { .. })));
            }
            world.barrier().unwrap();
        }
    });
}

#[test]
fn a_round_goes_on_while_something_else_is_waited_for() {
    everywhere(2, |_, world| {
        let other = 1 - world.rank();
        for len in [16, 4000, 40_000] {
            let send = world.psend_init(vec![world.rank(); len], 4, other, 3).unwrap();
            let mut receive = world.precv_init(vec![9u32; len], 2, other, 3).unwrap();
            receive.start().unwrap();
            send.start().unwrap();
            (0..4).for_each(|part| send.ready(part).unwrap());
            // No call tests the receive, which was not matched yet when it was started.
            send.wait().unwrap();
            receive.wait().unwrap();
            assert_eq!(receive.buffer().unwrap(), vec![other; len]);
        }
    });
}

#[test]
fn partitioned_sides_meet_in_the_order_of_their_initialisation() {
    everywhere(2, |_, world| {
        const COUNT: u8 = 5;
        if world.rank() == 0 {
            let mut sends: Vec<_> =
                (0..COUNT).map(|i| world.psend_init(vec![i; 12], 3, 1, 8).unwrap()).collect();
            for send in sends.iter_mut().rev() {
                send.start().unwrap();
                (0..3).rev().for_each(|part| send.ready(part).unwrap());
            }
            // Messages with the same tag do not interfere.
            world.send(&[99u8], 1, 8).unwrap();
            sends.iter_mut().for_each(|send| assert!(send.wait().is_ok()));
        } else {
            let mut receives: Vec<_> =
                (0..COUNT).map(|_| world.precv_init(vec![9u8; 12], 3, 0, 8).unwrap()).collect();
            let mut got = [0u8];
            world.recv(&mut got, 0, 8).unwrap();
            assert_eq!(got, [99]);
            for (number, receive) in (0..).zip(&mut receives) {
                receive.start().unwrap();
                receive.wait().unwrap();
                assert_eq!(receive.buffer().unwrap(), [number; 12]);
            }
        }
    });
}

#[test]
fn a_partitioned_receive_of_another_length_says_so() {
    job(Config::new(2), Settings::default(), |_, world| {
        if world.rank() == 0 {
            let _never_started = world.psend_init(vec![0u8; 12], 3, 1, 1).unwrap();
            world.barrier().unwrap();
        } else {
            let receive = world.precv_init(vec![0u8; 8], 2, 0, 1).unwrap();
            receive.start().unwrap();
            let error = receive.wait().unwrap_err();
            assert!(matches!(error, Error::Truncated { sent: 12, capacity: 8, tag: 1, .. }), "{error}");
            world.barrier().unwrap();
        }
        assert!(matches!(world.psend_init(vec![0u8; 7], 2, 0, 0), Err(Error::Count { .. })));
        assert!(matches!(world.precv_init(vec![0u8; 7], 0, 0, 0), Err(Error::Count { .. })));
    });
}

#[test]
fn a_matched_message_is_nobody_elses() {
    everywhere(2, |_, world| {
        for (tag, len) in [(0, 0usize), (1, 12), (2, 900), (3, 50_000)] {
            if world.rank() == 0 {
                let data = [pattern(1, len), pattern(2, len)];
                let sent = world.scope(|s| {
                    let requests = [s.isend(&data[0], 1, tag)?, s.isend(&data[1], 1, tag)?];
                    s.wait_all(requests).map(|_| ())
                });
                sent.unwrap();
            } else {
                let (first, status) = world.mprobe(0, tag).unwrap();
                assert_eq!((status.source(), status.tag(), status.len()), (0, tag, len as u64));
                let (second, _) = loop {
                    if let Some(found) = world.improbe(Source::Any, tag).unwrap() {
                        break found;
                    }
                };
                assert!(world.improbe(0, tag).unwrap().is_none());
                let mut got = vec![0u8; len];
                assert_eq!(world.mrecv(&mut got, second).unwrap().len(), len as u64);
                assert_eq!(got, pattern(2, len));
                assert_eq!(world.mrecv(&mut got, first).unwrap().tag(), tag);
                assert_eq!(got, pattern(1, len));
                let error = world.mrecv(&mut got, first).unwrap_err();
                assert!(matches!(error, Error::UnknownMessage { .. }), "{error}");
                assert_eq!(error.class(), ErrorClass::Request);
            }
        }
    });
}

#[test]
fn nobody_takes_everything_and_sends_nothing() {
    job(Config::new(1), Settings::default(), |_, world| {
        let mut got = [7u8; 4];
        for mode in [Mode::Standard, Mode::Synchronous, Mode::Ready, Mode::Buffered] {
            let data = SendData::from_bytes(am_core::buffer::RawBytes::EMPTY);
            world.send_data(mode, &data, PROC_NULL, 3).unwrap();
            let request = world.isend_data(mode, &data, PROC_NULL, 3).unwrap();
            world.wait(request).unwrap();
        }
        world.send(&[1u8, 2], PROC_NULL, 0).unwrap();
        world.bsend(&[1u8, 2], PROC_NULL, 0).unwrap();
        for status in [
            world.recv(&mut got, PROC_NULL, Tag::Any).unwrap(),
            world.probe(PROC_NULL, 2).unwrap(),
            world.iprobe(PROC_NULL, 2).unwrap().unwrap(),
            world.sendrecv(&[1u8], PROC_NULL, 0, &mut got, PROC_NULL, 0).unwrap(),
            world.mrecv(&mut got, MessageId::NO_PROC).unwrap(),
            world.mprobe(PROC_NULL, 0).unwrap().1,
        ] {
            assert_eq!((status.source(), status.tag(), status.len()), (PROC_NULL, ANY_TAG, 0));
        }
        assert_eq!(got, [7; 4]);
        // If one side is `PROC_NULL`, the other side still communicates.
        world
            .scope(|s| {
                let arriving = s.irecv(&mut got[..1], 0, 1)?;
                let sent = world.sendrecv(&[5u8], 0, 1, &mut [0u8; 3], PROC_NULL, 1)?;
                assert_eq!(sent.source(), PROC_NULL);
                s.wait(arriving)
            })
            .unwrap();
        assert_eq!(got[0], 5);
        world
            .scope(|s| {
                let nothing = s.irecv(&mut got, PROC_NULL, 1)?;
                let lost = s.isend(&[1u8], PROC_NULL, 1)?;
                s.wait(lost)?;
                s.wait(nothing)
            })
            .unwrap();
        let mut send = world.send_init(Mode::Standard, vec![1u8; 9], PROC_NULL, 0).unwrap();
        let mut receive = world.recv_init(vec![1u8; 9], PROC_NULL, 0).unwrap();
        let parts = world.psend_init(vec![1u8; 9], 3, PROC_NULL, 0).unwrap();
        let no_parts = world.precv_init(vec![1u8; 9], 3, PROC_NULL, 0).unwrap();
        for _ in 0..2 {
            send.start().unwrap();
            receive.start().unwrap();
            parts.start().unwrap();
            no_parts.start().unwrap();
            (0..3).for_each(|part| parts.ready(part).unwrap());
            assert!(no_parts.arrived(1).unwrap().is_some());
            send.wait().unwrap();
            parts.wait().unwrap();
            no_parts.wait().unwrap();
            assert_eq!(receive.wait().unwrap().source(), PROC_NULL);
        }
        // The tag is still checked, and so is any other rank.
        assert!(matches!(world.send(&[1u8], PROC_NULL, -1), Err(Error::TagOutOfRange { .. })));
        assert!(matches!(world.recv(&mut got, PROC_NULL, -3), Err(Error::TagOutOfRange { .. })));
        assert!(matches!(world.send(&[1u8], 1, 0), Err(Error::UnknownRank { .. })));
        assert!(matches!(world.improbe(1, 0), Err(Error::UnknownRank { .. })));
    });
}

#[test]
fn some_and_any_of_several_requests() {
    everywhere(2, |_, world| {
        let other = 1 - world.rank();
        let nothing = RecvData::from_buffer(am_core::buffer::RawBuffer::EMPTY);
        let sleeping = world.recv_init_data(&nothing, other, 50).unwrap();
        assert!(matches!(world.test_any(&[sleeping]), Ok(AnyCompleted::NoneActive)));
        assert!(world.wait_any(&[sleeping]).unwrap().is_none());
        assert_eq!(world.wait_some(&[sleeping], |_, _| ()).unwrap(), None);
        assert_eq!(world.test_some(&[], |_, _| ()).unwrap(), None);
        assert!(world.test_all(&[sleeping], |_, status| assert!(status.unwrap().is_empty())).unwrap());
        let post = |tag| world.irecv_data(&nothing, other, tag).unwrap();
        let mut open: Vec<RequestId> = (0..10).map(post).chain([sleeping]).collect();
        assert!(matches!(world.test_any(&open), Ok(AnyCompleted::Pending)));
        assert_eq!(world.test_some(&open, |_, _| ()).unwrap(), Some(0));
        assert!(!world.test_all(&open, |_, _| ()).unwrap());
        assert!(world.request_status(open[0]).unwrap().is_none());
        assert!(!world.is_active(sleeping).unwrap() && world.is_active(open[0]).unwrap());
        world.barrier().unwrap();
        for tag in [3, 1, 4, 0, 2] {
            world.send(&(), other, tag).unwrap();
        }
        let mut over = Vec::new();
        while over.len() < 4 {
            let mut gone = Vec::new();
            let count = world
                .wait_some(&open, |index, status| {
                    over.push(status.unwrap().tag());
                    gone.push(index);
                })
                .unwrap();
            assert_eq!(count, Some(gone.len()));
            for index in gone.into_iter().rev() {
                open.remove(index);
            }
        }
        while over.len() < 5 {
            if let AnyCompleted::Completed(index, status) = world.test_any(&open).unwrap() {
                over.push(status.unwrap().tag());
                open.remove(index);
            }
        }
        over.sort_unstable();
        assert_eq!(over, [0, 1, 2, 3, 4]);
        world.barrier().unwrap();
        for tag in 5..10 {
            world.send(&(), other, tag).unwrap();
        }
        let mut tags = Vec::new();
        while !world.test_all(&open, |_, status| tags.push(status.unwrap().tag())).unwrap() {
            assert!(tags.is_empty());
        }
        assert_eq!(tags, [5, 6, 7, 8, 9, ANY_TAG]);
        assert!(matches!(world.wait_any(&[open[0]]), Err(Error::UnknownRequest { .. })));
        world.free(sleeping).unwrap();
    });
}

#[test]
fn elements_are_replaced_by_those_that_come() {
    everywhere(3, |_, world| {
        let (rank, size) = (world.rank(), world.size());
        for len in [1usize, 700, 9000] {
            let mut values = vec![rank; len];
            let status = world
                .sendrecv_replace(&mut values, (rank + 1) % size, 2, (rank + size - 1) % size, 2)
                .unwrap();
            assert_eq!(status.count::<u32>(), Some(len as u64));
            assert_eq!(values, vec![(rank + size - 1) % size; len]);
        }
    });
}

#[test]
fn a_partition_whose_send_was_refused_can_be_made_ready_again() {
    let settings = Settings { long_sends_max: Some(2), eager_limit_bytes: 100, ..Settings::default() };
    for config in networks(2) {
        job(config, settings, |_, world| {
            let data = pattern(7, 20_000);
            let ready_in_the_end = |send: &PartitionedSend<u8, _, _>, part| {
                while let Err(error) = send.ready(part) {
                    assert!(matches!(error, Error::TooMany { .. }), "{error}");
                    world.iprobe(1, 77).unwrap();
                }
            };
            if world.rank() == 0 {
                let send = world.psend_init(data, 2, 1, 3).unwrap();
                send.start().unwrap();
                // The description of the partitions may still be under way: it counts too.
                ready_in_the_end(&send, 0);
                // The request and its first partition are the two sends that may be under way.
                assert!(matches!(send.ready(1), Err(Error::TooMany { .. })));
                world.send(&[0u8], 1, 4).unwrap();
                ready_in_the_end(&send, 1);
                send.wait().unwrap();
            } else {
                let mut receive = world.precv_init(vec![0u8; 20_000], 2, 0, 3).unwrap();
                world.recv(&mut [0u8], 0, 4).unwrap();
                receive.start().unwrap();
                receive.wait().unwrap();
                assert_eq!(receive.buffer().unwrap(), data);
            }
        });
    }
}
