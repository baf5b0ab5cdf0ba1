//! Communicators of several threads: how they are made, what they have, and the collectives of neighbours.

#![allow(clippy::unwrap_used, reason = "a thread of a test says by its panic what was wrong")]

use mpi_over_am::attribute::{Keyval, ObjectKind, PredefinedAttribute};
use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::topology::{Topology, Weights};
use mpi_over_am::{
    Comparison, Equivalence, Error, ErrorClass, ErrorHandler, Info, LayoutPart, Placement, Threads, op,
};

use crate::threads::{THREADS, configs, job};

#[derive(Equivalence, Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
struct Reading {
    place: u8,
    value: u64,
}

/// What both kinds of communicators can do with four tasks.
macro_rules! collectives {
    ($world:expr) => {{
        let world = $world;
        let (rank, size) = (world.rank(), world.size());
        let (own, all) = (u64::from(rank), u64::from(size));
        let tasks = size as usize;
        for round in 0..3u64 {
            let root = u32::try_from(round).unwrap() % size;
            let mut gathered = vec![9u64; tasks];
            gathered[rank as usize] = own + round;
            world.allgather_in_place(&mut gathered).unwrap();
            assert!(gathered.iter().zip(0..).all(|(&got, rank)| got == rank + round));
            let mut turned: Vec<u64> = (0..all).map(|to| own * 10 + to).collect();
            world.alltoall_in_place(&mut turned).unwrap();
            assert!(turned.iter().zip(0..).all(|(&got, from)| got == from * 10 + own));
            let mut sum = [own, 1];
            world.reduce_in_place(&mut sum, op::Sum, root).unwrap();
            assert_eq!(sum, if rank == root { [all * (all - 1) / 2, all] } else { [own, 1] });
            let mut scanned = [own + 1];
            world.scan_in_place(&mut scanned, op::Sum).unwrap();
            assert_eq!(scanned[0], (own + 1) * (own + 2) / 2);
            let counts: Vec<usize> = (1..=tasks).collect();
            let mut part = vec![0u64; counts[rank as usize]];
            world.reduce_scatter(&vec![own; counts.iter().sum()], &mut part, &counts, op::Sum).unwrap();
            assert_eq!(part, vec![all * (all - 1) / 2; part.len()]);
            // Each part with a type of its own: pairs to the first rank, every other element to the others.
            let byte = Datatype::predefined(Predefined::Byte);
            let pair = Datatype::contiguous(2, &byte).unwrap();
            let apart = Datatype::vector(2, 1, 2, &byte).unwrap();
            let of = |rank: u32| if rank == 0 { &pair } else { &apart };
            let out = [rank.to_le_bytes()[0] + 1; 4];
            let from: Vec<_> = (0..size)
                .map(|to| LayoutPart { displacement_bytes: 0, count: 1, datatype: of(to) })
                .collect();
            let to: Vec<_> = (0..tasks)
                .map(|from| LayoutPart { displacement_bytes: from * 4, count: 1, datatype: of(rank) })
                .collect();
            let mut into = vec![0u8; 4 * tasks];
            world.alltoallw((&out, &from), (&mut into, &to)).unwrap();
            for (four, from) in into.chunks(4).zip(1..) {
                assert_eq!(four, if rank == 0 { [from, from, 0, 0] } else { [from, 0, from, 0] });
            }
            let mine = Reading { place: 7, value: own };
            let mut readings = vec![Reading::default(); tasks];
            world.allgather_fields(&[mine], &mut readings).unwrap();
            assert!(readings.iter().zip(0..).all(|(got, value)| *got == Reading { place: 7, value }));
            world.alltoall_fields(&readings.clone(), &mut readings).unwrap();
            assert!(readings.iter().all(|got| got.value == own));
            let mut told = [mine];
            world.broadcast_fields(&mut told, root).unwrap();
            assert_eq!(told[0].value, u64::from(root));
            let mut at_root = vec![Reading::default(); if rank == root { tasks } else { 0 }];
            world.gather_fields(&[mine], &mut at_root, root).unwrap();
            let mut back = [Reading::default()];
            world.scatter_fields(&at_root, &mut back, root).unwrap();
            assert_eq!(back, [mine]);
        }
    }};
}

