//! Operations on elements of datatypes.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use mpi_datatype::Datatype;
use mpi_datatype::op::{PredefinedOp, combine_of};

use super::Operation;
use crate::data::buffer::{Datum, RecvData, SendData, outside_sections, with_elements, with_packed};
use crate::error::{Error, Result};

/// A program's operation on `count` elements of a type, like `MPI_User_function`: it replaces each later element with the result of the
/// earlier element and the later one.
///
/// Displacements are relative to the pointers. The elements at the first pointer may be read, those at the second one read and written;
/// nothing else accesses them during the call.
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
    /// The operation is passed separately.
    Beside,
}

impl Op {
    /// The operation is passed separately.
    pub(crate) const BESIDE: Self = Self(Repr::Beside);

    /// A predefined operation.
    #[must_use]
    pub const fn predefined(op: PredefinedOp) -> Self {
        Self(Repr::Predefined(op))
    }

    /// A program's operation (`MPI_Op_create`), which must be associative. If it is not commutative, operands are combined in the order of
    /// their ranks.
    #[must_use]
    pub fn user(function: Arc<UserFunction>, is_commutative: bool) -> Self {
        Self(Repr::User { function, is_commutative })
    }

    pub(crate) fn from_typed(typed: impl Combine + Send + Sync + 'static) -> Self {
        Self(Repr::Typed(Arc::new(typed)))
    }

    /// The predefined operation, if this is one.
    #[must_use]
    pub fn as_predefined(&self) -> Option<PredefinedOp> {
        match self.0 {
            Repr::Predefined(op) => Some(op),
            Repr::User { .. } | Repr::Typed(_) | Repr::Beside => None,
        }
    }

    /// Whether the operation runs code of the program: its function, or the arithmetic of its elements.
    pub(crate) fn is_of_program(&self) -> bool {
        !matches!(self.0, Repr::Predefined(_))
    }

    /// Whether operands may be swapped (`MPI_Op_commutative`).
    #[must_use]
    pub fn is_commutative(&self) -> bool {
        match self.0 {
            Repr::Predefined(op) => !matches!(op, PredefinedOp::Replace | PredefinedOp::NoOp),
            Repr::User { is_commutative, .. } => is_commutative,
            Repr::Typed(ref typed) => typed.is_commutative(),
            Repr::Beside => false,
        }
    }

    /// Checks that the operation is defined for a type.
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

    /// Replaces each later element with the result of the earlier element and the later one (`MPI_Reduce_local`). Both buffers must have
    /// the same number and type of elements, and must not overlap.
    ///
    /// # Errors
    /// [`Error::Undefined`]; [`Error::Count`]: the numbers differ.
    pub fn reduce(&self, earlier: &SendData, later: &RecvData) -> Result<()> {
        if earlier.count() != later.count() {
            return Err(Error::count("a reduction", earlier.count(), later.count()));
        }
        self.combine(earlier, later)
    }

    /// Like [`reduce`](Self::reduce), for packed elements of a predefined type and predefined operations.
    ///
    /// # Errors
    /// [`Error::Undefined`].
    pub fn reduce_packed(&self, earlier: &[u8], later: &mut [u8], datatype: &Datatype) -> Result<()> {
        let (Repr::Predefined(op), Some(basic)) = (&self.0, datatype.basic()) else {
            return Err(Error::Undefined { op: "a user-defined operation", datatype: "packed elements" });
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

/// Combines the elements of a collective.
pub trait Combine {
    /// Whether operands may be swapped.
    fn is_commutative(&self) -> bool;

    /// The predefined operation, if this is one.
    fn predefined(&self) -> Option<PredefinedOp>;

    /// The predefined operation, if [`combine`](Self::combine) runs no code of the program, not even the arithmetic of its elements.
    fn without_code_of_program(&self) -> Option<PredefinedOp> {
        None
    }

    /// Replaces each later element with the result of the earlier element and the later one.
    ///
    /// # Errors
    /// The operation is not defined for the type.
    fn combine(&self, earlier: &SendData, later: &RecvData) -> Result<()>;
}

impl Combine for Op {
    fn predefined(&self) -> Option<PredefinedOp> {
        match &self.0 {
            Repr::Predefined(op) => Some(*op),
            Repr::Typed(typed) => typed.predefined(),
            Repr::User { .. } | Repr::Beside => None,
        }
    }

    fn is_commutative(&self) -> bool {
        self.is_commutative()
    }

    fn without_code_of_program(&self) -> Option<PredefinedOp> {
        self.as_predefined()
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
                    return outside_sections(earlier, later, |earlier, later| {
                        function(earlier.at(), later.at(), later.count(), later.datatype());
                    });
                }
                Ok(())
            }
            Repr::Typed(typed) => typed.combine(earlier, later),
            Repr::Beside => Ok(()),
        }
    }
}

