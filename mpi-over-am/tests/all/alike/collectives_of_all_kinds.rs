//! Every collective in every form against a serial reference, for each of [`numbers_of_tasks`].

use super::common::{
    Communicator, Environment, combined, job, job_with_board, jobs_on_hosts, numbers, numbers_of_tasks,
};
use am_double::{Config, Reach};
use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::op::{self, Operation};
use mpi_over_am::{BoardKind, Check, Error, LayoutPart, Neighbours, Placement, Selection, Settings};

/// Numbers of elements around every threshold of the algorithms.
const COUNTS: [usize; 5] = [0, 1, 7, 300, 5000];

/// Runs `task` with each number of tasks, and with settings that select the algorithms for short data, for long data, and on boards with
/// lines. Also runs it with small limits for messages, with staged memory access, and on several hosts.
fn with_each_number_of_tasks(task: impl Fn(&Environment, &Communicator) + Sync) {
    let long = Selection {
        check: Check::On,
        rounds_tasks_max: Some(0),
        board: BoardKind::Auto,
        board_tasks_max: Some(0),
        broadcast_tree_bytes_max: 0,
        broadcast_piece_bytes: 1000,
        reduce_tree_bytes_max: 0,
        reduce_piece_bytes: 1000,
        allreduce_doubling_bytes_max: 0,
        allgather_linear_tasks_max: 0,
        allgather_rounds_bytes_max: u64::MAX,
        alltoall_linear_tasks_max: 0,
        alltoall_rounds_bytes_max: u64::MAX,
    };
    for tasks in numbers_of_tasks() {
        job(Config::new(tasks), Settings::default(), &task);
        let settings = Settings { collectives: long, ..Settings::default() };
        job(Config::hostile(tasks, u64::from(tasks)), settings, &task);
        let lines = Selection { board: BoardKind::Lines, board_tasks_max: Some(64), ..Selection::default() };
        let settings = Settings { collectives: lines, ..Settings::default() };
        if tasks < 3 {
            job(Config::new(tasks), settings, &task);
        } else {
            job_with_board(Config::new(tasks), settings, &task);
        }
    }
    job(Config { reach: Reach::Staged, ..Config::hostile(8, 3) }, Settings::default(), &task);
    let mean = Settings { eager_limit_bytes: 100, early_arrival_bytes_max: 3000, ..Settings::default() };
    job(Config::hostile(5, 77), mean, &task);
    // Long data in many pieces, some of which find no credit.
    for tasks in [2, 3] {
        let pieces =
            Settings { eager_limit_bytes: 1024, early_arrival_bytes_max: 8000, ..Settings::default() };
        job(Config::hostile(tasks, 5), pieces, &task);
    }
    for config in jobs_on_hosts() {
        job(config, Settings::default(), &task);
        job(config, Settings { collectives: long, ..Settings::default() }, &task);
    }
}

fn value(rank: u32, index: usize) -> u64 {
    u64::from(rank + 1) * 1_000_003 + index as u64 * 7 + 1
}

fn vector(rank: u32, count: usize) -> Vec<u64> {
    numbers(value(rank, 0), 7, count)
}

/// The combination of the vectors of these ranks.
fn reduced(ranks: std::ops::Range<u32>, count: usize, combine: fn(u64, u64) -> u64) -> Vec<u64> {
    combined(ranks.map(|rank| vector(rank, count)), combine)
}

fn concatenated(vectors: impl Iterator<Item = Vec<u64>>) -> Vec<u64> {
    vectors.collect::<Vec<_>>().concat()
}

fn rank_of(index: usize) -> u32 {
    u32::try_from(index).expect("few ranks")
}

fn sum(a: u64, b: u64) -> u64 {
    a.wrapping_add(b)
}

/// An associative operation that does not commute: composition of affine maps modulo 2^32, packed into a word.
fn after(first: u64, second: u64) -> u64 {
    let (a, b) = (first >> 32, first & 0xffff_ffff);
    let (c, d) = (second >> 32, second & 0xffff_ffff);
    let low = |value: u64| value & 0xffff_ffff;
    low(a * c) << 32 | low(low(c * b) + d)
}

fn ordered() -> impl Operation<u64> + Send + Sync {
    op::from_ordered_fn(|a: &u64, b: &u64| after(*a, *b))
}

fn plain() -> impl Operation<u64> + Send + Sync {
    op::from_fn(|a: &u64, b: &u64| sum(*a, *b))
}

