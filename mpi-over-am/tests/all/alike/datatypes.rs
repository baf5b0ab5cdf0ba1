//! Messages of random datatypes, in every mode and of every size, over friendly and hostile networks: the results are those of packing and
//! unpacking.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use super::common::{all_settings, job, pattern};
use am_core_conform::{Random, pairs};
use am_double::Config;
use mpi_over_am::datatype::{Datatype, Order, Predefined};
use mpi_over_am::packing::{pack, pack_external32, unpack, unpack_external32};
use mpi_over_am::{
    Equivalence, Error, ErrorClass, FieldList, FieldListMut, Mode, Placement, Plain, Settings, Source, Tag,
    View, ViewMut, collective,
};

const BASICS: [Predefined; 6] = [
    Predefined::Byte,
    Predefined::Short,
    Predefined::Int,
    Predefined::Double,
    Predefined::DoubleInt,
    Predefined::LongDoubleComplex,
];

/// A random type without overlapping elements, so that it can be received.
fn random_type(random: &mut Random, depth: u32) -> Datatype {
    if depth == 0 {
        return Datatype::predefined(BASICS[random.below(BASICS.len())]);
    }
    let old = random_type(random, depth - 1);
    let some = |random: &mut Random| 1 + random.below(5) as u64;
    let mut gap = 0;
    let mut next = |random: &mut Random, len: u64| {
        gap += random.below(4) as i64;
        let at = gap;
        gap += len.cast_signed();
        at
    };
    let lens: Vec<u64> = (0..some(random)).map(|_| some(random)).collect();
    match random.below(7) {
        0 => Datatype::contiguous(some(random) * 3, &old),
        1 => {
            let len = some(random);
            Datatype::vector(some(random) * 4, len, len.cast_signed() + random.below(3) as i64, &old)
        }
        2 => {
            let places: Vec<_> = lens.iter().map(|&len| next(random, len)).collect();
            Datatype::indexed(&lens, &places, &old)
        }
        3 => {
            let places: Vec<_> = (0..some(random)).map(|_| next(random, 2)).collect();
            Datatype::indexed_block(2, &places, &old)
        }
        4 => {
            let types: Vec<_> = lens.iter().map(|_| random_type(random, depth - 1)).collect();
            let mut at = 0;
            let mut places = Vec::new();
            for (datatype, &len) in types.iter().zip(&lens) {
                at += random.below(9) as i64;
                places.push(at);
                at += datatype.span(len).unwrap().1.max(datatype.extent() * len.cast_signed());
            }
            Datatype::structure(&lens, &places, &types)
        }
        5 => Datatype::resized(&old, old.lower_bound(), old.extent() + random.below(40) as i64),
        _ => {
            let order = if random.one_in(2) { Order::C } else { Order::Fortran };
            Datatype::subarray(&[6, 3, 5], &[some(random), 2, some(random)], &[1, 1, 0], order, &old)
        }
    }
    .unwrap()
}

fn run(seed: u64, config: Config, settings: Settings) {
    println!("seed {seed} over {config:?} with {settings:?}");
    job(config, settings, |environment, world| {
        environment.attach_buffer(vec![0; 64 << 20]).unwrap();
        let mut random = Random::new(seed);
        for number in 0..8 {
            let depth = [1, 2, 3][random.below(3)];
            let (datatype, count) = (random_type(&mut random, depth), 1 + random.below(20) as u64);
            let mode = [Mode::Standard, Mode::Synchronous, Mode::Buffered, Mode::Ready][random.below(4)];
            let (from, to) = datatype.span(count).unwrap();
            assert!(from >= 0, "{datatype:?}");
            let memory = pattern(seed + number, usize::try_from(to).unwrap());
            let packed = pack(&memory, (count, &datatype)).unwrap();
            assert_eq!(packed.len() as u64, datatype.packed_len(count).unwrap());
            let mut expected = vec![0xee; memory.len()];
            unpack(&packed, &mut expected, (count, &datatype)).unwrap();
            if world.rank() == 0 {
                if mode == Mode::Ready {
                    world.recv(&mut (), 1, 9).unwrap();
                }
                let view = View::new(&memory, count, &datatype).unwrap();
                world.send_in_mode(mode, &view, 1, 1).unwrap();
                world.send(&view, 1, 2).unwrap();
                world.send(&packed, 1, 3).unwrap();
            } else {
                let mut got = vec![0xee; memory.len()];
                let mut bytes = vec![0; packed.len()];
                let mut again = vec![0xee; memory.len()];
                let mut view = ViewMut::new(&mut got, count, &datatype).unwrap();
                let mut view_again = ViewMut::new(&mut again, count, &datatype).unwrap();
                if random.one_in(2) {
                    // The messages are not received in the order in which they were sent.
                    world
                        .scope(|s| {
                            let first = s.irecv(&mut view, 0, 1)?;
                            if mode == Mode::Ready {
                                world.send(&(), 0, 9)?;
                            }
                            let last = s.irecv(&mut view_again, 0, 3)?;
                            world.recv(&mut bytes, 0, 2)?;
                            let status = s.wait(last)?;
                            assert_eq!(status.len(), packed.len() as u64);
                            s.wait(first)
                        })
                        .unwrap();
                } else {
                    world
                        .scope(|s| {
                            let first = s.irecv(&mut view, Source::Any, 1)?;
                            if mode == Mode::Ready {
                                world.send(&(), 0, 9)?;
                            }
                            s.wait(first)
                        })
                        .unwrap();
                    world.recv(&mut bytes, 0, 2).unwrap();
                    let status = world.recv(&mut view_again, 0, Tag::Any).unwrap();
                    assert_eq!((status.tag(), status.count_of(&datatype)), (3, Some(count)));
                    assert_eq!(status.elements_of(&datatype), Some(count * datatype.elements()));
                }
                assert!(bytes == packed, "message {number} of {datatype:?}");
                assert!(got == expected, "message {number} of {datatype:?}");
                assert!(again == expected, "message {number} of {datatype:?}");
            }
            random = Random::new(seed * 1000 + number);
        }
    });
}

