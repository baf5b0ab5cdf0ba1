//! Scopes, owned requests, the attached buffer, budgets, finalization.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::common::{everywhere, job, job_without_finalize, networks, pattern};
use am_double::Config;
use mpi_over_am::{
    BSEND_OVERHEAD_BYTES, Error, ErrorClass, OwnedRequest, RecvData, SendData, Settings, Source, Status, Tag,
    Tested,
};

#[test]
fn requests_are_waited_for_one_by_one_any_or_all() {
    everywhere(2, |_, world| {
        const COUNT: usize = 20;
        let other = 1 - world.rank();
        let out: Vec<Vec<u8>> = (0..COUNT).map(|i| pattern(i as u64, i * 150)).collect();
        let mut got: Vec<Vec<u8>> = (0..COUNT).map(|i| vec![0; i * 150]).collect();
        world
            .scope(|s| {
                let mut receives = Vec::new();
                for (tag, buffer) in (0..).zip(&mut got) {
                    receives.push(s.irecv(buffer, other, tag)?);
                }
                let mut sends = Vec::new();
                for (tag, data) in (0..).zip(&out) {
                    sends.push(s.isend(data, other, tag)?);
                }
                let mut last = receives.pop().expect("there are many");
                let mut seen = 0;
                while let Some((_, status)) = s.wait_any(&mut receives)? {
                    assert_eq!(status.len(), 150 * u64::try_from(status.tag()).unwrap());
                    seen += 1;
                }
                assert_eq!(seen, COUNT - 1);
                let status = loop {
                    last = match s.test(last)? {
                        Tested::Done(status) => break status,
                        Tested::Pending(request) => request,
                    };
                };
                assert_eq!(status.len(), 150 * (COUNT as u64 - 1));
                assert_eq!(s.wait_all(sends)?.len(), COUNT);
                Ok(())
            })
            .unwrap();
        assert_eq!(got, out);
    });
}

#[test]
fn a_test_sees_what_has_arrived_behind_other_messages() {
    const MESSAGES: u32 = 5;
    // The tasks synchronise without messages, since messages would make progress. All messages fit into the budget of early arrivals, so
    // the sends do not wait.
    let sent = std::sync::Barrier::new(2);
    job(Config::new(2), Settings::default(), |_, world| {
        if world.rank() == 0 {
            (0..MESSAGES).for_each(|number| world.send(&[number], 1, 0).unwrap());
            world.send(&[7u32], 1, 1).unwrap();
            sent.wait();
            return;
        }
        let mut last = [0u32];
        let tested = world.scope(|s| {
            let request = s.irecv(&mut last, 0, 1)?;
            sent.wait();
            Ok::<_, Error>(matches!(s.test(request)?, Tested::Done(_)))
        });
        assert!(tested.unwrap() && last == [7]);
        for number in 0..MESSAGES {
            let mut got = [0];
            world.recv(&mut got, 0, 0).unwrap();
            assert_eq!(got, [number]);
        }
    });
}

#[test]
fn a_scope_waits_for_what_its_closure_has_forgotten() {
    everywhere(2, |_, world| {
        let other = 1 - world.rank();
        let (out, mut got) = (pattern(1, 50_000), vec![0u8; 50_000]);
        world
            .scope(|s| {
                let _ = s.irecv(&mut got, other, 0)?;
                let _ = s.isend(&out, other, 0)?;
                Ok(())
            })
            .unwrap();
        assert_eq!(got, out);
    });
}

#[test]
fn a_scope_that_fails_withdraws_what_has_not_met_its_other_half() {
    for config in networks(2) {
        job(config, Settings::default(), |_, world| {
            let mut never = [7u8; 4];
            let other = 1 - world.rank();
            let result: Result<(), _> = world.scope(|s| {
                let _ = s.irecv(&mut never, Source::Any, 3)?;
                let _ = s.issend(&[1u8, 2], other, 99)?;
                Err(Error::Cancelled)
            });
            assert!(matches!(result, Err(Error::Cancelled)));
            world.barrier().unwrap();
            // Both operations are withdrawn: the message matches the next receive.
            let mut got = [0u8; 4];
            world.sendrecv(&[1, 2, 3, 4u8], other, 3, &mut got, other, 3).unwrap();
            assert_eq!((never, got), ([7; 4], [1, 2, 3, 4]));
        });
    }
}