/// Parts of different lengths, with gaps between them: count and displacement of each rank, and the length of all.
fn uneven(size: u32, seed: usize) -> (Vec<usize>, Vec<usize>, usize) {
    let counts: Vec<usize> = (0..size as usize).map(|rank| (rank * 5 + seed) % 9 * 20).collect();
    let mut end = 0;
    let displacements = counts
        .iter()
        .map(|count| {
            let at = end + 3;
            end = at + count;
            at
        })
        .collect();
    (counts, displacements, end + 2)
}

#[test]
fn gather_and_scatter() {
    with_each_number_of_tasks(|_, world| {
        let (rank, size) = (world.rank(), world.size());
        for count in COUNTS {
            let own = vector(rank, count);
            let all = concatenated((0..size).map(|rank| vector(rank, count)));
            for root in 0..size {
                let mut got = vec![0; if rank == root { all.len() } else { 0 }];
                world.gather(&own, &mut got, root).unwrap();
                assert!(rank != root || got == all);
                assert_eq!(world.gather_vec(&own, root).unwrap(), (rank == root).then(|| all.clone()));
                let mut got = vec![0; count];
                world.scatter(if rank == root { &all } else { &[] }, &mut got, root).unwrap();
                assert_eq!(got, own);
            }
        }
    });
}

#[test]
fn gatherv_and_scatterv() {
    with_each_number_of_tasks(|_, world| {
        let (rank, size) = (world.rank(), world.size());
        let (counts, displacements, len) = uneven(size, 4);
        let placement = Placement { counts: &counts, displacements: &displacements };
        let mut all = vec![u64::MAX; len];
        for other in 0..size {
            let (at, count) = (displacements[other as usize], counts[other as usize]);
            all[at..at + count].copy_from_slice(&vector(other, count));
        }
        let own = vector(rank, counts[rank as usize]);
        for root in 0..size {
            let mut got = vec![u64::MAX; len];
            world.gatherv(&own, (&mut got, placement), root).unwrap();
            assert!(rank != root || got == all);
            let mut got = vec![0; own.len()];
            world.scatterv((&all, placement), &mut got, root).unwrap();
            assert_eq!(got, own);
        }
        let mut got = vec![u64::MAX; len];
        world.allgatherv(&own, (&mut got, placement)).unwrap();
        assert_eq!(got, all);
    });
}

#[test]
fn allgather_and_alltoall() {
    with_each_number_of_tasks(|_, world| {
        let (rank, size) = (world.rank(), world.size());
        for count in COUNTS {
            let all = concatenated((0..size).map(|rank| vector(rank, count)));
            let mut got = vec![0; all.len()];
            world.allgather(&vector(rank, count), &mut got).unwrap();
            assert_eq!(got, all);
            let mut in_place = vec![0; all.len()];
            in_place[rank as usize * count..][..count].copy_from_slice(&vector(rank, count));
            world.allgather_in_place(&mut in_place).unwrap();
            assert_eq!(in_place, all);

            // The block from a to b contains the vector of rank 10 a + b.
            let out = concatenated((0..size).map(|to| vector(10 * rank + to, count)));
            let expected = concatenated((0..size).map(|from| vector(10 * from + rank, count)));
            world.alltoall(&out, &mut got).unwrap();
            assert_eq!(got, expected);
            let mut in_place = out;
            world.alltoall_in_place(&mut in_place).unwrap();
            assert_eq!(in_place, expected);
        }
    });
}

/// In rounds, each of eight tasks sends three messages to three tasks: so a first alltoall of many tasks makes few connections.
#[test]
fn a_short_alltoall_of_many_tasks_sends_few_messages() {
    for (alltoall_rounds_bytes_max, messages) in [(64 << 10, 3), (0, 7)] {
        let collectives = Selection { alltoall_rounds_bytes_max, ..Selection::default() };
        job(Config::new(8), Settings { collectives, ..Settings::default() }, |environment, world| {
            let sent = || environment.counts().expect("no call is under way").packets_sent;
            let (out, mut got, before) = (vec![world.rank(); 8], vec![0; 8], sent());
            world.alltoall(&out, &mut got).expect("all tasks are there");
            assert!(got.into_iter().eq(0..8));
            let each: Vec<u64> = sent().iter().zip(&before).map(|(now, before)| now - before).collect();
            assert!(each.iter().all(|&sent| sent <= 1), "{each:?}");
            assert_eq!(each.iter().sum::<u64>(), messages, "{each:?}");
        });
    }
}