#[test]
fn random_datatypes_arrive_as_they_were_sent() {
    for (number, (seed, settings)) in (0..).zip(pairs(&[1, 2, 3, 4], &all_settings())) {
        run(seed * 100 + number, Config::hostile(2, seed), settings);
    }
    run(1, Config::new(2), Settings::default());
}

#[test]
fn a_message_longer_than_its_elements_is_cut_and_said_so() {
    for settings in all_settings() {
        job(Config::new(2), settings, |_, world| {
            let column = Datatype::vector(1000, 1, 3, &Datatype::predefined(Predefined::Int)).unwrap();
            for (tag, count) in [(0, 20), (1, 5000)] {
                if world.rank() == 0 {
                    world.send(&vec![7u32; count], 1, tag).unwrap();
                } else {
                    let mut got = vec![0u32; 3 * 1000];
                    let short = Datatype::vector(10, 1, 3, &Datatype::predefined(Predefined::Int)).unwrap();
                    let layout = if tag == 0 { &short } else { &column };
                    let mut view = ViewMut::new(&mut got, 1, layout).unwrap();
                    let capacity = if tag == 0 { 40 } else { 4000 };
                    let error = world.recv(&mut view, 0, tag).unwrap_err();
                    assert_eq!(error.class(), ErrorClass::Truncate);
                    let sent = 4 * count as u64;
                    assert!(
                        matches!(error, Error::Truncated { source_rank: 0, tag: t, sent: s, capacity: r }
                            if t == tag && s == sent && r == capacity),
                        "{error}"
                    );
                    let filled = usize::try_from(capacity).unwrap() / 4;
                    assert!(got.iter().step_by(3).take(filled).all(|&value| value == 7));
                    assert_eq!(got.iter().filter(|&&value| value == 7).count(), filled);
                }
            }
        });
    }
}

#[test]
fn elements_outside_of_the_memory_are_refused() {
    job(Config::new(1), Settings::default(), |_, _| {
        let int = Datatype::predefined(Predefined::Int);
        let column = Datatype::vector(3, 1, 3, &int).unwrap();
        let mut memory = [0u32; 7];
        assert!(pack(&memory, (1, &column)).is_ok());
        let behind = Datatype::hindexed(&[1], &[-4], &int).unwrap();
        for elements in [(2, &column), (1, &behind)] {
            for error in [
                pack(&memory, elements).map(|_| ()).unwrap_err(),
                unpack(&[0; 100], &mut memory, elements).map(|_| ()).unwrap_err(),
                View::new(&memory, elements.0, elements.1).unwrap_err(),
                ViewMut::new(&mut memory, elements.0, elements.1).unwrap_err(),
            ] {
                assert!(matches!(error, Error::Outside { len: 28, .. }), "{error}");
                assert_eq!(error.class(), ErrorClass::Argument);
            }
        }
        let error = unpack(&[0; 11], &mut memory, (1, &column)).unwrap_err();
        assert!(matches!(error, Error::Packed { needed: 12, given: 11 }), "{error}");
    });
}

