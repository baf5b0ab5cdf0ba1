//! Sends a million mixed messages, checks each of them, and checks that the memory of the tasks does not grow.
//!
//! What it teaches: all methods of sending and receiving at once; and that a job which runs for a long time needs no more memory than a
//! short one, because the memory of early messages, requests and buffers is reused.
//!
//! ```text
//! cargo amrun -n 8 --example soak
//! cargo amrun -n 8 --example soak -- --messages 10000000 --seed 2
//! ```
//!
//! You should see how many messages each method has sent and received, the memory of the tasks after a tenth of the messages and at the
//! end, and `verified`: every word was right, and no task has grown by more than 16 MiB in between.

use std::process::ExitCode;
use std::time::Instant;

use am_examples::mixture::{Mixture, Planned, Received, Sent, WORDS_MAX};
use am_examples::{Failure, arguments, random};
use am_via::Task;
use clap::Parser;
use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::{Communicator, Environment, Settings, Source, Tag, View, ViewMut, op};

/// Sends a million mixed messages, checks each of them, and checks that the memory of the tasks does not grow.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// Messages of all tasks together; rounded up to whole rounds.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,
    /// Seed of the mixture.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const PROGRAM: &str = "soak";
/// Messages of a task between two barriers.
const ROUND: u32 = 64;
/// Number of bytes by which the memory of a task may grow after the first tenth of the messages.
const GROWTH_BYTES_MAX: u64 = 16 << 20;
/// Memory for messages in buffered mode: more than all messages of a round.
const BUFFER_BYTES: usize = 1 << 20;
/// A scattered message consists of every third word of its memory.
const SPREAD: usize = 3;
const EXTENT_BYTES: i64 = 24;

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    let environment =
        Environment::with_fabric(task.fabric(0)?, &Settings::try_from(task.job().variables())?)?;
    let world = environment.world();
    environment.attach_buffer(vec![0; BUFFER_BYTES])?;
    let mixture = Mixture { seed: arguments.seed, tasks: world.size(), of_a_round: ROUND };
    let rounds = arguments.messages.div_ceil(u64::from(world.size() * ROUND));
    let mut soak = Soak::new(&world, mixture)?;
    let start = Instant::now();
    let mut warm = Memory::of_this_task()?;
    for round in 0..rounds {
        soak.round(round)?;
        environment.flush_buffer()?;
        if round == rounds / 10 {
            warm = Memory::of_this_task()?;
        }
    }
    world.barrier()?;
    let seconds = start.elapsed().as_secs_f64();
    let verdict = report(&soak, warm, Memory::of_this_task()?, seconds)?;
    drop(soak);
    environment.detach_buffer()?;
    drop(world);
    environment.finalize()?;
    verdict.map_or(Ok(()), Err)
}

