//! A region belongs to the context that exposed it, which gets its memory back when no peer uses it.

use std::time::Duration;

use am_core::buffer::{Access, JobBuffer};
use am_core::error::{Error, Fault};
use am_core::task::TaskId;
use am_core::{Context, Put, PutOptions};
use am_core_conform::watchdog::Watchdog;
use am_double::{Config, Reach, network};

/// Both contexts are context 0 of task 0, in different networks, so that endpoint and grant are equal.
#[test]
fn a_region_is_taken_back_by_the_context_that_exposed_it_and_by_no_other() {
    let alone = || Context::new(network(Config::new(1)).1.remove(0));
    let (mut one, mut other) = (alone(), alone());
    let expose = |context: &mut Context<_>| {
        let memory = context.alloc(64).expect("memory");
        context.expose(memory, Access::READ_WRITE).expect("a region")
    };
    let (of_one, of_other) = (expose(&mut one), expose(&mut other));
    assert_eq!(of_one.address(0), of_other.address(0), "both regions have the same address");
    let refused = other.unexpose(of_one).expect_err("it is a region of the other context");
    assert_eq!(refused.fault(), Fault::Caller, "{refused}");
    assert!(matches!(refused, Error::ForeignRegion { .. }), "{refused}");
    assert_eq!(other.unexpose(of_other).expect("this context has exposed the region").len(), 64);
}

/// No event tells that a peer has ended a copy, so the owner of the memory looks again after a short sleep.
#[test]
fn a_context_that_waits_for_a_copying_peer_sleeps_only_briefly() {
    let _watchdog = Watchdog::new("a copying peer".to_owned(), Duration::from_secs(60));
    let (network, endpoints) = network(Config { reach: Reach::Posted, ..Config::new(2) });
    let [mut owner, mut peer] =
        <[Context<_>; 2]>::try_from(endpoints.into_iter().map(Context::new).collect::<Vec<_>>())
            .expect("two tasks");
    let memory = owner.alloc(64).expect("memory");
    let region = owner.expose(memory, Access::WRITE).expect("a region");
    let put = Put { to: region.address(0), options: PutOptions::default() };
    // The copy is under way until the peer makes progress.
    let put = peer.start(put, JobBuffer::from(vec![7; 64])).expect("the owner lives");
    let memory = std::thread::scope(|scope| {
        let unexposed = scope.spawn(move || owner.unexpose(region).expect("it exposed the region"));
        while network.sleeps(TaskId(0)).0 < 3 {
            std::thread::yield_now();
        }
        let (_, done) = peer.wait_owned(put).expect("the owner lives");
        done.expect("it was begun before the exposure ended");
        unexposed.join().expect("it does not panic")
    });
    assert!(memory.iter().all(|&byte| byte == 7));
    let (_, longest) = network.sleeps(TaskId(0));
    assert!(longest < Duration::from_millis(500), "a sleep of up to {longest:?}");
}
