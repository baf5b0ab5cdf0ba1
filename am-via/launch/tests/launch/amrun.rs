//! `amrun` from the user's view: output, input, exit codes, options, and the errors for wrong command lines.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use super::support::*;

/// Settings that are in no table of the launcher.
pub(super) const FOREIGN: [&str; 2] = ["AM_EAGER_LIMIT_BYTES", "AM_OF_A_LAYER_THAT_IS_NOT_WRITTEN"];
/// Number of lines that a task of the flood writes.
const FLOOD_LINES: usize = 5000;

/// The actions of this binary when it runs as a task.
pub(super) fn task(role: &str) {
    match role {
        "flood" => flood(),
        "join" => drop(am_via_job::Job::attach().unwrap()),
        "have a child" => {
            let _job = am_via_job::Job::attach().unwrap();
            let _ = std::process::Command::new("sleep").arg("1000").status();
        }
        "tell variables" => {
            let job = am_via_job::Job::attach().unwrap();
            let carried = FOREIGN.map(|name| job.variables().get(name).unwrap_or_default());
            let inherited = FOREIGN.map(|name| std::env::var(name).is_ok());
            println!("carried {carried:?}, inherited {inherited:?}");
        }
        other => panic!("no role {other}"),
    }
}

/// Writes lines of many lengths, in pieces that may end inside a line.
fn flood() {
    let task = std::env::var("AM_TASK").unwrap();
    let mut text = String::from("\n");
    for line in 0..FLOOD_LINES {
        text.push_str(&flood_line(&task, line));
    }
    let mut out = std::fs::OpenOptions::new().write(true).open("/proc/self/fd/1").unwrap();
    for piece in text.as_bytes().chunks(1013) {
        out.write_all(piece).unwrap();
    }
}

fn flood_line(task: &str, line: usize) -> String {
    format!("flood {task} {line} {} end\n", task.repeat(line * 7 % 300))
}

#[test]
fn lines_are_never_torn() {
    let _watchdog = Watchdog::new("lines_are_never_torn");
    for tag in [false, true] {
        let mark = unique();
        let mut command = amrun(&mark, &["-n", "4"]);
        if tag {
            command.arg("--tag-output");
        }
        let output = command.arg(own_binary()).args(role_args()).env(ROLE, "flood").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        let mut next = [0; 4];
        for line in text.lines().filter(|line| line.contains("flood")) {
            let number = line.split_whitespace().nth(if tag { 2 } else { 1 }).unwrap();
            let task: usize = number.parse().unwrap();
            let expected = flood_line(number, next[task]);
            let tagged = if tag { format!("[{task}] {expected}") } else { expected };
            assert_eq!(format!("{line}\n"), tagged);
            next[task] += 1;
        }
        assert_eq!(next, [FLOOD_LINES; 4]);
    }
}

#[test]
fn an_unfinished_line_is_forwarded_as_it_is() {
    let _watchdog = Watchdog::new("an_unfinished_line_is_forwarded_as_it_is");
    assert_eq!(stdout(&run(&["-n", "1", "printf", "abc"])), "abc");
    assert_eq!(stdout(&run(&["-n", "3", "printf", "abc"])), "abcabcabc");
    let tagged = stdout(&run(&["-n", "3", "--tag-output", "printf", "abc"]));
    let mut lines: Vec<&str> = tagged.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] abc", "[1] abc", "[2] abc"]);
    // Bytes that are no text, in pieces without a line's end, come out as they were written.
    let script = "head -c 300000 /dev/zero; printf '\\377'; sleep 0.2; head -c 300000 /dev/zero";
    let bytes = run(&["-n", "2", "sh", "-c", script]).stdout;
    assert_eq!(bytes.len(), 2 * 600_001);
    assert_eq!(bytes.iter().filter(|&&byte| byte != 0).collect::<Vec<_>>(), [&0xff; 2]);
    assert_eq!(stdout(&run(&["-n", "1", "--tag-output", "printf", "a\\nb"])), "[0] a\n[0] b");
}

