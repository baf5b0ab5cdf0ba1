//! The state of a communicator: groups, name, hints, attributes, error handler, and its end.

use std::sync::Arc;

use am_core::fabric::Fabric;
use am_core::task::TaskId;

use super::Communicator;
use crate::communicator::attribute::PredefinedAttribute;
use crate::communicator::properties::Properties;
use crate::communicator::topology::Topology;
use crate::error::{Error, ErrorClass, Result};
use crate::group::{Comparison, Group};
use crate::policy::LockPolicy;
use crate::tag::TAG_UB;

/// The value of [`PredefinedAttribute::Io`]: every rank can do input and output. The layer above replaces this value with its own number
/// for all ranks.
pub const ANY_RANK: i64 = -1;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// The tasks, by rank (`MPI_Comm_group`); for an inter-communicator, those of the local group.
    #[must_use]
    pub fn group(&self) -> Group {
        self.common.group.clone()
    }

    /// The tasks of the remote group (`MPI_Comm_remote_group`).
    ///
    /// # Errors
    /// The communicator is not an inter-communicator.
    pub fn remote_group(&self) -> Result<Group> {
        let other = self.common.other.as_ref().ok_or_else(|| self.not_inter("remote_group"))?;
        Ok(other.group.clone())
    }

    /// Number of tasks of the remote group (`MPI_Comm_remote_size`).
    ///
    /// # Errors
    /// The communicator is not an inter-communicator.
    pub fn remote_size(&self) -> Result<u32> {
        if self.is_inter() { Ok(self.peers) } else { Err(self.not_inter("remote_size")) }
    }

    /// Whether this is an inter-communicator (`MPI_Comm_test_inter`).
    #[must_use]
    pub fn is_inter(&self) -> bool {
        self.common.other.is_some()
    }

    /// The communicator for the library's collectives within the local group: this communicator itself, unless it is an inter-communicator.
    pub(crate) fn local(&self) -> &Self {
        self.common.other.as_ref().map_or(self, |other| &other.local)
    }

    pub(super) fn not_inter(&self, call: &'static str) -> Error {
        let what = "the communicator is not an inter-communicator; the value is its size";
        Error::refused(ErrorClass::Communicator, call, what, i64::from(self.size))
    }

    /// Compares two communicators and their groups (`MPI_Comm_compare`).
    #[must_use]
    pub fn compare(&self, other: &Self) -> Comparison {
        if Arc::ptr_eq(&self.common, &other.common) {
            return Comparison::Identical;
        }
        let own_side = self.common.group.compare(&other.common.group);
        let other_side = match (&self.common.other, &other.common.other) {
            (None, None) => Comparison::Identical,
            (Some(own), Some(other)) => own.group.compare(&other.group),
            _ => Comparison::Unequal,
        };
        match (own_side, other_side) {
            (Comparison::Unequal, _) | (_, Comparison::Unequal) => Comparison::Unequal,
            (Comparison::Similar, _) | (_, Comparison::Similar) => Comparison::Similar,
            _ => Comparison::Congruent,
        }
    }

    /// The communicator's name, hints, error handler and attributes.
    #[must_use]
    pub fn properties(&self) -> &Properties<L> {
        &self.common.properties
    }

    /// The communicator's virtual topology, if it has one (`MPI_Topo_test` and the inquiries).
    #[must_use]
    pub fn topology(&self) -> Option<&Topology> {
        self.common.topology.as_ref()
    }

    /// Runs the error handler if a call has failed (`MPI_Comm_call_errhandler`), and returns the result if the handler returns. Calls of
    /// the Rust interface never run a handler by themselves: errors are values.
    ///
    /// # Errors
    /// Those of `result`.
    pub fn handled<T>(&self, result: Result<T>) -> Result<T> {
        self.handled_by(self.properties(), result)
    }

    /// Like [`handled`](Self::handled), with the handler of another object.
    pub(crate) fn handled_by<T>(&self, object: &Properties<L>, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            if object.error_handler().run(object.handle(), error) {
                let about = self.about_failed(error.failed_task());
                self.end_job(&format!("rank {} of {}: {error}{about}", self.rank, self.described()), 1);
            }
        })
    }

    /// A text about a failed task: its rank in this communicator, and what to do. Empty if there is no such task, or if the job ends after
    /// a failure anyway.
    #[must_use]
    pub fn about_failed(&self, failed: Option<u32>) -> String {
        let Some(failed) = failed.filter(|_| self.state_to_end().is_some_and(|state| state.goes_on)) else {
            return String::new();
        };
        let rank_in = |group: &Group| group.rank_of(TaskId(failed));
        let place = match (rank_in(&self.common.group), self.common.other.as_ref()) {
            (Some(rank), _) => format!("rank {rank} of {}", self.described()),
            (None, Some(other)) if rank_in(&other.group).is_some() => {
                format!(
                    "rank {} of the other group of {}",
                    rank_in(&other.group).unwrap_or(0),
                    self.described()
                )
            }
            _ => return String::new(),
        };
        format!(
            "; it is {place}: revoke the communicator, so that no other task waits in it, and shrink it to go on without that task"
        )
    }

    /// The context id in the communicator's notes, unique among communicators of these tasks.
    pub(crate) fn number(&self) -> u32 {
        self.context_id
    }

    /// Ends the job (`MPI_Abort`): this task exits at once with `code`, and the launcher ends the other tasks.
    pub fn abort(&self, code: i32) -> ! {
        self.end_job(
            &format!("rank {} of {} called abort with code {code}", self.rank, self.described()),
            code,
        )
    }

    /// Ends the job because of an error, which is printed as one line: this task exits at once with `code` (if that is 0, with 1), and the
    /// launcher ends the other tasks. The job's first failure is this one, even if another task's process ends earlier.
    pub fn end_job(&self, why: &str, code: i32) -> ! {
        crate::job::complain!("{why}");
        let code = if code == 0 { 1 } else { code };
        // This call must come before `fail`: tasks that see the failure end with codes of their own.
        crate::job::ask_for_end(code);
        if let Some(mut state) = self.state_to_end() {
            state.context.fail(why);
        }
        std::process::exit(code)
    }

    fn described(&self) -> String {
        match self.properties().name().as_str() {
            "" => format!("a communicator of {} tasks", self.size),
            name => name.to_owned(),
        }
    }

    /// The value of an attribute that the library sets; `None` if the attribute does not exist.
    #[must_use]
    pub fn predefined_attribute(&self, attribute: PredefinedAttribute) -> Option<i64> {
        match attribute {
            PredefinedAttribute::TagUb => Some(i64::from(TAG_UB)),
            PredefinedAttribute::Io => Some(ANY_RANK),
            PredefinedAttribute::WtimeIsGlobal => Some(self.is_on_one_host().into()),
            PredefinedAttribute::AppNum => Some(0),
            PredefinedAttribute::UniverseSize => self
                .state_to_end()
                .map(|state| i64::from(crate::job::universe().unwrap_or(state.context.num_tasks()))),
            PredefinedAttribute::GoesOn => self.state_to_end().map(|state| state.goes_on.into()),
            PredefinedAttribute::Host | PredefinedAttribute::LastUsedCode => None,
        }
    }

    /// Frees the communicator (`MPI_Comm_free`): the delete callbacks of its attributes run now. Its other handles, and operations under
    /// way, stay valid; the communicator ends with the last of them.
    ///
    /// # Errors
    /// The world and the task's own communicator cannot be freed; the error of a callback (the communicator is freed nevertheless).
    pub fn close(self) -> Result<()> {
        let of_self = self.state()?.context_ids.of_self();
        if self.context_id == crate::context_id::WORLD || self.context_id == of_self {
            let what = "the communicators of the world and of the task alone cannot be freed; the value is the context id";
            return Err(Error::refused(ErrorClass::Communicator, "close", what, i64::from(self.context_id)));
        }
        self.properties().delete_attributes()
    }
}
