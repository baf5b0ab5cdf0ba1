//! The entry point: joins the job, and opens device, NIC, fabric and context according to the settings.

use std::sync::Arc;
use std::time::Duration;

use am_core::Context;
use am_core::error::{Error, Fault, Result};
use am_core::task::ContextNumber;

use crate::fabric::{CreditPlan, ViaFabric};
use am_via_job::settings::Memory;
use am_via_job::{Carrier, Job, JobError, Variables};
use am_via_nic::device::DeviceError;
use am_via_nic::device::shm::{OwnHeap, Shm, ShmOptions};
use am_via_shm::WaitPolicy;
use am_via_shm::regions::Ways;

/// The fabric of a task.
pub type ShmFabric = ViaFabric<Shm>;

/// This task as a member of its job.
#[derive(Clone, Debug)]
pub struct Task {
    job: Arc<Job>,
    heap: Arc<OwnHeap>,
}

#[expect(unsafe_code, reason = "a hook of forked copies")]
fn mark_copies(job: &Job) {
    // SAFETY: the hook may be called in a forked copy, by its only thread, which is its contract.
    unsafe { job.call_in_copies(am_core::buffer::mark_copied_process) };
}

impl Task {
    /// Joins the job that this process was started in; without a launcher, a job of one.
    ///
    /// # Errors
    /// Those of [`Job::attach`]; the job's memory cannot be mapped.
    pub fn join() -> Result<Self> {
        let job = Job::attach().map_err(|error| of_job(&error))?;
        mark_copies(&job);
        job.install_panic_hook();
        if let Some(recorder) = job.recorder() {
            am_core::record::start(Arc::clone(recorder) as Arc<dyn am_core::record::Recorder>);
        }
        let heap = OwnHeap::open(&job).map_err(|error| of_device(&error))?;
        Ok(Self { job, heap })
    }

    /// The variables with settings in the job that [`join`](Self::join) joins, without joining it.
    ///
    /// # Errors
    /// Those of [`Job::look_at_variables`].
    pub fn variables() -> Result<Variables> {
        Job::look_at_variables().map_err(|error| of_job(&error))
    }

    /// Prints each call, message and sleep of this process to standard error from now on, for debugging.
    pub fn trace_to_stderr(&self) {
        let recorder = self.job.console_recorder();
        recorder.trace_to_stderr();
        am_core::record::start(Arc::clone(recorder) as Arc<dyn am_core::record::Recorder>);
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// This task's number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.job.task()
    }

    /// Opens the fabric of context `context`. A context can be open only once at a time. A closed context can be opened again if it had no
    /// connections, that is, exchanged no messages; its earlier addresses are then invalid. If it had connections, peers keep state about
    /// it: use another number.
    ///
    /// # Errors
    /// The context is already open, or was connected before it was closed; its number is too high; a program written to VIA has opened its
    /// NIC; the job's memory cannot be mapped.
    pub fn fabric(&self, context: u8) -> Result<ShmFabric> {
        let settings = self.job.settings();
        let bit = by_name(context);
        let Some(noted) = self.job.note_nics(bit << NICS_MAX, bit) else {
            let what = format!(
                "NIC \"shm{context}\" of this task was already opened by name: use another of the contexts 0 to {}",
                NICS_MAX - 1
            );
            return Err(Error::Job { fault: Fault::Caller, what });
        };
        let device = self.noted_device(context, noted).map_err(|error| of_device(&error))?;
        let plan = CreditPlan { credits: settings.credits, answers: settings.credits };
        Ok(ViaFabric::new(device, plan))
    }

    /// Opens the device of context `context` for a program written to VIA, which uses it by the context's name instead of its number;
    /// `None`: it was already opened, or a context uses it. A device that such a program has closed cannot be opened again, because its
    /// peers have recorded it as closed.
    ///
    /// # Errors
    /// Those of [`device`](Self::device).
    pub fn device_by_name(&self, context: u8) -> Result<Option<Shm>, DeviceError> {
        let bit = by_name(context);
        let noted = self.job.note_nics(bit, bit | bit << NICS_MAX);
        noted.map(|noted| self.noted_device(context, noted)).transpose()
    }

    /// Opens the device of a context whose use has just been noted. If that fails, the context can be opened in either way again.
    fn noted_device(&self, context: u8, noted: u32) -> Result<Shm, DeviceError> {
        self.device(context).inspect_err(|_| self.job.forget_nics(noted))
    }

