//! Collectives, prepared with their arguments. A collective that borrows its buffers can be carried out by [`run`](Prepared::run), which
//! waits, or started in a scope by [`start`](Prepared::start). A collective that owns its buffer, a vector, can be started without a scope
//! by [`start_owned`](Prepared::start_owned), or made persistent, for repeated starts, by [`keep`](Prepared::keep). A barrier can be all of
//! these.
//!
//! ```
//! use mpi_over_am::{Environment, collective, op};
//!
//! # fn main() -> mpi_over_am::Result<()> {
//! # let environment = Environment::init()?;
//! let world = environment.world();
//! let (own, mut sums) = ([1u64, 2], [0; 2]);
//! // The short form of `collective::allreduce(&own, &mut sums, op::Sum).run(&world)?`.
//! world.allreduce(&own, &mut sums, op::Sum)?;
//! world.scope(|s| {
//!     let reduction = collective::allreduce(&own, &mut sums, op::Sum).start(s)?;
//!     // A computation here overlaps the reduction.
//!     s.wait(reduction)
//! })?;
//! let mut kept = collective::allreduce_in_place(vec![1u64, 2], op::Sum).keep(&world)?;
//! for _ in 0..10 {
//!     kept.start()?;
//!     kept.wait()?;
//! }
//! # drop(kept);
//! # environment.finalize()
//! # }
//! ```

use am_core::fabric::Fabric;

use super::arguments::{LayoutPart, Placement};
use super::prepared::{Buffer, Make, NoOperator, Nothing, Prepared, in_buffer};
use super::{Collective, Datum, Neighbours};
use crate::communicator::Communicator;
use crate::data::buffer::Equivalence;
use crate::data::op::{Operation, TypedOperation};
use crate::error::{Error, Result};
use crate::policy::LockPolicy;
use bytemuck::{AnyBitPattern, NoUninit};

