//! The predefined operations on the predefined datatypes (MPI 5.0 section 6.9.2), on packed elements.

use std::cmp::Ordering;
use std::marker::PhantomData;

use super::PredefinedOp;
use super::wide_float::{Format, HALF, LONG_DOUBLE, QUADRUPLE};
use crate::{Kind, Predefined};

/// How an operation gets its elements, and what it returns. The elements of an operand are contiguous.
pub trait Form: 'static {
    /// Maximum size of an element in bytes.
    const ELEMENT_BYTES_MAX: u64;
    /// The earlier elements.
    type Earlier<'a>;
    /// The later elements, as many as the earlier ones.
    type Later<'a>;
    /// What a function returns.
    type Result;

    /// Replaces each later element with the result of `combine`. An element has `N` bytes.
    fn each<const N: usize>(
        earlier: Self::Earlier<'_>,
        later: Self::Later<'_>,
        combine: impl Fn([u8; N], [u8; N]) -> [u8; N],
    ) -> Self::Result;

    /// Replaces the later elements with the earlier ones. Unlike [`each`](Self::each), this does not need the size of an element.
    fn replace(earlier: Self::Earlier<'_>, later: Self::Later<'_>) -> Self::Result;

    /// Leaves the later elements as they are.
    fn leave(earlier: Self::Earlier<'_>, later: Self::Later<'_>) -> Self::Result;
}

/// An operation on elements of one type.
pub type Function<F> =
    for<'a, 'b> fn(<F as Form>::Earlier<'a>, <F as Form>::Later<'b>) -> <F as Form>::Result;

/// Elements in slices of the same length.
#[derive(Debug)]
pub struct Slices;

/// Replaces each later element with the operation's result for the pair. Both slices must have the same length and hold whole elements.
pub type Combine = Function<Slices>;

impl Form for Slices {
    const ELEMENT_BYTES_MAX: u64 = u64::MAX;
    type Earlier<'a> = &'a [u8];
    type Later<'a> = &'a mut [u8];
    type Result = ();

    #[inline(always)]
    fn each<const N: usize>(earlier: &[u8], later: &mut [u8], combine: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
        for (earlier, later) in earlier.as_chunks::<N>().0.iter().zip(later.as_chunks_mut::<N>().0) {
            *later = combine(*earlier, *later);
        }
    }

    fn replace(earlier: &[u8], later: &mut [u8]) {
        later.copy_from_slice(earlier);
    }

    fn leave(_earlier: &[u8], _later: &mut [u8]) {}
}

/// An element of at most 8 bytes, stored in the first bytes of the word.
pub type Word = [u8; 8];

/// One element of at most 8 bytes for each operand, passed by value. The function returns the new value of the later element.
#[derive(Debug)]
pub struct Words;

impl Form for Words {
    const ELEMENT_BYTES_MAX: u64 = size_of::<Word>() as u64;
    type Earlier<'a> = Word;
    type Later<'a> = Word;
    type Result = Word;

    #[inline(always)]
    fn each<const N: usize>(
        earlier: Word,
        mut later: Word,
        combine: impl Fn([u8; N], [u8; N]) -> [u8; N],
    ) -> Word {
        if let (Some(earlier), Some(later)) = (earlier.first_chunk::<N>(), later.first_chunk_mut::<N>()) {
            *later = combine(*earlier, *later);
        }
        later
    }

    fn replace(earlier: Word, _later: Word) -> Word {
        earlier
    }

    fn leave(_earlier: Word, later: Word) -> Word {
        later
    }
}

/// The function of `op` for elements of `datatype`; `None` if `op` is not defined for this type.
#[inline(always)]
#[must_use]
pub fn combine_of(op: PredefinedOp, datatype: Predefined) -> Option<Combine> {
    function_of::<Slices>(op, datatype)
}

/// Like [`combine_of`], for elements in the form `F`. `None` also if the elements are too long for the form.
#[inline(always)]
#[must_use]
pub fn function_of<F: Form>(op: PredefinedOp, datatype: Predefined) -> Option<Function<F>> {
    Table::<F>::FUNCTIONS[op as usize][datatype as usize]
}

const OPS: usize = PredefinedOp::ALL.len();
const DATATYPES: usize = Predefined::ALL.len();

/// The functions of a form, by operation and datatype.
struct Table<F>(PhantomData<F>);

