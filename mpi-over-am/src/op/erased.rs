//! Operations on elements of datatypes.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::Operation;
use super::combine::combine_of;
use crate::buffer::{Datum, RecvData, SendData, with_elements, with_packed};
use crate::datatype::Datatype;
use crate::error::{Error, Result};

/// MPI's own operations (MPI 5.0 sections 6.9.2, 6.9.4 and 12.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PredefinedOp {
    /// `MPI_MAX`
    Max,
    /// `MPI_MIN`
    Min,
    /// `MPI_SUM`
    Sum,
    /// `MPI_PROD`
    Product,
    /// `MPI_LAND`
    LogicalAnd,
    /// `MPI_BAND`
    BitwiseAnd,
    /// `MPI_LOR`
    LogicalOr,
    /// `MPI_BOR`
    BitwiseOr,
    /// `MPI_LXOR`
    LogicalXor,
    /// `MPI_BXOR`
    BitwiseXor,
    /// `MPI_MAXLOC`
    MaxLocation,
    /// `MPI_MINLOC`
    MinLocation,
    /// `MPI_REPLACE`: the earlier value. For windows.
    Replace,
    /// `MPI_NO_OP`: the later value. For windows.
    NoOp,
}

impl PredefinedOp {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Max,
        Self::Min,
        Self::Sum,
        Self::Product,
        Self::LogicalAnd,
        Self::BitwiseAnd,
        Self::LogicalOr,
        Self::BitwiseOr,
        Self::LogicalXor,
        Self::BitwiseXor,
        Self::MaxLocation,
        Self::MinLocation,
        Self::Replace,
        Self::NoOp,
    ];

    /// The name that C and Fortran programs use, such as `MPI_SUM`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "MPI_MAX",
            Self::Min => "MPI_MIN",
            Self::Sum => "MPI_SUM",
            Self::Product => "MPI_PROD",
            Self::LogicalAnd => "MPI_LAND",
            Self::BitwiseAnd => "MPI_BAND",
            Self::LogicalOr => "MPI_LOR",
            Self::BitwiseOr => "MPI_BOR",
            Self::LogicalXor => "MPI_LXOR",
            Self::BitwiseXor => "MPI_BXOR",
            Self::MaxLocation => "MPI_MAXLOC",
            Self::MinLocation => "MPI_MINLOC",
            Self::Replace => "MPI_REPLACE",
            Self::NoOp => "MPI_NO_OP",
        }
    }
}

/// What an operation of the program's own does with `count` elements of a type, as `MPI_User_function`: it makes each later
/// element what the two come to.
///
/// The pointers are where displacements are counted from: the elements at the first may be read, those at the second may be read
/// and written, and nobody else uses them during the call.
pub type UserFunction = dyn Fn(*const u8, *mut u8, u64, &Datatype) + Send + Sync;

/// An operation on elements of datatypes (`MPI_Op`). Cloning is cheap, and gives the same operation.
#[derive(Clone)]
pub struct Op(Repr);

#[derive(Clone)]
enum Repr {
    Predefined(PredefinedOp),
    User {
        function: Arc<UserFunction>,
        is_commutative: bool,
    },
    Typed(Arc<dyn Combine + Send + Sync>),
    /// It is given beside.
    Beside,
}

impl Op {
    /// For calls that give the operation beside.
    pub(crate) const BESIDE: Self = Self(Repr::Beside);

    /// One of MPI's own.
    #[must_use]
    pub const fn predefined(op: PredefinedOp) -> Self {
        Self(Repr::Predefined(op))
    }

    /// One of the program's own (`MPI_Op_create`). It is associative. If it is not commutative, ranks are combined in their order.
    #[must_use]
    pub fn user(function: Arc<UserFunction>, is_commutative: bool) -> Self {
        Self(Repr::User { function, is_commutative })
    }

    /// A typed operation, for elements of `T` whatever their datatype calls them.
    #[must_use]
    pub fn from_operation<T: Datum>(operation: impl Operation<T> + Send + Sync + 'static) -> Self {
        Self(Repr::Typed(Arc::new(OwnedTyped(operation, PhantomData))))
    }

    /// Which of MPI's own it is.
    #[must_use]
    pub fn as_predefined(&self) -> Option<PredefinedOp> {
        match self.0 {
            Repr::Predefined(op) => Some(op),
            Repr::User { .. } | Repr::Typed(_) | Repr::Beside => None,
        }
    }

    /// Whether operands may change places (`MPI_Op_commutative`).
    #[must_use]
    pub fn is_commutative(&self) -> bool {
        match self.0 {
            Repr::Predefined(op) => !matches!(op, PredefinedOp::Replace | PredefinedOp::NoOp),
            Repr::User { is_commutative, .. } => is_commutative,
            Repr::Typed(ref typed) => typed.is_commutative(),
            Repr::Beside => false,
        }
    }

