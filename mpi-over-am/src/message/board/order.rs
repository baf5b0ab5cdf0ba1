//! The order in which a board with a counter combines the vectors of an allreduce.
//!
//! It is the order of the messages of [`allreduce`](crate::collective), which the first calls on a communicator use. So all calls give the
//! same bits, also with operations that round.

use crate::error::Result;
use crate::message::tree::Tree;
use crate::settings::Selection;

/// The order in which vectors are combined.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// That of recursive doubling among this number of tasks.
    Doubling(u32),
    /// That of a tree. The position is the top's.
    Tree(Tree),
}

impl Order {
    /// The order for vectors of `len` bytes of each of `size` tasks.
    pub(crate) fn new(selection: &Selection, size: u32, len: u64, is_commutative: bool) -> Self {
        if selection.uses_rounds(size.into()) {
            return Self::Doubling(size);
        }
        Self::Tree(Tree::of_reduction(selection, (0, size), 0, len, is_commutative))
    }

    /// Calls `combine` for two ranks at a time: the combination of the two vectors replaces the vector of the second rank. Returns the rank
    /// whose vector is the result.
    ///
    /// # Errors
    /// The error of `combine`.
    pub(crate) fn combine(self, mut combine: impl FnMut(u32, u32) -> Result<()>) -> Result<u32> {
        match self {
            Self::Doubling(size) => by_doubling(size, &mut combine),
            Self::Tree(tree) => along_tree(tree, &mut combine),
        }
    }
}

/// In each round, the last task of a group and the last task of the next group hold the vectors of their groups.
fn by_doubling(size: u32, combine: &mut impl FnMut(u32, u32) -> Result<()>) -> Result<u32> {
    let in_rounds = 1 << size.ilog2();
    let folded = size - in_rounds;
    (0..folded).try_for_each(|pair| combine(2 * pair, 2 * pair + 1))?;
    let rank_of = |number: u32| if number < folded { 2 * number + 1 } else { number + folded };
    let mut distance = 1;
    while distance < in_rounds {
        let mut last = 2 * distance - 1;
        while last < in_rounds {
            combine(rank_of(last - distance), rank_of(last))?;
            last += 2 * distance;
        }
        distance *= 2;
    }
    Ok(size - 1)
}

/// Combines the vectors of a subtree. Returns the rank whose vector is the result.
fn along_tree(place: Tree, combine: &mut impl FnMut(u32, u32) -> Result<()>) -> Result<u32> {
    place.children().try_fold(place.rank(), |reduced, child| {
        let of_child = along_tree(place.position_of(child), combine)?;
        combine(reduced, of_child)?;
        Ok(of_child)
    })
}
