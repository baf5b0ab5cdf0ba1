//! Atomic operations and accumulates: each returns and stores the specified values, and none is lost under contention. Also the errors of
//! accumulates.

use super::Check;
use super::common::{everyone, new_counter, next};
use am_core::buffer::{Access, Executor, RemoteAddress};
use am_core::context::Context;
use am_core::error::{Error, Fault};
use am_core::fabric::{AtomicOp, Fabric, Width};
use am_core::task::TaskId;
use am_core::{Accumulation, Element, PutOptions};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("rmw_every_operation", every_operation),
        ("rmw_contention_loses_nothing", contention),
        ("rmw_nonblocking", nonblocking),
        ("rmw_nonfetching", nonfetching),
        ("rmw_at_the_owner", at_the_owner),
        ("accumulate_every_type_and_operation", accumulate_every),
        ("accumulate_contention_loses_nothing", accumulate_contention),
        ("accumulate_errors", accumulate_errors),
    ]
}

const REGIONS: usize = 3;

fn with_words<F: Fabric>(
    context: &mut Context<F>,
    mut check: impl FnMut(&mut Context<F>, &am_core::buffer::Exposed, &[RemoteAddress]),
) {
    let mut regions = Vec::new();
    for _ in 0..REGIONS {
        let buffer = context.alloc(64).expect("alloc");
        let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
        let all = context.address_init(own.address(0)).expect("address_init");
        check(context, &own, &all);
        context.gfence().expect("gfence");
        // The region stays exposed, so that the next round uses another one.
        regions.push(own);
    }
    for region in regions {
        drop(context.unexpose(region).expect("unexpose"));
    }
}

fn every_operation<F: Fabric>(context: &mut Context<F>) {
    with_words(context, |context, own, all| {
        for target in everyone(context) {
            // The tasks take turns at the words of each task.
            for turn in everyone(context) {
                if turn == context.endpoint() {
                    one_by_one(context, all[target.task.index()]);
                }
                context.gfence().expect("gfence");
            }
        }
        assert_eq!(own.load_u64(16).expect("load"), 0, "the word behind is untouched");
    });
}

fn one_by_one<F: Fabric>(context: &mut Context<F>, at: RemoteAddress) {
    let bits64 = Width::Bits64;
    let mut rmw = |operation| context.rmw(at, bits64, operation).expect("rmw");
    let old = rmw(AtomicOp::Swap(10));
    assert_eq!(rmw(AtomicOp::FetchAdd(u64::MAX)), 10);
    assert_eq!(rmw(AtomicOp::FetchOr(0xF0)), 9);
    assert_eq!(rmw(AtomicOp::FetchAnd(0xF1)), 0xF9);
    assert_eq!(rmw(AtomicOp::FetchXor(1 << 63)), 0xF1);
    assert_eq!(rmw(AtomicOp::CompareSwap { expected: 0, new: 5 }), 1 << 63 | 0xF1);
    assert_eq!(rmw(AtomicOp::CompareSwap { expected: 1 << 63 | 0xF1, new: 5 }), 1 << 63 | 0xF1);
    let negative = (-3_i64).cast_unsigned();
    assert_eq!(rmw(AtomicOp::FetchMin(4)), 5);
    assert_eq!(rmw(AtomicOp::FetchMax(negative)), 4);
    assert_eq!(rmw(AtomicOp::FetchMaxSigned(2)), negative);
    assert_eq!(rmw(AtomicOp::FetchMinSigned(negative)), 2);
    assert_eq!(rmw(AtomicOp::Swap(2.5_f64.to_bits())), negative);
    assert_eq!(rmw(AtomicOp::add_f64(0.25)), 2.5_f64.to_bits());
    assert_eq!(rmw(AtomicOp::FetchMinFloat((-1.0_f64).to_bits())), 2.75_f64.to_bits());
    assert_eq!(rmw(AtomicOp::FetchMaxFloat(f64::NAN.to_bits())), (-1.0_f64).to_bits());
    assert_eq!(rmw(AtomicOp::FetchMaxFloat(7.0_f64.to_bits())), (-1.0_f64).to_bits());
    assert_eq!(rmw(AtomicOp::Swap(old)), 7.0_f64.to_bits());
    let at = at.plus(12);
    let mut rmw = |operation| context.rmw(at, Width::Bits32, operation).expect("rmw");
    assert_eq!(rmw(AtomicOp::Swap(0xFFFF_FFFF)), 0);
    assert_eq!(rmw(AtomicOp::FetchAdd(2)), 0xFFFF_FFFF, "wraps inside its 32 bits");
    assert_eq!(rmw(AtomicOp::CompareSwap { expected: 1, new: 3 }), 1);
    assert_eq!(rmw(AtomicOp::FetchXor(1)), 3);
    assert_eq!(rmw(AtomicOp::FetchMin(u64::from(u32::MAX) + 2)), 2, "the low half counts");
    assert_eq!(rmw(AtomicOp::FetchMinSigned(u64::from(u32::MAX))), 1);
    assert_eq!(rmw(AtomicOp::FetchMaxSigned(1)), u64::from(u32::MAX));
    assert_eq!(rmw(AtomicOp::FetchMax(u64::from(u32::MAX))), 1);
    assert_eq!(rmw(AtomicOp::Swap(u64::from(1.5_f32.to_bits()))), u64::from(u32::MAX));
    assert_eq!(rmw(AtomicOp::add_f32(-2.0)), u64::from(1.5_f32.to_bits()));
    assert_eq!(rmw(AtomicOp::FetchMinFloat(u64::from(9_f32.to_bits()))), u64::from((-0.5_f32).to_bits()));
    assert_eq!(rmw(AtomicOp::Swap(0)), u64::from((-0.5_f32).to_bits()));
    short_words(context, at);
    let error = context.rmw(at.plus(2), Width::Bits32, AtomicOp::FetchAdd(1)).expect_err("misaligned");
    assert!(matches!(error, Error::Misaligned { offset: 14, size: 4 }), "{error}");
}

