//! The NICs of a task, which programs open by name.

use am_via::Task;
use am_via_nic::device::NICS_MAX;
use am_via_nic::device::shm::Shm;

use crate::error::VipError;
use crate::user_agent::UserAgent;

/// Opens a NIC of the task (`VipOpenNic`). A task has 16 NICs, `shm0` to `shm15`. Each is used by one context, or opened once by a program
/// written to VIA: a closed NIC cannot be opened again, because its peers have recorded it as closed. If the setting `registered_bytes_max`
/// is set, it gives the NIC's MaxRegisterBytes.
///
/// # Errors
/// No NIC has this name, it was already opened, a context uses it, or the job's memory cannot be mapped.
pub fn open_nic(task: &Task, name: &str) -> Result<UserAgent<Shm>, VipError> {
    let last = u32::from(NICS_MAX - 1);
    let number = name.strip_prefix("shm").and_then(|number| number.parse::<u8>().ok());
    let context = number.filter(|number| *number < NICS_MAX && name == format!("shm{number}"));
    let context = context.ok_or_else(|| VipError::UnknownNic { name: name.to_owned(), last })?;
    let device = task.device_by_name(context)?;
    device.map(UserAgent::open).ok_or_else(|| VipError::NicTaken { name: name.to_owned(), last })
}
