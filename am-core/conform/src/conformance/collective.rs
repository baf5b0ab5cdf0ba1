//! Barriers and exchanges.

use super::Check;
use super::common::{Shared, everyone, register};
use am_core::buffer::Access;
use am_core::context::Context;
use am_core::error::{Error, Fault};
use am_core::fabric::Fabric;
use am_core::handler::Answer;
use am_core::{AmOptions, task::TaskId};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("collective_exchange", exchange),
        ("collective_address_init", address_init),
        ("collective_gfence_is_a_barrier", gfence_is_a_barrier),
    ]
}

fn exchange<F: Fabric>(context: &mut Context<F>) {
    for round in 0..5u8 {
        let own = vec![round ^ context.task().0 as u8; context.task().index() % 33];
        let all = context.exchange(&own).expect("exchange");
        assert_eq!(all.len(), context.num_tasks() as usize);
        for (task, bytes) in all.iter().enumerate() {
            assert_eq!(*bytes, vec![round ^ task as u8; task % 33], "what task {task} contributed");
        }
    }
    let error = context.exchange(&[0; 33]).expect_err("33 bytes are too many");
    assert!(matches!(error, Error::ContributionTooLong { len: 33, max: 32 }));
    assert_eq!(error.fault(), Fault::Caller);
}

fn address_init<F: Fabric>(context: &mut Context<F>) {
    let buffer = context.alloc(64).expect("alloc");
    let region = context.expose(buffer, Access::READ_WRITE).expect("expose");
    let all = context.address_init(region.address(8)).expect("address_init");
    assert_eq!(all.len(), context.num_tasks() as usize);
    for (task, address) in (0..).zip(&all) {
        assert_eq!((address.task, address.offset), (TaskId(task), 8));
    }
    assert_eq!(all[context.task().index()].grant, region.grant());
    context.gfence().expect("gfence");
    drop(context.unexpose(region).expect("unexpose"));
}

/// No task leaves a gfence before all tasks have entered it and all earlier messages to the task have arrived.
fn gfence_is_a_barrier<F: Fabric>(context: &mut Context<F>) {
    let seen = Shared::<Vec<(u32, u8)>>::new();
    let in_handler = seen.clone();
    let handler = register(context, move |message| {
        in_handler.with(|seen| seen.push((message.source.task.0, message.uhdr[0])));
        Answer::discard()
    });
    let tasks = context.num_tasks() as usize;
    for round in 0..20u8 {
        for target in everyone(context) {
            let options = AmOptions::default();
            context.amsend(target, handler, &[round], &[], options).expect("amsend");
        }
        context.gfence().expect("gfence");
        let mut arrived = seen.with(|seen| seen.clone());
        arrived.retain(|&(_, of_round)| of_round == round);
        arrived.sort_unstable();
        let wanted: Vec<(u32, u8)> = (0..tasks as u32).map(|task| (task, round)).collect();
        assert_eq!(arrived, wanted, "messages of round {round}");
    }
}
