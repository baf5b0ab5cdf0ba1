//! Communicators with grids and graphs.

#![allow(clippy::unwrap_used, reason = "a task of a test says by its panic what was wrong")]

use super::common::{Communicator, Environment, job, networks};
use mpi_over_am::topology::{Shift, Topology, Weights, dimensions};
use mpi_over_am::{Comparison, Error, ErrorClass, Info, Settings};

fn with_tasks(tasks: impl IntoIterator<Item = u32>, task: impl Fn(&Environment, &Communicator) + Sync) {
    for tasks in tasks {
        for config in networks(tasks) {
            job(config, Settings::default(), &task);
        }
    }
}

fn class<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorClass {
    result.unwrap_err().class()
}

/// Each task sends its rank to its destinations, and receives the rank of each source.
fn talk_to_neighbors(communicator: &Communicator) {
    let topology = communicator.topology().expect("it has one");
    let (sources, destinations) = topology.neighbors(communicator.rank());
    for destination in destinations.into_iter().flatten() {
        drop(communicator.isend_owned(vec![communicator.rank()], destination, 0).unwrap());
    }
    for source in sources.into_iter().flatten() {
        let mut got = [u32::MAX];
        communicator.recv(&mut got, source, 0).unwrap();
        assert_eq!(got[0], source);
    }
    communicator.barrier().unwrap();
}

#[test]
fn grids_have_rows_columns_and_edges() {
    with_tasks([1, 4, 6, 7], |_, world| {
        let tasks = world.size() - world.size() % 2;
        let mut sizes = [0, 0];
        dimensions(tasks.max(1), &mut sizes).unwrap();
        assert_eq!(
            world.map_cartesian(&sizes, &[true, false]).unwrap().is_some(),
            world.rank() < tasks.max(1)
        );
        let Some(grid) = world.create_cartesian(&sizes, &[true, false]).unwrap() else {
            assert!(world.rank() >= tasks);
            return;
        };
        let cartesian = grid.cartesian().unwrap();
        assert_eq!(cartesian.dimensions(), sizes);
        let here = cartesian.coordinates(grid.rank()).unwrap();
        talk_to_neighbors(&grid);
        let row = grid.sub_cartesian(&[false, true]).unwrap();
        assert_eq!((row.size(), row.rank()), (sizes[1], here[1]));
        assert_eq!(row.cartesian().unwrap().periods(), [false]);
        let column = grid.sub_cartesian(&[true, false]).unwrap();
        assert_eq!((column.size(), column.rank()), (sizes[0], here[0]));
        talk_to_neighbors(&row);
        talk_to_neighbors(&column);
        let point = grid.sub_cartesian(&[false, false]).unwrap();
        assert_eq!((point.size(), point.cartesian().unwrap().dimensions().len()), (1, 0));
        // A duplicate is also a grid.
        let dup = grid.dup().unwrap();
        assert_eq!(dup.cartesian().unwrap(), cartesian);
        assert_eq!(dup.compare(&grid), Comparison::Congruent);
        let Shift { source, dest } = row.cartesian().unwrap().shift(row.rank(), 0, 1).unwrap();
        assert_eq!(source.is_none(), row.rank() == 0);
        assert_eq!(dest.is_none(), row.rank() + 1 == row.size());
        assert_eq!(class(grid.sub_cartesian(&[true])), ErrorClass::Count);
        assert_eq!(class(grid.graph()), ErrorClass::Topology);
    });
}

#[test]
fn bad_topologies_are_refused() {
    with_tasks([2], |_, world| {
        assert_eq!(class(world.create_cartesian(&[3], &[true])), ErrorClass::Argument);
        assert!(world.create_cartesian(&[0], &[true]).unwrap().is_none(), "a grid of no task");
        assert_eq!(class(world.create_cartesian(&[2], &[])), ErrorClass::Count);
        assert_eq!(class(world.cartesian()), ErrorClass::Topology);
        assert_eq!(class(world.sub_cartesian(&[true])), ErrorClass::Topology);
        assert_eq!(class(world.create_graph(&[1, 1, 1], &[0])), ErrorClass::Argument);
        assert_eq!(class(world.create_graph(&[1, 2], &[0, 2])), ErrorClass::Topology);
        assert_eq!(class(world.distributed_graph()), ErrorClass::Topology);
        let none = Weights::Unweighted;
        let adjacent = |sources: &[u32], weights: &Weights| {
            world.create_distributed_graph_adjacent((sources, weights), (&[], &none), &Info::new())
        };
        assert_eq!(class(adjacent(&[2], &none)), ErrorClass::Rank);
        assert_eq!(class(adjacent(&[1], &Weights::Each(vec![]))), ErrorClass::Count);
        let general = |degrees: &[u32], to: &[u32]| {
            world.create_distributed_graph((&[0], degrees), to, &none, &Info::new())
        };
        assert_eq!(class(general(&[1, 1], &[1, 1])), ErrorClass::Count);
        assert_eq!(class(general(&[2], &[1])), ErrorClass::Count);
        assert_eq!(class(general(&[1], &[9])), ErrorClass::Rank);
    });
}

#[test]
fn graphs_that_everybody_knows() {
    with_tasks([3, 5], |_, world| {
        // A triangle, with each edge in both directions.
        let (index, edges) = ([2, 4, 6], [1, 2, 0, 2, 0, 1]);
        assert_eq!(world.map_graph(&index, &edges).unwrap().is_some(), world.rank() < 3);
        let graph = world.create_graph(&index, &edges).unwrap();
        assert_eq!(graph.is_some(), world.rank() < 3);
        if let Some(graph) = graph {
            assert_eq!(graph.graph().unwrap().edges(), edges);
            assert_eq!(graph.graph().unwrap().neighbors(0).unwrap(), [1, 2]);
            talk_to_neighbors(&graph);
        }
    });
}

#[test]
fn graphs_of_which_each_task_knows_its_part() {
    with_tasks([1, 4], |_, world| {
        let (rank, size) = (world.rank(), world.size());
        let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
        let weights = |weight| Weights::Each(vec![weight]);
        let ring = world
            .create_distributed_graph_adjacent(
                (&[left], &weights(left)),
                (&[right], &weights(rank)),
                &Info::new(),
            )
            .unwrap();
        let part = ring.distributed_graph().unwrap();
        assert!(part.is_weighted());
        assert_eq!((part.sources(), part.destinations()), (&[left][..], &[right][..]));
        talk_to_neighbors(&ring);
        // The same ring, whose edges the first task names for all.
        let all: Vec<u32> = (0..size).collect();
        let to: Vec<u32> = all.iter().map(|rank| (rank + 1) % size).collect();
        let (sources, degrees, to) =
            if rank == 0 { (all.clone(), vec![1; all.len()], to) } else { (vec![], vec![], vec![]) };
        let weights = Weights::Each(sources.clone());
        let general =
            world.create_distributed_graph((&sources, &degrees), &to, &weights, &Info::new()).unwrap();
        assert_eq!(general.distributed_graph().unwrap(), part);
        talk_to_neighbors(&general);
        let plain = world
            .create_distributed_graph((&[rank], &[2]), &[right, right], &Weights::Unweighted, &Info::new())
            .unwrap();
        assert_eq!(plain.distributed_graph().unwrap().sources(), [left, left]);
        assert!(!plain.distributed_graph().unwrap().is_weighted());
        assert!(matches!(plain.dup().unwrap().topology(), Some(Topology::DistributedGraph(_))));
        talk_to_neighbors(&plain);
    });
}
