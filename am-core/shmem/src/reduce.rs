//! Reductions and scans (OpenSHMEM 1.6, sections 9.10.9 and 9.10.10). Values are combined in the order of the members, so the result is the
//! same at all, whatever the type.

use std::ffi::{c_int, c_long};

use crate::objects::{Ctx, Members, Team};
use crate::progress;
use crate::rma;
use crate::team::{active_set, members};
use crate::tokens::{self, LETTER_BYTES};
use crate::types::{Complex, LongDouble};
use crate::world::{Place, locate, world};

/// The operations.
#[derive(Clone, Copy)]
enum Operation {
    And,
    Or,
    Xor,
    Max,
    Min,
    Sum,
    Product,
}

/// Values that can be combined. The table has no call for an operation that a type does not have.
pub(crate) trait Value: Copy {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn zero() -> Self;
}

macro_rules! integers {
    ($($kind:ty)*) => {$(
        impl Value for $kind {
            fn and(self, other: Self) -> Self { self & other }
            fn or(self, other: Self) -> Self { self | other }
            fn xor(self, other: Self) -> Self { self ^ other }
            fn max(self, other: Self) -> Self { Ord::max(self, other) }
            fn min(self, other: Self) -> Self { Ord::min(self, other) }
            fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
            fn product(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn zero() -> Self { 0 }
        }
    )*};
}

integers! { i8 u8 i16 u16 i32 u32 i64 u64 isize usize }

/// The operations on bits, which these types do not have.
macro_rules! no_bits {
    () => {
        fn and(self, _other: Self) -> Self {
            self
        }
        fn or(self, _other: Self) -> Self {
            self
        }
        fn xor(self, _other: Self) -> Self {
            self
        }
    };
}

macro_rules! floats {
    ($($kind:ty)*) => {$(
        impl Value for $kind {
            no_bits!();
            fn max(self, other: Self) -> Self { if other > self { other } else { self } }
            fn min(self, other: Self) -> Self { if other < self { other } else { self } }
            fn sum(self, other: Self) -> Self { self + other }
            fn product(self, other: Self) -> Self { self * other }
            fn zero() -> Self { 0.0 }
        }

        impl Value for Complex<$kind> {
            no_bits!();
            fn max(self, _other: Self) -> Self { self }
            fn min(self, _other: Self) -> Self { self }
            fn sum(self, other: Self) -> Self { Self(self.0 + other.0, self.1 + other.1) }
            fn product(self, other: Self) -> Self {
                Self(self.0 * other.0 - self.1 * other.1, self.0 * other.1 + self.1 * other.0)
            }
            fn zero() -> Self { Self(0.0, 0.0) }
        }
    )*};
}

floats! { f32 f64 }

/// x87's arithmetic, which C uses for `long double` on this machine.
#[cfg(target_arch = "x86_64")]
macro_rules! x87 {
    ($a:expr, $b:expr, $operation:literal) => {{
        let mut a: LongDouble = $a;
        let b: LongDouble = $b;
        // SAFETY: loads two values of 10 bytes from locals, and stores one; the stack of the unit is left as it was.
        unsafe {
            std::arch::asm!(
                "fld tbyte ptr [{a}]", "fld tbyte ptr [{b}]", $operation, "fstp tbyte ptr [{a}]",
                a = in(reg) &raw mut a, b = in(reg) &raw const b,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            );
        }
        a
    }};
}

#[cfg(target_arch = "x86_64")]
impl LongDouble {
    /// Whether `self` is less than `other`.
    fn is_less(self, other: Self) -> bool {
        let below: u8;
        // SAFETY: compares two values of 10 bytes from locals; the stack of the unit is left as it was.
        unsafe {
            std::arch::asm!(
                "fld tbyte ptr [{b}]", "fld tbyte ptr [{a}]", "fucomip st, st(1)", "fstp st(0)", "setb {below}",
                "setp {unordered}", "not {unordered}", "and {below}, {unordered}",
                a = in(reg) &raw const self, b = in(reg) &raw const other,
                below = out(reg_byte) below, unordered = out(reg_byte) _,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            );
        }
        below & 1 != 0
    }
}

#[cfg(target_arch = "x86_64")]
impl Value for LongDouble {
    no_bits!();
    fn max(self, other: Self) -> Self {
        if self.is_less(other) { other } else { self }
    }
    fn min(self, other: Self) -> Self {
        if other.is_less(self) { other } else { self }
    }
    fn sum(self, other: Self) -> Self {
        x87!(self, other, "faddp st(1), st")
    }
    fn product(self, other: Self) -> Self {
        x87!(self, other, "fmulp st(1), st")
    }
    fn zero() -> Self {
        Self([0; 2])
    }
}

/// On other machines `long double` has 128 bits, for which there is no arithmetic here.
#[cfg(not(target_arch = "x86_64"))]
impl Value for LongDouble {
    no_bits!();
    fn max(self, _other: Self) -> Self {
        no_arithmetic()
    }
    fn min(self, _other: Self) -> Self {
        no_arithmetic()
    }
    fn sum(self, _other: Self) -> Self {
        no_arithmetic()
    }
    fn product(self, _other: Self) -> Self {
        no_arithmetic()
    }
    fn zero() -> Self {
        Self([0; 2])
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn no_arithmetic() -> ! {
    crate::world::fail("reduction", format_args!("long double is not supported on this machine: use double"))
}

/// Combines `from` into `into`.
unsafe fn fold<T: Value>(operation: Operation, into: &mut [T], from: *const T) {
    unsafe fn each<T: Value>(into: &mut [T], from: *const T, combine: impl Fn(T, T) -> T) {
        for (at, value) in into.iter_mut().enumerate() {
            // SAFETY: the caller's: as many values as `into` has.
            *value = combine(*value, unsafe { from.add(at).read_unaligned() });
        }
    }
    unsafe {
        match operation {
            Operation::And => each(into, from, T::and),
            Operation::Or => each(into, from, T::or),
            Operation::Xor => each(into, from, T::xor),
            Operation::Max => each(into, from, T::max),
            Operation::Min => each(into, from, T::min),
            Operation::Sum => each(into, from, T::sum),
            Operation::Product => each(into, from, T::product),
        }
    }
}

/// `count` values at `from`, in private memory.
unsafe fn copied<T: Value>(from: *const T, count: usize) -> Vec<T> {
    let mut values = Vec::with_capacity(count);
    // SAFETY: the caller's values, and room for as many.
    unsafe {
        std::ptr::copy_nonoverlapping(from, values.as_mut_ptr(), count);
        values.set_len(count);
    }
    values
}

/// Combines the values of the members `of`, from element `first` on, in their order; `None`: there is no such member.
fn combined<T: Value>(
    call: &str,
    members: &Members,
    of: std::ops::Range<usize>,
    operation: Operation,
    source: *const T,
    (first, count): (usize, usize),
) -> Option<Vec<T>> {
    let mut result: Option<Vec<T>> = None;
    for at in of {
        let pe = members.list[at] as c_int;
        let len = count * size_of::<T>();
        let place = locate(call, "source", source.wrapping_add(first).addr(), len, pe);
        let mut buffer: Vec<T> = Vec::new();
        let from = match place {
            Place::Mapped(target) => target.at.cast_const().cast::<T>(),
            far => {
                buffer.reserve(count);
                unsafe { rma::get_bytes(call, far, buffer.as_mut_ptr().cast(), len) };
                buffer.as_ptr()
            }
        };
        match &mut result {
            None => result = Some(unsafe { copied(from, count) }),
            Some(result) => unsafe { fold(operation, result, from) },
        }
    }
    result
}

/// Short values travel as letters. Of long ones each member combines a part, and puts the result to all.
unsafe fn reduce_among<T: Value>(
    call: &str,
    members: &Members,
    operation: Operation,
    dest: *mut T,
    source: *const T,
    count: usize,
) {
    let world = world(call);
    if count == 0 {
        tokens::barrier(call, world, members);
        return;
    }
    if count * size_of::<T>() <= LETTER_BYTES {
        let all = 0..members.list.len();
        return unsafe { by_letters(call, members, operation, dest, source, count, all) };
    }
    tokens::barrier(call, world, members);
    let part = count.div_ceil(members.list.len());
    let first = Ord::min(members.me * part, count);
    let mine = Ord::min(part, count - first);
    let result = if mine == 0 {
        None
    } else {
        combined(call, members, 0..members.list.len(), operation, source, (first, mine))
    };
    // A destination may be a source, which all must have read.
    tokens::barrier(call, world, members);
    if let Some(result) = result {
        for step in 0..members.list.len() {
            let pe = members.list[(members.me + step) % members.list.len()] as c_int;
            unsafe {
                rma::put(call, Ctx::DEFAULT, dest.wrapping_add(first), result.as_ptr(), mine, pe);
            }
        }
    }
    progress::complete(call);
    tokens::barrier(call, world, members);
}

/// Combines the letters of the members `of`; without one, the result is zero.
unsafe fn by_letters<T: Value>(
    call: &str,
    members: &Members,
    operation: Operation,
    dest: *mut T,
    source: *const T,
    count: usize,
    of: std::ops::Range<usize>,
) {
    let mut letter = [0; LETTER_BYTES];
    let len = count * size_of::<T>();
    unsafe { std::ptr::copy_nonoverlapping(source.cast(), letter.as_mut_ptr(), len) };
    let mut result: Option<Vec<T>> = None;
    tokens::exchange(call, world(call), members, &letter[..len], |at, letter| {
        if !of.contains(&at) {
            return;
        }
        let from = letter.as_ptr().cast::<T>();
        match &mut result {
            None => {
                let values = (0..count).map(|at| unsafe { from.add(at).read_unaligned() });
                result = Some(values.collect());
            }
            Some(result) => unsafe { fold(operation, result, from) },
        }
    });
    let result = result.unwrap_or_else(|| vec![T::zero(); count]);
    unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), dest, count) };
}

