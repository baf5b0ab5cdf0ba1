//! Sessions: communicators without the world (MPI 5.0 section 11.3).
//!
//! A session names sets of tasks; a communicator is made from a group of the tasks of a set. All sessions of a task use its one
//! environment.

use am_core::fabric::Fabric;

use crate::communicator::attribute::ObjectKind;
use crate::communicator::error_handler::ErrorHandler;
use crate::communicator::info::Info;
use crate::communicator::properties::Properties;
use crate::communicator::{Communicator, PendingCommunicator};
use crate::error::{Error, ErrorClass, Result};
use crate::group::{Group, SELF_SET, WORLD_SET};
use crate::job::JobFabric;
use crate::policy::{LockPolicy, OneThread};

/// A session (`MPI_Session`). Dropping this value ends the session.
#[derive(Debug)]
pub struct Session<F: Fabric = JobFabric, L: LockPolicy = OneThread> {
    world: Communicator<F, L>,
    properties: Properties<L>,
}

impl<F: Fabric, L: LockPolicy> Session<F, L> {
    pub(crate) fn new(world: Communicator<F, L>, info: &Info, error_handler: ErrorHandler) -> Self {
        Self { world, properties: Properties::new(ObjectKind::Session, info, error_handler) }
    }

    /// The names of the sets of tasks (`MPI_Session_get_num_psets`, `MPI_Session_get_nth_pset`).
    #[must_use]
    pub fn sets(&self) -> [&'static str; 2] {
        [WORLD_SET, SELF_SET]
    }

    /// Information about a set: its size, as `mpi_size` (`MPI_Session_get_pset_info`).
    ///
    /// # Errors
    /// There is no such set.
    pub fn set_info(&self, set: &str) -> Result<Info> {
        let mut info = Info::new();
        info.set("mpi_size", &self.group(set)?.size().to_string())?;
        Ok(info)
    }

    /// The tasks of a set (`MPI_Group_from_session_pset`). Names of sets are not case-sensitive.
    ///
    /// # Errors
    /// There is no such set.
    pub fn group(&self, set: &str) -> Result<Group> {
        let all = self.world.group();
        match set {
            set if set.eq_ignore_ascii_case(WORLD_SET) => Ok(all),
            set if set.eq_ignore_ascii_case(SELF_SET) => all.incl(&[self.world.rank()]),
            _ => {
                let what = "there is no such set: use mpi://WORLD or mpi://SELF; the value is the length of the name";
                let len = i64::try_from(set.len()).unwrap_or(i64::MAX);
                Err(Error::refused(ErrorClass::Argument, "Session::group", what, len))
            }
        }
    }

    /// The session's hints and error handler.
    #[must_use]
    pub fn properties(&self) -> &Properties<L> {
        &self.properties
    }

    /// A communicator of the tasks of `group` (`MPI_Comm_create_from_group`). All these tasks must call this with the same `tag`. `None` if
    /// this task is not in the group.
    ///
    /// # Errors
    /// All context ids are in use; the death of a task.
    pub fn create_from_group(
        &self,
        group: &Group,
        tag: &str,
        info: &Info,
        error_handler: ErrorHandler,
    ) -> Result<Option<Communicator<F, L>>> {
        let started = self.world.start_from_group(group, tag, (info, error_handler))?;
        started.map_or(Ok(None), PendingCommunicator::wait_for_part)
    }

    /// An inter-communicator of the tasks of two groups (`MPI_Intercomm_create_from_groups`). All these tasks must call this with the same
    /// `tag`.
    ///
    /// # Errors
    /// Groups that overlap; an empty remote group; this task is not in the local group; all context ids are in use; the death of a task.
    pub fn inter_from_groups(
        &self,
        local: &Group,
        remote: &Group,
        tag: &str,
        info: &Info,
        error_handler: ErrorHandler,
    ) -> Result<Communicator<F, L>> {
        self.world.start_from_groups((local, remote), tag, (info, error_handler))?.wait()
    }
}
