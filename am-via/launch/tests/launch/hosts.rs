//! Jobs of several hosts: output, failures, and cleaning up. Each host is an agent on this machine, which a plain command starts instead of
//! ssh. The programs send no messages.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::time::Duration;

use super::support::{
    ROLE, TempDir, Watchdog, amrun, called, children, kill, marked, own_binary, role_args, stderr, stdout,
    unique, wait, wait_until,
};

/// A launch agent that drops the host's name and runs the rest of its arguments as a command here.
fn agent(dir: &TempDir) -> String {
    let path = dir.0.join("agent");
    fs::write(&path, "#!/bin/sh\nshift\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn on_hosts(tasks: &str, hosts: &str, more: &[&str]) -> Output {
    let (dir, mark) = (TempDir::new(), unique());
    let agent = agent(&dir);
    let args = [&["-n", tasks, "--hosts", hosts, "--launch-agent", &agent], more].concat();
    let output = amrun(&mark, &args).output().unwrap();
    assert_eq!(marked(&mark), Vec::<u32>::new(), "processes are left of {args:?}");
    output
}

#[test]
fn the_output_and_the_numbers_are_those_of_one_job() {
    let _watchdog = Watchdog::new("the_output_and_the_numbers_are_those_of_one_job");
    let local = "$PMI_RANK of $PMI_SIZE, here $OMPI_COMM_WORLD_LOCAL_RANK of $MPI_LOCALNRANKS";
    let script = format!("echo $AM_TASK of $AM_NUM_TASKS $COLOUR {local}; echo here >&2; pwd");
    let more = ["--tag-output", "--env", "COLOUR=blue", "--wdir", "/", "sh", "-c", &script];
    let output = on_hosts("3", "a:2,b", &more);
    assert!(output.status.success(), "{}", stderr(&output));
    let mut lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    lines.sort();
    let wanted = [
        "[0] /",
        "[0] 0 of 3 blue 0 of 3, here 0 of 2",
        "[1] /",
        "[1] 1 of 3 blue 1 of 3, here 1 of 2",
        "[2] /",
        "[2] 2 of 3 blue 2 of 3, here 0 of 1",
    ];
    assert_eq!(lines, wanted);
    let mut errors: Vec<String> = stderr(&output).lines().map(str::to_owned).collect();
    errors.sort();
    assert_eq!(errors, ["[0] here", "[1] here", "[2] here"]);
}

#[test]
fn bindings_are_told_for_each_host_and_errors_can_go_with_the_output() {
    let _watchdog = Watchdog::new("bindings_are_told_for_each_host_and_errors_can_go_with_the_output");
    let dir = TempDir::new();
    let told = dir.0.join("told");
    // The tasks live until the lines are printed, because the agents read the bindings of live processes.
    let script = format!("echo err >&2; until test -e {}; do sleep 0.01; done", told.display());
    let more = ["--report-bindings", "--merge-output", "sh", "-c", &script];
    let mut child = amrun_on_two(&dir, &more).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    for _ in 0..2 {
        lines.read_line(&mut said).unwrap();
    }
    fs::write(told, "").unwrap();
    assert_eq!(stdout(&wait(child)), "err\nerr\n");
    for task in 0..2 {
        assert!(said.contains(&format!("task {task} may run on processors ")), "{said}");
    }
}

/// The folder is relative to the directory of the launcher, as it is without hosts, and not to the directory of the tasks.
#[test]
fn each_host_writes_the_output_of_its_tasks_to_files_and_says_what_it_runs() {
    let _watchdog = Watchdog::new("each_host_writes_the_output_of_its_tasks_to_files_and_says_what_it_runs");
    let (dir, mark) = (TempDir::new(), unique());
    let agent = agent(&dir);
    let args =
        ["-n", "3", "--hosts", "a:2,b", "--launch-agent", &agent, "--output-dir", "out/put", "--verbose"];
    // Task 2 fails when the other tasks have written everything.
    let script = "echo out $AM_TASK; echo err $AM_TASK >&2; [ $AM_TASK != 2 ] && exit
        until [ -s \"$0/task-0.stderr\" ] && [ -s \"$0/task-1.stderr\" ]; do sleep 0.01; done; exit 1";
    let folder = dir.0.join("out/put");
    let program = ["--wdir", "/", "sh", "-c", script, folder.to_str().unwrap()];
    let output = amrun(&mark, &[&args[..], &program].concat()).current_dir(&dir.0).output().unwrap();
    assert_eq!(stdout(&output), "");
    for task in 0..3 {
        for (kind, begin) in [("stdout", "out"), ("stderr", "err")] {
            let path = dir.0.join(format!("out/put/task-{task}.{kind}"));
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{begin} {task}\n"), "{}", path.display());
        }
    }
    let said = stderr(&output);
    assert!(said.contains("amrun: host a: 2 tasks (processes "), "{said}");
    assert!(said.contains("amrun: host b: 1 tasks (processes "), "{said}");
    assert!(said.contains("task 2 exited with code 1: err 2"), "{said}");
    assert_eq!(said.lines().count(), 3, "{said}");
}

#[test]
fn the_first_failure_ends_the_job_on_all_hosts_and_gives_its_code() {
    let _watchdog = Watchdog::new("the_first_failure_ends_the_job_on_all_hosts_and_gives_its_code");
    let output = on_hosts("2", "a,b", &["sh", "-c", "[ $AM_TASK = 0 ] && sleep 1000; echo why >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert!(stderr(&output).contains("task 1 exited with code 7"), "{}", stderr(&output));
    let output = on_hosts("2", "a,b", &["sh", "-c", "[ $AM_TASK = 1 ] && sleep 1000; kill -SEGV $$"]);
    assert_eq!(output.status.code(), Some(128 + 11));
    let output = on_hosts("2", "a,b", &["--timeout", "0.5", "sleep", "1000"]);
    assert_eq!(output.status.code(), Some(124));
}

#[test]
fn what_cannot_be_started_is_told_with_the_host() {
    let _watchdog = Watchdog::new("what_cannot_be_started_is_told_with_the_host");
    let told = |args: &[&str], code, words: &str| {
        let output = amrun(&unique(), args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    };
    told(
        &["-n", "2", "--hosts", "a,b", "--launch-agent", "false", "true"],
        1,
        "is lost: its agent has ended",
    );
    told(&["-n", "2", "--hosts", "a,b", "--launch-agent", "echo no", "true"], 1, "cannot be understood");
    told(&["-n", "1", "--hosts", "a", "--launch-agent", "/no/such", "true"], 2, "for host a");
    told(&["-n", "3", "--hosts", "a:1,b:1", "true"], 2, "the hosts take 2");
    told(&["-n", "3", "--hosts", "a:x", "true"], 2, "is not a valid host");
}

/// The variables of the batch systems, as their jobs have them; none of those that this test may itself have.
fn in_a_batch_job<'a>(command: &'a mut Command, variables: &[(&str, &str)]) -> &'a mut Command {
    for name in ["AM_TASK", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_ID", "SLURM_NTASKS"]
    {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied())
}

/// Slurm's variables as its manual describes them (sbatch, "Output environment variables"), and PBS's.
#[test]
fn the_tasks_and_hosts_of_a_batch_job_are_taken_unless_options_name_them() {
    let _watchdog = Watchdog::new("the_tasks_and_hosts_of_a_batch_job_are_taken_unless_options_name_them");
    let dir = TempDir::new();
    let agent = agent(&dir);
    let file = dir.0.join("nodes");
    fs::write(&file, "a\na\nb\n").unwrap();
    let slurm = [
        ("SLURM_JOB_NODELIST", "a,b"),
        ("SLURM_TASKS_PER_NODE", "2,1"),
        ("SLURM_NTASKS", "3"),
        ("SLURM_JOB_ID", "7"),
    ];
    let pbs = [("PBS_NODEFILE", file.to_str().unwrap())];
    let says = ["sh", "-c", "echo $AM_TASK $MPI_LOCALNRANKS"];
    let of = |variables: &[(&str, &str)], options: &[&str]| {
        let args = [options, &["--launch-agent", &agent], &says].concat();
        let output = in_a_batch_job(&mut amrun(&unique(), &args), variables).output().unwrap();
        assert!(output.status.success(), "{variables:?} {options:?}: {}", stderr(&output));
        let mut lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
        lines.sort();
        (lines.join(","), stderr(&output))
    };
    for (variables, system) in [(&slurm[..], "Slurm"), (&pbs, "PBS")] {
        let note =
            format!("amrun: as allocated by {system}: 3 tasks on a:2,b:1 (-n and --hosts have precedence)\n");
        assert_eq!(of(variables, &[]), ("0 2,1 2,2 1".to_owned(), note));
        // More tasks than allocated: the option wins.
        assert_eq!(of(variables, &["-n", "5"]).0, "0 3,1 3,2 3,3 2,4 2");
        assert_eq!(of(variables, &["--tasks-per-host", "1"]).0, "0 1,1 1");
        assert_eq!(of(variables, &["--hosts", "c:1"]), ("0 1".to_owned(), String::new()));
    }
    // A batch job on this machine alone needs no agent.
    let here = [("SLURM_NTASKS", "2"), ("SLURM_JOB_NODELIST", "localhost")];
    let note =
        "amrun: as allocated by Slurm: 2 tasks on localhost (-n and --hosts have precedence)\n".to_owned();
    assert_eq!(of(&here, &[]), ("0 2,1 2".to_owned(), note));
    assert_eq!(of(&here, &["-n", "1"]), ("0 1".to_owned(), String::new()));
    // A task of srun has its part of the allocation already.
    let of_srun = [("SLURM_NTASKS", "2"), ("SLURM_STEP_ID", "0")];
    assert_eq!(of(&of_srun, &["-n", "1"]), ("0 1".to_owned(), String::new()));
    let output = in_a_batch_job(&mut amrun(&unique(), &["true"]), &of_srun).output().unwrap();
    assert!(stderr(&output).contains("-n TASKS"), "{}", stderr(&output));
    let (lines, said) = of(&[("SLURM_NTASKS", "x")], &["-n", "1"]);
    assert!(lines == "0 1" && said.contains("is ignored: SLURM_NTASKS=\"x\""), "{said}");
}

#[test]
fn a_file_of_hosts_is_read_as_for_other_launchers_and_errors_name_its_line() {
    let _watchdog = Watchdog::new("a_file_of_hosts_is_read_as_for_other_launchers_and_errors_name_its_line");
    let dir = TempDir::new();
    let agent = agent(&dir);
    let file = dir.0.join("hosts");
    let file = file.to_str().unwrap();
    let run = |text: &str, options: &[&str]| {
        fs::write(file, text).unwrap();
        let args =
            [&["--hostfile", file, "--launch-agent", &agent], options, &["true", "--verbose"]].concat();
        amrun(&unique(), &args).output().unwrap()
    };
    for (text, options) in [
        ("a slots = 2 # both\nb:1 max-slots=8\n", &["-n", "3"][..]),
        ("a slots=2\n", &["-n", "3", "--oversubscribe"]),
        ("a slots=1 max_slots=3\n", &["-n", "3", "--oversubscribe"]),
    ] {
        let output = run(text, options);
        assert!(output.status.success(), "{text}: {}", stderr(&output));
    }
    for (text, options, said) in [
        ("a slots=2\n", &["-n", "3"][..], "--oversubscribe"),
        ("a slots=1 max_slots=2\n", &["-n", "3", "--oversubscribe"], "the hosts take 2"),
        (
            "# mine\na slot=2\n",
            &["-n", "1"],
            &format!("amrun: {file}:2: \"a slot=2\": \"slot=2\" is not understood"),
        ),
        ("# none\n", &["-n", "1"], "the list of hosts is empty"),
    ] {
        let output = run(text, options);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(stderr(&output).contains(said) && !stderr(&output).contains("Usage"), "{}", stderr(&output));
    }
}

/// `amrun` with these arguments on the hosts a and b, a task on each.
fn amrun_on_two(dir: &TempDir, args: &[&str]) -> Command {
    let agent = agent(dir);
    amrun(&unique(), &[&["-n", "2", "--hosts", "a,b", "--launch-agent", &agent], args].concat())
}

#[test]
fn what_is_not_text_reaches_the_hosts() {
    let _watchdog = Watchdog::new("what_is_not_text_reaches_the_hosts");
    let (dir, latin) = (TempDir::new(), OsStr::from_bytes(b"caf\xe9"));
    let mut command = amrun_on_two(&dir, &["sh", "-c", "echo \"$OMP_DRINK $0 $DRINK\""]);
    let output = command.arg(latin).env("OMP_DRINK", latin).env("DRINK", latin).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    // A host has its own variables, but those for all hosts. These hosts are this machine.
    assert_eq!(output.stdout, b"caf\xe9 caf\xe9 caf\xe9\n".repeat(2));
}

#[test]
fn tasks_of_a_job_inside_a_job_are_those_of_the_inner_job() {
    let _watchdog = Watchdog::new("tasks_of_a_job_inside_a_job_are_those_of_the_inner_job");
    let says = "echo $AM_TASK of $AM_NUM_TASKS $MPI_LOCALRANKID $MPI_LOCALNRANKS ${AM_JOB%%:*}";
    let outer = [("AM_JOB", "x:7"), ("AM_TASK", "7"), ("AM_NUM_TASKS", "9"), ("MPI_LOCALRANKID", "7")];
    let output =
        amrun_on_two(&TempDir::new(), &["--tag-output", "sh", "-c", says]).envs(outer).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (task, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("[{task}] {task} of 2 0 1 ")) && !line.ends_with('x'), "{line}");
    }
}

/// The agents of the job whose first process is `amrun`: the children of its second process.
fn agents(amrun: u32) -> Vec<u32> {
    children(amrun).into_iter().flat_map(children).collect()
}

/// Starts a job of two hosts, calls `end` with the processes of its launcher and its agents, and waits until no process is left.
fn ended_by(end: impl FnOnce(u32, &[u32])) -> Output {
    ended_by_with(&[], end)
}

/// [`ended_by`] with these variables.
fn ended_by_with(variables: &[(&str, &str)], end: impl FnOnce(u32, &[u32])) -> Output {
    let (dir, mark) = (TempDir::new(), unique());
    let agent = agent(&dir);
    let sleeper = format!("sleep 1000 & touch {}/$AM_TASK; wait", dir.0.display());
    let args = ["-n", "2", "--hosts", "a,b", "--launch-agent", &agent, "sh", "-c", &sleeper];
    let child = amrun(&mark, &args).envs(variables.iter().copied()).spawn().unwrap();
    let launcher = child.id();
    wait_until(|| dir.0.join("0").exists() && dir.0.join("1").exists());
    end(launcher, &agents(launcher));
    let output = wait(child);
    wait_until(|| marked(&mark).is_empty());
    output
}

#[test]
fn nothing_is_left_whichever_process_is_killed() {
    let _watchdog = Watchdog::new("nothing_is_left_whichever_process_is_killed");
    ended_by(|launcher, _| kill("KILL", launcher));
    let output = ended_by(|launcher, _| kill("KILL", children(launcher)[0]));
    assert_eq!(output.status.code(), Some(128 + 9));
    let output = ended_by(|_, agents| kill("KILL", agents[1]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is lost"), "{}", stderr(&output));
    let output = ended_by(|launcher, _| kill("TERM", launcher));
    assert_eq!(output.status.code(), Some(128 + 15));
    // The first child of an agent is its sweeper.
    let output = ended_by(|_, agents| kill("KILL", children(agents[0])[1]));
    assert_eq!(output.status.code(), Some(128 + 9));
}

#[test]
fn an_agent_or_a_launcher_that_falls_silent_is_given_up() {
    let _watchdog = Watchdog::new("an_agent_or_a_launcher_that_falls_silent_is_given_up");
    let soon = [("AM_HOST_SILENCE_SECONDS_MAX", "3")];
    let silent_agent = std::thread::spawn(move || ended_by_with(&soon, |_, agents| kill("STOP", agents[1])));
    let silent_launcher = ended_by_with(&soon, |guard, agents| {
        let launcher = children(guard)[0];
        kill("STOP", launcher);
        // The agents end their tasks while the launcher is stopped.
        wait_until(|| agents.iter().all(|&agent| children(agent).is_empty()));
        kill("CONT", launcher);
    });
    let said = stderr(&silent_launcher);
    assert_eq!(silent_launcher.status.code(), Some(128 + 9), "{said}");
    assert!(said.contains("heard nothing from amrun for 3 seconds"), "{said}");
    let silent_agent = silent_agent.join().unwrap();
    assert_eq!(silent_agent.status.code(), Some(1));
    assert!(
        stderr(&silent_agent).contains("host b is lost: nothing was heard from it for 3 seconds"),
        "{}",
        stderr(&silent_agent)
    );
}

/// As a machine is suspended, or a debugger stops a job.
#[test]
fn a_job_whose_processes_were_all_stopped_for_a_while_goes_on() {
    let _watchdog = Watchdog::new("a_job_whose_processes_were_all_stopped_for_a_while_goes_on");
    let (dir, mark) = (TempDir::new(), unique());
    let agent = agent(&dir);
    let script = format!("cd {}; >$AM_TASK; until test -e end; do sleep 0.01; done", dir.0.display());
    let args = ["-n", "2", "--hosts", "a,b", "--launch-agent", &agent, "sh", "-c", &script];
    let child = amrun(&mark, &args).env("AM_HOST_SILENCE_SECONDS_MAX", "3").spawn().unwrap();
    wait_until(|| dir.0.join("0").exists() && dir.0.join("1").exists());
    let launcher = children(child.id())[0];
    let stopped = [&agents(child.id())[..], &[launcher]].concat();
    stopped.iter().for_each(|&process| kill("STOP", process));
    std::thread::sleep(Duration::from_millis(3500));
    // The agents go on first, and hear nothing until the launcher does.
    for process in stopped {
        kill("CONT", process);
        std::thread::sleep(Duration::from_millis(100));
    }
    fs::write(dir.0.join("end"), "").unwrap();
    let output = wait(child);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// As on one host: `amrun --hosts a,b yes | head -1`.
#[test]
fn a_reader_of_the_output_who_leaves_is_no_lost_host() {
    let _watchdog = Watchdog::new("a_reader_of_the_output_who_leaves_is_no_lost_host");
    let dir = TempDir::new();
    let mut child = amrun_on_two(&dir, &["yes"]).spawn().unwrap();
    let mut first = [0; 2];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = wait(child);
    assert_eq!(output.status.code(), Some(128 + 13), "{}", stderr(&output));
    assert!(stderr(&output).contains("ended because its output cannot be written: Broken pipe"));
    assert!(!stderr(&output).contains("lost"), "{}", stderr(&output));
}

#[test]
fn output_for_a_closed_output_is_an_error() {
    let _watchdog = Watchdog::new("output_for_a_closed_output_is_an_error");
    let dir = TempDir::new();
    let agent = agent(&dir);
    for (program, code) in [("echo lost", 128 + 13), ("true", 0)] {
        let amrun = env!("CARGO_BIN_EXE_amrun");
        let script = format!("exec {amrun} -n 2 --hosts a,b --launch-agent {agent} {program} >&-");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_eq!(
            stderr(&output).contains("its output cannot be written"),
            code != 0,
            "{}",
            stderr(&output)
        );
    }
}

/// The environment of a login on another host is no part of the job.
#[test]
fn all_hosts_have_the_settings_of_the_launcher() {
    let _watchdog = Watchdog::new("all_hosts_have_the_settings_of_the_launcher");
    let dir = TempDir::new();
    let [foreign, other] = super::amrun::FOREIGN;
    let agent = dir.0.join("agent");
    fs::write(&agent, format!("#!/bin/sh\n[ $1 = b ] && export {foreign}=2 {other}=2\nshift\nexec \"$@\"\n"))
        .unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = agent.to_str().unwrap().to_owned();
    let mut command = amrun(&unique(), &["-n", "2", "--hosts", "a,b", "--launch-agent", &agent]);
    let role = command.arg(own_binary()).args(role_args()).env(ROLE, "tell variables");
    let output = role.env(foreign, "1").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let carried = stdout(&output).matches("carried [\"1\", \"\"]").count();
    assert_eq!(carried, 2, "{}", stdout(&output));
}

/// A person may read `amrun --hosts a,b program | less` slowly: the launcher then hears nothing from the agents, and must not give them up.
#[test]
fn a_pause_of_the_reader_of_the_output_ends_no_job() {
    let _watchdog = Watchdog::new("a_pause_of_the_reader_of_the_output_ends_no_job");
    let (dir, mark) = (TempDir::new(), unique());
    let agent = agent(&dir);
    // More than all the pipes up to the reader hold.
    let args = ["-n", "2", "--hosts", "a,b", "--launch-agent", &agent, "sh", "-c", "yes | head -c 1000000"];
    let child = amrun(&mark, &args).env("AM_HOST_SILENCE_SECONDS_MAX", "3").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(3500));
    let output = wait(child);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(output.stdout.len(), 2_000_000);
}

/// A server that is ended at the end of its test.
struct Server(std::process::Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Follows the recipe of the launcher's README, with a server that has its own keys and port.
#[test]
#[ignore = "needs sshd: .ci/run long ssh installs it"]
fn real_ssh_starts_the_agents() {
    let _watchdog = Watchdog::new("real_ssh_starts_the_agents");
    let dir = TempDir::new();
    let folder = dir.0.to_str().unwrap();
    let key = |name: &str| {
        let mut made = Command::new("ssh-keygen");
        made.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(dir.0.join(name));
        assert!(made.status().unwrap().success());
    };
    key("host");
    key("id");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = format!(
        "Port {port}\nListenAddress 127.0.0.1\nListenAddress 127.0.0.2\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/id.pub\n\
         StrictModes no\nUsePAM no\nPidFile none\n"
    );
    let client = format!(
        "Host *\nPort {port}\nIdentityFile {folder}/id\nUserKnownHostsFile {folder}/known\nStrictHostKeyChecking no\nBatchMode yes\n\
         LogLevel ERROR\n"
    );
    fs::write(dir.0.join("sshd"), server).unwrap();
    fs::write(dir.0.join("ssh"), client).unwrap();
    // sshd needs this folder, and must be started by its absolute path.
    fs::create_dir_all("/run/sshd").unwrap();
    let server = Command::new("/usr/sbin/sshd").args(["-D", "-e", "-f"]).arg(dir.0.join("sshd")).spawn();
    let _server = Server(server.unwrap());
    wait_until(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let agent = format!("ssh -F {folder}/ssh");
    let run = |script: &str| {
        let hosts = "127.0.0.1:2,127.0.0.2:2";
        amrun(&unique(), &["--hosts", hosts, "--launch-agent", &agent, "sh", "-c", script]).output().unwrap()
    };
    let output = run("echo $AM_TASK of $AM_NUM_TASKS");
    let mut lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0 of 4", "1 of 4", "2 of 4", "3 of 4"], "{}", stderr(&output));
    let word = format!("{}", 70_000 + std::process::id() % 10_000);
    let output = run(&format!("[ $AM_TASK = 3 ] && exit 5; sleep {word}"));
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert_eq!(called(&word), Vec::<u32>::new(), "tasks are left");
}
