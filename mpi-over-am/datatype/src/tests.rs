//! Random datatypes against an oracle: a plain list of basic types and displacements, built from the standard's definitions.

use am_core_conform::Random;

use super::*;

/// A type as the standard defines it.
#[derive(Clone, Debug)]
struct Oracle {
    /// Every basic element, in order.
    map: Vec<(i64, Predefined)>,
    lower: i64,
    upper: i64,
    is_set: bool,
}

impl Oracle {
    fn of(predefined: Predefined) -> Self {
        let map = match predefined.parts() {
            None => vec![(0, predefined)],
            Some((value, index)) => {
                let behind = value.size().next_multiple_of(index.alignment());
                vec![(0, value), (behind.cast_signed(), index)]
            }
        };
        Self { map, lower: 0, upper: predefined.extent().cast_signed(), is_set: false }
    }

    fn extent(&self) -> i64 {
        self.upper - self.lower
    }

    /// Copies of types at displacements.
    fn union(parts: &[(i64, &Self)]) -> Self {
        let map =
            parts.iter().flat_map(|(by, part)| part.map.iter().map(move |(at, basic)| (at + by, *basic)));
        let bounds = |set: bool| {
            let chosen =
                parts.iter().filter(move |(_, part)| part.is_set == set && (set || !part.map.is_empty()));
            let lower = chosen.clone().map(|(by, part)| by + part.lower).min();
            lower.zip(chosen.map(|(by, part)| by + part.upper).max())
        };
        let (lower, upper) = bounds(true).or(bounds(false)).unwrap_or_default();
        Self { map: map.collect(), lower, upper, is_set: bounds(true).is_some() }
    }

    fn at(&self, places: impl IntoIterator<Item = i64>) -> Self {
        Self::union(&places.into_iter().map(|place| (place, self)).collect::<Vec<_>>())
    }

    fn padded(mut self) -> Self {
        let alignment = self.map.iter().map(|(_, basic)| basic.alignment().cast_signed()).max().unwrap_or(1);
        if !self.is_set {
            self.upper = self.lower + (self.extent() + alignment - 1).div_euclid(alignment) * alignment;
        }
        self
    }

    fn bytes(&self) -> Vec<i64> {
        self.map.iter().flat_map(|(at, basic)| *at..at + basic.size().cast_signed()).collect()
    }
}

fn signed(random: &mut Random, bound: usize) -> i64 {
    random.below(2 * bound + 1) as i64 - bound as i64
}

fn count(random: &mut Random) -> u64 {
    random.below(4) as u64
}

