//! Virtual topologies (MPI 5.0 chapter 8).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::c_int;

use mpi_over_am::ErrorClass;
use mpi_over_am::topology::{Topology, Weights, dimensions};

use crate::communicators::make;
use crate::constants::{
    MPI_CART, MPI_DIST_GRAPH, MPI_GRAPH, MPI_PROC_NULL, MPI_UNDEFINED, MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY,
};
use crate::data::dest_of;
use crate::errors::{on_communicator, on_process};
use crate::failure::{Failure, Outcome, elements, not_null};
use crate::infos::info_of;
use crate::types::{MPI_Comm, MPI_Info};

/// Numbers that are 0 or more.
fn naturals(numbers: &[c_int], class: ErrorClass, what: &str) -> Outcome<Vec<u32>> {
    let natural = |&number: &c_int| {
        u32::try_from(number).map_err(|_| Failure::new(class, format!("{what} is {number}, below zero")))
    };
    numbers.iter().map(natural).collect()
}

fn natural(number: c_int, class: ErrorClass, what: &str) -> Outcome<u32> {
    Ok(naturals(&[number], class, what)?[0])
}

fn truths(numbers: &[c_int]) -> Vec<bool> {
    numbers.iter().map(|&number| number != 0).collect()
}

/// Stores as many numbers as the array holds.
unsafe fn give(numbers: impl ExactSizeIterator<Item = u32>, capacity: c_int, at: *mut c_int) -> Outcome<()> {
    let capacity = natural(capacity, ErrorClass::Argument, "the length of an array")? as usize;
    if capacity.min(numbers.len()) > 0 {
        not_null(at)?;
    }
    for (index, number) in numbers.take(capacity).enumerate() {
        unsafe { *at.add(index) = number as c_int };
    }
    Ok(())
}

/// The dimensions and periods of a grid.
unsafe fn grid_of(count: c_int, dims: *const c_int, periods: *const c_int) -> Outcome<(Vec<u32>, Vec<bool>)> {
    let (dims, periods) = unsafe { (elements(dims, count)?, elements(periods, count)?) };
    Ok((naturals(dims, ErrorClass::Dimensions, "a dimension")?, truths(periods)))
}

pub(crate) unsafe fn mpi_cart_create(
    comm: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    _reorder: c_int,
    new: *mut MPI_Comm,
) -> c_int {
    make("MPI_Cart_create", comm, new, |_, communicator| {
        let (dims, periods) = unsafe { grid_of(ndims, dims, periods)? };
        Ok(communicator.create_cartesian(&dims, &periods)?)
    })
}

