//! More sends are open at once than a NIC has registrations.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use am_core::buffer::Access;
use am_core::handler::{Answer, Completion, Destination};
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core::{AmOptions, Amsend};
use am_core_conform::threads;
use am_double::wire::{WireNetwork, WireOptions};
use am_via::fabric::{CreditPlan, ViaFabric};

const REGIONS: u32 = 64;
const SENDS: usize = 4 * REGIONS as usize;
/// More than one packet.
const BYTES: usize = 3000;

/// All sends are announced before the first is received. Those without a grant arrive in pieces, and memory can be exposed meanwhile.
#[test]
fn sends_beyond_the_registrations_arrive_and_memory_can_still_be_exposed() {
    let network = WireNetwork::new(WireOptions { regions_max: REGIONS, ..WireOptions::new(2) });
    let open = |task| {
        let device =
            network.open(Endpoint::new(TaskId(task), ContextNumber(0))).expect("each NIC is opened once");
        ViaFabric::new(device, CreditPlan { credits: 60, answers: 60 })
    };
    let right = Arc::new(AtomicUsize::new(0));
    threads::run(vec![open(0), open(1)], |context| {
        let counted = Arc::clone(&right);
        let handler = context.register_handler(move |message| {
            let (counted, number) = (Arc::clone(&counted), message.uhdr[0]);
            let memory = vec![0; BYTES].into();
            Answer::new(
                Destination::Owned(memory),
                Completion::Call(Box::new(move |delivered| {
                    let bytes = delivered.buffer.expect("it was lent");
                    let is_right = bytes.iter().all(|&byte| byte == number);
                    counted.fetch_add(usize::from(is_right), Ordering::Relaxed);
                })),
            )
        });
        let handler = handler.expect("there are few handlers");
        let data: Vec<Vec<u8>> = (0..SENDS).map(|number| vec![number.to_le_bytes()[0]; BYTES]).collect();
        context.gfence().expect("both live");
        if context.task() == TaskId(0) {
            let exposed = context.scope(|scope| {
                for (number, data) in data.iter().enumerate() {
                    let options = AmOptions { announce: true, ..AmOptions::default() };
                    let message =
                        Amsend { target: TaskId(1), handler, uhdr: &[number.to_le_bytes()[0]], options };
                    scope.start(message, data.as_slice()).expect("a send has no limit");
                }
            });
            exposed.expect("all sends have ended");
        }
        for _ in 0..REGIONS / 2 {
            let memory = context.alloc(64).expect("there is memory");
            context.expose(memory, Access::READ).expect("sends leave registrations to the program");
        }
        context.gfence().expect("both live");
    });
    assert_eq!(right.load(Ordering::Relaxed), SENDS);
}
