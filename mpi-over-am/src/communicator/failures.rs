//! Going on after failures (the extension ULFM): which tasks have failed, revoking, agreeing, shrinking.
//!
//! All calls work on a communicator with failed tasks, and, except where they say otherwise, on a revoked one. They are of use only in a
//! job that goes on after failures ([`Environment::set_go_on`](crate::Environment::set_go_on)); without failures they work in any job.

use std::sync::{Arc, OnceLock};

use am_core::fabric::Fabric;
use am_core::task::TaskId;

use super::create::take_numbers;
use super::{Communicator, PendingCommunicator};
use crate::data::buffer::RecvData;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::message::consensus::{Contribution, Decision};
use crate::message::handlers::Awaited;
use crate::message::request_id::RequestId;
use crate::message::state::State;
use crate::message::turn::Turn;
use crate::policy::LockPolicy;

/// The result of an [agreement](Communicator::agree), the same at all tasks.
#[derive(Debug)]
#[must_use = "the failure tells that tasks did not take part"]
pub struct Agreed {
    /// The bits that all tasks have given that took part.
    pub flags: u32,
    /// The failure of a task that did not take part, and that not all others had acknowledged before they took part.
    pub failure: Option<Error>,
}

/// An agreement that was started (`MPIX_Comm_iagree`).
#[derive(Debug)]
#[must_use = "a wait returns what was agreed"]
pub struct PendingAgreement<F: Fabric, L: LockPolicy> {
    communicator: Communicator<F, L>,
    request: RequestId,
    decision: Arc<OnceLock<Decision>>,
}

impl<F: Fabric, L: LockPolicy> PendingAgreement<F, L> {
    /// Waits for the agreement.
    ///
    /// # Errors
    /// An error while making progress.
    pub fn wait(self) -> Result<Agreed> {
        let mut state = self.communicator.state()?;
        state.wait_over(self.request)?;
        let failure = state.handlers().requests.take(self.request).err();
        match self.decision.get() {
            Some(decision) => Ok(Agreed { flags: decision.flags, failure }),
            None => Err(failure.unwrap_or(Error::Cancelled)),
        }
    }
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Revokes the communicator (`MPIX_Comm_revoke`): operations on it that are under way end with [`Error::Revoked`], at all its tasks,
    /// and no more can be started, except those of this file. Not collective; returns at once. The other tasks learn of it in their calls.
    ///
    /// # Errors
    /// A call inside another call, or after finalize; the deferred error of an earlier call.
    pub fn revoke(&self) -> Result<()> {
        let mut state = self.state()?;
        state.handlers().revoke(self.context_id, self.local().context_id);
        state.context.send_wanted()?;
        Ok(())
    }

    /// Whether the communicator is revoked, as far as this task knows (`MPIX_Comm_is_revoked`). Makes progress.
    ///
    /// # Errors
    /// An error while making progress.
    pub fn is_revoked(&self) -> Result<bool> {
        let mut state = self.state()?;
        state.take_in()?;
        Ok(state.handlers().is_revoked(self.context_id))
    }

    /// The tasks of the communicator that this task knows to have failed, in the order in which it has learned of them
    /// (`MPIX_Comm_get_failed`). Makes progress. A task that has left MPI counts as failed.
    ///
    /// # Errors
    /// An error while making progress.
    pub fn failed(&self) -> Result<Group> {
        let mut state = self.state()?;
        state.take_in()?;
        let failed = state.handlers().failures.lost_in(&self.all_tasks());
        Ok(group_of(&failed, &state))
    }

    /// Acknowledges the first `count` tasks of [`failed`](Self::failed), or all of them (`MPIX_Comm_ack_failed`, `MPIX_Comm_failure_ack`):
    /// receives from any source may wait again, and an agreement does not tell of these tasks. Returns the number of tasks acknowledged so
    /// far.
    ///
    /// # Errors
    /// An error while making progress.
    pub fn acknowledge_failures(&self, count: Option<u32>) -> Result<u32> {
        let mut state = self.state()?;
        // The network may have refused a message to a failed task before the record of the failure was read.
        state.take_in()?;
        let count = count.map(|count| count as usize);
        let failures = &mut state.handlers().failures;
        let known = failures.acknowledge(self.context_id, &self.all_tasks(), count);
        Ok(u32::try_from(known).unwrap_or(u32::MAX))
    }

