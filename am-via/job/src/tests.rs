//! A job and its owner in one process.

use super::*;
use crate::settings::HEAP_BYTES_MIN;
use am_via_shm::layout::ControlLayout;

#[test]
fn only_what_a_launcher_writes_is_an_invitation() {
    let good = Invitation::parse("200:3:4711:00000000deadbeef").unwrap();
    assert_eq!(good, Invitation { number: 200, task: 3, launcher_pid: 4711, id: 0xdead_beef });
    for bad in ["", "1", "1:2:3", "1:2:3:4:5", "x:2:3:4", "1:-2:3:4", "1:2:x:4", "1:2:3:xyz"] {
        let error = Invitation::parse(bad).unwrap_err();
        assert!(error.to_string().contains("unset AM_JOB"), "{error}");
    }
}

/// Attaches as a task does, but in the process that made the job.
fn attach_to(owner: &JobOwner, task: u32) -> Result<Job, JobError> {
    let (_, value) = owner.environment(task).into_iter().find(|(name, _)| name == JOB_VARIABLE).unwrap();
    Job::attach_to(&Invitation::parse(&value)?, std::process::id())
}

fn owner(num_tasks: u32) -> JobOwner {
    owner_on_hosts(&vec![0; num_tasks as usize])
}

/// The owner of a job whose tasks run on these hosts.
fn owner_on_hosts(hosts: &[u32]) -> JobOwner {
    JobOwner::create(&JobPlan {
        num_tasks: u32::try_from(hosts.len()).unwrap(),
        settings: Settings::default(),
        others: Variables::default(),
        cpus: Vec::new(),
        hosts: hosts.to_vec(),
        record: Record::Nothing,
    })
    .unwrap()
}

/// A task spins if each task of its own host has a core, however many tasks run on other hosts.
#[test]
fn the_tasks_of_a_host_share_its_processors() {
    let owner = owner_on_hosts(&[0, 1, 0, 1, 1]);
    let here = |task| attach_to(&owner, task).unwrap().tasks_here();
    assert_eq!((here(0), here(1)), (2, 3));
    // The processors that the job file has for a task on another host do not count on this host.
    owner.table.get(1).unwrap().set_cpus(&[1000]);
    let job = attach_to(&owner, 2).unwrap();
    let own = u32::try_from(sched::allowed_cpus().len()).unwrap();
    assert!(job.cpus() <= own, "{} of {own}", job.cpus());
}

/// Whatever processors a task chooses later, the other tasks of its job have the same answer as before.
#[test]
fn the_tasks_of_a_host_agree_whether_they_outnumber_its_processors() {
    for (cpus, processors) in [(vec![0, 1, 2], 3), (vec![0, 1, 0], 2)] {
        let owner = JobOwner::create(&JobPlan {
            num_tasks: 3,
            settings: Settings::default(),
            others: Variables::default(),
            cpus: cpus.into_iter().map(|cpu| vec![cpu]).collect(),
            hosts: Vec::new(),
            record: Record::Nothing,
        })
        .unwrap();
        let is_crowded = 3 > processors.min(owner.header.quota_cpus.load(Ordering::Relaxed));
        for task in 0..3 {
            // Attaching replaces the task's processors with those of this process.
            assert_eq!(attach_to(&owner, task).unwrap().is_crowded(), is_crowded);
        }
    }
}

/// Tasks that another launcher has started may each be bound to a processor: the owner asks the kernel.
#[test]
fn an_owner_takes_the_processors_of_processes() {
    let owner = owner(2);
    let own = u32::try_from(sched::allowed_cpus().len()).unwrap();
    let is_crowded = 2 > own.min(owner.header.quota_cpus.load(Ordering::Relaxed));
    let pid = std::process::id();
    owner.take_masks([(0, pid), (1, pid)].into_iter()).unwrap();
    assert_eq!(attach_to(&owner, 0).unwrap().is_crowded(), is_crowded);
    assert!(owner.take_masks([(0, 0)].into_iter()).is_err());
}