/// A typed operation, for elements of datatypes that are `T`s.
pub struct TypedOperation<T, O>(O, PhantomData<fn(T)>);

impl<T, O> TypedOperation<T, O> {
    #[inline(always)]
    pub(crate) fn new(operation: O) -> Self {
        Self(operation, PhantomData)
    }
}

impl<T, O> fmt::Debug for TypedOperation<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedOperation").finish_non_exhaustive()
    }
}

impl<T: Datum, O: Operation<T>> Combine for TypedOperation<T, O> {
    fn predefined(&self) -> Option<PredefinedOp> {
        self.0.predefined()
    }

    fn is_commutative(&self) -> bool {
        self.0.is_commutative()
    }

    fn combine(&self, earlier: &SendData, later: &RecvData) -> Result<()> {
        with_elements::<T>(earlier, later, |earlier, later| self.0.combine(earlier, later))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_datatype::{Kind, Predefined};

    fn combined(op: PredefinedOp, datatype: Predefined, earlier: &[u8], later: &[u8]) -> Vec<u8> {
        let mut result = later.to_vec();
        Op::predefined(op).reduce_packed(earlier, &mut result, &datatype.into()).unwrap();
        result
    }

    /// The table of MPI 5.0 section 6.9.2, with MINLOC and MAXLOC of section 6.9.4.
    fn is_defined(op: PredefinedOp, datatype: Predefined) -> bool {
        use PredefinedOp as P;
        let kind = if datatype == Predefined::Char { Kind::Signed } else { datatype.kind() };
        let is_integer = matches!(kind, Kind::Signed | Kind::Unsigned);
        match op {
            P::Max | P::Min => is_integer || kind == Kind::Float,
            P::Sum | P::Product => is_integer || matches!(kind, Kind::Float | Kind::Complex),
            P::LogicalAnd | P::LogicalOr | P::LogicalXor => is_integer || kind == Kind::Logical,
            P::BitwiseAnd | P::BitwiseOr | P::BitwiseXor => is_integer || datatype == Predefined::Byte,
            P::MaxLocation | P::MinLocation => kind == Kind::Pair,
            P::Replace | P::NoOp => true,
        }
    }

    #[test]
    fn operations_are_defined_where_the_standard_says_so() {
        let mut defined = 0;
        for op in PredefinedOp::ALL {
            for datatype in Predefined::ALL {
                let result = Op::predefined(op).check(&datatype.into());
                assert_eq!(result.is_ok(), is_defined(op, datatype), "{} on {}", op.name(), datatype.name());
                if let Err(error) = result {
                    assert_eq!(error.class(), crate::ErrorClass::Operation);
                    assert!(error.to_string().contains(op.name()));
                }
                defined += usize::from(is_defined(op, datatype));
            }
        }
        assert!(defined > 400, "{defined}");
    }

    #[test]
    fn numbers_are_combined_as_the_language_does() {
        macro_rules! check {
            ($($datatype:ident $type:ty),+) => {$(
                for (a, b) in [(3, 5), (100, 7), (0, 1), (2, 0)] {
                    let (x, y) = (<$type>::try_from(a).unwrap(), <$type>::try_from(b).unwrap());
                    let of = |op| {
                        let bytes =
                            combined(op, Predefined::$datatype, &x.to_ne_bytes(), &y.to_ne_bytes());
                        <$type>::from_ne_bytes(bytes.try_into().unwrap())
                    };
                    assert_eq!(of(PredefinedOp::Sum), x.wrapping_add(y));
                    assert_eq!(of(PredefinedOp::Product), x.wrapping_mul(y));
                    assert_eq!(of(PredefinedOp::Max), x.max(y));
                    assert_eq!(of(PredefinedOp::Min), x.min(y));
                    assert_eq!(of(PredefinedOp::BitwiseAnd), x & y);
                    assert_eq!(of(PredefinedOp::BitwiseOr), x | y);
                    assert_eq!(of(PredefinedOp::BitwiseXor), x ^ y);
                    assert_eq!(of(PredefinedOp::LogicalAnd), <$type>::from(x != 0 && y != 0));
                    assert_eq!(of(PredefinedOp::LogicalOr), <$type>::from(x != 0 || y != 0));
                    assert_eq!(of(PredefinedOp::LogicalXor), <$type>::from((x != 0) != (y != 0)));
                    assert_eq!(of(PredefinedOp::Replace), x);
                    assert_eq!(of(PredefinedOp::NoOp), y);
                }
            )+};
        }
        check!(Int8 i8, Uint8 u8, SignedChar i8, UnsignedChar u8, Int16 i16, Uint16 u16, Short i16);
        check!(Int i32, Unsigned u32, Long i64, UnsignedLong u64, LongLong i64, Aint i64, Count i64);
        check!(Integer1 i8, Integer2 i16, Integer4 i32, Integer8 i64, Integer16 i128, Offset i64, Char i8);
    }

    #[test]
    fn complex_numbers_are_multiplied_as_such() {
        let bytes = |values: [f64; 2]| values.map(f64::to_ne_bytes).concat();
        let of = |op| combined(op, Predefined::DoubleComplex, &bytes([1.0, 2.0]), &bytes([3.0, -4.0]));
        assert_eq!(of(PredefinedOp::Sum), bytes([4.0, -2.0]));
        assert_eq!(of(PredefinedOp::Product), bytes([11.0, 2.0]));
        let bytes = |values: [f32; 2]| values.map(f32::to_ne_bytes).concat();
        let product =
            combined(PredefinedOp::Product, Predefined::Complex, &bytes([1.0, 2.0]), &bytes([3.0, -4.0]));
        assert_eq!(product, bytes([11.0, 2.0]));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn long_doubles_are_x87s() {
        // 1.5 and 2.5 as long doubles: the x87's 10 bytes, padded to 16.
        let stored = |significand: u64, exponent: u16| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&significand.to_le_bytes());
            bytes[8..10].copy_from_slice(&exponent.to_le_bytes());
            bytes.to_vec()
        };
        let (a, b) = (stored(0xc000_0000_0000_0000, 0x3fff), stored(0xa000_0000_0000_0000, 0x4000));
        let of = |op| combined(op, Predefined::LongDouble, &a, &b);
        assert_eq!(of(PredefinedOp::Sum), stored(0x8000_0000_0000_0000, 0x4001));
        assert_eq!(of(PredefinedOp::Product), stored(0xf000_0000_0000_0000, 0x4000));
        assert_eq!(of(PredefinedOp::Max), b);
        assert_eq!(of(PredefinedOp::Min), a);
    }