/// Words of 16 and 8 bits: the neighbouring bits are unchanged.
fn short_words<F: Fabric>(context: &mut Context<F>, at: RemoteAddress) {
    for (place, width, max) in [(2, Width::Bits16, 0xFFFF), (1, Width::Bits8, 0xFF)] {
        let mut rmw = |operation| context.rmw(at.plus(place), width, operation).expect("rmw");
        assert_eq!(rmw(AtomicOp::Swap(u64::MAX)), 0);
        assert_eq!(rmw(AtomicOp::FetchAdd(2)), max, "wraps inside its width");
        assert_eq!(rmw(AtomicOp::CompareSwap { expected: 0, new: 7 }), 1);
        assert_eq!(rmw(AtomicOp::CompareSwap { expected: 1 | 1 << 32, new: 3 }), 1, "the low bits count");
        assert_eq!(rmw(AtomicOp::FetchXor(1)), 3);
        assert_eq!(rmw(AtomicOp::FetchMinSigned(max)), 2);
        assert_eq!(rmw(AtomicOp::FetchMaxSigned(1)), max, "-1 is less than 1");
        assert_eq!(rmw(AtomicOp::FetchMax(max)), 1);
        assert_eq!(rmw(AtomicOp::FetchMin(0x35)), max);
        assert_eq!(rmw(AtomicOp::FetchAnd(0xF0)), 0x35);
        assert_eq!(rmw(AtomicOp::FetchOr(4)), 0x30);
        assert_eq!(rmw(AtomicOp::Swap(0)), 0x34);
        let error =
            context.rmw(at.plus(place), width, AtomicOp::FetchMinFloat(0)).expect_err("no such float");
        assert!(matches!(error, Error::NoSuchOperation { .. }), "{error}");
    }
    assert_eq!(context.rmw(at, Width::Bits32, AtomicOp::FetchOr(0)).expect("rmw"), 0, "all are 0 again");
    let error = context.rmw(at.plus(1), Width::Bits16, AtomicOp::FetchAdd(1)).expect_err("misaligned");
    assert!(matches!(error, Error::Misaligned { offset: 13, size: 2 }), "{error}");
}

fn nonfetching<F: Fabric>(context: &mut Context<F>) {
    with_words(context, |context, own, all| {
        let (done, tasks) = (new_counter(context), u64::from(context.num_tasks()));
        let sum = AtomicOp::add_f64(0.5);
        for target in everyone(context) {
            let at = all[target.task.index()];
            for _ in 0..20 {
                context.rmw_nonfetching(at, Width::Bits64, sum, Some(done)).expect("rmw");
                context
                    .rmw_nonfetching(at.plus(8), Width::Bits32, AtomicOp::FetchAdd(3), Some(done))
                    .expect("rmw");
            }
        }
        context.wait_counter(done, 40 * tasks).expect("the counter reaches its value");
        context.gfence().expect("gfence");
        assert_eq!(f64::from_bits(own.load_u64(0).expect("load")), 10.0 * tasks as f64);
        assert_eq!(own.load_u64(8).expect("load"), 60 * tasks);
        context.remove_counter(done);
    });
}

