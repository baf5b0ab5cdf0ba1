//! Polling against interrupts, as figures 16 and 18 of the MPI-LAPI paper have them: a ping-pong whose target polls, sleeps on its
//! doorbell, or computes and is interrupted; and what that leaves of the computation.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use am_core::AmOptions;
use am_core::counter::Counter;
use am_core::handler::{Answer, Completion, HandlerId};
use am_core::shared::SharedContext;
use am_core::task::TaskId;
use am_via::Task;
use am_via::start::ShmFabric;

const LENGTHS: [usize; 6] = [8, 64, 1024, 4096, 65_536, 1 << 20];

/// What the target does while messages come.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    Polls,
    Interrupted,
    ComputesInterrupted,
}

struct Setup {
    shared: SharedContext<ShmFabric>,
    task: TaskId,
    take: HandlerId,
    stop: HandlerId,
    answered: Counter,
    is_over: Arc<AtomicBool>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut context = Task::join()?.context()?;
    if context.num_tasks() != 2 {
        return Err("two tasks: cargo amrun -n 2 --bind core target/release/progress_modes".into());
    }
    let answered = context.counter()?;
    let is_over = Arc::new(AtomicBool::new(false));
    let take = context.register_handler(|message| {
        let place = am_core::buffer::JobBuffer::zeroed(usize::try_from(message.len).unwrap_or(0));
        Answer::owned(place, Completion::None)
    })?;
    let stop = context.register_handler({
        let is_over = Arc::clone(&is_over);
        move |_| {
            is_over.store(true, Ordering::Relaxed);
            Answer::discard()
        }
    })?;
    context.gfence()?;
    let task = context.task();
    let setup = Setup { shared: SharedContext::new(context), task, take, stop, answered, is_over };
    let alone = computed_in(Duration::from_millis(200), || false);
    if task.0 == 0 {
        println!(
            "{:>10}  {:>14} {:>14} {:>14} {:>12}",
            "bytes", "polls us", "interrupt us", "computing us", "compute left"
        );
    }
    for len in LENGTHS {
        let mut row = Vec::new();
        let mut left = 0.0;
        for target in [Target::Polls, Target::Interrupted, Target::ComputesInterrupted] {
            let (time, computed) = measure(&setup, target, len)?;
            row.push(time);
            left = computed / alone;
        }
        let left = f64::from_le_bytes(tell(&setup, left.to_le_bytes())?);
        if task.0 == 0 {
            println!(
                "{len:>10}  {:>14.2} {:>14.2} {:>14.2} {:>11.0} %",
                row[0],
                row[1],
                row[2],
                100.0 * left
            );
        }
    }
    Ok(())
}

/// What task 1 says.
fn tell(setup: &Setup, bytes: [u8; 8]) -> am_core::error::Result<[u8; 8]> {
    let all = setup.shared.with(|context| context.exchange(&bytes))?;
    Ok(all[1].as_slice().try_into().unwrap_or_default())
}

/// Microseconds a message and its acknowledgement, at task 0; steps of computation a second, at task 1.
fn measure(setup: &Setup, target: Target, len: usize) -> am_core::error::Result<(f64, f64)> {
    let Setup { shared, task, take, stop, answered, is_over } = setup;
    is_over.store(false, Ordering::Relaxed);
    shared.with(|context| context.gfence())?;
    let mut result = (0.0, 0.0);
    if task.0 == 0 {
        let bytes = vec![1; len];
        let options = AmOptions { completion: Some(*answered), ..AmOptions::default() };
        let (mut rounds, begun) = (0, Instant::now());
        while begun.elapsed() < Duration::from_millis(200) {
            shared.with(|context| context.amsend(TaskId(1), *take, &[], &bytes, options))?;
            shared.wait_counter(*answered, 1)?;
            rounds += 1;
        }
        result.0 = begun.elapsed().as_secs_f64() * 1e6 / f64::from(rounds);
        shared.with(|context| context.amsend(TaskId(1), *stop, &[], &[], AmOptions::default()))?;
    } else {
        let over = || is_over.load(Ordering::Relaxed);
        shared.set_interrupts(target != Target::Polls)?;
        match target {
            Target::Polls => shared.wait_for(|_| Ok(over().then_some(())))?,
            Target::Interrupted => {
                while !over() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            Target::ComputesInterrupted => result.1 = computed_in(Duration::from_secs(60), over),
        }
        shared.set_interrupts(false)?;
    }
    shared.with(|context| context.gfence())?;
    Ok(result)
}

/// Steps of a computation a second, for so long or until it is over.
fn computed_in(limit: Duration, over: impl Fn() -> bool) -> f64 {
    let (begun, mut steps, mut value) = (Instant::now(), 0u64, 1u64);
    while begun.elapsed() < limit && !over() {
        for _ in 0..1000 {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        steps += 1000;
    }
    steps as f64 / begun.elapsed().as_secs_f64()
}
