//! The types of mpi-over-am with the lock policy of the C calls ([`mpi_over_am::ByCall`]): each call takes a lock if MPI was started with
//! `MPI_THREAD_MULTIPLE` or has a progress thread.

use mpi_over_am::{ByCall, JobFabric};

pub(crate) type Communicator = mpi_over_am::Communicator<JobFabric, ByCall>;
pub(crate) type Environment = mpi_over_am::Environment<JobFabric, ByCall>;
pub(crate) type File = mpi_over_am::file::File<JobFabric, ByCall>;
pub(crate) type PendingCommunicator = mpi_over_am::PendingCommunicator<JobFabric, ByCall>;
pub(crate) type Session = mpi_over_am::Session<JobFabric, ByCall>;
pub(crate) type Window = mpi_over_am::window::Window<JobFabric, ByCall>;
