//! Accesses through global pointers to memory that a task has mapped: where the general path refuses an access, they are refused, too; and
//! heaps of which a task cannot map a part.

use std::fs::File;
use std::process::Command;
use std::sync::mpsc::channel;

use am_core::error::{Error, Result};
use am_core::handler::{Answer, Completion};
use am_core::pgas::{GlobalPointer, Segment, SymmetricHeap};
use am_core::task::TaskId;
use am_core::{AmOptions, Context};
use am_tests::harness::{TaskOutcome, job};
use am_via::job::Cause;
use am_via::{ShmFabric, Task};

fn two_contexts(task: &Task) -> [Context<ShmFabric>; 2] {
    [0, 1].map(|number| Context::new(task.fabric(number).expect("the job has memory")))
}

/// Writes, reads, and adds; all three are refused with an error that `is_expected`.
fn is_refused(
    context: &mut Context<ShmFabric>,
    word: GlobalPointer<u64>,
    is_expected: impl Fn(&Error) -> bool,
) {
    type Access = fn(GlobalPointer<u64>, &mut Context<ShmFabric>) -> Result<()>;
    let accesses: [Access; 3] = [
        |word, context| word.write(context, 99),
        |word, context| word.read(context).map(drop),
        |word, context| word.fetch_add(context, 100).map(drop),
    ];
    for access in accesses {
        let error = access(word, context).expect_err("the access is refused");
        assert!(is_expected(&error), "{error}");
    }
}

fn is_stale(error: &Error) -> bool {
    matches!(error, Error::RemoteRange { .. })
}

#[test]
fn a_pointer_is_not_used_in_a_handler() {
    job("a_pointer_is_not_used_in_a_handler").tasks(2).run(|| {
        let task = Task::join().expect("the launcher made a job");
        let [mut main, mut other] = two_contexts(&task);
        let segment = Segment::<u64>::new(&mut other, 4).expect("all tasks make it");
        let peer = TaskId(1 - task.number());
        let word = segment.at(peer, 1).expect("it exists");
        word.write(&mut other, 7).expect("it is mapped");
        let (tell, told) = channel();
        let handler = main.register_handler(move |_| {
            is_refused(&mut other, word, |error| matches!(error, Error::InHandler { .. }));
            tell.send(()).expect("the test waits");
            Answer::discard()
        });
        let handler = handler.expect("the first handler");
        main.gfence().expect("all tasks reach the fence");
        main.amsend(peer, handler, &[], &[], AmOptions::default()).expect("the message is sent");
        main.wait_until(|_| Ok(told.try_recv().is_ok())).expect("the handler runs");
        main.gfence().expect("all tasks reach the fence");
        assert_eq!(segment.get(1).expect("it exists"), 7);
    });
}

#[test]
fn a_purged_task_is_not_accessed_until_it_is_resumed() {
    job("a_purged_task_is_not_accessed_until_it_is_resumed").tasks(2).run(|| {
        let task = Task::join().expect("the launcher made a job");
        let mut context = task.context().expect("the job has memory");
        let resumed = context.counter().expect("the first counter");
        let go_on = context.register_handler(move |_| Answer::consumed(Completion::Bump(resumed)));
        let go_on = go_on.expect("the first handler");
        let segment = Segment::<u64>::new(&mut context, 4).expect("all tasks make it");
        let peer = TaskId(1 - task.number());
        let word = segment.at(peer, 1).expect("it exists");
        word.write(&mut context, 7).expect("it is mapped");
        context.gfence().expect("all tasks reach the fence");
        // The other task is in no collective call meanwhile, which a purge would end.
        if task.number() == 0 {
            context.purge_totask(peer).expect("the peer lives");
            is_refused(&mut context, word, |error| matches!(error, Error::Purged { .. }));
            context.resume_totask(peer).expect("it was purged");
            assert_eq!(word.fetch_add(&mut context, 1).expect("allowed again"), 7);
            word.write(&mut context, 9).expect("allowed again");
            context.amsend(peer, go_on, &[], &[], AmOptions::default()).expect("allowed again");
        } else {
            while let Err(error) = context.wait_counter(resumed, 1) {
                assert!(matches!(error, Error::Purged { .. }), "{error}");
            }
        }
        context.gfence().expect("all tasks reach the fence");
        assert_eq!(segment.get(1).expect("it exists"), if task.number() == 1 { 9 } else { 7 });
    });
}

#[test]
fn a_task_that_has_died_is_not_accessed() {
    let body = || {
        let task = Task::join().expect("the launcher made a job");
        let mut context = task.context().expect("the job has memory");
        let through = context.counter().expect("the first counter");
        let tell = context.register_handler(move |_| Answer::consumed(Completion::Bump(through)));
        let tell = tell.expect("the first handler");
        let segment = Segment::<u64>::new(&mut context, 4).expect("all tasks make it");
        let [dead, lives] =
            [1, 2 - task.number()].map(|task| segment.at(TaskId(task), 1).expect("it exists"));
        context.gfence().expect("all tasks reach the fence");
        // The other tasks must have left the fence: a task's death ends the fence for tasks that are still in it.
        if task.number() == 1 {
            context.wait_counter(through, 2).expect("the counter reaches its value");
            let own = std::process::id().to_string();
            let _ = Command::new("kill").args(["-KILL", &own]).status();
            unreachable!("the signal ends the process");
        }
        dead.write(&mut context, 7).expect("it is mapped");
        context.amsend(TaskId(1), tell, &[], &[], AmOptions::default()).expect("the message is sent");
        context.set_go_on(true);
        while !context.has_ended(TaskId(1)) || dead.read(&mut context).is_ok() {}
        is_refused(&mut context, dead, |error| matches!(error, Error::PeerFailed { .. }));
        lives.write(&mut context, 5).expect("its task lives");
        assert_eq!(lives.fetch_add(&mut context, 0).expect("its task lives"), 5);
        println!("\nall was as expected");
        // The other survivor may not have written yet, and accesses this task's memory.
        while segment.get(1).expect("it exists") != 5 {}
    };
    job("a_task_that_has_died_is_not_accessed").tasks(3).run_and_judge(body, |outcome| {
        let failure = outcome.failure.as_ref().expect("task 1 failed");
        assert_eq!((failure.task, failure.cause), (1, Cause::Signalled(9)));
        for survivor in [0, 2] {
            let TaskOutcome { stdout, stderr, .. } = &outcome.tasks[survivor];
            assert!(stdout.contains("all was as expected"), "{stdout}{stderr}");
        }
    });
}

