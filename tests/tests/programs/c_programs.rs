//! C programs that test the C interface, by subject. Each is built with the wrapper `mpicc` of this build and run with 1, 2 and 3 tasks.

use std::path::Path;
use std::process::Command;

use am_tests::programs::{self, Scratch, run};
use mpi_over_am::{JobSettings, Settings, Table};

fn test(name: &str) {
    programs::compile_and_run("mpicc", &["-O1", "-Wall", "-Wextra", "-Werror"], &format!("c/{name}.c"));
}

/// The launcher's last line names the task that failed first, even if another task's process ends earlier.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn the_last_line_names_the_task_that_failed_first() {
    programs::build();
    let scratch = Scratch::new("t_first_failure");
    let program = scratch.path().join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/t_first_failure.c");
    let mut compile = Command::new(programs::folder().join("mpicc"));
    let (good, said) = run(compile.args(programs::compiler_options()).arg(source).arg("-o").arg(&program));
    assert!(good, "{said}");
    let mut start = Command::new(programs::folder().join("mpiexec"));
    let has_failed = scratch.path().join("has-failed");
    let (good, said) = run(start.args(["-n", "2", "--timeout", "60"]).arg(&program).arg(has_failed));
    assert!(!good);
    let last = said.lines().next_back().expect("a last line");
    assert!(last.contains(": task 1 ") && last.contains("MPI_ERR_TRUNCATE"), "{said}");
}

/// If an exit function of the program causes a second error, the process still ends as the first error demands, and prints only that one.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_second_fatal_error_does_not_hide_the_first() {
    programs::build();
    let scratch = Scratch::new("t_two_failures");
    let program = scratch.path().join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/t_two_failures.c");
    let mut compile = Command::new(programs::folder().join("mpicc"));
    let (good, said) = run(compile.args(programs::compiler_options()).arg(source).arg("-o").arg(&program));
    assert!(good, "{said}");
    for under in [&["mpiexec", "-n", "1", "--timeout", "60"][..], &[]] {
        let mut start = match under {
            [launcher, options @ ..] => {
                let mut start = Command::new(programs::folder().join(launcher));
                start.args(options).arg(&program);
                start
            }
            [] => Command::new(&program),
        };
        let output = start.output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr);
        // MPI_ERR_RANK
        assert_eq!(output.status.code(), Some(6), "{said}");
        assert!(said.contains("rank 77 does not exist") && !said.contains("rank 99"), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// The kernels and the accesses to files of the benchmark `compare` check their own results, and print a row each.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn the_kernels_of_the_comparison_have_the_right_results() {
    programs::build();
    let scratch = Scratch::new("t_kernels");
    let program = scratch.path().join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/c/compare.c");
    let mut compile = Command::new(programs::folder().join("mpicc"));
    compile.args(["-O1", "-Wall", "-Wextra", "-Werror"]).args(programs::compiler_options());
    let (good, said) = run(compile.arg(source).arg("-o").arg(&program).arg("-lpthread"));
    assert!(good, "{said}");
    for tasks in ["1", "2", "4"] {
        let mut job = Command::new(programs::folder().join("mpiexec"));
        let (good, said) = run(job.args(["-n", tasks]).arg(&program).args(["files", "-", "1"]));
        assert!(good && said.lines().filter(|line| line.starts_with("files_")).count() == 16, "{said}");
        let mut job = Command::new(programs::folder().join("mpiexec"));
        let (good, said) = run(job.args(["-n", tasks]).arg(&program).args(["kernels", "-", "1"]));
        assert!(good, "{said}");
        for kernel in ["ep", "is", "cg", "mg", "ft", "lu"] {
            let row = format!("kernel_{kernel} {tasks} ");
            assert_eq!(said.lines().filter(|line| line.starts_with(&row)).count(), 1, "{said}");
        }
    }
}

/// Defines one test for each program.
macro_rules! programs {
    ($($name:ident)*) => { $(
        #[test]
        #[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
        fn $name() {
            test(stringify!($name));
        }
    )* };
}

programs! {
    c_classes
    c_communicators
    c_datareps
    c_errhandlers
    c_faults
    c_files
    c_freed_requests
    c_hello
    c_levels
    c_objects
    c_kept_parts
    c_ports
    c_processes
    c_requests
    c_sessions
    c_sessions_alone
    c_sessions_late
    c_sessions_together
    c_shared_windows
    c_tables
    c_threads
    c_threads_callbacks
    d_callbacks_that_fail
    d_collectives
    d_cut_messages
    d_datatypes
    d_freed_types
    d_hints
    d_homeless_errors
    d_long_reductions
    d_point_to_point
    d_requests
    o_collectives
    o_collectives_large
    o_communicators
    o_environment
    o_files
    o_files_large
    o_messages
    o_objects
    o_point_to_point
    o_processes
    o_point_to_point_large
    o_tools
    o_types
    o_types_large
    o_windows
    o_windows_large
    t_old_names
    w_answers
    w_target_computes
    w_tools
}