#[test]
fn a_task_finds_its_job_and_takes_its_leave() {
    let owner = owner(3);
    assert_eq!(owner.state(1), TaskState::NotStarted);
    let job = attach_to(&owner, 1).unwrap();
    assert_eq!((job.task(), job.num_tasks()), (1, 3));
    assert_eq!(owner.state(1), TaskState::Running);
    assert_eq!(owner.pid(1), Some(std::process::id()));
    assert_eq!(job.pid(0), 0);
    assert!(job.launcher_alive());
    assert!(job.cpus() >= 1);
    for task in 0..3 {
        let packet_bytes = job.settings().packet_bytes;
        let layout = ControlLayout { num_tasks: TASKS_MAX, packet_bytes, vis: job.vis() };
        assert_eq!(memory::len(job.control(task).unwrap().as_fd()).unwrap(), layout.file_bytes());
        assert!(memory::len(job.heap(task).unwrap().as_fd()).unwrap() > HEAP_BYTES_MIN);
    }
    assert!(matches!(job.heap(3), Err(JobError::UnknownTask { task: 3, num_tasks: 3 })));
    drop(job);
    assert_eq!(owner.state(1), TaskState::Finalized);
}

/// Runs `body` on a thread that the system refuses `membarrier`.
fn without_membarrier<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    let refused = || {
        am_via_os::membarrier::refuse_to_this_thread();
        body()
    };
    std::thread::scope(|threads| threads.spawn(refused).join()).unwrap()
}

#[test]
fn a_task_without_the_barrier_that_its_job_relies_on_is_refused() {
    let owner = owner(2);
    if attach_to(&owner, 0).unwrap().barrier() == SleepBarrier::SenderFence {
        println!("this system has no membarrier at all");
        return;
    }
    let error = without_membarrier(|| attach_to(&owner, 1).unwrap_err());
    assert!(matches!(error, JobError::NoBarrier { task: 1, .. }), "{error}");
    assert!(error.to_string().contains("AM_MEMBARRIER=off"), "{error}");
    assert_eq!(owner.state(1), TaskState::NotStarted);
}

#[test]
fn a_job_whose_launcher_has_no_barrier_goes_without_in_all_tasks() {
    let refused = without_membarrier(|| owner(2));
    let settings = Settings { membarrier: false, ..Settings::default() };
    let plan = JobPlan {
        num_tasks: 2,
        settings,
        others: Variables::default(),
        cpus: Vec::new(),
        hosts: Vec::new(),
        record: Record::Nothing,
    };
    for owner in [refused, JobOwner::create(&plan).unwrap()] {
        let barriers = [attach_to(&owner, 0).unwrap(), without_membarrier(|| attach_to(&owner, 1).unwrap())];
        assert!(barriers.iter().all(|job| job.barrier() == SleepBarrier::SenderFence));
    }
}

#[test]
fn a_death_is_seen_by_one_load_with_who_how_and_what_it_said() {
    let owner = owner(2);
    let job = attach_to(&owner, 0).unwrap();
    let other = attach_to(&owner, 1).unwrap();
    let epoch = job.failure_epoch();
    other.set_last_words("planned panic");
    owner.mark_dead(1, Cause::Signalled(11), "");
    assert_ne!(job.failure_epoch(), epoch);
    assert!(job.is_failed(1) && !job.is_failed(0));
    let failure = job.failure().unwrap();
    assert_eq!(failure.to_string(), "task 1 was killed by signal 11 (SIGSEGV): planned panic");
}

#[test]
fn a_task_that_gives_up_says_so_itself() {
    let owner = owner(2);
    let job = attach_to(&owner, 0).unwrap();
    job.mark_failed("no file to read");
    assert_eq!(owner.first_failure().unwrap().to_string(), "task 0 gave up: no file to read");
    drop(job);
    assert_eq!(owner.state(0), TaskState::Dead);
}