#[test]
fn an_inner_scope_leaves_no_receive_behind() {
    for config in networks(1) {
        job(config, Settings::default(), |environment, world| {
            let posted = || environment.counts().unwrap().posted_receives;
            let (mut outer, mut inner) = ([0u8; 4], [7u8; 4]);
            world
                .scope(|s| {
                    let arriving = s.irecv(&mut outer, 0, 1)?;
                    let failed = world.scope(|inside| {
                        let _ = inside.irecv(&mut inner, 0, 2)?;
                        let sent = inside.isend(&[1, 2, 3, 4u8], 0, 1)?;
                        inside.wait(sent)?;
                        Err::<(), _>(Error::Cancelled)
                    });
                    assert!(matches!(failed, Err(Error::Cancelled)));
                    // The receive of the outer scope may have matched its message.
                    assert!(posted() <= 1);
                    s.wait(arriving).map(|_| ())
                })
                .unwrap();
            assert_eq!((posted(), outer, inner), (0, [1, 2, 3, 4], [7; 4]));
        });
    }
}

#[test]
fn a_scope_that_unwinds_withdraws_its_receives() {
    job_without_finalize(Config::new(2), Settings::default(), |environment| {
        let world = environment.world();
        let mut never = [7u8; 4];
        let caught = catch_unwind(AssertUnwindSafe(|| {
            world.scope(|s| -> mpi_over_am::Result<()> {
                let _ = s.irecv(&mut never, Source::Any, 3)?;
                panic!("as planned");
            })
        }));
        assert!(caught.is_err());
        assert_eq!(never, [7; 4]);
        // The task counts as failed now, so that its peers do not wait for it.
        let error = world.barrier().unwrap_err();
        assert!(error.to_string().contains("has failed"), "{error}");
    });
}

#[test]
fn an_error_of_a_forgotten_operation_is_the_scopes() {
    everywhere(2, |_, world| {
        if world.rank() == 0 {
            world.send(&[0u8; 10], 1, 0).unwrap();
        } else {
            let mut short = [0u8; 4];
            let result = world.scope(|s| s.irecv(&mut short, 0, 0).map(|_| ()));
            assert!(matches!(result, Err(Error::Truncated { sent: 10, capacity: 4, .. })), "{result:?}");
        }
    });
}

#[test]
fn owned_requests_give_their_buffers_back() {
    everywhere(2, |_, world| {
        let other = 1 - world.rank();
        let receive = world.irecv_owned(vec![0u32; 3000], other, 0).unwrap();
        let out: Vec<u32> = (0..3000).collect();
        let at = out.as_ptr();
        let send = world.isend_owned(out, other, 0).unwrap();
        let receiving = [receive];
        assert_eq!(OwnedRequest::wait_any(&receiving).unwrap(), Some(0));
        let [receive] = receiving;
        let (got, status) = receive.wait().unwrap();
        assert_eq!(status.count::<u32>(), Some(3000));
        let (out, _) = send.wait().unwrap();
        assert_eq!(out.as_ptr(), at);
        assert_eq!(got, out);
    });
}

#[test]
fn a_dropped_owned_send_arrives_all_the_same() {
    everywhere(2, |_, world| {
        if world.rank() == 0 {
            drop(world.isend_owned(pattern(3, 20_000), 1, 0).unwrap());
        } else {
            let mut got = vec![0u8; 20_000];
            world.recv(&mut got, 0, 0).unwrap();
            assert_eq!(got, pattern(3, 20_000));
        }
    });
}

#[test]
fn a_cancelled_receive_takes_no_message() {
    use am_core::buffer::RawBuffer;
    job(Config::new(1), Settings::default(), |_, world| {
        let request = world.irecv_data(&RecvData::from_buffer(RawBuffer::EMPTY), 0, 0).unwrap();
        assert!(world.cancel(request).unwrap());
        assert!(matches!(world.wait(request), Err(Error::Cancelled)));
        assert!(matches!(world.cancel(request), Err(Error::UnknownRequest { .. })));
        world.send(&[1u8], 0, 0).unwrap();
        let mut got = [0u8];
        world.recv(&mut got, 0, 0).unwrap();
        assert_eq!(got, [1]);
    });
}

#[test]
fn buffered_sends_return_whatever_the_receiver_does() {
    everywhere(2, |environment, world| {
        const COUNT: usize = 10;
        let len = |i: usize| i * 400;
        if world.rank() == 0 {
            let lent: usize = (0..COUNT).map(|i| len(i) + BSEND_OVERHEAD_BYTES).sum();
            environment.attach_buffer(vec![0; lent]).unwrap();
            for (tag, i) in (0..).zip(0..COUNT) {
                let mut data = pattern(i as u64, len(i));
                world.bsend(&data, 1, tag).unwrap();
                data.fill(0);
            }
            world.send(&(), 1, 99).unwrap();
            assert_eq!(environment.detach_buffer().unwrap().map(|buffer| buffer.len()), Some(lent));
            assert!(environment.detach_buffer().unwrap().is_none());
        } else {
            world.recv(&mut (), 0, 99).unwrap();
            for (tag, i) in (0..).zip(0..COUNT) {
                let mut got = vec![0u8; len(i)];
                world.recv(&mut got, 0, tag).unwrap();
                assert_eq!(got, pattern(i as u64, len(i)));
            }
        }
    });
}

