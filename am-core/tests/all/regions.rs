//! A region belongs to the context that exposed it.

use am_core::Context;
use am_core::buffer::Access;
use am_core::error::{Error, Fault};
use am_core::testing::loopback::{Config, network};

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
