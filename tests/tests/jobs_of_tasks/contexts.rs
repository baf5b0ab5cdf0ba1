//! Several contexts in a process, each with its own thread: they share nothing, and a message, a put or a get goes to the context that it
//! names.

use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use am_core::buffer::{Access, Executor, JobBuffer};
use am_core::error::{Error, Fault, RangeFault};
use am_core::handler::{Answer, Completion, Delivered, Message};
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core::transfer::{AtomicOp, Width};
use am_core::{AmOptions, Amsend, Context, GetOptions, PutOptions};
use am_core_conform::{conformance, is_long};
use am_tests::harness::job;
use am_via::Task;
use am_via::start::ShmFabric;

const CONTEXTS: u8 = 3;

fn in_threads(body: impl Fn(u8, &mut Context<ShmFabric>) + Sync) {
    in_so_many_threads(CONTEXTS, body);
}

fn in_so_many_threads(threads: u8, body: impl Fn(u8, &mut Context<ShmFabric>) + Sync) {
    let task = Task::join().expect("the launcher made a job");
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (task, body) = (&task, &body);
            scope.spawn(move || {
                let fabric = task.fabric(number).expect("the job has memory");
                body(number, &mut Context::new(fabric));
            });
        }
    });
}

#[test]
fn each_context_passes_the_suite_beside_the_others() {
    for memory in ["auto", "staged"] {
        job("each_context_passes_the_suite_beside_the_others")
            .tasks(2)
            .env("AM_MEMORY", memory)
            .time_limit(Duration::from_secs(1000))
            .run(|| {
                in_threads(|number, context| {
                    // Each thread begins with different checks.
                    let filters =
                        [["amsend", "put", "rmw"], ["vector", "amsend", "put"], ["rmw", "purge", "fence"]];
                    let count = if is_long() { 3 } else { 1 };
                    for filter in &filters[usize::from(number)][..count] {
                        conformance::run_all(filter, context);
                    }
                });
            });
    }
}

/// A context that its task has closed is gone for all other tasks, while the task goes on with another context.
#[test]
fn a_closed_context_is_seen_as_gone() {
    job("a_closed_context_is_seen_as_gone").tasks(3).run(|| {
        let task = Task::join().expect("the launcher made a job");
        let mut first = Context::new(task.fabric(0).expect("the job has memory"));
        let handler = first.register_handler(|_| Answer::discard()).expect("expose");
        first.gfence().expect("all tasks reach the fence");
        let known = Endpoint::new(TaskId(2), ContextNumber(1));
        let unknown = Endpoint::new(TaskId(2), ContextNumber(2));
        if task.number() == 2 {
            for number in [1, 2] {
                let mut closing = Context::new(task.fabric(number).expect("the job has memory"));
                let heard = Arc::new(AtomicU32::new(0));
                let by_handler = Arc::clone(&heard);
                let handler = move |message: &Message<'_>| {
                    by_handler.fetch_or(1 << message.source.task.0, Ordering::Relaxed);
                    Answer::discard()
                };
                closing.register_handler(handler).expect("expose");
                if number == 1 {
                    // Makes progress until both other tasks have sent: one of them sends all the time, the other may be late.
                    closing.wait_until(|_| Ok(heard.load(Ordering::Relaxed) == 0b11)).expect("both talk");
                }
            }
            println!("closed");
            first.gfence().expect("all tasks reach the fence");
            first.gfence().expect("all tasks reach the fence");
            return;
        }
        let long = vec![1; 1 << 20];
        first.amsend(known, handler, &[], &[1], AmOptions::default()).expect("the message is sent");
        // Operations in flight when the context closes end with the error, and so do later operations.
        let later = |first: &mut Context<ShmFabric>| match task.number() {
            0 => first.fence_ops(Some(known)),
            _ => {
                first.amsend(known, handler, &[], &long, AmOptions { announce: true, ..AmOptions::default() })
            }
        };
        let mut ended = Ok(());
        while ended.is_ok() {
            ended = later(&mut first);
        }
        is_about(ended, known);
        for _ in 0..3 {
            is_about(first.fence_data(Some(known)), known);
            is_about(first.amsend(known, handler, &[], &[1; 8], AmOptions::default()), known);
            is_about(first.amsend(known, handler, &[], &long, AmOptions::default()), known);
        }
        // A collective fence also reports the error, and still brings all tasks through its barrier.
        is_about(first.gfence(), known);
        is_about(first.amsend(unknown, handler, &[], &[1], AmOptions::default()), unknown);
        is_about(first.fence_ops(Some(unknown)), unknown);
        first.gfence().expect("all tasks reach the fence");
    });
}