#[test]
fn alltoallv() {
    with_each_number_of_tasks(|_, world| {
        let (rank, size) = (world.rank(), world.size());
        // The number of elements from a to b depends on a + 2 b; each side has its own layout.
        let count = |from: u32, to: u32| ((from + 2 * to) % 7) as usize * 30;
        let place = |counts: &[usize]| -> Vec<usize> {
            let ends = counts.iter().scan(1, |end, count| Some(std::mem::replace(end, *end + count + 1)));
            ends.collect()
        };
        let send_counts: Vec<usize> = (0..size).map(|to| count(rank, to)).collect();
        let recv_counts: Vec<usize> = (0..size).map(|from| count(from, rank)).collect();
        let (send_at, recv_at) = (place(&send_counts), place(&recv_counts));
        let mut out = vec![0; 3000];
        for to in 0..size as usize {
            let block = vector(10 * rank + rank_of(to), send_counts[to]);
            out[send_at[to]..][..block.len()].copy_from_slice(&block);
        }
        let mut expected = vec![u64::MAX; 3000];
        for from in 0..size as usize {
            let block = vector(10 * rank_of(from) + rank, recv_counts[from]);
            expected[recv_at[from]..][..block.len()].copy_from_slice(&block);
        }
        let mut got = vec![u64::MAX; 3000];
        let from = Placement { counts: &send_counts, displacements: &send_at };
        let to = Placement { counts: &recv_counts, displacements: &recv_at };
        world.alltoallv((&out, from), (&mut got, to)).unwrap();
        assert_eq!(got, expected);
    });
}

#[test]
fn reductions() {
    with_each_number_of_tasks(|_, world| {
        let (rank, size) = (world.rank(), world.size());
        for count in COUNTS {
            let own = vector(rank, count);
            let (sums, in_order) = (reduced(0..size, count, sum), reduced(0..size, count, after));
            for root in 0..size {
                let mut got = vec![0; if rank == root { count } else { 0 }];
                world.reduce(&own, &mut got, plain(), root).unwrap();
                assert!(rank != root || got == sums);
                world.reduce(&own, &mut got, ordered(), root).unwrap();
                assert!(rank != root || got == in_order, "{count} to {root}");
                let mut in_place = own.clone();
                world.reduce_in_place(&mut in_place, ordered(), root).unwrap();
                assert_eq!(in_place, if rank == root { &in_order } else { &own }[..]);
            }
            let mut got = vec![0; count];
            world.allreduce(&own, &mut got, ordered()).unwrap();
            assert_eq!(got, in_order);
            world.allreduce(&own, &mut got, plain()).unwrap();
            assert_eq!(got, sums);
            let mut in_place = own.clone();
            world.allreduce_in_place(&mut in_place, ordered()).unwrap();
            assert_eq!(in_place, in_order);
        }
    });
}

#[test]
fn scans() {
    with_each_number_of_tasks(|_, world| {
        let rank = world.rank();
        for count in COUNTS {
            let own = vector(rank, count);
            let mut got = vec![0; count];
            world.scan(&own, &mut got, ordered()).unwrap();
            assert_eq!(got, reduced(0..rank + 1, count, after));
            let mut in_place = own.clone();
            world.scan_in_place(&mut in_place, plain()).unwrap();
            assert_eq!(in_place, reduced(0..rank + 1, count, sum));
            got.fill(5);
            world.exscan(&own, &mut got, ordered()).unwrap();
            let expected = if rank == 0 { vec![5; count] } else { reduced(0..rank, count, after) };
            assert_eq!(got, expected);
        }
    });
}

#[test]
fn reduce_scatters() {
    with_each_number_of_tasks(|_, world| {
        let (rank, size) = (world.rank(), world.size());
        for count in COUNTS {
            let own = vector(rank, count * size as usize);
            let all = reduced(0..size, own.len(), after);
            let mut got = vec![0; count];
            world.reduce_scatter_block(&own, &mut got, ordered()).unwrap();
            assert_eq!(got, all[rank as usize * count..][..count]);
        }
        let (counts, _, _) = uneven(size, 2);
        let own = vector(rank, counts.iter().sum());
        let mut got = vec![0; counts[rank as usize]];
        world.reduce_scatter(&own, &mut got, &counts, plain()).unwrap();
        let first: usize = counts[..rank as usize].iter().sum();
        assert_eq!(got, reduced(0..size, own.len(), sum)[first..][..got.len()]);
    });
}

