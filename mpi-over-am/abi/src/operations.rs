//! Operations of reductions (MPI 5.0 section 6.9).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mpi_over_am::ErrorClass;
use mpi_over_am::datatype::Datatype;
use mpi_over_am::op::{Op, PredefinedOp};

use crate::constants::{
    MPI_BAND, MPI_BOR, MPI_BXOR, MPI_DATATYPE_NULL, MPI_IN_PLACE, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_MAX,
    MPI_MAXLOC, MPI_MIN, MPI_MINLOC, MPI_NO_OP, MPI_OP_NULL, MPI_PROD, MPI_REPLACE, MPI_SUM,
};
use crate::data::{datatype_of, to_receive, to_send};
use crate::errors::on_process;
use crate::face::{Handle as _, Raw};
use crate::failure::{Failure, Outcome, call_program, not_null};
use crate::state::{Mpi, enter};
use crate::types::{Callback, MPI_Datatype, MPI_Op};

/// The predefined operation that a handle names (include/mpi.h).
#[inline(always)]
pub(crate) fn predefined(handle: MPI_Op) -> Option<PredefinedOp> {
    Some(match handle {
        MPI_SUM => PredefinedOp::Sum,
        MPI_MIN => PredefinedOp::Min,
        MPI_MAX => PredefinedOp::Max,
        MPI_PROD => PredefinedOp::Product,
        MPI_BAND => PredefinedOp::BitwiseAnd,
        MPI_BOR => PredefinedOp::BitwiseOr,
        MPI_BXOR => PredefinedOp::BitwiseXor,
        MPI_LAND => PredefinedOp::LogicalAnd,
        MPI_LOR => PredefinedOp::LogicalOr,
        MPI_LXOR => PredefinedOp::LogicalXor,
        MPI_MINLOC => PredefinedOp::MinLocation,
        MPI_MAXLOC => PredefinedOp::MaxLocation,
        MPI_REPLACE => PredefinedOp::Replace,
        MPI_NO_OP => PredefinedOp::NoOp,
        _ => return None,
    })
}

/// The operation of a handle.
///
/// # Errors
/// The handle is invalid.
pub(crate) fn op_of(mpi: &Mpi, handle: MPI_Op) -> Outcome<Op> {
    let found = predefined(handle).map(Op::predefined).or_else(|| mpi.operations.get(handle.0));
    found.ok_or_else(|| {
        let what = match handle {
            MPI_OP_NULL => "the operation is MPI_OP_NULL".to_owned(),
            MPI_Op(other) => format!("0x{other:x} is not an operation: it was freed, or never was one"),
        };
        Failure::new(ErrorClass::Operation, what)
    })
}

type Small = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_int, *mut Raw<MPI_Datatype>);
type Large = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut i64, *mut Raw<MPI_Datatype>);

/// Calls `call` with a handle of the datatype, for a program's function: the datatype's own handle, or a new one for the duration of the
/// call; `MPI_DATATYPE_NULL` if no new handle is left. Does nothing if MPI is not running.
pub(crate) fn with_handle(datatype: &Datatype, call: impl FnOnce(Raw<MPI_Datatype>)) {
    let call = |handle: MPI_Datatype| call(handle.to_raw());
    let Ok(mpi) = enter("an operation of the program") else { return };
    match mpi.handle_of(datatype) {
        Some(handle) => call(handle),
        None if mpi.types.freed.borrow().contains_key(&(datatype.number() as usize)) => {
            crate::type_objects::with_freed(&mpi, datatype, call);
        }
        None => {
            let handle = mpi.datatypes.insert(datatype.clone()).ok();
            call(handle.map_or(MPI_DATATYPE_NULL, MPI_Datatype));
            if let Some(handle) = handle {
                mpi.datatypes.remove(handle);
            }
        }
    }
}

fn create(function: &str, op: Op, at: *mut MPI_Op) -> c_int {
    on_process(function, |mpi| {
        let at = not_null(at)?;
        // SAFETY: `at` is not null, and the program gave it for this result.
        unsafe { *at = MPI_Op(mpi.operations.insert(op)?) };
        Ok(())
    })
}

