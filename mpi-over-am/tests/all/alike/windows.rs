//! Windows: puts, gets, every kind of epoch, dynamic memory, and errors.

#![allow(clippy::unwrap_used, reason = "a task of a test says by its panic what was wrong")]

use std::sync::atomic::{AtomicU64, Ordering};

use super::common::{Communicator, Environment, job};
use am_core_conform::{Random, pairs};
use am_double::{Config, Reach};
use mpi_over_am::attribute::{Keyval, ObjectKind};
use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::op::{Op, PredefinedOp};
use mpi_over_am::window::{Assertion, Flavor, Lock, Number, TargetData};
use mpi_over_am::{Error, ErrorClass, Group, Info, NAME_BYTES_MAX, PROC_NULL, Settings};

type Window = mpi_over_am::window::Window<am_double::Double, super::super::Policy>;

/// Runs `task` over networks with each method of memory access.
fn everywhere(tasks: impl IntoIterator<Item = u32>, task: impl Fn(&Environment, &Communicator) + Sync) {
    for tasks in tasks {
        let configs = [Config::new(tasks), Config::hostile(tasks, 11), Config::hostile(tasks, 12)];
        let mut ways = [Reach::Direct, Reach::Posted, Reach::Staged];
        ways.rotate_left(tasks as usize % 3);
        for (config, reach) in pairs(&configs, &ways) {
            job(Config { reach, atomics: reach, ..config }, Settings::default(), &task);
        }
    }
}

fn class<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorClass {
    result.unwrap_err().class()
}

fn right(world: &Communicator) -> u32 {
    (world.rank() + 1) % world.size()
}

fn left(world: &Communicator) -> u32 {
    (world.rank() + world.size() - 1) % world.size()
}

fn allocate(world: &Communicator, words: usize) -> Window {
    world.allocate_window(words * 8, 8, &Info::new()).unwrap()
}

#[test]
fn between_fences_everybody_puts_and_gets() {
    everywhere([1, 2, 5], |_, world| {
        let window = allocate(world, 2000);
        assert_eq!((window.flavor(), window.size(), window.unit()), (Flavor::Allocated, 16000, 8));
        window.fence(Assertion::NO_PRECEDE).unwrap();
        let mine: Vec<u64> = (0..1000).map(|i| u64::from(world.rank()) * 10_000 + i).collect();
        window.put(&mine, right(world), 500).unwrap();
        window.fence(Assertion::NONE).unwrap();
        let mut own = vec![0u64; 2000];
        window.read(0, &mut own).unwrap();
        let theirs: Vec<u64> = (0..1000).map(|i| u64::from(left(world)) * 10_000 + i).collect();
        assert_eq!((&own[..500], &own[500..1500], &own[1500..]), (&[0; 500][..], &theirs[..], &[0; 500][..]));
        let mut got = vec![0u64; 1000];
        window.get(&mut got, right(world), 500).unwrap();
        assert_eq!(got, mine);
        window.fence(Assertion::NO_SUCCEED).unwrap();
        assert_eq!(class(window.put(&[1u64], 0, 0)), ErrorClass::RmaSync);
        let memory = window.free().unwrap().unwrap();
        assert_eq!(memory[500 * 8..501 * 8], theirs[0].to_le_bytes());
        assert_eq!(memory.len(), 16000, "without the library's words after the data");
    });
}

#[test]
fn programs_give_their_own_memory() {
    everywhere([1, 3], |_, world| {
        let len = 100 * (world.rank() as usize + 1);
        let window = world.create_window(vec![7u8; len], 1, &Info::new()).unwrap();
        window.fence(Assertion::NONE).unwrap();
        for rank in 0..world.size() {
            let place = i64::from(world.rank()) * 10;
            window.put(&[world.rank().to_le_bytes()[0]; 10], rank, place).unwrap();
        }
        let last = 100 * i64::from(right(world) + 1);
        let outside = window.put(&[1u8], right(world), last);
        assert!(matches!(outside, Err(Error::OutsideWindow { len: 1, .. })), "{outside:?}");
        assert_eq!(class(window.put(&[1u8, 2], right(world), last - 1)), ErrorClass::RmaRange);
        assert_eq!(class(window.get(&mut [1u8], right(world), -1)), ErrorClass::RmaRange);
        assert_eq!(class(window.get(&mut [1u8], world.size(), 0)), ErrorClass::Rank);
        assert_eq!(class(window.read(len as u64, &mut [0u8])), ErrorClass::RmaRange);
        window.put(&[1u8], PROC_NULL, 1 << 40).unwrap();
        window.fence(Assertion::NONE).unwrap();
        let memory = window.free().unwrap().unwrap();
        let expected: Vec<u8> = (0..len)
            .map(|at| if at / 10 < world.size() as usize { (at / 10).to_le_bytes()[0] } else { 7 })
            .collect();
        assert_eq!(memory[..], expected);
        // An empty window.
        let empty = world.create_window(Vec::new(), 4, &Info::new()).unwrap();
        empty.fence(Assertion::NONE).unwrap();
        assert_eq!((empty.size(), empty.unit()), (0, 4));
        empty.put::<u8>(&[], right(world), 0).unwrap();
        assert_eq!(class(empty.put(&[0u8], right(world), 0)), ErrorClass::RmaRange);
        empty.fence(Assertion::NONE).unwrap();
        empty.free().unwrap();
        assert_eq!(class(world.create_window(vec![1], 0, &Info::new()).map(drop)), ErrorClass::Displacement);
    });
}

