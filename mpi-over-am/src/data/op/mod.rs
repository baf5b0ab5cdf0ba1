//! Operations of reductions on two values (MPI 5.0 section 6.9).
//!
//! For typed calls the predefined operations are types, and the compiler checks that an element type supports them. An [`Op`] is an
//! operation on elements of a [`Datatype`](mpi_datatype::Datatype); each call checks that the operation is defined for the elements.

mod erased;

use std::ops::{Add, BitAnd, BitOr, BitXor, Mul};

pub use erased::{Combine, Op, TypedOperation, UserFunction};
pub use mpi_datatype::op::PredefinedOp;

/// An associative operation on elements of type `T`.
pub trait Operation<T> {
    /// Whether the operands may be swapped. If not, they are combined in the order of their ranks.
    fn is_commutative(&self) -> bool {
        true
    }

    /// The predefined operation, if this is one; for the check that all tasks use the same one.
    fn predefined(&self) -> Option<PredefinedOp> {
        None
    }

    /// Replaces each `later[i]` with the result of `earlier[i]` and `later[i]`. `earlier` comes from lower ranks. Both have the same
    /// length.
    fn combine(&self, earlier: &[T], later: &mut [T]);
}

/// The sum (`MPI_SUM`). Overflow behaves as with `+`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum;

/// The product (`MPI_PROD`). Overflow behaves as with `*`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Product;

/// The larger value (`MPI_MAX`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;

/// The smaller value (`MPI_MIN`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Min;

/// Bitwise and (`MPI_BAND`).
#[derive(Clone, Copy, Debug, Default)]
pub struct BitwiseAnd;

/// Bitwise or (`MPI_BOR`).
#[derive(Clone, Copy, Debug, Default)]
pub struct BitwiseOr;

/// Bitwise exclusive or (`MPI_BXOR`).
#[derive(Clone, Copy, Debug, Default)]
pub struct BitwiseXor;

/// Logical and (`MPI_LAND`): 1 if both are not 0, else 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogicalAnd;

/// Logical or (`MPI_LOR`): 0 if both are 0, else 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogicalOr;

/// Logical exclusive or (`MPI_LXOR`): 1 if exactly one is 0, else 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogicalXor;

/// A user-defined operation (`MPI_Op_create`), made by [`from_fn`] or [`from_ordered_fn`].
#[derive(Clone, Copy, Debug)]
pub struct Function<F> {
    function: F,
    is_commutative: bool,
}

/// An operation from a commutative function of two values.
pub fn from_fn<T, F: Fn(&T, &T) -> T>(function: F) -> Function<F> {
    Function { function, is_commutative: true }
}

/// An operation from a non-commutative function of an earlier and a later value.
pub fn from_ordered_fn<T, F: Fn(&T, &T) -> T>(function: F) -> Function<F> {
    Function { function, is_commutative: false }
}

impl<T, F: Fn(&T, &T) -> T> Operation<T> for Function<F> {
    fn is_commutative(&self) -> bool {
        self.is_commutative
    }

    fn combine(&self, earlier: &[T], later: &mut [T]) {
        each(earlier, later, &self.function);
    }
}

impl<T: Copy + Add<Output = T>> Operation<T> for Sum {
    fn predefined(&self) -> Option<PredefinedOp> {
        Some(PredefinedOp::Sum)
    }

    fn combine(&self, earlier: &[T], later: &mut [T]) {
        each(earlier, later, |&a, &b| a + b);
    }
}

impl<T: Copy + Mul<Output = T>> Operation<T> for Product {
    fn predefined(&self) -> Option<PredefinedOp> {
        Some(PredefinedOp::Product)
    }

    fn combine(&self, earlier: &[T], later: &mut [T]) {
        each(earlier, later, |&a, &b| a * b);
    }
}

impl<T: Copy + PartialOrd> Operation<T> for Max {
    fn predefined(&self) -> Option<PredefinedOp> {
        Some(PredefinedOp::Max)
    }

    fn combine(&self, earlier: &[T], later: &mut [T]) {
        each(earlier, later, |&a, &b| if a > b { a } else { b });
    }
}

impl<T: Copy + PartialOrd> Operation<T> for Min {
    fn predefined(&self) -> Option<PredefinedOp> {
        Some(PredefinedOp::Min)
    }

