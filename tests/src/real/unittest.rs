//! Parses the output of Python's unittest from several tasks at once: each line begins with `[task] `, the launcher's tag.

use std::collections::BTreeMap;

/// The results of one task's tests.
#[derive(Debug, Default)]
pub struct Tests {
    /// Number of completed tests; `None` if the task did not finish them all.
    pub ran: Option<u64>,
    /// Number of tests that the program skipped.
    pub skipped: u64,
    /// Name and last output of each failed test.
    pub failures: Vec<(String, String)>,
    /// The last test that has begun.
    pub last: String,
}

/// The results of each task's tests, by task.
#[must_use]
pub fn read(said: &str) -> BTreeMap<u32, Tests> {
    let mut lines: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for line in said.lines() {
        let marked = line.strip_prefix('[').and_then(|line| line.split_once(']'));
        if let Some((Ok(task), line)) = marked.map(|(task, line)| (task.parse(), line)) {
            lines.entry(task).or_default().push(line.strip_prefix(' ').unwrap_or(line));
        }
    }
    lines.into_iter().map(|(task, lines)| (task, of_one(&lines))).collect()
}

fn of_one(lines: &[&str]) -> Tests {
    let mut tests = Tests::default();
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: ")) {
            // A ruled line, the traceback, an empty line, the next ruled line.
            let traceback = lines[at + 1..].iter().skip(1).skip_while(|line| line.starts_with("----"));
            let last = traceback
                .take_while(|line| !line.starts_with("====") && !line.starts_with("----"))
                .filter(|line| !line.trim().is_empty())
                .last();
            tests.failures.push((case(name), last.unwrap_or(&"").trim().to_owned()));
        } else if let Some(rest) = line.strip_prefix("Ran ") {
            tests.ran = rest.split(' ').next().and_then(|number| number.parse().ok());
        } else if let Some((_, rest)) = line.split_once("skipped=").filter(|_| tests.ran.is_some()) {
            tests.skipped = rest.split([',', ')']).next().and_then(|number| number.parse().ok()).unwrap_or(0);
        } else if line.starts_with("test") && line.contains(" (test_") {
            tests.last = case(line);
        }
    }
    tests
}

/// `module.Class.test`, from `test (module.Class.test) ...` or, in older Pythons, `test (module.Class) ...`; the class if its set-up
/// failed.
fn case(name: &str) -> String {
    let (test, rest) = name.split_once(" (").unwrap_or((name, ""));
    let inside = rest.split(')').next().unwrap_or("");
    if inside.is_empty() {
        return test.to_owned();
    }
    if inside.ends_with(&format!(".{test}")) { inside.to_owned() } else { format!("{inside}.{test}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_counts_are_read_for_each_task() {
        let said = "\
[0] testA (test_x.TestX.testA) ... ok
[1] testA (test_x.TestX.testA) ... FAIL
[0] testB (test_x.TestX) ... ERROR
[1] testB (test_x.TestX.testB) ... 
[0] ======================================================================
[0] ERROR: testB (test_x.TestX)
[0] ----------------------------------------------------------------------
[0] Traceback (most recent call last):
[0]   File \"x\", line 1, in testB
[0] ValueError: two
[0] 
[0] ----------------------------------------------------------------------
[0] Ran 12 tests in 0.1s
[0] 
[0] FAILED (errors=1, skipped=3)
mpiexec: a line of the launcher's own
";
        let tests = read(said);
        assert_eq!(tests.len(), 2);
        assert_eq!((tests[&0].ran, tests[&0].skipped), (Some(12), 3));
        assert_eq!(tests[&0].failures, [("test_x.TestX.testB".to_owned(), "ValueError: two".to_owned())]);
        assert_eq!((tests[&1].ran, &*tests[&1].last), (None, "test_x.TestX.testB"));
    }
}
