//! Random traffic, checked against a plan that all tasks compute: the content of a message depends on its number in its sender's plan.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use std::collections::HashMap;

use super::common::{all_settings, job};
use am_core_conform::{Random, pairs};
use am_double::Config;
use mpi_over_am::{Settings, Source, Tag};

const TASKS: u32 = 4;
const TAGS: usize = 3;
const MESSAGES: usize = 60;

/// A planned message: receiver, tag, length, mode.
#[derive(Clone, Copy, Debug)]
struct Planned {
    dest: u32,
    tag: i32,
    len: usize,
    mode: usize,
}

/// The messages of each task. All tasks compute the same plan, so that each task knows how many messages it will receive.
fn plan(seed: u64) -> Vec<Vec<Planned>> {
    let mut random = Random::new(seed);
    let message = |random: &mut Random| Planned {
        dest: [0, 1, 2, 3][random.below(TASKS as usize)],
        tag: [0, 1, 2][random.below(TAGS)],
        len: [0, 4, 30, 500, 1500, 6000, 40_000][random.below(7)],
        mode: random.below(4),
    };
    (0..TASKS).map(|_| (0..MESSAGES).map(|_| message(&mut random)).collect()).collect()
}

fn run(seed: u64, config: Config, settings: Settings) {
    println!("seed {seed}");
    let plan = &plan(seed);
    job(config, settings, |environment, world| {
        let own = world.rank();
        environment.attach_buffer(vec![0; 8 << 20]).unwrap();
        let mut random = Random::new(seed ^ u64::from(own));
        let messages = numbered(&plan[own as usize]);
        let expected = plan.iter().flatten().filter(|planned| planned.dest == own).count();
        let mut received = 0;
        let mut next: HashMap<(u32, i32), u32> = HashMap::new();
        let mut take = |random: &mut Random, left: &mut HashMap<(u32, i32), usize>| {
            // A receive, exact or with wildcards, that matches one of the messages that have not been received yet.
            let keys: Vec<(u32, i32)> =
                left.iter().filter(|(_, count)| **count > 0).map(|(key, _)| *key).collect();
            let (from, with) = keys[random.below(keys.len())];
            let source = if random.one_in(2) { Source::Any } else { Source::Rank(from) };
            let tag = if random.one_in(2) { Tag::Any } else { Tag::Is(with) };
            if random.one_in(3) {
                let probed = world.probe(source, tag).unwrap();
                assert!(left[&(probed.source(), probed.tag())] > 0);
            }
            let mut buffer = vec![0u8; 50_000];
            let status = world.recv(&mut buffer, source, tag).unwrap();
            let (from, with) = (status.source(), status.tag());
            *left.get_mut(&(from, with)).unwrap() -= 1;
            let number = next.entry((from, with)).or_default();
            let sent = sent_as(plan, from, own, with, *number);
            *number += 1;
            assert_eq!(
                buffer[..usize::try_from(status.len()).unwrap()],
                sent[..],
                "from {from} with tag {with}"
            );
        };
        let mut left: HashMap<(u32, i32), usize> = HashMap::new();
        for (from, planned) in (0..).zip(plan).flat_map(|(from, list)| list.iter().map(move |p| (from, p))) {
            if planned.dest == own {
                *left.entry((from, planned.tag)).or_default() += 1;
            }
        }
        world
            .scope(|s| {
                let mut open = Vec::new();
                for (planned, bytes) in plan[own as usize].iter().zip(&messages) {
                    match planned.mode {
                        0 => open.push(s.issend(bytes, planned.dest, planned.tag)?),
                        1 => world.bsend(bytes, planned.dest, planned.tag)?,
                        _ => open.push(s.isend(bytes, planned.dest, planned.tag)?),
                    }
                }
                while received < expected {
                    take(&mut random, &mut left);
                    received += 1;
                }
                s.wait_all(open).map(|_| ())
            })
            .unwrap();
        assert!(left.values().all(|&count| count == 0));
        environment.flush_buffer().unwrap();
        world.barrier().unwrap();
        assert_eq!(world.iprobe(Source::Any, Tag::Any).unwrap(), None);
    });
}

/// The bytes of each message of a task.
fn numbered(list: &[Planned]) -> Vec<Vec<u8>> {
    list.iter()
        .enumerate()
        .map(|(number, planned)| super::common::pattern(number as u64 + 1, planned.len))
        .collect()
}

/// The bytes of the `number`-th message from `from` to `to` with `tag`.
fn sent_as(plan: &[Vec<Planned>], from: u32, to: u32, tag: i32, number: u32) -> Vec<u8> {
    let list = &plan[from as usize];
    let mut meant = list.iter().enumerate().filter(|(_, p)| p.dest == to && p.tag == tag);
    let (at, planned) = meant.nth(number as usize).expect("no more messages arrive than planned");
    super::common::pattern(at as u64 + 1, planned.len)
}

#[test]
fn random_traffic_arrives_whole_and_in_order() {
    run(1, Config::new(TASKS), Settings::default());
    for (number, (seed, settings)) in (0..).zip(pairs(&[1, 2, 3, 4], &all_settings())) {
        run(seed * 100 + number, Config::hostile(TASKS, seed), settings);
    }
}
