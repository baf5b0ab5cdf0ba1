//! The allocator that puts a program's large blocks into job memory, in a program of its own, since a program has one allocator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use am_core::buffer::Access;
use am_core::{GetOptions, PutOptions};
use am_tests::harness::job;
use am_via::shm::os::fork::run_in_copy;
use am_via::shm::os::process::Ended;
use am_via::{JobAllocator, Task};

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

    /// Whether a core dump leaves it out.
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
        // Grown over the limit, and shrunk below it.
        let mut grown: Vec<u8> = Vec::new();
        for index in 0..LARGE {
            grown.push(index.to_le_bytes()[0]);
        }
        assert!(of(&grown).is_job_memory());
        grown.truncate(100);
        grown.shrink_to_fit();
        assert!(!of(&grown).is_job_memory());
        assert!((0u8..100).eq(grown.iter().copied()));
        assert!(vec![0u8; LARGE].iter().all(|&byte| byte == 0), "zeroed, also where something was before");
        // As a program uses it: both ends of a transfer are plain vectors.
        let mine = vec![5u8 + task.number().to_le_bytes()[0]; LARGE];
        assert!(of(&mine).is_job_memory());
        let region = context.register(vec![0; LARGE], Access::READ_WRITE).expect("register");
        let addresses = context.address_init(region.address(0)).expect("all are there");
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
        // What came back is there again, whatever it was cut into.
        let again = vec![1u8; 2 * LARGE];
        assert!(of(&again).is_job_memory());
        drop(task);
        // Job memory outlives who joined, as long as a block may lie there.
        assert!(again.iter().all(|&byte| byte == 1));
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

/// A fork without exec: both processes have what was there, each its own.
#[test]
fn a_copy_has_its_blocks_alone() {
    job("a_copy_has_its_blocks_alone").tasks(2).run(|| {
        let task = Task::join().expect("the launcher made a job");
        let mut context = task.context().expect("the job has memory");
        context.gfence().expect("all are there");
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
                assert!(block.iter().all(|&byte| byte == round - 1), "as it was at the fork");
                // Its parent's other threads do not write here.
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
            assert!(block.iter().all(|&byte| byte == round - 1), "the copy wrote to its own");
            block.fill(round);
            context.gfence().expect("the task goes on");
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("it counts");
    });
}