/// The sums of the members before this PE, with its own (`inscan`) or without (`exscan`).
unsafe fn scan_among<T: Value>(
    call: &str,
    members: &Members,
    dest: *mut T,
    source: *const T,
    count: usize,
    with_own: bool,
) {
    let world = world(call);
    let of = 0..members.me + usize::from(with_own);
    if count == 0 {
        tokens::barrier(call, world, members);
        return;
    }
    if count * size_of::<T>() <= LETTER_BYTES {
        return unsafe { by_letters(call, members, Operation::Sum, dest, source, count, of) };
    }
    tokens::barrier(call, world, members);
    let result = combined(call, members, of, Operation::Sum, source, (0, count));
    tokens::barrier(call, world, members);
    let result = result.unwrap_or_else(|| vec![T::zero(); count]);
    unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), dest, count) };
}

macro_rules! reductions {
    ($($name:ident $operation:ident;)*) => {
        $(
            #[inline(never)]
            pub(crate) unsafe fn $name<T: Value>(call: &str, team: Team, dest: *mut T, source: *const T, count: usize) -> c_int {
                if team == Team::INVALID {
                    return -1;
                }
                unsafe { reduce_among(call, members(call, team), Operation::$operation, dest, source, count) };
                0
            }
        )*

        pub(crate) mod old {
            use super::*;

            $(
                pub(crate) unsafe fn $name<T: Value>(call: &str, dest: *mut T, source: *const T, count: c_int, start: c_int, log_stride: c_int, size: c_int, _work: *mut T, _sync: *mut c_long) {
                    let members = active_set(call, start, log_stride, size);
                    let count = usize::try_from(count).unwrap_or(0);
                    unsafe { reduce_among(call, &members, Operation::$operation, dest, source, count) };
                }
            )*
        }
    };
}

reductions! {
    and And;
    or Or;
    xor Xor;
    max Max;
    min Min;
    sum Sum;
    prod Product;
}

pub(crate) unsafe fn sum_inscan<T: Value>(
    call: &str,
    team: Team,
    dest: *mut T,
    source: *const T,
    count: usize,
) -> c_int {
    if team == Team::INVALID {
        return -1;
    }
    unsafe { scan_among(call, members(call, team), dest, source, count, true) };
    0
}

pub(crate) unsafe fn sum_exscan<T: Value>(
    call: &str,
    team: Team,
    dest: *mut T,
    source: *const T,
    count: usize,
) -> c_int {
    if team == Team::INVALID {
        return -1;
    }
    unsafe { scan_among(call, members(call, team), dest, source, count, false) };
    0
}
