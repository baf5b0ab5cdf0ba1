//! Sends and receives in every mode, over friendly and hostile networks and with every setting.

use super::common::{everywhere, job, networks, pattern};
use am_double::Config;
use mpi_over_am::{Error, ErrorClass, Fault, Settings, Side, Source, Tag, Tested};

/// Lengths around every limit: inline, packet, eager.
const LENGTHS: [usize; 12] = [0, 1, 8, 16, 17, 40, 100, 999, 1000, 1001, 5000, 100_000];

#[test]
fn messages_of_every_length_arrive_whole_in_both_orders_of_send_and_receive() {
    everywhere(2, |_, world| {
        let other = 1 - world.rank();
        for (tag, len) in (0..).zip(LENGTHS) {
            if world.rank() == 0 {
                world.send(&pattern(1, len), other, tag).unwrap();
            }
            let mut got = vec![0; len + 3];
            let status = world.recv(&mut got, other, tag).unwrap();
            assert_eq!((status.source(), status.tag(), status.len()), (other, tag, len as u64));
            assert_eq!(got[..len], pattern(1, len));
            assert_eq!(got[len..], [0; 3]);
            if world.rank() == 1 {
                world.send(&got[..len], other, tag).unwrap();
            }
        }
    });
}

#[test]
fn messages_that_come_before_their_receives_wait_for_them() {
    everywhere(2, |_, world| {
        if world.rank() == 0 {
            // The messages are received in reverse order: all but the last one are early.
            let data: Vec<_> = LENGTHS.iter().map(|&len| pattern(2, len)).collect();
            world
                .scope(|s| {
                    let requests: Result<Vec<_>, _> =
                        (0..).zip(&data).map(|(tag, data)| s.isend(data, 1, tag)).collect();
                    s.wait_all(requests?).map(|_| ())
                })
                .unwrap();
        } else {
            for (tag, len) in (0..).zip(LENGTHS).collect::<Vec<_>>().into_iter().rev() {
                let mut got = vec![0u8; len];
                world.recv(&mut got, 0, tag).unwrap();
                assert_eq!(got, pattern(2, len));
            }
        }
    });
}

/// A message in pieces needs no receive if it fits into the budget of early arrivals: its sender goes on. A message beyond the
/// budget is announced.
#[test]
fn messages_in_pieces_are_received_early_late_and_matched() {
    const LEN: usize = 10_000;
    let slow = Config { delay_one_in: 2, ..Config::new(2) };
    let base = Settings { eager_limit_bytes: 1000, early_arrival_bytes_max: 1 << 17, ..Settings::default() };
    for (config, settings) in [(Config::new(2), base), (slow, base)] {
        job(config, settings, |_, world| {
            let send = |tag: i32| world.send(&pattern(tag.unsigned_abs().into(), LEN), 1, tag).unwrap();
            if world.rank() == 0 {
                send(1);
                // This message is received first; the send of the message before it has returned.
                world.send(&[7u8], 1, 0).unwrap();
                world.recv(&mut [0u8; 1], 1, 0).unwrap();
                send(2);
                world.send(&[8u8], 1, 0).unwrap();
                world.recv(&mut [0u8; 1], 1, 0).unwrap();
                // Together the messages exceed budget and credits.
                (3..30).for_each(send);
                return;
            }
            let mut byte = [0u8; 1];
            world.recv(&mut byte, 0, 0).unwrap();
            assert_eq!(byte, [7]);
            let status = world.probe(0, 1).unwrap();
            assert_eq!((status.tag(), status.len()), (1, LEN as u64));
            let mut short = vec![0u8; LEN / 2];
            let error = world.recv(&mut short, 0, 1).unwrap_err();
            assert!(matches!(error, Error::Truncated { sent: 10_000, capacity: 5_000, .. }), "{error}");
            assert!(short == pattern(1, LEN)[..LEN / 2]);
            world.send(&byte, 0, 0).unwrap();
            world.recv(&mut byte, 0, 0).unwrap();
            assert_eq!(byte, [8]);
            let (message, status) = world.mprobe(0, 2).unwrap();
            assert_eq!(status.len(), LEN as u64);
            let mut got = vec![0u8; LEN];
            world.mrecv(&mut got, message).unwrap();
            assert!(got == pattern(2, LEN));
            world.send(&byte, 0, 0).unwrap();
            for tag in 3..30 {
                world.recv(&mut got, 0, tag).unwrap();
                assert!(got == pattern(tag.unsigned_abs().into(), LEN), "message {tag}");
            }
        });
    }
}

