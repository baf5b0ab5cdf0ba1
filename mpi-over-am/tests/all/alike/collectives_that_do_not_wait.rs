//! Non-blocking, persistent, neighbourhood and inter-group collectives, and their errors.

use super::common::{
    Communicator, Environment, combined, job, job_with_board, jobs_on_hosts, numbers, numbers_of_tasks,
};
use am_double::{Config, Reach};
use mpi_over_am::{
    BoardKind, Error, ErrorClass, Neighbours, PROC_NULL, Placement, ROOT, Selection, Settings, collective, op,
};

fn with_each_number_of_tasks(task: impl Fn(&Environment, &Communicator) + Sync) {
    let long = Selection {
        broadcast_tree_bytes_max: 0,
        broadcast_piece_bytes: 1000,
        reduce_tree_bytes_max: 0,
        allreduce_doubling_bytes_max: 0,
        allgather_linear_tasks_max: 0,
        ..Selection::default()
    };
    for tasks in numbers_of_tasks() {
        job(Config::new(tasks), Settings::default(), &task);
        let settings = Settings { collectives: long, eager_limit_bytes: 500, ..Settings::default() };
        job(Config::hostile(tasks, u64::from(tasks)), settings, &task);
    }
    for board in [BoardKind::Counter, BoardKind::Lines] {
        let collectives = Selection { board, board_tasks_max: Some(16), ..Selection::default() };
        let settings = Settings { collectives, ..Settings::default() };
        // Gathers on lines need eight tasks.
        for config in [Config::hostile(5, 6), Config::hostile(9, 7)] {
            job_with_board(
                Config { reach: Reach::Direct, atomics: Reach::Direct, ..config },
                settings,
                &task,
            );
        }
    }
    let announced = Settings { early_arrival_bytes_max: 0, ..Settings::default() };
    job(Config::hostile(5, 78), announced, &task);
    jobs_on_hosts().for_each(|config| job(config, Settings::default(), &task));
}

fn element(rank: u32, index: usize) -> u64 {
    u64::from(rank + 1) * 1_000_003 + index as u64 * 7
}

fn vector(rank: u32, count: usize) -> Vec<u64> {
    numbers(element(rank, 0), 7, count)
}

fn concatenated(ranks: impl IntoIterator<Item = u32>, count: usize) -> Vec<u64> {
    ranks.into_iter().map(|rank| vector(rank, count)).collect::<Vec<_>>().concat()
}

fn sum(ranks: std::ops::Range<u32>, count: usize) -> Vec<u64> {
    combined(ranks.map(|rank| vector(rank, count)), |a, b| a + b)
}

