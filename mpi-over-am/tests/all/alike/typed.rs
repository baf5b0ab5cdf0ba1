//! Arguments of typed calls: values of all kinds, `None` as rank, receives that allocate, requests as futures.

use std::future::poll_fn;
use std::num::Wrapping;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use am_core_conform::watchdog::Watchdog;
use am_double::{Config, network};
use bytemuck::{Pod, Zeroable};
use mpi_over_am::{
    Buffer, BufferMut, Environment, Equivalence, Error, Mode, PROC_NULL, Plain, Returned, Settings, Source,
    Tag, Threads, join_all,
};

use super::common::{everywhere, job};

#[derive(Equivalence, Clone, Copy, Debug, Default, PartialEq)]
struct Padded {
    small: u8,
    large: f64,
    pair: (u16, [i32; 2]),
}

#[derive(Equivalence, Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
struct Dense {
    a: u32,
    b: [f32; 2],
    c: (u16, u16),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct OfAnotherCrate {
    re: f32,
    im: f32,
}

/// Sends a value from rank 0 to rank 1 by each kind of call, and back by another kind.
fn there_and_back<B>(world: &super::common::Communicator, value: &B, into: &mut B, len: u64)
where
    B: Buffer + BufferMut + PartialEq + std::fmt::Debug,
{
    exchange(world, value, into, len).expect("both tasks do the same");
    assert_eq!(into, value);
}

fn exchange<B: Buffer + BufferMut>(
    world: &super::common::Communicator,
    value: &B,
    into: &mut B,
    len: u64,
) -> Result<(), Error> {
    let other = 1 - world.rank();
    if world.rank() == 0 {
        world.send(value, other, 1)?;
        world.scope(|s| s.wait(s.irecv(into, other, 2)?))?;
    } else {
        assert_eq!(world.recv(into, other, 1)?.len(), len);
        world.scope(|s| s.wait(s.issend(value, other, 2)?))?;
    }
    let status = world.sendrecv(value, other, 3, into, other, 3)?;
    assert_eq!((status.source(), status.len()), (other, len));
    world.sendrecv_replace(into, other, 4, other, 4).map(drop)
}

#[test]
fn values_of_all_kinds_go_by_the_same_calls() {
    everywhere(2, |environment, world| {
        environment.attach_buffer(vec![0; 1 << 16]).unwrap();
        there_and_back(world, &7u32, &mut 0, 4);
        there_and_back(world, &[1.5f64; 300], &mut [0.0; 300], 2400);
        there_and_back(world, &vec![i128::MIN; 3], &mut vec![0; 3], 48);
        there_and_back(world, &(1u8, 2u64, Wrapping(3i16)), &mut (0, 0, Wrapping(0)), 11);
        there_and_back(world, &(), &mut (), 0);
        there_and_back(world, &Plain(OfAnotherCrate { re: 1.0, im: 2.0 }), &mut Plain::default(), 8);
        let dense = Dense { a: 1, b: [2.0, 3.0], c: (4, 5) };
        there_and_back(world, &dense, &mut Dense::default(), 16);
        there_and_back(world, &vec![dense; 1000], &mut vec![Dense::default(); 1000], 16_000);
        let padded = Padded { small: 1, large: 2.0, pair: (3, [4, 5]) };
        there_and_back(world, &padded, &mut Padded::default(), 1 + 8 + 2 + 8);
        there_and_back(world, &vec![[padded; 2]; 500], &mut vec![[Padded::default(); 2]; 500], 19_000);
        // Sends in all modes, and parts of longer values.
        if world.rank() == 0 {
            world.send_in_mode(Mode::Buffered, &padded, 1, 0).unwrap();
            world.ssend(&[dense; 4][1..], 1, 0).unwrap();
            world.send("text", 1, 0).unwrap();
            world.send(Plain::of_slice(&[OfAnotherCrate { re: 0.0, im: 9.0 }; 2]), 1, 0).unwrap();
        } else {
            let mut got = [Padded::default(); 2];
            assert_eq!(world.recv(&mut got[1..], 0, 0).unwrap().len(), 19);
            assert_eq!(got, [Padded::default(), padded]);
            assert_eq!(world.recv_vec::<Dense>(0, 0).unwrap().0, [dense; 3]);
            assert_eq!(world.recv_vec::<u8>(0, 0).unwrap().0, b"text");
            let mut got = [OfAnotherCrate::zeroed(); 2];
            world.recv(Plain::of_slice_mut(&mut got), 0, 0).unwrap();
            assert_eq!(got[1].im, 9.0);
        }
    });
}

#[test]
fn no_rank_is_proc_null() {
    job(Config::new(2), Settings::default(), |_, world| {
        let (left, right) = (world.rank().checked_sub(1), (world.rank() == 0).then_some(1));
        let mut got = 7u32;
        let status = world.sendrecv(&world.rank(), right, 0, &mut got, left, 0).unwrap();
        assert_eq!(status.source(), left.unwrap_or(PROC_NULL));
        assert_eq!(got, left.unwrap_or(7));
        world.send(&got, None, 0).unwrap();
        assert_eq!(world.recv(&mut got, None, Tag::Any).unwrap().source(), PROC_NULL);
        assert_eq!(world.probe(None, 0).unwrap().source(), PROC_NULL);
        assert!(world.recv_vec::<u64>(None, 0).unwrap().0.is_empty());
        assert_eq!(world.recv_value::<u64>(None, 0).unwrap().0, 0);
        world
            .scope(|s| {
                let nothing = [s.isend(&5u8, None, 0)?, s.irecv(&mut got, None, 0)?];
                s.wait_all(nothing)
            })
            .unwrap();
        world.isend_owned(vec![1u8], None, 0).unwrap().wait().unwrap();
        let mut ends = (Source::from(None), Source::from(Some(3)));
        assert_eq!(ends, (Source::Rank(PROC_NULL), Source::Rank(3)));
        ends.1 = Source::from(3);
        assert_eq!(ends.1, Source::Rank(3));
    });
}

#[test]
fn receives_that_allocate_are_as_long_as_the_message() {
    everywhere(2, |_, world| {
        let other = 1 - world.rank();
        for count in [0, 1, 17, 3000] {
            let out: Vec<Padded> = vec![Padded { small: 3, ..Padded::default() }; count];
            let sending = world.isend_owned(out.clone(), other, 5).unwrap();
            let (got, status) = world.recv_vec::<Padded>(Source::Any, Tag::Any).unwrap();
            assert_eq!((got, status.source(), status.tag()), (out, other, 5));
            sending.wait().unwrap();
        }
        let sending = [9u8, 7].map(|byte| world.isend_owned(vec![byte; 7], other, 6).unwrap());
        let error = world.recv_vec::<u16>(other, 6).unwrap_err();
        assert!(matches!(error, Error::Truncated { sent: 7, capacity: 6, .. }), "{error}");
        let error = world.recv_value::<u64>(other, 6).unwrap_err();
        assert!(matches!(error, Error::Count { .. }), "{error}");
        assert!(sending.into_iter().all(|sending| sending.wait().is_ok()));
        let sending = world.isend_owned(vec![(1u8, 4.5f64)], other, 7).unwrap();
        assert_eq!(world.recv_value::<(u8, f64)>(other, 7).unwrap().0, (1, 4.5));
        sending.wait().unwrap();
    });
}

#[test]
fn an_operation_that_fails_gives_its_buffer_back() {
    job(Config::new(2), Settings::default(), |_, world| {
        let other = 1 - world.rank();
        let sending = world.isend_owned(vec![1u8, 2, 3], other, 0).unwrap();
        let Returned { error, buffer, .. } =
            world.irecv_owned(vec![0u8; 2], other, 0).unwrap().wait().unwrap_err();
        assert!(matches!(error, Error::Truncated { sent: 3, capacity: 2, .. }), "{error}");
        assert_eq!(buffer.as_deref(), Some(&[1, 2][..]));
        sending.wait().unwrap();
    });
}

#[test]
fn requests_are_futures() {
    everywhere(3, |_, world| {
        let (rank, size) = (world.rank(), world.size());
        for len in [1, 5000] {
            let exchanged =
                world.block_on(join_all((0..size).flat_map(|peer| (0..9).map(move |tag| (peer, tag))).map(
                    async |(peer, tag)| -> Result<Vec<u32>, Error> {
                        let receiving = world.irecv_owned(vec![0; len], peer, tag)?;
                        let sending =
                            world.isend_owned(vec![rank * 10 + tag.cast_unsigned(); len], peer, tag)?;
                        let (got, status) = receiving.await?;
                        assert_eq!((status.source(), status.tag()), (peer, tag));
                        sending.await?;
                        Ok(got)
                    },
                )));
            let mut wanted = (0..size).flat_map(|peer| (0..9).map(move |tag| vec![peer * 10 + tag; len]));
            for got in exchanged.unwrap() {
                assert_eq!(Some(got.unwrap()), wanted.next());
            }
        }
        // An operation completes even if its future is dropped.
        let other = (rank + 1) % size;
        let is_pending = world.block_on(async {
            let mut receiving = pin!(world.irecv_owned(vec![0u8; 4], Source::Any, 77).unwrap());
            poll_fn(|cx| Poll::Ready(receiving.as_mut().poll(cx).is_pending())).await
        });
        assert!(is_pending.unwrap());
        world.barrier().unwrap();
        world.send(&[1u8; 4], other, 77).unwrap();
        world.barrier().unwrap();
    });
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn another_executor_polls_until_a_request_is_ready() {
    job(Config::new(2), Settings::default(), |_, world| {
        let other = 1 - world.rank();
        let mut receiving = pin!(world.irecv_owned(vec![0u64; 10_000], other, 0).unwrap());
        let sending = world.isend_owned(vec![4u64; 10_000], other, 0).unwrap();
        let woken = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut polls = 0;
        let (got, _) = loop {
            polls += 1;
            match receiving.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(ended) => break ended.unwrap(),
                Poll::Pending => {
                    assert_eq!(woken.0.load(Ordering::Relaxed), polls, "each poll wakes its task")
                }
            }
        };
        assert_eq!(got, [4; 10_000]);
        sending.wait().unwrap();
    });
}

#[test]
fn threads_block_on_futures_of_one_environment_and_wake_each_other() {
    let _watchdog = Watchdog::new("futures in threads".to_owned(), Duration::from_secs(120));
    let (_network, fabrics) = network(Config::new(1));
    for fabric in fabrics {
        let environment = Environment::<_, Threads>::on_fabric(fabric, &Settings::default()).unwrap();
        let world = environment.world();
        let handed_over = Mutex::new((None::<u64>, None::<Waker>));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let (got, _) = world.block_on(world.irecv_owned(vec![0u64], 0, 1).unwrap()).unwrap().unwrap();
                let mut shared = handed_over.lock().unwrap();
                shared.0 = Some(got[0]);
                if let Some(waker) = shared.1.take() {
                    waker.wake();
                }
            });
            threads.spawn(|| {
                let got = world.block_on(async {
                    world.isend_owned(vec![41u64], 0, 1)?.await?;
                    Ok::<_, Error>(
                        poll_fn(|cx| {
                            let mut shared = handed_over.lock().unwrap();
                            shared.1 = Some(cx.waker().clone());
                            shared.0.map_or(Poll::Pending, Poll::Ready)
                        })
                        .await,
                    )
                });
                assert_eq!(got.unwrap().unwrap(), 41);
            });
        });
        drop(world);
        environment.finalize().unwrap();
    }
}
