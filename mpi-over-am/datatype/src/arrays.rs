//! Types for parts of arrays: subarrays, and one task's part of a distributed array (MPI 5.0 sections 5.1.3, 5.1.4).

use std::sync::Arc;

use super::contents::{Combiner, Contents};
use super::layout::Layout;
use super::signature::Signature;
use super::{Basic, Bounds, Datatype};
use crate::construct::{TOO_LARGE, bytes_in_all};
use crate::error::{Error, Result};

/// Which index of an array runs fastest through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The last index (`MPI_ORDER_C`).
    C,
    /// The first index (`MPI_ORDER_FORTRAN`).
    Fortran,
}

impl Order {
    /// The constant of the C interface, as stored in a type's contents.
    #[must_use]
    pub const fn constant(self) -> i64 {
        match self {
            Self::C => 12,
            Self::Fortran => 15,
        }
    }
}

/// How one dimension of an array is distributed over tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// One block for each task (`MPI_DISTRIBUTE_BLOCK`) of this length; `None`: of the shortest length with which the tasks' blocks cover
    /// the dimension.
    Block(Option<u64>),
    /// Blocks of this length (`None`: of one element), assigned to the tasks in turn (`MPI_DISTRIBUTE_CYCLIC`).
    Cyclic(Option<u64>),
    /// Not distributed (`MPI_DISTRIBUTE_NONE`). An argument of the C interface has no effect, but belongs to the type's contents.
    None(Option<i64>),
}

impl Distribution {
    /// The value that a type's contents hold if no argument was given (`MPI_DISTRIBUTE_DFLT_DARG`).
    pub const DEFAULT_ARGUMENT: i64 = 19;

    /// The constant of the C interface, as stored in a type's contents.
    #[must_use]
    pub const fn constant(self) -> i64 {
        match self {
            Self::None(_) => 16,
            Self::Block(_) => 17,
            Self::Cyclic(_) => 18,
        }
    }

    /// The distribution with these constants, which a type's contents hold.
    pub(crate) fn of_constants(kind: i64, argument: i64) -> Self {
        let given = Some(argument).filter(|&argument| argument != Self::DEFAULT_ARGUMENT);
        match kind {
            17 => Self::Block(given.map(i64::cast_unsigned)),
            18 => Self::Cyclic(given.map(i64::cast_unsigned)),
            _ => Self::None(given),
        }
    }

    /// The argument of the C interface; `MPI_DISTRIBUTE_DFLT_DARG` if there is none.
    const fn argument(self) -> i64 {
        match self {
            Self::Block(Some(len)) | Self::Cyclic(Some(len)) => len.cast_signed(),
            Self::None(Some(argument)) => argument,
            Self::Block(None) | Self::Cyclic(None) | Self::None(None) => Self::DEFAULT_ARGUMENT,
        }
    }
}

/// The indexes of one dimension that a type selects: from index `start` on, `count` runs of `len` indexes, `stride` apart, then a run of
/// `rest` indexes. The dimension has `whole` indexes.
#[derive(Clone, Copy, Debug)]
struct Taken {
    whole: u64,
    start: u64,
    count: u64,
    len: u64,
    stride: u64,
    rest: u64,
}

impl Datatype {
    /// A part of an array (`MPI_Type_create_subarray`): `subsizes` indexes of each dimension, from `starts` on. The type's extent is that
    /// of the whole array.
    ///
    /// # Errors
    /// [`Error::Array`]: the part is empty or ends beyond the array, or there is no dimension. [`Error::Count`]: the lists have different
    /// lengths. [`Error::TooLarge`]: more than 2^63 bytes.
    pub fn subarray(
        sizes: &[u64],
        subsizes: &[u64],
        starts: &[u64],
        order: Order,
        old: &Self,
    ) -> Result<Self> {
        check_dimensions("subarray", sizes.len(), &[subsizes.len(), starts.len()])?;
        let mut taken = Vec::with_capacity(sizes.len());
        for (dimension, ((&whole, &len), &start)) in sizes.iter().zip(subsizes).zip(starts).enumerate() {
            let fits = len > 0 && len <= whole && start <= whole - len;
            if !fits {
                return Err(Error::Array {
                    dimension,
                    what: "the part is empty, or ends beyond the array; the values are the part's start and length, and the \
                           array's length",
                    values: [start, len, whole],
                });
            }
            taken.push(Taken { whole, start, count: 1, len, stride: 0, rest: 0 });
        }
        let contents = Contents::new(Combiner::Subarray)
            .integers([sizes.len() as u64])
            .integers(sizes.iter().chain(subsizes).chain(starts).copied())
            .integer(order.constant())
            .types([old]);
        Self::array(&taken, order, old, contents)
    }