#[test]
fn external32_comes_back_through_any_layout() {
    for seed in 1..200 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (datatype, count) = (random_type(&mut random, 2), 1 + random.below(3) as u64);
        let to = usize::try_from(datatype.span(count).unwrap().1).unwrap();
        let memory = vec![0x11u8; to];
        let external = pack_external32(&memory, (count, &datatype)).unwrap();
        assert_eq!(external.len() as u64, datatype.external32_len(count).unwrap());
        let (mut got, mut expected) = (vec![0xee; to], vec![0xee; to]);
        unpack_external32(&external, &mut got, (count, &datatype)).unwrap();
        unpack(&pack(&memory, (count, &datatype)).unwrap(), &mut expected, (count, &datatype)).unwrap();
        // A long double has unused bytes, whose values external32 does not keep.
        if datatype.basic() != Some(Predefined::LongDoubleComplex) && !has_long_double(&datatype) {
            assert_eq!(got, expected);
        }
        let error = unpack_external32(&external[1..], &mut got, (count, &datatype)).unwrap_err();
        assert!(matches!(error, Error::Packed { .. }), "{error}");
    }
}

fn has_long_double(datatype: &Datatype) -> bool {
    match datatype.contents() {
        None => datatype.as_predefined() == Some(Predefined::LongDoubleComplex),
        Some(contents) => contents.datatypes.iter().any(has_long_double),
    }
}

#[derive(Equivalence, Clone, Debug, Default, PartialEq)]
#[repr(C)]
struct Inner {
    a: u8,
    b: u64,
}

#[derive(Equivalence, Clone, Debug, Default, PartialEq)]
#[repr(C)]
struct Outer {
    kind: u16,
    inner: [Inner; 2],
    #[equivalence(skip)]
    at_home: String,
    place: [f32; 3],
}

/// Structs of other forms: tuple, generic, aligned, transparent, and without a field.
#[derive(Equivalence, Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(32))]
struct Pair<T: Copy>(i8, T, Wrapped<2>, Nothing);

#[derive(Equivalence, Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
struct Wrapped<const N: usize>([i16; N]);

impl<const N: usize> Default for Wrapped<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

#[derive(Equivalence, Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
struct Nothing;

/// The datatype depends on the value.
#[derive(Clone, Debug, PartialEq)]
enum Either {
    Number(u32),
    Nothing,
    Two(u8, u64),
}

impl Equivalence for Either {
    fn list<'a>(&'a self, list: &mut FieldList<'a>) {
        match self {
            Self::Number(number) => list.add(number),
            Self::Nothing => {}
            Self::Two(first, second) => {
                list.add(second);
                list.add(first);
            }
        }
    }

    fn list_mut<'a>(&'a mut self, list: &mut FieldListMut<'a>) {
        match self {
            Self::Number(number) => list.add(number),
            Self::Nothing => {}
            Self::Two(first, second) => {
                list.add(second);
                list.add(first);
            }
        }
    }
}

#[test]
fn the_fields_of_structs_and_enums_arrive_without_their_padding() {
    super::common::everywhere(2, |_, world| {
        let other = 1 - world.rank();
        let value = |number: u16| Outer {
            kind: number,
            inner: [Inner { a: 1, b: u64::from(number) }, Inner { a: 2, b: 9 }],
            at_home: format!("{number}"),
            place: [1.0, 2.0, f32::from(number)],
        };
        for count in [0, 1, 3, 500] {
            let out: Vec<Outer> = (0..count).map(value).collect();
            let mut got =
                vec![Outer { at_home: "here".to_owned(), ..Outer::default() }; usize::from(count) + 1];
            let status = if world.rank() == 0 {
                world.send(&out, other, 0).unwrap();
                world.recv(&mut got, other, 0).unwrap()
            } else {
                let status = world.recv(&mut got, other, 0).unwrap();
                world.send(&out, other, 0).unwrap();
                status
            };
            assert_eq!(status.len(), u64::from(count) * (3 * 4 + 2 * 9 + 2));
            for (got, sent) in got.iter().zip(&out) {
                assert_eq!(got, &Outer { at_home: "here".to_owned(), ..sent.clone() });
            }
            assert_eq!(got[usize::from(count)].kind, 0);
        }
        let out = [Either::Number(7), Either::Nothing, Either::Two(3, 1 << 40), Either::Number(8)];
        let mut got = [Either::Number(0), Either::Nothing, Either::Two(0, 0), Either::Number(0)];
        if world.rank() == 0 {
            world.send(&out, other, 1).unwrap();
        } else {
            assert_eq!(world.recv(&mut got, other, 1).unwrap().len(), 4 + 9 + 4);
            assert_eq!(got, out);
        }
    });
}

