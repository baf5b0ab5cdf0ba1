//! A collective that has its arguments, and the three ways to carry it out.

use std::fmt;

use am_core::fabric::Fabric;

use super::slices::rooms;
use super::{Collective, Datum, Parts, Series};
use crate::buffer::{Equivalence, Keeps, RecvData};
use crate::communicator::Communicator;
use crate::error::Result;
use crate::op::{Combine, Op, Operation, TypedOperation};
use crate::policy::LockPolicy;
use crate::rank::ROOT;
use crate::request::{OwnedRequest, Persistent, Request, Scope};

/// A collective with its arguments, which nothing has been done for yet. Made by the functions of [`collective`](super).
///
/// `B` is the buffer that both is sent and receives the result, `()` where slices are borrowed for both; `O` is the operator.
#[must_use = "a collective is carried out by `run`, `start` or `keep`"]
pub struct Prepared<B, O, M> {
    buffer: B,
    operator: O,
    make: M,
}

impl<B, O, M> fmt::Debug for Prepared<B, O, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").finish_non_exhaustive()
    }
}

/// Makes the collective of a buffer, in a communicator where the task has this place.
pub trait Make<B>: FnOnce(&mut B, Place, Op) -> Result<Collective> {}

impl<B, M: FnOnce(&mut B, Place, Op) -> Result<Collective>> Make<B> for M {}

/// A collective of slices that are borrowed for it.
pub(super) fn of_slices<O>(
    operator: O,
    make: impl FnOnce(Place, Op) -> Result<Collective>,
) -> Prepared<(), O, impl Make<()>> {
    in_buffer((), operator, |(): &mut (), place, op| make(place, op))
}

/// A collective whose result lies where its data lay.
pub(super) fn in_buffer<B, O, M: Make<B>>(buffer: B, operator: O, make: M) -> Prepared<B, O, M> {
    Prepared { buffer, operator, make }
}

/// Where a task stands in its communicator. Only `run`, `start`, `start_owned` and `keep` have one.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Tasks of the other side, in an inter-communicator.
    pub(super) remote: Option<u32>,
}

// SAFETY: `run` waits for the collective; a scope does so for what it started; a request keeps the vector, and so does a persistent one.
#[expect(unsafe_code, reason = "a promise about the buffers of operations (`buffer::Keeps`)")]
unsafe impl Keeps for Place {}

impl Place {
    /// Whether this task is the root that its side names.
    pub(super) fn is_root(self, root: u32) -> bool {
        if self.remote.is_some() { root == ROOT } else { self.rank == root }
    }

    /// Ranks that this task exchanges parts with.
    pub(super) fn partners(self) -> usize {
        self.remote.unwrap_or(self.size) as usize
    }

    /// A slice in as many parts as there are tasks.
    pub(super) fn equal_parts<T: Equivalence>(
        self,
        call: &'static str,
        buffer: &mut [T],
    ) -> Result<Parts<RecvData>> {
        let (count, ranks) = (buffer.len() / self.size as usize, self.size as usize);
        rooms(self, call, buffer, count, ranks)
    }
}

/// What is sent, and then receives the result: a `&mut` to a slice, an array or a vector, or a vector that the operation owns.
pub trait Buffer {
    /// Its elements.
    type Item;

    /// All elements.
    fn as_mut_slice(&mut self) -> &mut [Self::Item];
}

impl<T> Buffer for &mut [T] {
    type Item = T;

    #[inline(always)]
    fn as_mut_slice(&mut self) -> &mut [T] {
        self
    }
}

impl<T, const N: usize> Buffer for &mut [T; N] {
    type Item = T;

    #[inline(always)]
    fn as_mut_slice(&mut self) -> &mut [T] {
        *self
    }
}

impl<T> Buffer for &mut Vec<T> {
    type Item = T;

    #[inline(always)]
    fn as_mut_slice(&mut self) -> &mut [T] {
        self
    }
}

impl<T> Buffer for Vec<T> {
    type Item = T;

    #[inline(always)]
    fn as_mut_slice(&mut self) -> &mut [T] {
        self
    }
}

/// The buffer of a barrier.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

mod sealed {
    use super::Nothing;

    /// Nothing that a value of this type owns is used by a collective: it may go before the collective ends.
    pub trait Lent {}

    impl Lent for () {}
    impl Lent for Nothing {}
    impl<T> Lent for &mut [T] {}
    impl<T, const N: usize> Lent for &mut [T; N] {}
    impl<T> Lent for &mut Vec<T> {}

    /// A buffer that a request keeps until its operation has ended.
    pub trait Owned {
        type Item: Send + 'static;

        fn into_vec(self) -> Vec<Self::Item>;
    }

    impl Owned for Nothing {
        type Item = u8;

        fn into_vec(self) -> Vec<u8> {
            Vec::new()
        }
    }

    impl<T: Send + 'static> Owned for Vec<T> {
        type Item = T;

        fn into_vec(self) -> Self {
            self
        }
    }
}

/// What a collective combines with.
pub trait Operator {
    /// For a call that waits.
    #[doc(hidden)]
    fn as_combine(&self) -> Option<&dyn Combine>;
}

/// An [`Operator`] that can be kept beyond a call.
pub trait KeptOperator: Operator {
    /// The operator, for later.
    #[doc(hidden)]
    fn into_op(self) -> Op;
}