    fn combine(&self, earlier: &[T], later: &mut [T]) {
        each(earlier, later, |&a, &b| if a < b { a } else { b });
    }
}

impl<T: Copy + BitAnd<Output = T>> Operation<T> for BitwiseAnd {
    fn predefined(&self) -> Option<PredefinedOp> {
        Some(PredefinedOp::BitwiseAnd)
    }

    fn combine(&self, earlier: &[T], later: &mut [T]) {
        each(earlier, later, |&a, &b| a & b);
    }
}

impl<T: Copy + BitOr<Output = T>> Operation<T> for BitwiseOr {
    fn predefined(&self) -> Option<PredefinedOp> {
        Some(PredefinedOp::BitwiseOr)
    }

    fn combine(&self, earlier: &[T], later: &mut [T]) {
        each(earlier, later, |&a, &b| a | b);
    }
}

impl<T: Copy + BitXor<Output = T>> Operation<T> for BitwiseXor {
    fn predefined(&self) -> Option<PredefinedOp> {
        Some(PredefinedOp::BitwiseXor)
    }

    fn combine(&self, earlier: &[T], later: &mut [T]) {
        each(earlier, later, |&a, &b| a ^ b);
    }
}

impl<T: Copy + PartialEq + From<bool>> Operation<T> for LogicalAnd {
    fn predefined(&self) -> Option<PredefinedOp> {
        Some(PredefinedOp::LogicalAnd)
    }

    fn combine(&self, earlier: &[T], later: &mut [T]) {
        each(earlier, later, |&a, &b| (is_true(a) && is_true(b)).into());
    }
}

impl<T: Copy + PartialEq + From<bool>> Operation<T> for LogicalOr {
    fn predefined(&self) -> Option<PredefinedOp> {
        Some(PredefinedOp::LogicalOr)
    }

    fn combine(&self, earlier: &[T], later: &mut [T]) {
        each(earlier, later, |&a, &b| (is_true(a) || is_true(b)).into());
    }
}

impl<T: Copy + PartialEq + From<bool>> Operation<T> for LogicalXor {
    fn predefined(&self) -> Option<PredefinedOp> {
        Some(PredefinedOp::LogicalXor)
    }

    fn combine(&self, earlier: &[T], later: &mut [T]) {
        each(earlier, later, |&a, &b| (is_true(a) != is_true(b)).into());
    }
}

fn is_true<T: PartialEq + From<bool>>(value: T) -> bool {
    value != T::from(false)
}

#[inline]
fn each<T>(earlier: &[T], later: &mut [T], combine: impl Fn(&T, &T) -> T) {
    for (a, b) in earlier.iter().zip(later) {
        *b = combine(a, b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined<T: Clone>(op: impl Operation<T>, earlier: &[T], later: &[T]) -> Vec<T> {
        let mut later = later.to_vec();
        op.combine(earlier, &mut later);
        later
    }

    #[test]
    fn operations_do_what_their_names_say() {
        assert_eq!(combined(Sum, &[1, 2], &[10, 20]), [11, 22]);
        assert_eq!(combined(Product, &[1.5], &[2.0]), [3.0]);
        assert_eq!(combined(Max, &[1, 9], &[5, 5]), [5, 9]);
        assert_eq!(combined(Min, &[1, 9], &[5, 5]), [1, 5]);
        assert_eq!(combined(BitwiseAnd, &[0b1100], &[0b1010]), [0b1000]);
        assert_eq!(combined(BitwiseOr, &[0b1100], &[0b1010]), [0b1110]);
        assert_eq!(combined(BitwiseXor, &[0b1100], &[0b1010]), [0b0110]);
        assert_eq!(combined(LogicalAnd, &[0u8, 4, 4], &[4, 0, 4]), [0, 0, 1]);
        assert_eq!(combined(LogicalOr, &[0i64, 4, 4], &[0, 0, 4]), [0, 1, 1]);
        assert_eq!(combined(LogicalXor, &[0.0f64, 4.0, 4.0], &[0.0, 0.0, 4.0]), [0.0, 1.0, 0.0]);
        let first = from_ordered_fn(|&earlier: &i32, _: &i32| earlier);
        assert!(!Operation::<i32>::is_commutative(&first));
        assert_eq!(combined(first, &[1], &[2]), [1]);
    }
}