/// Operations that the owner performs, even where other tasks could access the memory.
fn at_the_owner<F: Fabric>(context: &mut Context<F>) {
    let buffer = context.alloc(64).expect("alloc");
    let own = context.expose_with(buffer, Access::READ_WRITE, Executor::Owner).expect("expose");
    let all = context.address_init(own.address(0)).expect("address_init");
    assert!(all.iter().all(|address| address.executor == Executor::Owner));
    for target in everyone(context) {
        for turn in everyone(context) {
            if turn == context.endpoint() {
                one_by_one(context, all[target.task.index()]);
            }
            context.gfence().expect("gfence");
        }
    }
    let tasks = u64::from(context.num_tasks());
    for _ in 0..100 {
        context.rmw(all[0].plus(32), Width::Bits64, AtomicOp::FetchAdd(1)).expect("rmw");
        context
            .accumulate(all[0].plus(40), &[1u64, 2], Accumulation::Add, PutOptions::default())
            .expect("accumulate");
    }
    context.gfence().expect("gfence");
    if context.task() == TaskId(0) {
        let found = [32, 40, 48].map(|at| own.load_u64(at).expect("load"));
        assert_eq!(found, [100 * tasks, 100 * tasks, 200 * tasks]);
    }
    context.gfence().expect("gfence");
    drop(context.unexpose(own).expect("unexpose"));
}

/// Each task accumulates its numbers into those of the next task.
fn accumulate_one<F: Fabric, T: Element + PartialEq + std::fmt::Debug>(
    context: &mut Context<F>,
    how: Accumulation,
    executor: Executor,
    make: impl Fn(u64) -> T,
    wanted: impl Fn(T, T) -> T,
    append: impl Fn(&mut Vec<u8>, T),
) {
    // More elements than fit into a packet, and not a multiple of that number.
    let count = 3001;
    let first: Vec<T> = (0..count).map(|i| make(i * 7 % 100)).collect();
    let second: Vec<T> = (0..count).map(|i| make(i * 13 % 90)).collect();
    let bytes = |values: &[T]| {
        let mut bytes = Vec::with_capacity(size_of_val(values));
        for &value in values {
            append(&mut bytes, value);
        }
        bytes
    };
    let before = bytes(&first);
    let (arrived, completed) = (new_counter(context), new_counter(context));
    let buffer = context.alloc(before.len() + 16).expect("alloc");
    let own = context.expose_with(buffer, Access::READ_WRITE, executor).expect("expose");
    own.write(8, &before).expect("inside");
    let all = context.address_init(own.address(8)).expect("address_init");
    let at = all[next(context).task.index()];
    let options =
        PutOptions { target: Some(arrived.name()), completion: Some(completed), ..PutOptions::default() };
    context.accumulate(at, &second, how, options).expect("accumulate");
    context.wait_counter(completed, 1).expect("once");
    context.wait_counter(arrived, 1).expect("once");
    let result: Vec<T> = first.iter().zip(&second).map(|(&a, &b)| wanted(a, b)).collect();
    let mut found = vec![0; before.len()];
    own.read(8, &mut found).expect("inside");
    assert!(found == bytes(&result), "{how:?} of {} by {executor:?}", std::any::type_name::<T>());
    assert_eq!(own.load_u64(0).expect("load"), 0, "the word before is untouched");
    context.gfence().expect("gfence");
    drop(context.unexpose(own).expect("unexpose"));
    [arrived, completed].into_iter().for_each(|counter| context.remove_counter(counter));
}

fn accumulate_every<F: Fabric>(context: &mut Context<F>) {
    use Accumulation::{Add, And, Max, Min, Or, Replace, Xor};
    for executor in [Executor::Anyone, Executor::Owner] {
        macro_rules! check {
            ($type:ty, $how:expr, $wanted:expr) => {
                let make = |i: u64| (i as $type) - (40 as $type);
                accumulate_one::<F, $type>(context, $how, executor, make, $wanted, |bytes, v| {
                    bytes.extend_from_slice(&v.to_le_bytes());
                });
            };
        }
        check!(i64, Add, |a, b| a + b);
        check!(i64, Min, i64::min);
        check!(i64, Max, i64::max);
        check!(i32, Min, i32::min);
        check!(i32, Max, i32::max);
        check!(f64, Add, |a, b| a + b);
        check!(f64, Min, f64::min);
        check!(f64, Max, f64::max);
        check!(f32, Add, |a, b| a + b);
        check!(f32, Max, f32::max);
        check!(i32, Replace, |_, b| b);
        macro_rules! check_unsigned {
            ($type:ty, $how:expr, $wanted:expr) => {
                let make = |i: u64| (i * 1_000_003) as $type;
                accumulate_one::<F, $type>(context, $how, executor, make, $wanted, |bytes, v| {
                    bytes.extend_from_slice(&v.to_le_bytes());
                });
            };
        }
        check_unsigned!(u32, Add, |a, b| a.wrapping_add(b));
        check_unsigned!(u64, And, |a, b| a & b);
        check_unsigned!(u64, Or, |a, b| a | b);
        check_unsigned!(u32, Xor, |a, b| a ^ b);
        check_unsigned!(u64, Min, u64::min);
        check_unsigned!(u32, Max, u32::max);
    }
}