#[test]
fn a_buffered_send_without_room_is_an_error_and_loses_nothing() {
    let settings = Settings { eager_limit_bytes: 100, ..Settings::default() };
    job(Config::new(2), settings, |environment, world| {
        if world.rank() == 0 {
            let error = world.bsend(&[0u8; 10], 1, 0).unwrap_err();
            assert!(matches!(error, Error::NoBuffer { len: 10, needed: 64 }), "{error:?}");
            environment.attach_buffer(vec![0; 1024]).unwrap();
            let second = environment.attach_buffer(Vec::new()).unwrap_err();
            assert!(matches!(second, Error::BufferAttached { attached: 1024 }));
            world.bsend(&[1u8; 600], 1, 0).unwrap();
            let error = world.bsend(&[2u8; 600], 1, 0).unwrap_err();
            assert!(
                matches!(error, Error::BufferExhausted { len: 600, needed: 640, free: 384, attached: 1024 }),
                "{error:?}"
            );
            assert_eq!(error.class(), ErrorClass::Buffer);
            world.bsend(&[3u8; 300], 1, 0).unwrap();
            world.send(&(), 1, 1).unwrap();
            // When the receiver has taken the first message, the next one fits into the attached buffer.
            world.recv(&mut (), 1, 2).unwrap();
            world.bsend(&[4u8; 600], 1, 0).unwrap();
            environment.flush_buffer().unwrap();
        } else {
            world.recv(&mut (), 0, 1).unwrap();
            for (value, len) in [(1, 600), (3, 300)] {
                let mut got = [0u8; 600];
                assert_eq!(world.recv(&mut got, 0, 0).unwrap().len(), len);
                assert_eq!(got[0], value);
            }
            world.send(&(), 0, 2).unwrap();
            let mut got = [0u8; 600];
            world.recv(&mut got, 0, 0).unwrap();
            assert_eq!(got, [4; 600]);
        }
    });
}

#[test]
fn early_arrivals_keep_to_their_budget_and_arrive_all_the_same() {
    // Each message takes 128 + 1024 bytes of the receiver's budget, which holds ten messages, but not fifty.
    let settings = Settings { early_arrival_bytes_max: 2 * 11_520, ..Settings::default() };
    for config in networks(2) {
        job(config, settings, |_, world| {
            const COUNT: usize = 50;
            if world.rank() == 0 {
                let data: Vec<_> = (0..COUNT).map(|i| pattern(i as u64, 1000)).collect();
                for _ in 0..3 {
                    world
                        .scope(|s| {
                            let mut sends = Vec::new();
                            for data in &data {
                                sends.push(s.isend(data, 1, 0)?);
                            }
                            // All sends have been started, and the receiver has seen all messages.
                            world.recv(&mut (), 1, 1)?;
                            let mut eager = 0;
                            for send in sends {
                                match s.test(send)? {
                                    Tested::Done(_) => eager += 1,
                                    Tested::Pending(_) => {}
                                }
                            }
                            assert!(eager <= 10, "{eager} messages of 1000 bytes were sent eagerly");
                            world.send(&(), 1, 2)
                        })
                        .unwrap();
                }
            } else {
                for _ in 0..3 {
                    while world.iprobe(0, Tag::Any).unwrap().is_none() {}
                    world.send(&(), 0, 1).unwrap();
                    world.recv(&mut (), 0, 2).unwrap();
                    for i in 0..COUNT {
                        let mut got = [0u8; 1000];
                        world.recv(&mut got, 0, 0).unwrap();
                        assert_eq!(got[..], pattern(i as u64, 1000));
                    }
                }
            }
        });
    }
}

#[test]
fn calls_after_the_end_are_refused() {
    job_without_finalize(Config::new(2), Settings::default(), |environment| {
        let world = environment.world();
        environment.finalize().unwrap();
        assert!(matches!(world.send(&[1u8], 0, 0), Err(Error::Finalized)));
        assert!(matches!(world.barrier(), Err(Error::Finalized)));
        assert_eq!(world.size(), 2);
    });
}

