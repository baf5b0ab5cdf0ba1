//! Which task waits for which, and which tasks no message can reach any more.
//!
//! A waiting task continues when one of its operations completes. The call may need all of them, but the analysis assumes that one is
//! sufficient; so a task that it reports as stuck is stuck whatever the call is.

use std::collections::BTreeSet;
use std::fmt;

use am_via_job::UnderWay;

use super::{Activity, Wait};

/// The result of the analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Each of these tasks waits for the next one, and the last one for the first: none of them sends.
    Cycle(Vec<u32>),
    /// `waiting` waits for `partner`, which has ended.
    PartnerEnded {
        /// The task that waits.
        waiting: u32,
        /// The task that `waiting` waits for.
        partner: u32,
    },
    /// `waiting` waits for `partner`, whose threads wait for each other.
    PartnerStuck {
        /// The task that waits.
        waiting: u32,
        /// The task that `waiting` waits for.
        partner: u32,
    },
    /// All living tasks wait, and none has an operation under way: only a message from outside the job could end this.
    Idle,
    /// Each waiting task may receive a message from one of these tasks, which can act without a message.
    Others(Vec<u32>),
    /// No task waits.
    NobodyWaits,
}

impl Verdict {
    /// The verdict on a job from what each task does, task 0 first.
    #[must_use]
    pub fn of(tasks: &[Activity]) -> Self {
        let waits = |task: &u32| matches!(activity(tasks, *task), Some(Activity::Waits(_)));
        let all: Vec<u32> = (0..).zip(tasks).map(|(task, _)| task).collect();
        if !all.iter().any(waits) {
            return Self::NobodyWaits;
        }
        let stuck = stuck(tasks, &all);
        let with_operations =
            stuck.iter().copied().find(|&task| !operations_of(tasks, task).is_none_or(Wait::is_idle));
        match with_operations {
            Some(first) => chain(tasks, &all, &stuck, first),
            None if stuck.len() == all.iter().filter(|task| is_alive(tasks, **task)).count() => Self::Idle,
            None => {
                // If a time limit or a thread may end each wait, no wait is one for another of these tasks.
                let each_may = all.iter().filter(|task| waits(task)).all(|&task| can_act(tasks, task));
                let may_help = |task: &u32| can_act(tasks, *task) && !(each_may && waits(task));
                Self::Others(all.iter().copied().filter(may_help).collect())
            }
        }
    }

    /// Whether the job can make no more progress.
    #[must_use]
    pub const fn is_dead_lock(&self) -> bool {
        matches!(self, Self::Cycle(_) | Self::PartnerEnded { .. } | Self::PartnerStuck { .. })
    }
}

fn activity(tasks: &[Activity], task: u32) -> Option<&Activity> {
    tasks.get(task as usize)
}

fn operations_of(tasks: &[Activity], task: u32) -> Option<&Wait> {
    match activity(tasks, task) {
        Some(Activity::Waits(wait)) => Some(wait),
        _ => None,
    }
}

fn is_alive(tasks: &[Activity], task: u32) -> bool {
    !matches!(activity(tasks, task), None | Some(Activity::Ended))
}

/// Whether the task may act without a message from another task.
fn can_act(tasks: &[Activity], task: u32) -> bool {
    match activity(tasks, task) {
        None | Some(Activity::Ended | Activity::WaitsForItself) => false,
        Some(Activity::Waits(wait)) => wait.may_end_alone(),
        Some(_) => true,
    }
}

/// The task at the other end of an operation, if it is one task.
fn partner_of(operation: &UnderWay) -> Option<u32> {
    operation.partner.map(|task| task.0)
}

/// The tasks whose send or receive can end the wait.
fn helpers<'a>(wait: &'a Wait, own: u32, all: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
    let any = wait.is_idle() || wait.operations().any(|operation| operation.partner.is_none());
    let others = all.iter().copied().filter(move |&task| any && task != own);
    others.chain(wait.operations().filter_map(partner_of))
}

/// The waiting tasks that no other task can help, directly or through others.
fn stuck(tasks: &[Activity], all: &[u32]) -> BTreeSet<u32> {
    let mut acting: BTreeSet<u32> = all.iter().copied().filter(|&task| can_act(tasks, task)).collect();
    loop {
        let more: Vec<u32> = all
            .iter()
            .copied()
            .filter(|task| !acting.contains(task))
            .filter(|&task| {
                operations_of(tasks, task)
                    .is_some_and(|wait| helpers(wait, task, all).any(|helper| acting.contains(&helper)))
            })
            .collect();
        if more.is_empty() {
            return all
                .iter()
                .copied()
                .filter(|task| !acting.contains(task) && operations_of(tasks, *task).is_some())
                .collect();
        }
        acting.extend(more);
    }
}

