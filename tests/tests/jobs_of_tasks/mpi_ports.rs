//! Ports between tasks that share a job and no communicator but the world, with each method of memory access, and over a network.

#![allow(clippy::unwrap_used, reason = "a task of a test says by its panic what was wrong")]

use am_tests::harness::{job, jobs};
use mpi_over_am::{Environment, ErrorClass};

/// Task 0 accepts calls of its port, and the others call it one after the other. A closed port is refused.
pub(crate) fn connects(environment: &Environment) {
    let (world, alone) = (environment.world(), environment.alone());
    let mut text = [0_u8; 64];
    let port = (world.rank() == 0).then(|| environment.open_port().unwrap());
    if let Some(port) = &port {
        text[..port.len()].copy_from_slice(port.as_bytes());
    }
    world.broadcast(&mut text, 0).unwrap();
    let text = std::str::from_utf8(&text).unwrap().trim_end_matches('\0');
    for caller in 1..world.size() {
        let inter = match world.rank() {
            0 => alone.accept(text, 0).unwrap(),
            rank if rank == caller => alone.connect(text, 0).unwrap(),
            _ => continue,
        };
        assert_eq!((inter.size(), inter.remote_size().unwrap()), (1, 1));
        let mut got = [0_u32];
        inter.sendrecv(&[world.rank()], 0, 1, &mut got, 0, 1).unwrap();
        // The calls arrive in any order.
        assert_eq!(got[0] == 0, world.rank() != 0);
        assert_eq!(inter.merge(world.rank() > 0).unwrap().rank(), u32::from(world.rank() > 0));
    }
    world.barrier().unwrap();
    if let Some(port) = port {
        environment.close_port(&port).unwrap();
    }
    world.barrier().unwrap();
    let refused = match world.rank() {
        0 => alone.accept(text, 0).unwrap_err(),
        _ => alone.connect(text, 0).unwrap_err(),
    };
    assert!(refused.class() == ErrorClass::Port && refused.to_string().contains(text), "{refused}");
    // The class of the root's error reaches all tasks.
    let wrong = world.connect("no port", world.size() - 1).unwrap_err();
    assert!(wrong.class() == ErrorClass::Port && wrong.to_string().contains("no port"), "{wrong}");
    assert_eq!(world.accept(text, world.size()).unwrap_err().class(), ErrorClass::Root);
}

fn as_a_task() {
    let environment = Environment::init().expect("the launcher made a job");
    connects(&environment);
    environment.finalize().expect("all tasks finalize");
}

#[test]
fn a_port_connects_two_tasks() {
    for job in jobs("a_port_connects_two_tasks", &[1, 2, 3]) {
        job.run(as_a_task);
    }
}

#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn a_port_connects_two_tasks_over_a_network() {
    job("a_port_connects_two_tasks_over_a_network").tasks(2).env("AM_DEVICE", "ofi").run(as_a_task);
}
