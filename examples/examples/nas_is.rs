//! NAS IS: the ranks of integer keys, computed ten times.
//!
//! What it teaches: a bucket sort as MPI programs do it. A reduction gives the lengths of the buckets, the tasks divide the buckets evenly,
//! and one exchange of uneven parts (`alltoallv`) brings each key to the task that has the key's bucket.
//!
//! ```text
//! cargo amrun -n 4 --example nas_is
//! cargo amrun -n 4 --example nas_is -- --class A --variant counters
//! ```
//!
//! You should see time, Mop/s (keys ranked), and `VERIFICATION SUCCESSFUL`: five keys have their official ranks after each iteration, and
//! the last iteration has ranked all keys.
//!
//! After D. Bailey et al., "The NAS Parallel Benchmarks", RNR-94-007, section 2.6.

use std::process::ExitCode;

use am_examples::Failure;
use am_examples::nas::{self, Class, Generator, Outcome, first_of, timed};
use mpi_over_am::{Communicator, Placement, op};

const SEED: u64 = 314_159_265;
const ITERATIONS: u32 = 10;
const BUCKETS: usize = 1024;
const TESTED: usize = 5;

/// A size of the problem, with the keys whose ranks are known.
struct Problem {
    keys: usize,
    log_max_key: u32,
    tested: [usize; TESTED],
    ranks: [i64; TESTED],
    /// Number of tested ranks that grow with the iterations; the others decrease.
    growing: usize,
    /// Constants in the expected ranks: added to the growing ones, and subtracted from the others.
    before: [i64; 2],
}

fn problem(class: Class) -> Problem {
    match class {
        Class::S => Problem {
            keys: 1 << 16,
            log_max_key: 11,
            tested: [48427, 17148, 23627, 62548, 4431],
            ranks: [0, 18, 346, 64917, 65463],
            growing: 3,
            before: [0, 0],
        },
        Class::W => Problem {
            keys: 1 << 20,
            log_max_key: 16,
            tested: [357_773, 934_767, 875_723, 898_999, 404_505],
            ranks: [1249, 11698, 1_039_987, 1_043_896, 1_048_018],
            growing: 2,
            before: [-2, 0],
        },
        Class::A => Problem {
            keys: 1 << 23,
            log_max_key: 19,
            tested: [2_112_377, 662_041, 5_336_171, 3_642_833, 4_250_760],
            ranks: [104, 17523, 123_928, 8_288_932, 8_388_264],
            growing: 3,
            before: [-1, -1],
        },
    }
}

fn main() -> ExitCode {
    nas::main("nas_is", "NAS IS: ranks of integer keys", run)
}

fn run(world: &Communicator, class: Class) -> Result<Outcome, Failure> {
    let problem = problem(class);
    let (first, end) = (
        first_of(world.rank(), world.size(), problem.keys),
        first_of(world.rank() + 1, world.size(), problem.keys),
    );
    let mut keys = drawn_keys(&problem, first, end);
    // One run to warm up, which is not measured.
    let _ = rank_keys(world, &problem, &mut keys, first, 1)?;
    let ((wrong, sorted), seconds) = timed(world, || {
        let (mut wrong, mut sorted) = (0, Vec::new());
        for iteration in 1..=ITERATIONS {
            let ranked = rank_keys(world, &problem, &mut keys, first, iteration)?;
            wrong += ranked.wrong;
            sorted = ranked.counts;
        }
        Ok((wrong, sorted))
    })?;
    let mut counts = [wrong, sorted.iter().sum::<u64>()];
    world.allreduce_in_place(&mut counts, op::Sum)?;
    let is_verified = counts == [0, problem.keys as u64];
    #[expect(clippy::cast_precision_loss, reason = "the numbers of keys are small")]
    let operations = f64::from(ITERATIONS) * problem.keys as f64;
    Ok(Outcome { is_verified, seconds, operations })
}

/// Keys `first` to `end`. Each is the sum of four random numbers, scaled to the range of keys.
fn drawn_keys(problem: &Problem, first: usize, end: usize) -> Vec<u32> {
    let mut generator = Generator::new(SEED).skipped(4 * first as u64);
    let quarter = f64::from(1 << (problem.log_max_key - 2));
    let key = |_| {
        let sum: f64 = (0..4).map(|_| generator.next()).sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the value is below the largest key"
        )]
        let key = (quarter * sum) as u32;
        key
    };
    (first..end).map(key).collect()
}

/// The result of an iteration in this task.
struct Ranked {
    /// Number of tested keys with a wrong rank.
    wrong: u64,
    /// Number of occurrences of each key of this task's range.
    counts: Vec<u64>,
}

