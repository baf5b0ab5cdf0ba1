//! A task of a round: runs the phase until it dies, or until it learns of another task's death.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use am_core::PutOptions;
use am_core::buffer::Access;
use am_via::Task;
use mpi_over_am::op::PredefinedOp;
use mpi_over_am::window::{Assertion, Lock, Window};
use mpi_over_am::{Command, Communicator, Environment, Info, Source, op};

use super::plan::{Phase, Plan, Victim, Way};
use super::{ROUND, SURVIVOR_CODE, VICTIM_CODE};

/// Text with which the marked task reports the beginning of the phase, followed by the task's process id.
pub(super) const BEGUN: &str = "phase begun in process ";
/// Prefix of a survivor's line, followed by the survivor's number and error.
pub(super) const SURVIVOR: &str = "survivor ";
/// How long a task that is to be ended waits for its end: far longer than the judge waits.
const FOR_EVER: Duration = Duration::from_secs(1000);
/// Number of times that each task but the marked one takes the lock of the window.
const LOCKS: u32 = 100;
/// Bytes of a message of the phase with pipes.
const PIPED_BYTES: usize = 16 << 20;
/// Number of times that a task makes progress with such messages before its step.
const LOOKS: u32 = 20;
/// Stack that each recursion uses up.
const STEP_BYTES: usize = 4096;

type Outcome = Result<(), Box<dyn Error>>;

/// Whether this process was started as a task of a round.
#[must_use]
pub fn is_task() -> bool {
    std::env::var_os(ROUND).is_some()
}

/// Runs this process's part of the round.
///
/// # Panics
/// If the plan says so, or if the environment is not that of a round.
#[must_use]
pub fn be_a_task() -> ExitCode {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let me = number("AM_TASK").expect("amrun numbers its tasks");
    let round = std::env::var(ROUND).expect("the caller has checked the variable");
    let (seed, round) = round.split_once(':').expect("SEED:ROUND");
    let plan = Plan::draw(seed.parse().expect("a number"), round.parse().expect("a number"));
    let player = Player { plan, me };
    match if me < plan.tasks { player.play() } else { be_started() } {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One write, so that the line stays whole, whatever kills this task.
            let _ = std::io::stderr().write_all(format!("{SURVIVOR}{me}: {error}\n").as_bytes());
            assert!(!plan.survivors_panic, "{SURVIVOR}{me}: {error}");
            ExitCode::from(SURVIVOR_CODE)
        }
    }
}

struct Player {
    plan: Plan,
    me: u32,
}

impl Player {
    fn play(&self) -> Outcome {
        match self.plan.phase {
            Phase::Init => {
                self.begin();
                self.step(self.plan.steps);
                let mpi = Environment::init()?;
                self.without_end(|| Ok(mpi.world().barrier()?))
            }
            Phase::Registration => self.register(),
            Phase::Connection => {
                let mpi = Environment::init()?;
                self.begin();
                self.without_end(|| all_to_all(&mpi.world()))
            }
            Phase::Spawn => {
                let mpi = Environment::init()?;
                let world = mpi.world();
                world.barrier()?;
                self.begin();
                let command =
                    Command { program: std::env::current_exe()?.into(), tasks: 2, ..Command::default() };
                self.without_end(|| {
                    let started = world.spawn(std::slice::from_ref(&command), 0)?;
                    started.merge(false)?.barrier()?;
                    Ok(started.close()?)
                })
            }
            Phase::WindowLock => {
                let mpi = Environment::init()?;
                let world = mpi.world();
                let window = world.allocate_window(64, 8, &Info::new())?;
                world.barrier()?;
                self.lock(&world, &window)
            }
            Phase::Finalize => {
                let mpi = Environment::init()?;
                mpi.world().barrier()?;
                self.begin();
                self.step(self.plan.steps);
                mpi.finalize()?;
                // The signal may arrive after the task has left the job.
                if self.is_victim() || !matches!(self.plan.victim, Victim::Task(..)) {
                    std::thread::sleep(FOR_EVER);
                }
                Ok(())
            }
            Phase::Eager | Phase::Rendezvous | Phase::Pipe | Phase::Collective => {
                let mpi = Environment::init()?;
                let world = mpi.world();
                world.barrier()?;
                self.begin();
                match self.plan.phase {
                    Phase::Eager => self.ring(&world, 1 + self.plan.steps as usize * 30),
                    Phase::Rendezvous => self.ring(&world, 1 << 20),
                    Phase::Pipe => self.pipe(&world),
                    _ => self.collectives(&world),
                }
            }
        }
    }

    fn is_victim(&self) -> bool {
        matches!(self.plan.victim, Victim::Task(task, _) if task == self.me)
    }

    /// Reports the beginning of the phase, and starts the second thread that ends this task, if the plan has one.
    fn begin(&self) {
        if self.plan.marked_task() == self.me {
            println!("\n{BEGUN}{}", std::process::id());
        }
        let Victim::Task(task, way @ (Way::Abort | Way::StackOverflow)) = self.plan.victim else { return };
        if task == self.me {
            let delay = self.plan.delay;
            std::thread::spawn(move || {
                std::thread::sleep(delay);
                if way == Way::StackOverflow {
                    go_down(0);
                }
                std::process::abort();
            });
        }
    }

