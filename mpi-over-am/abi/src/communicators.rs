//! Communicators: their construction, comparison, inquiry and freeing (MPI 5.0 sections 7.4 to 7.6 and 7.8).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::c_int;

use mpi_over_am::{ErrorClass, SplitType};

use crate::constants::{
    MPI_COMM_NULL, MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_HW_UNGUIDED, MPI_COMM_TYPE_RESOURCE_GUIDED,
    MPI_COMM_TYPE_SHARED, MPI_INFO_NULL, MPI_UNDEFINED,
};
use crate::data::dest_of;
use crate::engine::{Communicator, PendingCommunicator};
use crate::errors::{no_communicator, on_communicator, on_process};
use crate::failure::{Failure, Outcome, not_null};
use crate::groups::{code_of_comparison, group_of, keep_group};
use crate::infos::{change, info_of, keep_info};
use crate::objects::PendingObject;
use crate::raise::KeptErrhandler;
use crate::requests::keep_request;
use crate::state::Mpi;
use crate::types::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Request};

/// A handle for a new communicator; `MPI_COMM_NULL` if this task is not in it.
///
/// # Errors
/// There are a million communicators already.
pub(crate) fn keep_communicator(
    mpi: &Mpi,
    made: Option<Communicator>,
    errhandler: MPI_Errhandler,
) -> Outcome<MPI_Comm> {
    let Some(communicator) = made else { return Ok(MPI_COMM_NULL) };
    let handle = mpi.communicators.reserve()?;
    mpi.fill(handle, communicator, errhandler);
    Ok(MPI_Comm(handle))
}