#[test]
fn standard_output_and_error_stay_apart() {
    let _watchdog = Watchdog::new("standard_output_and_error_stay_apart");
    let output = run(&["-n", "1", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((stdout(&output), stderr(&output)), ("out\n".to_owned(), "err\n".to_owned()));
}

#[test]
fn lines_have_times_and_errors_can_go_with_the_output() {
    let _watchdog = Watchdog::new("lines_have_times_and_errors_can_go_with_the_output");
    let script = "echo out; sleep 0.2; echo err >&2; exit 3";
    let output =
        run(&["-n", "1", "--tag-output", "--timestamp-output", "--merge-output", "sh", "-c", script]);
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    for (line, said) in lines.iter().zip(["out", "err"]) {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words[0], words[2]), ("[0]", said), "{line}");
        assert!(words[1].starts_with("20") && words[1].ends_with('Z') && words[1].len() == 24, "{line}");
    }
    assert_eq!(lines.len(), 2);
    assert_eq!(
        stderr(&output),
        "amrun: task 0 exited with code 3: err\n",
        "only the last line is quoted, without its time"
    );
}

/// As after `amrun ... & amrun report $!`, which names the first process, and for a process that a task has started.
#[test]
fn a_report_is_found_by_any_process_of_the_job() {
    let _watchdog = Watchdog::new("a_report_is_found_by_any_process_of_the_job");
    let mark = unique();
    let child = amrun(&mark, &["-n", "2"])
        .arg(own_binary())
        .args(role_args())
        .env(ROLE, "have a child")
        .spawn()
        .unwrap();
    // Two processes of amrun, two tasks and their children.
    wait_until(|| marked(&mark).len() == 6);
    let sleepers = || {
        let comm = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        marked(&mark).iter().filter(|pid| comm(pid) == "sleep\n").count()
    };
    wait_until(|| sleepers() == 2);
    for process in marked(&mark) {
        let report = run(&["report", &process.to_string()]);
        assert!(
            stdout(&report).contains("tasks 0 and 1"),
            "{process}: {}{}",
            stdout(&report),
            stderr(&report)
        );
    }
    // What has started the job is no process of it.
    for of in [1, std::process::id()] {
        assert!(!run(&["report", &of.to_string()]).status.success(), "{of}");
    }
    kill("TERM", child.id());
    wait(child);
}

/// The state of a process, such as `S` or `T`.
fn state_of(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().unwrap_or_default().chars().take(1).collect()
}