/// A message that fits into one packet is sent as two packets if its receiver has answered the previous message.
#[test]
fn messages_of_about_a_packet_arrive_whole_while_they_are_answered_and_while_they_are_not() {
    const LENS: [usize; 5] = [12 << 10, (12 << 10) + 1, (14 << 10) + 33, (16 << 10) - 1, 16 << 10];
    let config = Config { packet_bytes_max: 1 << 15, ..Config::new(2) };
    let slow = Config { delay_one_in: 2, retry_one_in: 3, credits: 3, ..config };
    for config in [config, slow] {
        job(config, Settings::default(), |_, world| {
            let (own, peer) = (world.rank(), 1 - world.rank());
            for round in 0..40_u32 {
                let len = LENS[round as usize % LENS.len()];
                // A quarter of the rounds have two messages, of which the second follows the first at once.
                for number in 0..1 + u64::from(round % 4 == 0) {
                    let bytes = pattern(u64::from(round) + number, len);
                    if own == round % 2 {
                        world.send(&bytes, peer, 1).unwrap();
                        continue;
                    }
                    let mut got = vec![0u8; len];
                    world.recv(&mut got, peer, 1).unwrap();
                    assert!(got == bytes, "{len} bytes, message {number} of round {round}");
                }
            }
        });
    }
}

/// A blocking receive may take its message from the ring, but not if the message belongs to an earlier receive, comes after a message that
/// does, or is too long.
#[test]
fn a_blocking_receive_gets_its_own_message_whatever_else_has_come() {
    everywhere(2, |_, world| {
        const ROUNDS: i32 = 40;
        if world.rank() == 0 {
            for round in 0..ROUNDS {
                let values = [1, 2, 3, 4, 5].map(|value| 10 * round + value);
                let long = [round; 10];
                world
                    .scope(|s| {
                        let mut requests = Vec::new();
                        for (value, tag) in values.iter().zip([5, 5, 6, 5, 7]) {
                            requests.push(s.isend(value, 1, tag)?);
                        }
                        requests.extend([s.isend(&long, 1, 8)?, s.isend(&round, 1, 8)?]);
                        s.wait_all(requests).map(|_| ())
                    })
                    .unwrap();
            }
            return;
        }
        for round in 0..ROUNDS {
            let value = |of: i32| 10 * round + of;
            let mut earlier = 0;
            world
                .scope(|s| {
                    let request = s.irecv(&mut earlier, Source::Any, Tag::Any)?;
                    assert_eq!(world.recv_value::<i32>(0, 5)?.0, value(2));
                    s.wait(request).map(|_| ())
                })
                .unwrap();
            assert_eq!(earlier, value(1));
            assert_eq!(world.recv_value::<i32>(0, 5).unwrap().0, value(4));
            assert_eq!(world.recv_value::<i32>(0, Tag::Any).unwrap().0, value(3));
            assert_eq!(world.recv_value::<i32>(0, Tag::Any).unwrap().0, value(5));
            let mut short = [0; 3];
            let error = world.recv(&mut short, 0, 8).unwrap_err();
            assert!(matches!(error, Error::Truncated { sent: 40, capacity: 12, .. }), "{error}");
            assert_eq!((short, world.recv_value::<i32>(0, 8).unwrap().0), ([round; 3], round));
        }
    });
}

#[test]
fn messages_of_a_pair_do_not_overtake_each_other_eager_and_announced_mixed() {
    everywhere(3, |_, world| {
        const COUNT: u64 = 60;
        let len_of = |number: u64| if number.is_multiple_of(3) { 3000 } else { (number % 7) as usize * 8 };
        if world.rank() > 0 {
            for number in 0..COUNT {
                let mut message = number.to_le_bytes().to_vec();
                message.resize(8 + len_of(number), 0);
                match number % 4 {
                    0 => world.ssend(&message, 0, 5).unwrap(),
                    _ => world.send(&message, 0, 5).unwrap(),
                }
            }
        } else {
            let mut next = [0; 3];
            for _ in 0..2 * COUNT {
                let mut got = vec![0u8; 4000];
                let status = world.recv(&mut got, Source::Any, Tag::Any).unwrap();
                let number = u64::from_le_bytes(got[..8].try_into().unwrap());
                let source = status.source() as usize;
                assert_eq!(number, next[source], "from rank {source}");
                assert_eq!(status.len(), 8 + len_of(number) as u64);
                next[source] += 1;
            }
        }
    });
}

