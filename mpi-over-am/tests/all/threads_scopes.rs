//! Scopes of several threads: buffers stay borrowed, whichever thread starts an operation and whichever thread waits for it.

#![allow(clippy::unwrap_used, reason = "a thread of a test says by its panic what was wrong")]

use am_core_conform::Random;
use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::{LayoutPart, LockPolicy, Mode, Neighbours, Placement, Tested, Threads, collective, op};

use crate::one_thread::alike::common::pattern;
use crate::threads::{Communicator, THREADS, configs, for_duplicates, job};

/// Messages of many lengths, in an order that depends on the seed, from parts of one buffer to parts of another one.
fn traffic(world: &Communicator<Threads>, seed: u64) {
    const PARTS: usize = 6;
    const LEN: usize = 3000;
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let threads = THREADS as usize;
    let out: Vec<u8> =
        (0..threads * PARTS).flat_map(|part| pattern(part as u64 * 7 + u64::from(rank), LEN)).collect();
    let mut into = vec![0u8; out.len()];
    world
        .scope(|s| {
            std::thread::scope(|team| {
                let whole = out.chunks(PARTS * LEN).zip(into.chunks_mut(PARTS * LEN));
                for ((out, into), thread) in whole.zip(0..) {
                    team.spawn(move || {
                        let mut random = Random::new(seed + u64::from(thread));
                        let tag =
                            |part: usize| i32::try_from(thread * 100 + u32::try_from(part).unwrap()).unwrap();
                        let mut open = Vec::new();
                        for (part, incoming) in into.chunks_mut(LEN).enumerate() {
                            open.push(s.irecv(incoming, left, tag(part)).unwrap());
                        }
                        for (part, out) in out.chunks(LEN).enumerate() {
                            let mode = if random.below(2) == 0 { Mode::Standard } else { Mode::Synchronous };
                            open.push(s.isend_in_mode(mode, out, right, tag(part)).unwrap());
                        }
                        // Waits for some requests here, and for the other requests at the end of the scope.
                        while open.len() > 3 {
                            match random.below(3) {
                                0 => drop(s.wait_any(&mut open).unwrap().unwrap()),
                                1 => {
                                    let request = open.swap_remove(random.below(open.len()));
                                    if let Tested::Pending(pending) = s.test(request).unwrap() {
                                        open.push(pending);
                                    }
                                }
                                _ => drop(s.wait(open.swap_remove(random.below(open.len()))).unwrap()),
                            }
                        }
                    });
                }
            });
            Ok(())
        })
        .unwrap();
    for part in 0..threads * PARTS {
        assert_eq!(into[part * LEN..][..LEN], pattern(part as u64 * 7 + u64::from(left), LEN));
    }
}

#[test]
fn threads_send_and_receive_parts_of_one_buffer() {
    for (config, seed) in configs(3).into_iter().zip([60, 70, 80]) {
        println!("seed {seed}");
        job(
            config,
            3,
            |environment| {
                let world = environment.world();
                for round in 0..4 {
                    traffic(&world, seed + round * 1000);
                }
            },
            |_| {},
        );
    }
}