/// The position of a context in shared memory is computed from its number: an impossible number would lead to other words of the target,
/// such as its table of regions.
#[test]
fn a_message_to_a_context_that_no_task_can_have_changes_nothing_at_its_target() {
    job("a_message_to_a_context_that_no_task_can_have_changes_nothing_at_its_target").tasks(2).run(|| {
        let task = Task::join().expect("the launcher made a job");
        let mut context = task.context().expect("the job has memory");
        let handler = context.register_handler(|_| Answer::discard()).expect("expose");
        let regions: Vec<_> = (0..7)
            .map(|_| {
                let memory = context.alloc(64).expect("job memory");
                context.expose(memory, Access::READ).expect("a region")
            })
            .collect();
        let mut victims = Vec::new();
        for region in &regions {
            victims.push(context.address_init(region.address(0)).expect("all tasks exchange addresses")[0]);
        }
        if task.number() == 1 {
            for number in 16..=u8::MAX {
                let nowhere = Endpoint::new(TaskId(0), ContextNumber(number));
                let sent = context.amsend(nowhere, handler, &[], &[1], AmOptions::default());
                match sent {
                    Err(error @ Error::UnknownContext { endpoint, contexts_max: 16 }) => {
                        assert_eq!((endpoint, error.fault()), (nowhere, Fault::Caller));
                    }
                    other => panic!("the error does not name the context: {other:?}"),
                }
            }
            for &victim in &victims {
                let put = context.put(victim, &[1; 8], PutOptions::default());
                assert!(
                    matches!(put, Err(Error::RemoteRange { .. })),
                    "the region was exposed for reading only: {put:?}"
                );
            }
        }
        context.gfence().expect("all tasks reach the fence");
        for region in regions {
            assert!(
                context
                    .unexpose(region)
                    .expect("the region belongs to this context")
                    .iter()
                    .all(|&byte| byte == 0)
            );
        }
    });
}

/// After a context is opened again, no address of its earlier regions is valid.
#[test]
fn an_address_of_a_closed_context_is_stale_when_it_is_open_again() {
    job("an_address_of_a_closed_context_is_stale_when_it_is_open_again").tasks(2).run(|| {
        let task = Task::join().expect("the launcher made a job");
        let mut first = task.context().expect("the job has memory");
        let exposed = |task: &Task| {
            let mut context = Context::new(task.fabric(1).expect("the context is not open elsewhere"));
            let memory = context.alloc(64).expect("job memory");
            let region = context.expose(memory, Access::READ_WRITE).expect("a region");
            (context, region)
        };
        let (context, region) = exposed(&task);
        let old = first.address_init(region.address(0)).expect("all tasks exchange addresses")[1];
        if task.number() == 1 {
            drop((region, context));
        }
        first.gfence().expect("all tasks reach the fence");
        if task.number() == 0 {
            let put = first.put(old, &[7; 8], PutOptions::default());
            let is_closed =
                matches!(put, Err(Error::ContextClosed { endpoint, .. }) if endpoint == old.owner());
            assert!(put.is_ok() || is_closed, "the put fails only because the context is closed: {put:?}");
        }
        first.gfence().expect("all tasks reach the fence");
        let again = (task.number() == 1).then(|| exposed(&task));
        let now = again.as_ref().map_or(old, |(_, region)| region.address(0));
        let new = first.address_init(now).expect("all tasks exchange addresses")[1];
        assert_ne!(old, new, "a name is given once");
        if task.number() == 0 {
            let put = first.put(old, &[7; 8], PutOptions::default());
            assert!(is_stale(&put), "an old address: {put:?}");
            first.put(new, &[1; 8], PutOptions::default()).expect("the new one");
        }
        first.gfence().expect("all tasks reach the fence");
        if let Some((_, region)) = again {
            assert_eq!(region.load_u64(0).expect("a word"), u64::from_ne_bytes([1; 8]));
        }
    });
}