/// A random type, and its oracle.
fn random_type(random: &mut Random, depth: u32) -> (Datatype, Oracle) {
    if depth == 0 || random.one_in(5) {
        let predefined = Predefined::ALL[random.below(Predefined::ALL.len())];
        return (Datatype::predefined(predefined), Oracle::of(predefined));
    }
    let (old, oracle) = random_type(random, depth - 1);
    let extent = oracle.extent();
    let run = |start: i64, len: u64| (0..len.cast_signed()).map(move |i| start + i * extent);
    match random.below(10) {
        0 => {
            let n = count(random);
            (Datatype::contiguous(n, &old).unwrap(), oracle.at(run(0, n)))
        }
        1 | 2 => {
            let (n, len, stride) = (count(random), count(random), signed(random, 5));
            let in_bytes = random.one_in(2);
            let bytes = if in_bytes { stride * 7 } else { stride * extent };
            let made = if in_bytes {
                Datatype::hvector(n, len, bytes, &old)
            } else {
                Datatype::vector(n, len, stride, &old)
            };
            (made.unwrap(), oracle.at((0..n.cast_signed()).flat_map(|i| run(i * bytes, len))))
        }
        3 | 4 => {
            let lens: Vec<_> = (0..count(random)).map(|_| count(random)).collect();
            let places: Vec<_> = lens.iter().map(|_| signed(random, 9)).collect();
            let in_bytes = random.one_in(2);
            let made = if in_bytes {
                Datatype::hindexed(&lens, &places, &old)
            } else {
                Datatype::indexed(&lens, &places, &old)
            };
            let unit = if in_bytes { 1 } else { extent };
            let all = lens.iter().zip(&places).flat_map(|(&len, &at)| run(at * unit, len));
            (made.unwrap(), oracle.at(all.collect::<Vec<_>>()))
        }
        5 => {
            let len = count(random);
            let places: Vec<_> = (0..count(random)).map(|_| signed(random, 9)).collect();
            let in_bytes = random.one_in(2);
            let made = if in_bytes {
                Datatype::hindexed_block(len, &places, &old)
            } else {
                Datatype::indexed_block(len, &places, &old)
            };
            let unit = if in_bytes { 1 } else { extent };
            (made.unwrap(), oracle.at(places.iter().flat_map(|&at| run(at * unit, len)).collect::<Vec<_>>()))
        }
        6 => {
            let others: Vec<_> = (0..=count(random)).map(|_| random_type(random, depth - 1)).collect();
            let lens: Vec<_> = others.iter().map(|_| count(random)).collect();
            let places: Vec<_> = others.iter().map(|_| signed(random, 99)).collect();
            let types: Vec<_> = others.iter().map(|(datatype, _)| datatype.clone()).collect();
            let mut parts = Vec::new();
            for (((_, oracle), &len), &at) in others.iter().zip(&lens).zip(&places) {
                parts.extend((0..len.cast_signed()).map(|i| (at + i * oracle.extent(), oracle)));
            }
            (Datatype::structure(&lens, &places, &types).unwrap(), Oracle::union(&parts).padded())
        }
        7 => {
            let (lower, extent) = (signed(random, 20), signed(random, 60));
            let resized = Oracle { lower, upper: lower + extent, is_set: true, ..oracle };
            (Datatype::resized(&old, lower, extent).unwrap(), resized)
        }
        8 => (Datatype::dup(&old), oracle),
        _ => random_array(random, &old, &oracle),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the numbers are small")]
fn random_array(random: &mut Random, old: &Datatype, oracle: &Oracle) -> (Datatype, Oracle) {
    let order = if random.one_in(2) { Order::C } else { Order::Fortran };
    let dimensions = 1 + random.below(3);
    let sizes: Vec<_> = (0..dimensions).map(|_| 1 + random.below(4) as u64).collect();
    let starts: Vec<_> = sizes.iter().map(|&size| random.below(size as usize) as u64).collect();
    let parts: Vec<_> = sizes
        .iter()
        .zip(&starts)
        .map(|(size, start)| 1 + random.below((size - start) as usize) as u64)
        .collect();
    let made = Datatype::subarray(&sizes, &parts, &starts, order, old).unwrap();
    let taken: Vec<Vec<u64>> =
        starts.iter().zip(&parts).map(|(&start, &len)| (start..start + len).collect()).collect();
    (made, array_oracle(&sizes, &taken, order, oracle))
}

/// The selected elements of an array, in the array's order.
fn array_oracle(sizes: &[u64], taken: &[Vec<u64>], order: Order, oracle: &Oracle) -> Oracle {
    let by_speed: Vec<usize> = match order {
        Order::C => (0..sizes.len()).rev().collect(),
        Order::Fortran => (0..sizes.len()).collect(),
    };
    let (mut places, mut unit) = (vec![0i64], 1i64);
    for &dimension in &by_speed {
        let slow = taken[dimension].iter();
        places = slow.flat_map(|&i| places.iter().map(move |at| at + i.cast_signed() * unit)).collect();
        unit *= sizes[dimension].cast_signed();
    }
    let mut all = oracle.at(places.iter().map(|at| at * oracle.extent()));
    (all.lower, all.upper, all.is_set) = (0, unit * oracle.extent(), true);
    all
}

#[derive(Default)]
struct Bytes(Vec<i64>);

impl Visit for Bytes {
    fn block(&mut self, at: i64, len: u64) {
        self.0.extend(at..at + len.cast_signed());
    }
}

fn check(datatype: &Datatype, oracle: &Oracle) {
    let what = || format!("{datatype:?} made as {:?}, which is {oracle:?}", datatype.contents());
    let all = oracle.bytes();
    let mut bytes = Bytes::default();
    datatype.layout(1).visit(0, datatype.size(), &mut bytes);
    assert_eq!(bytes.0, all, "{}", what());
    assert_eq!(datatype.size(), all.len() as u64, "{}", what());
    assert_eq!((datatype.lower_bound(), datatype.extent()), (oracle.lower, oracle.extent()), "{}", what());
    let true_lower = all.iter().min().copied().unwrap_or(0);
    let true_extent = all.iter().max().map_or(0, |last| last + 1 - true_lower);
    assert_eq!(
        (datatype.true_lower_bound(), datatype.true_extent()),
        (true_lower, true_extent),
        "{}",
        what()
    );
    assert_eq!(datatype.elements(), oracle.map.len() as u64, "{}", what());
    let mut len = 0;
    for (number, (_, basic)) in (0..).zip(&oracle.map) {
        assert_eq!(datatype.elements_in(len), Some(number), "{}", what());
        assert_eq!(datatype.bytes_of_elements(number), Some(len));
        if basic.size() > 1 {
            assert_eq!(datatype.elements_in(len + 1), None, "{}", what());
        }
        len += basic.size();
    }
    if datatype.is_dense() {
        let mut two = Bytes::default();
        datatype.layout(2).visit(0, 2 * datatype.size(), &mut two);
        let start = datatype.true_lower_bound();
        assert_eq!(two.0, (start..start + 2 * datatype.size().cast_signed()).collect::<Vec<_>>());
    }
}

#[test]
fn random_types_are_what_the_standard_says() {
    for seed in 1..=4000 {
        let mut random = Random::new(seed);
        let (datatype, oracle) = random_type(&mut random, 4);
        println!("seed {seed}");
        check(&datatype, &oracle);
    }
}

#[test]
fn a_distributed_array_is_dealt_out_whole_and_once() {
    for seed in 1..=500 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let order = if random.one_in(2) { Order::C } else { Order::Fortran };
        let dimensions = 1 + random.below(3);
        let (mut lengths, mut distributions, mut grid) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..dimensions {
            let (len, tasks) = (1 + random.below(9) as u64, 1 + random.below(3) as u64);
            let (distribution, tasks) = match random.below(5) {
                0 => (Distribution::None(None), 1),
                1 => (Distribution::Block(None), tasks),
                2 => (Distribution::Block(Some(len.div_ceil(tasks) + 1)), tasks),
                3 => (Distribution::Cyclic(None), tasks),
                _ => (Distribution::Cyclic(Some(1 + random.below(4) as u64)), tasks),
            };
            lengths.push(len);
            distributions.push(distribution);
            grid.push(tasks);
        }
        let size: u64 = grid.iter().product();
        let old = Datatype::predefined(Predefined::Short);
        let mut seen = Vec::new();
        for rank in 0..size {
            let part = Datatype::darray((size, rank), &lengths, &distributions, &grid, order, &old).unwrap();
            let mut left = rank;
            let mut taken = vec![Vec::new(); dimensions];
            for dimension in (0..dimensions).rev() {
                let (coordinate, tasks) = (left % grid[dimension], grid[dimension]);
                left /= grid[dimension];
                let owner = |index: u64| match distributions[dimension] {
                    Distribution::None(_) => 0,
                    Distribution::Block(len) => index / len.unwrap_or(lengths[dimension].div_ceil(tasks)),
                    Distribution::Cyclic(len) => index / len.unwrap_or(1) % tasks,
                };
                taken[dimension] =
                    (0..lengths[dimension]).filter(|&index| owner(index) == coordinate).collect();
            }
            let oracle = array_oracle(&lengths, &taken, order, &Oracle::of(Predefined::Short));
            check(&part, &oracle);
            seen.extend(oracle.bytes());
        }
        seen.sort_unstable();
        let whole = 2 * lengths.iter().product::<u64>().cast_signed();
        assert_eq!(seen, (0..whole).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_too_large_or_makes_no_sense_is_refused() {
    use crate::error::Error;
    let byte = Datatype::predefined(Predefined::Byte);
    let double = Datatype::predefined(Predefined::Double);
    let too_large = [
        Datatype::contiguous(u64::MAX, &byte),
        Datatype::contiguous(1 << 61, &double),
        Datatype::vector(2, 1, i64::MAX / 4, &double),
        Datatype::hvector(1 << 40, 1, 1 << 40, &byte),
        Datatype::indexed(&[1], &[i64::MAX], &double),
        Datatype::hindexed(&[1, 1], &[i64::MAX, 0], &byte),
        Datatype::resized(&byte, i64::MAX, 1),
        Datatype::subarray(&[1 << 40, 1 << 40], &[1, 1], &[0, 0], Order::C, &byte),
    ];
    for refused in too_large {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }
    assert!(matches!(Datatype::indexed(&[1, 2], &[0], &byte), Err(Error::Count { .. })));
    let grid = |rank, distribution, tasks| {
        Datatype::darray((2, rank), &[10], &[distribution], &[tasks], Order::C, &byte)
    };
    let senseless = [
        Datatype::subarray(&[4], &[3], &[2], Order::C, &byte),
        Datatype::subarray(&[4], &[0], &[2], Order::C, &byte),
        Datatype::subarray(&[], &[], &[], Order::C, &byte),
        grid(2, Distribution::Block(None), 2),
        grid(0, Distribution::Block(None), 3),
        grid(0, Distribution::Block(Some(4)), 2),
        grid(0, Distribution::Cyclic(Some(0)), 2),
        grid(0, Distribution::None(None), 2),
    ];
    for refused in senseless {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Array { .. }), "{error}");
    }
}

#[test]
fn a_regular_type_of_any_size_is_a_small_tree() {
    let double = Datatype::predefined(Predefined::Double);
    let face = Datatype::subarray(&[4000, 4000, 4000], &[1, 4000, 1], &[5, 0, 7], Order::C, &double).unwrap();
    assert_eq!(face.size(), 32_000);
    let column = Datatype::vector(1 << 20, 1, 1 << 20, &double).unwrap();
    let all = Datatype::contiguous(1 << 10, &Datatype::resized(&column, 0, 8).unwrap()).unwrap();
    assert_eq!(all.size(), 8 << 30);
    // The second half of the packed bytes, visited without the first.
    let mut last = Bytes::default();
    all.layout(1).visit(all.size() - 4, all.size(), &mut last);
    let at = ((1i64 << 20) - 1) * (8 << 20) + 1023 * 8;
    assert_eq!(last.0, (at + 4..at + 8).collect::<Vec<_>>());
}