/// The results are the same with one thread, with several threads, and with `AM_EAGER_SYNCHRONOUS=off`, although the calls take different
/// paths.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn c_answers() {
    let options = ["-O1", "-Wall", "-Wextra", "-Werror"];
    let settings: [&[_]; 3] = [&[], &[("WITH_THREADS", "multiple")], &[("AM_EAGER_SYNCHRONOUS", "off")]];
    programs::compile_and_run_under("mpicc", &options, "c/c_answers.c", &settings);
}

/// Any number of sends may be open at once (MPI 5.0, 3.5). The program prints the memory that each takes. `built` is the
/// folder of the library.
fn open_requests(built: &Path, sends: &str) {
    let scratch = Scratch::new("c_open_requests");
    let program = scratch.path().join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/c_open_requests.c");
    let mut compile = Command::new(built.join("mpicc"));
    compile.args(["-O1", "-Wall", "-Wextra", "-Werror"]).args(programs::compiler_options());
    let (good, said) = run(compile.arg(source).arg("-o").arg(&program));
    assert!(good, "{said}");
    let mut start = Command::new(built.join("mpiexec"));
    let (good, said) = run(start.args(["-n", "2"]).arg(&program).args([sends, sends]));
    println!("{said}");
    assert!(good && said.contains("all good"), "{said}");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn ten_thousand_sends_are_open_at_once() {
    programs::build();
    open_requests(&programs::folder(), "10000");
}

#[test]
#[ignore = "long"]
fn a_million_sends_are_open_at_once() {
    open_requests(&programs::build_optimised(), "1000000");
}

/// Objects of all kinds are made and freed a million times (collective ones 100 000 times), and 10 000 of each kind are alive at once
/// (MPI 5.0, 2.5.1). The error at the limit of live objects names the limit and what to do.
#[test]
#[ignore = "long"]
fn objects_are_made_and_freed_a_million_times() {
    let built = programs::build_optimised();
    let scratch = Scratch::new("c_tables");
    let program = scratch.path().join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/c_tables.c");
    let mut compile = Command::new(built.join("mpicc"));
    compile.args(["-O1", "-Wall", "-Wextra", "-Werror"]).args(programs::compiler_options());
    let (good, said) = run(compile.arg(source).arg("-o").arg(&program));
    assert!(good, "{said}");
    for (tasks, arguments) in [("2", ["1000000", "10000"]), ("1", ["0", "1100000"])] {
        let mut start = Command::new(built.join("mpiexec"));
        let (good, said) = run(start.args(["-n", tasks]).arg(&program).args(arguments));
        println!("{said}");
        assert!(good && said.contains("all good"), "{said}");
    }
}

/// The program with each method of memory access.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn w_one_sided() {
    let options = ["-O1", "-Wall", "-Wextra", "-Werror"];
    let settings: [&[_]; 3] = [&[], &[("AM_MEMORY", "kernel")], &[("AM_MEMORY", "staged")]];
    programs::compile_and_run_under("mpicc", &options, "c/w_one_sided.c", &settings);
}

/// The program with direct access to memory, without, and with few credits.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn w_pieces() {
    let options = ["-O1", "-Wall", "-Wextra", "-Werror"];
    let settings: [&[_]; 3] = [&[], &[("AM_MEMORY", "staged")], &[("AM_CREDITS", "2")]];
    programs::compile_and_run_under("mpicc", &options, "c/w_pieces.c", &settings);
}

/// The events of the tool interface, with one thread and with several.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn t_events() {
    let options = ["-O1", "-Wall", "-Wextra", "-Werror"];
    let settings: [&[_]; 2] = [&[], &[("WITH_THREADS", "multiple")]];
    programs::compile_and_run_under("mpicc", &options, "c/t_events.c", &settings);
}

/// The progress thread receives a message while the program computes. Three more programs run beside a progress thread.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn c_progress_thread() {
    let options = ["-O1", "-Wall", "-Wextra", "-Werror"];
    let with = [("AM_PROGRESS_THREAD", "on")];
    for program in ["c/c_progress_thread.c", "c/c_answers.c", "c/c_sessions.c", "c/c_sessions_alone.c"] {
        programs::compile_and_run_under("mpicc", &options, program, &[&with]);
    }
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn c_sessions_refused() {
    let options = ["-O1", "-Wall", "-Wextra", "-Werror"];
    let with = [("AM_PROGRESS_THREAD", "on")];
    programs::compile_and_run_under("mpicc", &options, "c/c_sessions_refused.c", &[&with]);
}

/// Each call that can wait, in a thread that depends on another thread's send: with direct access to memory, and without, so that transfers
/// also wait for the target.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn c_threads_wait() {
    let options = ["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"];
    let settings: [&[_]; 2] = [&[], &[("AM_MEMORY", "staged")]];
    programs::compile_and_run_under("mpicc", &options, "c/c_threads_wait.c", &settings);
}

/// A thread in `MPI_Finalize` does not block another thread that has a session.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn c_threads_finalize() {
    let options = ["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"];
    programs::compile_and_run("mpicc", &options, "c/c_threads_finalize.c");
}