/// Runs a call that makes a communicator from `comm`, and stores its handle at `at`. The new communicator inherits the error handler.
pub(crate) fn make(
    function: &str,
    comm: MPI_Comm,
    at: *mut MPI_Comm,
    call: impl FnOnce(&Mpi, &Communicator) -> Outcome<Option<Communicator>>,
) -> c_int {
    on_communicator(function, comm, |mpi, object| {
        let at = not_null(at)?;
        unsafe { *at = MPI_COMM_NULL };
        let made = call(mpi, &object.communicator)?;
        unsafe { *at = keep_communicator(mpi, made, object.errhandler.get())? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_rank(comm: MPI_Comm, rank: *mut c_int) -> c_int {
    on_communicator("MPI_Comm_rank", comm, |_, object| {
        unsafe { *not_null(rank)? = object.communicator.rank() as c_int };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
    on_communicator("MPI_Comm_size", comm, |_, object| {
        unsafe { *not_null(size)? = object.communicator.size() as c_int };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: *mut c_int) -> c_int {
    on_communicator("MPI_Comm_compare", comm1, |mpi, first| {
        let second = mpi.communicator(comm2).ok_or_else(|| no_communicator(comm2))?;
        let found = first.communicator.compare(&second.communicator);
        unsafe { *not_null(result)? = code_of_comparison(found) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_dup(comm: MPI_Comm, new: *mut MPI_Comm) -> c_int {
    make("MPI_Comm_dup", comm, new, |_, communicator| Ok(Some(communicator.dup()?)))
}

pub(crate) unsafe fn mpi_comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, new: *mut MPI_Comm) -> c_int {
    make("MPI_Comm_dup_with_info", comm, new, |_, communicator| {
        Ok(Some(communicator.dup_with_info(&info_of(info)?)?))
    })
}

fn start_duplicate(
    function: &str,
    comm: MPI_Comm,
    info: MPI_Info,
    new: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    start_pending(function, comm, new, request, |communicator| {
        Ok(communicator.idup_with_info(&info_of(info)?)?)
    })
}

/// Runs a call that starts to make a communicator, and stores the handles of the communicator and of the request.
pub(crate) fn start_pending(
    function: &str,
    comm: MPI_Comm,
    new: *mut MPI_Comm,
    request: *mut MPI_Request,
    start: impl FnOnce(&Communicator) -> Outcome<PendingCommunicator>,
) -> c_int {
    on_communicator(function, comm, |mpi, object| {
        let (new, request) = (not_null(new)?, not_null(request)?);
        let pending = start(&object.communicator)?;
        unsafe { *request = keep_request(&object.communicator, pending.request()) };
        let handle = mpi.communicators.reserve()?;
        let object = PendingObject { pending, errhandler: KeptErrhandler::new(object.errhandler.get()) };
        mpi.pending_communicators.borrow_mut().insert(handle, object);
        unsafe { *new = MPI_Comm(handle) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_idup(comm: MPI_Comm, new: *mut MPI_Comm, request: *mut MPI_Request) -> c_int {
    start_duplicate("MPI_Comm_idup", comm, MPI_INFO_NULL, new, request)
}

pub(crate) unsafe fn mpi_comm_idup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    new: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    start_duplicate("MPI_Comm_idup_with_info", comm, info, new, request)
}

pub(crate) unsafe fn mpi_comm_create(comm: MPI_Comm, group: MPI_Group, new: *mut MPI_Comm) -> c_int {
    make("MPI_Comm_create", comm, new, |mpi, communicator| Ok(communicator.create(&group_of(mpi, group)?)?))
}

pub(crate) unsafe fn mpi_comm_create_group(
    comm: MPI_Comm,
    group: MPI_Group,
    tag: c_int,
    new: *mut MPI_Comm,
) -> c_int {
    make("MPI_Comm_create_group", comm, new, |mpi, communicator| {
        Ok(communicator.create_group(&group_of(mpi, group)?, tag)?)
    })
}

pub(crate) unsafe fn mpi_comm_split(comm: MPI_Comm, color: c_int, key: c_int, new: *mut MPI_Comm) -> c_int {
    make("MPI_Comm_split", comm, new, |_, communicator| {
        Ok(communicator.split((color != MPI_UNDEFINED).then_some(color), key)?)
    })
}

pub(crate) unsafe fn mpi_comm_split_type(
    comm: MPI_Comm,
    split_type: c_int,
    key: c_int,
    info: MPI_Info,
    new: *mut MPI_Comm,
) -> c_int {
    make("MPI_Comm_split_type", comm, new, |_, communicator| {
        let split_type = match split_type {
            MPI_COMM_TYPE_SHARED => Some(SplitType::Shared),
            MPI_COMM_TYPE_HW_UNGUIDED => Some(SplitType::HardwareUnguided),
            MPI_COMM_TYPE_HW_GUIDED => Some(SplitType::HardwareGuided),
            MPI_COMM_TYPE_RESOURCE_GUIDED => Some(SplitType::ResourceGuided),
            MPI_UNDEFINED => None,
            other => {
                let what = format!("{other} is not a split type (MPI_COMM_TYPE_SHARED and the like)");
                return Err(Failure::new(ErrorClass::Argument, what));
            }
        };
        let new = communicator.split_type(split_type, key, &info_of(info)?)?;
        // MPI 5.0, 7.4.2: the program learns which resource the tasks of the new communicator share.
        if new.is_some() && split_type == Some(SplitType::HardwareUnguided) && info != MPI_INFO_NULL {
            change(info, |info| Ok(info.set("mpi_hw_resource_type", "mpi_shared_memory")?))?;
        }
        Ok(new)
    })
}

/// Frees a communicator; pending operations on it continue, unless `wait` waits for them.
fn free(
    function: &str,
    at: *mut MPI_Comm,
    wait: impl FnOnce(&Communicator) -> mpi_over_am::Result<()>,
) -> c_int {
    let at = match not_null(at) {
        Ok(at) => at,
        Err(failure) => return on_process(function, |_| Err(failure)),
    };
    let comm = unsafe { *at };
    on_communicator(function, comm, |mpi, object| {
        // If a delete function fails, the communicator stays.
        object.communicator.clone().close()?;
        mpi.communicators.remove(comm.0);
        unsafe { *at = MPI_COMM_NULL };
        if comm == mpi.parent.get() {
            mpi.parent.set(MPI_COMM_NULL);
            mpi.environment.borrow_mut().iter_mut().for_each(crate::engine::Environment::disconnect_parent);
        }
        mpi.lent.borrow_mut().remove(&object.communicator.buffer_owner()?);
        Ok(wait(&object.communicator)?)
    })
}

pub(crate) unsafe fn mpi_comm_free(comm: *mut MPI_Comm) -> c_int {
    free("MPI_Comm_free", comm, |_| Ok(()))
}

pub(crate) unsafe fn mpi_comm_disconnect(comm: *mut MPI_Comm) -> c_int {
    free("MPI_Comm_disconnect", comm, Communicator::wait_for_messages)
}

pub(crate) unsafe fn mpi_comm_group(comm: MPI_Comm, group: *mut MPI_Group) -> c_int {
    on_communicator("MPI_Comm_group", comm, |mpi, object| {
        unsafe { *not_null(group)? = keep_group(mpi, object.communicator.group())? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_test_inter(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    on_communicator("MPI_Comm_test_inter", comm, |_, object| {
        unsafe { *not_null(flag)? = c_int::from(object.communicator.is_inter()) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_remote_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
    on_communicator("MPI_Comm_remote_size", comm, |_, object| {
        unsafe { *not_null(size)? = object.communicator.remote_size()? as c_int };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_remote_group(comm: MPI_Comm, group: *mut MPI_Group) -> c_int {
    on_communicator("MPI_Comm_remote_group", comm, |mpi, object| {
        unsafe { *not_null(group)? = keep_group(mpi, object.communicator.remote_group()?)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_intercomm_create(
    local: MPI_Comm,
    local_leader: c_int,
    peer: MPI_Comm,
    remote_leader: c_int,
    tag: c_int,
    new: *mut MPI_Comm,
) -> c_int {
    make("MPI_Intercomm_create", local, new, |mpi, communicator| {
        let leader = dest_of(local_leader)?;
        // The bridge communicator and the remote leader's rank in it are significant only at the local leader.
        let (bridge, remote_leader) = if communicator.rank() == leader {
            let bridge = mpi.communicator(peer).ok_or_else(|| no_communicator(peer))?;
            (Some(bridge), dest_of(remote_leader)?)
        } else {
            (None, 0)
        };
        let bridge = bridge.as_ref().map(|bridge| &bridge.communicator);
        Ok(Some(communicator.create_inter_with(leader, bridge, remote_leader, tag)?))
    })
}

pub(crate) unsafe fn mpi_intercomm_merge(comm: MPI_Comm, high: c_int, new: *mut MPI_Comm) -> c_int {
    make("MPI_Intercomm_merge", comm, new, |_, communicator| Ok(Some(communicator.merge(high != 0)?)))
}

pub(crate) unsafe fn mpi_comm_set_info(comm: MPI_Comm, info: MPI_Info) -> c_int {
    on_communicator("MPI_Comm_set_info", comm, |_, object| {
        object.communicator.properties().set_info(&info_of(info)?);
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_get_info(comm: MPI_Comm, info: *mut MPI_Info) -> c_int {
    on_communicator("MPI_Comm_get_info", comm, |_, object| {
        unsafe { *not_null(info)? = keep_info(object.communicator.properties().info())? };
        Ok(())
    })
}