    /// Refuses a type for which the operation is not defined.
    ///
    /// # Errors
    /// [`Error::Undefined`].
    pub fn check(&self, datatype: &Datatype) -> Result<()> {
        let Repr::Predefined(op) = self.0 else { return Ok(()) };
        match datatype.basic() {
            Some(basic) if combine_of(op, basic).is_some() => Ok(()),
            None if datatype.size() == 0 => Ok(()),
            basic => Err(undefined(op, basic.map_or("a type of several kinds", |basic| basic.name()))),
        }
    }

    /// Makes each later element what the two come to (`MPI_Reduce_local`). Both are of the same number and type, and do not overlap.
    ///
    /// # Errors
    /// [`Error::Undefined`]; [`Error::Count`]: not the same number.
    pub fn reduce(&self, earlier: &SendData, later: &RecvData) -> Result<()> {
        if earlier.count() != later.count() {
            let [given, expected] =
                [earlier.count(), later.count()].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
            return Err(Error::Count { call: "a reduction", given, expected });
        }
        self.combine(earlier, later)
    }

    /// As [`reduce`](Self::reduce), for the bytes of packed elements of a predefined type, and of MPI's own operations.
    ///
    /// # Errors
    /// [`Error::Undefined`].
    pub fn reduce_packed(&self, earlier: &[u8], later: &mut [u8], datatype: &Datatype) -> Result<()> {
        let (Repr::Predefined(op), Some(basic)) = (&self.0, datatype.basic()) else {
            return Err(Error::Undefined {
                op: "an operation of the program's own",
                datatype: "packed elements",
            });
        };
        let combine = combine_of(*op, basic).ok_or_else(|| undefined(*op, basic.name()))?;
        combine(earlier, later);
        Ok(())
    }
}

impl From<PredefinedOp> for Op {
    fn from(op: PredefinedOp) -> Self {
        Self::predefined(op)
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Predefined(op) => f.write_str(op.name()),
            Repr::User { .. } | Repr::Typed(_) | Repr::Beside => {
                f.debug_struct("Op").field("is_commutative", &self.is_commutative()).finish_non_exhaustive()
            }
        }
    }
}

#[cold]
fn undefined(op: PredefinedOp, datatype: &'static str) -> Error {
    Error::Undefined { op: op.name(), datatype }
}

/// What combines the elements of a collective.
pub(crate) trait Combine {
    /// Whether operands may change places.
    fn is_commutative(&self) -> bool;

    /// Makes each later element what the two come to.
    ///
    /// # Errors
    /// The operation is not defined for the type.
    fn combine(&self, earlier: &SendData, later: &RecvData) -> Result<()>;
}

impl Combine for Op {
    fn is_commutative(&self) -> bool {
        self.is_commutative()
    }

    fn combine(&self, earlier: &SendData, later: &RecvData) -> Result<()> {
        let datatype = later.datatype();
        match &self.0 {
            Repr::Predefined(op) => {
                let basic = datatype.basic().ok_or_else(|| undefined(*op, "a type of several kinds"))?;
                let combine = combine_of(*op, basic).ok_or_else(|| undefined(*op, basic.name()))?;
                with_packed(earlier, later, combine)
            }
            Repr::User { function, .. } => {
                if later.count() > 0 {
                    function(earlier.at(), later.at(), later.count(), datatype);
                }
                Ok(())
            }
            Repr::Typed(typed) => typed.combine(earlier, later),
            Repr::Beside => Ok(()),
        }
    }
}

/// A typed operation on elements that are `T`s.
#[derive(Debug)]
pub(crate) struct Typed<'a, T, O>(pub(crate) &'a O, pub(crate) PhantomData<fn(T)>);

impl<T: Datum, O: Operation<T>> Combine for Typed<'_, T, O> {
    fn is_commutative(&self) -> bool {
        self.0.is_commutative()
    }

    fn combine(&self, earlier: &SendData, later: &RecvData) -> Result<()> {
        with_elements::<T>(earlier, later, |earlier, later| self.0.combine(earlier, later))
    }
}

/// The same, kept for later.
struct OwnedTyped<T, O>(O, PhantomData<fn(T)>);

impl<T: Datum, O: Operation<T>> Combine for OwnedTyped<T, O> {
    fn is_commutative(&self) -> bool {
        self.0.is_commutative()
    }

    fn combine(&self, earlier: &SendData, later: &RecvData) -> Result<()> {
        Typed(&self.0, PhantomData).combine(earlier, later)
    }
}
