//! Windows on memory that all tasks load from and store to (MPI 5.0 section 12.2.3).

use std::ffi::{c_int, c_void};

use mpi_over_am::Error;

use crate::constants::MPI_PROC_NULL;
use crate::data::dest_of;
use crate::errors::on_communicator;
use crate::failure::not_null;
use crate::infos::info_of;
use crate::types::{MPI_Comm, MPI_Info, MPI_Win};
use crate::windows::{keep, on_window, size_of, unit_of};

pub(crate) unsafe fn mpi_win_allocate_shared_c(
    size: i64,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> c_int {
    on_communicator("MPI_Win_allocate_shared", comm, |mpi, object| {
        let (size, unit, info) = (size_of(size)?, unit_of(disp_unit)?, info_of(info)?);
        let (win, baseptr) = (not_null(win)?, not_null(baseptr)?);
        let window = object.communicator.allocate_shared_bytes(size, unit, &info)?;
        // If its parts are not in shared memory, the window works by messages, which is no use to a C program: it accesses the parts by
        // loads and stores. So the call fails.
        let mut parts = (0..window.group().size()).map(|rank| window.mapped_part(rank));
        if !parts.all(|part| matches!(part, Ok(Some(_)))) {
            window.free()?;
            let why =
                "tasks of the communicator are on several hosts; MPI_Comm_split_type makes a communicator of each host"
                    .to_owned();
            return Err(Error::Unshareable { why }.into());
        }
        let base = window.base();
        // SAFETY: `baseptr` is not null, and the program gave it for this result.
        unsafe { *baseptr.cast::<*mut u8>() = base };
        keep(mpi, window, base.expose_provenance(), win)
    })
}

pub(crate) unsafe fn mpi_win_shared_query_c(
    win: MPI_Win,
    rank: c_int,
    size: *mut i64,
    disp_unit: *mut i64,
    baseptr: *mut c_void,
) -> c_int {
    on_window("MPI_Win_shared_query", win, |_, object| {
        let (size, disp_unit, baseptr) = (not_null(size)?, not_null(disp_unit)?, not_null(baseptr)?);
        let window = &object.window;
        let found = if rank == MPI_PROC_NULL {
            match window.first_part() {
                Some(first) => window.mapped_part(first)?,
                None => None,
            }
        } else {
            window.mapped_part(dest_of(rank)?)?
        };
        // Parts that this task has not mapped are reported as empty, with a null address.
        let (base, bytes, unit) = found.unwrap_or((std::ptr::null_mut(), 0, 1));
        // SAFETY: none of the three is null, and the program gave them for these results.
        unsafe {
            *size = bytes as i64;
            *disp_unit = unit as i64;
            *baseptr.cast::<*mut u8>() = base;
        }
        Ok(())
    })
}