#[test]
fn alltoallw() {
    with_each_number_of_tasks(|_, world| {
        let (rank, size) = (world.rank(), world.size());
        let word = Datatype::predefined(Predefined::Uint64);
        // Task a sends a + b + 1 words to task b, or 900 times as many. Words to tasks of odd ranks are every second word of the sender's
        // memory, and words from tasks of even ranks are stored in every second word. All other words are contiguous.
        let spread = Datatype::resized(&word, 0, 16).unwrap();
        for times in [1, 900] {
            let count = |other: u32| (rank + other + 1) as usize * times;
            let block = 40 * times;
            let out = vector(rank, block * size as usize);
            let typed = |odd: bool| if odd { &spread } else { &word };
            let parts = |odd: bool| -> Vec<LayoutPart<'_>> {
                let part = |other: u32| LayoutPart {
                    displacement_bytes: other as usize * block * 8,
                    count: count(other) as u64,
                    datatype: typed((other % 2 == 1) == odd),
                };
                (0..size).map(part).collect()
            };
            let (from, to) = (parts(true), parts(false));
            let mut got = vec![u64::MAX; out.len()];
            world.alltoallw((&out, &from), (&mut got, &to)).unwrap();
            let mut expected = vec![u64::MAX; out.len()];
            for other in 0..size {
                for index in 0..count(other) {
                    let taken = if rank % 2 == 1 { 2 * index } else { index };
                    let placed = if other % 2 == 0 { 2 * index } else { index };
                    expected[other as usize * block + placed] = value(other, rank as usize * block + taken);
                }
            }
            assert!(got == expected, "{times} times");
        }
    });
}

#[test]
fn a_part_beyond_its_memory_is_refused_with_its_position() {
    job(Config::new(1), Settings::default(), |_, world| {
        let byte = Datatype::predefined(Predefined::Byte);
        let part = |displacement_bytes| [LayoutPart { displacement_bytes, count: 8, datatype: &byte }];
        for displacement in [9, 12, usize::MAX] {
            let error = world.alltoallw((&[1_u8; 16], &part(displacement)), (&mut [0_u8; 16], &part(0)));
            let from = i64::try_from(displacement).unwrap_or(i64::MAX);
            let to = from.saturating_add(8);
            match error.unwrap_err() {
                Error::Outside { count: 8, from: first, to: end, len: 16 } => {
                    assert_eq!((first, end), (from, to))
                }
                other => panic!("{other}"),
            }
        }
    });
}

#[test]
fn neighbours_with_parts_of_any_length_place_and_type() {
    with_each_number_of_tasks(|_, world| {
        let (rank, size) = (world.rank(), world.size());
        // Each task sends to the next task and to the task after that; these may be one task, or the sender itself.
        let (next, after) = ((rank + 1) % size, (rank + 2) % size);
        let (last, before) = ((rank + size - 1) % size, (rank + 2 * size - 2) % size);
        let neighbours = Neighbours {
            sources: vec![Some(last), Some(before), None],
            destinations: vec![Some(next), Some(after), None],
            is_grid: false,
        };
        let len = |from: u32| 3 + from as usize * 20;
        let own = vector(rank, len(rank));
        let (counts, at) = ([len(last), len(before), 5], [1, 300, 600]);
        let placement = Placement { counts: &counts, displacements: &at };
        let mut expected = vec![u64::MAX; 700];
        expected[1..][..len(last)].copy_from_slice(&vector(last, len(last)));
        expected[300..][..len(before)].copy_from_slice(&vector(before, len(before)));
        let mut got = vec![u64::MAX; 700];
        world.neighbor_allgatherv(&own, (&mut got, placement), &neighbours).unwrap();
        assert_eq!(got, expected);

        // Data for the next task come from the beginning, and data for the task after that from the middle.
        let out = vector(rank, 1000);
        let (out_counts, out_at) = ([len(rank), len(rank), 1], [0, 500, 999]);
        let from = Placement { counts: &out_counts, displacements: &out_at };
        expected[300..][..len(before)].copy_from_slice(&vector(before, 1000)[500..][..len(before)]);
        got.fill(u64::MAX);
        world.neighbor_alltoallv((&out, from), (&mut got, placement), &neighbours).unwrap();
        assert_eq!(got, expected);

        let word = Datatype::predefined(Predefined::Uint64);
        let parts = |counts: &[usize; 3], at: &[usize; 3]| -> Vec<LayoutPart<'_>> {
            let part = |(&count, &at): (&usize, &usize)| LayoutPart {
                displacement_bytes: 8 * at,
                count: count as u64,
                datatype: &word,
            };
            counts.iter().zip(at).map(part).collect()
        };
        got.fill(u64::MAX);
        let (from, to) = (parts(&out_counts, &out_at), parts(&counts, &at));
        world.neighbor_alltoallw((&out, &from), (&mut got, &to), &neighbours).unwrap();
        assert_eq!(got, expected);
        let outside = parts(&counts, &[1, 300, 696]);
        let refused = world.neighbor_alltoallw((&out, &from), (&mut got, &outside), &neighbours);
        assert!(matches!(refused, Err(Error::Outside { .. })), "{refused:?}");
        world.barrier().unwrap();
    });
}