#[test]
fn a_struct_has_the_datatype_that_c_gives_it() {
    let [int8, int16, double] = [Predefined::Int8, Predefined::Int16, Predefined::Double].map(Datatype::from);
    let expected = Datatype::structure(&[1, 1, 2], &[0, 8, 16], &[int8, double, int16]).unwrap();
    let pair = Pair(1, 2.0, Wrapped([3, 4]), Nothing);
    let datatype = pair.equivalent_datatype().unwrap();
    assert_eq!((datatype.size(), datatype.extent()), (1 + 8 + 4, 32));
    assert_eq!(datatype.span(1).unwrap(), expected.span(1).unwrap());
    let values = [Nothing; 3];
    assert_eq!(values[0].equivalent_datatype().unwrap().size(), 0);
}

#[test]
fn structs_pass_through_scopes_and_collectives() {
    super::common::everywhere(3, |_, world| {
        let (rank, size) = (world.rank(), world.size());
        let value =
            |from: u32, to: u32| Pair(1, f64::from(from), Wrapped([i16::try_from(to).unwrap(), -1]), Nothing);
        let all = |to: u32| -> Vec<Pair<f64>> { (0..size).map(|from| value(from, to)).collect() };
        for count in [0, 1, 2, 700] {
            let next = (rank + 1) % size;
            let out = vec![value(rank, next); count];
            let mut got = vec![Pair::default(); count];
            world
                .scope(|s| {
                    let arriving = s.irecv(&mut got, Source::Any, 3)?;
                    let leaving = s.isend(&out, next, 3)?;
                    assert_eq!(s.wait(arriving)?.len(), count as u64 * (1 + 8 + 4));
                    s.wait(leaving)
                })
                .unwrap();
            assert_eq!(got, vec![value((rank + size - 1) % size, rank); count]);
        }
        for root in 0..size {
            let mut one = [value(rank, 0), value(rank, 1)];
            world.broadcast(&mut one, root).unwrap();
            assert_eq!(one, [value(root, 0), value(root, 1)]);

            let mut gathered = vec![Pair::default(); if rank == root { size as usize } else { 0 }];
            world.gather(&[value(rank, root)], &mut gathered, root).unwrap();
            assert_eq!(gathered, if rank == root { all(root) } else { Vec::new() });

            let mut mine = [Pair::default()];
            let given: Vec<_> = (0..size).map(|to| value(root, to)).collect();
            world.scatter(if rank == root { &given } else { &[] }, &mut mine, root).unwrap();
            assert_eq!(mine, [value(root, rank)]);
        }
        let mut everybody = vec![Pair::default(); size as usize];
        world.allgather(&[value(rank, 9)], &mut everybody).unwrap();
        assert_eq!(everybody, all(9));
        let given: Vec<_> = (0..size).map(|to| value(rank, to)).collect();
        world.alltoall(&given, &mut everybody).unwrap();
        assert_eq!(everybody, all(rank));
        let error = world.allgather(&given, &mut everybody).unwrap_err();
        assert!(matches!(error, Error::Count { given: 3, expected: 9, .. }), "{error}");

        // In place, and with data that the operation owns.
        let mut own = vec![Pair::default(); size as usize];
        own[rank as usize] = value(rank, 5);
        world.allgather_in_place(&mut own).unwrap();
        assert_eq!(own, all(5));
        let told = collective::broadcast(vec![value(rank, 6)], 1).start_owned(world).unwrap();
        assert_eq!(told.wait().unwrap().0, [value(1, 6)]);
        // Rank r has r + 1 elements; the parts are stored in reverse order.
        let counts = [1, 2, 3];
        let placement = Placement { counts: &counts, displacements: &[5, 3, 0] };
        let mut apart = vec![Pair::default(); 6];
        world.allgatherv(&vec![value(rank, 7); rank as usize + 1], (&mut apart, placement)).unwrap();
        let expected: Vec<_> = [2, 2, 2, 1, 1, 0].into_iter().map(|from| value(from, 7)).collect();
        assert_eq!(apart, expected);
        // A type of another crate.
        let mut plain = [Plain([0u8; 3]); 3];
        world.allgather(&[Plain([u8::try_from(rank).unwrap(), 1, 2])], &mut plain).unwrap();
        assert_eq!(plain, [Plain([0, 1, 2]), Plain([1, 1, 2]), Plain([2, 1, 2])]);
    });
}
