//! Flow control: both sides send continuously, and no task waits for a slot that is never freed; messages that are never answered use up no
//! slots.

use super::Check;
use super::common::{Shared, everyone, new_counter, next, register, until};
use am_core::AmOptions;
use am_core::context::Context;
use am_core::fabric::Fabric;
use am_core::handler::{Answer, Completion, Reply};

pub(super) fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    vec![
        ("flow_flood_one_way", flood_one_way),
        ("flow_flood_with_answers", flood_with_answers),
        ("flow_flood_of_pieces", flood_of_pieces),
        ("flow_unanswered_requests_do_not_add_up", unanswered),
    ]
}

const COUNT: u32 = 2000;

fn flood_one_way<F: Fabric>(context: &mut Context<F>) {
    let arrived = new_counter(context);
    let handler = register(context, move |_| Answer::consumed(Completion::Bump(arrived)));
    let options = AmOptions::default();
    for number in 0..COUNT {
        for target in everyone(context) {
            let udata = [1; 300];
            let len = if number % 3 == 0 { 300 } else { 4 };
            context.amsend(target, handler, &[], &udata[..len], options).expect("amsend");
        }
    }
    let all = u64::from(COUNT) * u64::from(context.num_tasks());
    context.wait_counter(arrived, all).expect("the counter reaches its value");
    context.gfence().expect("gfence");
    context.remove_counter(arrived);
}

fn flood_with_answers<F: Fabric>(context: &mut Context<F>) {
    let answers = Shared::<u64>::new();
    let in_handler = answers.clone();
    let completion = new_counter(context);
    let answered = register(context, move |_| {
        in_handler.with(|count| *count += 1);
        Answer::discard()
    });
    let asked = register(context, move |_| {
        Answer::consumed(Completion::Reply(Reply::new(answered, b"answer").expect("it fits")))
    });
    let options = AmOptions { completion: Some(completion), ..AmOptions::default() };
    for _ in 0..COUNT {
        for target in everyone(context) {
            context.amsend(target, asked, b"question", &[], options).expect("amsend");
        }
    }
    let all = u64::from(COUNT) * u64::from(context.num_tasks());
    context.wait_counter(completion, all).expect("all were completed");
    until(context, &mut || answers.with(|count| *count == all));
    context.gfence().expect("gfence");
    context.remove_counter(completion);
}

fn flood_of_pieces<F: Fabric>(context: &mut Context<F>) {
    let arrived = new_counter(context);
    let handler = register(context, move |message| {
        let buffer = am_core::buffer::JobBuffer::zeroed(message.len as usize);
        Answer::owned(buffer, Completion::Bump(arrived))
    });
    let len = 20 * context.limits().packet_bytes_max;
    for _ in 0..10 {
        for target in everyone(context) {
            context.amsend(target, handler, &[], &vec![1; len], AmOptions::default()).expect("amsend");
        }
    }
    context
        .wait_counter(arrived, 10 * u64::from(context.num_tasks()))
        .expect("the counter reaches its value");
    context.gfence().expect("gfence");
    context.remove_counter(arrived);
}

fn unanswered<F: Fabric>(context: &mut Context<F>) {
    let arrived = new_counter(context);
    let handler = register(context, move |_| Answer::consumed(Completion::Bump(arrived)));
    let count = 4 * context.limits().requests_max.min(500) + 10;
    for _ in 0..count {
        // The target may answer the message, and does not.
        let options = AmOptions { answerable: true, ..AmOptions::default() };
        context.amsend(next(context), handler, &[], &[], options).expect("amsend");
    }
    context.wait_counter(arrived, u64::from(count)).expect("the counter reaches its value");
    context.gfence().expect("gfence");
    context.remove_counter(arrived);
}