/// Makes from each entry a function that prepares the collective, and a method of [`Communicator`] that runs it. An entry is the
/// documentation of the method, the names in MPI, the name here, the type parameters, the arguments, and what makes the [`Collective`] of
/// the arguments and the task's [`Position`](super::Position). Arguments without a type are `buffer`, for data and result, and, after a
/// semicolon, the operator.
macro_rules! collectives {
    ($($(#[$doc:meta])+ $mpi:literal $name:ident $types:tt $arguments:tt |$position:ident| $make:block)+) => {
        $(collectives! { @prepare $mpi $name $types $arguments $position $make })+

        impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
            $(collectives! { @run [$(#[$doc])+] $name $types $arguments })+
        }
    };
    (@prepare $mpi:literal $name:ident [$($t:ident: $bound:ident),+] ($($arg:tt: $type:ty),+) $position:ident $make:block) => {
        #[doc = collectives!(@documentation $name "to be run or started" $mpi)]
        pub fn $name<$($t: $bound),+>($($arg: $type),+) -> Prepared<(), NoOperator, impl Make<()>> {
            in_buffer((), NoOperator, move |(): &mut (), $position, _| Ok($make))
        }
    };
    (@prepare $mpi:literal $name:ident [$t:ident: $bound:ident] ($($arg:tt: $type:ty),+; $op:ident $(, $late:ident: $late_type:ty)*)
        $position:ident $make:block) => {
        #[doc = collectives!(@documentation $name "to be run or started" $mpi)]
        pub fn $name<$t: $bound, O: Operation<$t>>(
            $($arg: $type,)+
            $op: O,
            $($late: $late_type,)*
        ) -> Prepared<(), TypedOperation<$t, O>, impl Make<()>> {
            in_buffer((), TypedOperation::new($op), move |(): &mut (), $position, $op| Ok($make))
        }
    };
    (@prepare $mpi:literal $name:ident [$t:ident: $bound:ident] ($buffer:ident $(, $arg:ident: $type:ty)*) $position:ident $make:block) => {
        #[doc = collectives!(@documentation $name "to be run or started, or, if `buffer` is a `Vec`, started or kept" $mpi)]
        pub fn $name<B: Buffer<Item: $bound>>($buffer: B, $($arg: $type),*) -> Prepared<B, NoOperator, impl Make<B>> {
            in_buffer($buffer, NoOperator, move |$buffer: &mut B, $position, _| {
                let $buffer = $buffer.as_mut_slice();
                Ok($make)
            })
        }
    };
    (@prepare $mpi:literal $name:ident [$t:ident: $bound:ident] ($buffer:ident; $op:ident $(, $late:ident: $late_type:ty)*)
        $position:ident $make:block) => {
        #[doc = collectives!(@documentation $name "to be run or started, or, if `buffer` is a `Vec`, started or kept" $mpi)]
        pub fn $name<B: Buffer<Item: $bound>, O: Operation<B::Item>>(
            $buffer: B,
            $op: O,
            $($late: $late_type,)*
        ) -> Prepared<B, TypedOperation<B::Item, O>, impl Make<B>> {
            in_buffer($buffer, TypedOperation::new($op), move |$buffer: &mut B, $position, $op| {
                let $buffer = $buffer.as_mut_slice();
                Ok($make)
            })
        }
    };
    (@documentation $name:ident $ways:literal $mpi:literal) => {
        concat!(
            "Prepares [`Communicator::", stringify!($name), "`](crate::Communicator::", stringify!($name), "), ", $ways, " (", $mpi, ").",
        )
    };
    (@run [$(#[$doc:meta])+] $name:ident [$($t:ident: $bound:ident),+]
        ($($arg:tt: $type:ty),+ $(; $op:ident $(, $late:ident: $late_type:ty)*)?)) => {
        $(#[$doc])+
        pub fn $name<$($t: $bound),+>(
            &self,
            $($arg: $type,)+
            $($op: impl Operation<T>, $($late: $late_type,)*)?
        ) -> Result<()> {
            $name($($arg,)+ $($op, $($late,)*)?).run(self)
        }
    };
    (@run [$(#[$doc:meta])+] $name:ident [$t:ident: $bound:ident]
        ($buffer:ident $(, $arg:ident: $type:ty)* $(; $op:ident $(, $late:ident: $late_type:ty)*)?)) => {
        $(#[$doc])+
        pub fn $name<$t: $bound>(
            &self,
            $buffer: &mut [$t],
            $($arg: $type,)*
            $($op: impl Operation<$t>, $($late: $late_type,)*)?
        ) -> Result<()> {
            $name($buffer, $($arg,)* $($op, $($late,)*)?).run(self)
        }
    };
}

collectives! {
    /// Copies the elements of rank `root`'s `buffer` to the `buffer` of every other task (`MPI_Bcast`). All buffers must have the same
    /// length.
    ///
    /// # Errors
    /// An unknown root, buffers of different lengths, the death of a task.
    "`MPI_Bcast`, `MPI_Ibcast`, `MPI_Bcast_init`"
    broadcast[T: Equivalence](buffer, root: u32) |position| {
        Collective::Broadcast { data: position.elements_mut(buffer)?, root }
    }

    /// Collects the elements of every task's `send` in rank `root`'s `recv`, in the order of the ranks (`MPI_Gather`). All parts must have
    /// the same length; the other tasks' `recv` is unused.
    ///
    /// # Errors
    /// An unknown root, buffers that do not match, the death of a task.
    "`MPI_Gather`, `MPI_Igather`"
    gather[T: Equivalence](send: &[T], recv: &mut [T], root: u32) |position| {
        let each = (send.len(), position.partners());
        let recv = position.at_root(root, || position.parts_mut("gather: the receive buffer", recv, each))?;
        Collective::Gather { is_equal: true, send: Some(position.elements(send)?), recv, root }
    }

    /// Like [`gather`](Self::gather), with parts of any length and position (`MPI_Gatherv`). Only the root's `placement` is used.
    ///
    /// # Errors
    /// Those of [`gather`](Self::gather).
    "`MPI_Gatherv`, `MPI_Igatherv`"
    gatherv[T: Equivalence](send: &[T], (recv, placement): (&mut [T], Placement<'_>), root: u32) |position| {
        let recv = position.at_root(root, || position.placed_mut("gatherv", (recv, placement)))?;
        Collective::Gather { is_equal: false, send: Some(position.elements(send)?), recv, root }
    }

    /// Sends each task its part of rank `root`'s `send` (`MPI_Scatter`). All parts must have the same length; the other tasks' `send` is
    /// unused.
    ///
    /// # Errors
    /// Those of [`gather`](Self::gather).
    "`MPI_Scatter`, `MPI_Iscatter`"
    scatter[T: Equivalence](send: &[T], recv: &mut [T], root: u32) |position| {
        let each = (recv.len(), position.partners());
        let send = position.at_root(root, || position.parts("scatter: the send buffer", send, each))?;
        Collective::Scatter { is_equal: true, send, recv: Some(position.elements_mut(recv)?), root }
    }

    /// Like [`scatter`](Self::scatter), with parts of any length and position (`MPI_Scatterv`). Only the root's `placement` is used.
    ///
    /// # Errors
    /// Those of [`gather`](Self::gather).
    "`MPI_Scatterv`, `MPI_Iscatterv`"
    scatterv[T: Equivalence]((send, placement): (&[T], Placement<'_>), recv: &mut [T], root: u32) |position| {
        let send = position.at_root(root, || position.placed("scatterv", (send, placement)))?;
        Collective::Scatter { is_equal: false, send, recv: Some(position.elements_mut(recv)?), root }
    }

    /// Collects the elements of every task's `send` in every task's `recv` (`MPI_Allgather`). All parts must have the same length.
    ///
    /// # Errors
    /// Buffers that do not match, the death of a task.
    "`MPI_Allgather`, `MPI_Iallgather`"
    allgather[T: Equivalence](send: &[T], recv: &mut [T]) |position| {
        let recv = position.parts_mut("allgather: the receive buffer", recv, (send.len(), position.partners()))?;
        Collective::Allgather { send: Some(position.elements(send)?), recv }
    }

    /// Like [`allgather`](Self::allgather), with one buffer for data and result: this task's part must already be at its position
    /// (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// Those of [`allgather`](Self::allgather).
    "`MPI_Allgather` with `MPI_IN_PLACE`"
    allgather_in_place[T: Equivalence](buffer) |position| {
        let ranks = position.size as usize;
        let each = (buffer.len() / ranks, ranks);
        Collective::Allgather { send: None, recv: position.parts_mut("allgather: the buffer", buffer, each)? }
    }

    /// Like [`allgather`](Self::allgather), with parts of any length and position (`MPI_Allgatherv`).
    ///
    /// # Errors
    /// Those of [`allgather`](Self::allgather).
    "`MPI_Allgatherv`, `MPI_Iallgatherv`"
    allgatherv[T: Equivalence](send: &[T], (recv, placement): (&mut [T], Placement<'_>)) |position| {
        let recv = position.placed_mut("allgatherv", (recv, placement))?;
        Collective::Allgather { send: Some(position.elements(send)?), recv }
    }

    /// Sends the `r`th part of `send` to rank `r`, and receives the `r`th part of `recv` from that rank (`MPI_Alltoall`). All parts must
    /// have the same length.
    ///
    /// # Errors
    /// Buffers that do not match, the death of a task.
    "`MPI_Alltoall`, `MPI_Ialltoall`"
    alltoall[T: Equivalence](send: &[T], recv: &mut [T]) |position| {
        let each = (send.len() / position.partners(), position.partners());
        let send = Some(position.parts("alltoall: the send buffer", send, each)?);
        Collective::Alltoall { send, recv: position.parts_mut("alltoall: the receive buffer", recv, each)? }
    }

    /// Like [`alltoall`](Self::alltoall), with one buffer for data and result (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// Those of [`alltoall`](Self::alltoall).
    "`MPI_Alltoall` with `MPI_IN_PLACE`"
    alltoall_in_place[T: Equivalence](buffer) |position| {
        let ranks = position.size as usize;
        let each = (buffer.len() / ranks, ranks);
        Collective::Alltoall { send: None, recv: position.parts_mut("alltoall: the buffer", buffer, each)? }
    }

    /// Like [`alltoall`](Self::alltoall), with parts of any length and position (`MPI_Alltoallv`).
    ///
    /// # Errors
    /// Those of [`alltoall`](Self::alltoall).
    "`MPI_Alltoallv`, `MPI_Ialltoallv`"
    alltoallv[T: Equivalence]((send, from): (&[T], Placement<'_>), (recv, to): (&mut [T], Placement<'_>)) |position| {
        let send = Some(position.placed("alltoallv: the send buffer", (send, from))?);
        Collective::Alltoall { send, recv: position.placed_mut("alltoallv: the receive buffer", (recv, to))? }
    }

    /// Sends the `r`th part of `send` to rank `r`, and receives the `r`th part of `recv` from it, each with its own type (`MPI_Alltoallw`).
    /// The parts of `recv` must not overlap.
    ///
    /// # Errors
    /// Parts outside the slices; a number of parts other than the number of ranks; lengths that do not match; the death of a task.
    "`MPI_Alltoallw`, `MPI_Ialltoallw`"
    alltoallw[T: NoUninit, U: AnyBitPattern](
        (send, from): (&[T], &[LayoutPart<'_>]),
        (recv, to): (&mut [U], &[LayoutPart<'_>])
    ) |position| {
        Collective::Alltoall { send: Some(position.layouts(send, from)?), recv: position.layouts_mut(recv, to)? }
    }

    /// Combines the elements of all tasks' `send`, index by index, into rank `root`'s `recv` (`MPI_Reduce`). All buffers must have the same
    /// length; the other tasks' `recv` is unused.
    ///
    /// # Errors
    /// An unknown root, buffers that do not match, the death of a task.
    "`MPI_Reduce`, `MPI_Ireduce`"
    reduce[T: Datum](send: &[T], recv: &mut [T]; op, root: u32) |position| {
        let recv = position.at_root(root, || position.results(recv))?;
        Collective::Reduce { send: Some(position.operands(send)?), recv, op, root }
    }

    /// Like [`reduce`](Self::reduce), with one buffer for data and result at the root (`MPI_IN_PLACE`); the buffers of other tasks are
    /// unchanged.
    ///
    /// # Errors
    /// Those of [`reduce`](Self::reduce).
    "`MPI_Reduce` with `MPI_IN_PLACE` at the root"
    reduce_in_place[T: Datum](buffer; op, root: u32) |position| {
        let (send, recv) = match position.is_root(root) {
            true => (None, Some(position.results(buffer)?)),
            false => (Some(position.operands(buffer)?), None),
        };
        Collective::Reduce { send, recv, op, root }
    }

    /// Combines the elements of all tasks' `send`, index by index, into every task's `recv` (`MPI_Allreduce`). All buffers must have the
    /// same length.
    ///
    /// # Errors
    /// Buffers of different lengths, the death of a task.
    "`MPI_Allreduce`, `MPI_Iallreduce`"
    allreduce[T: Datum](send: &[T], recv: &mut [T]; op) |position| {
        Collective::Allreduce { send: Some(position.operands(send)?), recv: position.results(recv)?, op }
    }

    /// Like [`allreduce`](Self::allreduce), with one buffer for data and result (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// Those of [`allreduce`](Self::allreduce).
    "`MPI_Allreduce` with `MPI_IN_PLACE`"
    allreduce_in_place[T: Datum](buffer; op) |position| {
        Collective::Allreduce { send: None, recv: position.results(buffer)?, op }
    }

    /// Combines the elements of all tasks' `send`, and stores one block of the result in each task's `recv` (`MPI_Reduce_scatter_block`).
    /// All blocks must have the same length.
    ///
    /// # Errors
    /// Those of [`allreduce`](Self::allreduce).
    "`MPI_Reduce_scatter_block`, `MPI_Ireduce_scatter_block`"
    reduce_scatter_block[T: Datum](send: &[T], recv: &mut [T]; op) |position| {
        let count = recv.len() as u64;
        let (send, recv) = (Some(position.operands(send)?), position.results(recv)?);
        Collective::ReduceScatterBlock { send, recv, count, op }
    }

    /// Like [`reduce_scatter_block`](Self::reduce_scatter_block), with `counts[r]` elements for rank `r` (`MPI_Reduce_scatter`).
    ///
    /// # Errors
    /// Those of [`allreduce`](Self::allreduce).
    "`MPI_Reduce_scatter`, `MPI_Ireduce_scatter`"
    reduce_scatter[T: Datum](send: &[T], recv: &mut [T], counts: &[usize]; op) |position| {
        if let Some(&expected) = counts.get(position.rank as usize)
            && expected != recv.len()
        {
            let call = "reduce_scatter: the receive buffer";
            return Err(Error::Count { call, given: recv.len(), expected });
        }
        let counts = counts.iter().map(|&count| count as u64).collect();
        let (send, recv) = (Some(position.operands(send)?), position.results(recv)?);
        Collective::ReduceScatter { send, recv, counts, op }
    }

    /// Combines the elements of `send` of this rank and all lower ranks into `recv` (`MPI_Scan`). All buffers must have the same length.
    ///
    /// # Errors
    /// Those of [`allreduce`](Self::allreduce).
    "`MPI_Scan`, `MPI_Iscan`"
    scan[T: Datum](send: &[T], recv: &mut [T]; op) |position| {
        Collective::Scan { send: Some(position.operands(send)?), recv: position.results(recv)?, op }
    }

    /// Like [`scan`](Self::scan), with one buffer for data and result (`MPI_IN_PLACE`).
    ///
    /// # Errors
    /// Those of [`allreduce`](Self::allreduce).
    "`MPI_Scan` with `MPI_IN_PLACE`"
    scan_in_place[T: Datum](buffer; op) |position| {
        Collective::Scan { send: None, recv: position.results(buffer)?, op }
    }

    /// Combines the elements of `send` of all lower ranks into `recv`, which is unchanged at rank 0 (`MPI_Exscan`).
    ///
    /// # Errors
    /// Those of [`allreduce`](Self::allreduce).
    "`MPI_Exscan`, `MPI_Iexscan`"
    exscan[T: Datum](send: &[T], recv: &mut [T]; op) |position| {
        Collective::ExclusiveScan { send: Some(position.operands(send)?), recv: position.results(recv)?, op }
    }

    /// Sends `send` to each neighbour, and receives a block of the same length from each (`MPI_Neighbor_allgather`).
    ///
    /// # Errors
    /// An unknown rank, buffers that do not match, the death of a task.
    "`MPI_Neighbor_allgather`, `MPI_Ineighbor_allgather`"
    neighbor_allgather[T: Equivalence](send: &[T], recv: &mut [T], neighbours: &Neighbours) |position| {
        let each = (send.len(), neighbours.sources.len());
        let recv = position.parts_mut("neighbor_allgather: the receive buffer", recv, each)?;
        Collective::NeighbourAllgather { send: position.elements(send)?, recv, neighbours: neighbours.clone() }
    }

    /// Like [`neighbor_allgather`](Self::neighbor_allgather), with parts of any length and position (`MPI_Neighbor_allgatherv`).
    ///
    /// # Errors
    /// Those of [`neighbor_allgather`](Self::neighbor_allgather).
    "`MPI_Neighbor_allgatherv`, `MPI_Ineighbor_allgatherv`"
    neighbor_allgatherv[T: Equivalence](
        send: &[T],
        (recv, placement): (&mut [T], Placement<'_>),
        neighbours: &Neighbours
    ) |position| {
        let recv = position.placed_mut("neighbor_allgatherv", (recv, placement))?;
        Collective::NeighbourAllgather { send: position.elements(send)?, recv, neighbours: neighbours.clone() }
    }

    /// Sends a block to each neighbour, and receives one from each (`MPI_Neighbor_alltoall`). All blocks must have the same length.
    ///
    /// # Errors
    /// Those of [`neighbor_allgather`](Self::neighbor_allgather).
    "`MPI_Neighbor_alltoall`, `MPI_Ineighbor_alltoall`"
    neighbor_alltoall[T: Equivalence](send: &[T], recv: &mut [T], neighbours: &Neighbours) |position| {
        let (destinations, sources) = (neighbours.destinations.len(), neighbours.sources.len());
        let blocks = [(send.len(), destinations), (recv.len(), sources)];
        let count = blocks.map(|(len, parts)| len.checked_div(parts)).into_iter().flatten().next().unwrap_or(0);
        let send = position.parts("neighbor_alltoall: the send buffer", send, (count, destinations))?;
        let recv = position.parts_mut("neighbor_alltoall: the receive buffer", recv, (count, sources))?;
        Collective::NeighbourAlltoall { send, recv, neighbours: neighbours.clone() }
    }

    /// Like [`neighbor_alltoall`](Self::neighbor_alltoall), with parts of any length and position (`MPI_Neighbor_alltoallv`).
    ///
    /// # Errors
    /// Those of [`neighbor_allgather`](Self::neighbor_allgather).
    "`MPI_Neighbor_alltoallv`, `MPI_Ineighbor_alltoallv`"
    neighbor_alltoallv[T: Equivalence](
        (send, from): (&[T], Placement<'_>),
        (recv, to): (&mut [T], Placement<'_>),
        neighbours: &Neighbours
    ) |position| {
        let send = position.placed("neighbor_alltoallv: the send buffer", (send, from))?;
        let recv = position.placed_mut("neighbor_alltoallv: the receive buffer", (recv, to))?;
        Collective::NeighbourAlltoall { send, recv, neighbours: neighbours.clone() }
    }

    /// Like [`neighbor_alltoallv`](Self::neighbor_alltoallv), with a type for each part (`MPI_Neighbor_alltoallw`).
    ///
    /// # Errors
    /// Those of [`alltoallw`](Self::alltoallw).
    "`MPI_Neighbor_alltoallw`, `MPI_Ineighbor_alltoallw`"
    neighbor_alltoallw[T: NoUninit, U: AnyBitPattern](
        (send, from): (&[T], &[LayoutPart<'_>]),
        (recv, to): (&mut [U], &[LayoutPart<'_>]),
        neighbours: &Neighbours
    ) |position| {
        let (send, recv) = (position.layouts(send, from)?, position.layouts_mut(recv, to)?);
        Collective::NeighbourAlltoall { send, recv, neighbours: neighbours.clone() }
    }
}

/// Prepares [`Communicator::barrier`](crate::Communicator::barrier), to be run, started or kept (`MPI_Barrier`, `MPI_Ibarrier`,
/// `MPI_Barrier_init`).
pub fn barrier() -> Prepared<Nothing, NoOperator, impl Make<Nothing>> {
    in_buffer(Nothing, NoOperator, |_, _, _| Ok(Collective::Barrier))
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Waits until all tasks of the communicator have called `barrier` (`MPI_Barrier`).
    ///
    /// # Errors
    /// The death of a task; an error while making progress.
    pub fn barrier(&self) -> Result<()> {
        barrier().run(self)
    }

    /// Like [`gather`](Self::gather), into a new vector, which rank `root` gets; the other ranks get `None`.
    ///
    /// ```
    /// # let environment = mpi_over_am::Environment::init()?;
    /// # let world = environment.world();
    /// if let Some(ranks) = world.gather_vec(&[world.rank()], 0)? {
    ///     assert_eq!(ranks, Vec::from_iter(0..world.size()));
    /// }
    /// # environment.finalize()
    /// # ; Ok::<(), mpi_over_am::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`gather`](Self::gather).
    pub fn gather_vec<T: Equivalence + Default>(&self, send: &[T], root: u32) -> Result<Option<Vec<T>>> {
        let mut all = Vec::new();
        let is_root = self.rank() == root;
        if is_root {
            all.resize_with(send.len() * self.size() as usize, T::default);
        }
        self.gather(send, &mut all, root)?;
        Ok(is_root.then_some(all))
    }
}