/// Prints the results, and returns the failure if there is one. Collective.
fn report(soak: &Soak<'_>, warm: Memory, end: Memory, seconds: f64) -> Result<Option<Failure>, Failure> {
    let Soak { world, mixture, counts, .. } = soak;
    let all = counts.of_all(world)?;
    let growth = end.now.saturating_sub(warm.now);
    let mut most = [warm.now, end.now, end.peak, growth];
    let mut sums = most;
    world.allreduce_in_place(&mut most, op::Max)?;
    world.allreduce_in_place(&mut sums, op::Sum)?;
    let grown = most[3];
    if world.rank() == 0 {
        println!(
            "{} messages, {} MB, among {} tasks in {seconds:.1} s, seed {}",
            all.messages,
            all.bytes / 1_000_000,
            mixture.tasks,
            mixture.seed
        );
        let ways = [Sent::Standard, Sent::Synchronous, Sent::Ready, Sent::Buffered, Sent::Scattered];
        ways.iter()
            .for_each(|way| println!("  sent {:<28} {:>9}", format!("{way:?}"), all.sent[*way as usize]));
        let ways =
            [Received::Posted, Received::PostedForAnySource, Received::Probed, Received::ProbedScattered];
        ways.iter().for_each(|way| {
            println!("  received {:<24} {:>9}", format!("{way:?}"), all.received[*way as usize])
        });
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        for (name, at) in [("after a tenth", 0), ("at the end", 1), ("peak", 2)] {
            println!(
                "  memory {name:<14} {:>8.1} MiB in the largest task, {:>8.1} MiB in all",
                mib(most[at]),
                mib(sums[at])
            );
        }
        if all.wrong == 0 && grown <= GROWTH_BYTES_MAX {
            println!("verified");
        }
    }
    Ok(match (all.wrong, grown, world.rank()) {
        (0, ..=GROWTH_BYTES_MAX, _) => None,
        // One task reports the growth.
        (0, _, 0) => Some(Failure::Wrong(format!(
            "a task has grown by {grown} bytes, which is more than {GROWTH_BYTES_MAX}"
        ))),
        (wrong, _, 0) => Some(Failure::Wrong(format!("{wrong} messages were wrong or unexpected"))),
        _ => Some(Failure::Elsewhere { exit_code: 1 }),
    })
}

/// What one task has received.
#[derive(Default)]
struct Counts {
    messages: u64,
    bytes: u64,
    wrong: u64,
    /// Messages by how they were sent, in the order of [`Sent`].
    sent: [u64; 5],
    /// Messages by how they were received, in the order of [`Received`].
    received: [u64; 4],
}

impl Counts {
    fn add(&mut self, planned: &Planned, is_right: bool) {
        self.messages += 1;
        self.bytes += (planned.words * size_of::<u64>()) as u64;
        self.wrong += u64::from(!is_right);
        self.sent[planned.sent as usize] += 1;
        self.received[planned.received as usize] += 1;
    }

    /// The sums over all tasks. Collective.
    fn of_all(&self, world: &Communicator) -> Result<Self, Failure> {
        let mut sums = [0; 12];
        sums[..3].copy_from_slice(&[self.messages, self.bytes, self.wrong]);
        sums[3..8].copy_from_slice(&self.sent);
        sums[8..].copy_from_slice(&self.received);
        world.allreduce_in_place(&mut sums, op::Sum)?;
        let [messages, bytes, wrong, s0, s1, s2, s3, s4, r0, r1, r2, r3] = sums;
        Ok(Self { messages, bytes, wrong, sent: [s0, s1, s2, s3, s4], received: [r0, r1, r2, r3] })
    }
}

/// The memory of a task in bytes; shared pages count in each task that has touched them.
#[derive(Clone, Copy)]
struct Memory {
    now: u64,
    /// The maximum so far.
    peak: u64,
}

impl Memory {
    fn of_this_task() -> Result<Self, Failure> {
        let status = std::fs::read_to_string("/proc/self/status").map_err(|error| {
            Failure::Input(format!("cannot read the memory of this task from /proc/self/status: {error}"))
        })?;
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok())
                .ok_or_else(|| Failure::Input(format!("/proc/self/status has no {name}")))
        };
        Ok(Self { now: 1024 * kib("VmRSS:")?, peak: 1024 * kib("VmHWM:")? })
    }
}

struct Soak<'a> {
    world: &'a Communicator,
    mixture: Mixture,
    every_third: Datatype,
    spread: Vec<u64>,
    flat: Vec<u64>,
    counts: Counts,
}

impl<'a> Soak<'a> {
    fn new(world: &'a Communicator, mixture: Mixture) -> Result<Self, Failure> {
        let word = Datatype::predefined(Predefined::Uint64);
        let every_third = Datatype::resized(&word, 0, EXTENT_BYTES)?;
        let (flat, spread) = (vec![0; WORDS_MAX], vec![0; SPREAD * WORDS_MAX]);
        Ok(Self { world, mixture, every_third, spread, flat, counts: Counts::default() })
    }

