//! Types in a file whose numbers have other sizes than in memory (MPI 5.0 sections 14.5 and 14.5.1).

use super::contents::{Combiner, Contents};
use super::{Datatype, Distribution, Order, Predefined};
use crate::construct::TOO_LARGE;
use crate::error::Result;

impl Datatype {
    /// Bytes of one element if its basic elements have the sizes that `size_of` returns.
    #[must_use]
    pub fn bytes_in_file(&self, size_of: &dyn Fn(Predefined) -> u64) -> u64 {
        self.signature().bytes_in_file(size_of)
    }

    /// Number of whole basic elements in the first `bytes` bytes of elements in a file, and the bytes of these basic elements.
    #[must_use]
    pub fn elements_in_file(&self, bytes: u64, size_of: &dyn Fn(Predefined) -> u64) -> (u64, u64) {
        let whole = self.bytes_in_file(size_of).max(1);
        let (count, mut left) = (bytes / whole, bytes % whole);
        let mut elements = count * self.elements();
        // Fails behind the last whole number.
        let _ = self.signature().try_each_run(&mut |basic, run| {
            let size = size_of(basic).max(1);
            let taken = run.min(left / size);
            elements += taken;
            left -= taken * size;
            if taken < run { Err(()) } else { Ok(()) }
        });
        (elements, bytes - left)
    }

    /// The type that this one is in a file, as a type of bytes. A constructor with counts and displacements in elements is applied to the
    /// type in the file; displacements, strides and bounds in bytes stay as they are, because programs compute them from
    /// `MPI_File_get_type_extent`. If no size differs, and the type has no pair with a gap, it stays as it is.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge).
    pub fn in_file(&self, size_of: &dyn Fn(Predefined) -> u64) -> Result<Self> {
        let is_same =
            self.signature().all_basic(&|basic| size_of(basic) == basic.size()) && !self.has_pair_with_gap();
        let Some(contents) = self.contents().filter(|contents| !contents.datatypes.is_empty()) else {
            // A pair with a gap has none in the file.
            return if is_same {
                Ok(self.clone())
            } else {
                Self::contiguous(self.bytes_in_file(size_of), &Predefined::Byte.into())
            };
        };
        if is_same {
            return Ok(self.clone());
        }
        let types = contents.datatypes.iter().map(|datatype| datatype.in_file(size_of));
        made_of(contents, &types.collect::<Result<Vec<_>>>()?)
    }

    /// Whether the type is, or is made of, a predefined pair with a gap between its numbers or after them.
    fn has_pair_with_gap(&self) -> bool {
        match self.contents().filter(|contents| !contents.datatypes.is_empty()) {
            Some(contents) => contents.datatypes.iter().any(Self::has_pair_with_gap),
            None => !self.is_dense(),
        }
    }
}

/// Applies a constructor to other types.
fn made_of(contents: &Contents, types: &[Datatype]) -> Result<Datatype> {
    let Contents { combiner, integers, addresses, .. } = contents;
    let old = &types[0];
    let counts: Vec<u64> = integers.iter().map(|integer| integer.cast_unsigned()).collect();
    // The lists of a type with as many blocks as its first integer says.
    let blocks = counts.first().map_or(0, |&blocks| usize::try_from(blocks).unwrap_or(0));
    let list = |from: usize, len: usize| counts.get(from..from + len).unwrap_or_default();
    let signed = |from: usize, len: usize| integers.get(from..from + len).unwrap_or_default();
    match combiner {
        Combiner::Contiguous => Datatype::contiguous(counts[0], old),
        Combiner::Vector => Datatype::vector(counts[0], counts[1], integers[2], old),
        Combiner::Hvector => Datatype::hvector(counts[0], counts[1], addresses[0], old),
        Combiner::Indexed => Datatype::indexed(list(1, blocks), signed(1 + blocks, blocks), old),
        Combiner::Hindexed => Datatype::hindexed(list(1, blocks), addresses, old),
        Combiner::IndexedBlock => Datatype::indexed_block(counts[1], signed(2, blocks), old),
        Combiner::HindexedBlock => Datatype::hindexed_block(counts[1], addresses, old),
        Combiner::Struct => Datatype::structure(list(1, blocks), addresses, types),
        Combiner::Resized => Datatype::resized(old, addresses[0], addresses[1]),
        Combiner::Subarray => {
            let [sizes, parts, starts] = [0, 1, 2].map(|part| list(1 + part * blocks, blocks));
            Datatype::subarray(sizes, parts, starts, order_of(integers), old)
        }
        Combiner::Darray => {
            let dimensions = usize::try_from(counts[2]).map_err(|_| TOO_LARGE)?;
            let part = |number: usize| 3 + number * dimensions;
            let kinds = signed(part(1), dimensions).iter().zip(signed(part(2), dimensions));
            let distributions: Vec<_> =
                kinds.map(|(&kind, &argument)| Distribution::of_constants(kind, argument)).collect();
            let lists = (list(part(0), dimensions), list(part(3), dimensions));
            Datatype::darray(
                (counts[0], counts[1]),
                lists.0,
                &distributions,
                lists.1,
                order_of(integers),
                old,
            )
        }
        Combiner::Dup | Combiner::Named | Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer => {
            Ok(old.clone())
        }
    }
}

