//! The hosts of a communicator's tasks.

use std::collections::HashMap;
use std::ops::Range;

/// The ranks of a communicator by host. Hosts are numbered in the order of their first ranks, so that all tasks number them alike. The
/// *position* of a rank is its index in the list of all ranks, which is ordered by host, then by rank.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// The rank at each position.
    ranks: Vec<u32>,
    /// The position of each rank.
    positions: Vec<u32>,
    /// The first position of each host, followed by the number of ranks.
    starts: Vec<u32>,
    own: u32,
}

impl Hosts {
    /// Makes the hosts from the number of each rank's host, and from this task's rank. `None` if all ranks are on one host, or each has a
    /// host of its own: collectives then treat all tasks alike.
    pub(crate) fn new(of_ranks: impl Iterator<Item = u32> + Clone, rank: u32) -> Option<Self> {
        let one = of_ranks.clone().next()?;
        if of_ranks.clone().all(|host| host == one) {
            return None;
        }
        let (mut numbers, mut ranks) = (HashMap::new(), Vec::new());
        for (rank, host) in (0..).zip(of_ranks) {
            let next = numbers.len();
            ranks.push((*numbers.entry(host).or_insert(next), rank));
        }
        if numbers.len() == ranks.len() {
            return None;
        }
        let (own, _) = *ranks.get(rank as usize)?;
        ranks.sort_unstable();
        let starts = (0..=numbers.len()).map(|number| ranks.partition_point(|&(host, _)| host < number));
        let starts = starts.map(to_u32).collect();
        let ranks: Vec<u32> = ranks.into_iter().map(|(_, rank)| rank).collect();
        let mut positions = vec![0; ranks.len()];
        (0..).zip(&ranks).for_each(|(position, &rank)| positions[rank as usize] = position);
        Some(Self { ranks, positions, starts, own: to_u32(own) })
    }

    /// The number of ranks.
    pub(crate) fn size(&self) -> u32 {
        to_u32(self.ranks.len())
    }

    /// The number of hosts.
    pub(crate) fn count(&self) -> u32 {
        to_u32(self.starts.len() - 1)
    }

    /// This task's host.
    pub(crate) fn own(&self) -> u32 {
        self.own
    }

    /// The positions of a host's ranks.
    pub(crate) fn of(&self, host: u32) -> Range<u32> {
        self.starts[host as usize]..self.starts[host as usize + 1]
    }

    /// The number of ranks on the host with the most ranks.
    pub(crate) fn largest(&self) -> u32 {
        self.starts.windows(2).map(|bounds| bounds[1] - bounds[0]).max().unwrap_or(0)
    }

    /// The rank at a position.
    pub(crate) fn rank_at(&self, position: u32) -> u32 {
        self.ranks[position as usize]
    }

    /// The position of a rank.
    pub(crate) fn position_of(&self, rank: u32) -> u32 {
        self.positions[rank as usize]
    }

    /// The host of a rank.
    pub(crate) fn host_of(&self, rank: u32) -> u32 {
        let position = self.position_of(rank);
        to_u32(self.starts.partition_point(|&start| start <= position) - 1)
    }

    /// Whether the position of each rank is the rank itself: the ranks of each host follow those of the previous host.
    pub(crate) fn are_in_order(&self) -> bool {
        self.ranks.is_sorted()
    }
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).expect("there are no more hosts than ranks")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(of_ranks: &[u32], rank: u32) -> Option<Hosts> {
        Hosts::new(of_ranks.iter().copied(), rank)
    }

    #[test]
    fn one_host_and_a_host_for_each_rank_need_no_stages() {
        for of_ranks in [&[][..], &[3], &[3, 3, 3], &[3, 1], &[7, 1, 0]] {
            assert!(hosts(of_ranks, 0).is_none(), "{of_ranks:?}");
        }
    }

    #[test]
    fn all_tasks_number_hosts_in_the_order_of_their_first_ranks() {
        let of_ranks = [8, 2, 8, 5, 2];
        for (rank, own) in (0..).zip([0, 1, 0, 2, 1]) {
            let hosts = hosts(&of_ranks, rank).expect("three hosts");
            assert_eq!((hosts.own(), hosts.host_of(rank)), (own, own));
            assert_eq!((hosts.size(), hosts.count(), hosts.largest()), (5, 3, 2));
            assert_eq!([0, 1, 2].map(|host| hosts.of(host)), [0..2, 2..4, 4..5]);
            assert_eq!([0, 1, 2, 3, 4].map(|position| hosts.rank_at(position)), [0, 2, 1, 4, 3]);
            assert_eq!(hosts.rank_at(hosts.position_of(rank)), rank);
            assert!(!hosts.are_in_order());
        }
        // Only the order of the ranks matters, not the numbers of the hosts.
        assert!(hosts(&[5, 5, 2], 0).expect("two hosts").are_in_order());
    }
}
