//! The allocator that takes a program's large blocks from job memory. These tests have a binary of their own, since a program has only one
//! allocator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use am_core::buffer::Access;
use am_core::error::Error;
use am_core::task::TaskId;
use am_core::{GetOptions, PutOptions};
use am_core_conform::Random;
use am_tests::harness::job;
use am_via::{JobAllocator, Task};
use am_via_os::fork::run_in_copy;
use am_via_os::process::Ended;

#[global_allocator]
static ALLOCATOR: JobAllocator = JobAllocator::new();

const LARGE: usize = 1 << 20;

/// The mapping at an address of this process.
#[derive(Debug)]
struct Mapping {
    name: String,
    flags: String,
}

impl Mapping {
    fn is_job_memory(&self) -> bool {
        self.name.contains("am-heap")
    }

    /// Whether core dumps exclude the mapping.
    fn is_left_out(&self) -> bool {
        self.flags.split_whitespace().any(|flag| flag == "dd")
    }
}

fn mapping_of(address: usize) -> Mapping {
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("Linux, with /proc");
    let mut name = None;
    for line in smaps.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if let Some((from, to)) = first.split_once('-') {
            let at = |text| usize::from_str_radix(text, 16).expect("an address");
            name = (at(from)..at(to)).contains(&address).then(|| line.to_owned());
        } else if let (Some(name), Some(flags)) = (&name, line.strip_prefix("VmFlags:")) {
            return Mapping { name: name.clone(), flags: flags.to_owned() };
        }
    }
    panic!("nothing is mapped at {address:#x}");
}

fn of(bytes: &[u8]) -> Mapping {
    mapping_of(bytes.as_ptr().addr())
}

#[test]
fn large_blocks_are_job_memory_from_joining_on() {
    job("large_blocks_are_job_memory_from_joining_on").tasks(2).env("AM_MEMORY", "job").run(|| {
        let early = vec![1u8; LARGE];
        assert!(!of(&early).is_job_memory());
        let task = Task::join().expect("the launcher made a job");
        let mut context = task.context().expect("the job has memory");
        assert!(!of(&std::iter::repeat_n(1u8, 1000).collect::<Vec<_>>()).is_job_memory());
        // A vector that grows beyond the limit, and shrinks below it.
        let mut grown: Vec<u8> = Vec::new();
        for index in 0..LARGE {
            grown.push(index.to_le_bytes()[0]);
        }
        assert!(of(&grown).is_job_memory());
        grown.truncate(100);
        grown.shrink_to_fit();
        assert!(!of(&grown).is_job_memory());
        assert!((0u8..100).eq(grown.iter().copied()));
        assert!(
            vec![0u8; LARGE].iter().all(|&byte| byte == 0),
            "the block is zeroed, also where it was used before"
        );
        // Both ends of the transfer are plain vectors, as in a program.
        let mine = vec![5u8 + task.number().to_le_bytes()[0]; LARGE];
        assert!(of(&mine).is_job_memory());
        let region = context.expose(vec![0; LARGE].into(), Access::READ_WRITE).expect("expose");
        let addresses = context.address_init(region.address(0)).expect("all tasks exchange addresses");
        let other = addresses[1 - task.number() as usize];
        context.put(other, &mine, PutOptions::default()).expect("put");
        context.gfence().expect("gfence");
        let mut back = vec![0; LARGE];
        context.get(other, &mut back, GetOptions::default()).expect("get");
        assert_eq!(back, mine);
        context.gfence().expect("gfence");
        drop(context.unexpose(region).expect("unexpose"));
        drop(early);
    });
}

#[test]
fn what_job_memory_has_no_room_for_is_the_systems() {
    let test = "what_job_memory_has_no_room_for_is_the_systems";
    job(test).env("AM_HEAP_BYTES", "4M").run(|| {
        let task = Task::join().expect("the launcher made a job");
        let blocks: Vec<Vec<u8>> = (0..16).map(|number| vec![number; LARGE]).collect();
        let inside = blocks.iter().filter(|block| of(block).is_job_memory()).count();
        assert!((1..5).contains(&inside), "{inside} blocks");
        for (number, block) in (0u8..).zip(&blocks) {
            assert!(block.iter().all(|&byte| byte == number));
        }
        drop(blocks);
        // Freed memory is available again, however it was split.
        let again = vec![1u8; 2 * LARGE];
        assert!(of(&again).is_job_memory());
        drop(task);
        // Job memory stays mapped after its task has left the job, since blocks may be in it.
        assert!(again.iter().all(|&byte| byte == 1));
    });
}

