//! A trace as text: the calls of each task as a tree, with the time of each.

use std::collections::HashMap;
use std::io::{self, Write};

use am_via_job::EventKind;

use super::trace::{Step, Trace, What};

pub(super) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    for (task, steps) in trace.tasks.iter().enumerate() {
        writeln!(out, "task {task}")?;
        // A call's time is shown in its first line, but known only at its end.
        let took = times(steps);
        let mut depths: HashMap<u32, usize> = HashMap::new();
        for (place, step) in steps.iter().enumerate() {
            let depth = depths.entry(step.thread).or_insert(1);
            if matches!(step.what, What::End { .. }) {
                *depth -= 1;
                continue;
            }
            write!(out, "{:12.3} us {:indent$}", step.at as f64 / 1e3, "", indent = *depth * 2)?;
            if step.thread > 0 {
                write!(out, "[thread {}] ", step.thread)?;
            }
            match &step.what {
                What::Begin => {
                    *depth += 1;
                    let (nanoseconds, is_cut) = took.get(&place).copied().unwrap_or((0, true));
                    let cut = if is_cut { ", cut off" } else { "" };
                    writeln!(out, "{}: {:.3} us{cut}", step.name, nanoseconds as f64 / 1e3)?;
                }
                What::Message { kind, peer, tag, bytes, .. } => {
                    let way = if *kind == EventKind::Received { "from" } else { "to" };
                    let peer = peer.map_or_else(|| "?".to_owned(), |peer| peer.to_string());
                    writeln!(out, "{} {way} task {peer}, tag {tag}, {bytes} bytes", step.name)?;
                }
                What::Value(value) => writeln!(out, "{}: {value}", step.name)?,
                What::Mark | What::End { .. } => writeln!(out, "{}", step.name)?,
            }
        }
    }
    Ok(())
}

/// How long each span took and whether it was cut off, by the index of the step that begins it.
pub(super) fn times(steps: &[Step]) -> HashMap<usize, (u64, bool)> {
    let mut open: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut times = HashMap::new();
    for (place, step) in steps.iter().enumerate() {
        match step.what {
            What::Begin => open.entry(step.thread).or_default().push(place),
            What::End { is_cut } => {
                if let Some(begun) = open.get_mut(&step.thread).and_then(Vec::pop) {
                    times.insert(begun, (step.at.saturating_sub(steps[begun].at), is_cut));
                }
            }
            _ => {}
        }
    }
    times
}

#[cfg(test)]
mod tests {
    #[test]
    fn calls_stand_in_a_tree_with_their_times() {
        let mut text = Vec::new();
        super::write(&super::super::trace::tests::two_tasks(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "task 0",
                "1.000 us MPI_Send: 3.000 us",
                "2.499 us eager to task 1, tag 7, 80 bytes",
                "task 1",
                "1.500 us MPI_Send: 1.100 us, cut off",
                "2.500 us received from task 0, tag 7, 80 bytes",
                "2.600 us early messages: 2",
            ]
        );
    }
}