#[test]
fn layouts_on_both_sides() {
    everywhere([2, 3], |_, world| {
        const ROWS: usize = 40;
        let window = world.allocate_window(ROWS * 8 * 4, 4, &Info::new()).unwrap();
        let int = Datatype::predefined(Predefined::Int32);
        let column = Datatype::vector(ROWS as u64, 1, 8, &int).unwrap();
        let pairs = Datatype::vector(ROWS as u64 / 2, 2, 3, &int).unwrap();
        window.fence(Assertion::NONE).unwrap();
        // Two of every three elements into a column, and back into a row.
        let source: Vec<i32> = (0..60).map(|i| i + 1000 * world.rank().cast_signed()).collect();
        let column_of =
            |rank: u32, at: i64| TargetData { rank, displacement: at, count: 1, datatype: &column };
        let put = |target: TargetData<'_>| window.put_layout(&source, (1, &pairs), target);
        put(column_of(right(world), 5)).unwrap();
        window.fence(Assertion::NONE).unwrap();
        let mut own = vec![0i32; ROWS * 8];
        window.read(0, &mut own).unwrap();
        for row in 0..ROWS {
            let value = i32::try_from(row / 2 * 3 + row % 2).unwrap() + 1000 * left(world).cast_signed();
            assert_eq!(own[row * 8 + 5], value);
            assert_eq!(own[row * 8 + 4], 0);
        }
        let mut got = vec![0i32; 60];
        window.get_layout(&mut got, (1, &pairs), column_of(right(world), 5)).unwrap();
        for (at, value) in got.iter().enumerate() {
            assert_eq!(*value, if at % 3 == 2 || at >= 59 { 0 } else { source[at] }, "{at}");
        }
        // One layout on both sides.
        let table_of =
            |rank: u32| (0..ROWS * 8).map(move |at| i32::try_from(at).unwrap() + 1000 * rank.cast_signed());
        let table: Vec<i32> = table_of(world.rank() + 1).collect();
        window.put_layout(&table, (1, &column), column_of(right(world), 6)).unwrap();
        window.fence(Assertion::NONE).unwrap();
        window.read(0, &mut own).unwrap();
        for (row, value) in table_of(left(world) + 1).step_by(8).enumerate() {
            assert_eq!((own[row * 8 + 6], own[row * 8 + 7]), (value, 0));
        }
        let mut back = vec![0i32; table.len()];
        window.get_layout(&mut back, (1, &column), column_of(right(world), 6)).unwrap();
        for (at, value) in back.iter().enumerate() {
            assert_eq!(*value, if at % 8 == 0 { table[at] } else { 0 }, "{at}");
        }
        let wrong = TargetData { count: 2, ..column_of(0, 0) };
        assert_eq!(class(put(wrong)), ErrorClass::Count);
        assert_eq!(class(put(column_of(0, 9))), ErrorClass::RmaRange);
        window.fence(Assertion::NONE).unwrap();
        window.free().unwrap();
    });
}

#[test]
fn a_test_sees_what_has_arrived_behind_other_messages() {
    // The tasks synchronise without messages, since messages would make progress. All earlier messages fit into the budget.
    let completed = std::sync::Barrier::new(2);
    job(Config::new(2), Settings::default(), |_, world| {
        const MESSAGES: u32 = 5;
        let window = allocate(world, 8);
        let other = window.group().incl(&[right(world)]).unwrap();
        if world.rank() == 0 {
            window.start(&other, Assertion::NONE).unwrap();
            (0..MESSAGES).for_each(|number| world.send(&[number], 1, 0).unwrap());
            window.put(&[7u64], 1, 0).unwrap();
            window.complete().unwrap();
            completed.wait();
        } else {
            window.post(&other, Assertion::NONE).unwrap();
            completed.wait();
            assert!(window.test().unwrap());
            for number in 0..MESSAGES {
                let mut got = [0];
                world.recv(&mut got, 0, 0).unwrap();
                assert_eq!(got, [number]);
            }
        }
        window.free().unwrap();
    });
}