#[test]
fn finalize_reports_what_no_call_has_reported() {
    for config in networks(2) {
        job_without_finalize(config, Settings::default(), |environment| {
            let world = environment.world();
            if world.rank() == 0 {
                world.rsend(&[1u8], 1, 4).unwrap();
                let error = environment.finalize().unwrap_err();
                assert!(matches!(error, Error::NotReady { peer: 1, tag: 4, .. }), "{error:?}");
            } else {
                environment.finalize().unwrap();
            }
        });
    }
}

#[test]
fn the_death_of_a_task_ends_the_waits_of_the_others() {
    for config in networks(3) {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            job_without_finalize(config, Settings::default(), |environment| {
                let world = environment.world();
                if world.rank() == 2 {
                    panic!("as planned");
                }
                let mut got = [0u8; 8];
                let error = world.recv(&mut got, 1 - world.rank(), 0).unwrap_err();
                assert!(error.to_string().contains("task 2 has failed"), "{error}");
                let error = world.ssend(&got, 2, 0).unwrap_err();
                assert!(error.to_string().contains("task 2 has failed"), "{error}");
            });
        }));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"as planned"));
    }
}

/// Checks only the results of the calls; the C programs check the contents, since memory can be lent here only by `unsafe` code.
#[test]
fn an_exchange_is_over_when_both_halves_are() {
    everywhere(2, |_, world| {
        let other = 1 - world.rank();
        let data = RecvData::from_buffer(am_core::buffer::RawBuffer::EMPTY);
        let out = SendData::from_bytes(am_core::buffer::RawBytes::EMPTY);
        let from = (Source::Rank(other), Tag::Is(3));
        let request = world.isendrecv_replace_data(&data, (other, 3), from).unwrap();
        let status = world.wait(request).unwrap();
        assert_eq!((status.source(), status.tag(), status.len()), (other, 3, 0));
        let refused = world.isendrecv_replace_data(&data, (9, 3), from).unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Rank);
        // A refused exchange receives nothing: neither a message that has arrived, nor a later one.
        let sent = world.isend_data(mpi_over_am::Mode::Standard, &out, other, 3).unwrap();
        world.barrier().unwrap();
        let refused = world.isendrecv_data((&out, 9, 3), (&data, from.0, from.1)).unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Rank);
        assert_eq!(world.recv(&mut [0u8; 0], other, 3).unwrap().source(), other);
        world.wait(sent).unwrap();
        let request = world.isendrecv_data((&out, other, 3), (&data, from.0, from.1)).unwrap();
        assert_eq!(world.wait(request).unwrap().source(), other);
        let request = world.isendrecv_data((&out, other, 4), (&data, from.0, Tag::Is(4))).unwrap();
        world.free(request).unwrap();
        world.barrier().unwrap();
    });
}

#[test]
fn an_operation_of_the_programs_own_is_over_when_it_says_so() {
    everywhere(1, |_, world| {
        let request = world.generalized_start().unwrap();
        assert!(world.test(request).unwrap().is_none());
        assert!(world.request_status(request).unwrap().is_none());
        world.generalized_complete(request, Status::new(7, 8, 9)).unwrap();
        let again = world.generalized_complete(request, Status::default()).unwrap_err();
        assert_eq!(again.class(), ErrorClass::Request);
        assert_eq!(world.wait(request).unwrap(), Status::new(7, 8, 9));
        assert!(world.generalized_complete(request, Status::default()).is_err());
        // Finalization does not wait for the request.
        let _ = world.generalized_start().unwrap();
        let data = RecvData::from_buffer(am_core::buffer::RawBuffer::EMPTY);
        let receive = world.irecv_data(&data, 0, 5).unwrap();
        assert!(!world.was_cancelled(receive).unwrap());
        assert!(world.cancel(receive).unwrap() && world.was_cancelled(receive).unwrap());
        assert!(matches!(world.wait(receive), Err(Error::Cancelled)));
    });
}

#[test]
fn finalize_ends_mpi_although_an_earlier_error_is_left() {
    for config in networks(2) {
        job_without_finalize(config, Settings::default(), |environment| {
            let world = environment.world();
            if world.rank() == 0 {
                world.rsend(&[1u8], 1, 4).unwrap();
                world.rsend(&[1u8], 1, 5).unwrap();
                // Both refusals arrive; a call reports the first.
                let first = loop {
                    if let Err(error) = world.iprobe(1, 77) {
                        break error;
                    }
                };
                assert!(matches!(first, Error::NotReady { peer: 1, tag: 4, .. }), "{first:?}");
                let second = environment.finalize().unwrap_err();
                assert!(matches!(second, Error::NotReady { peer: 1, tag: 5, .. }), "{second:?}");
                assert!(matches!(world.iprobe(1, 77), Err(Error::Finalized)));
            } else {
                environment.finalize().unwrap();
            }
        });
    }
}
