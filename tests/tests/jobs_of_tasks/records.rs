//! Statistics and traces: the figures agree with the program, and a viewer can read the trace.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use am_core::prelude::*;
use am_tests::harness::{Outcome, job};
use am_tests::programs::{self, Scratch};
use am_via::Task;
use am_via_launch::{Messages, Record, Statistics, TaskStatistics};
use serde_json::Value;

fn statistics(outcome: &Outcome) -> Vec<TaskStatistics> {
    assert!(outcome.is_success, "the job failed");
    Statistics::of(&outcome.recorded).tasks
}

/// Number of messages, and their bytes.
fn of(list: &[Messages], name: &str, peer: u32) -> (u64, u64) {
    let found = list.iter().find(|messages| messages.name == name && messages.peer == Some(peer));
    found.map_or((0, 0), |messages| (messages.count, messages.bytes))
}

#[test]
fn the_figures_of_an_mpi_program_are_those_of_its_messages() {
    job("the_figures_of_an_mpi_program_are_those_of_its_messages")
        .tasks(2)
        .record(Record::Sums)
        .run_and_judge(
            || {
                let mpi = mpi_over_am::Environment::init().expect("a job");
                let world = mpi.world();
                let large = vec![7u8; 1 << 20];
                if world.rank() == 0 {
                    for tag in 0..100 {
                        world.send(&[1u8; 40], 1, tag).expect("the message is sent");
                    }
                    world.ssend(&2u64, 1, 100).expect("the message is received");
                    world.send(&large, 1, 101).expect("the message is sent");
                } else {
                    let mut got = vec![0u8; 1 << 20];
                    // The other messages arrive before their receives.
                    for tag in (0..100).rev() {
                        world.recv(&mut got[..40], 0, tag).expect("the message arrives");
                    }
                    world.recv(&mut got[..8], 0, 100).expect("the message arrives");
                    world.recv(&mut got, 0, 101).expect("the message arrives");
                }
                mpi.finalize().expect("all tasks finalize");
            },
            |outcome| {
                let tasks = statistics(outcome);
                assert_eq!(of(&tasks[0].sent, "eager", 1), (100, 4000));
                assert_eq!(of(&tasks[0].sent, "synchronous", 1), (1, 8));
                assert_eq!(of(&tasks[0].sent, "rendezvous", 1), (1, 1 << 20));
                assert_eq!(of(&tasks[1].received, "received", 0), (102, 4008 + (1 << 20)));
                assert_eq!(of(&tasks[1].events, "early arrival", 0), (99, 99 * 40));
                let early = tasks[1].queues.iter().find(|queue| queue.name == "early messages");
                assert_eq!(early.map(|queue| queue.longest), Some(99));
                assert!(
                    outcome.recorded.iter().all(|task| task.events.is_empty()),
                    "only sums were requested"
                );
            },
        );
}

#[test]
fn the_figures_of_a_one_sided_program_are_those_of_its_operations() {
    job("the_figures_of_a_one_sided_program_are_those_of_its_operations")
        .tasks(2)
        .record(Record::Events)
        .run_and_judge(
            || one_sided().expect("nothing goes wrong"),
            |outcome| {
                let tasks = statistics(outcome);
                assert_eq!(of(&tasks[0].sent, "amsend", 1), (11, 10 * 5 + 100_000));
                assert_eq!(of(&tasks[1].received, "handler", 0), (11, 10 * 5 + 100_000));
                assert_eq!(of(&tasks[0].moved, "put", 1), (21, 20 * 8 + 4096));
                assert_eq!(of(&tasks[0].moved, "get", 1), (1, 4096));
                assert_eq!(of(&tasks[0].moved, "rmw", 1), (1, 8));
                for call in ["gfence", "get", "rmw"] {
                    assert!(
                        tasks[0].calls.iter().any(|known| known.name == call),
                        "{call}: {:?}",
                        tasks[0].calls
                    );
                }
                assert!(
                    tasks[1].calls.iter().any(|call| call.name == "wait_counter"),
                    "{:?}",
                    tasks[1].calls
                );
                let trace = am_via_launch::Trace::of(&outcome.recorded);
                let scratch = Scratch::new("one_sided_trace");
                let path = scratch.path().join("trace.json");
                trace.write(&path).expect("a test can write where temporary files go");
                assert_eq!(arrows(&read(&path)), 11);
            },
        );
}