impl<F: Form> Table<F> {
    const FUNCTIONS: &'static [[Option<Function<F>>; DATATYPES]; OPS] = &{
        let mut table = [[None; DATATYPES]; OPS];
        let mut cell = 0;
        while cell < OPS * DATATYPES {
            let (op, datatype) = (PredefinedOp::ALL[cell / DATATYPES], Predefined::ALL[cell % DATATYPES]);
            if datatype.size() <= F::ELEMENT_BYTES_MAX {
                table[op as usize][datatype as usize] = select::<F>(op, datatype);
            }
            cell += 1;
        }
        table
    };
}

const fn select<F: Form>(op: PredefinedOp, datatype: Predefined) -> Option<Function<F>> {
    match op {
        PredefinedOp::Replace => return Some(F::replace),
        PredefinedOp::NoOp => return Some(F::leave),
        _ => {}
    }
    // C's plain `char` counts as an integer, as in other libraries; MPI does not define it.
    let kind = if matches!(datatype, Predefined::Char) { Kind::Signed } else { datatype.kind() };
    match (kind, datatype.size()) {
        (Kind::Signed, 1) => integer_i8(op),
        (Kind::Signed, 2) => integer_i16(op),
        (Kind::Signed, 4) => integer_i32(op),
        (Kind::Signed, 8) => integer_i64(op),
        (Kind::Signed, 16) => integer_i128(op),
        (Kind::Unsigned, 1) => integer_u8(op),
        (Kind::Unsigned, 2) => integer_u16(op),
        (Kind::Unsigned, 4) => integer_u32(op),
        (Kind::Unsigned, 8) => integer_u64(op),
        (Kind::Float, 4) => float_f32(op),
        (Kind::Float, 8) => float_f64(op),
        (Kind::Float, 2) => float_half(op),
        (Kind::Float, 16) if is_long_double(datatype) => float_long_double(op),
        (Kind::Float, 16) => float_quadruple(op),
        (Kind::Complex, 8) => complex_f32(op),
        (Kind::Complex, 16) => complex_f64(op),
        (Kind::Complex, 4) => complex_half(op),
        (Kind::Complex, 32) if is_long_double(datatype) => complex_long_double(op),
        (Kind::Complex, 32) => complex_quadruple(op),
        (Kind::Logical, 1) => logical_u8(op),
        (Kind::Logical, 2) => logical_u16(op),
        (Kind::Logical, 4) => logical_u32(op),
        (Kind::Logical, 8) => logical_u64(op),
        (Kind::Logical, 16) => logical_u128(op),
        (Kind::Bytes, 1) if matches!(datatype, Predefined::Byte) => bytes(op),
        (Kind::Pair, _) => pair(op, datatype),
        _ => None,
    }
}

const fn is_long_double(datatype: Predefined) -> bool {
    matches!(
        datatype,
        Predefined::LongDouble | Predefined::LongDoubleComplex | Predefined::CxxLongDoubleComplex
    )
}

/// An operation on a type of numbers, with the conversions from and to bytes.
macro_rules! on {
    ($type:ty, $combine:expr) => {{
        const BYTES: usize = size_of::<$type>();
        let combine: Function<F> = |earlier, later| {
            F::each::<BYTES>(earlier, later, |a, b| {
                let combine: fn($type, $type) -> $type = $combine;
                combine(<$type>::from_ne_bytes(a), <$type>::from_ne_bytes(b)).to_ne_bytes()
            })
        };
        Some(combine)
    }};
}

macro_rules! integers {
    ($($name:ident $type:ty),+) => {$(
        const fn $name<F: Form>(op: PredefinedOp) -> Option<Function<F>> {
            match op {
                PredefinedOp::Max => on!($type, |a, b| a.max(b)),
                PredefinedOp::Min => on!($type, |a, b| a.min(b)),
                PredefinedOp::Sum => on!($type, |a, b| a.wrapping_add(b)),
                PredefinedOp::Product => on!($type, |a, b| a.wrapping_mul(b)),
                PredefinedOp::LogicalAnd => on!($type, |a, b| (a != 0 && b != 0).into()),
                PredefinedOp::LogicalOr => on!($type, |a, b| (a != 0 || b != 0).into()),
                PredefinedOp::LogicalXor => on!($type, |a, b| ((a != 0) != (b != 0)).into()),
                PredefinedOp::BitwiseAnd => on!($type, |a, b| a & b),
                PredefinedOp::BitwiseOr => on!($type, |a, b| a | b),
                PredefinedOp::BitwiseXor => on!($type, |a, b| a ^ b),
                _ => None,
            }
        }
    )+};
}

integers!(
    integer_i8 i8, integer_i16 i16, integer_i32 i32, integer_i64 i64, integer_i128 i128,
    integer_u8 u8, integer_u16 u16, integer_u32 u32, integer_u64 u64
);