    /// The tasks that this task has [acknowledged](Self::acknowledge_failures) (`MPIX_Comm_failure_get_acked`).
    ///
    /// # Errors
    /// Those of [`acknowledge_failures`](Self::acknowledge_failures).
    pub fn acknowledged_failures(&self) -> Result<Group> {
        let mut state = self.state()?;
        let known = state.handlers().failures.acknowledged_in(self.context_id, &self.all_tasks());
        Ok(group_of(&known, &state))
    }

    /// Agrees with all tasks that have not failed on the bits that all of them give (`MPIX_Comm_agree`), and on whether tasks have failed
    /// that not all have acknowledged. Collective; no task gets another result, also none that fails afterwards. For an
    /// inter-communicator, the tasks of both groups agree.
    ///
    /// # Errors
    /// An error while making progress.
    pub fn agree(&self, flags: u32) -> Result<Agreed> {
        self.iagree(flags)?.wait()
    }

    /// Starts an [`agree`](Self::agree) (`MPIX_Comm_iagree`). All tasks must start their agreements and shrinks in the same order.
    ///
    /// # Errors
    /// Those of [`agree`](Self::agree).
    pub fn iagree(&self, flags: u32) -> Result<PendingAgreement<F, L>> {
        let (request, decision) = self.start_agree(flags, None)?;
        Ok(PendingAgreement { communicator: self.clone(), request, decision })
    }

    /// [`iagree`](Self::iagree) for the C interface: `flags` has the bits that this task gives, and gets those that were agreed.
    ///
    /// # Errors
    /// Those of [`agree`](Self::agree).
    pub fn iagree_data(&self, flags: &RecvData) -> Result<RequestId> {
        let mut own = [0; 4];
        flags.as_send().pack(0, &mut own);
        Ok(self.start_agree(u32::from_ne_bytes(own), Some(flags.clone()))?.0)
    }

    fn start_agree(
        &self,
        flags: u32,
        into: Option<RecvData>,
    ) -> Result<(RequestId, Arc<OnceLock<Decision>>)> {
        let mut state = self.state()?;
        let members = self.all_tasks();
        let known = state.handlers().failures.acknowledged_in(self.context_id, &members);
        let given = Contribution { flags, numbers: [0; 2], failed: numbers_of(&known) };
        self.start_agreement_of_all(&mut state, given, (into, true))
    }

    /// Makes a communicator of the tasks that have not failed, in the same order (`MPIX_Comm_shrink`). Collective. All tasks agree on who
    /// has failed; a task that fails later may still be in the new communicator.
    ///
    /// # Errors
    /// An error while making progress; all context ids are in use; an inter-communicator one of whose groups has no task left.
    pub fn shrink(&self) -> Result<Self> {
        self.ishrink()?.wait()
    }

    /// Starts a [`shrink`](Self::shrink) (`MPIX_Comm_ishrink`).
    ///
    /// # Errors
    /// Those of [`shrink`](Self::shrink).
    pub fn ishrink(&self) -> Result<PendingCommunicator<F, L>> {
        let mut state = self.state()?;
        state.take_in()?;
        let known = state.handlers().failures.lost_in(&self.all_tasks());
        let numbers = take_numbers(&mut state);
        let given = Contribution { flags: u32::MAX, numbers, failed: numbers_of(&known) };
        let (request, decision) = self.start_agreement_of_all(&mut state, given, (None, false))?;
        drop(state);
        Ok(self.pending_shrink(request, decision))
    }

    fn start_agreement_of_all(
        &self,
        state: &mut Turn<'_, F, L>,
        given: Contribution,
        (flags, tells_news): (Option<RecvData>, bool),
    ) -> Result<(RequestId, Arc<OnceLock<Decision>>)> {
        let mut members: Vec<u32> = self.all_tasks().tasks().map(|task| task.0).collect();
        // Both groups of an inter-communicator have to have the same order.
        members.sort_unstable();
        start(state, (self.context_id, members), given, (flags, tells_news))
    }

    /// The tasks of the communicator; those of both groups of an inter-communicator.
    fn all_tasks(&self) -> Group {
        match self.remote_group() {
            Ok(remote) => self.group().union(&remote),
            Err(_) => self.group(),
        }
    }
}