fn one_sided() -> am_core::Result<()> {
    let mut context = Task::join()?.context()?;
    let (came, written) = (context.counter()?, context.counter()?);
    let handler = context.register_handler(move |_| Answer::consumed(Completion::Bump(came)))?;
    let large = context.register_handler(move |message| {
        Answer::owned(
            JobBuffer::zeroed(usize::try_from(message.len).expect("it fits")),
            Completion::Bump(came),
        )
    })?;
    let memory = context.alloc(4096)?;
    let region = context.expose(memory, Access::READ_WRITE)?;
    let there = context.address_init(region.address(0))?[1];
    if context.task() == TaskId(0) {
        for _ in 0..10 {
            context.amsend(TaskId(1), handler, b"a", b"hello", AmOptions::default())?;
        }
        context.amsend(TaskId(1), large, b"b", &vec![1; 100_000], AmOptions::default())?;
        let before = context.statistics().puts;
        let options = PutOptions { target: Some(written.name()), ..PutOptions::default() };
        for _ in 0..20 {
            context.put(there, &1u64.to_le_bytes(), options)?;
        }
        context.put(there, &[1; 4096], PutOptions::default())?;
        assert_eq!(context.statistics().puts - before, 21, "puts of both kinds are counted once");
        context.get(there, &mut [0; 4096], GetOptions::default())?;
        context.rmw(there, Width::Bits64, AtomicOp::FetchAdd(1))?;
    } else {
        context.wait_counter(came, 11)?;
        context.wait_counter(written, 20)?;
    }
    context.gfence()
}

/// Compiles the program `t_trace.c`.
fn program(scratch: &Scratch) -> PathBuf {
    programs::build();
    let program = scratch.path().join("t_trace");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/t_trace.c");
    let mut compile = Command::new(programs::folder().join("mpicc"));
    let (good, said) =
        programs::run(compile.args(["-g", "-Wall", "-Wextra", "-Werror", source, "-o"]).arg(&program));
    assert!(good, "{said}");
    program
}

fn mpiexec(test: &str, options: &[&str], arguments: &[&str]) -> (bool, String) {
    let scratch = Scratch::new(test);
    let program = program(&scratch);
    let mut command = Command::new(programs::folder().join("mpiexec"));
    programs::run(command.args(["-n", "2", "--timeout", "100"]).args(options).arg(program).args(arguments))
}

