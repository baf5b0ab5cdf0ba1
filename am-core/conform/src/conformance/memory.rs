//! New buffers; unexposing memory, also while peers access it; addresses of unexposed memory; and mapped ranges.

use super::Check;
use super::common::{everyone, next, pattern, previous};
use am_core::buffer::{Access, Grant, RemoteAddress};
use am_core::call_guard;
use am_core::context::Context;
use am_core::error::{Error, Fault};
use am_core::fabric::{AtomicOp, Fabric, Width};
use am_core::task::ContextNumber;
use am_core::{GetOptions, PutOptions};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("memory_buffers_are_zeroed_and_private", buffers),
        ("memory_unexpose_while_peers_put", unexpose_while_peers_put),
        ("memory_old_addresses_are_refused", old_addresses),
        ("memory_mapped_ranges_are_lent_for_a_call", mapped_ranges),
    ]
}

fn buffers<F: Fabric>(context: &mut Context<F>) {
    for len in [0, 1, 63, 64, 65, 4096, 1 << 20] {
        let mut buffer = context.alloc(len).expect("alloc");
        assert_eq!(buffer.len(), len);
        assert!(buffer.iter().all(|&byte| byte == 0), "{len} bytes");
        buffer.fill(7);
        let region = context.expose(buffer, Access::READ).expect("expose");
        let buffer = context.unexpose(region).expect("unexpose");
        assert!(buffer.iter().all(|&byte| byte == 7), "{len} bytes");
    }
}

/// Peers put continuously while the owner ends the exposure. Afterwards no put changes the memory, and later puts are refused.
fn unexpose_while_peers_put<F: Fabric>(context: &mut Context<F>) {
    let len = 50_000;
    for _ in 0..3 {
        let buffer = context.alloc(len).expect("alloc");
        let own = context.expose(buffer, Access::WRITE).expect("expose");
        let all = context.address_init(own.address(0)).expect("address_init");
        let target = next(context);
        let to = all[target.task.index()];
        let mut own = Some(own);
        let mut refused = false;
        let mut round = 0;
        while !refused || own.is_some() {
            round += 1;
            let bytes = pattern(round, len);
            // A put to mapped memory makes no progress. A peer may send its puts as messages, which need this task's progress.
            let mut done = context.put(to, &bytes, PutOptions::default()).and_then(|()| context.probe());
            // A fence reports that the target has refused such a message. Without the fence, the puts of this task would keep the target
            // busy.
            if done.is_ok() && own.is_none() && round % 4 == 0 {
                done = context.fence_data(Some(target)).map(|()| true);
            }
            match done.map(|_| ()) {
                Ok(()) => {}
                Err(Error::RemoteRange { .. } | Error::Refused { .. }) => refused = true,
                Err(other) => panic!("the error does not name the range: {other}"),
            }
            if round == 5 {
                let region = own.take().expect("taken once");
                let mut memory = context.unexpose(region).expect("unexpose");
                memory.fill(0x55);
                super::errors::drain(context);
                assert!(memory.iter().all(|&byte| byte == 0x55), "written after its exposure ended");
            }
        }
        super::errors::quiet_gfence(context);
    }
}

/// Where a peer's memory is mapped, the owner sees what the closure of `with_mapped` copies and changes there. `with_mapped` checks remote
/// addresses as put and get do.
fn mapped_ranges<F: Fabric>(context: &mut Context<F>) {
    let buffer = context.alloc(64).expect("alloc");
    let own = context.expose(buffer, Access::READ_WRITE).expect("expose");
    let all = context.address_init(own.address(0)).expect("address_init");
    let to = all[next(context).task.index()];
    let task = context.task().0;
    let lent = context.with_mapped(to, 24, |range| {
        assert!(range.write(0, &pattern(task, 16)) && !range.write(16, &[0; 9]) && !range.read(25, &mut []));
        assert_eq!(range.atomic(16, Width::Bits64, AtomicOp::FetchAdd(u64::from(task) + 1)), Some(0));
        assert_eq!(range.atomic(17, Width::Bits64, AtomicOp::FetchAdd(1)), None, "misaligned");
        assert_eq!(range.atomic(20, Width::Bits64, AtomicOp::FetchAdd(1)), None, "outside");
        let mut read = [0; 16];
        assert!(range.read(0, &mut read) && read[..] == pattern(task, 16));
    });
    let is_mapped = lent.expect("it is exposed").is_some();
    if is_mapped {
        let error = context.with_mapped(to.plus(41), 24, |_| ()).expect_err("outside");
        assert_eq!(error.fault(), Fault::Caller, "{error}");
        assert_eq!(context.try_with_mapped(to.plus(41), 24, |_| ()), None, "outside");
    }
    let grant = Grant { region: 0, generation: 0 };
    let nowhere = RemoteAddress { context: ContextNumber(u8::MAX), grant, ..to };
    let found = context.with_mapped(nowhere, 8, |_| ());
    assert!(found.is_err() || !is_mapped && matches!(found, Ok(None)), "no task has this context");
    let again = context.try_with_mapped(to.plus(40), 24, |range| range.len());
    // Marks are never cleared, so a process without marks had none in the call before. Other tests of the process may run handlers.
    if again.is_some() || call_guard::is_unmarked_process() {
        assert_eq!(again, is_mapped.then_some(24), "the region was found before");
    }
    context.gfence().expect("gfence");
    if is_mapped {
        let from = previous(context).task.0;
        let mut got = [0; 16];
        own.read(0, &mut got).expect("inside");
        assert_eq!(got[..], pattern(from, 16));
        assert_eq!(own.load_u64(16).expect("inside"), u64::from(from) + 1);
    }
    let buffer = context.unexpose(own).expect("unexpose");
    let readable = context.expose(buffer, Access::READ).expect("expose");
    let all = context.address_init(readable.address(0)).expect("address_init");
    let refused = [to, all[next(context).task.index()]].map(|at| {
        assert_eq!(context.try_with_mapped(at, 8, |_| ()), None, "it is not exposed for writing any more");
        context.with_mapped(at, 8, |_| ())
    });
    assert!(refused.iter().all(|refused| refused.is_err() || !is_mapped && matches!(refused, Ok(None))));
    super::errors::quiet_gfence(context);
    drop(context.unexpose(readable).expect("unexpose"));
}

fn old_addresses<F: Fabric>(context: &mut Context<F>) {
    let buffer = context.alloc(64).expect("alloc");
    let old = context.expose(buffer, Access::READ_WRITE).expect("expose");
    let all = context.address_init(old.address(0)).expect("address_init");
    context.gfence().expect("gfence");
    let buffer = context.unexpose(old).expect("unexpose");
    let new = context.expose(buffer, Access::READ_WRITE).expect("expose");
    context.gfence().expect("gfence");
    for target in everyone(context) {
        let from = all[target.task.index()];
        let error = context.get(from, &mut [0; 8], GetOptions::default()).expect_err("an old generation");
        assert_eq!(error.fault(), Fault::Caller, "{error}");
    }
    super::errors::quiet_gfence(context);
    drop(context.unexpose(new).expect("unexpose"));
}