    #[test]
    fn of_equal_values_the_lower_index_is_taken() {
        let pair = |value: f64, index: i32| [&value.to_ne_bytes()[..], &index.to_ne_bytes()].concat();
        let of = |op, a: &[u8], b: &[u8]| combined(op, Predefined::DoubleInt, a, b);
        assert_eq!(of(PredefinedOp::MaxLocation, &pair(1.0, 9), &pair(2.0, 3)), pair(2.0, 3));
        assert_eq!(of(PredefinedOp::MinLocation, &pair(1.0, 9), &pair(2.0, 3)), pair(1.0, 9));
        for op in [PredefinedOp::MaxLocation, PredefinedOp::MinLocation] {
            assert_eq!(of(op, &pair(1.0, 9), &pair(1.0, 3)), pair(1.0, 3));
            assert_eq!(of(op, &pair(1.0, 2), &pair(1.0, 3)), pair(1.0, 2));
        }
    }

    #[test]
    fn truth_is_one_whatever_it_was() {
        let of = |op| combined(op, Predefined::Bool, &[7, 7, 0, 0], &[9, 0, 9, 0]);
        assert_eq!(of(PredefinedOp::LogicalAnd), [1, 0, 0, 0]);
        assert_eq!(of(PredefinedOp::LogicalOr), [1, 1, 1, 0]);
        assert_eq!(of(PredefinedOp::LogicalXor), [0, 1, 1, 0]);
    }
}