/// Refuses a null function: runs the error handler, and returns the error code.
fn check_function(call: &str, function: Callback) -> Result<(), c_int> {
    if function != 0 {
        return Ok(());
    }
    Err(on_process(call, |_| Err(Failure::new(ErrorClass::Argument, "the function is null"))))
}

pub(crate) unsafe fn mpi_op_create(function: Callback, commute: c_int, op: *mut MPI_Op) -> c_int {
    if let Err(code) = check_function("MPI_Op_create", function) {
        return code;
    }
    // SAFETY: the program gave a function of this type (MPI 5.0 section 6.9.5).
    let function: Small = unsafe { std::mem::transmute(function) };
    let run = move |earlier: *const u8, later: *mut u8, count: u64, datatype: &Datatype| {
        with_handle(datatype, |mut handle| {
            let (mut done, step) = (0, i64::from(c_int::MAX));
            while done < count {
                let mut len = c_int::try_from(count - done).unwrap_or(c_int::MAX);
                let offset = (done as i64).wrapping_mul(datatype.extent()) as isize;
                let (from, to) = (earlier.wrapping_offset(offset), later.wrapping_offset(offset));
                // SAFETY: the operation promises that both vectors have `len` elements of the datatype from these addresses on. Length and
                // handle live until the function returns.
                call_program("an operation", || unsafe {
                    function(from.cast_mut().cast(), to.cast(), &raw mut len, &raw mut handle);
                });
                done += step as u64;
            }
        });
    };
    create("MPI_Op_create", Op::user(Arc::new(run), commute != 0), op)
}

pub(crate) unsafe fn mpi_op_create_c(function: Callback, commute: c_int, op: *mut MPI_Op) -> c_int {
    if let Err(code) = check_function("MPI_Op_create_c", function) {
        return code;
    }
    // SAFETY: the program gave a function of this type (MPI 5.0 section 6.9.5).
    let function: Large = unsafe { std::mem::transmute(function) };
    let run = move |earlier: *const u8, later: *mut u8, count: u64, datatype: &Datatype| {
        with_handle(datatype, |mut handle| {
            let mut len = count as i64;
            // SAFETY: the operation promises that both vectors have `len` elements of the datatype from these addresses on. Length and
            // handle live until the function returns.
            call_program("an operation", || unsafe {
                function(earlier.cast_mut().cast(), later.cast(), &raw mut len, &raw mut handle);
            });
        });
    };
    create("MPI_Op_create_c", Op::user(Arc::new(run), commute != 0), op)
}

pub(crate) unsafe fn mpi_op_free(op: *mut MPI_Op) -> c_int {
    on_process("MPI_Op_free", |mpi| {
        // SAFETY: not null, and the program gave it.
        let handle = unsafe { *not_null(op)? };
        op_of(mpi, handle)?;
        if mpi.operations.remove(handle.0).is_none() {
            let what = format!("operation 0x{:x} is predefined and cannot be freed", handle.0);
            return Err(Failure::new(ErrorClass::Operation, what));
        }
        // SAFETY: not null, as was found above.
        unsafe { *op = MPI_OP_NULL };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_op_commutative(op: MPI_Op, commute: *mut c_int) -> c_int {
    on_process("MPI_Op_commutative", |mpi| {
        // SAFETY: not null, and the program gave it for this result.
        unsafe { *not_null(commute)? = c_int::from(op_of(mpi, op)?.is_commutative()) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_reduce_local_c(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> c_int {
    on_process("MPI_Reduce_local", |mpi| {
        if inbuf.addr() == MPI_IN_PLACE || inoutbuf.addr() == MPI_IN_PLACE {
            let what = "MPI_IN_PLACE is not allowed here: the second buffer is always updated in place";
            return Err(Failure::new(ErrorClass::Buffer, what));
        }
        let op = op_of(mpi, op)?;
        op.check(&datatype_of(mpi, datatype)?)?;
        let (earlier, later) =
            // SAFETY: the program lends both vectors for the duration of the call.
            unsafe { (to_send(mpi, (inbuf, count, datatype))?, to_receive(mpi, (inoutbuf, count, datatype))?) };
        Ok(op.reduce(&earlier, &later)?)
    })
}