fn is_stale(ended: &Result<(), Error>) -> bool {
    matches!(ended, Err(Error::RemoteRange { why: RangeFault::Stale, .. }))
}

/// A peer still has the state of the first opening, which does not fit the messages of a second opening.
#[test]
fn a_context_that_was_connected_is_not_opened_again() {
    job("a_context_that_was_connected_is_not_opened_again").tasks(2).run(|| {
        let task = Task::join().expect("the launcher made a job");
        let mut first = task.context().expect("the job has memory");
        first.gfence().expect("all tasks reach the fence");
        drop(first);
        let refused = task.fabric(0).expect_err("the peer still has the state of the first opening");
        assert_eq!(refused.fault(), Fault::Caller, "{refused}");
        assert!(refused.to_string().contains("open another number"), "{refused}");
        let mut second = Context::new(task.fabric(1).expect("it was never open"));
        second.gfence().expect("all tasks reach the fence");
    });
}

/// A task executes another program, which may join the job: addresses of the old program's memory are not valid any more.
#[test]
fn an_address_of_the_program_before_an_exec_is_stale() {
    job("an_address_of_the_program_before_an_exec_is_stale").tasks(2).run(|| {
        let task = Task::join().expect("the launcher made a job, and this process is still its task");
        let is_new = std::env::var_os("IS_NEW").is_some();
        if task.number() == 1 && !is_new {
            let mut before = task.context().expect("the job has memory");
            let mut memory = before.alloc(1 << 20).expect("job memory");
            memory.fill(0xEE);
            let of_job = before.expose(memory, Access::READ_WRITE).expect("a region");
            let private = before.expose(vec![0xEE; 1 << 20].into(), Access::READ_WRITE).expect("a region");
            before.address_init(of_job.address(0)).expect("all tasks exchange addresses");
            before.address_init(private.address(0)).expect("all tasks exchange addresses");
            before.gfence().expect("all tasks reach the fence");
            let mut args = std::env::args_os();
            let own = args.next().expect("a name");
            let error = std::process::Command::new(own).args(args).env("IS_NEW", "1").exec();
            panic!("this task could not become another program: {error}");
        }
        let mut old = Vec::new();
        let mut before = None;
        if task.number() == 0 {
            let mut context = task.context().expect("the job has memory");
            for _ in 0..2 {
                let memory = context.alloc(64).expect("job memory");
                let region = context.expose(memory, Access::READ).expect("a region");
                old.push(context.address_init(region.address(0)).expect("all tasks exchange addresses")[1]);
            }
            context.gfence().expect("all tasks reach the fence");
            before = Some(context);
        }
        let mut after = Context::new(task.fabric(1).expect("it was never open"));
        let memory = after.alloc(1 << 20).expect("job memory");
        assert!(memory.iter().all(|&byte| byte == 0), "the memory of the old program is not visible");
        let region = after.expose(memory, Access::READ_WRITE).expect("a region");
        after.gfence().expect("all tasks reach the fence");
        if let Some(context) = &mut before {
            for &old in &old {
                let put = context.put(old, &[7; 8], PutOptions::default());
                assert!(is_stale(&put), "an old address: {put:?}");
            }
        }
        after.gfence().expect("all tasks reach the fence");
        let memory = after.unexpose(region).expect("this context has exposed the region");
        assert!(memory.iter().all(|&byte| byte == 0), "an old address writes nothing");
    });
}

/// The global allocator relies on this: used memory is zeroed before it is handed out again.
#[test]
fn memory_is_zero_after_all_is_dropped_and_joined_again() {
    job("memory_is_zero_after_all_is_dropped_and_joined_again").run(|| {
        for byte in 1..4 {
            let task = Task::join().expect("the launcher made a job");
            let mut context = task.context().expect("the job has memory");
            for len in [64, 64 << 10, 4 << 20] {
                let mut memory = context.alloc(len).expect("job memory");
                assert!(memory.iter().all(|&byte| byte == 0), "{len} bytes are not zero");
                memory.fill(byte);
            }
        }
    });
}