/// Grids and graphs of four tasks, and what neighbours tell each other. `$neighbours` of a communicator.
macro_rules! topologies {
    ($world:expr, $neighbours:expr) => {{
        let world = $world;
        let rank = world.rank();
        let neighbours = $neighbours;
        let grid = world.create_cartesian(&[2, 2], &[true, false]).unwrap().unwrap();
        let around = neighbours(&grid);
        assert!(around.is_grid && around.sources.len() == 4);
        let mut got = [99u32; 8];
        grid.neighbor_allgather(&[rank, rank + 10], &mut got, &around).unwrap();
        for (got, source) in got.chunks(2).zip(&around.sources) {
            assert_eq!(got, source.map_or([99, 99], |source| [source, source + 10]));
        }
        let mut got = [99u32; 4];
        grid.neighbor_alltoall(&[rank * 4, rank * 4 + 1, rank * 4 + 2, rank * 4 + 3], &mut got, &around)
            .unwrap();
        for ((&got, source), from) in got.iter().zip(&around.sources).zip([1, 0, 3, 2]) {
            assert_eq!(got, source.map_or(99, |source| source * 4 + from));
        }
        let row = grid.sub_cartesian(&[false, true]).unwrap();
        assert_eq!((row.size(), row.rank()), (2, rank % 2));
        assert_eq!(neighbours(&row).sources, [(rank % 2 == 1).then_some(0), (rank % 2 == 0).then_some(1)]);
        let mut sum = [rank];
        row.allreduce_in_place(&mut sum, op::Sum).unwrap();
        assert_eq!(sum, [if rank < 2 { 1 } else { 5 }]);
        assert!(world.create_cartesian(&[3], &[true]).unwrap().is_some() == (rank < 3));
        assert!(world.create_cartesian(&[0, 4], &[true, true]).unwrap().is_none());
        assert_eq!(world.map_cartesian(&[3], &[true]).unwrap(), (rank < 3).then_some(rank));
        // A line of three, known to all.
        let line = world.create_graph(&[1, 3, 4], &[1, 0, 2, 1]).unwrap();
        assert_eq!(line.is_some(), rank < 3);
        if let Some(line) = line {
            let beside = neighbours(&line);
            let mut got = vec![0u32; beside.sources.len()];
            let places: Vec<usize> = (0..got.len()).rev().collect();
            let placement = Placement { counts: &vec![1; got.len()], displacements: &places };
            line.neighbor_allgatherv(&[rank * 7], (&mut got, placement), &beside).unwrap();
            got.reverse();
            assert!(got.iter().zip(&beside.sources).all(|(&got, source)| Some(got / 7) == *source));
        }
        assert_eq!(world.map_graph(&[1, 2], &[1, 0]).unwrap(), (rank < 2).then_some(rank));
        // A ring: each names whom it gets from and whom it gives to.
        let (right, left) = ((rank + 1) % 4, (rank + 3) % 4);
        let weights = Weights::Each(vec![rank]);
        let ring = world
            .create_distributed_graph_adjacent((&[left], &weights), (&[right], &weights), &Info::new())
            .unwrap();
        let beside = neighbours(&ring);
        let one = Placement { counts: &[2], displacements: &[1] };
        let mut got = [0u32; 3];
        ring.neighbor_alltoallv((&[0, rank, rank], one), (&mut got, one), &beside).unwrap();
        assert_eq!(got, [0, left, left]);
        // The same ring, all of it named by the last rank.
        let edges: (Vec<u32>, Vec<u32>) = (0..4).map(|from| (from, (from + 1) % 4)).unzip();
        let given = if rank == 3 { edges } else { (Vec::new(), Vec::new()) };
        let degrees = vec![1; given.0.len()];
        let weights = Weights::Each(vec![5; given.0.len()]);
        let named =
            world.create_distributed_graph((&given.0, &degrees), &given.1, &weights, &Info::new()).unwrap();
        assert_eq!(neighbours(&named).sources, [Some(left)]);
        let int = Datatype::predefined(Predefined::Uint32);
        let part = [LayoutPart { displacement_bytes: 4, count: 1, datatype: &int }];
        let mut got = [0u32; 2];
        named.neighbor_alltoallw((&[0, rank], &part), (&mut got, &part), &neighbours(&named)).unwrap();
        assert_eq!(got, [0, left]);
        let error = world.create_graph(&[5], &[]).map(|_| ()).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Topology);
    }};
}

/// Other ways to a communicator.
macro_rules! creations {
    ($world:expr, $group:expr) => {{
        let world = $world;
        let rank = world.rank();
        let group = $group;
        for _ in 0..3 {
            // The even and the odd ones at once.
            let mine = group(world).incl(&[rank % 2, rank % 2 + 2]).unwrap();
            let half = world.create(&mine).unwrap().unwrap();
            assert_eq!((half.size(), half.rank()), (2, rank / 2));
            let mut sum = [rank];
            half.allreduce_in_place(&mut sum, op::Sum).unwrap();
            assert_eq!(sum, [2 * (rank % 2) + 2]);
            // Nobody but the members.
            let three = group(world).incl(&[3, 1, 0]).unwrap();
            if rank != 2 {
                let three = world.create_group(&three, 5).unwrap().unwrap();
                assert_eq!(three.rank(), [2, 1, 9, 0][rank as usize]);
                three.barrier().unwrap();
            }
            let none = group(world).incl(&[1]).unwrap();
            assert_eq!(world.create(&none).unwrap().is_some(), rank == 1);
            let mut hints = Info::new();
            hints.set("key", "value").unwrap();
            world.dup_with_info(&hints).unwrap().barrier().unwrap();
            let pending = [world.idup().unwrap(), world.idup_with_info(&hints).unwrap()];
            for pending in pending {
                while !pending.is_over().unwrap() {
                    std::thread::yield_now();
                }
                pending.wait().unwrap().barrier().unwrap();
            }
            drop(world.idup().unwrap());
        }
    }};
}