macro_rules! floats {
    ($($name:ident $complex:ident $type:ty),+) => {$(
        const fn $name<F: Form>(op: PredefinedOp) -> Option<Function<F>> {
            match op {
                PredefinedOp::Max => on!($type, |a, b| if a > b { a } else { b }),
                PredefinedOp::Min => on!($type, |a, b| if a < b { a } else { b }),
                PredefinedOp::Sum => on!($type, |a, b| a + b),
                PredefinedOp::Product => on!($type, |a, b| a * b),
                _ => None,
            }
        }

        const fn $complex<F: Form>(op: PredefinedOp) -> Option<Function<F>> {
            const BYTES: usize = size_of::<$type>();
            const BOTH: usize = 2 * BYTES;
            fn parts(bytes: [u8; BOTH]) -> [$type; 2] {
                let part = |at: usize| {
                    let mut part = [0; BYTES];
                    part.copy_from_slice(&bytes[at..at + BYTES]);
                    <$type>::from_ne_bytes(part)
                };
                [part(0), part(BYTES)]
            }
            fn whole([re, im]: [$type; 2]) -> [u8; BOTH] {
                let mut bytes = [0; BOTH];
                bytes[..BYTES].copy_from_slice(&re.to_ne_bytes());
                bytes[BYTES..].copy_from_slice(&im.to_ne_bytes());
                bytes
            }
            match op {
                PredefinedOp::Sum => on!($type, |a, b| a + b),
                PredefinedOp::Product => Some(|earlier, later| {
                    F::each::<BOTH>(earlier, later, |a, b| {
                        let ([a, b], [c, d]) = (parts(a), parts(b));
                        whole([a * c - b * d, a * d + b * c])
                    })
                }),
                _ => None,
            }
        }
    )+};
}

floats!(float_f32 complex_f32 f32, float_f64 complex_f64 f64);

/// Reads a number in a format for which Rust has no type.
fn wide<const N: usize>(bytes: &[u8]) -> u128 {
    let mut all = [0; 16];
    all[..N].copy_from_slice(&bytes[..N]);
    u128::from_le_bytes(all)
}

macro_rules! wide_floats {
    ($($name:ident $complex:ident $format:ident $bytes:literal),+) => {$(
        const fn $name<F: Form>(op: PredefinedOp) -> Option<Function<F>> {
            const FORMAT: Format = $format;
            fn combine<F: Form>(
                earlier: F::Earlier<'_>,
                later: F::Later<'_>,
                combine: fn(u128, u128) -> u128,
            ) -> F::Result {
                F::each::<$bytes>(earlier, later, |a, b| {
                    let mut bytes = [0; $bytes];
                    let result = combine(wide::<$bytes>(&a), wide::<$bytes>(&b)).to_le_bytes();
                    bytes.copy_from_slice(&result[..$bytes]);
                    bytes
                })
            }
            fn chosen(a: u128, b: u128, wanted: Ordering) -> u128 {
                if FORMAT.compare(a, b) == Some(wanted) { a } else { b }
            }
            match op {
                PredefinedOp::Max => Some(|a, b| combine::<F>(a, b, |a, b| chosen(a, b, Ordering::Greater))),
                PredefinedOp::Min => Some(|a, b| combine::<F>(a, b, |a, b| chosen(a, b, Ordering::Less))),
                PredefinedOp::Sum => Some(|a, b| combine::<F>(a, b, |a, b| FORMAT.add(a, b))),
                PredefinedOp::Product => Some(|a, b| combine::<F>(a, b, |a, b| FORMAT.multiply(a, b))),
                _ => None,
            }
        }

        const fn $complex<F: Form>(op: PredefinedOp) -> Option<Function<F>> {
            const FORMAT: Format = $format;
            const BOTH: usize = 2 * $bytes;
            match op {
                PredefinedOp::Sum => $name(op),
                PredefinedOp::Product => Some(|earlier, later| {
                    F::each::<BOTH>(earlier, later, |x, y| {
                        let (a, b) = (wide::<$bytes>(&x), wide::<$bytes>(&x[$bytes..]));
                        let (c, d) = (wide::<$bytes>(&y), wide::<$bytes>(&y[$bytes..]));
                        let re = FORMAT.add(FORMAT.multiply(a, c), FORMAT.negate(FORMAT.multiply(b, d)));
                        let im = FORMAT.add(FORMAT.multiply(a, d), FORMAT.multiply(b, c));
                        let mut bytes = [0; BOTH];
                        bytes[..$bytes].copy_from_slice(&re.to_le_bytes()[..$bytes]);
                        bytes[$bytes..].copy_from_slice(&im.to_le_bytes()[..$bytes]);
                        bytes
                    })
                }),
                _ => None,
            }
        }
    )+};
}