/// Follows the waits from `first`, up to a task that has ended or that was seen before.
fn chain(tasks: &[Activity], all: &[u32], stuck: &BTreeSet<u32>, first: u32) -> Verdict {
    let mut seen = vec![first];
    let mut at = first;
    loop {
        let next = operations_of(tasks, at).and_then(|wait| {
            let mut helpers = helpers(wait, at, all);
            // Prefers a partner that waits too, which is more informative than one that has ended.
            let found = helpers.find(|helper| stuck.contains(helper));
            found.or_else(|| wait.operations().find_map(partner_of))
        });
        let Some(next) = next.filter(|next| stuck.contains(next)) else {
            if let Some(partner) = next.filter(|&next| is_alive(tasks, next)) {
                return Verdict::PartnerStuck { waiting: at, partner };
            }
            let partner = next.or_else(|| all.iter().copied().find(|&task| !is_alive(tasks, task)));
            return Verdict::PartnerEnded { waiting: at, partner: partner.unwrap_or(at) };
        };
        if let Some(begin) = seen.iter().position(|&task| task == next) {
            return Verdict::Cycle(seen.split_off(begin));
        }
        seen.push(next);
        at = next;
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cycle(tasks) if tasks.len() == 1 => {
                write!(f, "a deadlock: task {} waits for itself", tasks[0])
            }
            Self::Cycle(tasks) => {
                write!(f, "a deadlock: task {} waits for task ", tasks[0])?;
                for task in &tasks[1..] {
                    write!(f, "{task}, which waits for task ")?;
                }
                write!(f, "{}: no message is under way", tasks[0])
            }
            Self::PartnerEnded { waiting, partner } => {
                write!(f, "task {waiting} waits for task {partner}, which has ended: no message will come")
            }
            Self::PartnerStuck { waiting, partner } => write!(
                f,
                "task {waiting} waits for task {partner}, whose threads wait for each other: no message will come"
            ),
            Self::Idle => f.write_str("idle: each task waits for a message, and no operation is under way"),
            Self::Others(tasks) => match &tasks[..] {
                [] => f.write_str("a time limit or another thread of the task may end each wait"),
                [one] => write!(f, "the others wait for task {one}, or for a task that waits for it"),
                many => write!(f, "the others wait for one of tasks {}", super::list(many)),
            },
            Self::NobodyWaits => f.write_str("no task waits for a message"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use am_contract::task::TaskId;
    use am_via_job::WaitFacts;

    fn waits_for(partners: &[Option<u32>]) -> Activity {
        let operation = |&partner: &Option<u32>| UnderWay {
            what: "receive".into(),
            partner: partner.map(TaskId),
            details: String::new(),
        };
        let operations = partners.iter().map(operation).collect();
        let facts = WaitFacts { operations, ..WaitFacts::default() };
        Activity::Waits(Wait { facts: Some(facts), quiet: Duration::from_secs(5), call: None, caller: None })
    }

    fn computes() -> Activity {
        Activity::Computes { processor_time: Duration::ZERO }
    }

    #[test]
    fn two_tasks_that_receive_from_each_other_are_a_cycle() {
        let verdict = Verdict::of(&[waits_for(&[Some(1)]), waits_for(&[Some(0)])]);
        assert_eq!(verdict, Verdict::Cycle(vec![0, 1]));
        assert_eq!(
            verdict.to_string(),
            "a deadlock: task 0 waits for task 1, which waits for task 0: no message is under way"
        );
    }

    #[test]
    fn a_task_that_waits_for_itself_is_a_cycle() {
        let verdict = Verdict::of(&[waits_for(&[Some(0)])]);
        assert_eq!(verdict.to_string(), "a deadlock: task 0 waits for itself");
    }

    #[test]
    fn a_partner_that_computes_may_still_send() {
        let verdict = Verdict::of(&[waits_for(&[Some(1)]), waits_for(&[Some(2)]), computes()]);
        assert_eq!(verdict, Verdict::Others(vec![2]));
        assert!(!verdict.is_dead_lock());
    }

    #[test]
    fn one_operation_with_a_partner_that_acts_is_enough() {
        let tasks = [waits_for(&[Some(1), Some(2)]), waits_for(&[Some(0)]), computes()];
        assert!(!Verdict::of(&tasks).is_dead_lock());
    }

    #[test]
    fn a_partner_that_has_ended_is_named() {
        let verdict = Verdict::of(&[Activity::Ended, waits_for(&[Some(0)])]);
        assert_eq!(verdict, Verdict::PartnerEnded { waiting: 1, partner: 0 });
    }

    #[test]
    fn a_partner_whose_threads_wait_for_each_other_is_named() {
        let verdict = Verdict::of(&[Activity::WaitsForItself, waits_for(&[Some(0)])]);
        assert_eq!(verdict, Verdict::PartnerStuck { waiting: 1, partner: 0 });
    }

    #[test]
    fn a_receive_from_any_task_waits_for_all_others() {
        assert!(Verdict::of(&[waits_for(&[None]), waits_for(&[Some(0)])]).is_dead_lock());
        assert!(!Verdict::of(&[waits_for(&[None]), waits_for(&[Some(0)]), computes()]).is_dead_lock());
        assert!(Verdict::of(&[waits_for(&[None]), Activity::Ended]).is_dead_lock());
    }

    #[test]
    fn a_cycle_beside_a_task_that_computes_is_found() {
        let tasks = [waits_for(&[Some(2)]), computes(), waits_for(&[Some(0)])];
        assert_eq!(Verdict::of(&tasks), Verdict::Cycle(vec![0, 2]));
    }

    #[test]
    fn services_without_an_operation_are_idle() {
        assert_eq!(Verdict::of(&[waits_for(&[]), waits_for(&[])]), Verdict::Idle);
        assert_eq!(Verdict::of(&[Activity::Ended, Activity::Ended]), Verdict::NobodyWaits);
    }

    #[test]
    fn another_thread_may_end_a_wait() {
        let mut first = waits_for(&[Some(1)]);
        if let Activity::Waits(Wait { facts: Some(facts), .. }) = &mut first {
            facts.may_end_alone = true;
        }
        assert_eq!(Verdict::of(&[first.clone(), waits_for(&[Some(0)])]), Verdict::Others(vec![0]));
        // No task is named as one of "the others".
        assert_eq!(Verdict::of(&[first.clone(), first.clone()]), Verdict::Others(Vec::new()));
        assert_eq!(Verdict::of(&[first.clone(), first, computes()]), Verdict::Others(vec![2]));
    }
}
