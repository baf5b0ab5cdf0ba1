//! Collectives of tasks on several hosts send one message between two hosts, instead of one between each two of their tasks.

use super::common::{Communicator, Environment, job};
use am_double::Config;
use mpi_over_am::{Placement, Settings, collective, op};

/// A host for each task, by rank.
type Hosts = &'static [u32];

/// Number of packets between hosts that all tasks send in a collective call.
fn packets_between_hosts(
    environment: &Environment,
    (world, hosts): (&Communicator, Hosts),
    call: impl FnOnce(),
) -> u64 {
    let own = hosts[world.rank() as usize];
    let sent = || {
        let sent = environment.counts().expect("no call is under way").packets_sent;
        sent.iter().zip(hosts).filter(|(_, host)| **host != own).map(|(sent, _)| sent).sum::<u64>()
    };
    let before = sent();
    call();
    let mut all = [sent() - before];
    world.allreduce_in_place(&mut all, op::Sum).expect("all tasks count");
    all[0]
}

fn on_hosts(hosts: Hosts, task: impl Fn(&Environment, &Communicator) + Sync) {
    let tasks = u32::try_from(hosts.len()).expect("a few tasks");
    // There are enough credits for long data in pieces, so that the number of packets shows how often the data cross between hosts.
    job(Config { hosts, credits: 64, ..Config::new(tasks) }, Settings::default(), task);
}

/// Two and three hosts, with ranks in the order of the hosts and in mixed order.
const TWO: [Hosts; 3] = [&[0, 0, 1, 1], &[0, 1, 0, 1, 1], &[1, 0, 0]];
const THREE: [Hosts; 3] = [&[0, 0, 1, 1, 2], &[0, 1, 2, 0, 1], &[2, 2, 1, 0, 0]];

#[test]
fn a_collective_sends_one_message_between_two_hosts() {
    // Number of messages between the leaders in a rooted collective, a barrier, an allreduce and an exchange: of two hosts, and of three.
    for (all_hosts, [rooted, barrier, allreduce, exchange]) in [(TWO, [1, 2, 2, 2]), (THREE, [2, 6, 4, 6])] {
        for hosts in all_hosts {
            on_hosts(hosts, |environment, world| {
                let (rank, size) = (world.rank(), world.size());
                let count = |call: &dyn Fn()| packets_between_hosts(environment, (world, hosts), call);
                let [all, many] = [1, 30].map(|count| vec![u64::from(rank); count * size as usize]);
                for root in 0..size {
                    let call = || world.broadcast(&mut [7u64; 10], root).unwrap();
                    assert_eq!(count(&call), rooted, "broadcast from {root}, {hosts:?}");
                    let call = || world.reduce(&[1u64; 10], &mut [0; 10], op::Sum, root).unwrap();
                    assert_eq!(count(&call), rooted, "reduce to {root}, {hosts:?}");
                    let call = || world.gather(&[1u64], &mut all.clone(), root).unwrap();
                    assert_eq!(count(&call), rooted, "gather to {root}, {hosts:?}");
                    let call = || world.scatter(&all, &mut [0u64], root).unwrap();
                    assert_eq!(count(&call), rooted, "scatter from {root}, {hosts:?}");
                }
                assert_eq!(count(&|| world.barrier().unwrap()), barrier, "barrier, {hosts:?}");
                let call = || world.allreduce(&[1u64; 10], &mut [0; 10], op::Sum).unwrap();
                assert_eq!(count(&call), allreduce, "allreduce, {hosts:?}");
                let call = || world.allgather(&[1u64; 30], &mut many.clone()).unwrap();
                assert_eq!(count(&call), exchange, "allgather, {hosts:?}");
                let call = || world.alltoall(&all, &mut all.clone()).unwrap();
                assert_eq!(count(&call), exchange, "alltoall, {hosts:?}");
                let call = || world.reduce_scatter_block(&all, &mut [0], op::Sum).unwrap();
                assert_eq!(count(&call), exchange, "reduce_scatter_block, {hosts:?}");
                if hosts.is_sorted() {
                    let scan = if rooted == 1 { 1 } else { 3 };
                    let call = || world.scan(&[1u64], &mut [0], op::Sum).unwrap();
                    assert_eq!(count(&call), scan, "scan, {hosts:?}");
                    let call = || world.exscan(&[1u64], &mut [0], op::Sum).unwrap();
                    assert_eq!(count(&call), scan, "exscan, {hosts:?}");
                    let ordered = |a: &u64, b: &u64| a * 10 + b;
                    let call = || world.allreduce(&[1u64], &mut [0], op::from_ordered_fn(ordered)).unwrap();
                    assert_eq!(count(&call), allreduce, "an ordered allreduce, {hosts:?}");
                }
            });
        }
    }
}

