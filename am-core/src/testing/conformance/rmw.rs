//! Atomic operations: each does what it says, and none is lost under contention.

use super::Check;
use super::common::{everyone, new_counter};
use crate::buffer::{Access, RemoteAddress};
use crate::context::Context;
use crate::error::Error;
use crate::fabric::{AtomicOp, Fabric, Width};
use crate::task::TaskId;

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("rmw_every_operation", every_operation),
        ("rmw_contention_loses_nothing", contention),
        ("rmw_nonblocking", nonblocking),
    ]
}

const REGIONS: usize = 3;

fn with_words<F: Fabric>(
    context: &mut Context<F>,
    mut check: impl FnMut(&mut Context<F>, &crate::buffer::Exposed, &[RemoteAddress]),
) {
    let mut regions = Vec::new();
    for _ in 0..REGIONS {
        let buffer = context.alloc(64).expect("alloc");
        let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
        let all = context.address_init(own.address(0)).expect("address_init");
        check(context, &own, &all);
        context.gfence().expect("gfence");
        // Not given back yet: the next one is to be another region.
        regions.push(own);
    }
    for region in regions {
        drop(context.unexpose(region).expect("unexpose"));
    }
}

fn every_operation<F: Fabric>(context: &mut Context<F>) {
    with_words(context, |context, own, all| {
        for target in everyone(context) {
            // Each task has its turn at each word.
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
    assert_eq!(rmw(AtomicOp::Swap(old)), 5);
    let at = at.plus(12);
    let mut rmw = |operation| context.rmw(at, Width::Bits32, operation).expect("rmw");
    assert_eq!(rmw(AtomicOp::Swap(0xFFFF_FFFF)), 0);
    assert_eq!(rmw(AtomicOp::FetchAdd(2)), 0xFFFF_FFFF, "wraps inside its 32 bits");
    assert_eq!(rmw(AtomicOp::CompareSwap { expected: 1, new: 3 }), 1);
    assert_eq!(rmw(AtomicOp::FetchXor(3)), 3);
    let error = context.rmw(at.plus(2), Width::Bits32, AtomicOp::FetchAdd(1)).expect_err("misaligned");
    assert!(matches!(error, Error::Misaligned { offset: 14, size: 4 }), "{error}");
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
        // A lock of compare and swap: nobody is inside it with another.
        context.gfence().expect("gfence");
        for _ in 0..20 {
            let take = AtomicOp::CompareSwap { expected: 0, new: 1 };
            while context.rmw(all[0].plus(16), Width::Bits64, take).expect("rmw") != 0 {}
            let mut value = [0; 8];
            context.get(all[0].plus(24), &mut value, crate::GetOptions::default()).expect("get");
            let more = u64::from_le_bytes(value) + 1;
            let completion = context.counter().expect("counter");
            let options = crate::PutOptions { completion: Some(completion), ..Default::default() };
            context.put(all[0].plus(24), &more.to_le_bytes(), options).expect("put");
            context.wait_counter(completion, 1).expect("in place");
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
        context.wait_counter(done, u64::from(context.num_tasks())).expect("done");
        for handle in handles {
            let old = context.rmw_result(handle).expect("rmw").expect("it is done");
            assert!(old < u64::from(context.num_tasks()));
        }
        context.gfence().expect("gfence");
        assert_eq!(own.load_u64(0).expect("load"), u64::from(context.num_tasks()));
        context.remove_counter(done);
    });
}