/// As a batch system does that suspends a job: the time limit and the silence of the tasks end no job that is stopped.
#[test]
fn a_job_can_be_stopped_and_goes_on() {
    let _watchdog = Watchdog::new("a_job_can_be_stopped_and_goes_on");
    let dir = TempDir::new();
    let agent = dir.0.join("agent");
    std::fs::write(&agent, "#!/bin/sh\nshift\nexec \"$@\"\n").unwrap();
    std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let on_hosts = ["--hosts", "a,b", "--launch-agent", agent.to_str().unwrap()];
    let jobs: Vec<_> = [&[][..], &on_hosts]
        .into_iter()
        .enumerate()
        .map(|(at, more)| {
            let script =
                format!("cd {}; : >{at}-$AM_TASK; until test -e end; do sleep 0.05; done", dir.0.display());
            let args = [&["-n", "2", "--timeout", "8"], more, &["sh", "-c", &script, "stoppable"]].concat();
            let mark = unique();
            (amrun(&mark, &args).spawn().unwrap(), mark)
        })
        .collect();
    wait_until(|| (0..2).all(|at| (0..2).all(|task| dir.0.join(format!("{at}-{task}")).exists())));
    let states = |mark: &str| {
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        marked(mark).into_iter().filter(|pid| name(pid) == "sh\n").map(state_of).collect::<Vec<_>>()
    };
    // A task that is stopped between fork and exec of its `sleep` is a third shell.
    let are_stopped = |mark: &str| states(mark).iter().filter(|state| *state == "T").count() >= 2;
    for (child, mark) in &jobs {
        kill("TSTP", child.id());
        wait_until(|| state_of(child.id()) == "T" && are_stopped(mark));
    }
    // Longer than the time limit.
    std::thread::sleep(std::time::Duration::from_secs(9));
    for (child, mark) in &jobs {
        assert!(are_stopped(mark), "{:?}", states(mark));
        kill("CONT", child.id());
        wait_until(|| states(mark).iter().all(|state| state != "T"));
    }
    std::fs::write(dir.0.join("end"), "").unwrap();
    for (child, _) in jobs {
        let output = wait(child);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn bindings_are_told() {
    let _watchdog = Watchdog::new("bindings_are_told");
    // The tasks live until the lines are printed, because the launcher reads the bindings of live processes.
    let args = ["-n", "2", "--bind", "core", "--report-bindings", "sleep", "1000"];
    let mut child = amrun(&unique(), &args).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    for _ in 0..2 {
        lines.read_line(&mut said).unwrap();
    }
    kill("TERM", child.id());
    child.wait().unwrap();
    let cpus = |task: u32| {
        let before = format!("amrun: task {task} may run on processors ");
        said.lines().find_map(|line| line.strip_prefix(&before)?.parse::<usize>().ok())
    };
    let allowed = am_via_os::sched::allowed_cpus();
    assert_eq!(cpus(0), Some(allowed[0]), "{said}");
    assert_eq!(cpus(1), Some(allowed[1 % allowed.len()]), "{said}");
}

#[test]
fn a_task_can_have_several_processors_or_some_of_them() {
    let _watchdog = Watchdog::new("a_task_can_have_several_processors_or_some_of_them");
    let allowed = am_via_os::sched::allowed_cpus();
    let script = "grep Cpus_allowed_list /proc/self/status; echo pinned $AM_PINNED";
    let said = |options: &[&str]| stdout(&run(&[&["-n", "1"], options, &["sh", "-c", script]].concat()));
    let last = allowed[allowed.len() - 1];
    let list = format!("Cpus_allowed_list:\t{last}\n");
    assert_eq!(said(&["--cpu-set", &last.to_string()]), format!("{list}pinned\n"));
    assert_eq!(said(&["--cpu-set", &last.to_string(), "--bind", "core"]), format!("{list}pinned 1\n"));
    assert_eq!(said(&["--bind", "core"]), format!("Cpus_allowed_list:\t{}\npinned 1\n", allowed[0]));
    if let [first, second, ..] = allowed[..] {
        let both = said(&["--bind", "core:2"]);
        let lists = [format!("{first},{second}"), format!("{first}-{second}")];
        assert!(lists.iter().any(|list| both == format!("Cpus_allowed_list:\t{list}\npinned 1\n")), "{both}");
    }
    // More processors than there are.
    assert!(said(&["--bind", "core:4096"]).ends_with("pinned 0\n"));
    let output = run(&["-n", "1", "--cpu-set", "60000", "true"]);
    assert!(stderr(&output).contains("processor 60000 is not one"), "{}", stderr(&output));
}

#[test]
fn task_0_reads_the_input_and_the_others_nothing() {
    let _watchdog = Watchdog::new("task_0_reads_the_input_and_the_others_nothing");
    let script = r#"echo "task $AM_TASK read $(cat)""#;
    let mut child = amrun(&unique(), &["-n", "3", "sh", "-c", script]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello").unwrap();
    let output = wait(child);
    let text = stdout(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["task 0 read hello", "task 1 read ", "task 2 read "]);
}

#[test]
fn the_exit_code_is_that_of_the_first_task_that_failed() {
    let _watchdog = Watchdog::new("the_exit_code_is_that_of_the_first_task_that_failed");
    let output = run(&["-n", "3", "sh", "-c", "test $AM_TASK != 1 || exit 42"]);
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(stderr(&output), "amrun: task 1 exited with code 42\n");

    let output = run(&["-n", "2", "sh", "-c", "test $AM_TASK = 0 || kill -SEGV $$; sleep 1000"]);
    assert_eq!(output.status.code(), Some(128 + 11));
    assert_eq!(stderr(&output), "amrun: task 1 was killed by signal 11 (SIGSEGV)\n");

    let output = run(&["-n", "1", "sh", "-c", "echo 'no such file: x' >&2; exit 1"]);
    assert_eq!(stderr(&output), "no such file: x\namrun: task 0 exited with code 1: no such file: x\n");
}

#[test]
fn a_line_that_is_not_the_failures_is_not_quoted_as_its_cause() {
    let _watchdog = Watchdog::new("a_line_that_is_not_the_failures_is_not_quoted_as_its_cause");
    let last_line = |script: &str| {
        let said = stderr(&run(&["-n", "1", "sh", "-c", script]));
        said.lines().next_back().unwrap().to_owned()
    };
    let under_valgrind =
        "echo 'no heap' >&2; echo \"==$$== ERROR SUMMARY: 0 errors from 0 contexts\" >&2; exit 3";
    assert_eq!(last_line(under_valgrind), "amrun: task 0 exited with code 3: no heap");
    let only_valgrind = "echo \"==$$== ERROR SUMMARY: 0 errors from 0 contexts\" >&2; exit 3";
    assert_eq!(last_line(only_valgrind), "amrun: task 0 exited with code 3");
    let interrupted = "echo 'step 7 of 9' >&2; kill -SEGV $$; sleep 1000";
    let expected = "amrun: task 0 was killed by signal 11 (SIGSEGV): its last line on standard error was \"step 7 of 9\"";
    assert_eq!(last_line(interrupted), expected);
    let aborted = "echo 'index out of bounds' >&2; kill -ABRT $$; sleep 1000";
    let expected = "amrun: task 0 was killed by signal 6 (SIGABRT): index out of bounds";
    assert_eq!(last_line(aborted), expected);
}

/// A copy of a library that this process uses, under the name of another MPI library.
fn library_of_another_mpi(dir: &TempDir) -> std::path::PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libgcc = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let libgcc = libgcc.into_iter().find(|path| path.contains("/libgcc_s.so")).unwrap();
    let copy = dir.0.join("libmpi.so.12");
    std::fs::copy(libgcc, &copy).unwrap();
    copy
}

#[test]
fn a_program_of_another_mpi_library_is_told() {
    let _watchdog = Watchdog::new("a_program_of_another_mpi_library_is_told");
    let dir = TempDir::new();
    let library = library_of_another_mpi(&dir);
    let preload = format!("LD_PRELOAD={}", library.display());
    for script in ["exec sleep 1000", "sleep 1000; exit 0"] {
        // On a busy machine it takes a while until a task has mapped the library, and the launcher has looked at the task.
        for (limit, is_last) in [("1", false), ("4", false), ("60", true)] {
            let args = ["-n", "2", "--timeout", limit, "env", &preload, "sh", "-c", script];
            let output = run(&args);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(124), "{said}");
            let is_told = said.contains(&format!("uses another MPI library, {}", library.display()));
            assert!(is_told && said.contains("--abi mpich") || !is_told && !is_last, "{said}");
            if is_told {
                break;
            }
        }
    }
    // A task that joins uses this project's library, even if it has mapped another one.
    let args = ["-n", "1", "--timeout", "60", "--env", "LAUNCH_TEST_ROLE=join", "env", &preload];
    let output = amrun(&unique(), &args).arg(own_binary()).args(role_args()).output().unwrap();
    assert!(output.status.success() && !stderr(&output).contains("another MPI"), "{}", stderr(&output));
}

#[test]
fn an_output_that_was_closed_from_the_start_is_an_error_once_something_is_lost() {
    let _watchdog =
        Watchdog::new("an_output_that_was_closed_from_the_start_is_an_error_once_something_is_lost");
    let closed = |args: &str| {
        let script = format!("exec {} {args} >&-", env!("CARGO_BIN_EXE_amrun"));
        std::process::Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap()
    };
    let output = closed("-n 2 echo lost");
    assert_eq!(output.status.code(), Some(128 + 13), "{}", stderr(&output));
    assert!(stderr(&output).contains("its output cannot be written"), "{}", stderr(&output));
    let output = closed("info");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("the standard output cannot be written"), "{}", stderr(&output));
    let output = closed("-n 2 true");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
}