#[test]
fn posts_and_starts_meet() {
    everywhere([2, 4], |_, world| {
        let window = allocate(world, 8);
        let all = window.group();
        let next = all.incl(&[right(world)]).unwrap();
        let before = all.incl(&[left(world)]).unwrap();
        for round in 0..20u64 {
            window.post(&before, Assertion::NONE).unwrap();
            window.start(&next, Assertion::NONE).unwrap();
            window.put(&[round * 100 + u64::from(world.rank())], right(world), 3).unwrap();
            if world.size() > 2 {
                let other = (world.rank() + 2) % world.size();
                assert_eq!(class(window.put(&[1u64], other, 0)), ErrorClass::RmaSync);
            }
            window.complete().unwrap();
            if round % 2 == 0 {
                window.wait().unwrap();
            } else {
                while !window.test().unwrap() {}
            }
            let mut got = [0u64];
            window.read(24, &mut got).unwrap();
            assert_eq!(got[0], round * 100 + u64::from(left(world)));
        }
        assert_eq!(class(window.complete()), ErrorClass::RmaSync);
        assert_eq!(class(window.wait()), ErrorClass::RmaSync);
        assert_eq!(class(window.test()), ErrorClass::RmaSync);
        window.start(&Group::EMPTY, Assertion::NONE).unwrap();
        assert_eq!(class(window.start(&Group::EMPTY, Assertion::NONE)), ErrorClass::RmaSync);
        assert_eq!(class(window.lock(Lock::Shared, 0, Assertion::NONE)), ErrorClass::RmaSync);
        assert_eq!(class(window.fence(Assertion::NONE)), ErrorClass::RmaSync);
        window.complete().unwrap();
        assert_eq!(class(window.start(&next, Assertion::NO_PUT)), ErrorClass::Assertion);
        assert_eq!(class(window.fence(Assertion::NO_CHECK)), ErrorClass::Assertion);
        window.free().unwrap();
    });
}

