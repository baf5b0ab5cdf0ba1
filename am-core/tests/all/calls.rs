//! Typed active messages: results of any length, panics, wrong types, deaths.

use std::panic::{self, AssertUnwindSafe};

use am_core::call::Local;
use am_core::error::{Error, Refusal};
use am_core::pgas::{Session, join_all};
use am_core::task::TaskId;
use am_core_conform::threads;
use am_double::{Config, network};

#[test]
fn arguments_and_results_of_any_length_arrive() {
    let (_, endpoints) = network(Config::new(2));
    threads::run(endpoints, |context| {
        let double =
            context.function(|words: Vec<u64>| words.iter().map(|word| word * 2).collect::<Vec<_>>());
        let double = double.expect("a function");
        context.gfence().expect("all tasks reach the fence");
        let other = TaskId(1 - context.task().0);
        // Results that fit into a reply, results that need a message of their own, and results that need more than one packet.
        for len in [0, 1, 2, 3, 5, 100, 1_000, 100_000] {
            let words: Vec<u64> = (0..len).map(|at| at * 300).collect();
            let doubled = context.call(other, double, words.clone()).expect("the other lives");
            assert_eq!(doubled, words.iter().map(|word| word * 2).collect::<Vec<_>>(), "{len} words");
        }
        context.gfence().expect("both have called");
    });
}

#[test]
fn many_calls_are_under_way_at_once_to_every_task_and_to_oneself() {
    let (_, endpoints) = network(Config::new(3));
    threads::run(endpoints, |context| {
        let seen = Local::new(Vec::new());
        let note = context.function_on(&seen, |seen, number: u32| seen.push(number)).expect("a function");
        let square = context.function(|x: u32| u64::from(x) * u64::from(x)).expect("a function");
        context.gfence().expect("all tasks reach the fence");
        let me = context.task().0;
        for task in context.tasks() {
            context.cast(task, note, me).expect("all tasks take part");
        }
        let session = Session::new(context);
        let squares = session.block_on(join_all((0..300).map(|x| session.call(TaskId(x % 3), square, x))));
        for (x, square) in (0..).zip(squares.expect("all tasks take part")) {
            assert_eq!(square.expect("a number"), x * x);
        }
        // The result of a dropped call is dropped.
        drop(session.call(TaskId(0), square, 7));
        drop(session);
        context.gfence().expect("all tasks reach the fence");
        let mut all = seen.with(|seen| seen.clone());
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

#[test]
fn a_function_that_panics_is_an_error_of_its_caller() {
    let (_, endpoints) = network(Config::new(2));
    threads::run(endpoints, |context| {
        let picky = context.function(|x: u32| assert!(x != 3, "not three, please")).expect("a function");
        context.gfence().expect("all tasks reach the fence");
        if context.task().0 == 0 {
            let refused = context.call(TaskId(1), picky, 3).expect_err("it panics");
            assert!(matches!(refused, Error::Refused { why: Refusal::HandlerPanicked, .. }), "{refused}");
            context.call(TaskId(1), picky, 4).expect("the next one is served");
        }
        context.gfence().expect("the target goes on");
    });
}

#[test]
fn arguments_of_another_type_are_an_error_of_the_caller() {
    let (_, endpoints) = network(Config::new(2));
    threads::run(endpoints, |context| {
        // An error of the program: the functions have the same number but different types.
        if context.task().0 == 0 {
            let length = context.function(|text: String| text.len()).expect("a function");
            context.gfence().expect("all tasks reach the fence");
            let refused = context.call(TaskId(1), length, "x".to_owned()).expect_err("the types differ");
            assert!(matches!(refused, Error::Refused { why: Refusal::Malformed, .. }), "{refused}");
        } else {
            context.function(|(one, two): (String, String)| one.len() + two.len()).expect("a function");
            context.gfence().expect("all tasks reach the fence");
        }
        context.gfence().expect("both go on");
    });
}

#[test]
fn a_communicating_call_inside_a_function_or_beside_its_state_is_refused() {
    let (_, mut endpoints) = network(Config::new(1));
    let mut context = am_core::Context::new(endpoints.remove(0));
    let state = Local::new(1);
    let inside = state.with(|_| context.probe());
    assert!(matches!(inside, Err(Error::InHandler { call: "probe" })), "{inside:?}");
    let again = panic::catch_unwind(AssertUnwindSafe(|| state.with(|_| state.with(|value| *value))));
    again.expect_err("the value is in use");
    assert_eq!(state.with(|value| *value), 1, "it can be used afterwards");
}

#[test]
fn a_function_of_another_context_is_refused() {
    let (_, endpoints) = network(Config::new(2));
    let mut nodes: Vec<_> = endpoints.into_iter().map(am_core::Context::new).collect();
    let none = nodes[1].function(|()| 1).expect("a function");
    let refused = nodes[0].begin_call(TaskId(1), none, ()).expect_err("no function is registered");
    assert!(matches!(refused, Error::UnregisteredHandler { registered: 0, .. }), "{refused}");
    // Task 0 now has a function, but not this one.
    nodes[0].function(|()| 1).expect("a function");
    let other = nodes[1].function(|()| 2).expect("a function");
    let refused = nodes[0].begin_call(TaskId(1), other, ()).expect_err("task 0 has not registered it");
    assert!(matches!(refused, Error::UnregisteredHandler { registered: 2, .. }), "{refused}");
}

#[test]
fn a_call_ends_with_the_death_of_its_target() {
    let (net, endpoints) = network(Config::new(2));
    let mut nodes: Vec<_> = endpoints.into_iter().map(am_core::Context::new).collect();
    let answer =
        nodes.iter_mut().map(|node| node.function(|()| 42).expect("a function")).last().expect("a node");
    nodes[0].set_go_on(true);
    let (waiting, dropped) =
        (nodes[0].begin_call(TaskId(1), answer, ()), nodes[0].begin_call(TaskId(1), answer, ()));
    let mut call = waiting.expect("the target is alive");
    drop(dropped.expect("the target is alive"));
    net.kill(TaskId(1));
    let ended = loop {
        match nodes[0].call_result(call) {
            Ok(Err(again)) => call = again,
            Ok(Ok(result)) => panic!("{result} came from a task that did not poll"),
            Err(error) => break error,
        }
        nodes[0].probe().expect("the program goes on");
    };
    assert!(matches!(ended, Error::PeerFailed { task: TaskId(1), .. }), "{ended}");
    let refused = nodes[0].call(TaskId(1), answer, ()).expect_err("it is dead");
    assert!(matches!(refused, Error::PeerFailed { task: TaskId(1), .. }), "{refused}");
}

#[test]
fn a_call_ends_with_the_purge_of_its_target_also_after_it_was_resumed() {
    let (_, endpoints) = network(Config::new(2));
    let mut nodes: Vec<_> = endpoints.into_iter().map(am_core::Context::new).collect();
    let answer =
        nodes.iter_mut().map(|node| node.function(|()| 42).expect("a function")).last().expect("a node");
    let call = nodes[0].begin_call(TaskId(1), answer, ()).expect("the target is alive");
    nodes[0].purge_totask(TaskId(1)).expect("the target is alive");
    nodes[0].resume_totask(TaskId(1)).expect("it was purged");
    let ended = nodes[0].call_result(call).expect_err("the message of the call was purged");
    assert!(matches!(ended, Error::Purged { task: TaskId(1), by: TaskId(0) }), "{ended}");
}