/// As `amrun info | head` closes it.
#[test]
fn an_output_whose_reader_has_gone_ends_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_amrun")).arg("info").stdout(writer).output();
    let output = output.unwrap();
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(128 + 13), ""));
}

#[test]
fn without_proc_that_is_what_is_missing() {
    let _watchdog = Watchdog::new("without_proc_that_is_what_is_missing");
    let amrun = env!("CARGO_BIN_EXE_amrun");
    // Runs in a mount namespace of its own in which /proc is empty.
    let script = format!("mount -t tmpfs none /proc && exec {amrun} -n 1 true");
    let mut hidden = std::process::Command::new("unshare");
    let output = hidden.args(["--mount", "--map-root-user", "sh", "-c", &script]).output().unwrap();
    let said = stderr(&output);
    if said.contains("/proc is not mounted") {
        assert_eq!(output.status.code(), Some(2), "{said}");
    } else {
        // Some machines do not allow a test to make such a namespace.
        assert!(said.contains("ermi") || said.contains("not permitted"), "{said}");
        eprintln!("skipped: {said}");
    }
}

#[test]
fn the_time_limit_ends_the_job() {
    let _watchdog = Watchdog::new("the_time_limit_ends_the_job");
    let output = run(&["-n", "2", "--timeout", "0.2", "sh", "-c", "sleep 1000 & wait"]);
    assert_eq!(output.status.code(), Some(124));
    assert!(stderr(&output).contains("time limit"), "{}", stderr(&output));
}