/// Resident bytes of this process in shared memory, to which job memory belongs.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux, with /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).expect("Linux 4.5");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// Freed large blocks have given their pages back, so that zeroing them again would only make pages.
#[test]
fn a_large_zeroed_block_has_no_pages_until_it_is_written_also_where_blocks_were_freed() {
    const HUGE: usize = 256 << 20;
    let test = "a_large_zeroed_block_has_no_pages_until_it_is_written_also_where_blocks_were_freed";
    job(test).env("AM_HEAP_BYTES", "512M").run(|| {
        let task = Task::join().expect("the launcher made a job");
        let mut context = task.context().expect("the job has memory");
        let before = resident();
        let written = |bytes: &mut [u8]| {
            assert!(bytes.iter().step_by(4096).all(|&byte| byte == 0));
            bytes.fill(1);
        };
        for round in 0..4 {
            // Small blocks that lie where the large ones will, and keep their pages when they are freed.
            let mut small: Vec<Vec<u8>> = (0..100).map(|_| vec![2; 100_000]).collect();
            small.push(vec![2; LARGE + 1]);
            drop(small);
            let mut zeroed = vec![0u8; HUGE];
            assert!(of(&zeroed).is_job_memory());
            let first = resident().saturating_sub(before);
            assert!(
                first < HUGE / 8,
                "round {round}: {first} bytes are resident before the block is written"
            );
            written(&mut zeroed[..LARGE]);
            written(&mut zeroed[HUGE - 5000..]);
            drop(zeroed);
            let mut memory = context.alloc(HUGE + round).expect("job memory");
            let second = resident().saturating_sub(before);
            assert!(
                second < HUGE / 8,
                "round {round}: {second} bytes are resident before the memory is written"
            );
            written(&mut memory[..LARGE]);
            written(&mut memory[HUGE - 5000..]);
        }
        drop(context);
    });
}

#[test]
fn a_core_dump_shows_the_programs_blocks_and_no_hole() {
    job("a_core_dump_shows_the_programs_blocks_and_no_hole").run(|| {
        let task = Task::join().expect("the launcher made a job");
        let mut context = task.context().expect("the job has memory");
        let block = vec![3u8; LARGE];
        let at = block.as_ptr().addr();
        assert!(of(&block).is_job_memory() && !of(&block).is_left_out(), "{:?}", of(&block));
        let other = context.alloc(LARGE).expect("alloc");
        assert!(of(&other).is_job_memory() && of(&other).is_left_out(), "{:?}", of(&other));
        drop(block);
        assert!(mapping_of(at).is_left_out(), "{:?}", mapping_of(at));
    });
}

/// Length of the repeated pattern that a dump is searched for.
const LINE: usize = 64;

/// A line whose contents do not occur by chance.
fn line_of(seed: u64) -> [u8; LINE] {
    let mut random = Random::new(seed);
    let mut line = [0; LINE];
    line.chunks_mut(8).for_each(|word| word.copy_from_slice(&random.bits().to_le_bytes()));
    line
}

fn fill(memory: &mut [u8], line: &[u8; LINE]) {
    memory.chunks_mut(LINE).for_each(|place| place.copy_from_slice(&line[..place.len()]));
}

/// Seeds of the lines in a live block, in a freed block, and in job memory outside the program's blocks.
const SEEDS: [u64; 3] = [11, 12, 13];

fn abort_with_marked_memory() {
    let task = Task::join().expect("the launcher made a job");
    let mut context = task.context().expect("the job has memory");
    let [mut kept, mut freed] = [vec![0; LARGE], vec![0; LARGE]];
    let mut other = context.alloc(LARGE).expect("alloc");
    for (memory, seed) in [&mut kept[..], &mut freed[..], &mut other[..]].into_iter().zip(SEEDS) {
        assert!(of(memory).is_job_memory());
        fill(memory, &line_of(seed));
    }
    drop(freed);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux, with /proc");
    assert!(!maps.contains("/dev/shm/"), "job memory has no name that could stay: {maps}");
    context.gfence().expect("all tasks reach the fence");
    if task.number() == 1 {
        std::process::abort();
    }
    match context.gfence().expect_err("task 1 has aborted") {
        Error::PeerFailed { task: TaskId(1), what } => println!("\nhow: {what}"),
        other => panic!("not about task 1: {other}"),
    }
}