#[test]
fn tasks_of_many_threads_and_of_one_meet_in_all_of_it() {
    type Shared = crate::threads::Communicator<Threads>;
    type Single = crate::common::Communicator;
    for shared in [1, 3, 4] {
        for config in configs(4) {
            job(
                config,
                shared,
                |environment| {
                    let world = environment.world();
                    let own: Vec<_> = (0..THREADS).map(|_| world.dup().unwrap()).collect();
                    std::thread::scope(|threads| {
                        for communicator in &own {
                            threads.spawn(move || {
                                collectives!(communicator);
                                topologies!(communicator, |of: &Shared| of.neighbours().unwrap());
                                creations!(communicator, |of: &Shared| of.group());
                            });
                        }
                    });
                },
                |environment| {
                    let world = environment.world();
                    let own: Vec<_> = (0..THREADS).map(|_| world.dup().unwrap()).collect();
                    for communicator in &own {
                        collectives!(communicator);
                        topologies!(communicator, |of: &Single| of.neighbours().unwrap());
                        creations!(communicator, |of: &Single| of.group());
                    }
                },
            );
        }
    }
}

/// Two sides of four tasks talk, merge, and make parts.
macro_rules! sides {
    ($world:expr, $group:expr) => {{
        let world = $world;
        let (rank, group) = (world.rank(), $group);
        let half = world.split(Some((rank % 2).cast_signed()), 0).unwrap().unwrap();
        let bridge = if half.rank() == 0 { Some(world) } else { None };
        let inter = half.create_inter_with(0, bridge, 1 - rank % 2, 3).unwrap();
        assert!(inter.is_inter() && !world.is_inter());
        assert_eq!((inter.size(), inter.remote_size().unwrap()), (2, 2));
        let peer = inter.rank();
        let mut got = [9u32];
        inter.sendrecv(&[rank], peer, 0, &mut got, peer, 0).unwrap();
        assert_eq!(got[0], 2 * peer + 1 - rank % 2);
        let mut theirs = [0u32; 2];
        inter.allgather(&[rank], &mut theirs).unwrap();
        assert_eq!(theirs, if rank % 2 == 0 { [1, 3] } else { [0, 2] });
        let merged = inter.merge(rank % 2 == 0).unwrap();
        let mut all = [0u32; 4];
        merged.allgather(&[rank], &mut all).unwrap();
        assert_eq!(all, [1, 3, 0, 2]);
        let copy = inter.dup().unwrap();
        copy.barrier().unwrap();
        // The first of each side, and the second.
        let pair = copy.split(Some(peer.cast_signed()), 0).unwrap().unwrap();
        assert_eq!((pair.size(), pair.remote_size().unwrap()), (1, 1));
        let mut got = [9u32];
        pair.sendrecv(&[rank], 0, 0, &mut got, 0, 0).unwrap();
        assert_eq!(got[0] / 2, rank / 2);
        let first = inter.create(&group(&inter).incl(&[0]).unwrap()).unwrap();
        assert_eq!(first.is_some(), peer == 0);
        assert_eq!(half.create_inter_with(9, None, 0, 3).map(|_| ()).unwrap_err().class(), ErrorClass::Rank);
        assert!(inter.create_inter_with(0, None, 0, 3).is_err() && half.merge(true).is_err());
    }};
}

#[test]
fn two_sides_of_tasks_of_many_threads_and_of_one() {
    type Shared = crate::threads::Communicator<Threads>;
    type Single = crate::common::Communicator;
    for shared in [1, 2, 4] {
        for config in configs(4) {
            job(
                config,
                shared,
                |environment| {
                    let world = environment.world();
                    let own: Vec<_> = (0..THREADS).map(|_| world.dup().unwrap()).collect();
                    std::thread::scope(|threads| {
                        for communicator in &own {
                            threads.spawn(move || sides!(communicator, |of: &Shared| of.group()));
                        }
                    });
                },
                |environment| {
                    let world = environment.world();
                    let own: Vec<_> = (0..THREADS).map(|_| world.dup().unwrap()).collect();
                    own.iter().for_each(|communicator| sides!(communicator, |of: &Single| of.group()));
                },
            );
        }
    }
}

