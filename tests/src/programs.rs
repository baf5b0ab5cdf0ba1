//! Programs in other languages: compiled with this build's compiler wrappers and run with its launcher, each under a time limit.

use std::env;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use am_core_conform::is_long;

/// Time limit of a command: all take less than a few seconds, except under a checker.
const LIMIT: Duration = Duration::from_secs(600);

/// The programs of this build that tests start.
const PROGRAMS: [&str; 12] = [
    "amrun",
    "mpicc",
    "mpicxx",
    "mpifort",
    "mpif77",
    "mpif90",
    "mpiexec",
    "mpirun",
    "mpi-install",
    "oshcc",
    "oshcxx",
    "oshrun",
];

/// Additional options for the compilers, separated by spaces: `-fsanitize=address`, if the library is built with it.
const COMPILER_OPTIONS: &str = "TESTS_COMPILER_OPTIONS";
/// The command under which each task runs, with its options: `valgrind -q --error-exitcode=99`.
const UNDER: &str = "TESTS_UNDER";

/// The numbers of tasks with which each program runs; by default 1, 2 and 3.
const TASKS: &str = "TESTS_TASKS";

/// The additional options for the compilers, which a user or `.ci/run` has set.
#[must_use]
pub fn compiler_options() -> Vec<String> {
    words_of(COMPILER_OPTIONS)
}

fn words_of(variable: &str) -> Vec<String> {
    let text = env::var(variable).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The folder of this build's programs: `target/release` or `target/debug`.
///
/// # Panics
/// If the running test is not in the folder in which cargo builds tests.
#[must_use]
pub fn folder() -> PathBuf {
    let own = env::current_exe().expect("a test has a path");
    own.ancestors().nth(2).expect("a test lies in target/PROFILE/deps").to_owned()
}

/// Runs a command. Returns whether it succeeded, and its output.
///
/// # Panics
/// If the command cannot be run, or is killed because it takes too long.
#[must_use]
pub fn run(command: &mut Command) -> (bool, String) {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let end = Instant::now() + LIMIT;
    // Reads the output while the command runs: a full pipe would stop it.
    let (said, mistakes) = (child.stdout.take(), child.stderr.take());
    let said = std::thread::spawn(move || text_of(said));
    let mistakes = std::thread::spawn(move || text_of(mistakes));
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            break status;
        }
        if Instant::now() > end {
            child.kill().expect("the child is ours");
            panic!("{command:?} took longer than {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = said.join().expect("reads only") + &mistakes.join().expect("reads only");
    (status.success(), text)
}

fn text_of(pipe: Option<impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).expect("a pipe can be read");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Builds the library, the wrappers and the launcher, once for all tests of a file.
///
/// # Panics
/// If they cannot be built.
pub fn build() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut command = build_of_all();
        command.args(PROGRAMS.map(|name| format!("--bin={name}")));
        let built = command.status().is_ok_and(|status| status.success());
        assert!(built, "{command:?} has failed");
    });
}

/// Builds the optimised library, wrappers and launcher, once for all tests of a file; returns their folder.
///
/// # Panics
/// If they cannot be built.
#[must_use]
pub fn build_optimised() -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["build", "--release", "-p", "mpi-over-am-abi", "-p", "am-via-launch"]);
        let built = command.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.is_ok_and(|status| status.success()), "{command:?} has failed");
    });
    folder().with_file_name("release")
}

/// The command that builds all libraries. Cargo chooses features by the packages and targets of a command. With these arguments it chooses
/// the features and the profile of `cargo test --workspace`, which has compiled nearly everything.
#[must_use]
pub fn build_of_all() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["build", "--workspace", "--lib", "--test=workspace"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    command.args(["--profile", if folder().ends_with("release") { "release" } else { "test" }]);
    command
}