/// Four threads in each task mix messages, collectives and windows: with direct access to memory, and without.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn c_threads_mixed() {
    let options = ["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"];
    let settings: [&[_]; 2] = [&[], &[("AM_MEMORY", "staged")]];
    programs::compile_and_run_under("mpicc", &options, "c/c_threads_mixed.c", &settings);
}

/// Collectives that do not match between tasks are errors. With `AM_CHECK_COLLECTIVES=on` they are found before the collective runs; with
/// `off` only by the length of the received data.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn c_mismatched() {
    let options = ["-O1", "-Wall", "-Wextra", "-Werror"];
    let (on, off) = (("AM_CHECK_COLLECTIVES", "on"), ("AM_CHECK_COLLECTIVES", "off"));
    let settings: [&[_]; 2] = [&[on], &[off]];
    programs::compile_and_run_under("mpicc", &options, "c/c_mismatched.c", &settings);
}

/// Short collectives, which take the fast path only if tasks do not compare their calls in advance.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn c_short() {
    let options = ["-O1", "-Wall", "-Wextra", "-Werror"];
    let settings: [&[_]; 2] = [&[("AM_CHECK_COLLECTIVES", "on")], &[("AM_CHECK_COLLECTIVES", "off")]];
    programs::compile_and_run_under("mpicc", &options, "c/c_short.c", &settings);
}

/// Non-blocking collectives by messages and on boards of both kinds, with one thread and with several.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn c_started() {
    let options = ["-O1", "-Wall", "-Wextra", "-Werror"];
    let kind = |kind| ("AM_COLLECTIVE_BOARD", kind);
    let (threads, unchecked) = (("WITH_THREADS", "multiple"), ("AM_CHECK_COLLECTIVES", "off"));
    let settings: [&[_]; 5] = [
        &[kind("counter"), unchecked],
        &[kind("counter"), threads],
        &[kind("lines"), unchecked],
        &[kind("lines"), threads],
        &[("AM_COLLECTIVE_BOARD_TASKS_MAX", "0"), unchecked],
    ];
    programs::compile_and_run_under("mpicc", &options, "c/c_started.c", &settings);
}

/// The text with which a table shows a value of one of its settings; `None` if it has no setting of this name.
fn value_in<T: Table>(name: &str, value: &str) -> Option<String> {
    let setting = T::SETTINGS.iter().find(|setting| setting.name == name)?;
    let mut settings = T::default();
    setting.store(&mut settings, value).expect("a valid value of the setting");
    Some(setting.value(&settings))
}

/// The control variables of the tool interface are the settings that `mpiexec --info` prints, with their values.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn tools_see_the_settings_of_the_job() {
    programs::build();
    let scratch = Scratch::new("tool-variables");
    let program = scratch.path().join("program");
    let mut compile = Command::new(programs::folder().join("mpicc"));
    compile.args(["-O1", "-Wall", "-Wextra", "-Werror"]).args(programs::compiler_options());
    compile.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/c/t_variables.c")).arg("-o").arg(&program);
    let (good, said) = run(&mut compile);
    assert!(good, "it does not compile: {said}");
    let chosen = [
        ("AM_MEMORY", "kernel"),
        ("AM_CREDITS", "7"),
        ("AM_HEAP_BYTES", "1G"),
        ("AM_EARLY_ARRIVALS_MAX", "9"),
        ("MPI_LONG_MAX", "5"),
        ("AM_COLLECTIVE_ROUND_TASKS_MAX", "1"),
    ];
    let (good, info) =
        run(Command::new(programs::folder().join("mpiexec")).args(["--info", "--all"]).envs(chosen));
    assert!(good, "{info}");
    let mut start = Command::new(programs::folder().join("mpiexec"));
    let (good, said) = run(start.args(["-n", "2"]).arg(&program).envs(chosen));
    assert!(good && said.contains("all good"), "{said}");
    let misspelt = "no setting AM_COLLECTIVE_ROUND_TASKS_MAX (did you mean AM_COLLECTIVE_ROUNDS_TASKS_MAX?)";
    assert_eq!(said.matches(misspelt).count(), 1, "{said}");
    for when in ["before", "after"] {
        let lines: Vec<_> =
            said.lines().filter_map(|line| line.strip_prefix(when)?.strip_prefix(' ')).collect();
        assert_eq!(lines.len(), JobSettings::SETTINGS.len() + Settings::SETTINGS.len(), "{said}");
        for line in lines {
            let (name, value) = line.split_once(' ').expect("a name and a value");
            if (when, name) == ("after", "eager_limit_bytes") {
                assert_eq!(value, "100", "the program has written it");
                continue;
            }
            let shown = value_in::<JobSettings>(name, value).or_else(|| value_in::<Settings>(name, value));
            let shown = format!("  {name} = {}  (", shown.expect("a setting of one of the two tables"));
            assert!(info.contains(&shown), "{when}: {shown} is not in\n{info}");
        }
    }
}