wide_floats!(
    float_half complex_half HALF 2,
    float_long_double complex_long_double LONG_DOUBLE 16,
    float_quadruple complex_quadruple QUADRUPLE 16
);

macro_rules! logicals {
    ($($name:ident $type:ty),+) => {$(
        const fn $name<F: Form>(op: PredefinedOp) -> Option<Function<F>> {
            match op {
                PredefinedOp::LogicalAnd => on!($type, |a, b| (a != 0 && b != 0).into()),
                PredefinedOp::LogicalOr => on!($type, |a, b| (a != 0 || b != 0).into()),
                PredefinedOp::LogicalXor => on!($type, |a, b| ((a != 0) != (b != 0)).into()),
                _ => None,
            }
        }
    )+};
}

logicals!(logical_u8 u8, logical_u16 u16, logical_u32 u32, logical_u64 u64, logical_u128 u128);

const fn bytes<F: Form>(op: PredefinedOp) -> Option<Function<F>> {
    match op {
        PredefinedOp::BitwiseAnd | PredefinedOp::BitwiseOr | PredefinedOp::BitwiseXor => integer_u8(op),
        _ => None,
    }
}

/// MINLOC and MAXLOC: if the values are equal, takes the pair with the lower index (MPI 5.0 section 6.9.4).
#[inline(always)]
fn locate<F: Form, const VALUE: usize, const INDEX: usize, const BOTH: usize>(
    earlier: F::Earlier<'_>,
    later: F::Later<'_>,
    wanted: Ordering,
    values: fn([u8; VALUE], [u8; VALUE]) -> Option<Ordering>,
    indices: fn([u8; INDEX], [u8; INDEX]) -> Option<Ordering>,
) -> F::Result {
    fn part<const N: usize>(bytes: &[u8]) -> [u8; N] {
        let mut part = [0; N];
        part.copy_from_slice(&bytes[..N]);
        part
    }
    F::each::<BOTH>(earlier, later, |a, b| {
        let takes_earlier = match values(part(&a), part(&b)) {
            Some(Ordering::Equal) => indices(part(&a[VALUE..]), part(&b[VALUE..])) == Some(Ordering::Less),
            order => order == Some(wanted),
        };
        if takes_earlier { a } else { b }
    })
}

macro_rules! compare {
    ($type:ty) => {
        |a, b| <$type>::from_ne_bytes(a).partial_cmp(&<$type>::from_ne_bytes(b))
    };
}

macro_rules! pairs {
    ($op:expr, $value:ty, $index:ty) => {
        pairs!($op, { size_of::<$value>() }, compare!($value), { size_of::<$index>() }, compare!($index))
    };
    ($op:expr, $value_bytes:block, $values:expr, $index_bytes:block, $indices:expr) => {{
        const VALUE: usize = $value_bytes;
        const INDEX: usize = $index_bytes;
        match $op {
            PredefinedOp::MaxLocation => Some(|earlier, later| {
                locate::<F, VALUE, INDEX, { VALUE + INDEX }>(
                    earlier,
                    later,
                    Ordering::Greater,
                    $values,
                    $indices,
                )
            }),
            PredefinedOp::MinLocation => Some(|earlier, later| {
                locate::<F, VALUE, INDEX, { VALUE + INDEX }>(
                    earlier,
                    later,
                    Ordering::Less,
                    $values,
                    $indices,
                )
            }),
            _ => None,
        }
    }};
}

const fn pair<F: Form>(op: PredefinedOp, datatype: Predefined) -> Option<Function<F>> {
    match datatype {
        Predefined::FloatInt => pairs!(op, f32, i32),
        Predefined::DoubleInt => pairs!(op, f64, i32),
        Predefined::LongInt => pairs!(op, i64, i32),
        Predefined::TwoInt | Predefined::TwoInteger => pairs!(op, i32, i32),
        Predefined::ShortInt => pairs!(op, i16, i32),
        Predefined::TwoReal => pairs!(op, f32, f32),
        Predefined::TwoDoublePrecision => pairs!(op, f64, f64),
        Predefined::LongDoubleInt => {
            pairs!(
                op,
                { 16 },
                |a, b| LONG_DOUBLE.compare(wide::<16>(&a), wide::<16>(&b)),
                { 4 },
                compare!(i32)
            )
        }
        _ => None,
    }
}
