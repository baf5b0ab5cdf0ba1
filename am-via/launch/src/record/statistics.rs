//! Figures about the activity of each task.

use std::fmt;

use am_via_job::{EventKind, IN_CALLS, Recorded, RecordedTally, SLEEP};
use serde::Serialize;

/// The activity of a job's tasks, in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Task 0 first.
    pub tasks: Vec<TaskStatistics>,
    /// The host of each task; empty if the job has one host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

/// The activity of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaskStatistics {
    /// Time in calls of the library; nested calls are counted once.
    pub seconds_in_calls: f64,
    /// Number of sleeps in waits.
    pub sleeps: u64,
    /// Total time of the sleeps, in seconds.
    pub seconds_asleep: f64,
    /// The calls, in order of their time, longest first.
    pub calls: Vec<Call>,
    /// Messages sent, by protocol and receiver.
    pub sent: Vec<Messages>,
    /// Messages received, by sender.
    pub received: Vec<Messages>,
    /// Bytes that this task transferred by itself, by operation and peer: puts, gets, copies.
    pub moved: Vec<Messages>,
    /// Other events: early arrivals, stalls for want of credits.
    pub events: Vec<Messages>,
    /// Maximum lengths of the task's queues.
    pub queues: Vec<Queue>,
    /// Number of events that were not counted, because the record had no slot for their kind.
    pub not_counted: u64,
}

/// The calls of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The function.
    pub name: String,
    /// Number of calls.
    pub count: u64,
    /// Total time of the calls in seconds, including nested calls.
    pub seconds: f64,
    /// Time of the longest call in seconds.
    pub seconds_longest: f64,
}

/// Messages, transfers or events of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Messages {
    /// The protocol or kind of the messages.
    pub name: String,
    /// The task at the other end, if it is known.
    pub peer: Option<u32>,
    /// Number of the messages.
    pub count: u64,
    /// Bytes of the messages in total.
    pub bytes: u64,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Queue {
    /// The entries of the queue.
    pub name: String,
    /// The maximum number of entries.
    pub longest: u64,
}

impl Statistics {
    /// The figures from the tasks' records, task 0 first.
    #[must_use]
    pub fn of(recorded: &[Recorded]) -> Self {
        Self { tasks: recorded.iter().map(TaskStatistics::of).collect(), hosts: Vec::new() }
    }

    /// These statistics with the host of each task added.
    #[must_use]
    pub fn on_hosts(self, hosts: Vec<String>) -> Self {
        Self { hosts, ..self }
    }
}

impl TaskStatistics {
    fn of(recorded: &Recorded) -> Self {
        let mut of = Self { not_counted: recorded.not_counted, ..Self::default() };
        for tally in &recorded.tallies {
            let name = recorded.name(tally.name).to_owned();
            match tally.kind {
                EventKind::Begin if name == IN_CALLS => of.seconds_in_calls = seconds(tally.nanoseconds),
                EventKind::Begin if name == SLEEP => {
                    (of.sleeps, of.seconds_asleep) = (tally.count, seconds(tally.nanoseconds));
                }
                EventKind::Begin | EventKind::End => of.calls.push(Call {
                    name,
                    count: tally.count,
                    seconds: seconds(tally.nanoseconds),
                    seconds_longest: seconds(tally.largest),
                }),
                EventKind::Sent => of.sent.push(messages(name, tally)),
                EventKind::Received => of.received.push(messages(name, tally)),
                EventKind::Moved => of.moved.push(messages(name, tally)),
                EventKind::Mark => of.events.push(messages(name, tally)),
                EventKind::Value => of.queues.push(Queue { name, longest: tally.largest }),
            }
        }
        of.calls.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        for list in [&mut of.sent, &mut of.received, &mut of.moved, &mut of.events] {
            list.sort_by(|a, b| (a.peer, &a.name).cmp(&(b.peer, &b.name)));
        }
        of
    }
}

fn messages(name: String, tally: &RecordedTally) -> Messages {
    Messages { name, peer: tally.peer, count: tally.count, bytes: tally.bytes }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, task) in self.tasks.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "  {}: {task}", super::title(number, &self.hosts))?;
        }
        Ok(())
    }
}

impl fmt::Display for TaskStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.6} s in calls; asleep {} x, {:.6} s",
            self.seconds_in_calls, self.sleeps, self.seconds_asleep
        )?;
        for Call { name, count, seconds, seconds_longest } in &self.calls {
            write!(f, "\n    {name}: {count} x, {seconds:.6} s, the longest {seconds_longest:.6} s")?;
        }
        for (direction, list) in
            [("sent to", &self.sent), ("received from", &self.received), ("moved, peer", &self.moved)]
        {
            for Messages { name, peer, count, bytes } in list {
                let peer = peer.map_or_else(|| "unknown".to_owned(), |peer| format!("task {peer}"));
                write!(f, "\n    {direction} {peer}, {name}: {count} x, {bytes} bytes")?;
            }
        }
        for Messages { name, peer, count, .. } in &self.events {
            let from = peer.map_or_else(String::new, |peer| format!(" from task {peer}"));
            write!(f, "\n    {name}{from}: {count} x")?;
        }
        for Queue { name, longest } in &self.queues {
            write!(f, "\n    {name}: at most {longest} at once")?;
        }
        if self.not_counted > 0 {
            write!(f, "\n    and {} events of other kinds", self.not_counted)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_become_lines() {
        let names = ["MPI_Send", "eager", IN_CALLS, "early messages"].map(str::to_owned).to_vec();
        let tally = |kind, name, peer, count, bytes, largest| RecordedTally {
            kind,
            name,
            peer,
            count,
            bytes,
            nanoseconds: 2_000_000,
            largest,
        };
        let recorded = Recorded {
            names,
            tallies: vec![
                tally(EventKind::Begin, 0, None, 3, 0, 1_000_000),
                tally(EventKind::Sent, 1, Some(1), 3, 24, 8),
                tally(EventKind::Begin, 2, None, 3, 0, 1_000_000),
                tally(EventKind::Value, 3, None, 9, 0, 5),
            ],
            ..Recorded::default()
        };
        let statistics = Statistics::of(&[recorded]);
        assert_eq!(
            statistics.to_string(),
            "  task 0: 0.002000 s in calls; asleep 0 x, 0.000000 s\n    \
             MPI_Send: 3 x, 0.002000 s, the longest 0.001000 s\n    \
             sent to task 1, eager: 3 x, 24 bytes\n    \
             early messages: at most 5 at once"
        );
        let json = serde_json::to_value(&statistics).unwrap();
        assert_eq!(json["tasks"][0]["sent"][0]["bytes"], 24);
        let text = statistics.on_hosts(vec!["first".into()]).to_string();
        assert!(text.starts_with("  task 0 on host first: 0.002000 s in calls"), "{text}");
    }
}