/// The collective combines nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoOperator;

impl Operator for NoOperator {
    #[inline(always)]
    fn as_combine(&self) -> Option<&dyn Combine> {
        None
    }
}

impl KeptOperator for NoOperator {
    fn into_op(self) -> Op {
        Op::BESIDE
    }
}

impl<T: Datum, O: Operation<T>> Operator for TypedOperation<T, O> {
    #[inline(always)]
    fn as_combine(&self) -> Option<&dyn Combine> {
        Some(self)
    }
}

impl<T: Datum, O: Operation<T> + Send + Sync + 'static> KeptOperator for TypedOperation<T, O> {
    fn into_op(self) -> Op {
        Op::from_typed(self)
    }
}

impl<B: sealed::Lent, O: Operator, M: Make<B>> Prepared<B, O, M> {
    /// Carries it out, and returns when this task's part is done.
    ///
    /// # Errors
    /// Arguments that do not fit; the death of a task. See the call of [`Communicator`] with the same name.
    #[inline]
    pub fn run<F: Fabric, L: LockPolicy>(mut self, communicator: &Communicator<F, L>) -> Result<()> {
        let collective = (self.make)(&mut self.buffer, communicator.place(), Op::BESIDE)?;
        communicator.carry_out(&collective, self.operator.as_combine())
    }
}

impl<B: sealed::Lent, O: KeptOperator, M: Make<B>> Prepared<B, O, M> {
    /// Starts it in a scope, and does not wait (`MPI_Ibarrier` and the like; MPI 5.0 section 6.12). All tasks start the collectives of
    /// a communicator in the same order; several may be under way. Operators run inside other
    /// calls, and can make none; in an environment for several threads ([`Threads`](crate::Threads)) they can, and may wait for a thread
    /// that does.
    ///
    /// The buffers live longer than the scope, and are out of reach inside it:
    ///
    /// ```compile_fail,E0597
    /// # use mpi_over_am::{collective, op};
    /// # fn f(world: &mpi_over_am::Communicator) -> mpi_over_am::Result<()> {
    /// world.scope(|s| {
    ///     let mut sums = [1u64];
    ///     let request = collective::allreduce_in_place(&mut sums, op::Sum).start(s)?;
    ///     s.wait(request).map(|_| ())
    /// })
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0503
    /// # use mpi_over_am::{collective, op};
    /// # fn f(world: &mpi_over_am::Communicator) -> mpi_over_am::Result<()> {
    /// let (own, mut sums) = ([1u64], [0]);
    /// world.scope(|s| {
    ///     let request = collective::allreduce(&own, &mut sums, op::Sum).start(s)?;
    ///     let too_early = sums[0] + 1;
    ///     s.wait(request).map(|_| ())
    /// })
    /// # }
    /// ```
    ///
    /// A vector that the value owns needs no scope ([`start_owned`](Self::start_owned)):
    ///
    /// ```compile_fail,E0599
    /// # use mpi_over_am::{collective, op};
    /// # fn f(world: &mpi_over_am::Communicator) -> mpi_over_am::Result<()> {
    /// world.scope(|s| collective::allreduce_in_place(vec![1u64], op::Sum).start(s).map(|_| ()))
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn start<'scope, F: Fabric, L: LockPolicy>(
        self,
        scope: &'scope Scope<'scope, '_, F, L>,
    ) -> Result<Request<'scope>>
    where
        B: 'scope,
        M: 'scope,
    {
        self.start_of(Series::Started, scope)
    }

    /// Like [`start`](Self::start), among the collectives of a series.
    pub(super) fn start_of<'scope, F: Fabric, L: LockPolicy>(
        mut self,
        series: Series,
        scope: &'scope Scope<'scope, '_, F, L>,
    ) -> Result<Request<'scope>>
    where
        B: 'scope,
        M: 'scope,
    {
        let communicator = scope.communicator();
        let collective = (self.make)(&mut self.buffer, communicator.place(), self.operator.into_op())?;
        Ok(scope.started(communicator.start_collective(&collective, series, scope.number())?))
    }
}

impl<B: sealed::Owned, O: KeptOperator, M: Make<B>> Prepared<B, O, M> {
    /// Starts it, and does not wait: the buffer comes back with the wait. As [`start`](Self::start), without a scope.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn start_owned<F: Fabric, L: LockPolicy>(
        mut self,
        communicator: &Communicator<F, L>,
    ) -> Result<OwnedRequest<B::Item, F, L>> {
        let collective = (self.make)(&mut self.buffer, communicator.place(), self.operator.into_op())?;
        communicator.keep(collective.start(communicator)?, self.buffer.into_vec())
    }

    /// Keeps it, to be started again and again (`MPI_Barrier_init` and the like; MPI 5.0 section 6.13). All tasks make these calls in
    /// the same order.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn keep<F: Fabric, L: LockPolicy>(
        mut self,
        communicator: &Communicator<F, L>,
    ) -> Result<Persistent<B::Item, F, L>> {
        let collective = (self.make)(&mut self.buffer, communicator.place(), self.operator.into_op())?;
        let id = collective.keep(communicator)?;
        Ok(Persistent::of_request(communicator, id, self.buffer.into_vec()))
    }
}
