//! The expected messages and exit code after a death.

use super::plan::{Phase, Plan, Victim, Way, Wrapper};
use super::task::SURVIVOR;
use super::{SURVIVOR_CODE, VICTIM_CODE};

/// The end of the job.
#[derive(Debug)]
pub(super) struct JobEnd {
    /// The exit code of `amrun`, by the convention of shells.
    pub(super) code: i32,
    /// The complete standard error of the job.
    pub(super) lines: String,
}

/// The expected message and exit code of `amrun`.
#[derive(Debug)]
struct Expected {
    cause: &'static str,
    code: i32,
}

/// Checks the messages and the exit code of `amrun`, and the messages of all survivors.
pub(super) fn judge(plan: &Plan, ended: &JobEnd) -> Result<(), String> {
    let reports: Vec<&str> = ended.lines.lines().filter_map(|line| line.strip_prefix("amrun: ")).collect();
    match plan.victim {
        Victim::Guard => expect(ended.code == 128 + 9, || {
            "amrun was killed, but its exit code is not that of SIGKILL".to_owned()
        }),
        Victim::Launcher => {
            let killed = "the launcher (a process of amrun) was killed by signal 9";
            let is_right = matches!(reports[..], [report] if report.starts_with(killed));
            expect(is_right, || format!("amrun said {reports:?} of its own death"))?;
            expect(ended.code == 128 + 9, || "the exit code is not the killed launcher's".to_owned())
        }
        Victim::Task(task, way) => judge_death_of(task, way, plan, ended, &reports),
    }
}

fn judge_death_of(task: u32, way: Way, plan: &Plan, ended: &JobEnd, reports: &[&str]) -> Result<(), String> {
    let [report] = reports else { return Err(format!("amrun must report once, and said {reports:?}")) };
    let expected = expected(plan, way);
    let met =
        expected.iter().find(|Expected { cause, .. }| report.starts_with(&format!("task {task} {cause}")));
    let Some(Expected { cause, code }) = met else {
        return Err(format!("amrun must say of task {task} one of {expected:?}, and said \"{report}\""));
    };
    let last = ended.lines.lines().rfind(|line| !line.trim().is_empty());
    expect(last == Some(&format!("amrun: {report}")), || {
        format!("amrun's line is not the last one: {last:?}")
    })?;
    expect(ended.code == *code, || format!("the exit code must be {code}"))?;
    expect(ended.code != 1 || report.contains("the job's exit code is 1"), || {
        format!(
            "the task left with 0 and the job ends with 1, and the last line does not say so: \"{report}\""
        )
    })?;
    for line in ended.lines.lines().filter(|line| line.contains(SURVIVOR)) {
        expect(line.contains(&format!("task {task} ")), || {
            format!("a survivor does not name task {task}: \"{line}\"")
        })?;
        expect(line.contains(cause), || format!("a survivor does not know the cause: \"{line}\""))?;
    }
    expect(ended.code != i32::from(SURVIVOR_CODE), || "the exit code is a survivor's".to_owned())
}

/// The accepted reports of the death. If a process behind a wrapper ends before it joins the job, the launcher sees only the wrapper's exit
/// code.
fn expected(plan: &Plan, way: Way) -> Vec<Expected> {
    let of = |cause, code| Expected { cause, code };
    let own = match way {
        Way::Kill | Way::StopThenKill => of("was killed by signal 9 (SIGKILL)", 128 + 9),
        Way::Segv => of("was killed by signal 11 (SIGSEGV)", 128 + 11),
        Way::Abort | Way::StackOverflow => of("was killed by signal 6 (SIGABRT)", 128 + 6),
        Way::Panic => of("exited with code 101", 101),
        Way::Exit => of("exited with code 3", i32::from(VICTIM_CODE)),
        Way::ExitZero => of("exited (code 0) before it left the job", 1),
    };
    let never_joined = of("ended with code 0 without joining the job", 1);
    match (plan.phase, plan.wrapper) {
        (Phase::Init, _) if way == Way::ExitZero => vec![never_joined],
        // The signal may also arrive after the task has joined and before the launcher first sees it.
        (Phase::Init, Wrapper::Silent) => vec![own, never_joined, of("ended behind its wrapper program", 1)],
        (Phase::Init, Wrapper::Honest) => {
            let cause = match own.code {
                137 => "exited with code 137, as a shell does whose program was killed by signal 9 (SIGKILL)",
                139 => {
                    "exited with code 139, as a shell does whose program was killed by signal 11 (SIGSEGV)"
                }
                134 => "exited with code 134, as a shell does whose program was killed by signal 6 (SIGABRT)",
                _ => own.cause,
            };
            let by_shell = of(cause, own.code);
            vec![own, by_shell]
        }
        _ => vec![own],
    }
}

fn expect(is_so: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what()) }
}