#[test]
fn started_and_kept_collectives_send_no_more_than_blocking_ones() {
    for hosts in [TWO[0], THREE[1]] {
        on_hosts(hosts, |environment, world| {
            let size = world.size() as usize;
            let own = vec![u64::from(world.rank()); 30];
            let count = |call: &mut dyn FnMut()| packets_between_hosts(environment, (world, hosts), call);
            let (mut sums, mut blocks) = (vec![0; 30], vec![0; 30 * size]);
            let blocking = count(&mut || {
                world.allreduce(&own, &mut sums, op::Sum).unwrap();
                world.allgather(&own, &mut blocks).unwrap();
            });
            let (mut other_sums, mut other_blocks) = (vec![0; 30], vec![0; 30 * size]);
            let started = count(&mut || {
                let both = world.scope(|s| {
                    let sum = collective::allreduce(&own, &mut other_sums, op::Sum).start(s)?;
                    let all = collective::allgather(&own, &mut other_blocks).start(s)?;
                    s.wait_all([all, sum]).map(drop)
                });
                both.unwrap();
            });
            assert_eq!((started, &other_sums, &other_blocks), (blocking, &sums, &blocks));
            let mut sum = collective::allreduce_in_place(vec![0; 30], op::Sum).keep(world).unwrap();
            let mut all = collective::allgather_in_place(vec![0; 30 * size]).keep(world).unwrap();
            sum.buffer().unwrap().copy_from_slice(&own);
            all.buffer().unwrap()[world.rank() as usize * 30..][..30].copy_from_slice(&own);
            let kept = count(&mut || {
                sum.start().unwrap();
                all.start().unwrap();
                all.wait().unwrap();
                sum.wait().unwrap();
            });
            assert_eq!(
                (kept, sum.buffer().unwrap(), all.buffer().unwrap()),
                (blocking, &mut sums[..], &mut blocks[..])
            );
        });
    }
}

#[test]
fn long_data_cross_to_each_host_once() {
    const LEN: usize = 100_000;
    for hosts in [TWO[0], TWO[1], THREE[0], THREE[1]] {
        on_hosts(hosts, |environment, world| {
            let rank = world.rank();
            let hosts_of_job = u64::from(hosts.iter().max().copied().unwrap_or(0)) + 1;
            let count = |call: &mut dyn FnMut()| packets_between_hosts(environment, (world, hosts), call);
            let far = (1..world.size()).find(|&rank| hosts[rank as usize] != hosts[0]).expect("another host");
            // A collective of two tasks, whose data are sent in the same way.
            let two = world.split([0, far].contains(&rank).then_some(0), 0).unwrap();
            let once = count(&mut || {
                if let Some(two) = &two {
                    two.broadcast(&mut vec![1u8; LEN], 0).unwrap();
                }
            });
            for root in 0..world.size() {
                let sent = count(&mut || world.broadcast(&mut vec![1u8; LEN], root).unwrap());
                assert_eq!(sent, once * (hosts_of_job - 1), "{hosts:?} from {root}");
            }
            // Each leader gets all blocks but those of its own host.
            let size = world.size() as usize;
            let block = vec![1u8; LEN / size];
            let sent = count(&mut || world.allgather(&block, &mut vec![0; LEN / size * size]).unwrap());
            assert!(sent <= (once + hosts_of_job * 2) * (hosts_of_job - 1), "{sent} of {once}, {hosts:?}");
            // The leaders reduce chunks of the data and exchange the results: each chunk crosses twice for each other host.
            let (own, mut sums) = (vec![1u64; LEN / 8], vec![0; LEN / 8]);
            let sent = count(&mut || world.allreduce(&own, &mut sums, op::Sum).unwrap());
            let most = 2 * (hosts_of_job - 1) * once;
            assert!(sent < most + most / 2, "{sent} of {once}, {hosts:?}");
        });
    }
}

