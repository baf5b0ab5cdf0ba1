//! The cost of the engine: an 8-byte message from a task to itself, through all layers except another core's cache.
//!
//! Run: `cargo bench -p am-criterion --bench dispatch`.
//!
//! A round is one send and the wait for the counter that it bumps: by `amsend`, whose handler asks to bump the counter, or by `put` with a
//! target counter. Over `shm` the message goes through the fabric, a VI and a ring of a job of one task: the whole stack of a real message,
//! without the transfer between cores. `in_one_process` the message goes through the simulated network of the tests, whose lock and queues
//! cost more than the engine does: compare this number only with its own earlier runs.

use std::hint::black_box;

use am_core::buffer::{Access, RemoteAddress};
use am_core::counter::Counter;
use am_core::error::Result;
use am_core::fabric::Fabric;
use am_core::handler::{Answer, Completion, HandlerId};
use am_core::{AmOptions, Context, PutOptions};
use am_double::{Config, network};
use am_via::Task;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const WORKS: &str = "nothing can go wrong in a job of one";

/// The state for messages of a task to itself.
struct Rounds<F: Fabric> {
    context: Context<F>,
    handler: HandlerId,
    memory: RemoteAddress,
    arrived: Counter,
}

impl<F: Fabric> Rounds<F> {
    fn new(mut context: Context<F>) -> Result<Self> {
        let arrived = context.counter()?;
        let handler = context.register_handler(move |_| Answer::consumed(Completion::Bump(arrived)))?;
        let memory = context.alloc(8)?;
        // The memory is never unexposed: it is needed until the end.
        let memory = context.expose(memory, Access::WRITE)?.address(0);
        Ok(Self { context, handler, memory, arrived })
    }

    fn amsend(&mut self, bytes: &[u8]) -> Result<()> {
        let options = AmOptions::default();
        self.context.amsend(self.context.task(), self.handler, &[], bytes, options)?;
        self.context.wait_counter(self.arrived, 1)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let options = PutOptions { target: Some(self.arrived.name()), ..PutOptions::default() };
        self.context.put(self.memory, bytes, options)?;
        self.context.wait_counter(self.arrived, 1)
    }
}

fn measure<F: Fabric>(criterion: &mut Criterion, name: &str, fabric: F) {
    let mut rounds = Rounds::new(Context::new(fabric)).expect(WORKS);
    let mut group = criterion.benchmark_group(format!("dispatch/{name}"));
    group.throughput(Throughput::Elements(1));
    group.bench_function("amsend", |bencher| {
        bencher.iter(|| rounds.amsend(black_box(&[7; 8])).expect(WORKS));
    });
    group.bench_function("put", |bencher| {
        bencher.iter(|| rounds.put(black_box(&[7; 8])).expect(WORKS));
    });
    group.finish();
}

fn shm(criterion: &mut Criterion) {
    let task = Task::join().expect("without a launcher this is a job of one task; start it without amrun");
    measure(criterion, "shm", task.fabric(0).expect(WORKS));
}

fn in_one_process(criterion: &mut Criterion) {
    let (_network, mut tasks) = network(Config::new(1));
    measure(criterion, "in_one_process", tasks.remove(0));
}

criterion_group!(dispatch, shm, in_one_process);
criterion_main!(dispatch);
