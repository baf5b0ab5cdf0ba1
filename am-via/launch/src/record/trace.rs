//! A trace of a job: what each task did, when, and which message went where.
//!
//! As JSON it is in Chrome's trace-event format, which Perfetto (<https://ui.perfetto.dev>) and `chrome://tracing` open: a track for each
//! thread of each task, spans of calls, arrows of messages, counters of queues.

use std::collections::HashMap;
use std::io::{self, Write};

use am_via_job::{EventKind, Recorded, RecordedEvent};
use serde_json::{Value, json};

/// What each of a job's tasks did, in the order of its record.
#[derive(Debug)]
pub struct Trace {
    pub(super) tasks: Vec<Vec<Step>>,
    pub(super) messages: Vec<Arrow>,
    /// Number of each task's events that later ones have overwritten.
    pub(super) dropped: Vec<u64>,
    /// The host of each task; empty if the job has one host.
    pub(super) hosts: Vec<String>,
}

/// A step of a thread of a task. Spans are nested, and each of them ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) thread: u32,
    /// Nanoseconds since the first event of the job.
    pub(super) at: u64,
    pub(super) name: String,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Begin,
    /// `is_cut`: the task ended within the span.
    End {
        is_cut: bool,
    },
    /// A message or a transfer; `arrow`: its index in [`Trace::messages`].
    Message {
        kind: EventKind,
        peer: Option<u32>,
        tag: i32,
        bytes: u64,
        arrow: Option<usize>,
    },
    Value(u64),
    Mark,
}

/// A message: task, thread and time of both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) from: (u32, u32, u64),
    pub(super) to: (u32, u32, u64),
}

/// Identifies a message at both its ends: origin, target, tag, context, and the number of earlier messages with these four.
type Key = (u32, u32, i32, u32, u32);

fn key_of(task: u32, event: &RecordedEvent) -> Option<Key> {
    let (peer, order) = (event.peer?, event.order?);
    let &RecordedEvent { tag, context, .. } = event;
    match event.kind {
        EventKind::Sent => Some((task, peer, tag, context, order)),
        EventKind::Received => Some((peer, task, tag, context, order)),
        _ => None,
    }
}

impl Trace {
    /// The trace of these tasks' records, task 0 first.
    #[must_use]
    pub fn of(recorded: &[Recorded]) -> Self {
        let events =
            || (0u32..).zip(recorded).flat_map(|(task, of)| of.events.iter().map(move |event| (task, event)));
        let begin = events().map(|(_, event)| event.nanoseconds).min().unwrap_or(0);
        let sent: HashMap<Key, (u32, u64)> = events()
            .filter(|(_, event)| event.kind == EventKind::Sent)
            .filter_map(|(task, event)| Some((key_of(task, event)?, (event.thread, event.nanoseconds))))
            .collect();
        let mut messages = Vec::new();
        let mut arrows: HashMap<Key, usize> = HashMap::new();
        for (task, event) in events().filter(|(_, event)| event.kind == EventKind::Received) {
            let Some((key, &(thread, at))) = key_of(task, event).and_then(|key| sent.get_key_value(&key))
            else {
                continue;
            };
            arrows.insert(*key, messages.len());
            // A message that is sent at once is recorded after it was sent, perhaps even after it was received. The message's arrow must
            // nevertheless begin before the arrow ends.
            let at = at.min(event.nanoseconds.saturating_sub(1));
            messages.push(Arrow {
                from: (key.0, thread, at.saturating_sub(begin)),
                to: (task, event.thread, event.nanoseconds - begin),
            });
        }
        let tasks = (0u32..)
            .zip(recorded)
            .map(|(task, of)| {
                let arrow_of = |event: &RecordedEvent| arrows.get(&key_of(task, event)?).copied();
                steps(of, begin, arrow_of, &messages)
            })
            .collect();
        let dropped = recorded.iter().map(|of| of.events_dropped).collect();
        Self { tasks, messages, dropped, hosts: Vec::new() }
    }

    /// This trace with the host of each task added.
    #[must_use]
    pub fn on_hosts(self, hosts: Vec<String>) -> Self {
        Self { hosts, ..self }
    }

    /// A text about the missing events; empty if none are missing.
    #[must_use]
    pub fn missing(&self) -> String {
        let lost: Vec<String> = (0..)
            .zip(&self.dropped)
            .filter(|&(_, &dropped)| dropped > 0)
            .map(|(task, dropped): (u32, _)| format!("the first {dropped} of task {task}"))
            .collect();
        if lost.is_empty() {
            String::new()
        } else {
            format!(
                "a trace has only the last events of each task; these events are missing: {}",
                lost.join(", ")
            )
        }
    }

    pub(super) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
        serde_json::to_writer(&mut *out, &json!({ "dropped_events": self.dropped }))?;
        write!(out, ",\"traceEvents\":[")?;
        let mut separator = "\n";
        let mut write = |value: &Value| -> io::Result<()> {
            write!(out, "{separator}")?;
            separator = ",\n";
            Ok(serde_json::to_writer(&mut *out, value)?)
        };
        for (task, steps) in self.tasks.iter().enumerate() {
            let named = json!({ "ph": "M", "pid": task, "tid": 0, "name": "process_name", "args": { "name": super::title(task, &self.hosts) } });
            write(&named)?;
            write(
                &json!({ "ph": "M", "pid": task, "tid": 0, "name": "process_sort_index", "args": { "sort_index": task } }),
            )?;
            for step in steps {
                step.values(task, &self.messages).iter().try_for_each(&mut write)?;
            }
        }
        writeln!(out, "\n]}}")
    }
}

/// Time in the unit of Chrome's format.
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