fn accumulate_contention<F: Fabric>(context: &mut Context<F>) {
    with_words(context, |context, own, all| {
        let tasks = u64::from(context.num_tasks());
        for _ in 0..50 {
            context
                .accumulate(all[0], &[1u64, 2, 3], Accumulation::Add, PutOptions::default())
                .expect("accumulate");
            context.rmw(all[0].plus(8), Width::Bits64, AtomicOp::FetchAdd(1)).expect("rmw");
        }
        context.gfence().expect("gfence");
        if context.task() == TaskId(0) {
            let found = [0, 8, 16].map(|at| own.load_u64(at).expect("load"));
            assert_eq!(found, [50 * tasks, 150 * tasks, 150 * tasks]);
        }
    });
}

fn accumulate_errors<F: Fabric>(context: &mut Context<F>) {
    let buffer = context.alloc(64).expect("alloc");
    let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
    let at = own.address(0);
    let no_bits =
        context.accumulate(at, &[1f32], Accumulation::Or, PutOptions::default()).expect_err("of floats");
    assert!(matches!(no_bits, Error::NoSuchOperation { element: "f32", .. }), "{no_bits}");
    let odd =
        context.accumulate(at.plus(4), &[1u64], Accumulation::Add, PutOptions::default()).expect_err("odd");
    assert!(matches!(odd, Error::Misaligned { offset: 4, size: 8 }), "{odd}");
    let long =
        context.accumulate(at, &[1u64; 9], Accumulation::Add, PutOptions::default()).expect_err("72 bytes");
    for error in [no_bits, odd, long] {
        assert_eq!(error.fault(), Fault::Caller, "{error}");
    }
    super::errors::quiet_gfence(context);
    context.gfence().expect("gfence");
    drop(context.unexpose(own).expect("unexpose"));
}

fn contention<F: Fabric>(context: &mut Context<F>) {
    with_words(context, |context, own, all| {
        let rounds = 200;
        let tasks = u64::from(context.num_tasks());
        for round in 0..rounds {
            context.rmw(all[0], Width::Bits64, AtomicOp::FetchAdd(round)).expect("rmw");
            context.rmw(all[0].plus(8), Width::Bits32, AtomicOp::FetchAdd(1)).expect("rmw");
        }
        context.gfence().expect("gfence");
        if context.task() == TaskId(0) {
            assert_eq!(own.load_u64(0).expect("load"), tasks * rounds * (rounds - 1) / 2);
            assert_eq!(own.load_u64(8).expect("load"), tasks * rounds);
        }
        // A lock made of compare-and-swap: at most one task holds it at a time.
        context.gfence().expect("gfence");
        for _ in 0..20 {
            let take = AtomicOp::CompareSwap { expected: 0, new: 1 };
            while context.rmw(all[0].plus(16), Width::Bits64, take).expect("rmw") != 0 {}
            let mut value = [0; 8];
            context.get(all[0].plus(24), &mut value, am_core::GetOptions::default()).expect("get");
            let more = u64::from_le_bytes(value) + 1;
            let completion = context.counter().expect("counter");
            let options = am_core::PutOptions { completion: Some(completion), ..Default::default() };
            context.put(all[0].plus(24), &more.to_le_bytes(), options).expect("put");
            context.wait_counter(completion, 1).expect("the counter reaches its value");
            context.remove_counter(completion);
            context.rmw(all[0].plus(16), Width::Bits64, AtomicOp::Swap(0)).expect("rmw");
        }
        context.gfence().expect("gfence");
        if context.task() == TaskId(0) {
            assert_eq!(own.load_u64(24).expect("load"), 20 * tasks);
        }
    });
}

fn nonblocking<F: Fabric>(context: &mut Context<F>) {
    with_words(context, |context, own, all| {
        let done = new_counter(context);
        let handles: Vec<_> = everyone(context)
            .map(|target| {
                let at = all[target.task.index()];
                context
                    .rmw_nonblocking(at, Width::Bits64, AtomicOp::FetchAdd(1), Some(done))
                    .expect("rmw_nonblocking")
            })
            .collect();
        context.wait_counter(done, u64::from(context.num_tasks())).expect("the counter reaches its value");
        for handle in handles {
            let old = context.rmw_result(handle).expect("rmw").expect("it is done");
            assert!(old < u64::from(context.num_tasks()));
        }
        context.gfence().expect("gfence");
        assert_eq!(own.load_u64(0).expect("load"), u64::from(context.num_tasks()));
        context.remove_counter(done);
    });
}