/// The line of JSON in the output of the launcher.
fn json(said: &str) -> Value {
    let line = said.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{said}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("the launcher has written it");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Checks the properties on which a viewer relies: spans are nested in each thread, and each arrow has one end, and one beginning before
/// it. Returns the number of arrows.
#[track_caller]
fn arrows(trace: &Value) -> usize {
    let mut open: HashMap<(u64, u64), Vec<String>> = HashMap::new();
    let mut ends: HashMap<u64, (Vec<f64>, Vec<f64>)> = HashMap::new();
    for event in trace["traceEvents"].as_array().expect("a list of events") {
        let thread = (event["pid"].as_u64().expect("a task"), event["tid"].as_u64().expect("a thread"));
        let name = event["name"].as_str().expect("a name").to_owned();
        let arrow =
            || (event["id"].as_u64().expect("an arrow has a number"), event["ts"].as_f64().expect("a time"));
        match event["ph"].as_str().expect("a kind") {
            "B" => open.entry(thread).or_default().push(name),
            "E" => assert_eq!(open.get_mut(&thread).and_then(Vec::pop), Some(name), "spans are nested"),
            "s" => ends.entry(arrow().0).or_default().0.push(arrow().1),
            "f" => ends.entry(arrow().0).or_default().1.push(arrow().1),
            "M" | "X" | "i" | "C" => {}
            other => panic!("{other} is not a kind of event that the launcher writes"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "each span ends: {open:?}");
    for (number, ends) in &ends {
        match (&ends.0[..], &ends.1[..]) {
            ([sent], [received]) if sent < received => {}
            other => panic!("arrow {number}: {other:?}"),
        }
    }
    ends.len()
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_c_program_has_figures_and_a_trace() {
    // Without a spin, the wait for the first answer is a sleep. If there are fewer processors than tasks, it first yields the processor
    // some dozens of times, which takes long on a busy machine.
    let sleeps = ["300", "2000", "20000"].into_iter().any(a_c_program_that_pauses_has_figures_and_a_trace);
    assert!(sleeps, "a task has waited for 20 seconds without a sleep");
}

/// Returns whether a wait for this number of milliseconds was a sleep.
fn a_c_program_that_pauses_has_figures_and_a_trace(milliseconds: &str) -> bool {
    let scratch = Scratch::new("c_trace");
    let path = scratch.path().join("trace.json");
    let pause = format!("T_TRACE_MILLISECONDS={milliseconds}");
    let settings = ["-x", "AM_SPIN_MICROSECONDS_MAX=0", "-x", &pause];
    let written = path.display().to_string();
    let options = [&settings[..], &["--stats", "--json", "--trace", &written]].concat();
    let (good, said) = mpiexec("t_trace", &options, &[]);
    assert!(good, "{said}");
    assert_eq!(arrows(&read(&path)), 24, "a message each");
    let value = json(&said);
    let sender = &value["tasks"][0];
    let call = |name: &str| {
        let calls = sender["calls"].as_array().expect("a list");
        calls.iter().find(|call| call["name"] == name).map(|call| call["count"].clone())
    };
    assert_eq!((call("MPI_Send"), call("MPI_Recv")), (Some(14.into()), Some(10.into())), "{said}");
    assert!(!said.contains("progress thread"), "the job has no such thread: {said}");
    let sent = sender["sent"].as_array().expect("a list");
    let of = |name: &str| {
        sent.iter().find(|sent| sent["name"] == name).map(|sent| (&sent["count"], &sent["bytes"]))
    };
    assert_eq!(of("eager"), Some((&13.into(), &104.into())), "{said}");
    assert_eq!(of("rendezvous"), Some((&1.into(), &(1 << 20).into())), "{said}");
    assert!(sender["seconds_in_calls"].as_f64() >= sender["seconds_asleep"].as_f64(), "{said}");
    sender["sleeps"].as_u64() > Some(0) && sender["seconds_asleep"].as_f64() > Some(0.1)
}

/// The hosts' clocks differ, but the trace has the launcher's time: each arrow ends later than it begins.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
#[cfg_attr(all(has_cc, not(has_libfabric)), ignore = "libfabric.so.1 was not found")]
fn the_figures_and_the_trace_of_several_hosts_are_one_job_s() {
    let scratch = Scratch::new("hosts_trace");
    let path = scratch.path().join("trace.json");
    let program = program(&scratch);
    let mut command = programs::amrun_on_hosts(&scratch, 2, "first,late");
    let options = ["--timeout", "100", "--stats", "--json", "--trace", &path.display().to_string()];
    let (good, said) = programs::run(command.args(options).arg(&program));
    assert!(good, "{said}");
    let trace = read(&path);
    assert_eq!(arrows(&trace), 24, "a message each");
    let events = trace["traceEvents"].as_array().expect("a list of events");
    let ends = events.iter().filter_map(|event| event["ts"].as_f64()).fold(0.0, f64::max);
    assert!(ends < 1e11, "the clocks differ by a million seconds, and the job took {ends} us");
    let titles: Vec<&Value> = events
        .iter()
        .filter(|event| event["name"] == "process_name")
        .map(|event| &event["args"]["name"])
        .collect();
    assert_eq!(titles, ["task 0 on host first", "task 1 on host late"]);
    let value = json(&said);
    assert_eq!(value["hosts"], serde_json::json!(["first", "late"]), "{said}");
    let sum = |task: usize, list: &str, field: &str| -> u64 {
        let list = value["tasks"][task][list].as_array().expect("a list");
        let of_program = list.iter().filter(|messages| messages["name"] != "control");
        of_program.map(|messages| messages[field].as_u64().expect("a number")).sum()
    };
    assert_eq!((sum(0, "sent", "count"), sum(0, "sent", "bytes")), (14, 13 * 8 + (1 << 20)), "{said}");
    assert_eq!((sum(1, "received", "count"), sum(1, "sent", "count")), (14, 10), "{said}");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn the_trace_of_a_task_that_died_is_there_to_its_last_call() {
    let scratch = Scratch::new("c_trace_of_the_dead");
    let path = |name: &str| -> PathBuf { scratch.path().join(name) };
    for name in ["trace.json", "trace.txt"] {
        let (good, said) =
            mpiexec("t_trace_death", &["--trace", &path(name).display().to_string()], &["die"]);
        assert!(!good && said.contains("task 1 exited with code 3"), "{said}");
    }
    let trace = read(&path("trace.json"));
    arrows(&trace);
    let events = trace["traceEvents"].as_array().expect("a list of events");
    let is_cut = |event: &&Value| event["pid"] == 1 && event["args"]["cut off"] == true;
    assert!(events.iter().filter(is_cut).any(|event| event["name"] == "MPI_Recv"), "{trace}");
    let tree = std::fs::read_to_string(path("trace.txt")).expect("the launcher has written it");
    let of_dead = tree.split_once("task 1\n").expect("a tree for each task").1;
    assert!(of_dead.lines().any(|line| line.contains("MPI_Recv: ") && line.ends_with("cut off")), "{tree}");
}

/// With `MPI_DEBUG=1` a task prints its calls and messages, as MPICH over Portals did.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_person_who_debugs_sees_calls_as_they_happen() {
    let (good, said) = mpiexec("t_trace_debug", &["-x", "MPI_DEBUG=1"], &[]);
    assert!(good, "{said}");
    let of_sender: Vec<&str> = said.lines().filter(|line| line.starts_with("task 0: ")).collect();
    let at =
        of_sender.iter().position(|line| *line == "task 0: MPI_Send {").unwrap_or_else(|| panic!("{said}"));
    assert_eq!(of_sender[at + 1], "task 0:   eager to task 1, tag 0, 8 bytes", "{said}");
    assert!(of_sender[at + 2].starts_with("task 0: } ") && of_sender[at + 2].ends_with(" us"), "{said}");
}