/// Every task can write to the job file, so a length in it is not trusted.
#[test]
fn a_length_that_another_task_has_written_maps_nothing_beyond_the_file() {
    const HEAP: usize = 64 << 20;
    let mib = (HEAP >> 20).to_string() + "MiB";
    job("a_length_that_another_task_has_written_maps_nothing_beyond_the_file").env("AM_HEAP_BYTES", mib).run(
        || {
            let own = |name: &str| {
                let files = std::fs::read_dir("/proc/self/fd").expect("Linux").filter_map(Result::ok);
                let found = files.map(|entry| entry.path()).find(|path| {
                    std::fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains(name))
                });
                let path = found.expect("a task inherits the job's files");
                std::fs::File::options().read(true).write(true).open(path).expect("it is this user's")
            };
            let len = own("am-heap").metadata().expect("a file").len();
            let job_file = own("am-job");
            let mut head = vec![0; 4096];
            job_file.read_exact_at(&mut head, 0).expect("a file");
            for at in (0..head.len()).step_by(8) {
                if head[at..at + 8] == len.to_ne_bytes() {
                    job_file.write_all_at(&(16 * len).to_ne_bytes(), at as u64).expect("a file");
                }
            }
            let task = Task::join().expect("the launcher made a job");
            let mut context = task.context().expect("the job has memory");
            let refused = context.alloc(2 * HEAP).map(|mut memory| memory.fill(1));
            let error = refused.expect_err("the file is shorter");
            assert_eq!(error.fault(), Fault::Resource, "{error}");
            context.alloc(HEAP / 2).expect("the file holds this").fill(1);
        },
    );
}

fn is_about(ended: Result<(), Error>, closed: Endpoint) {
    match ended {
        Err(Error::ContextClosed { endpoint, after }) => assert_eq!((endpoint, &*after), (closed, "")),
        other => panic!("the error does not name the closed context: {other:?}"),
    }
}

/// Number of threads of each task in `every_thread_to_every_thread`.
const THREADS: u8 = 4;
/// Number of messages from each thread to each other thread.
const MESSAGES: u32 = 80;

/// Threads that each own a context: every thread sends to every context by name, also within its own task and to itself.
#[test]
fn every_thread_to_every_thread() {
    for memory in ["auto", "staged"] {
        job("every_thread_to_every_thread")
            .tasks(2)
            .env("AM_MEMORY", memory)
            .time_limit(Duration::from_secs(1000))
            .run(|| in_so_many_threads(THREADS, to_everybody));
    }
}

/// Length of message `number`: tiny messages, messages of one packet, and long ones.
fn len_of(number: u32) -> usize {
    [3, 700, 40_000][number as usize % 3]
}

fn to_everybody(own: u8, context: &mut Context<ShmFabric>) {
    static DONE: AtomicU8 = AtomicU8::new(0);
    let came = context.counter().expect("counter");
    let mut next = [[0_u32; THREADS as usize]; 2];
    let handler = context.register_handler(move |message| {
        let (source, to) = (message.source, message.uhdr[0]);
        assert_eq!(to, own, "the queue of another thread");
        let number = u32::from_le_bytes(message.uhdr[1..].try_into().expect("four bytes"));
        let expected = &mut next[source.task.index()][usize::from(source.context.0)];
        assert_eq!(number, *expected, "the order of {source}'s messages");
        *expected += 1;
        assert_eq!(message.len, len_of(number) as u64);
        let place = JobBuffer::zeroed(len_of(number));
        let mark = source.task.0.to_le_bytes()[0] << 4 | source.context.0;
        let check = move |delivered: Delivered| {
            delivered.outcome.expect("the message arrives whole");
            let bytes = delivered.buffer.expect("the buffer of the destination");
            assert!(bytes[..] == vec![mark; len_of(number)], "somebody else's bytes");
        };
        Answer::owned(place, Completion::Call(Box::new(check)))
    });
    let handler = handler.expect("the first handler");
    context.gfence().expect("all tasks reach the fence");
    let me = context.endpoint();
    let mark = me.task.0.to_le_bytes()[0] << 4 | me.context.0;
    let options = AmOptions { target: Some(came.name()), ..AmOptions::default() };
    for number in 0..MESSAGES {
        for task in 0..2 {
            // Each thread begins with a different target.
            for other in (0..THREADS).map(|other| (other + own) % THREADS) {
                let to = Endpoint::new(TaskId(task), ContextNumber(other));
                let mut uhdr = [other; 5];
                uhdr[1..].copy_from_slice(&number.to_le_bytes());
                context.amsend(to, handler, &uhdr, &vec![mark; len_of(number)], options).expect("amsend");
            }
        }
    }
    context
        .wait_counter(came, u64::from(2 * u32::from(THREADS) * MESSAGES))
        .expect("the counter reaches its value");
    context.fence_ops(None).expect("the fence completes");
    context.gfence().expect("gfence");
    // A closed context answers no fence, so all contexts of this task stay open until all have passed their fence.
    serve_until(context, &DONE, THREADS);
}