    /// Opens the device that carries the messages of context `context`, according to the job's settings, for a fabric or a user agent that
    /// the caller makes.
    ///
    /// # Errors
    /// Those of [`fabric`](Self::fabric), except those about NICs.
    pub fn device(&self, context: u8) -> Result<Shm, DeviceError> {
        let settings = self.job.settings();
        let wait = self.wait_policy();
        let options = ShmOptions {
            context: ContextNumber(context),
            pipe_bytes_min: pipe_bytes_min(settings.memory, wait, settings.pipe_bytes_min),
            packet_bytes: settings.packet_bytes,
            ways: match settings.memory {
                Memory::Auto => Ways { mapped: true, kernel: true },
                Memory::Job => Ways { mapped: true, kernel: false },
                Memory::Kernel => Ways { mapped: false, kernel: true },
                Memory::Staged => Ways { mapped: false, kernel: false },
            },
            wait,
        };
        let device = Shm::open(Arc::clone(&self.job), Arc::clone(&self.heap), options)?;
        Ok(match settings.registered_bytes_max {
            None => device,
            Some(bytes) => device.with_registered_bytes_max(bytes),
        })
    }

    /// Opens the first context, with handlers registered at run time.
    ///
    /// # Errors
    /// Those of [`fabric`](Self::fabric).
    pub fn context(&self) -> Result<Context<ShmFabric>> {
        Ok(Context::new(self.fabric(0)?))
    }

    /// How long waits spin. If each task has a core, a wait may spin. With fewer cores a spinning task keeps its peer from running, so the
    /// task yields a few times, then sleeps.
    fn wait_policy(&self) -> WaitPolicy {
        let (spin_max, yield_polls_max) =
            if self.job.is_crowded_now() { (Duration::ZERO, YIELD_POLLS) } else { (SPIN_MAX, 0) };
        let set = self.job.settings().spin_microseconds_max;
        WaitPolicy {
            spin_max: set.map_or(spin_max, |limit| Duration::from_micros(limit.into())),
            yield_polls_max,
        }
    }
}

/// Minimum length of a message that both tasks copy at the same time, through a pipe; `usize::MAX`: no message is copied in this way.
fn pipe_bytes_min(memory: Memory, wait: WaitPolicy, set: u64) -> usize {
    match memory {
        // A receiver spins for the next piece while its sender stages it: each needs a core.
        Memory::Auto if !wait.spin_max.is_zero() => usize::try_from(set).unwrap_or(usize::MAX),
        // Without a core for each task, or if the setting chooses another method, pipes are not used.
        _ => usize::MAX,
    }
}

fn of_job(error: &JobError) -> Error {
    let fault = match error {
        JobError::NumTasks { .. }
        | JobError::Setting(_)
        | JobError::BadEnvironment { .. }
        | JobError::UnknownTask { .. }
        | JobError::TaskTaken { .. }
        | JobError::Version { .. } => Fault::Caller,
        JobError::LimitTooSmall { .. } | JobError::NoRoom { .. } => Fault::Resource,
        JobError::Damaged { .. } => Fault::Peer,
        JobError::Unreachable { .. }
        | JobError::OtherLauncher { .. }
        | JobError::NoBarrier { .. }
        | JobError::NoAnswer { .. }
        | JobError::System { .. } => Fault::System,
    };
    Error::Job { fault, what: error.to_string() }
}

fn of_device(error: &DeviceError) -> Error {
    let fault = match error {
        DeviceError::NoSuchEndpoint(_)
        | DeviceError::ContextOpen { .. }
        | DeviceError::ContextUsed { .. }
        | DeviceError::Refused(_) => Fault::Caller,
        DeviceError::NotConnected(_)
        | DeviceError::Closed(_)
        | DeviceError::PeerClosed(_)
        | DeviceError::Damaged { .. } => Fault::Peer,
        DeviceError::Exhausted { .. } | DeviceError::TooManyRegistrations { .. } => Fault::Resource,
        DeviceError::System { .. } => Fault::System,
    };
    Error::Job { fault, what: error.to_string() }
}

/// The bit of a NIC that was opened by name. An invalid number has none, and is refused where the device is opened.
fn by_name(context: u8) -> u32 {
    1_u32.checked_shl(context.into()).unwrap_or(0) & BY_NAME
}

/// Number of NICs of a task: one for each context.
const NICS_MAX: u32 = 16;
/// The bits of NICs opened by name.
const BY_NAME: u32 = (1 << NICS_MAX) - 1;
/// Longest spin, if each task has a core: a wake-up after it adds less than a hundredth to the wait.
const SPIN_MAX: Duration = Duration::from_millis(4);
/// Number of yields before a sleep, since a yield lets another task of the job run.
const YIELD_POLLS: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_are_used_only_if_each_task_has_a_core_and_no_other_way_is_set() {
        let with_core = WaitPolicy { spin_max: SPIN_MAX, yield_polls_max: 0 };
        let without = WaitPolicy { spin_max: Duration::ZERO, yield_polls_max: YIELD_POLLS };
        assert_eq!(pipe_bytes_min(Memory::Auto, with_core, 8192), 8192);
        assert_eq!(pipe_bytes_min(Memory::Auto, without, 8192), usize::MAX, "tasks outnumber cores");
        for memory in [Memory::Job, Memory::Kernel, Memory::Staged] {
            assert_eq!(pipe_bytes_min(memory, with_core, 8192), usize::MAX);
        }
    }
}