/// The owner closes its context without closing the heap, and no message tells the others. Its memory stays as it is.
#[test]
fn memory_of_a_context_that_was_closed_is_not_accessed() {
    job("memory_of_a_context_that_was_closed_is_not_accessed").tasks(2).run(|| {
        let task = Task::join().expect("the launcher made a job");
        let [mut main, mut closing] = two_contexts(&task);
        let segment = Segment::<u64>::new(&mut closing, 4).expect("all tasks make it");
        let word = segment.at(TaskId(1), 1).expect("it exists");
        if task.number() == 0 {
            word.write(&mut closing, 7).expect("it is mapped");
            main.gfence().expect("all tasks reach the fence");
            main.gfence().expect("all tasks reach the fence");
            is_refused(&mut closing, word, |error| {
                is_stale(error) || matches!(error, Error::ContextClosed { .. })
            });
        } else {
            main.gfence().expect("all tasks reach the fence");
            drop(closing);
            main.gfence().expect("all tasks reach the fence");
        }
        main.gfence().expect("all tasks reach the fence");
        let expected = if task.number() == 1 { 7 } else { 0 };
        assert_eq!(segment.get(1).expect("it exists"), expected);
    });
}

/// A task that still holds a segment keeps its heap; the others have ended theirs. Late writes to these are errors, and change no memory
/// that was made since. Each task has written after a fence, before the others have closed.
#[test]
fn late_writes_to_a_closed_heap_are_errors() {
    job("late_writes_to_a_closed_heap_are_errors").tasks(2).run(|| {
        let task = Task::join().expect("the launcher made a job");
        let mut context = task.context().expect("the job has memory");
        let is_holder = task.number() == 0;
        let peer = TaskId(1 - task.number());
        let mut heap = SymmetricHeap::new(&mut context, 4096).expect("all tasks make it");
        let segment = heap.alloc::<u64>(4).expect("it fits");
        let word = segment.at(peer, 1).expect("it exists");
        context.gfence().expect("all tasks reach the fence");
        word.write(&mut context, 7).expect("the other task has not ended its close");
        let held = is_holder.then_some(segment);
        let kept = heap.close(&mut context).expect("all tasks reach the fence");
        assert_eq!(kept.is_err(), is_holder);
        // New memory, which may have the regions and the files of the old.
        let new: Vec<_> =
            (0..3).map(|_| Segment::<u64>::new(&mut context, 512).expect("all tasks make it")).collect();
        if is_holder {
            is_refused(&mut context, word, is_stale);
        } else {
            // The other task's part is still exposed.
            assert_eq!(word.fetch_add(&mut context, 1).expect("exposed"), 7);
            word.write(&mut context, 9).expect("exposed");
        }
        context.gfence().expect("all tasks reach the fence");
        for segment in &new {
            assert_eq!(segment.to_vec(), [0; 512]);
        }
        if let (Err(heap), Some(segment)) = (kept, held) {
            assert_eq!(segment.get(1).expect("it exists"), 9);
            drop(segment);
            assert!(heap.close(&mut context).expect("all tasks reach the fence").is_ok());
        } else {
            context.gfence().expect("all tasks reach the fence");
        }
        context.gfence().expect("all tasks reach the fence");
        is_refused(&mut context, word, is_stale);
        context.gfence().expect("all tasks reach the fence");
    });
}

/// One task has no descriptor left with which it could open the others' parts, but one for its own.
#[test]
fn a_task_that_cannot_map_a_part_ends_the_heap_of_all() {
    let test = "a_task_that_cannot_map_a_part_ends_the_heap_of_all";
    job(test).tasks(3).after("ulimit -n 256").run(|| {
        let task = Task::join().expect("the launcher made a job");
        let mut context = task.context().expect("the job has memory");
        context.gfence().expect("all tasks reach the fence");
        for _ in 0..2 {
            let is_full = task.number() == 1;
            let mut files: Vec<File> = Vec::new();
            if is_full {
                files.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
                drop(files.pop());
            }
            let error = SymmetricHeap::new(&mut context, 4096).expect_err("a task cannot map its parts");
            match &error {
                Error::System { doing, .. } if is_full => assert!(doing.contains("opening"), "{error}"),
                Error::Protocol { peer, .. } if !is_full => assert_eq!(peer.task, TaskId(1)),
                _ => panic!("{error}"),
            }
            drop(files);
            let segment = Segment::<u64>::new(&mut context, 4).expect("all tasks can map it");
            let word = segment.at(TaskId(2 - task.number()), 1).expect("it exists");
            word.write(&mut context, 7).expect("it is mapped");
            context.gfence().expect("all tasks reach the fence");
            assert_eq!(segment.get(1).expect("it exists"), 7);
        }
    });
}
