//! Communicators of several threads: creation, state, and neighbourhood collectives.

#![allow(clippy::unwrap_used, reason = "a thread of a test says by its panic what was wrong")]

use mpi_over_am::{ErrorClass, ErrorHandler, Info, LockPolicy, op};

use crate::threads::{Communicator, THREADS, for_duplicates, of_threads};

/// Makes communicators by `create`, `create_group`, `dup_with_info`, `idup` and `idup_with_info`.
fn creations<L: LockPolicy>(world: &Communicator<L>) {
    let rank = world.rank();
    for _ in 0..3 {
        // The even and the odd ranks each make a communicator, at the same time.
        let mine = world.group().incl(&[rank % 2, rank % 2 + 2]).unwrap();
        let half = world.create(&mine).unwrap().unwrap();
        assert_eq!((half.size(), half.rank()), (2, rank / 2));
        let mut sum = [rank];
        half.allreduce_in_place(&mut sum, op::Sum).unwrap();
        assert_eq!(sum, [2 * (rank % 2) + 2]);
        // Only the members call.
        let three = world.group().incl(&[3, 1, 0]).unwrap();
        if rank != 2 {
            let three = world.create_group(&three, 5).unwrap().unwrap();
            assert_eq!(three.rank(), [2, 1, 9, 0][rank as usize]);
            three.barrier().unwrap();
        }
        let none = world.group().incl(&[1]).unwrap();
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
}

#[test]
fn tasks_of_many_threads_and_of_one_meet_in_all_of_it() {
    for_duplicates(4, &[1, 3, 4], creations, creations);
}

/// Two sides of two tasks each talk, merge, and make parts; wrong calls are refused.
fn sides<L: LockPolicy>(world: &Communicator<L>) {
    let rank = world.rank();
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
    assert_eq!(theirs, if rank.is_multiple_of(2) { [1, 3] } else { [0, 2] });
    let merged = inter.merge(rank.is_multiple_of(2)).unwrap();
    let mut all = [0u32; 4];
    merged.allgather(&[rank], &mut all).unwrap();
    assert_eq!(all, [1, 3, 0, 2]);
    let copy = inter.dup().unwrap();
    copy.barrier().unwrap();
    // One inter-communicator of the first task of each side, and one of the second task of each side.
    let pair = copy.split(Some(peer.cast_signed()), 0).unwrap().unwrap();
    assert_eq!((pair.size(), pair.remote_size().unwrap()), (1, 1));
    let mut got = [9u32];
    pair.sendrecv(&[rank], 0, 0, &mut got, 0, 0).unwrap();
    assert_eq!(got[0] / 2, rank / 2);
    let first = inter.create(&inter.group().incl(&[0]).unwrap()).unwrap();
    assert_eq!(first.is_some(), peer == 0);
    assert_eq!(half.create_inter_with(9, None, 0, 3).map(|_| ()).unwrap_err().class(), ErrorClass::Rank);
    assert!(inter.create_inter_with(0, None, 0, 3).is_err() && half.merge(true).is_err());
}

#[test]
fn two_sides_of_tasks_of_many_threads_and_of_one() {
    for_duplicates(4, &[1, 2, 4], sides, sides);
}

#[test]
fn threads_create_in_different_orders() {
    // In each task the threads make their communicators in a different order: while a thread waits for other tasks, the other threads go
    // on.
    of_threads(3, |environment| {
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
        let inter =
            session.inter_from_groups(local, remote, "two", &Info::new(), ErrorHandler::Return).unwrap();
        assert_eq!(inter.remote_group().unwrap().size(), remote.size());
        inter.barrier().unwrap();
        let alone = group.incl(&[0]).unwrap();
        let made = session.create_from_group(&alone, "one", &Info::new(), ErrorHandler::Return);
        assert_eq!(made.unwrap().is_some(), world.rank() == 0);
    });
}