/// `amrun` for a job on these hosts. Each host is an agent on this machine, which a plain command starts instead of ssh. If the system
/// allows it, the clock of host `late` is a million seconds ahead.
///
/// # Panics
/// If the command cannot be written to the folder.
#[must_use]
pub fn amrun_on_hosts(scratch: &Scratch, tasks: u32, hosts: &str) -> Command {
    const AGENT: &str = "#!/bin/sh
host=$1
shift
if [ $host = late ] && unshare --time --fork true; then exec unshare --time --fork --kill-child --monotonic 1000000 \"$@\"; fi
exec \"$@\"
";
    let agent = scratch.path().join("agent");
    std::fs::write(&agent, AGENT).expect("a test can write here");
    std::fs::set_permissions(&agent, Permissions::from_mode(0o755)).expect("the file is ours");
    let mut command = Command::new(folder().join("amrun"));
    command.args(["-n", &tasks.to_string(), "--hosts", hosts, "--launch-agent"]).arg(&agent);
    // The hosts share the processors of this machine, but their tasks do not know that: a task that spins would keep other tasks from
    // running.
    command.env("AM_SPIN_MICROSECONDS_MAX", "0");
    command.envs(provider_settings());
    command
}

/// Variables of the providers of libfabric for the tasks of a test. By default, `ofi_rxm` allocates and clears 128 receive buffers and more
/// in each task, 50 MB, which took a fifth of the processor time of all jobs. The long forms of the tests leave the providers as they are.
#[must_use]
pub fn provider_settings() -> Option<(&'static str, &'static str)> {
    const NAME: &str = "FI_OFI_RXM_MSG_RX_SIZE";
    (!is_long() && env::var_os(NAME).is_none()).then_some((NAME, "32"))
}

/// A temporary folder of its own for a test, also if other tests use the same name.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder.
    ///
    /// # Panics
    /// If the folder cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Self(path)
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that stays is removed with the temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Compiles a program by a wrapper, runs it with 1, 2 and 3 tasks (or as `TESTS_TASKS` says), and checks that it prints "all good".
///
/// # Panics
/// If a compilation or a run fails.
pub fn compile_and_run(wrapper: &str, options: &[&str], source: &str) {
    compile_and_run_under(wrapper, options, source, &[&[]]);
}

/// [`compile_and_run`] of a Fortran program by this compiler, whose modules are kept in the folder `cache`.
///
/// # Panics
/// If a compilation or a run fails.
pub fn compile_and_run_fortran(compiler: &str, options: &[&str], source: &str, cache: &Path) {
    let compilation = |command: &mut Command| {
        command.env("AM_FC", compiler).env("XDG_CACHE_HOME", cache);
    };
    compile_and_run_in("mpifort", options, source, &[&[]], compilation);
}

/// [`compile_and_run`] under each of these settings, given as variables with values.
///
/// # Panics
/// If a compilation or a run fails.
pub fn compile_and_run_under(wrapper: &str, options: &[&str], source: &str, all: &[&[(&str, &str)]]) {
    compile_and_run_in(wrapper, options, source, all, |_| ());
}

fn compile_and_run_in(
    wrapper: &str,
    options: &[&str],
    source: &str,
    all: &[&[(&str, &str)]],
    compilation: impl FnOnce(&mut Command),
) {
    build();
    let scratch = Scratch::new(&source.replace(['/', '.'], "-"));
    let program = scratch.path().join("program");
    let mut compile = Command::new(folder().join(wrapper));
    let source_file = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    compile.args(options).args(compiler_options()).arg(source_file).arg("-o").arg(&program);
    // Module files of the program are left in the folder where it is compiled.
    compile.current_dir(scratch.path()).env("XDG_CACHE_HOME", scratch.path());
    compilation(&mut compile);
    let (good, said) = run(&mut compile);
    assert!(good, "{source} does not compile: {said}");
    let mut numbers = words_of(TASKS);
    if numbers.is_empty() {
        numbers = ["1", "2", "3"].map(str::to_owned).to_vec();
    }
    for (settings, tasks) in
        all.iter().flat_map(|settings| numbers.iter().map(move |tasks| (settings, tasks)))
    {
        let mut start = Command::new(folder().join("mpiexec"));
        start.args(["-n", tasks]).args(words_of(UNDER)).arg(&program).envs(settings.iter().copied());
        let (good, said) = run(&mut start);
        assert!(good && said.contains("all good"), "{source} with {tasks} tasks and {settings:?}: {said}");
    }
}