#[test]
fn an_exclusive_lock_is_exclusive() {
    everywhere([1, 4], |_, world| {
        let window = allocate(world, 4);
        for _ in 0..25 {
            window.lock(Lock::Exclusive, 0, Assertion::NONE).unwrap();
            let mut value = [0u64];
            window.get(&mut value, 0, 1).unwrap();
            window.put(&[value[0] + 1], 0, 1).unwrap();
            window.unlock(0).unwrap();
        }
        world.barrier().unwrap();
        window.lock(Lock::Shared, 0, Assertion::NONE).unwrap();
        let mut value = [0u64];
        window.get(&mut value, 0, 1).unwrap();
        assert_eq!(value[0], 25 * u64::from(world.size()));
        assert_eq!(class(window.lock(Lock::Shared, 0, Assertion::NONE)), ErrorClass::RmaSync);
        assert_eq!(class(window.lock_all(Assertion::NONE)), ErrorClass::RmaSync);
        window.unlock(0).unwrap();
        assert_eq!(class(window.unlock(0)), ErrorClass::RmaSync);
        assert_eq!(class(window.flush(0)), ErrorClass::RmaSync);
        assert_eq!(class(window.lock(Lock::Shared, 9, Assertion::NONE)), ErrorClass::Rank);
        // A lock of `PROC_NULL` does nothing.
        window.lock(Lock::Exclusive, PROC_NULL, Assertion::NONE).unwrap();
        window.unlock(PROC_NULL).unwrap();
        assert_eq!(class(window.lock(Lock::Shared, 0, Assertion::NO_STORE)), ErrorClass::Assertion);
        world.barrier().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn flushes_put_things_in_place_while_all_is_locked() {
    everywhere([2, 3], |_, world| {
        let window = allocate(world, 3000);
        window.lock_all(Assertion::NONE).unwrap();
        let values = vec![u64::from(world.rank()) + 1; 2000];
        window.put(&values, right(world), 1).unwrap();
        window.flush(right(world)).unwrap();
        window.flush_local_all().unwrap();
        window.flush_local(0).unwrap();
        window.sync().unwrap();
        // A message tells the target that the data have arrived.
        let mut token = [0u8];
        world.sendrecv(&[1u8], right(world), 0, &mut token, left(world), 0).unwrap();
        let mut own = vec![0u64; 2000];
        window.read(8, &mut own).unwrap();
        assert!(own.iter().all(|&value| value == u64::from(left(world)) + 1));
        window.flush_all().unwrap();
        assert_eq!(class(window.unlock(0)), ErrorClass::RmaSync);
        window.unlock_all().unwrap();
        assert_eq!(class(window.unlock_all()), ErrorClass::RmaSync);
        assert_eq!(class(window.flush_all()), ErrorClass::RmaSync);
        world.barrier().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn shared_locks_keep_an_exclusive_one_out() {
    let inside = AtomicU64::new(0);
    everywhere([3], |_, world| {
        let window = allocate(world, 1);
        for round in 0..30 {
            let is_exclusive = (round + world.rank()) % 3 == 0;
            let (lock, weight) = if is_exclusive { (Lock::Exclusive, 1000) } else { (Lock::Shared, 1) };
            window.lock(lock, 0, Assertion::NONE).unwrap();
            let before = inside.fetch_add(weight, Ordering::SeqCst);
            assert!(if is_exclusive { before == 0 } else { before < 1000 }, "{before} inside");
            inside.fetch_sub(weight, Ordering::SeqCst);
            window.unlock(0).unwrap();
        }
        window.free().unwrap();
    });
}

#[test]
fn memory_comes_and_goes() {
    everywhere([2, 3], |_, world| {
        let window = world.create_dynamic_window(&Info::new()).unwrap();
        assert_eq!((window.flavor(), window.size()), (Flavor::Dynamic, 0));
        for round in 0..3u8 {
            let first = window.attach(vec![round; 5000]).unwrap();
            let second = window.attach(vec![round; 64]).unwrap();
            let mut theirs = [0u64; 2];
            world.sendrecv(&[first, second], left(world), 0, &mut theirs, right(world), 0).unwrap();
            let [first_there, second_there] = theirs.map(u64::cast_signed);
            window.lock_all(Assertion::NONE).unwrap();
            let mut got = vec![9u8; 5000];
            window.get(&mut got, right(world), first_there).unwrap();
            assert!(got.iter().all(|&byte| byte == round));
            window.put(&[100 + round; 10], right(world), second_there + 54).unwrap();
            assert_eq!(class(window.put(&[0u8; 2], right(world), second_there + 63)), ErrorClass::RmaRange);
            assert_eq!(class(window.get(&mut [0u8], right(world), 1)), ErrorClass::RmaRange);
            window.unlock_all().unwrap();
            world.barrier().unwrap();
            assert_eq!(
                window.detach(second).unwrap()[50..],
                [[round; 4].as_slice(), &[100 + round; 10]].concat()
            );
            assert_eq!(class(window.detach(second)), ErrorClass::RmaAttach);
            if round == 1 {
                window.detach(first).unwrap();
            }
        }
        assert_eq!(class(window.attach(Vec::new())), ErrorClass::RmaAttach);
        window.free().unwrap();
        let fixed = allocate(world, 1);
        assert_eq!(class(fixed.attach(vec![1])), ErrorClass::RmaFlavor);
        assert_eq!(class(fixed.detach(0)), ErrorClass::RmaFlavor);
        fixed.free().unwrap();
    });
}

/// Pieces are attached and detached in any order (MPI 5.0 section 12.2.4); a task's own record of them says what every access finds.
#[test]
fn what_is_attached_is_found_whatever_was_attached_before() {
    const SEED: u64 = 41;
    const CELL: usize = 32;
    const CELLS: usize = 500;
    println!("seed {SEED}");
    everywhere([2], |_, world| {
        let window = world.create_dynamic_window(&Info::new()).unwrap();
        let mut random = Random::new(SEED + u64::from(world.rank()));
        // For each piece: its address, its bytes.
        let mut own: Vec<(u64, Vec<u8>)> = Vec::new();
        for round in 0..12u8 {
            for step in 0..CELLS / 4 {
                // The number of pieces grows, so that the directory does, and shrinks again.
                if own.is_empty() || random.below(10) < if round < 6 { 8 } else { 3 } {
                    let bytes = vec![round ^ step.to_le_bytes()[0]; 1 + random.below(CELL)];
                    own.push((window.attach(bytes.clone()).unwrap(), bytes));
                } else {
                    let (at, bytes) = own.swap_remove(random.below(own.len()));
                    assert_eq!(window.detach(at).unwrap()[..], bytes);
                    assert_eq!(class(window.detach(at)), ErrorClass::RmaAttach);
                }
            }
            // The other task looks for a third of the pieces, and for what was attached before.
            let mut words = vec![own.len() as u64];
            words.extend(own.iter().flat_map(|(at, bytes)| [*at, bytes.len() as u64, u64::from(bytes[0])]));
            words.resize(1 + 3 * 12 * CELLS / 4, 0);
            let mut theirs = vec![0u64; words.len()];
            world.sendrecv(&words, left(world), 0, &mut theirs, right(world), 0).unwrap();
            window.lock_all(Assertion::NONE).unwrap();
            let pieces = theirs[1..].chunks(3).take(usize::try_from(theirs[0]).unwrap());
            for piece in pieces.skip(usize::from(round % 3)).step_by(3) {
                let (at, len, byte) =
                    (piece[0].cast_signed(), usize::try_from(piece[1]).unwrap(), piece[2].to_le_bytes()[0]);
                let mut got = vec![!byte; len];
                window.get(&mut got, right(world), at).unwrap();
                assert!(got.iter().all(|&found| found == byte), "round {round}: {got:?} instead of {byte}");
            }
            window.unlock_all().unwrap();
            world.barrier().unwrap();
        }
        window.free().unwrap();
    });
}

#[test]
fn windows_have_names_hints_and_attributes() {
    everywhere([2], |_, world| {
        let mut hints = Info::new();
        hints.set("no_locks", "true").unwrap();
        let window = world.allocate_window(8, 1, &hints).unwrap();
        let used = window.properties().info();
        assert_eq!(used.get("no_locks").unwrap(), Some("true"));
        assert_eq!(used.get("same_size").unwrap(), Some("false"));
        window.properties().set_name("a window");
        assert_eq!(window.properties().name(), "a window");
        // Like the name of a communicator, the name of a window is limited to the length of C programs' buffers.
        window.properties().set_name(&"\u{e9}".repeat(100));
        assert_eq!(window.properties().name(), "\u{e9}".repeat(NAME_BYTES_MAX / 2));
        window.properties().set_handle(5);
        let deleted = std::sync::Arc::new(AtomicU64::new(0));
        let log = std::sync::Arc::clone(&deleted);
        let keyval = Keyval::new(
            ObjectKind::Window,
            |_, _, _| Ok(None),
            move |object, _, value| {
                log.store(object * 100 + value, Ordering::SeqCst);
                Ok(())
            },
        );
        window.properties().set_attribute(&keyval, 3).unwrap();
        assert_eq!(window.properties().attribute(&keyval).unwrap(), Some(3));
        assert_eq!(window.group().compare(&world.group()), mpi_over_am::Comparison::Identical);
        assert!(window.handled(window.put(&[1u8], 0, 0)).is_err());
        window.free().unwrap();
        assert_eq!(deleted.load(Ordering::SeqCst), 503);
        let window = allocate(world, 1);
        window.lock(Lock::Shared, 0, Assertion::NO_CHECK).unwrap();
        assert_eq!(class(window.free().map(drop)), ErrorClass::RmaSync);
    });
}

/// All tasks update the same elements of all windows at the same time; at the end each element contains every update.
fn all_add<T: Number + PartialEq + std::fmt::Debug + From<u8>>(
    world: &Communicator,
    offset: usize,
    add: fn(T, T) -> T,
    (op, times): (PredefinedOp, u8),
) {
    const COUNT: usize = 5;
    let size = size_of::<T>();
    let one = T::from(1);
    let start: Vec<u8> = [one; COUNT + 1].iter().flat_map(|number| bytes_of(number)).collect();
    let mut memory = vec![0u8; offset];
    memory.extend(&start);
    memory.resize(offset + start.len(), 0);
    let window = world.create_window(memory, 1, &Info::new()).unwrap();
    window.lock_all(Assertion::NONE).unwrap();
    world.barrier().unwrap();
    let two = T::from(2);
    for _ in 0..times {
        for rank in 0..world.size() {
            window.accumulate(&[two; COUNT], rank, offset.cast_signed() as i64, op).unwrap();
            window.fetch_and_op(two, rank, (offset + COUNT * size).cast_signed() as i64, op).unwrap();
        }
    }
    world.barrier().unwrap();
    let expected = (0..u32::from(times) * world.size()).fold(one, |sum, _| add(sum, two));
    for rank in 0..world.size() {
        let got = window
            .get_accumulate(&[one; COUNT + 1], rank, offset.cast_signed() as i64, PredefinedOp::NoOp)
            .unwrap();
        assert_eq!(got, [expected; COUNT + 1], "{op:?} of {size} bytes at {offset}");
    }
    window.unlock_all().unwrap();
    world.barrier().unwrap();
    window.free().unwrap();
}

fn bytes_of<T: Number>(number: &T) -> Vec<u8> {
    bytemuck::bytes_of(number).to_vec()
}

#[test]
fn no_update_is_lost() {
    everywhere([1, 3], |_, world| {
        for offset in [0, 8, 3] {
            all_add::<u8>(world, offset, u8::wrapping_add, (PredefinedOp::Sum, 4));
            all_add::<i16>(world, offset, i16::wrapping_add, (PredefinedOp::Sum, 4));
            all_add::<u32>(world, offset, u32::wrapping_add, (PredefinedOp::Sum, 4));
            all_add::<i64>(world, offset, i64::wrapping_add, (PredefinedOp::Sum, 4));
            all_add::<f32>(world, offset, |a, b| a + b, (PredefinedOp::Sum, 4));
            all_add::<f64>(world, offset, |a, b| a + b, (PredefinedOp::Sum, 4));
            all_add::<u64>(world, offset, u64::wrapping_mul, (PredefinedOp::Product, 4));
            all_add::<i32>(world, offset, i32::wrapping_mul, (PredefinedOp::Product, 4));
            all_add::<f64>(world, offset, |a, b| a * b, (PredefinedOp::Product, 4));
        }
    });
}

/// Updates the words of rank 0 in six rounds by every kind of call: for one word and for several, contiguous and strided.
fn add_in_every_way(window: &Window, at: i64, words: usize) {
    let int = Datatype::predefined(Predefined::Int64);
    let (even, backwards) = (
        Datatype::vector(words as u64 / 2, 1, 2, &int).unwrap(),
        Datatype::hvector(words as u64, 1, -8, &int).unwrap(),
    );
    let ones = vec![1i64; words];
    let sum = Op::from(PredefinedOp::Sum);
    let target = |at, datatype| TargetData { rank: 0, displacement: at, count: 1, datatype };
    let last = at + i64::try_from(words - 1).unwrap() * 8;
    for round in 0..6i64 {
        window.accumulate(&ones, 0, at, PredefinedOp::Sum).unwrap();
        window.accumulate_layout(&ones, (words as u64 / 2, &int), target(at, &even), &sum).unwrap();
        window.accumulate_layout(&ones, (words as u64, &int), target(last, &backwards), &sum).unwrap();
        // The old value of a word grows from call to call.
        let before = window.fetch_and_op(1i64, 0, at, PredefinedOp::Sum).unwrap();
        let next = window.get_accumulate(&ones[..3], 0, at, PredefinedOp::Sum).unwrap();
        assert!(next[0] > before && before >= 5 * round, "{before}, then {next:?}");
        let mut swapped = window.fetch_and_op(5i64, 0, last, PredefinedOp::NoOp).unwrap();
        loop {
            let found = window.compare_and_swap(swapped, swapped + 1, 0, last).unwrap();
            if found == swapped {
                break;
            }
            swapped = found;
        }
    }
}

/// The final value of a word, after all tasks have [added](add_in_every_way).
fn added(word: usize, words: usize, tasks: u32) -> i64 {
    let ways = 2
        + usize::from(word.is_multiple_of(2))
        + usize::from(word == 0)
        + usize::from(word < 3)
        + usize::from(word == words - 1);
    i64::try_from(ways * 6).unwrap() * i64::from(tasks)
}

#[test]
fn calls_of_one_word_and_of_many_update_the_same_words() {
    const WORDS: usize = 10;
    everywhere([1, 3], |_, world| {
        // Words that are aligned to their size, and words that are not.
        for skew in [0, 8, 3] {
            let memory = vec![0u8; 8 * 12];
            let window = world.create_window(memory, 1, &Info::new()).unwrap();
            window.lock_all(Assertion::NONE).unwrap();
            world.barrier().unwrap();
            add_in_every_way(&window, skew, WORDS);
            world.barrier().unwrap();
            let mut got = [0i64; WORDS];
            window.get(&mut got, 0, skew).unwrap();
            let expected: Vec<i64> = (0..WORDS).map(|word| added(word, WORDS, world.size())).collect();
            assert_eq!(got[..], expected, "{skew}");
            window.unlock_all().unwrap();
            world.barrier().unwrap();
            window.free().unwrap();
        }
    });
}

#[test]
fn memory_comes_and_goes_beside_what_others_update() {
    const WORDS: usize = 8;
    everywhere([2, 3], |_, world| {
        let window = world.create_dynamic_window(&Info::new()).unwrap();
        let mut place = [0u64];
        if world.rank() == 0 {
            place[0] = window.attach(vec![0u8; 8 * 8]).unwrap();
        }
        world.broadcast(&mut place, 0).unwrap();
        window.lock_all(Assertion::NONE).unwrap();
        world.barrier().unwrap();
        if world.rank() == 0 {
            // The directory keeps changing, but the piece in use stays.
            for round in 0..40 {
                let others: Vec<u64> = (0..3).map(|_| window.attach(vec![round; 100]).unwrap()).collect();
                for other in others {
                    assert_eq!(window.detach(other).unwrap()[..], [round; 100]);
                }
            }
        } else {
            add_in_every_way(&window, place[0].cast_signed(), WORDS);
        }
        world.barrier().unwrap();
        let mut got = [0i64; WORDS];
        window.get(&mut got, 0, place[0].cast_signed()).unwrap();
        let expected: Vec<i64> = (0..WORDS).map(|word| added(word, WORDS, world.size() - 1)).collect();
        assert_eq!(got[..], expected);
        window.unlock_all().unwrap();
        world.barrier().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn updates_of_many_numbers_at_once_lose_none() {
    const NUMBERS: usize = 1000;
    everywhere([1, 3], |_, world| {
        let window = allocate(world, NUMBERS);
        window.fence(Assertion::NONE).unwrap();
        let values: Vec<i64> = (1..).take(NUMBERS).collect();
        for _ in 0..3 {
            let old = window.get_accumulate(&values, 0, 0, PredefinedOp::Sum).unwrap();
            // All numbers have had the same number of updates, because a lock covers the whole update.
            let times = old[0];
            assert!(old.iter().zip(&values).all(|(old, value)| *old == times * value), "{old:?}");
            window.accumulate(&values, 0, 0, PredefinedOp::Sum).unwrap();
        }
        window.fence(Assertion::NONE).unwrap();
        let mut got = vec![0i64; NUMBERS];
        window.get(&mut got, 0, 0).unwrap();
        let updates = 6 * i64::from(world.size());
        assert_eq!(got, values.iter().map(|value| updates * value).collect::<Vec<_>>());
        window.fence(Assertion::NONE).unwrap();
        window.free().unwrap();
    });
}

#[test]
fn every_operation_does_what_the_reduction_does() {
    everywhere([2], |_, world| {
        let window = allocate(world, 16);
        window.fence(Assertion::NONE).unwrap();
        let (before, values) = ([6i64, -7, 0, 1], [3i64, 5, 1, 0]);
        for op in PredefinedOp::ALL {
            if matches!(op, PredefinedOp::MaxLocation | PredefinedOp::MinLocation) {
                assert_eq!(class(window.accumulate(&values, 0, 0, op)), ErrorClass::Operation);
                continue;
            }
            let mut expected = before.map(i64::to_le_bytes).concat();
            let datatype = Datatype::predefined(Predefined::Int64);
            Op::from(op)
                .reduce_packed(&values.map(i64::to_le_bytes).concat(), &mut expected, &datatype)
                .unwrap();
            window.write(0, &before).unwrap();
            window.fence(Assertion::NONE).unwrap();
            let old = window.get_accumulate(&values, right(world), 0, op).unwrap();
            assert_eq!(old, before, "{op:?}");
            window.fence(Assertion::NONE).unwrap();
            let mut own = [0i64; 4];
            window.read(0, &mut own).unwrap();
            assert_eq!(own.map(i64::to_le_bytes).concat(), expected, "{op:?}");
        }
        // A value and an index, which are two pieces with a gap between them.
        let pair = Datatype::predefined(Predefined::DoubleInt);
        let bytes =
            |value: f64, index: i32| [&value.to_le_bytes()[..], &index.to_le_bytes(), &[0; 4]].concat();
        window.write(0, &bytes(2.5, 8)).unwrap();
        window.write(16, &bytes(2.5, 1)).unwrap();
        window.fence(Assertion::NONE).unwrap();
        let mine: Vec<u8> = [bytes(3.5, 4), bytes(2.5, 3)].concat();
        let target = TargetData { rank: right(world), displacement: 0, count: 2, datatype: &pair };
        window.accumulate_layout(&mine, (2, &pair), target, &PredefinedOp::MaxLocation.into()).unwrap();
        window.fence(Assertion::NONE).unwrap();
        let mut own = [0u8; 32];
        window.read(0, &mut own).unwrap();
        assert_eq!(own[..], [bytes(3.5, 4), bytes(2.5, 1)].concat());
        window.free().unwrap();
    });
}

#[test]
fn one_swaps_and_the_others_see_it() {
    everywhere([1, 4], |_, world| {
        let window = allocate(world, 4);
        window.lock_all(Assertion::NONE).unwrap();
        let own = i64::from(world.rank()) + 1;
        let found = window.compare_and_swap(0i64, own, 0, 0).unwrap();
        let found_short =
            window.compare_and_swap(0i16, 5 + i16::try_from(world.rank()).unwrap(), 0, 1).unwrap();
        world.barrier().unwrap();
        let winner = window.fetch_and_op(0i64, 0, 0, PredefinedOp::NoOp).unwrap();
        assert_eq!(found == 0, winner == own);
        assert!(found == 0 || found == winner);
        let winner = window.fetch_and_op(0i16, 0, 1, PredefinedOp::NoOp).unwrap();
        assert_eq!(found_short == 0, winner == 5 + i16::try_from(world.rank()).unwrap());
        assert_eq!(window.compare_and_swap(7u8, 9, PROC_NULL, 0).unwrap(), 0);
        assert_eq!(class(window.compare_and_swap(1.0f64, 2.0, 0, 0)), ErrorClass::Type);
        assert_eq!(class(window.compare_and_swap(1u64, 2, 0, 4)), ErrorClass::RmaRange);
        assert_eq!(class(window.accumulate(&[1u64], 0, 4, PredefinedOp::Sum)), ErrorClass::RmaRange);
        for outside in [4, -1, i64::MIN, i64::MAX, i64::MAX / 8, 1 << 61] {
            let range = ErrorClass::RmaRange;
            assert_eq!(class(window.fetch_and_op(1u64, 0, outside, PredefinedOp::Sum)), range, "{outside}");
            assert_eq!(class(window.compare_and_swap(1u64, 2, 0, outside)), range, "{outside}");
            assert_eq!(class(window.get_accumulate(&[1u64; 2], 0, outside, PredefinedOp::Sum)), range);
            assert_eq!(class(window.put(&[1u64], 0, outside)), range, "{outside}");
        }
        // After a refused update, the next update works.
        window.accumulate(&[0i64; 4], 0, 0, PredefinedOp::Sum).unwrap();
        assert_eq!(
            class(window.accumulate(&[1.0f64], 0, 0, PredefinedOp::BitwiseAnd)),
            ErrorClass::Operation
        );
        window.unlock_all().unwrap();
        assert_eq!(class(window.accumulate(&[1u64], 0, 0, PredefinedOp::Sum)), ErrorClass::RmaSync);
        world.barrier().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn all_tasks_load_and_store_what_they_share() {
    everywhere([1, 2, 4], |_, world| {
        let (rank, size) = (world.rank(), world.size());
        // Each task has a different number of elements.
        let shared = world.allocate_shared_window::<u64>(10 + rank as usize, &Info::new()).unwrap();
        assert_eq!(shared.window().flavor(), Flavor::Shared);
        for other in 0..size {
            assert_eq!(shared.count(other).unwrap(), 10 + u64::from(other));
            assert_eq!(shared.load(other, 9).unwrap(), 0);
        }
        shared.barrier().unwrap();
        for other in 0..size {
            shared.store(other, u64::from(rank), u64::from(100 * rank + other)).unwrap();
        }
        shared.barrier().unwrap();
        for other in 0..size {
            let mut got = vec![0; size as usize];
            shared.read(other, 0, &mut got).unwrap();
            let expected: Vec<u64> = (0..size).map(|by| u64::from(100 * by + other)).collect();
            assert_eq!(got, expected);
        }
        shared.barrier().unwrap();
        shared.write(right(world), 8, &[5, 6]).unwrap();
        for _ in 0..10 {
            shared.update(0, 7, 1, PredefinedOp::Sum).unwrap();
        }
        shared.barrier().unwrap();
        assert_eq!(shared.load(0, 7).unwrap(), 10 * u64::from(size));
        assert_eq!([shared.load(rank, 8).unwrap(), shared.load(rank, 9).unwrap()], [5, 6]);
        assert_eq!(class(shared.load(0, 10)), ErrorClass::RmaRange);
        assert_eq!(class(shared.store(rank, u64::MAX, 0)), ErrorClass::Count);
        assert_eq!(class(shared.load(size, 0)), ErrorClass::Rank);
        assert_eq!(class(shared.count(size)), ErrorClass::Rank);
        assert_eq!(class(world.allocate_shared_window::<[u8; 0]>(3, &Info::new())), ErrorClass::Displacement);
        shared.barrier().unwrap();
        shared.free().unwrap();
    });
}