#[test]
fn parts_of_the_tasks_have_the_hosts_of_these() {
    on_hosts(&[0, 0, 1, 1, 2, 2], |environment, world| {
        let hosts: Hosts = &[0, 0, 1, 1, 2, 2];
        let rank = world.rank();
        let sum = |part: &Communicator| {
            let mut sum = [rank];
            part.allreduce_in_place(&mut sum, op::Sum).unwrap();
            sum[0]
        };
        let count = |part: &Communicator| {
            packets_between_hosts(environment, (world, hosts), || {
                sum(part);
            })
        };
        // The tasks of each host.
        let of_host = world.split(Some(rank.cast_signed() / 2), 0).unwrap().expect("a colour");
        assert_eq!((count(&of_host), sum(&of_host)), (0, rank / 2 * 4 + 1));
        // One task of each host.
        let apart = world.split(Some(rank.cast_signed() % 2), 0).unwrap().expect("a colour");
        assert_eq!(sum(&apart), 6 + 3 * (rank % 2));
        // Three tasks, two of them on one host, in reverse order.
        let three = world.split(Some(i32::from(rank >= 3)), -rank.cast_signed()).unwrap().expect("a colour");
        // Two messages in each of the two parts.
        assert_eq!((count(&three), sum(&three)), (4, if rank >= 3 { 12 } else { 3 }));
        let own = vec![u64::from(rank); 3];
        let mut all = vec![0; 9];
        three.allgather(&own, &mut all).unwrap();
        let first = if rank >= 3 { 5 } else { 2 };
        let expected: Vec<u64> = (0..9).map(|index| first - index / 3).collect();
        assert_eq!(all, expected);
        let duplicate = three.dup().unwrap();
        assert_eq!(count(&duplicate), 4);
    });
}

#[test]
fn parts_of_any_length_and_gaps_between_them_are_collected() {
    for hosts in [TWO[0], TWO[1], THREE[0], THREE[1]] {
        on_hosts(hosts, |environment, world| {
            let (rank, size) = (world.rank(), world.size() as usize);
            let counts: Vec<usize> = (0..size).map(|rank| rank * 3 % 4).collect();
            // The parts are stored in reverse order, with a gap of one element after each part.
            let displacements: Vec<usize> =
                (0..size).map(|rank| counts[rank + 1..].iter().map(|count| count + 1).sum()).collect();
            let own = vec![rank + 1; counts[rank as usize]];
            let mut all = vec![0; counts.iter().sum::<usize>() + size];
            let mut expected = all.clone();
            for ((&count, &at), rank) in counts.iter().zip(&displacements).zip(1..) {
                expected[at..][..count].fill(rank);
            }
            let placement = Placement { counts: &counts, displacements: &displacements };
            let call = || world.allgatherv(&own, (&mut all, placement)).unwrap();
            let sent = packets_between_hosts(environment, (world, hosts), call);
            assert_eq!((sent, all), (if TWO.contains(&hosts) { 2 } else { 6 }, expected));
        });
    }
}