#[test]
fn many_kinds_are_under_way_at_once_and_end_in_any_order() {
    with_each_number_of_tasks(|_, world| {
        let (rank, size) = (world.rank(), world.size());
        for count in [0, 1, 40, 2000] {
            let own = vector(rank, count);
            let root = size / 2;
            let mut broadcast = if rank == root { vector(root, count) } else { vec![0; count] };
            let mut gathered = vec![0; if rank == root { count * size as usize } else { 0 }];
            let all = concatenated(0..size, count);
            let mut scattered = vec![0; count];
            let mut allgathered = vec![0; all.len()];
            let out = concatenated((0..size).map(|to| 10 * rank + to), count);
            let mut exchanged = vec![0; all.len()];
            let mut reduced = vec![0; if rank == root { count } else { 0 }];
            let mut allreduced = vec![0; count];
            let (mut scanned, mut before) = (vec![0; count], vec![0; count]);
            let mut block = vec![0; count];
            let placed: Vec<usize> = (0..size as usize).map(|other| other * count).collect();
            let counts = vec![count; size as usize];
            let placement = Placement { counts: &counts, displacements: &placed };
            let (mut gathered_v, mut exchanged_v) = (vec![0; all.len()], vec![0; all.len()]);
            world
                .scope(|s| {
                    let mut requests = vec![
                        collective::barrier().start(s)?,
                        collective::broadcast(&mut broadcast, root).start(s)?,
                        collective::gather(&own, &mut gathered, root).start(s)?,
                        collective::scatter(&all, &mut scattered, root).start(s)?,
                        collective::allgather(&own, &mut allgathered).start(s)?,
                        collective::alltoall(&out, &mut exchanged).start(s)?,
                        collective::reduce(&own, &mut reduced, op::Sum, root).start(s)?,
                        collective::allreduce(&own, &mut allreduced, op::Sum).start(s)?,
                        collective::scan(&own, &mut scanned, op::Sum).start(s)?,
                        collective::exscan(&own, &mut before, op::Sum).start(s)?,
                        collective::reduce_scatter_block(&all, &mut block, op::Max).start(s)?,
                        collective::gatherv(&own, (&mut gathered_v, placement), root).start(s)?,
                        collective::alltoallv((&out, placement), (&mut exchanged_v, placement)).start(s)?,
                    ];
                    // Blocking calls between the non-blocking ones.
                    world.barrier()?;
                    let mut in_between = [u64::from(rank)];
                    world.allreduce_in_place(&mut in_between, op::Max)?;
                    assert_eq!(in_between, [u64::from(size) - 1]);
                    // Tasks of even ranks wait in the reverse order.
                    if rank % 2 == 0 {
                        requests.reverse();
                    }
                    s.wait_all(requests).map(|_| ())
                })
                .unwrap();
            assert_eq!(broadcast, vector(root, count));
            assert!(rank != root || gathered == all && gathered_v == all);
            assert_eq!(scattered, own);
            assert_eq!(allgathered, all);
            let to_here = concatenated((0..size).map(|from| 10 * from + rank), count);
            assert_eq!(exchanged, to_here);
            assert_eq!(exchanged_v, to_here);
            assert!(rank != root || reduced == sum(0..size, count));
            assert_eq!(allreduced, sum(0..size, count));
            assert_eq!(scanned, sum(0..rank + 1, count));
            assert_eq!(before, if rank == 0 { vec![0; count] } else { sum(0..rank, count) });
            assert_eq!(block, own);
        }
    });
}

