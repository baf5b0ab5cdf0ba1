//! The tree of a rooted collective, numbered from its top: the task `d` ranks after the top is number `d`.
//!
//! Long data use a binomial tree, where the parent of number `d` is `d` without its lowest set bit. Short data of more than a few tasks use
//! a flat tree, where a task has up to [`CHILDREN`] children: sending to several tasks costs less than another hop, and all but the inner
//! tasks are woken only once. If tasks share processors, wake-ups dominate.

use crate::settings::Selection;

/// Maximum number of children of a task in a flat tree.
const CHILDREN: u64 = 16;
/// Maximum bytes of data along a flat tree.
pub(crate) const FLAT_BYTES_MAX: u64 = 1024;

/// A task's position in the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    // 64 bits: a number with another bit set may exceed 32 bits.
    number: u64,
    size: u64,
    top: u32,
    is_flat: bool,
}

impl Tree {
    /// The position of `rank` among `size` tasks, in the tree for data of `len` bytes with rank `top` as its top.
    #[inline(always)]
    pub(crate) fn new(selection: &Selection, (rank, size): (u32, u32), top: u32, len: u64) -> Self {
        let is_flat = !selection.uses_rounds(size.into()) && len <= FLAT_BYTES_MAX;
        Self { number: 0, size: size.into(), top, is_flat }.position_of(rank)
    }

    /// The position of a rank in the tree of a reduction. If the operation does not commute, a task's subtree consists of consecutive
    /// numbers after it, and later children have later subtrees; the top must then be rank 0.
    #[inline(always)]
    pub(crate) fn of_reduction(
        selection: &Selection,
        of: (u32, u32),
        top: u32,
        len: u64,
        is_commutative: bool,
    ) -> Self {
        let place = Self::new(selection, of, top, len);
        Self { is_flat: place.is_flat && (is_commutative || place.size <= CHILDREN + 1), ..place }
    }

    /// The position of another rank in the same tree.
    #[inline(always)]
    pub(crate) fn position_of(self, rank: u32) -> Self {
        let before = u64::from(rank) + self.size - u64::from(self.top);
        Self { number: if before >= self.size { before - self.size } else { before }, ..self }
    }

    /// The rank at this position.
    pub(crate) fn rank(self) -> u32 {
        self.rank_of(self.number)
    }

    /// The parent; `None` at the top.
    #[inline(always)]
    pub(crate) fn parent(self) -> Option<u32> {
        let number = self.number.checked_sub(1)?;
        Some(self.rank_of(if self.is_flat { number / CHILDREN } else { self.number & number }))
    }

    /// The children. In a binomial tree, the one with the smallest subtree comes first.
    #[inline(always)]
    pub(crate) fn children(self) -> impl DoubleEndedIterator<Item = u32> {
        let Self { number, size, is_flat, .. } = self;
        let count = match (is_flat, number) {
            (true, _) => (size - 1).saturating_sub(number * CHILDREN).min(CHILDREN),
            (false, 0) => u64::from(u64::BITS - (size - 1).leading_zeros()),
            (false, _) => u64::from(number.trailing_zeros()),
        };
        let child = move |at: u64| if is_flat { number * CHILDREN + 1 + at } else { number | 1 << at };
        (0..count).map(child).filter(move |&child| child < size).map(move |child| self.rank_of(child))
    }

    #[inline(always)]
    fn rank_of(self, number: u64) -> u32 {
        let rank = u64::from(self.top) + number;
        let rank = if rank >= self.size { rank - self.size } else { rank };
        u32::try_from(rank).expect("a rank is below the size")
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;
    use crate::settings::Selection;

    /// Lengths of short and long data.
    const LENS: [u64; 2] = [8, 1 << 20];

    #[test]
    fn every_task_but_the_top_is_the_child_of_its_parent_and_of_no_other() {
        let selection = Selection::default();
        for (len, size) in LENS.into_iter().flat_map(|len| (1..40).map(move |size| (len, size))) {
            for top in 0..size {
                let mut parents = vec![0; size as usize];
                for rank in 0..size {
                    let place = Tree::new(&selection, (rank, size), top, len);
                    assert_eq!(place.parent().is_none(), rank == top);
                    for child in place.children() {
                        let parent = Tree::new(&selection, (child, size), top, len).parent();
                        assert_eq!(parent, Some(rank), "{child} of {size}, top {top}, {len} bytes");
                        parents[child as usize] += 1;
                    }
                }
                let expected: Vec<_> = (0..size).map(|rank| u32::from(rank != top)).collect();
                assert_eq!(parents, expected, "{size} tasks, top {top}, {len} bytes");
            }
        }
    }

    #[test]
    fn subtrees_in_order_follow_each_other() {
        /// The ranks of a subtree, in the order in which a reduction combines them.
        fn ranks(rank: u32, size: u32, len: u64) -> Vec<u32> {
            let place = Tree::of_reduction(&Selection::default(), (rank, size), 0, len, false);
            let below = place.children().flat_map(|child| ranks(child, size, len));
            std::iter::once(rank).chain(below).collect()
        }
        for (len, size) in LENS.into_iter().flat_map(|len| (1..40).map(move |size| (len, size))) {
            assert_eq!(ranks(0, size, len), (0..size).collect::<Vec<_>>(), "{len} bytes");
        }
    }
}