/// The core dump contains blocks of the program, and nothing of the rest of job memory, which has terabytes of holes. The job ends as after
/// any death of a task.
#[test]
fn an_aborted_task_leaves_a_core_dump_of_its_blocks_and_a_job_that_ends() {
    let folder = std::env::temp_dir().join(format!("am-core-dump-{}", std::process::id()));
    let first = r#"mkdir -p "$DUMP_FOLDER" && cd "$DUMP_FOLDER" && { ulimit -c unlimited || true; }"#;
    let test = "an_aborted_task_leaves_a_core_dump_of_its_blocks_and_a_job_that_ends";
    let job = job(test).tasks(2).env("DUMP_FOLDER", folder.display().to_string()).after(first);
    job.run_and_judge(abort_with_marked_memory, |outcome| {
        assert!(!outcome.is_success);
        let failure = outcome.failure.as_ref().expect("task 1 failed");
        assert_eq!((failure.task, outcome.tasks[1].ended), (1, Some(Ended::Signalled(6))), "{failure}");
        let told = &outcome.tasks[0].stdout;
        assert!(told.contains("how: ") && told.contains("SIGABRT"), "task 0 was told: {told}");
        let dump = std::fs::read_dir(&folder).expect("its folder").flatten().map(|entry| entry.path());
        let dump: Vec<_> = dump.collect();
        let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
        let [dump] = &dump[..] else {
            assert!(dump.is_empty(), "{dump:?}");
            let is_file_here = !pattern.starts_with(['|', '/']) && limit_of_dumps() > 0;
            assert!(!is_file_here, "no dump in {}, though the pattern is {pattern}", folder.display());
            println!("not checked: the system stores dumps elsewhere, or not at all ({})", pattern.trim());
            return std::fs::remove_dir_all(&folder).expect("it is empty");
        };
        let len = std::fs::metadata(dump).expect("the file can be read").len();
        assert!(len < 1 << 30, "a dump of {len} bytes");
        let bytes = std::fs::read(dump).expect("it can be read");
        let lines = SEEDS.map(line_of);
        let mut counts = [0; SEEDS.len()];
        for chunk in bytes.chunks_exact(LINE) {
            for (line, count) in lines.iter().zip(&mut counts) {
                *count += usize::from(chunk == line);
            }
        }
        println!("a dump of {len} bytes; lines of each kind: {counts:?}");
        let [kept, freed, other] = counts;
        assert!(kept >= LARGE / LINE, "the program's block is not whole: {counts:?}");
        // Copies on the stack of a function count as well.
        assert!(freed < 16 && other < 16, "the dump contains memory that is not the program's: {counts:?}");
        std::fs::remove_dir_all(&folder).expect("the folder can be removed");
    });
}

/// Maximum size of a core dump here, in bytes; 0: no dumps.
fn limit_of_dumps() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("Linux, with /proc");
    let line = limits.lines().find(|line| line.starts_with("Max core file size")).expect("it has this limit");
    let hard = line.split_whitespace().rev().nth(1).expect("a soft and a hard one");
    hard.parse().unwrap_or(u64::MAX)
}

/// After a fork without exec both processes have the earlier contents, each its own copy.
#[test]
fn a_copy_has_its_blocks_alone() {
    job("a_copy_has_its_blocks_alone").tasks(2).run(|| {
        let task = Task::join().expect("the launcher made a job");
        let mut context = task.context().expect("the job has memory");
        context.gfence().expect("all tasks reach the fence");
        let changing: Arc<[AtomicU64]> = (0..LARGE / 8).map(|_| AtomicU64::new(0)).collect();
        assert!(mapping_of(changing.as_ptr().addr()).is_job_memory());
        let mut block = vec![1u8; LARGE];
        let is_over = Arc::new(AtomicBool::new(false));
        let writer = {
            let (changing, is_over) = (Arc::clone(&changing), Arc::clone(&is_over));
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    changing.iter().for_each(|word| {
                        word.fetch_add(1, Ordering::Relaxed);
                    });
                }
            })
        };
        let moved = || changing[0].load(Ordering::Relaxed);
        for round in 2..6u8 {
            let before = moved();
            while moved() == before {
                std::thread::yield_now();
            }
            let ended = run_in_copy(|| {
                assert!(block.iter().all(|&byte| byte == round - 1), "the contents are those at the fork");
                // The parent's other threads do not write here.
                let first: Vec<u64> = changing.iter().map(|word| word.load(Ordering::Relaxed)).collect();
                for _ in 0..50 {
                    std::thread::yield_now();
                    let again = changing.iter().map(|word| word.load(Ordering::Relaxed));
                    assert!(again.eq(first.iter().copied()), "it changed");
                }
                block.fill(200);
                drop(std::mem::take(&mut block));
                let new = vec![7u8; 4 * LARGE];
                assert!(!of(&new).is_job_memory(), "{:?}", of(&new));
                0
            });
            assert_eq!(ended.expect("fork"), Ended::Exited(0));
            assert!(block.iter().all(|&byte| byte == round - 1), "the copy wrote only to its own memory");
            block.fill(round);
            context.gfence().expect("the task goes on");
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("it counts");
    });
}
