//! The engine of mpi-over-am under the lock that each C call takes, if MPI was started for several threads ([`mpi_over_am::ByCall`]).

use mpi_over_am::{ByCall, JobFabric};

pub(crate) type Communicator = mpi_over_am::Communicator<JobFabric, ByCall>;
pub(crate) type Environment = mpi_over_am::Environment<JobFabric, ByCall>;
pub(crate) type PendingCommunicator = mpi_over_am::PendingCommunicator<JobFabric, ByCall>;
pub(crate) type Session = mpi_over_am::Session<JobFabric, ByCall>;
pub(crate) type Window = mpi_over_am::window::Window<JobFabric, ByCall>;