    /// The part of a distributed array that belongs to task `rank` of `size` (`MPI_Type_create_darray`). `lengths` and `grid` are the
    /// number of elements and of tasks in each dimension. Tasks are numbered through the grid with the last dimension fastest, whatever the
    /// array's order.
    ///
    /// # Errors
    /// [`Error::Array`]: the grid does not have `size` tasks, `rank` is not less than `size`, the blocks do not fit the array, or there is
    /// no dimension. [`Error::Count`]: the lists have different lengths. [`Error::TooLarge`]: more than 2^63 bytes.
    pub fn darray(
        (size, rank): (u64, u64),
        lengths: &[u64],
        distributions: &[Distribution],
        grid: &[u64],
        order: Order,
        old: &Self,
    ) -> Result<Self> {
        check_dimensions("darray", lengths.len(), &[distributions.len(), grid.len()])?;
        let tasks = grid.iter().try_fold(1u64, |product, &tasks| product.checked_mul(tasks));
        if tasks != Some(size) || rank >= size {
            let what = "the grid does not have this number of tasks, or does not contain this rank; the values are the rank, the \
                        number of tasks, and the grid's number of tasks";
            return Err(Error::Array { dimension: 0, what, values: [rank, size, tasks.unwrap_or(u64::MAX)] });
        }
        let mut taken = Vec::with_capacity(lengths.len());
        let mut tasks_behind = size;
        for (dimension, ((&whole, &distribution), &tasks)) in
            lengths.iter().zip(distributions).zip(grid).enumerate()
        {
            tasks_behind /= tasks;
            let coordinate = rank / tasks_behind % tasks;
            taken.push(share(dimension, whole, distribution, tasks, coordinate)?);
        }
        let constants =
            distributions.iter().map(|distribution| (distribution.constant(), distribution.argument()));
        let contents = Contents::new(Combiner::Darray)
            .integers([size, rank, lengths.len() as u64])
            .integers(lengths.iter().copied())
            .signed_integers(constants.clone().map(|(distribution, _)| distribution))
            .signed_integers(constants.map(|(_, argument)| argument))
            .integers(grid.iter().copied())
            .integer(order.constant())
            .types([old]);
        Self::array(&taken, order, old, contents)
    }

    /// Makes the type of the selected elements. From the fastest dimension outwards, each dimension selects runs of the type that the
    /// previous dimensions have made.
    fn array(taken: &[Taken], order: Order, old: &Self, contents: Contents) -> Result<Self> {
        let mut layout = Layout::clone(old.element());
        let (mut unit, mut elements) = (old.extent(), 1u64);
        let mut one = |taken: &Taken| {
            let signed = |value: u64| i64::try_from(value).map_err(|_| TOO_LARGE);
            let bytes = |count: u64| signed(count)?.checked_mul(unit).ok_or(TOO_LARGE);
            let indexes = taken.count * taken.len + taken.rest;
            elements = elements.checked_mul(indexes).ok_or(TOO_LARGE)?;
            bytes_in_all(old.size(), elements)?;
            let next_unit = bytes(taken.whole)?;
            let inner = Arc::new(layout.clone());
            let run = Arc::new(Layout::repeat(&inner, taken.len, unit));
            let runs = Layout::repeat(&run, taken.count, bytes(taken.stride)?);
            let rest = Layout::repeat(&inner, taken.rest, unit);
            let behind = bytes(taken.start + taken.count * taken.stride)?;
            layout = Layout::sequence([runs.shifted(bytes(taken.start)?), rest.shifted(behind)]);
            unit = next_unit;
            Ok::<(), Error>(())
        };
        match order {
            Order::C => taken.iter().rev().try_for_each(&mut one)?,
            Order::Fortran => taken.iter().try_for_each(&mut one)?,
        }
        let (true_lower, true_upper) = super::construct::true_bounds(&layout);
        let alignment = old.bounds().alignment;
        let bounds = Bounds { lower: 0, upper: unit, true_lower, true_upper, is_set: true, alignment };
        let signature = Signature::repeat(old.signature(), elements);
        let basic = if elements == 0 { Basic::None } else { old.parts() };
        Ok(Self::derived(Arc::new(layout), Arc::new(signature), bounds, basic, contents))
    }
}

/// The indexes of a dimension that belong to the task at `coordinate` of `tasks`.
fn share(
    dimension: usize,
    whole: u64,
    distribution: Distribution,
    tasks: u64,
    coordinate: u64,
) -> Result<Taken> {
    let refused = |what, value| Err(Error::Array { dimension, what, values: [value, tasks, whole] });
    match distribution {
        Distribution::None(_) if tasks != 1 => refused(
            "it is not distributed, but more than one task shares it; the last two values are the number of tasks, and the \
             array's length",
            tasks,
        ),
        Distribution::None(_) => Ok(Taken { whole, start: 0, count: 1, len: whole, stride: 0, rest: 0 }),
        Distribution::Block(len) => {
            let len = len.unwrap_or_else(|| whole.div_ceil(tasks));
            if len.checked_mul(tasks).is_none_or(|all| all < whole) || len == 0 && whole > 0 {
                return refused(
                    "blocks of this length do not hold the array; the values are the block's length, the number of tasks, and \
                     the array's length",
                    len,
                );
            }
            let start = len.saturating_mul(coordinate).min(whole);
            Ok(Taken { whole, start, count: 1, len: len.min(whole - start), stride: 0, rest: 0 })
        }
        Distribution::Cyclic(len) => {
            let len = len.unwrap_or(1);
            let Some(stride) = len.checked_mul(tasks).filter(|&stride| stride > 0) else {
                return refused(
                    "a round of blocks of this length is empty or too long; the values are the block's length, the number of \
                     tasks, and the array's length",
                    len,
                );
            };
            let start = (len * coordinate).min(whole);
            // The number of rounds in which this task has a whole block, and the length of its block in the last round if that block is
            // shorter.
            let count = (whole - start) / stride + u64::from((whole - start) % stride >= len);
            let behind = start + count * stride;
            let rest = whole.saturating_sub(behind).min(len);
            Ok(Taken { whole, start, count, len, stride, rest })
        }
    }
}

fn check_dimensions(call: &'static str, dimensions: usize, others: &[usize]) -> Result<()> {
    if dimensions == 0 {
        return Err(Error::Array {
            dimension: 0,
            what: "an array has at least one dimension",
            values: [0; 3],
        });
    }
    match others.iter().find(|&&given| given != dimensions) {
        Some(&given) => Err(Error::Count { call, given, expected: dimensions }),
        None => Ok(()),
    }
}