#[test]
fn collectives_go_on_while_their_task_waits_for_something_else() {
    // Task 0 waits in a send whose receiver first waits for the barrier.
    for early_arrival_bytes_max in [0, 1 << 20] {
        let settings = Settings { early_arrival_bytes_max, eager_limit_bytes: 100, ..Settings::default() };
        for tasks in 2..6 {
            job(Config::new(tasks), settings, |_, world| {
                let (out, mut got) = (vec![7u8; 5000], vec![0u8; 5000]);
                let mut sums = [0u64; 3];
                world
                    .scope(|s| {
                        let barrier = collective::barrier().start(s)?;
                        let reduction = collective::allreduce(&[1, 2, 3], &mut sums, op::Sum).start(s)?;
                        match world.rank() {
                            0 => {
                                world.send(&out, 1, 0)?;
                                s.wait_all([barrier, reduction])?;
                            }
                            1 => {
                                s.wait_all([barrier, reduction])?;
                                world.recv(&mut got, 0, 0)?;
                            }
                            _ => {
                                s.wait_all([barrier, reduction])?;
                            }
                        }
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(sums, [1, 2, 3].map(|value| value * u64::from(world.size())));
                assert!(world.rank() != 1 || got == out);
            });
        }
    }
}

/// A long vector is reduced in pieces that are sent without an announcement, by blocking and by non-blocking calls.
#[test]
fn a_long_reduction_announces_no_message() {
    for tasks in 2..5 {
        // These values are like those over shared memory: a piece fits into a few packets, and there are credits for several pieces.
        let config = Config { packet_bytes_max: 32 << 10, credits: 64, ..Config::new(tasks) };
        job(config, Settings::default(), |environment, world| {
            let (rank, size) = (world.rank(), world.size());
            let (own, expected) = (vector(rank, 40_000), sum(0..size, 40_000));
            for root in [None, Some(0), Some(size - 1)] {
                let has_result = root.is_none_or(|root| root == rank);
                let mut waited = vec![0; if has_result { own.len() } else { 0 }];
                let mut started = waited.clone();
                let reduction = match root {
                    None => world.allreduce(&own, &mut waited, op::Sum),
                    Some(root) => world.reduce(&own, &mut waited, op::Sum, root),
                };
                reduction.unwrap();
                world
                    .scope(|s| {
                        let reduction = match root {
                            None => collective::allreduce(&own, &mut started, op::Sum).start(s)?,
                            Some(root) => collective::reduce(&own, &mut started, op::Sum, root).start(s)?,
                        };
                        s.wait(reduction)
                    })
                    .unwrap();
                assert!(!has_result || waited == expected && started == expected);
            }
            assert_eq!(environment.counts().unwrap().long_messages_received, 0);
        });
    }
}

/// Blocking, non-blocking and persistent calls send messages above the eager limit in pieces.
#[test]
fn collectives_send_messages_in_pieces() {
    for tasks in 2..5 {
        let config = Config { packet_bytes_max: 32 << 10, credits: 64, ..Config::new(tasks) };
        job(config, Settings::default(), |environment, world| {
            let (rank, size, len) = (world.rank(), world.size(), 5000);
            let all = vector(rank, len * size as usize);
            let parts = (0..size)
                .flat_map(|from| vector(from, len * size as usize)[len * rank as usize..][..len].to_vec());
            let (expected, zeros) = (parts.collect::<Vec<_>>(), vec![0; all.len()]);
            let (mut waited, mut started) = (zeros.clone(), zeros);
            world.alltoall(&all, &mut waited).unwrap();
            world.scope(|s| s.wait(collective::alltoall(&all, &mut started).start(s)?)).unwrap();
            let mut kept = collective::alltoall_in_place(all.clone()).keep(world).unwrap();
            kept.start().unwrap();
            kept.wait().unwrap();
            assert!(waited == expected && started == expected && *kept.buffer().unwrap() == expected);
            assert_eq!(environment.counts().unwrap().long_messages_received, 0);
        });
    }
}

#[test]
fn persistent_collectives_are_started_again_and_again_in_any_order() {
    with_each_number_of_tasks(|_, world| {
        let (rank, size) = (world.rank(), world.size());
        let count = 100;
        let mut barrier = collective::barrier().keep(world).unwrap();
        let mut reduction = collective::allreduce_in_place(vec![0u64; count], op::Sum).keep(world).unwrap();
        let mut broadcast = collective::broadcast(vec![0u64; count], 0).keep(world).unwrap();
        let mut gather =
            collective::allgather_in_place(vec![0u64; count * size as usize]).keep(world).unwrap();
        let mut exchange =
            collective::alltoall_in_place(vec![0u64; count * size as usize]).keep(world).unwrap();
        let mut scan = collective::scan_in_place(vec![0u64; count], op::Sum).keep(world).unwrap();
        for round in 0..5 {
            let own = vector(rank + round, count);
            reduction.buffer().unwrap().copy_from_slice(&own);
            scan.buffer().unwrap().copy_from_slice(&own);
            if rank == 0 {
                broadcast.buffer().unwrap().copy_from_slice(&own);
            }
            gather.buffer().unwrap()[rank as usize * count..][..count].copy_from_slice(&own);
            let out = concatenated((0..size).map(|to| 10 * rank + to + round), count);
            exchange.buffer().unwrap().copy_from_slice(&out);
            // The order differs between tasks.
            if rank % 2 == 0 {
                reduction.start().unwrap();
                broadcast.start().unwrap();
                barrier.start().unwrap();
                gather.start().unwrap();
            } else {
                gather.start().unwrap();
                barrier.start().unwrap();
                broadcast.start().unwrap();
                reduction.start().unwrap();
            }
            scan.start().unwrap();
            exchange.start().unwrap();
            assert!(matches!(scan.start(), Err(Error::NotStartable { .. })));
            for request in [&mut reduction, &mut broadcast, &mut gather, &mut exchange, &mut scan] {
                request.wait().unwrap();
            }
            barrier.wait().unwrap();
            assert_eq!(reduction.buffer().unwrap(), sum(round..size + round, count));
            assert_eq!(scan.buffer().unwrap(), sum(round..rank + round + 1, count));
            assert_eq!(broadcast.buffer().unwrap(), vector(round, count));
            assert_eq!(gather.buffer().unwrap(), concatenated(round..size + round, count));
            let expected = concatenated((0..size).map(|from| 10 * from + rank + round), count);
            assert_eq!(exchange.buffer().unwrap(), expected);
        }
    });
}

#[test]
fn neighbours_of_a_ring_and_of_a_grid() {
    with_each_number_of_tasks(|_, world| {
        let (rank, size) = (world.rank(), world.size());
        let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
        let ring =
            Neighbours { sources: vec![Some(left), None], destinations: vec![Some(right)], is_grid: false };
        let own = vector(rank, 20);
        let mut got = vec![1; 40];
        world.neighbor_allgather(&own, &mut got, &ring).unwrap();
        assert_eq!(got, [vector(left, 20), vec![1; 20]].concat());
        // A periodic line: data that are sent to the left arrive from the right, even if both neighbours are the same task.
        let both = vec![Some(left), Some(right)];
        let line = Neighbours { sources: both.clone(), destinations: both, is_grid: true };
        let out = [vector(10 * rank, 20), vector(10 * rank + 1, 20)].concat();
        world.neighbor_alltoall(&out, &mut got, &line).unwrap();
        assert_eq!(got, [vector(10 * left + 1, 20), vector(10 * right, 20)].concat());
        let unknown = Neighbours { sources: vec![Some(size)], ..Neighbours::default() };
        let error = world.neighbor_allgather(&own, &mut got[..20], &unknown).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Rank);
    });
}

#[test]
fn two_groups_exchange_what_they_have() {
    for tasks in 2..10u32 {
        job(Config::hostile(tasks, u64::from(tasks)), Settings::default(), |_, world| {
            // The first third of the tasks is on one side.
            let first = tasks.div_ceil(3);
            let is_first = world.rank() < first;
            let side = world.split(Some(u32::from(!is_first).cast_signed()), 0).unwrap().unwrap();
            let other = if is_first { first } else { 0 };
            let inter = side.create_inter_with(0, Some(world), other, 5).unwrap();
            let (rank, size, remote) = (inter.rank(), inter.size(), inter.remote_size().unwrap());
            // Ranks of the world, which distinguish the sides.
            let (mine, theirs) = if is_first { (0..first, first..tasks) } else { (first..tasks, 0..first) };
            let own = vector(mine.start + rank, 30);
            inter.barrier().unwrap();

            let root = if is_first && rank == 0 { ROOT } else { PROC_NULL };
            let root = if is_first { root } else { 0 };
            let mut data = if root == ROOT { own.clone() } else { vec![3; 30] };
            inter.broadcast(&mut data, root).unwrap();
            assert_eq!(
                data,
                if is_first { if root == ROOT { own.clone() } else { vec![3; 30] } } else { vector(0, 30) }
            );

            let mut all = vec![0; 30 * remote as usize];
            inter.allgather(&own, &mut all).unwrap();
            assert_eq!(all, concatenated(theirs.clone(), 30));
            let out = concatenated((0..remote).map(|to| 100 * (mine.start + rank) + to), 30);
            inter.alltoall(&out, &mut all).unwrap();
            assert_eq!(all, concatenated(theirs.clone().map(|from| 100 * from + rank), 30));

            let mut sums = vec![0; 30];
            inter.allreduce(&own, &mut sums, op::Sum).unwrap();
            assert_eq!(sums, sum(theirs.clone(), 30));
            let mut sums = vec![0; 30];
            inter.reduce(&own, &mut sums, op::Sum, root).unwrap();
            assert_eq!(sums, if root == ROOT { sum(theirs.clone(), 30) } else { vec![0; 30] });

            let mut gathered = vec![0; if root == ROOT { all.len() } else { 0 }];
            inter.gather(&own, &mut gathered, root).unwrap();
            assert!(root != ROOT || gathered == concatenated(theirs.clone(), 30));
            let mut part = vec![0; 30];
            let parts = concatenated(theirs.clone(), 30);
            inter.scatter(&parts, &mut part, root).unwrap();
            assert_eq!(part, if is_first { vec![0; 30] } else { own.clone() });

            // Both sides have vectors of the same length, and each side distributes the vector of the other side among its tasks.
            let total = (size * remote) as usize * 5;
            let mut block = vec![0; remote as usize * 5];
            inter.reduce_scatter_block(&vector(mine.start + rank, total), &mut block, op::Sum).unwrap();
            let at = rank as usize * block.len();
            assert_eq!(block, sum(theirs.clone(), total)[at..at + block.len()]);

            let mut later = vec![0; 30];
            inter
                .scope(|s| {
                    let barrier = collective::barrier().start(s)?;
                    let reduction = collective::allreduce(&own, &mut later, op::Sum).start(s)?;
                    s.wait_all([reduction, barrier])
                })
                .unwrap();
            assert_eq!(later, sum(theirs, 30));
            let error = inter.scan(&own, &mut later, op::Sum).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Communicator);
        });
    }
}