#[test]
fn threads_create_in_different_orders() {
    // In each task the threads come to their communicators in another order: whoever waits for the others lets its fellows go on.
    for config in configs(3) {
        job(
            config,
            3,
            |environment| {
                let world = environment.world();
                let own: Vec<_> = (0..THREADS).map(|_| world.dup().unwrap()).collect();
                std::thread::scope(|threads| {
                    let first = world.rank() as usize;
                    for number in 0..own.len() {
                        let communicator = &own[(number + first) % own.len()];
                        threads.spawn(move || {
                            for _ in 0..5 {
                                let grid = communicator.create_cartesian(&[3], &[true]).unwrap().unwrap();
                                let window = grid.allocate_window(8, 1, &Info::new()).unwrap();
                                window.free().unwrap();
                            }
                        });
                    }
                });
                let group = world.group();
                let session = environment.session(&Info::new(), ErrorHandler::Return);
                let made = session.create_from_group(&group, "all", &Info::new(), ErrorHandler::Return);
                assert_eq!(made.unwrap().unwrap().size(), 3);
                let (first, others) = (group.incl(&[0]).unwrap(), group.incl(&[1, 2]).unwrap());
                let (local, remote) = if world.rank() == 0 { (&first, &others) } else { (&others, &first) };
                let inter = session
                    .inter_from_groups(local, remote, "two", &Info::new(), ErrorHandler::Return)
                    .unwrap();
                assert_eq!(inter.remote_group().unwrap().size(), remote.size());
                inter.barrier().unwrap();
                let alone = group.incl(&[0]).unwrap();
                let made = session.create_from_group(&alone, "one", &Info::new(), ErrorHandler::Return);
                assert_eq!(made.unwrap().is_some(), world.rank() == 0);
            },
            |_| {},
        );
    }
}

#[test]
fn a_communicator_has_name_hints_attributes_and_handler() {
    job(
        configs(1)[0],
        1,
        |environment| {
            let world = environment.world();
            let class = |error: Error| error.class();
            assert_eq!(world.name(), "MPI_COMM_WORLD");
            let own = world.dup().unwrap();
            own.set_name("mine");
            assert_eq!(own.name(), "mine");
            assert_eq!(own.compare(&world), Comparison::Congruent);
            assert_eq!(own.compare(&own.clone()), Comparison::Identical);
            assert_eq!(own.group().size(), 1);
            let mut hints = Info::new();
            hints.set("key", "value").unwrap();
            own.set_info(&hints);
            assert_eq!(own.info().get("key").unwrap(), Some("value"));
            assert!(own.topology().is_none() && own.neighbours().is_none());
            assert_eq!(class(own.cartesian().unwrap_err()), ErrorClass::Topology);
            assert_eq!(class(own.graph().unwrap_err()), ErrorClass::Topology);
            assert_eq!(class(own.distributed_graph().unwrap_err()), ErrorClass::Topology);
            let grid = own.create_cartesian(&[1], &[true]).unwrap().unwrap();
            assert_eq!(grid.cartesian().unwrap().periods(), [true]);
            let Some(Topology::Cartesian(topology)) = grid.topology().cloned() else {
                panic!("it is a grid")
            };
            // It is any thread's, as all that comes out of a call is.
            std::thread::spawn(move || assert_eq!(topology.size(), 1)).join().unwrap();
            let inside = own.clone();
            let key = Keyval::new(
                ObjectKind::Communicator,
                |_, _, value| Ok(Some(value + 1)),
                move |_, _, _| {
                    // The lock is not held while a callback runs: it may make calls, and so may another thread meanwhile.
                    let other = inside.clone();
                    let found = std::thread::spawn(move || other.iprobe(0, 1)).join().unwrap();
                    assert_eq!((found.unwrap(), inside.name()), (None, "mine".to_owned()));
                    Ok(())
                },
            );
            own.set_attribute(&key, 5).unwrap();
            let copy = own.dup().unwrap();
            assert_eq!(copy.attribute(&key).unwrap(), Some(6));
            copy.delete_attribute(&key).unwrap();
            assert_eq!(class(copy.delete_attribute(&key).unwrap_err()), ErrorClass::Keyval);
            assert_eq!(own.predefined_attribute(PredefinedAttribute::UniverseSize), Some(1));
            own.set_error_handler(ErrorHandler::user(|_, error| assert_eq!(error.class(), ErrorClass::Rank)));
            let failed = own.send(&[1u8], 7, 0);
            assert_eq!(class(own.handled(failed).unwrap_err()), ErrorClass::Rank);
            assert!(own.error_handler() != ErrorHandler::Return);
            own.close().unwrap();
            assert_eq!(class(world.clone().close().unwrap_err()), ErrorClass::Communicator);
            assert!(environment.queues().unwrap().len() > 10);
            let _ = environment.counts().unwrap();
        },
        |_| {},
    );
}
