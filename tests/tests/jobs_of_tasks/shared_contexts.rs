//! One context for several threads of a process, in polling mode, in interrupt mode, and in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use am_core::buffer::{Access, Exposed, JobBuffer, RemoteAddress};
use am_core::handler::{Answer, Completion, HandlerId};
use am_core::shared::SharedContext;
use am_core::task::TaskId;
use am_core::transfer::{AtomicOp, Width};
use am_core::{AmOptions, Amsend, Context, GetOptions, PutOptions};
use am_tests::harness::job;
use am_via::Task;
use am_via::start::ShmFabric;

struct Shared {
    context: SharedContext<ShmFabric>,
    other: TaskId,
    handler: HandlerId,
    handled: Arc<AtomicU64>,
}

/// The context of a task, with a handler that counts messages.
fn open() -> Shared {
    let task = Task::join().expect("the launcher made a job");
    let mut context = task.context().expect("the job has memory");
    let handled = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&handled);
    let handler = context.register_handler(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Answer::consumed(Completion::None)
    });
    let handler = handler.expect("the first handler");
    context.gfence().expect("all tasks reach the fence");
    Shared { context: SharedContext::new(context), other: TaskId(1 - task.number()), handler, handled }
}

impl Shared {
    fn fence(&self) {
        self.context.with(Context::gfence).expect("gfence");
    }

    fn send(&self) {
        let send = |context: &mut Context<ShmFabric>| {
            context.amsend(self.other, self.handler, &[], &[1; 100], AmOptions::default())
        };
        self.context.with(send).expect("amsend");
    }

    fn handled(&self) -> u64 {
        self.handled.load(Ordering::SeqCst)
    }

    fn expose(&self) -> (Exposed, Vec<RemoteAddress>) {
        let expose = |context: &mut Context<ShmFabric>| {
            let memory = context.alloc(64)?;
            let region = context.expose(memory, Access::READ_WRITE)?;
            let addresses = context.address_init(region.address(0))?;
            Ok((region, addresses))
        };
        self.context.with(expose).expect("both tasks take part")
    }

    /// Polls a word of the other task until it has this value.
    fn until_is(&self, at: RemoteAddress, value: u64) {
        let mut bytes = [0; 8];
        while u64::from_le_bytes(bytes) != value {
            let get = |context: &mut Context<ShmFabric>| context.get(at, &mut bytes, GetOptions::default());
            self.context.with(get).expect("get");
        }
    }
}

/// With interrupts a message is handled while its target computes; without them the message waits for a call.
#[test]
fn a_task_that_computes_is_interrupted_only_in_interrupt_mode() {
    job("a_task_that_computes_is_interrupted_only_in_interrupt_mode").tasks(2).run(|| {
        let shared = open();
        let (region, addresses) = shared.expose();
        let at = addresses[1];
        for round in 1..=5 {
            shared.context.set_interrupts(true).expect("a thread can be started");
            assert!(shared.context.has_interrupts());
            shared.fence();
            if shared.other == TaskId(1) {
                shared.send();
            } else {
                // This loop calls no function of the context.
                while shared.handled() < 2 * round - 1 {
                    std::hint::spin_loop();
                }
            }
            shared.fence();
            shared.context.set_interrupts(false).expect("the thread ends");
            assert!(!shared.context.has_interrupts());
            shared.fence();
            // The two tasks synchronise only through memory, of which the target's context is not aware.
            if shared.other == TaskId(1) {
                shared.until_is(at, round);
                shared.send();
                let told = (round + 100).to_le_bytes();
                shared.context.with(|context| context.put(at, &told, PutOptions::default())).expect("put");
            } else {
                region.write(0, &round.to_le_bytes()).expect("inside");
                while region.load_u64(0).expect("inside") != round + 100 {
                    std::hint::spin_loop();
                }
                assert_eq!(shared.handled(), 2 * round - 1, "the message has arrived, but no thread polls");
                while shared.handled() < 2 * round {
                    shared.context.msgpoll(1).expect("no error is pending");
                }
            }
            shared.fence();
        }
        drop(shared.context.with(|context| context.unexpose(region)).expect("unexpose"));
    });
}

const THREADS: u64 = 3;
const ROUNDS: usize = 40;

#[test]
fn threads_of_two_tasks_share_a_context_each() {
    for memory in ["auto", "staged"] {
        for interrupts in [false, true] {
            job("threads_of_two_tasks_share_a_context_each")
                .tasks(2)
                .env("AM_MEMORY", memory)
                .run(|| share(interrupts));
        }
    }
}

fn share(interrupts: bool) {
    let shared = open();
    let (region, addresses) = shared.expose();
    let Shared { context, other, handler, handled } = shared;
    context.set_interrupts(interrupts).expect("a thread can be started");
    let at = addresses[other.index()];
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let context = &context;
            scope.spawn(move || {
                let done = context.with(|context| context.counter()).expect("counter");
                for round in 0..ROUNDS {
                    let options = AmOptions { completion: Some(done), ..AmOptions::default() };
                    let buffer = JobBuffer::from(vec![1; [8, 5000, 100_000][round % 3]]);
                    let sent = context.with(|context| {
                        context
                            .start(Amsend { target: other, handler, uhdr: &[], options }, buffer)
                            .map_err(|back| back.error)
                    });
                    if thread == 0 && interrupts {
                        context.wait_counter_without_polling(done, 1).expect("it is handled");
                    } else {
                        context.wait_counter(done, 1).expect("the counter reaches its value");
                    }
                    let (_, ended) = context.wait_owned(sent.expect("amsend")).expect("its handle");
                    ended.expect("it was sent");
                    context.rmw(at, Width::Bits64, AtomicOp::FetchAdd(1)).expect("rmw");
                }
            });
        }
        // Waits until the other task's threads need nothing more from this task.
        let all = || Ok((region.load_u64(0)? == THREADS * ROUNDS as u64).then_some(()));
        context.wait_for(|_| all()).expect("all tasks take part");
    });
    context.with(Context::gfence).expect("gfence");
    assert_eq!(handled.load(Ordering::SeqCst), THREADS * ROUNDS as u64);
    context.set_interrupts(false).expect("the thread ends");
    drop(context.with(|context| context.unexpose(region)).expect("unexpose"));
}