#[test]
fn what_is_wrong_is_named_and_waits_for_nobody() {
    job(Config::new(1), Settings::default(), |_, world| {
        let class = |result: mpi_over_am::Result<()>| result.unwrap_err().class();
        let (own, mut into) = ([1u32, 2, 3], [0u32; 3]);
        assert_eq!(class(world.broadcast(&mut into, 1)), ErrorClass::Root);
        assert_eq!(class(world.gather(&own, &mut into, 7)), ErrorClass::Root);
        assert_eq!(class(world.scatter(&own, &mut into, PROC_NULL)), ErrorClass::Root);
        assert_eq!(class(world.reduce(&own, &mut into, op::Sum, 1)), ErrorClass::Root);
        assert_eq!(class(world.gather(&own, &mut into[..2], 0)), ErrorClass::Count);
        assert_eq!(class(world.scatter(&own, &mut into[..2], 0)), ErrorClass::Count);
        assert_eq!(class(world.allgather(&own, &mut into[..1])), ErrorClass::Count);
        assert_eq!(class(world.alltoall(&own, &mut into[..2])), ErrorClass::Count);
        assert_eq!(class(world.allreduce(&own, &mut into[..2], op::Sum)), ErrorClass::Count);
        assert_eq!(class(world.scan(&own, &mut into[..2], op::Sum)), ErrorClass::Count);
        assert_eq!(class(world.exscan(&own, &mut into[..2], op::Sum)), ErrorClass::Count);
        assert_eq!(class(world.reduce_scatter_block(&own, &mut into[..2], op::Sum)), ErrorClass::Count);
        assert_eq!(class(world.reduce_scatter(&own, &mut into, &[3, 1], op::Sum)), ErrorClass::Count);
        let outside = Placement { counts: &[3], displacements: &[1] };
        assert_eq!(class(world.gatherv(&own, (&mut into, outside), 0)), ErrorClass::Count);
        let unequal = Placement { counts: &[3], displacements: &[] };
        assert_eq!(class(world.allgatherv(&own, (&mut into, unequal))), ErrorClass::Count);
        let error = world.scope(|s| collective::broadcast(&mut into, 3).start(s).map(|_| ())).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Root);
        world.barrier().unwrap();
    });
    // A task whose arguments are wrong stays in step with the other tasks.
    job(Config::new(2), Settings::default(), |_, world| {
        let (mut wrong, mut sums) = ([0u32; 2], [0u32; 1]);
        world
            .scope(|s| {
                if world.rank() == 0 {
                    assert!(collective::allreduce(&[1, 2, 3], &mut wrong, op::Sum).start(s).is_err());
                } else {
                    assert!(collective::broadcast(&mut wrong, 9).start(s).is_err());
                }
                let reduction = collective::allreduce(&[1], &mut sums, op::Sum).start(s)?;
                s.wait(reduction)
            })
            .unwrap();
        assert_eq!(sums, [2]);
    });
}

#[test]
fn a_scope_that_fails_gives_its_collectives_up() {
    job(Config::new(3), Settings::default(), |_, world| {
        let mut data = vec![0u8; 10_000];
        if world.rank() != 0 {
            // The root never calls the collective.
            let failed: mpi_over_am::Result<()> = world.scope(|s| {
                let _under_way = collective::broadcast(&mut data, 0).start(s)?;
                let _another = collective::barrier().start(s)?;
                Err(Error::Cancelled)
            });
            assert!(matches!(failed, Err(Error::Cancelled)));
        }
        data.fill(1);
    });
}