/// Collectives of all kinds in a scope, among three tasks.
fn collectives<L: LockPolicy>(world: &Communicator<L>) {
    let rank = u64::from(world.rank());
    let (mine, three) = ([rank, 1], [rank * 10, rank * 10 + 1, rank * 10 + 2]);
    let counts = [1usize, 1, 1];
    let placement = Placement { counts: &counts, displacements: &[2, 1, 0] };
    let word = Datatype::predefined(Predefined::Uint64);
    let parts: Vec<_> =
        (0..3).map(|part| LayoutPart { displacement_bytes: part * 8, count: 1, datatype: &word }).collect();
    let ring = Neighbours {
        sources: vec![Some((world.rank() + 2) % 3)],
        destinations: vec![Some((world.rank() + 1) % 3)],
        is_grid: false,
    };
    let mut told = mine;
    let (mut gathered, mut gathered_apart, mut all, mut all_apart) = ([0; 6], [0; 3], [0; 6], [0; 3]);
    let (mut own, mut own_apart, mut turned, mut turned_apart) = ([0], [0], [0; 3], [0; 3]);
    let (mut typed, mut most, mut sum, mut block) = ([0; 3], [0; 2], [0; 2], [0; 1]);
    let (mut part, mut scanned, mut before) = ([0; 1], [0; 2], [7; 2]);
    let (mut beside, mut given, mut apart) = ([0; 2], [0; 1], [0; 1]);
    world
        .scope(|s| {
            let open = vec![
                collective::barrier().start(s)?,
                collective::broadcast(&mut told, 1).start(s)?,
                collective::gather(&mine, &mut gathered, 2).start(s)?,
                collective::gatherv(&mine[..1], (&mut gathered_apart, placement), 0).start(s)?,
                collective::scatter(&three, &mut own, 1).start(s)?,
                collective::scatterv((&three, placement), &mut own_apart, 1).start(s)?,
                collective::allgather(&mine, &mut all).start(s)?,
                collective::allgatherv(&mine[..1], (&mut all_apart, placement)).start(s)?,
                collective::alltoall(&three, &mut turned).start(s)?,
                collective::alltoallv((&three, placement), (&mut turned_apart, placement)).start(s)?,
                collective::alltoallw((&three, &parts), (&mut typed, &parts)).start(s)?,
                collective::reduce(&mine, &mut most, op::Max, 0).start(s)?,
                collective::allreduce(&mine, &mut sum, op::Sum).start(s)?,
                collective::reduce_scatter_block(&three, &mut block, op::Sum).start(s)?,
                collective::reduce_scatter(&three, &mut part, &counts, op::Max).start(s)?,
                collective::scan(&mine, &mut scanned, op::Sum).start(s)?,
                collective::exscan(&mine, &mut before, op::Sum).start(s)?,
                collective::neighbor_allgather(&mine, &mut beside, &ring).start(s)?,
                collective::neighbor_alltoall(&mine[..1], &mut given, &ring).start(s)?,
                collective::neighbor_alltoallw((&mine, &parts[..1]), (&mut apart, &parts[..1]), &ring)
                    .start(s)?,
            ];
            // Waits in the opposite order, and for the last requests at the end of the scope.
            for request in open.into_iter().rev().skip(4) {
                s.wait(request)?;
            }
            Ok(())
        })
        .unwrap();
    let at = |root: u64| rank == root;
    assert_eq!(told, [1, 1]);
    assert_eq!(gathered, if at(2) { [0, 1, 1, 1, 2, 1] } else { [0; 6] });
    assert_eq!(gathered_apart, if at(0) { [2, 1, 0] } else { [0; 3] });
    assert_eq!((own, own_apart), ([10 + rank], [12 - rank]));
    assert_eq!((all, all_apart), ([0, 1, 1, 1, 2, 1], [2, 1, 0]));
    assert_eq!((turned, typed), ([rank, 10 + rank, 20 + rank], turned));
    assert_eq!(turned_apart, [22 - rank, 12 - rank, 2 - rank]);
    assert_eq!((most, sum), (if at(0) { [2, 1] } else { [0; 2] }, [3, 3]));
    assert_eq!((block, part), ([30 + 3 * rank], [20 + rank]));
    assert_eq!(scanned, [rank * (rank + 1) / 2, rank + 1]);
    assert_eq!(before, if at(0) { [7; 2] } else { [rank * (rank - 1) / 2, rank] });
    let left = (rank + 2) % 3;
    assert_eq!((beside, given, apart), ([left, 1], [left], [left]));
}

#[test]
fn collectives_of_scopes_meet_those_of_tasks_of_one_thread() {
    for_duplicates(
        3,
        &[0, 1, 3],
        |world| (0..3).for_each(|_| collectives(world)),
        |world| (0..3).for_each(|_| collectives(world)),
    );
}
