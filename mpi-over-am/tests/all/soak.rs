//! Mixed messages among 8 tasks, with bounded memory (`-- --nocapture` shows how much, and how long it took).

use std::process::Command;
use std::time::Instant;

use crate::one_thread::alike::common::{Communicator, Environment, job};
use am_core_conform::{Random, is_long};
use am_double::Config;
use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::{Settings, Source, Tag, View, ViewMut};

const TASKS: u32 = 8;
/// Messages of a task between two barriers.
const ROUND: u64 = 50;
/// The longest message.
const LEN_MAX: usize = 20_000;
/// Memory of each task for messages that arrive before their receive.
const EARLY_BYTES_MAX: u64 = 64 << 10;

/// A message, which every task can compute from the seed, its sender and its number.
#[derive(Clone, Copy)]
struct Planned {
    dest: u32,
    len: usize,
    mode: usize,
}

fn planned(seed: u64, from: u32, number: u64) -> Planned {
    let mut random = Random::new(seed ^ u64::from(from) << 40 ^ number << 8);
    let dest = [0, 1, 2, 3, 4, 5, 6, 7][random.below(TASKS as usize)];
    let len = match random.below(20) {
        0 => random.below(LEN_MAX),
        1..=4 => random.below(3000),
        _ => random.below(40),
    };
    Planned { dest, len: len / 8 * 8, mode: random.below(8) }
}

/// The value of each word of a message. All words are equal, so that a scattered message can be checked in the same way.
fn word(from: u32, number: u64) -> u64 {
    u64::from(from) << 48 | number
}

fn run_task(environment: &Environment, world: &Communicator, seed: u64, rounds: u64) {
    let own = world.rank();
    environment.attach_buffer(vec![0; 2 << 20]).expect("the first");
    let every_third =
        Datatype::resized(&Datatype::predefined(Predefined::Int64), 0, 24).expect("it is short");
    let (mut got, mut spread) = (vec![0u64; LEN_MAX / 8], vec![0u64; LEN_MAX / 8 * 3]);
    let mut random = Random::new(seed + u64::from(own));
    for round in 0..rounds {
        let numbers = round * ROUND..(round + 1) * ROUND;
        let out: Vec<(u64, Planned, Vec<u64>)> = numbers
            .clone()
            .map(|number| {
                let planned = planned(seed, own, number);
                let words = if planned.mode == 7 { planned.len / 8 * 3 } else { planned.len / 8 };
                (number, planned, vec![word(own, number); words])
            })
            .collect();
        let mut left: Vec<(u32, u64, usize)> = (0..TASKS)
            .flat_map(|from| numbers.clone().map(move |number| (from, number, planned(seed, from, number))))
            .filter(|(_, _, planned)| planned.dest == own)
            .map(|(from, number, planned)| (from, number, planned.len))
            .collect();
        let views: Vec<_> = out
            .iter()
            .filter(|(_, planned, _)| planned.mode == 7)
            .map(|(number, planned, words)| {
                let view = View::new(words, planned.len as u64 / 8, &every_third);
                (number, planned.dest, view.expect("they lie inside"))
            })
            .collect();
        let exchanged = world.scope(|s| {
            let mut open = Vec::new();
            for (number, dest, view) in &views {
                open.push(s.isend(view, *dest, i32::try_from(*number % 1000).expect("below 1000"))?);
            }
            for (number, planned, words) in &out {
                let tag = i32::try_from(number % 1000).expect("below 1000");
                match planned.mode {
                    0 => open.push(s.issend(words, planned.dest, tag)?),
                    1 => world.bsend(words, planned.dest, tag)?,
                    7 => {}
                    _ => open.push(s.isend(words, planned.dest, tag)?),
                }
            }
            while !left.is_empty() {
                // Receives one of the remaining messages by its envelope, or the next one to arrive.
                let status = if random.one_in(3) {
                    world.probe(Source::Any, Tag::Any)?
                } else {
                    let (from, number, _) = left[random.below(left.len())];
                    world.probe(from, i32::try_from(number % 1000).expect("below 1000"))?
                };
                let at = left
                    .iter()
                    .position(|&(from, number, _)| {
                        (from, number % 1000) == (status.source(), u64::from(status.tag().cast_unsigned()))
                    })
                    .expect("it was planned");
                let (from, number, len) = left.swap_remove(at);
                assert_eq!(status.len(), len as u64);
                let words = len / 8;
                if random.one_in(4) {
                    let mut view = ViewMut::new(&mut spread, words as u64, &every_third)?;
                    world.recv(&mut view, status.source(), status.tag())?;
                    assert!((0..words).all(|i| spread[i * 3] == word(from, number)));
                } else {
                    world.recv(&mut got[..words], status.source(), status.tag())?;
                    assert!(got[..words].iter().all(|&got| got == word(from, number)));
                }
            }
            s.wait_all(open).map(|_| ())
        });
        exchanged.expect("everything was planned");
        environment.flush_buffer().expect("all were received");
        world.barrier().expect("all tasks reach the barrier");
    }
    assert!(world.iprobe(Source::Any, Tag::Any).expect("nothing went wrong").is_none());
    world.barrier().expect("all tasks reach the barrier");
}

fn run(seed: u64, config: Config, messages: u64) {
    println!("seed {seed}, {messages} messages among {TASKS} tasks");
    let rounds = messages / u64::from(TASKS) / ROUND;
    assert!(rounds > 0);
    let settings = Settings { early_arrival_bytes_max: EARLY_BYTES_MAX, ..Settings::default() };
    let before = resident_bytes();
    let start = Instant::now();
    job(config, settings, |environment, world| {
        run_task(environment, world, seed, rounds.div_ceil(10));
        let warm = resident_bytes();
        environment.detach_buffer().expect("the buffer is free");
        run_task(environment, world, seed + 1, rounds);
        if world.rank() == 0 {
            let (grown, secs) = (resident_bytes().saturating_sub(warm), start.elapsed().as_secs_f64());
            println!(
                "memory: {before} bytes at the start, {warm} warm, {grown} more at the end; {secs:.1} s"
            );
            // The messages together have many times as many bytes.
            assert!(grown < 16 << 20, "memory grew by {grown} bytes over {messages} messages");
        }
    });
}

/// Bytes of this process in memory.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says it");
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kib * 1024
}

#[test]
fn mixed_messages_arrive_under_faults() {
    let seeds = if is_long() { 5 } else { 3 };
    (1..seeds).for_each(|seed| run(seed, Config::hostile(TASKS, seed), 10_000));
}

/// Marks a process that runs the soak alone.
const ALONE: &str = "SOAK_ALONE";

#[test]
fn mixed_messages_among_eight_tasks_take_no_more_memory_with_time() {
    if std::env::var_os(ALONE).is_some() {
        return run(9, Config::new(TASKS), if is_long() { 1_000_000 } else { 200_000 });
    }
    // Runs in a process of its own, whose memory is measured: other tests in this process allocate and free at the same time.
    let run = Command::new(std::env::current_exe().expect("it runs"))
        .args([
            "--exact",
            "soak::mixed_messages_among_eight_tasks_take_no_more_memory_with_time",
            "--nocapture",
        ])
        .env(ALONE, "1")
        .output()
        .expect("it started before");
    let said = String::from_utf8_lossy(&run.stdout);
    print!("{said}");
    assert!(
        run.status.success() && said.contains("1 passed"),
        "{}\n{said}{}",
        run.status,
        String::from_utf8_lossy(&run.stderr)
    );
}