/// Starts an agreement among tasks, under a context id.
///
/// # Errors
/// Too many operations are under way.
pub(crate) fn start<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    (context_id, members): (u32, Vec<u32>),
    given: Contribution,
    (flags, tells_news): (Option<RecvData>, bool),
) -> Result<(RequestId, Arc<OnceLock<Decision>>)> {
    let request = state.handlers().requests.insert(true);
    state.handlers().requests.set_context(request, context_id);
    let decision = Arc::new(OnceLock::new());
    let awaited = Awaited { request, slot: Arc::clone(&decision), flags, tells_news };
    state.handlers().start_agreement(context_id, members, given, awaited);
    state.context.send_wanted()?;
    Ok((request, decision))
}

fn numbers_of(tasks: &[TaskId]) -> Vec<u32> {
    tasks.iter().map(|task| task.0).collect()
}

fn group_of<F: Fabric>(tasks: &[TaskId], state: &State<F>) -> Group {
    Group::of_tasks(numbers_of(tasks), state.context.task())
}

#[cfg(test)]
mod tests {
    use am_core_conform::watchdog::Watchdog;
    use am_double::{Config, Double, network};

    use am_core::task::TaskId;

    use crate::Settings;
    use crate::environment::Environment;
    use crate::policy::OneThread;

    /// All communicators have the same context id, one after the other. What was revoked and agreed on one of them is nothing to the next
    /// one, also if the messages about it arrive late.
    #[test]
    fn a_communicator_has_nothing_of_an_earlier_one_with_its_context_id() {
        let _watchdog = Watchdog::new("context ids again".to_owned(), std::time::Duration::from_secs(100));
        let (_network, fabrics) = network(Config::new(3));
        std::thread::scope(|scope| {
            for fabric in fabrics {
                scope.spawn(move || {
                    let environment =
                        Environment::<Double, OneThread>::on_fabric(fabric, &Settings::default());
                    let environment = environment.expect("three tasks");
                    let world = environment.world();
                    world.state().expect("no call is under way").context_ids.leave(1);
                    let mut before = None;
                    for round in 0..100 {
                        let copy = world.dup().expect("the context id is free");
                        assert!(before.is_none_or(|before| before == copy.context_id), "the same context id");
                        before = Some(copy.context_id);
                        assert!(!copy.is_revoked().expect("no call is under way"), "round {round}");
                        for flags in [round, round + 1] {
                            let agreed = copy.agree(flags).expect("all tasks live");
                            assert_eq!(
                                (agreed.flags, agreed.failure.is_none()),
                                (flags, true),
                                "round {round}"
                            );
                        }
                        if round % 3 == world.rank() {
                            copy.revoke().expect("no call is under way");
                        }
                    }
                    world.barrier().expect("the world was not revoked");
                    environment.finalize().expect("all tasks finalize");
                });
            }
        });
    }

    /// The list of failed tasks is longer than a packet: it is sent in parts.
    #[test]
    fn more_tasks_fail_than_a_packet_names() {
        const TASKS: u32 = 40;
        const SURVIVORS: u32 = 3;
        let _watchdog = Watchdog::new("many failures".to_owned(), std::time::Duration::from_secs(100));
        let (network, fabrics) = network(Config { packet_bytes_max: 128, ..Config::new(TASKS) });
        let barrier = std::sync::Barrier::new(TASKS as usize);
        std::thread::scope(|scope| {
            for fabric in fabrics {
                let (network, barrier) = (&network, &barrier);
                scope.spawn(move || {
                    let environment =
                        Environment::<Double, OneThread>::on_fabric(fabric, &Settings::default());
                    let environment = environment.expect("a task");
                    environment.set_go_on(true).expect("no call is under way");
                    let world = environment.world();
                    barrier.wait();
                    if world.rank() >= SURVIVORS {
                        network.kill(TaskId(world.rank()));
                        std::mem::forget((world, environment));
                        return;
                    }
                    let agreed = world.agree(1 << world.rank() | 8).expect("tasks live");
                    assert_eq!(agreed.flags & !8, 0, "three tasks give different bits");
                    while world.failed().expect("no call is under way").size() < TASKS - SURVIVORS {}
                    let shrunk = world.shrink().expect("three tasks live");
                    assert_eq!(shrunk.size(), SURVIVORS);

                    shrunk.barrier().expect("all members live");
                    // Another task may already have left.
                    let _ = environment.leave();
                });
            }
        });
    }
}