#[test]
fn a_wrong_invitation_is_refused() {
    let owner = owner(1);
    let (_, value) = owner.environment(0).remove(0);
    let right = Invitation::parse(&value).unwrap();
    let wrong_id = Invitation { id: right.id ^ 1, ..right };
    assert!(matches!(
        Job::attach_to(&wrong_id, std::process::id()),
        Err(JobError::Unreachable { what: "job", .. })
    ));
    assert!(matches!(attach_to(&owner, 1), Err(JobError::UnknownTask { task: 1, num_tasks: 1 })));
    let another_file = Invitation { number: 0, ..Invitation::parse(&value).unwrap() };
    assert!(Job::attach_to(&another_file, std::process::id()).is_err());
}

#[test]
fn a_task_is_one_process() {
    let owner = owner(1);
    let entry_taken = attach_to(&owner, 0).unwrap();
    entry_taken.own_entry().pid.store(1, Ordering::Relaxed);
    assert!(matches!(attach_to(&owner, 0), Err(JobError::TaskTaken { task: 0, pid: 1 })));
}

#[test]
fn a_process_that_is_refused_changes_nothing_of_the_task() {
    let owner = owner(1);
    owner.table.get(0).unwrap().pid.store(1, Ordering::Relaxed);
    owner.table.get(0).unwrap().state.store(STATE_RUNNING, Ordering::Relaxed);
    assert!(matches!(attach_to(&owner, 0), Err(JobError::TaskTaken { task: 0, pid: 1 })));
    assert_eq!(owner.state(0), TaskState::Running);
    let path = format!("/proc/self/fd/{}", owner.inherited_files()[0]);
    let file = File::options().read(true).write(true).open(path).unwrap();
    assert!(life::has_ended(file.as_fd(), 0), "the refused process keeps the task's lock");
}

#[test]
fn a_task_that_its_launcher_cannot_see_attaches_again() {
    let owner = owner(1);
    // The number of a namespace that this process is not in.
    owner.header.pid_namespace.store(1, Ordering::Relaxed);
    for _ in 0..2 {
        assert_eq!(attach_to(&owner, 0).unwrap().state(0), TaskState::Running);
    }
}

#[test]
fn a_file_that_is_not_the_recorded_one_is_not_taken() {
    let owner = owner(1);
    let job = attach_to(&owner, 0).unwrap();
    let entry = job.own_entry();
    let heap_inode = entry.heap_inode.load(Ordering::Relaxed);
    entry.control_inode.store(heap_inode, Ordering::Relaxed);
    let error = job.control(0).unwrap_err();
    assert!(error.to_string().contains("control file of task 0"), "{error}");
}

#[test]
fn without_a_launcher_a_program_is_a_job_of_one() {
    let job = Job::of_one().unwrap();
    assert_eq!((job.task(), job.num_tasks()), (0, 1));
    assert!(job.control(0).is_ok() && job.heap(0).is_ok());
    assert!(job.launcher_alive());
    assert_eq!(job.setting("credits"), Some("64".to_owned()));
}

#[test]
fn a_launcher_of_another_version_is_named_as_such() {
    let owner = owner(1);
    owner.pretend_version(2);
    let error = attach_to(&owner, 0).unwrap_err();
    assert!(matches!(error, JobError::Version { launcher: 2, .. }), "{error}");
    assert!(error.to_string().contains("build it again"), "{error}");
}

/// `MPI_Abort` first records that the job no longer goes on after failures, and then fails. If this happens while notices are collected,
/// each host gets the first notice before the second.
#[test]
fn no_notice_of_a_failure_is_before_that_of_the_end_of_a_job_that_went_on() {
    const TASKS: u32 = 200;
    let owner = Arc::new(owner_on_hosts(&[0; TASKS as usize]));
    let mut notices = notice::OwnNotices::new(&owner, &[0; TASKS as usize], 0);
    for task in (0..TASKS).rev() {
        owner.set_continue_on_failure(true);
        assert!(notices.take().iter().all(|notice| *notice == JobNotice::GoesOn(true)));
        let mut goes_on = true;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                owner.set_continue_on_failure(false);
                owner.mark_dead(task, Cause::GaveUp, "");
            });
            let mut is_told = false;
            while !is_told {
                for notice in notices.take() {
                    match notice {
                        JobNotice::GoesOn(now) => goes_on = now,
                        JobNotice::Failed { .. } => {
                            assert!(!goes_on, "task {task} has ended the job");
                            is_told = true;
                        }
                        other => panic!("{other:?} was not given"),
                    }
                }
            }
        });
    }
}

