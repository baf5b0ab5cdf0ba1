//! A collective with its arguments, and the ways to carry it out.

use std::fmt;

use am_core::fabric::Fabric;

use super::arguments::Position;
use super::{Collective, Datum, Series};
use crate::communicator::Communicator;
use crate::data::op::{Combine, Op, Operation, TypedOperation};
use crate::error::Result;
use crate::message::progress::start_schedule;
use crate::message::request_table::NO_SCOPE;
use crate::policy::LockPolicy;
use crate::request::{OwnedRequest, Persistent, Request, Scope};

/// A collective with its arguments, not started yet. Made by the functions of [`collective`](super).
///
/// `B` is a buffer for data and result, or `()` if slices are borrowed for both; `O` is the operator; `M` makes the [`Collective`].
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

/// Makes the collective from the buffer, for a task with this position in its communicator.
pub trait Make<B>: FnOnce(&mut B, Position, Op) -> Result<Collective> {}

impl<B, M: FnOnce(&mut B, Position, Op) -> Result<Collective>> Make<B> for M {}

/// A collective with one buffer for data and result, or of borrowed slices if the buffer is `()`.
pub(super) fn in_buffer<B, O, M: Make<B>>(buffer: B, operator: O, make: M) -> Prepared<B, O, M> {
    Prepared { buffer, operator, make }
}

/// A buffer for data and result: a `&mut` to a slice, an array or a vector, or a vector that the operation owns.
pub trait Buffer {
    /// The type of the buffer's elements.
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

    /// A buffer that does not own the memory that the collective uses: it may be dropped before the collective ends.
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

/// The operator of a collective.
pub trait Operator {
    /// The operator, for a blocking call.
    #[doc(hidden)]
    fn as_combine(&self) -> Option<&dyn Combine>;
}

/// An [`Operator`] that can be kept after a call.
pub trait KeptOperator: Operator {
    /// The operator, for a later call.
    #[doc(hidden)]
    fn into_op(self) -> Op;
}

/// No operator: the collective combines nothing.
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
    /// Carries out the collective, and returns when this task's part is done.
    ///
    /// # Errors
    /// Arguments that do not match; the death of a task. See the call of [`Communicator`] with the same name.
    #[inline]
    pub fn run<F: Fabric, L: LockPolicy>(mut self, communicator: &Communicator<F, L>) -> Result<()> {
        let collective = (self.make)(&mut self.buffer, communicator.place(), Op::BESIDE)?;
        communicator.carry_out(&collective, self.operator.as_combine())
    }
}

impl<B: sealed::Lent, O: KeptOperator, M: Make<B>> Prepared<B, O, M> {
    /// Starts the collective in a scope, without waiting (`MPI_Ibarrier` and the like; MPI 5.0 section 6.12). All tasks must start the
    /// collectives of a communicator in the same order; several may be under way. Operators run inside later calls of this task. In an
    /// environment for one thread they cannot make calls. In an environment for several threads ([`Threads`](crate::Threads)) they can make
    /// calls, and can wait for another thread that makes calls.
    ///
    /// The buffers must outlive the scope, and are inaccessible inside it:
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

    /// Like [`start`](Self::start), for a collective of the given series.
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
    /// Like [`start`](Self::start), without a scope: the wait returns the buffer.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn start_owned<F: Fabric, L: LockPolicy>(
        mut self,
        communicator: &Communicator<F, L>,
    ) -> Result<OwnedRequest<B::Item, F, L>> {
        let collective = (self.make)(&mut self.buffer, communicator.place(), self.operator.into_op())?;
        let schedule = communicator.record(&collective, Series::Started)?;
        communicator.own(self.buffer.into_vec(), |state| Ok(start_schedule(&mut *state, schedule, NO_SCOPE)))
    }

    /// Makes the collective persistent, for repeated starts (`MPI_Barrier_init` and the like; MPI 5.0 section 6.13). All tasks must make
    /// these calls in the same order.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn keep<F: Fabric, L: LockPolicy>(
        mut self,
        communicator: &Communicator<F, L>,
    ) -> Result<Persistent<B::Item, F, L>> {
        let collective = (self.make)(&mut self.buffer, communicator.place(), self.operator.into_op())?;
        let id = communicator.keep_collective(&collective)?;
        Ok(Persistent::of_request(communicator, id, self.buffer.into_vec()))
    }
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// This task's position, for the arguments of collectives.
    #[inline]
    fn place(&self) -> Position {
        let remote = if self.is_inter() { self.remote_size().ok() } else { None };
        Position { rank: self.rank(), size: self.size(), remote }
    }
}