impl Step {
    /// The step in Chrome's format, and the end of an arrow if it has one.
    fn values(&self, task: usize, messages: &[Arrow]) -> Vec<Value> {
        let Self { thread, at, name, what } = self;
        let at = microseconds(*at);
        let with = |ph: &str, more: Value| {
            let mut value = json!({ "ph": ph, "pid": task, "tid": thread, "ts": at, "name": name });
            if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
                value.extend(more);
            }
            value
        };
        match what {
            What::Begin => vec![with("B", json!({ "cat": "call" }))],
            What::End { is_cut: false } => vec![with("E", json!({ "cat": "call" }))],
            What::End { is_cut: true } => {
                vec![with("E", json!({ "cat": "call", "args": { "cut off": true } }))]
            }
            What::Mark => vec![with("i", json!({ "s": "t", "cat": "mark" }))],
            What::Value(value) => vec![with("C", json!({ "cat": "queue", "args": { "length": value } }))],
            What::Message { kind, peer, tag, bytes, arrow } => {
                let args = json!({ "peer": peer, "tag": tag, "bytes": bytes });
                // An arrow needs a span at each end.
                let mut values = vec![with("X", json!({ "cat": "message", "dur": 0.001, "args": args }))];
                if arrow.is_some_and(|arrow| arrow < messages.len()) {
                    let (ph, more) = match kind {
                        EventKind::Sent => ("s", json!({ "cat": "message", "id": arrow })),
                        _ => ("f", json!({ "cat": "message", "id": arrow, "bp": "e" })),
                    };
                    let mut end = with(ph, more);
                    end["name"] = "message".into();
                    values.push(end);
                }
                values
            }
        }
    }
}

/// The steps of a task. Spans that began before the first kept event are left out; spans that have not ended end with the trace.
fn steps(
    recorded: &Recorded,
    begin: u64,
    arrow_of: impl Fn(&RecordedEvent) -> Option<usize>,
    messages: &[Arrow],
) -> Vec<Step> {
    let mut open: HashMap<u32, Vec<String>> = HashMap::new();
    let mut steps = Vec::with_capacity(recorded.events.len());
    let mut last = 0;
    for event in &recorded.events {
        let (thread, mut at) = (event.thread, event.nanoseconds.saturating_sub(begin));
        last = last.max(at);
        let mut name = recorded.name(event.name).to_owned();
        let what = match event.kind {
            EventKind::Begin => {
                open.entry(thread).or_default().push(name.clone());
                What::Begin
            }
            EventKind::End => match open.get_mut(&thread).and_then(Vec::pop) {
                Some(begun) => {
                    name = begun;
                    What::End { is_cut: false }
                }
                None => continue,
            },
            EventKind::Value => What::Value(event.amount),
            EventKind::Mark => What::Mark,
            kind @ (EventKind::Sent | EventKind::Received | EventKind::Moved) => {
                let arrow = arrow_of(event);
                if let Some(arrow) =
                    arrow.and_then(|arrow| messages.get(arrow)).filter(|_| kind == EventKind::Sent)
                {
                    at = arrow.from.2;
                }
                What::Message { kind, peer: event.peer, tag: event.tag, bytes: event.amount, arrow }
            }
        };
        steps.push(Step { thread, at, name, what });
    }
    for (thread, mut names) in open {
        while let Some(name) = names.pop() {
            steps.push(Step { thread, at: last, name, what: What::End { is_cut: true } });
        }
    }
    steps
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Task 0 sends a message to task 1, which dies in its receive.
    pub(in super::super) fn two_tasks() -> Trace {
        let names = ["MPI_Send", "eager", "received", "early messages"].map(str::to_owned).to_vec();
        let event = |nanoseconds, kind, name, peer, amount| RecordedEvent {
            nanoseconds,
            kind,
            thread: 0,
            name,
            peer,
            tag: 7,
            context: 1,
            amount,
            order: Some(0),
        };
        let sender = vec![
            event(1000, EventKind::End, 0, None, 0),
            event(2000, EventKind::Begin, 0, None, 0),
            event(4000, EventKind::Sent, 1, Some(1), 80),
            event(5000, EventKind::End, 0, None, 0),
        ];
        let receiver = vec![
            event(2500, EventKind::Begin, 0, None, 0),
            event(3500, EventKind::Received, 2, Some(0), 80),
            event(3600, EventKind::Value, 3, None, 2),
        ];
        let of = |events, events_dropped| Recorded {
            names: names.clone(),
            events,
            events_dropped,
            ..Recorded::default()
        };
        Trace::of(&[of(sender, 0), of(receiver, 9)])
    }

    #[test]
    fn the_json_has_nested_spans_and_arrows_that_go_forward() {
        let trace = two_tasks();
        let mut text = Vec::new();
        trace.write_json(&mut text).unwrap();
        let value: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["otherData"]["dropped_events"], json!([0, 9]));
        let events = value["traceEvents"].as_array().unwrap();
        let of = |ph: &str| events.iter().filter(|event| event["ph"] == ph).collect::<Vec<_>>();
        assert_eq!((of("B").len(), of("E").len()), (2, 2), "the end without a begin is left out");
        let (start, finish) = (of("s")[0], of("f")[0]);
        assert_eq!(start["id"], finish["id"]);
        assert!(start["ts"].as_f64() < finish["ts"].as_f64(), "{start} {finish}");
        assert_eq!(of("E")[1]["args"]["cut off"], true, "the task died in this call");
        assert_eq!(of("C")[0]["args"]["length"], 2);
        assert!(trace.missing().contains("the first 9 of task 1"), "{}", trace.missing());
    }
}