#[test]
fn receives_take_what_they_ask_for() {
    everywhere(2, |_, world| {
        if world.rank() == 0 {
            let tags = [3, 1, 2];
            world
                .scope(|s| {
                    tags.iter().try_for_each(|tag| s.isend(std::slice::from_ref(tag), 1, *tag).map(|_| ()))
                })
                .unwrap();
        } else {
            let mut got = [0i32];
            world.recv(&mut got, Source::Any, 2).unwrap();
            assert_eq!(got, [2]);
            world.recv(&mut got, 0, Tag::Any).unwrap();
            assert_eq!(got, [3]);
            let status = world.recv(&mut got, Source::Any, Tag::Any).unwrap();
            assert_eq!((got, status.source(), status.tag()), ([1], 0, 1));
        }
    });
}

#[test]
fn a_synchronous_send_ends_after_its_receive_has_started() {
    for config in networks(2) {
        job(config, Settings::default(), |_, world| {
            if world.rank() == 0 {
                let data = pattern(4, 10);
                world
                    .scope(|s| {
                        let mut request = s.issend(&data, 1, 1)?;
                        // The receive is posted only after the message with tag 2.
                        for _ in 0..100 {
                            request = match s.test(request)? {
                                Tested::Done(_) => panic!("the send completed before its receive was posted"),
                                Tested::Pending(request) => request,
                            };
                        }
                        world.send(&[0u8; 0], 1, 2)?;
                        s.wait(request)
                    })
                    .unwrap();
            } else {
                world.recv(&mut (), 0, 2).unwrap();
                let mut got = [0u8; 10];
                world.recv(&mut got, 0, 1).unwrap();
                assert_eq!(got[..], pattern(4, 10));
            }
        });
    }
}

#[test]
fn a_ready_send_meets_its_receive() {
    everywhere(2, |_, world| {
        if world.rank() == 0 {
            for len in LENGTHS {
                world.recv(&mut (), 1, 0).unwrap();
                world.rsend(&pattern(5, len), 1, 1).unwrap();
            }
        } else {
            for len in LENGTHS {
                let mut got = vec![0; len];
                world
                    .scope(|s| {
                        let receive = s.irecv(&mut got, 0, 1)?;
                        world.send(&(), 0, 0)?;
                        s.wait(receive)
                    })
                    .unwrap();
                assert_eq!(got, pattern(5, len));
            }
        }
    });
}

#[test]
fn a_ready_send_without_its_receive_is_an_error_at_both_ends() {
    for len in [10, 50_000] {
        for config in networks(2) {
            job(config, Settings::default(), |_, world| {
                if world.rank() == 0 {
                    world.rsend(&pattern(6, len), 1, 9).unwrap();
                    let error = loop {
                        if let Err(error) = world.iprobe(1, 0) {
                            break error;
                        }
                    };
                    assert!(
                        matches!(error, Error::NotReady { side: Side::Sender, peer: 1, tag: 9, len: l } if l == len as u64),
                        "{error:?}"
                    );
                    assert_eq!(error.fault(), Fault::Caller);
                    assert!(error.to_string().contains("to rank 1 with tag 9"), "{error}");
                    world.barrier().unwrap();
                } else {
                    let status = world.probe(0, 9).unwrap();
                    assert_eq!(status.len(), len as u64);
                    let error = world.recv(&mut vec![0u8; len], 0, 9).unwrap_err();
                    assert!(
                        matches!(error, Error::NotReady { side: Side::Receiver, peer: 0, tag: 9, len: l } if l == len as u64),
                        "{error:?}"
                    );
                    assert_eq!(error.fault(), Fault::Peer);
                    world.barrier().unwrap();
                }
            });
        }
    }
}

