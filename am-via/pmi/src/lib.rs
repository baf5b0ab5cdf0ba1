//! A task's side of the interfaces by which launchers of other projects inform processes about their job.
//!
//! Such a launcher gives each process a number, and keeps values: a process stores one under a key ([`Launcher::put`]), and after a
//! [`fence`](Launcher::fence) each process can read it. [`find`] looks in the environment for a launcher that speaks an interface known
//! here: PMI-1 (Hydra, the `mpiexec` of MPICH and Intel MPI; Slurm's `srun --mpi=pmi2`) or PMIx (prterun, the `mpiexec` of Open MPI; `srun
//! --mpi=pmix`).

#[expect(unsafe_code, reason = "a descriptor that the launcher passes on")]
mod pmi1;
#[expect(unsafe_code, reason = "calls into libpmix, whose structures and functions it declares")]
mod pmix;

use std::fmt::Debug;
use std::io;

/// The launcher of this process's job.
pub trait Launcher: Debug + Send {
    /// This process's number in the job.
    fn task(&self) -> u32;

    /// Number of processes in the job.
    fn num_tasks(&self) -> u32;

    /// Stores a value of this process. Neither key nor value may have spaces.
    ///
    /// # Errors
    /// The launcher refuses it, or is gone.
    fn put(&mut self, key: &str, value: &str) -> io::Result<()>;

    /// Waits until all processes of the job have called this method. The values that they stored before can then be read.
    ///
    /// # Errors
    /// The launcher is gone.
    fn fence(&mut self) -> io::Result<()>;

    /// Reads the value that process `task` stored under `key`.
    ///
    /// # Errors
    /// There is no such value, or the launcher is gone.
    fn get(&mut self, task: u32, key: &str) -> io::Result<String>;

    /// Tells the launcher that this process ends normally, so that its end is not a failure. Later calls fail.
    ///
    /// # Errors
    /// The launcher is gone.
    fn finalize(&mut self) -> io::Result<()>;

    /// Asks the launcher to end the job with this exit code. Returns before the job has ended.
    fn abort(&mut self, code: i32);
}

/// The launcher that the environment names; `None` if there is none, if its job has only one process, or if this process has only inherited
/// the variables of a task.
///
/// # Errors
/// The environment is not what a launcher makes, or the launcher does not answer.
pub fn find() -> io::Result<Option<Box<dyn Launcher>>> {
    if let Some(found) = pmi1::Pmi1::find()? {
        return Ok(Some(Box::new(found)));
    }
    Ok(pmix::Pmix::find()?.map(|found| Box::new(found) as Box<dyn Launcher>))
}

fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
