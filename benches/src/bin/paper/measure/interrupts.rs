//! Interrupt mode: a progress thread receives messages while the program sleeps or computes.

use std::hint::black_box;
use std::time::{Duration, Instant};

use am_core::AmOptions;
use am_core::buffer::{Access, Exposed, ExposedRange, JobBuffer};
use am_core::counter::Counter;
use am_core::handler::{Answer, Completion, HandlerId};
use am_core::shared::SharedContext;
use am_core::task::TaskId;
use am_examples::Failure;
use am_via::{ShmFabric, Task};
use mpi_over_am::{Communicator, Environment, Settings, Threads};

use super::{Control, Way};

/// How long the computation alone is timed before each batch.
const ALONE: Duration = Duration::from_millis(5);
/// Limit for a computation that is never told to stop.
const PATIENCE: Duration = Duration::from_secs(60);
const DATA: i32 = 1;
/// Memory of receives posted at a time.
const POSTED_BYTES_MAX: usize = 32 << 20;

/// The target's activity while messages arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Polls,
    Sleeps,
    Computes,
}

/// A message by amsend, and its acknowledgement by the completion counter.
pub(super) struct Interrupts {
    shared: SharedContext<ShmFabric>,
    target: Target,
    tells_computation: bool,
    take: HandlerId,
    acknowledged: Counter,
    from: JobBuffer,
    /// The destination of messages.
    _place: Exposed,
}

impl Interrupts {
    pub(super) fn new(
        task: &Task,
        target: Target,
        tells_computation: bool,
        bytes_max: usize,
    ) -> Result<Self, Failure> {
        let mut context = task.context()?;
        let place = context.alloc(bytes_max)?;
        let place = context.expose(place, Access::READ_WRITE)?;
        let whole = place.range(0, bytes_max as u64)?;
        let take = context.register_handler(move |message| {
            Answer::exposed(ExposedRange { len: message.len, ..whole }, Completion::None)
        })?;
        let acknowledged = context.counter()?;
        let from = context.alloc(bytes_max)?;
        context.gfence()?;
        let shared = SharedContext::new(context);
        Ok(Self { shared, target, tells_computation, take, acknowledged, from, _place: place })
    }

    fn send(&self, bytes: usize, times: u32) -> Result<f64, Failure> {
        let options = AmOptions { completion: Some(self.acknowledged), ..AmOptions::default() };
        let start = Instant::now();
        for _ in 0..times {
            self.shared
                .with(|context| context.amsend(TaskId(1), self.take, &[], &self.from[..bytes], options))?;
            self.shared.wait_counter(self.acknowledged, 1)?;
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(times))
    }

    /// Lets messages arrive until the peer raises the flag. Returns the speed of the computation in per cent of `alone`; 100 if there is no
    /// computation.
    fn serve(&self, control: &Control, alone: f64) -> Result<f64, Failure> {
        let mut left = 100.0;
        self.shared.set_interrupts(self.target != Target::Polls)?;
        match self.target {
            Target::Polls => self.shared.wait_for(|_| Ok(control.is_raised().then_some(())))?,
            Target::Sleeps => {
                while !control.is_raised() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Target::Computes => {
                left *= computed_until(|start| control.is_raised() || start.elapsed() > PATIENCE) / alone;
            }
        }
        self.shared.set_interrupts(false)?;
        Ok(left)
    }
}

impl Way for Interrupts {
    fn batch(&mut self, control: &mut Control, bytes: usize, times: u32) -> Result<f64, Failure> {
        let tells = self.tells_computation && control.task() == 1;
        let alone = if tells { computed_until(|start| start.elapsed() > ALONE) } else { 0.0 };
        control.meet()?;
        if control.task() == 0 {
            let time = self.send(bytes, times)?;
            control.raise(1)?;
            return Ok(time);
        }
        let left = self.serve(control, alone)?;
        control.lower();
        Ok(left)
    }

    fn tells_times(&self) -> bool {
        !self.tells_computation
    }

    fn teller(&self) -> usize {
        usize::from(self.tells_computation)
    }
}

/// MPI_Ssend to a task that has posted its receives and computes.
pub(super) struct SsendComputing {
    environment: Environment<ShmFabric, Threads>,
    world: Communicator<ShmFabric, Threads>,
    from: Vec<u8>,
}

impl SsendComputing {
    pub(super) fn new(task: &Task, bytes_max: usize) -> Result<Self, Failure> {
        let settings = Settings::try_from(task.job().variables())?;
        let environment = Environment::<ShmFabric, Threads>::on_fabric(task.fabric(0)?, &settings)?;
        environment.set_progress_thread(task.number() == 1)?;
        Ok(Self { world: environment.world(), environment, from: vec![0; bytes_max] })
    }
}

impl Way for SsendComputing {
    fn batch(&mut self, control: &mut Control, bytes: usize, times: u32) -> Result<f64, Failure> {
        if control.task() == 0 {
            control.meet()?;
            let start = Instant::now();
            for _ in 0..times {
                self.world.ssend(&self.from[..bytes], 1, DATA)?;
            }
            let time = start.elapsed().as_nanos() as f64 / f64::from(times);
            control.raise(1)?;
            return Ok(time);
        }
        let mut receives = Vec::new();
        for _ in 0..times {
            receives.push(self.world.irecv_owned(vec![0u8; bytes], 0, DATA)?);
        }
        control.meet()?;
        computed_until(|start| control.is_raised() || start.elapsed() > PATIENCE);
        control.lower();
        for receive in receives {
            receive.wait().map_err(mpi_over_am::Error::from)?;
        }
        Ok(0.0)
    }

    fn times_max(&self, bytes: usize) -> u32 {
        u32::try_from((POSTED_BYTES_MAX / bytes.max(1)).min(1000)).unwrap_or(1000)
    }

    fn end(self: Box<Self>) -> Result<(), Failure> {
        let Self { environment, world, .. } = *self;
        environment.set_progress_thread(false)?;
        drop(world);
        Ok(environment.finalize()?)
    }
}

/// Computes until `is_over`, and returns the steps per second.
fn computed_until(is_over: impl Fn(Instant) -> bool) -> f64 {
    let (start, mut steps, mut value) = (Instant::now(), 0u64, 1u64);
    while !is_over(start) {
        for _ in 0..1000 {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        steps += 1000;
    }
    steps as f64 / start.elapsed().as_secs_f64()
}