#[test]
fn variables_and_the_directory_reach_the_tasks() {
    let _watchdog = Watchdog::new("variables_and_the_directory_reach_the_tasks");
    let dir = TempDir::new();
    std::fs::write(dir.0.join("here"), "").unwrap();
    let dir = dir.0.to_str().unwrap();
    let output =
        run(&["-n", "1", "--env", "A=1", "--env", "B=x=y", "--wdir", dir, "sh", "-c", "echo $A $B; ls"]);
    assert_eq!(stdout(&output), "1 x=y\nhere\n", "{}", stderr(&output));
}

/// A task that was started with another environment finds the settings in the job file, not in its environment.
#[test]
fn settings_of_tables_that_the_launcher_does_not_have_reach_the_tasks() {
    let _watchdog = Watchdog::new("settings_of_tables_that_the_launcher_does_not_have_reach_the_tasks");
    let mut args: Vec<_> =
        ["-n", "1", "--env", "AM_OF_A_LAYER_THAT_IS_NOT_WRITTEN=9"].map(OsString::from).to_vec();
    args.extend(["env", "-u", FOREIGN[0], "-u", FOREIGN[1]].map(OsString::from));
    args.push(own_binary());
    args.extend(role_args());
    let output = amrun(&unique(), &args).env(FOREIGN[0], "7").env(ROLE, "tell variables").output().unwrap();
    let said = stdout(&output);
    assert!(said.contains("carried [\"7\", \"9\"], inherited [false, false]"), "{said}{}", stderr(&output));
}

#[test]
fn a_relative_program_is_looked_up_in_the_directory_of_the_tasks() {
    let _watchdog = Watchdog::new("a_relative_program_is_looked_up_in_the_directory_of_the_tasks");
    let dir = TempDir::new();
    for (folder, program) in [(".", "hello"), (".", "here"), ("other", "hello")] {
        std::fs::create_dir_all(dir.0.join(folder)).unwrap();
        let script = dir.0.join(folder).join(program);
        std::fs::write(&script, format!("#!/bin/sh\necho {folder} from ${{PWD##*/}}\n")).unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let agent = dir.0.join("agent");
    std::fs::write(&agent, "#!/bin/sh\nshift\nexec \"$@\"\n").unwrap();
    std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let on_a_host = ["--hosts", "a", "--launch-agent", agent.to_str().unwrap()];
    let in_other = |name: &str, more: &[&str]| {
        let args = [&["-n", "1", "--wdir", "other"], more, &[name]].concat();
        amrun(&unique(), &args).current_dir(&dir.0).output().unwrap()
    };
    for (name, said) in [("./hello", "other"), ("hello", "other"), ("../hello", ".")] {
        for more in [&[][..], &on_a_host] {
            let output = in_other(name, more);
            assert_eq!(stdout(&output), format!("{said} from other\n"), "{}", stderr(&output));
        }
    }
    // The current directory has it, but that is not where the tasks run.
    let output = in_other("./here", &[]);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("write its full path"), "{}", stderr(&output));
    let output = amrun(&unique(), &["-n", "1", "./helo"]).current_dir(&dir.0).output().unwrap();
    assert_eq!(
        stderr(&output),
        "amrun: the program \"./helo\" does not exist; perhaps \"./hello\" is meant\n"
    );
}