fn rank_keys(
    world: &Communicator,
    problem: &Problem,
    keys: &mut [u32],
    first: usize,
    iteration: u32,
) -> Result<Ranked, Failure> {
    if world.rank() == 0 {
        keys[iteration as usize] = iteration;
        keys[(iteration + ITERATIONS) as usize] = (1 << problem.log_max_key) - iteration;
    }
    // The sizes of the buckets, followed by the tested keys.
    let shift = problem.log_max_key - BUCKETS.ilog2();
    let bucket_of = |key: u32| (key >> shift) as usize;
    let mut lens = vec![0u64; BUCKETS + TESTED];
    for &key in &*keys {
        lens[bucket_of(key)] += 1;
    }
    let own_lens = lens.clone();
    for (place, &index) in problem.tested.iter().enumerate() {
        if let Some(&key) = index.checked_sub(first).and_then(|index| keys.get(index)) {
            lens[BUCKETS + place] = u64::from(key);
        }
    }
    world.allreduce_in_place(&mut lens, op::Sum)?;
    let owners = shared_out(&lens[..BUCKETS], world.size(), problem.keys);

    // Sorts the keys by buckets, and thereby by owners.
    let mut ends = vec![0; BUCKETS];
    let mut end = 0;
    for (start, len) in ends.iter_mut().zip(&own_lens) {
        *start = end;
        end += place(*len);
    }
    let mut by_bucket = vec![0u32; keys.len()];
    for &key in &*keys {
        let at = &mut ends[bucket_of(key)];
        by_bucket[*at] = key;
        *at += 1;
    }
    let sum_of = |lens: &[u64], owner: usize| place(lens[owners[owner]..owners[owner + 1]].iter().sum());
    let send: Vec<usize> = (0..world.size() as usize).map(|owner| sum_of(&own_lens, owner)).collect();
    let mut recv = vec![0u64; send.len()];
    let counts: Vec<u64> = send.iter().map(|&count| count as u64).collect();
    world.alltoall(&counts, &mut recv)?;
    let recv: Vec<usize> = recv.into_iter().map(place).collect();
    let (send_at, recv_at) = (displacements(&send), displacements(&recv));
    let mut mine = vec![0u32; recv.iter().sum()];
    let from = Placement { counts: &send, displacements: &send_at };
    let to = Placement { counts: &recv, displacements: &recv_at };
    world.alltoallv((&by_bucket, from), (&mut mine, to))?;

    // Ranks: the number of keys before this task's range, plus the number of keys before each key in the range.
    let rank = world.rank() as usize;
    let range = owners[rank] << shift..owners[rank + 1] << shift;
    let mut counts = vec![0u64; range.len()];
    for &key in &mine {
        let Some(count) = (key as usize).checked_sub(range.start).and_then(|key| counts.get_mut(key)) else {
            return Err(Failure::Wrong(format!("key {key} was sent to the wrong task")));
        };
        *count += 1;
    }
    let before: u64 = lens[..owners[rank]].iter().sum();
    let wrong = (0..TESTED).filter(|&tested| {
        let key = place(lens[BUCKETS + tested]);
        // The rank of a key is the number of keys below it.
        range.contains(&key) && {
            let below = before + counts[..key - range.start].iter().sum::<u64>();
            Ok(expected_rank(problem, tested, iteration)) != i64::try_from(below)
        }
    });
    let wrong = wrong.count() as u64;
    Ok(Ranked { wrong, counts })
}

fn expected_rank(problem: &Problem, tested: usize, iteration: u32) -> i64 {
    let iteration = i64::from(iteration);
    if tested < problem.growing {
        problem.ranks[tested] + iteration + problem.before[0]
    } else {
        problem.ranks[tested] - iteration - problem.before[1]
    }
}

/// The first bucket of each task, and the end: all tasks get about the same number of keys.
fn shared_out(lens: &[u64], tasks: u32, keys: usize) -> Vec<usize> {
    let mut owners = vec![0];
    let mut before = 0;
    for (bucket, len) in lens.iter().enumerate() {
        before += len;
        while owners.len() < tasks as usize
            && before >= first_of(u32::try_from(owners.len()).unwrap_or(u32::MAX), tasks, keys) as u64
        {
            owners.push(bucket + 1);
        }
    }
    owners.resize(tasks as usize, lens.len());
    owners.push(lens.len());
    owners
}

fn displacements(counts: &[usize]) -> Vec<usize> {
    counts.iter().scan(0, |end, count| Some(std::mem::replace(end, *end + count))).collect()
}

fn place(number: u64) -> usize {
    usize::try_from(number).expect("a key's number fits into memory's address range")
}