#[test]
fn a_message_longer_than_its_receive_is_cut_and_named() {
    everywhere(2, |_, world| {
        for early in [false, true] {
            for len in [20, 900, 5000, 100_000] {
                if world.rank() == 0 {
                    if !early {
                        world.recv(&mut (), 1, 0).unwrap();
                    }
                    let data = pattern(7, len);
                    world
                        .scope(|s| {
                            let send = s.isend(&data, 1, 3)?;
                            world.send(&(), 1, 4)?;
                            s.wait(send)
                        })
                        .unwrap();
                } else {
                    let mut got = vec![0u8; 18];
                    let error = if early {
                        world.recv(&mut (), 0, 4).unwrap();
                        world.recv(&mut got, 0, 3).unwrap_err()
                    } else {
                        let error = world
                            .scope(|s| {
                                let receive = s.irecv(&mut got, 0, 3)?;
                                world.send(&(), 0, 0)?;
                                s.wait(receive)
                            })
                            .unwrap_err();
                        world.recv(&mut (), 0, 4).unwrap();
                        error
                    };
                    assert!(
                        matches!(error, Error::Truncated { source_rank: 0, tag: 3, sent, capacity: 18 } if sent == len as u64),
                        "{error:?}"
                    );
                    assert_eq!(error.class(), ErrorClass::Truncate);
                    assert_eq!(got, pattern(7, len)[..18]);
                }
            }
        }
    });
}

#[test]
fn wrong_ranks_and_tags_are_refused_where_they_are_said() {
    job(Config::new(2), Settings::default(), |_, world| {
        let byte = [0u8];
        assert!(matches!(world.send(&byte, 2, 0), Err(Error::UnknownRank { rank: 2, size: 2 })));
        assert!(matches!(world.recv(&mut [0u8], 7, 0), Err(Error::UnknownRank { rank: 7, size: 2 })));
        assert!(matches!(world.send(&byte, 0, -1), Err(Error::TagOutOfRange { tag: -1, .. })));
        assert!(matches!(
            world.recv(&mut [0u8], 0, i32::MIN),
            Err(Error::TagOutOfRange { tag: i32::MIN, .. })
        ));
        assert!(matches!(world.iprobe(2, 0), Err(Error::UnknownRank { .. })));
        assert!(matches!(world.broadcast(&mut [0u8], 2), Err(Error::UnknownRoot { root: 2, size: 2 })));
        let error = world.send(&byte, 2, 0).unwrap_err();
        assert_eq!((error.class(), error.fault()), (ErrorClass::Rank, Fault::Caller));
        assert_eq!(error.to_string(), "rank 2 does not exist: the communicator has ranks 0 to 1");
        // The largest tag is valid.
        if world.rank() == 0 {
            world.send(&byte, 1, mpi_over_am::TAG_UB).unwrap();
        } else {
            world.recv(&mut [0u8], 0, mpi_over_am::TAG_UB).unwrap();
        }
    });
}

#[test]
fn a_probe_sees_what_the_next_receive_takes() {
    everywhere(2, |_, world| {
        if world.rank() == 0 {
            for len in LENGTHS {
                world.send(&pattern(8, len), 1, 6).unwrap();
            }
        } else {
            assert_eq!(world.iprobe(1, 6).unwrap(), None);
            for len in LENGTHS {
                let probed = world.probe(Source::Any, Tag::Any).unwrap();
                assert_eq!(world.iprobe(0, 6).unwrap(), Some(probed));
                let mut got = vec![0u8; usize::try_from(probed.len()).unwrap()];
                assert_eq!(world.recv(&mut got, probed.source(), probed.tag()).unwrap(), probed);
                assert_eq!(got, pattern(8, len));
            }
        }
    });
}

#[test]
fn tasks_exchange_around_a_ring_without_waiting_in_a_circle() {
    everywhere(4, |_, world| {
        let (rank, size) = (world.rank(), world.size());
        let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
        for len in LENGTHS {
            let mut got = vec![0u8; len];
            let out = pattern(u64::from(rank), len);
            let status = world.sendrecv(&out, right, 1, &mut got, left, 1).unwrap();
            assert_eq!((status.source(), status.len()), (left, len as u64));
            assert_eq!(got, pattern(u64::from(left), len));
        }
    });
}

#[test]
fn a_task_sends_to_itself() {
    everywhere(1, |_, world| {
        for len in LENGTHS {
            let (out, mut got) = (pattern(9, len), vec![0u8; len]);
            world
                .scope(|s| {
                    let send = s.isend(&out, 0, 0)?;
                    let receive = s.irecv(&mut got, 0, 0)?;
                    s.wait(send)?;
                    s.wait(receive)
                })
                .unwrap();
            assert_eq!(got, out);
        }
    });
}