/// The order of an array, the last integer of its contents.
fn order_of(integers: &[i64]) -> Order {
    if integers.last() == Some(&Order::Fortran.constant()) { Order::Fortran } else { Order::C }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Visit};

    struct Blocks(Vec<(i64, u64)>);

    impl Visit for Blocks {
        fn block(&mut self, at: i64, len: u64) {
            match self.0.last_mut() {
                Some(last) if last.0 + last.1.cast_signed() == at => last.1 += len,
                _ => self.0.push((at, len)),
            }
        }
    }

    fn blocks(datatype: &Datatype) -> Vec<(i64, u64)> {
        let layout: Layout = datatype.layout(1);
        let mut blocks = Blocks(Vec::new());
        layout.visit(0, datatype.size(), &mut blocks);
        blocks.0
    }

    fn in_file(datatype: &Datatype) -> (Vec<(i64, u64)>, i64) {
        let there = datatype.in_file(&Predefined::external32_size).unwrap();
        assert_eq!(there.size(), datatype.external32_len(1).unwrap());
        (blocks(&there), there.extent())
    }

    /// A long has 4 bytes in external32, and 8 in memory.
    #[test]
    fn displacements_in_elements_shrink_and_those_in_bytes_stay() {
        let long: Datatype = Predefined::Long.into();
        let int: Datatype = Predefined::Int.into();
        assert_eq!(in_file(&long), (vec![(0, 4)], 4));
        assert_eq!(in_file(&Datatype::contiguous(3, &long).unwrap()), (vec![(0, 12)], 12));
        assert_eq!(in_file(&Datatype::vector(2, 1, 3, &long).unwrap()), (vec![(0, 4), (12, 4)], 16));
        assert_eq!(in_file(&Datatype::hvector(2, 1, 24, &long).unwrap()), (vec![(0, 4), (24, 4)], 28));
        let indexed = Datatype::indexed(&[1, 2], &[1, 5], &long).unwrap();
        assert_eq!(in_file(&indexed), (vec![(4, 4), (20, 8)], 24));
        let by_bytes = Datatype::hindexed(&[1, 2], &[8, 40], &long).unwrap();
        assert_eq!(in_file(&by_bytes), (vec![(8, 4), (40, 8)], 40));
        let equal = Datatype::indexed_block(2, &[0, 3], &long).unwrap();
        assert_eq!(in_file(&equal), (vec![(0, 8), (12, 8)], 20));
        let equal = Datatype::hindexed_block(2, &[0, 32], &long).unwrap();
        assert_eq!(in_file(&equal), (vec![(0, 8), (32, 8)], 40));
        let both = Datatype::structure(&[1, 2], &[0, 8], &[int.clone(), long.clone()]).unwrap();
        assert_eq!(in_file(&both), (vec![(0, 4), (8, 8)], 16));
        assert_eq!(in_file(&Datatype::resized(&long, 0, 24).unwrap()), (vec![(0, 4)], 24));
        assert_eq!(in_file(&Datatype::dup(&long)), (vec![(0, 4)], 4));
        for order in [Order::C, Order::Fortran] {
            let (sizes, parts, starts) = ([2, 3], [2, 1], [0, 1]);
            let array = Datatype::subarray(&sizes, &parts, &starts, order, &long).unwrap();
            let small = Datatype::subarray(&sizes, &parts, &starts, order, &int).unwrap();
            assert_eq!(in_file(&array), (blocks(&small), small.extent()));
            let shares = [Distribution::Cyclic(Some(2)), Distribution::Block(None)];
            let [array, small] = [&long, &int]
                .map(|old| Datatype::darray((4, 1), &[5, 6], &shares, &[2, 2], order, old).unwrap());
            assert_eq!(in_file(&array), (blocks(&small), small.extent()));
        }
        // A constructor above a constructor.
        let outer = Datatype::vector(2, 1, 2, &Datatype::vector(2, 1, 2, &long).unwrap()).unwrap();
        assert_eq!(in_file(&outer), (vec![(0, 4), (8, 4), (24, 4), (32, 4)], 36));
    }

    #[test]
    fn a_type_without_other_sizes_stays() {
        let gap = Datatype::vector(2, 1, 3, &Predefined::Int.into()).unwrap();
        assert_eq!(gap.in_file(&Predefined::external32_size).unwrap(), gap);
        let pair: Datatype = Predefined::ShortInt.into();
        assert_eq!(in_file(&pair), (vec![(0, 6)], 6));
        let pairs = Datatype::contiguous(2, &Predefined::DoubleInt.into()).unwrap();
        assert_eq!(in_file(&pairs), (vec![(0, 24)], 24), "a pair has no gap in a larger type, either");
    }
}