/// A runner that the user has configured must not run in place of amrun, and the program's arguments must stay what they are.
#[test]
fn cargo_builds_an_example_and_tells_of_a_name_that_is_wrong() {
    let _watchdog = Watchdog::new("cargo_builds_an_example_and_tells_of_a_name_that_is_wrong");
    let dir = TempDir::new();
    let files = [
        ("Cargo.toml", "[workspace]\nresolver = '3'\nmembers = ['one', 'two']\n"),
        (".cargo/config.toml", "[target.'cfg(unix)']\nrunner = 'false'\n"),
        ("one/Cargo.toml", "[package]\nname = 'one'\nedition = '2024'\n[features]\nloud = []\n"),
        (
            "one/examples/ring.rs",
            "fn main() { print!(\"{:?}\\n\", std::env::args().skip(1).collect::<Vec<_>>()) }",
        ),
        ("one/src/bin/tool.rs", "fn main() { print!(\"one {}\\n\", cfg!(feature = \"loud\")) }"),
        ("two/Cargo.toml", "[package]\nname = 'two'\nedition = '2024'\n"),
        ("two/src/bin/tool.rs", "fn main() {}"),
    ];
    for (file, text) in files {
        let file = dir.0.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let run = |args: &[&str]| {
        let mut amrun = amrun(&unique(), args);
        amrun.current_dir(&dir.0).env("CARGO_NET_OFFLINE", "true").env_remove("CARGO_TARGET_DIR");
        amrun.output().unwrap()
    };
    let output = run(&["-n", "2", "--wdir", "/", "--example", "ring", "--", "-n", "--", "a b"]);
    assert_eq!(
        (&*stdout(&output), &*stderr(&output)),
        ("[\"-n\", \"--\", \"a b\"]\n".repeat(2).as_str(), "")
    );
    let output = run(&["-n", "1", "--bin", "tool", "-p", "one", "--features", "loud"]);
    assert_eq!((&*stdout(&output), &*stderr(&output)), ("one true\n", ""));
    for (args, parts) in [
        (["-n", "1", "--example", "rign"], ["ring", "rign"]),
        (["-n", "1", "--bin", "tool"], ["package `one`", "package `two`"]),
    ] {
        let output = run(&args);
        assert_eq!(output.status.code(), Some(101), "{args:?}: {}", stderr(&output));
        assert!(parts.iter().all(|part| stderr(&output).contains(part)), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn the_programs_own_options_are_left_alone() {
    let _watchdog = Watchdog::new("the_programs_own_options_are_left_alone");
    assert_eq!(stdout(&run(&["-n", "1", "echo", "-n", "7", "--timeout"])), "7 --timeout");
    assert_eq!(stdout(&run(&["-n", "1", "--", "echo", "--", "x"])), "-- x\n");
}

#[test]
fn more_tasks_than_processors_are_fine() {
    let _watchdog = Watchdog::new("more_tasks_than_processors_are_fine");
    let output = run(&["-n", "24", "--bind", "core", "sh", "-c", "echo $AM_TASK $AM_PINNED"]);
    assert!(output.status.success());
    assert_eq!(stderr(&output), "");
    let mut lines: Vec<usize> =
        stdout(&output).lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, (0..24).collect::<Vec<_>>());
    let output = run(&["-n", "24", "--verbose", "true"]);
    assert_eq!(stderr(&output).lines().count(), 1);
}

#[test]
fn wrong_calls_are_refused_with_the_reason() {
    let _watchdog = Watchdog::new("wrong_calls_are_refused_with_the_reason");
    let not_executable = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let cases: [(&[&str], i32, &str); 18] = [
        (&[], 2, "-n TASKS"),
        (&["-n", "2"], 2, "a program"),
        (&["-n", "0", "true"], 2, "at least 1 task"),
        (&["-n", "-1", "true"], 2, "-1"),
        (&["-n", "many", "true"], 2, "many"),
        (&["-n", "5000", "true"], 2, "4096"),
        (&["true"], 2, "-n TASKS"),
        (&["reprot", "1"], 2, "`amrun report`"),
        (&["-n", "2", "--hang-reprt", "5", "true"], 2, "'--hang-report'"),
        (&["-n", "2", "-z", "true"], 2, "-z"),
        (&["-n", "1", "--example", "no-such-example", "--verify"], 2, "-- --verify"),
        (&["-n", "1", "--bind", "nowhere", "true"], 2, "nowhere"),
        (&["-n", "1", "--timeout", "0", "true"], 2, "more than 0"),
        (&["-n", "1", "--env", "novalue", "true"], 2, "NAME=VALUE"),
        (&["-n", "1", "--wdir", "/no/such/directory", "true"], 2, "/no/such/directory"),
        (&["-n", "1", "no-such-program"], 127, "no-such-program"),
        (&["-n", "1", not_executable], 126, "chmod"),
        (&["-n", "1", "--example", "no-such-example"], 101, "no-such-example"),
    ];
    for (args, code, part) in cases {
        let output = run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn limits_that_are_too_small_are_named_with_what_to_do() {
    let _watchdog = Watchdog::new("limits_that_are_too_small_are_named_with_what_to_do");
    let amrun = env!("CARGO_BIN_EXE_amrun");
    for (limit, name) in [("-f 1000", "RLIMIT_FSIZE"), ("-v 40000", "RLIMIT_AS"), ("-n 40", "RLIMIT_NOFILE")]
    {
        // Sets the soft and the hard limit, because the launcher raises a soft limit up to the hard limit.
        let script = format!("ulimit {limit} && exec {amrun} -n 12 true");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{limit}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains(name) && said.contains("ulimit"), "{said}");
    }
}

#[test]
fn a_setting_that_is_wrong_or_misspelt_is_told() {
    let _watchdog = Watchdog::new("a_setting_that_is_wrong_or_misspelt_is_told");
    let output = amrun(&unique(), &["-n", "1", "true"]).env("AM_CREDITS", "0").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("AM_CREDITS=\"0\""), "{}", stderr(&output));
    let latin: std::ffi::OsString = std::os::unix::ffi::OsStringExt::from_vec(b"\xe9".to_vec());
    let output = amrun(&unique(), &["-n", "1", "true"]).env("AM_CREDITS", latin).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "what is no text is not ignored");
    let output = amrun(&unique(), &["-n", "1", "true"]).env("AM_CREDIT", "1").output().unwrap();
    assert!(output.status.success());
    assert!(stderr(&output).contains("no setting AM_CREDIT; perhaps AM_CREDITS"), "{}", stderr(&output));
}

#[test]
fn info_tells_of_the_machine_its_limits_and_what_differs() {
    let _watchdog = Watchdog::new("info_tells_of_the_machine_its_limits_and_what_differs");
    let info = |words: &[&str], credits: &str| {
        let output =
            amrun(&unique(), &[&["info"], words].concat()).env("AM_CREDITS", credits).output().unwrap();
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let in_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (code, text, _) = info(&[], "9");
    assert_eq!(code, Some(0));
    for part in [
        "processors",
        "devices",
        "private memory",
        "RLIMIT_FSIZE",
        "cgroup",
        "credits = 9  (default 64; AM_CREDITS)",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("AM_PACKET_BYTES"), "{text}");
    // One line of a screen remains for the prompt.
    assert!(text.lines().count() < 24, "more than a screen:\n{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "a line is longer than a screen:\n{text}");
    assert!(info(&[], "64").1.contains("have their defaults"));
    let (_, all, _) = info(&["--all"], "9");
    let (_, json, _) = info(&["--json"], "9");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let listed = json["settings"].as_array().unwrap();
    let settings = <am_via_job::settings::Settings as am_via_job::settings::Table>::SETTINGS;
    assert_eq!(listed.len(), settings.len());
    for (setting, listed) in settings.iter().zip(listed) {
        let meaning = in_one_line(setting.meaning);
        assert!(all.contains(setting.env) && in_one_line(&all).contains(&meaning), "{}", setting.name);
        assert_eq!(listed["env"], setting.env);
        for name in [setting.name, setting.env] {
            assert!(in_one_line(&info(&[name], "9").1).contains(&meaning), "{name}");
        }
    }
    assert_eq!(json["machine"]["devices"].as_str().map(|text| text.starts_with("shm")), Some(true), "{json}");
    assert_eq!(info(&[], "x").0, Some(2));
    let (code, _, said) = info(&["credit"], "9");
    assert!(code == Some(2) && said.contains("no setting credit"), "{said}");
    assert_eq!(info(&["--al"], "9").0, Some(2));
}

/// At the limit on open files, the launcher has a handle for some of the processes that it kills, and none to read `/proc`.
#[test]
fn more_processes_than_the_launcher_may_open_files_are_killed() {
    let _watchdog = Watchdog::new("more_processes_than_the_launcher_may_open_files_are_killed");
    let mark = unique();
    let many = "[ $AM_TASK = 1 ] && exec sleep 1000; i=0; while [ $i -lt 280 ]; do sleep 1000 & i=$((i + 1)); done; exit 3";
    let script = format!("ulimit -n 230; exec {} -n 2 sh -c '{many}'", env!("CARGO_BIN_EXE_amrun"));
    let output = std::process::Command::new("sh").args(["-c", &script]).env(MARK, &mark).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(!stderr(&output).contains("could not be killed"), "{}", stderr(&output));
    assert_eq!(marked(&mark), Vec::<u32>::new());
}

/// Whether an output blocks is a property of the open file, which other processes may share and change.
#[test]
fn an_output_that_does_not_block_gets_everything() {
    let _watchdog = Watchdog::new("an_output_that_does_not_block_gets_everything");
    let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    let mut command = amrun(&unique(), &["-n", "2", "sh", "-c", "yes | head -c 1000000"]);
    let child = command.stdout(std::os::fd::OwnedFd::from(writer)).spawn().unwrap();
    // This process no longer has the writer's end, so that the reader's end will end.
    drop(command);
    std::thread::sleep(std::time::Duration::from_millis(200));
    let mut text = Vec::new();
    reader.read_to_end(&mut text).unwrap();
    let output = wait(child);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(text.len(), 2_000_000);
}

#[test]
fn a_reader_who_leaves_ends_the_job() {
    let _watchdog = Watchdog::new("a_reader_who_leaves_ends_the_job");
    let mark = unique();
    let mut child = amrun(&mark, &["-n", "2", "yes"]).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "y\n");
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 13), "{said}");
    assert_eq!(marked(&mark), Vec::<u32>::new());
}

/// What a parent ignores, its children ignore, too (POSIX, `exec`). The launcher must learn how its tasks end nevertheless.
#[test]
fn a_parent_that_ignores_signals_does_not_change_the_outcome() {
    let _watchdog = Watchdog::new("a_parent_that_ignores_signals_does_not_change_the_outcome");
    let amrun = env!("CARGO_BIN_EXE_amrun");
    let run = |ignored: &str, task: &str| {
        let script = format!("trap '' {ignored}; exec {amrun} -n 2 sh -c '{task}'");
        std::process::Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap()
    };
    for (task, code) in [("exit 0", 0), ("exit 3", 3), ("sh -c \"exit 4\" || exit $?", 4)] {
        let output = run("CHLD PIPE", task);
        assert_eq!(output.status.code(), Some(code), "{task}: {}", stderr(&output));
    }
    // The tasks get the default action of SIGCHLD (17), and go on ignoring SIGHUP (1), as under nohup.
    let output = run("CHLD HUP", "grep SigIgn /proc/self/status");
    let ignored: Vec<u64> = stdout(&output)
        .lines()
        .map(|line| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap())
        .collect();
    assert_eq!(ignored.len(), 2, "{}", stderr(&output));
    for set in ignored {
        assert_eq!((set & 1, set & 1 << (17 - 1)), (1, 0), "{set:x}");
    }
}

/// As `amrun ... 2>&1 | head` closes both.
#[test]
fn a_reader_of_the_errors_who_leaves_does_not_change_the_exit_code() {
    let _watchdog = Watchdog::new("a_reader_of_the_errors_who_leaves_does_not_change_the_exit_code");
    for (args, code) in [
        (&["-n", "2", "sh", "-c", "exit 3"][..], 3),
        (&["-n", "1", "--verbose", "--report-bindings", "--stats", "true"], 0),
        (&["-n", "1", "--timeout", "0.2", "sleep", "1000"], 124),
        (&["-n", "1", "no-such-program"], 127),
        (&["-n", "many", "true"], 2),
        (&["report", "4000000"], 2),
        (&["info", "no-such-setting"], 2),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = amrun(&unique(), args);
        let output = command.stdout(writer.try_clone().unwrap()).stderr(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
    }
}