/// A task that only looks at what others copy, before it gives up memory, keeps no number from being given again, and sees the lines of the
/// task that has the number now.
#[test]
fn looking_at_hazard_lines_holds_no_task() {
    use am_via_shm::layout::CONTEXTS_MAX;
    use am_via_shm::regions;

    let owner = owner(1);
    let job = attach_to(&owner, 0).unwrap();
    let mut hazards = HazardLines::default();
    let names = |hazards: &mut HazardLines| {
        let lines: Vec<_> = hazards.of_all(&job).unwrap().map(|(task, line)| (task, line.clone())).collect();
        let named = lines.iter().filter(|(_, line)| regions::names_memory_of(line, 0));
        (lines.len(), named.map(|(task, _)| *task).collect::<Vec<_>>())
    };
    let contexts = CONTEXTS_MAX as usize;
    assert_eq!(names(&mut hazards), (contexts, vec![]));
    for _ in 0..3 {
        assert_eq!(owner.make_world(&[1]).unwrap(), 1, "the number is used again");
        let child = attach_to(&owner, 1).unwrap();
        assert_eq!(names(&mut hazards), (2 * contexts, vec![]));
        let own = child.hazard_lines(1).unwrap();
        own[0].copying.store(1 << 32 | 6, Ordering::Release); // region 5 of task 0
        assert_eq!(
            names(&mut hazards),
            (2 * contexts, vec![1]),
            "the line of the task that has the number now"
        );
        drop(child);
        assert!(owner.free_unless_held(1, |_| false), "task 0 holds nothing of it");
        assert_eq!(names(&mut hazards), (contexts, vec![]));
    }
}

/// Holding a task, and giving its number up, exclude each other: a bit that comes too late is no hold of the next task.
#[test]
fn a_number_that_is_held_is_not_given_up() {
    let owner = owner(2);
    let job = attach_to(&owner, 0).unwrap();
    assert_eq!(owner.make_world(&[1]).unwrap(), 2);
    assert!(job.hold(2) && job.hold(1));
    assert!(!owner.free_unless_held(2, |_| false), "task 0 holds it");
    assert_eq!(owner.world_size(2), 1, "it is as it was");
    assert!(owner.free_unless_held(2, |task| task == 0), "its holder has ended");
    assert!(!job.hold(2), "there is no such task now");
    assert_eq!(owner.make_world(&[1]).unwrap(), 2);
    assert!(owner.free_unless_held(2, |_| false), "nobody holds the next task with the number");
}

/// One task holds and lets go, while the launcher makes tasks and gives up their numbers: while a task is held, its number stays its own.
#[test]
fn holders_and_the_launcher_agree() {
    let owner = owner(1);
    let job = attach_to(&owner, 0).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let mut held = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                if job.hold(1) {
                    let world = job.world_of(1);
                    assert!(world.is_some(), "a held task was given up");
                    for _ in 0..50 {
                        assert_eq!(job.world_of(1), world, "a held task's number went to another one");
                    }
                    job.let_go(1);
                    held += 1;
                }
            }
            held
        });
        for _ in 0..100 {
            assert_eq!(owner.make_world(&[1]).unwrap(), 1);
            std::thread::yield_now();
            while !owner.free_unless_held(1, |_| false) {
                std::hint::spin_loop();
            }
        }
        is_over.store(true, Ordering::Relaxed);
        println!("held {} times", holder.join().unwrap());
    });
}