    /// All tasks post receives; then all send, and receive the messages for which no receive was posted.
    fn round(&mut self, round: u64) -> Result<(), Failure> {
        let Self { world, every_third, spread, flat, counts, .. } = self;
        let own = world.rank();
        let plan = self.mixture.round(round);
        let leaving: Vec<(Planned, Vec<u64>)> = plan
            .iter()
            .filter(|planned| planned.from == own)
            .map(|planned| (*planned, content_of(planned)))
            .collect();
        let is_posted =
            |planned: &Planned| matches!(planned.received, Received::Posted | Received::PostedForAnySource);
        let (posted, mut late): (Vec<Planned>, Vec<Planned>) =
            plan.into_iter().filter(|planned| planned.dest == own).partition(is_posted);
        let mut posted: Vec<(Planned, Vec<u64>)> =
            posted.into_iter().map(|planned| (planned, vec![0; planned.words])).collect();
        let scattered = leaving.iter().filter(|(planned, _)| planned.sent == Sent::Scattered);
        let scattered: Vec<(&Planned, View<'_, u64>)> = scattered
            .map(|(planned, words)| Ok((planned, View::new(words, planned.words as u64, every_third)?)))
            .collect::<mpi_over_am::Result<_>>()?;
        world.scope(|scope| {
            let mut open = Vec::new();
            for (planned, words) in &mut posted {
                let source = match planned.received {
                    Received::PostedForAnySource => Source::Any,
                    _ => Source::Rank(planned.from),
                };
                open.push(scope.irecv(words, source, planned.tag)?);
            }
            world.barrier()?;
            for (planned, view) in &scattered {
                open.push(scope.isend(view, planned.dest, planned.tag)?);
            }
            for (planned, words) in &leaving {
                let Planned { dest, tag, .. } = *planned;
                match planned.sent {
                    Sent::Standard => open.push(scope.isend(words, dest, tag)?),
                    Sent::Synchronous => open.push(scope.issend(words, dest, tag)?),
                    Sent::Ready => open.push(scope.irsend(words, dest, tag)?),
                    Sent::Buffered => world.bsend(words, dest, tag)?,
                    Sent::Scattered => {}
                }
            }
            let mut pick = random::stream(self.mixture.seed, round);
            while !late.is_empty() {
                // Waits for one given message, or for any.
                pick = random::mix(pick.wrapping_add(1));
                let one = late[usize::try_from(random::below(pick, late.len() as u64)).unwrap_or(0)];
                let status = match pick % 3 {
                    0 => world.probe(Source::Any, Tag::Any)?,
                    _ => world.probe(one.from, one.tag)?,
                };
                let (source, tag) = (status.source(), status.tag());
                let Some(at) = late.iter().position(|planned| (planned.from, planned.tag) == (source, tag))
                else {
                    counts.wrong += 1;
                    world.recv(flat, source, tag)?;
                    continue;
                };
                let planned = late.swap_remove(at);
                let is_right = if planned.received == Received::ProbedScattered {
                    world.recv(&mut ViewMut::new(spread, planned.words as u64, every_third)?, source, tag)?;
                    (0..planned.words).all(|index| spread[SPREAD * index] == planned.word(index))
                } else {
                    world.recv(&mut flat[..planned.words], source, tag)?;
                    (0..planned.words).all(|index| flat[index] == planned.word(index))
                };
                counts.add(&planned, is_right);
            }
            scope.wait_all(open)
        })?;
        for (planned, words) in &posted {
            counts.add(planned, *words == planned.content());
        }
        Ok(())
    }
}

/// The content of a message, spread out if it is sent scattered.
fn content_of(planned: &Planned) -> Vec<u64> {
    let spread = if planned.sent == Sent::Scattered { SPREAD } else { 1 };
    (0..planned.words * spread).map(|index| planned.word(index / spread)).collect()
}