pub(crate) unsafe fn mpi_cart_map(
    comm: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    new: *mut c_int,
) -> c_int {
    on_communicator("MPI_Cart_map", comm, |_, object| {
        let (dims, periods) = unsafe { grid_of(ndims, dims, periods)? };
        let rank = object.communicator.map_cartesian(&dims, &periods)?;
        unsafe { *not_null(new)? = rank.map_or(MPI_UNDEFINED, |rank| rank as c_int) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> c_int {
    on_process("MPI_Dims_create", |_| {
        let tasks = natural(nnodes, ErrorClass::Dimensions, "the number of tasks")?;
        let given = unsafe { elements(dims.cast_const(), ndims)? };
        let mut filled = naturals(given, ErrorClass::Dimensions, "a dimension")?;
        dimensions(tasks, &mut filled)?;
        unsafe { give(filled.into_iter(), ndims, dims) }
    })
}

pub(crate) unsafe fn mpi_cartdim_get(comm: MPI_Comm, ndims: *mut c_int) -> c_int {
    on_communicator("MPI_Cartdim_get", comm, |_, object| {
        unsafe { *not_null(ndims)? = object.communicator.cartesian()?.dimensions().len() as c_int };
        Ok(())
    })
}

/// Refuses arrays that are too short for a grid.
fn check_capacity(capacity: c_int, dimensions: usize) -> Outcome<()> {
    if natural(capacity, ErrorClass::Argument, "the length of an array")? as usize >= dimensions {
        return Ok(());
    }
    let what = format!("the array has {capacity} elements, and the grid has {dimensions} dimensions");
    Err(Failure::new(ErrorClass::Argument, what))
}

pub(crate) unsafe fn mpi_cart_get(
    comm: MPI_Comm,
    maxdims: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> c_int {
    on_communicator("MPI_Cart_get", comm, |_, object| {
        let grid = object.communicator.cartesian()?;
        check_capacity(maxdims, grid.dimensions().len())?;
        let own = grid.coordinates(object.communicator.rank())?;
        unsafe {
            give(grid.dimensions().iter().copied(), maxdims, dims)?;
            give(grid.periods().iter().map(|&period| u32::from(period)), maxdims, periods)?;
            give(own.into_iter(), maxdims, coords)
        }
    })
}

pub(crate) unsafe fn mpi_cart_rank(comm: MPI_Comm, coords: *const c_int, rank: *mut c_int) -> c_int {
    on_communicator("MPI_Cart_rank", comm, |_, object| {
        let grid = object.communicator.cartesian()?;
        let coords = unsafe { elements(coords, grid.dimensions().len() as c_int)? };
        unsafe { *not_null(rank)? = grid.rank(coords)? as c_int };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_cart_coords(
    comm: MPI_Comm,
    rank: c_int,
    maxdims: c_int,
    coords: *mut c_int,
) -> c_int {
    on_communicator("MPI_Cart_coords", comm, |_, object| {
        let grid = object.communicator.cartesian()?;
        check_capacity(maxdims, grid.dimensions().len())?;
        let found = grid.coordinates(natural(rank, ErrorClass::Rank, "the rank")?)?;
        unsafe { give(found.into_iter(), maxdims, coords) }
    })
}

pub(crate) unsafe fn mpi_cart_shift(
    comm: MPI_Comm,
    direction: c_int,
    disp: c_int,
    source: *mut c_int,
    dest: *mut c_int,
) -> c_int {
    on_communicator("MPI_Cart_shift", comm, |_, object| {
        let (source, dest) = (not_null(source)?, not_null(dest)?);
        let grid = object.communicator.cartesian()?;
        let direction = natural(direction, ErrorClass::Dimensions, "the dimension")? as usize;
        let shift = grid.shift(object.communicator.rank(), direction, disp)?;
        let rank = |rank: Option<u32>| rank.map_or(MPI_PROC_NULL, |rank| rank as c_int);
        unsafe { (*source, *dest) = (rank(shift.source), rank(shift.dest)) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_cart_sub(comm: MPI_Comm, remain_dims: *const c_int, new: *mut MPI_Comm) -> c_int {
    make("MPI_Cart_sub", comm, new, |_, communicator| {
        let count = communicator.cartesian()?.dimensions().len() as c_int;
        let remains = truths(unsafe { elements(remain_dims, count)? });
        Ok(Some(communicator.sub_cartesian(&remains)?))
    })
}

/// The index and the edges of a graph.
unsafe fn graph_of(nodes: c_int, index: *const c_int, edges: *const c_int) -> Outcome<(Vec<u32>, Vec<u32>)> {
    let index = unsafe { elements(index, nodes)? };
    let edges = unsafe { elements(edges, index.last().copied().unwrap_or(0))? };
    Ok((
        naturals(index, ErrorClass::Topology, "an index of edges")?,
        naturals(edges, ErrorClass::Topology, "an edge's end")?,
    ))
}

pub(crate) unsafe fn mpi_graph_create(
    comm: MPI_Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    _reorder: c_int,
    new: *mut MPI_Comm,
) -> c_int {
    make("MPI_Graph_create", comm, new, |_, communicator| {
        let (index, edges) = unsafe { graph_of(nnodes, index, edges)? };
        Ok(communicator.create_graph(&index, &edges)?)
    })
}

pub(crate) unsafe fn mpi_graph_map(
    comm: MPI_Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    new: *mut c_int,
) -> c_int {
    on_communicator("MPI_Graph_map", comm, |_, object| {
        let (index, edges) = unsafe { graph_of(nnodes, index, edges)? };
        let rank = object.communicator.map_graph(&index, &edges)?;
        unsafe { *not_null(new)? = rank.map_or(MPI_UNDEFINED, |rank| rank as c_int) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_graphdims_get(comm: MPI_Comm, nodes: *mut c_int, edges: *mut c_int) -> c_int {
    on_communicator("MPI_Graphdims_get", comm, |_, object| {
        let (nodes, edges) = (not_null(nodes)?, not_null(edges)?);
        let graph = object.communicator.graph()?;
        unsafe { (*nodes, *edges) = (graph.index().len() as c_int, graph.edges().len() as c_int) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_graph_get(
    comm: MPI_Comm,
    maxindex: c_int,
    maxedges: c_int,
    index: *mut c_int,
    edges: *mut c_int,
) -> c_int {
    on_communicator("MPI_Graph_get", comm, |_, object| {
        let graph = object.communicator.graph()?;
        unsafe {
            give(graph.index().iter().copied(), maxindex, index)?;
            give(graph.edges().iter().copied(), maxedges, edges)
        }
    })
}

pub(crate) unsafe fn mpi_graph_neighbors_count(comm: MPI_Comm, rank: c_int, count: *mut c_int) -> c_int {
    on_communicator("MPI_Graph_neighbors_count", comm, |_, object| {
        let rank = natural(rank, ErrorClass::Rank, "the rank")?;
        unsafe { *not_null(count)? = object.communicator.graph()?.neighbors(rank)?.len() as c_int };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_graph_neighbors(
    comm: MPI_Comm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: *mut c_int,
) -> c_int {
    on_communicator("MPI_Graph_neighbors", comm, |_, object| {
        let found = object.communicator.graph()?.neighbors(natural(rank, ErrorClass::Rank, "the rank")?)?;
        unsafe { give(found.iter().copied(), maxneighbors, neighbors) }
    })
}

/// The weights of `edges` edges.
unsafe fn weights_of(at: *const c_int, edges: usize) -> Outcome<Weights> {
    if at.addr() == MPI_UNWEIGHTED {
        return Ok(Weights::Unweighted);
    }
    if edges > 0 && at.addr() == MPI_WEIGHTS_EMPTY {
        let what = format!("MPI_WEIGHTS_EMPTY was given for {edges} edges");
        return Err(Failure::new(ErrorClass::Argument, what));
    }
    let weights = unsafe { elements(at, edges as c_int)? };
    Ok(Weights::Each(naturals(weights, ErrorClass::Argument, "the weight of an edge")?))
}

fn ranks_of(ranks: &[c_int]) -> Outcome<Vec<u32>> {
    ranks.iter().map(|&rank| dest_of(rank)).collect()
}

pub(crate) unsafe fn mpi_dist_graph_create_adjacent(
    comm: MPI_Comm,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    info: MPI_Info,
    _reorder: c_int,
    new: *mut MPI_Comm,
) -> c_int {
    make("MPI_Dist_graph_create_adjacent", comm, new, |_, communicator| {
        let sources = ranks_of(unsafe { elements(sources, indegree)? })?;
        let destinations = ranks_of(unsafe { elements(destinations, outdegree)? })?;
        let (into, from) = unsafe {
            (weights_of(sourceweights, sources.len())?, weights_of(destweights, destinations.len())?)
        };
        Ok(Some(communicator.create_distributed_graph_adjacent(
            (&sources, &into),
            (&destinations, &from),
            &info_of(info)?,
        )?))
    })
}

pub(crate) unsafe fn mpi_dist_graph_create(
    comm: MPI_Comm,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
    info: MPI_Info,
    _reorder: c_int,
    new: *mut MPI_Comm,
) -> c_int {
    make("MPI_Dist_graph_create", comm, new, |_, communicator| {
        let sources = ranks_of(unsafe { elements(sources, n)? })?;
        let degrees = naturals(unsafe { elements(degrees, n)? }, ErrorClass::Argument, "a degree")?;
        let edges: u64 = degrees.iter().map(|&degree| u64::from(degree)).sum();
        let edges = c_int::try_from(edges).map_err(|_| {
            Failure::new(
                ErrorClass::Argument,
                format!("the sum of the degrees is {edges}, more than an int holds"),
            )
        })?;
        let destinations = ranks_of(unsafe { elements(destinations, edges)? })?;
        let weights = unsafe { weights_of(weights, destinations.len())? };
        let ends = (sources.as_slice(), degrees.as_slice());
        Ok(Some(communicator.create_distributed_graph(ends, &destinations, &weights, &info_of(info)?)?))
    })
}

pub(crate) unsafe fn mpi_dist_graph_neighbors_count(
    comm: MPI_Comm,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> c_int {
    on_communicator("MPI_Dist_graph_neighbors_count", comm, |_, object| {
        let (indegree, outdegree, weighted) =
            (not_null(indegree)?, not_null(outdegree)?, not_null(weighted)?);
        let graph = object.communicator.distributed_graph()?;
        unsafe {
            (*indegree, *outdegree) = (graph.sources().len() as c_int, graph.destinations().len() as c_int);
            *weighted = c_int::from(graph.is_weighted());
        }
        Ok(())
    })
}

/// Stores weights, if there are some and the program wants them.
unsafe fn give_weights(weights: &Weights, capacity: c_int, at: *mut c_int) -> Outcome<()> {
    match weights {
        Weights::Each(weights) if at.addr() != MPI_UNWEIGHTED && at.addr() != MPI_WEIGHTS_EMPTY => unsafe {
            give(weights.iter().copied(), capacity, at)
        },
        _ => Ok(()),
    }
}

pub(crate) unsafe fn mpi_dist_graph_neighbors(
    comm: MPI_Comm,
    maxindegree: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> c_int {
    on_communicator("MPI_Dist_graph_neighbors", comm, |_, object| {
        let graph = object.communicator.distributed_graph()?;
        unsafe {
            give(graph.sources().iter().copied(), maxindegree, sources)?;
            give_weights(graph.source_weights(), maxindegree, sourceweights)?;
            give(graph.destinations().iter().copied(), maxoutdegree, destinations)?;
            give_weights(graph.destination_weights(), maxoutdegree, destweights)
        }
    })
}

pub(crate) unsafe fn mpi_topo_test(comm: MPI_Comm, status: *mut c_int) -> c_int {
    on_communicator("MPI_Topo_test", comm, |_, object| {
        let kind = match object.communicator.topology() {
            Some(Topology::Cartesian(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::DistributedGraph(_)) => MPI_DIST_GRAPH,
            None => MPI_UNDEFINED,
        };
        unsafe { *not_null(status)? = kind };
        Ok(())
    })
}