/// A thread that does not poll, whose senders have no credits left and full queues, does not block other threads of its process.
#[test]
fn a_context_that_stands_still_holds_up_no_other() {
    for memory in ["auto", "staged"] {
        job("a_context_that_stands_still_holds_up_no_other")
            .tasks(2)
            .env("AM_MEMORY", memory)
            .env("AM_CREDITS", "4")
            .run(|| in_threads(beside_one_that_stands_still));
    }
}

fn beside_one_that_stands_still(number: u8, context: &mut Context<ShmFabric>) {
    static FLOODED: AtomicU8 = AtomicU8::new(0);
    static PASSED: AtomicU8 = AtomicU8::new(0);
    let (came, back) = (context.counter().expect("counter"), context.counter().expect("counter"));
    let handler = context.register_handler(move |_| Answer::consumed(Completion::BumpAtSource(back.name())));
    let handler = handler.expect("the first handler");
    let memory = context.alloc(64).expect("alloc");
    let region = context.expose(memory, Access::READ_WRITE).expect("expose");
    let theirs = context.address_init(region.address(0)).expect("address_init");
    let other = 1 - context.task().index();
    let to = Endpoint::new(TaskId(1 - context.task().0), ContextNumber(number));
    let wait_for = |passed: &AtomicU8, count| {
        while passed.load(Ordering::SeqCst) < count {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    if number > 0 {
        wait_for(&FLOODED, 1);
        for round in 0..1000 {
            let options = AmOptions { target: Some(came.name()), answerable: true, ..AmOptions::default() };
            let len = [8, 500, 20_000][round % 3];
            context.amsend(to, handler, &[], &vec![1; len], options).expect("amsend");
            context.wait_counter(back, 1).expect("the message was handled, and its acknowledgement arrived");
            context.rmw(theirs[other], Width::Bits64, AtomicOp::FetchAdd(1)).expect("rmw");
        }
        context.wait_counter(came, 1000).expect("the counter reaches its value");
        context.gfence().expect("gfence");
        assert_eq!(region.load_u64(0).expect("load"), 1000);
        // None of these messages passed through the queues of the context that does not poll.
        let still = Endpoint::new(to.task, ContextNumber(0));
        let traffic = context.peer_statistics(still).expect("a task of the job");
        assert_eq!((traffic.packets_sent, traffic.packets_received), (0, 0));
        PASSED.fetch_add(1, Ordering::SeqCst);
        return;
    }
    // Both contexts flood each other, and then do not poll until the other threads of their tasks are done.
    let mut sent = Vec::new();
    while !context.peer_statistics(to).expect("a task of the job").packets_waiting {
        let buffer = JobBuffer::from(vec![1; 300]);
        let options = AmOptions { answerable: true, ..AmOptions::default() };
        sent.push(context.start(Amsend { target: to, handler, uhdr: &[], options }, buffer).expect("amsend"));
    }
    let count = sent.len() as u64;
    assert!(count >= 4, "{count} messages fill the queue");
    FLOODED.fetch_add(1, Ordering::SeqCst);
    wait_for(&PASSED, CONTEXTS - 1);
    for handle in sent {
        context.wait_owned(handle).expect("a handle of this context").1.expect("the message is delivered");
    }
    context.wait_counter(back, count).expect("the counter reaches its value");
    context.gfence().expect("gfence");
}

/// Messages to every context of the other task, and puts, gets and atomic updates, with each method of memory access.
#[test]
fn what_names_a_context_goes_there() {
    for memory in ["auto", "kernel", "staged"] {
        job("what_names_a_context_goes_there").tasks(2).env("AM_MEMORY", memory).run(|| in_threads(across));
    }
}

fn across(number: u8, context: &mut Context<ShmFabric>) {
    let (messages, puts) = (context.counter().expect("counter"), context.counter().expect("counter"));
    let handler = context.register_handler(move |message| {
        assert_eq!(message.uhdr, [message.source.context.0, number], "meant for this context");
        Answer::consumed(Completion::Bump(messages))
    });
    let handler = handler.expect("expose");
    let memory = context.alloc(4096).expect("alloc");
    let region = context.expose_with(memory, Access::READ_WRITE, Executor::Owner).expect("expose");
    let own = region.address(0);
    assert_eq!(own.owner(), context.endpoint());
    let theirs = context.address_init(own).expect("address_init");
    let other = TaskId(1 - context.task().0);
    // A message to every context of the other task.
    let peers: Vec<_> = (0..CONTEXTS).map(|peer| Endpoint::new(other, ContextNumber(peer))).collect();
    for &peer in &peers {
        context
            .amsend(peer, handler, &[number, peer.context.0], &[1; 100], AmOptions::default())
            .expect("amsend");
    }
    context.wait_counter(messages, u64::from(CONTEXTS)).expect("one of each context");
    let at = theirs[other.index()];
    let options = PutOptions { target: Some(puts.name()), ..PutOptions::default() };
    context.put(at.plus(64), &[number; 2000], options).expect("put");
    context.wait_counter(puts, 1).expect("the put bumps the counter of the context that exposed the region");
    context.rmw(at, Width::Bits64, AtomicOp::FetchAdd(5)).expect("rmw, by the owner");
    let mut back = [0; 2000];
    context.get(at.plus(64), &mut back, GetOptions::default()).expect("get");
    assert_eq!(back, [number; 2000]);
    context.gfence().expect("gfence");
    assert_eq!(region.load_u64(0).expect("load"), 5);
    context.gfence().expect("all tasks reach the fence");
    // A put to memory that another context has exposed. A thread gets the address from another thread of its task.
    exchange_between_contexts(number, context, own, puts);
    context.gfence().expect("gfence");
    drop(context.unexpose(region).expect("unexpose"));
    // A closed context answers no fence, so all contexts of this task stay open until all have passed their fence.
    static PASSED: AtomicU8 = AtomicU8::new(0);
    serve_until_all(context, &PASSED);
}

/// Makes progress until each context of this task has called this function.
fn serve_until_all(context: &mut Context<ShmFabric>, arrived: &AtomicU8) {
    serve_until(context, arrived, CONTEXTS);
}

fn serve_until(context: &mut Context<ShmFabric>, arrived: &AtomicU8, all: u8) {
    arrived.fetch_add(1, Ordering::SeqCst);
    while arrived.load(Ordering::SeqCst) < all {
        context.probe().expect("probe");
        std::thread::yield_now();
    }
}

/// Each context puts into the memory of the next context of the other task, whose address it gets from another thread of its process.
fn exchange_between_contexts(
    number: u8,
    context: &mut Context<ShmFabric>,
    own: am_core::buffer::RemoteAddress,
    puts: am_core::counter::Counter,
) {
    static TOLD: Mutex<Vec<(u8, am_core::buffer::RemoteAddress)>> = Mutex::new(Vec::new());
    static DONE: AtomicU8 = AtomicU8::new(0);
    static ALL: AtomicU8 = AtomicU8::new(0);
    let theirs = context.address_init(own).expect("address_init");
    let other = 1 - context.task().index();
    TOLD.lock().expect("no thread panics with the lock").push((number, theirs[other]));
    // Makes progress while it waits: contexts of the other task may still be in a fence that needs an answer from this context.
    serve_until_all(context, &ALL);
    let next = (number + 1) % CONTEXTS;
    let told = TOLD.lock().expect("no thread panics with the lock").clone();
    let &(_, at) = told.iter().find(|&&(context, _)| context == next).expect("all have told");
    assert_eq!(at.context, ContextNumber(next));
    let options = PutOptions { target: Some(puts.name()), ..PutOptions::default() };
    context.put(at.plus(1024), &[0xA0 + number; 2048], options).expect("put");
    context.rmw(at.plus(8), Width::Bits64, AtomicOp::FetchAdd(7)).expect("rmw");
    context.put(at.plus(1024), &[0xA0 + number; 8], options).expect("a tiny one");
    context.wait_counter(puts, 2).expect("the puts of the previous context arrive");
    context.fence_ops(None).expect("fence");
    // Makes progress until all contexts of this task are done: contexts of the other task may need answers from this one.
    serve_until_all(context, &DONE);
}
