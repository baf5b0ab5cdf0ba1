//! The guarantees of a data fence and of an operation fence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::Check;
use super::common::{everyone, next, pattern, register};
use am_core::buffer::Access;
use am_core::context::Context;
use am_core::fabric::{AtomicOp, Fabric, Width};
use am_core::handler::{Answer, Completion};
use am_core::{AmOptions, GetOptions, PutOptions};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![("fence_data_orders_puts", orders_puts), ("fence_ops_waits_for_handlers", waits_for_handlers)]
}

/// A target that sees a flag set after a data fence also sees the data of the puts before the fence.
fn orders_puts<F: Fabric>(context: &mut Context<F>) {
    let len = 20_000;
    let buffer = context.alloc(len + 8).expect("alloc");
    let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
    let all = context.address_init(own.address(0)).expect("address_init");
    let target = next(context);
    let to = all[target.task.index()];
    for round in 1..=10u64 {
        let bytes = pattern(context.task().0 + round as u32, len);
        context.put(to, &bytes, PutOptions::default()).expect("put");
        if round % 2 == 0 {
            context.fence_data(None).expect("fence_data");
        } else {
            context.fence_data(Some(target)).expect("fence_data");
        }
        context.rmw(to.plus(len as u64), Width::Bits64, AtomicOp::Swap(round)).expect("rmw");
        context.wait_until(|_| Ok(own.load_u64(len as u64)? == round)).expect("the flag");
        let mut bytes = vec![0; len];
        own.read(0, &mut bytes).expect("read");
        let source = super::common::previous(context).task.0;
        assert!(bytes == pattern(source + round as u32, len), "round {round}");
        let mut back = vec![0; len];
        context.get(to, &mut back, GetOptions::default()).expect("get");
        assert!(back == pattern(context.task().0 + round as u32, len), "round {round}");
        context.gfence().expect("gfence");
    }
    drop(context.unexpose(own).expect("unexpose"));
}

fn waits_for_handlers<F: Fabric>(context: &mut Context<F>) {
    let ran = Arc::new(AtomicU32::new(0));
    let in_handler = Arc::clone(&ran);
    let handler = register(context, move |_| {
        let ran = Arc::clone(&in_handler);
        Answer::consumed(Completion::Thread(Box::new(move |_, _| {
            // Long enough that a fence that does not wait would be detected.
            std::thread::sleep(Duration::from_millis(2));
            ran.fetch_add(1, Ordering::Relaxed);
        })))
    });
    let count = register(context, |_| Answer::discard());
    for target in everyone(context) {
        for len in [0, 100, 10_000] {
            context.amsend(target, handler, &[], &vec![0; len], AmOptions::default()).expect("amsend");
            context.amsend(target, count, &[], &vec![0; len], AmOptions::default()).expect("amsend");
        }
    }
    context.fence_ops(None).expect("fence_ops");
    context.gfence().expect("gfence");
    assert_eq!(ran.load(Ordering::Relaxed), 3 * context.num_tasks(), "handlers that have run");
}
