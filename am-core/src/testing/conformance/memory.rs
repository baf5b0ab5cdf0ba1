//! Exposing and taking back, also while peers are using the memory.

use super::Check;
use super::common::{everyone, next, pattern};
use crate::buffer::Access;
use crate::context::Context;
use crate::error::{Error, Fault};
use crate::fabric::Fabric;
use crate::{GetOptions, PutOptions};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("memory_buffers_are_zeroed_and_private", buffers),
        ("memory_unexpose_while_peers_put", unexpose_while_peers_put),
        ("memory_old_addresses_are_refused", old_addresses),
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

/// Peers put without end; the owner takes the memory back. No put is half done after that, and later ones are refused.
fn unexpose_while_peers_put<F: Fabric>(context: &mut Context<F>) {
    let len = 50_000;
    for _ in 0..3 {
        let buffer = context.alloc(len).expect("alloc");
        let own = context.expose(buffer, Access::WRITE).expect("expose");
        let all = context.address_init(own.address(0)).expect("address_init");
        let to = all[next(context).task.index()];
        let mut own = Some(own);
        let mut refused = false;
        let mut round = 0;
        while !refused || own.is_some() {
            round += 1;
            let bytes = pattern(round, len);
            match context.put(to, &bytes, PutOptions::default()) {
                Ok(()) => {}
                Err(Error::RemoteRange { .. } | Error::Refused { .. }) => refused = true,
                Err(other) => panic!("not about the range: {other}"),
            }
            if round == 5 {
                let region = own.take().expect("taken once");
                let mut memory = context.unexpose(region).expect("unexpose");
                memory.fill(0x55);
                super::errors::drain(context);
                assert!(memory.iter().all(|&byte| byte == 0x55), "written after it was taken back");
            }
        }
        super::errors::quiet_gfence(context);
    }
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