    /// Ends this task if the plan says so for this step.
    fn step(&self, step: u32) {
        if step != self.plan.steps || !self.is_victim() {
            return;
        }
        let Victim::Task(_, way) = self.plan.victim else { return };
        match way {
            Way::Panic => panic!("planned panic"),
            Way::Exit => std::process::exit(VICTIM_CODE.into()),
            Way::ExitZero => std::process::exit(0),
            _ => {}
        }
    }

    fn without_end(&self, mut work: impl FnMut() -> Outcome) -> Outcome {
        for step in 0.. {
            self.step(step);
            work()?;
        }
        Ok(())
    }

    fn ring(&self, world: &Communicator, len: usize) -> Outcome {
        let (next, before) = ((self.me + 1) % world.size(), (self.me + world.size() - 1) % world.size());
        let (data, mut buffer) = (vec![7_u8; len], vec![0_u8; len]);
        self.without_end(|| {
            world.sendrecv(&data, next, 0, &mut buffer, before, 0)?;
            Ok(())
        })
    }

    fn pipe(&self, world: &Communicator) -> Outcome {
        let (next, before) = ((self.me + 1) % world.size(), (self.me + world.size() - 1) % world.size());
        let (data, mut buffer) = (vec![7_u8; PIPED_BYTES], vec![0_u8; PIPED_BYTES]);
        for step in 0.. {
            world.scope(|scope| {
                let receive = scope.irecv(&mut buffer, before, 0)?;
                let send = scope.isend(&data, next, 0)?;
                // Both messages are partly copied here.
                for _ in 0..LOOKS {
                    world.iprobe(Source::Any, 1)?;
                }
                self.step(step);
                scope.wait_all([receive, send]).map(drop)
            })?;
        }
        Ok(())
    }

    fn collectives(&self, world: &Communicator) -> Outcome {
        let count = 1 + self.plan.steps as usize * 100;
        let (mut data, send) = (vec![1_u64; count], vec![1_u8; count * world.size() as usize]);
        let mut receive = send.clone();
        self.without_end(|| {
            world.barrier()?;
            world.broadcast(&mut data, 0)?;
            world.allreduce_in_place(&mut data, op::Max)?;
            world.alltoall(&send, &mut receive)?;
            Ok(())
        })
    }

    /// All tasks take the lock in turn. The marked task keeps it after as many turns as its plan has steps. The lock of a dead task counts
    /// as free, so the other tasks go on to a barrier that the dead task cannot reach.
    fn lock(&self, world: &Communicator, window: &Window) -> Outcome {
        let is_marked = self.plan.marked_task() == self.me;
        for _ in 0..if is_marked { self.plan.steps } else { LOCKS } {
            window.lock(Lock::Exclusive, 0, Assertion::NONE)?;
            window.fetch_and_op(1_u64, 0, 0, PredefinedOp::Sum)?;
            window.unlock(0)?;
        }
        if !is_marked {
            return Ok(world.barrier()?);
        }
        window.lock(Lock::Exclusive, 0, Assertion::NONE)?;
        self.begin();
        self.step(self.plan.steps);
        std::thread::sleep(FOR_EVER);
        Ok(())
    }

    fn register(&self) -> Outcome {
        let task = Task::join()?;
        let mut context = task.context()?;
        context.gfence()?;
        self.begin();
        let data = vec![5_u8; 200_000];
        for step in 0.. {
            self.step(step);
            let region = context.expose(vec![0; data.len()].into(), Access::READ_WRITE)?;
            let addresses = context.address_init(region.address(0))?;
            let peer = (self.me as usize + 1) % addresses.len();
            context.put(addresses[peer], &data, PutOptions::default())?;
            context.gfence()?;
            context.unexpose(region)?;
        }
        Ok(())
    }
}

/// The part of a task that the tasks of the round have started.
fn be_started() -> Outcome {
    let mut mpi = Environment::init()?;
    let parent = mpi.parent().ok_or("the tasks of the round have started this one")?;
    parent.merge(true)?.barrier()?;
    mpi.disconnect_parent();
    parent.close()?;
    Ok(mpi.finalize()?)
}

/// Sends a short message from each task to each other task.
fn all_to_all(world: &Communicator) -> Outcome {
    let own = [world.rank()];
    let mut got = vec![[0_u32]; world.size() as usize];
    world.scope(|scope| {
        let mut requests = Vec::new();
        for (rank, place) in (0..).zip(&mut got) {
            requests.push(scope.irecv(place, rank, 1)?);
        }
        for distance in 1..=world.size() {
            requests.push(scope.isend(&own, (world.rank() + distance) % world.size(), 1)?);
        }
        scope.wait_all(requests).map(drop)
    })?;
    Ok(())
}

/// Uses up the stack of its thread.
#[expect(unconditional_recursion, reason = "the recursion is meant to overflow the stack")]
fn go_down(depth: u64) -> u64 {
    let here = std::hint::black_box([depth; STEP_BYTES / size_of::<u64>()]);
    go_down(here[0] + 1) + here[1]
}
