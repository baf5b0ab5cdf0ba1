//! One-sided communication: transfers between tasks and windows, and their synchronization (MPI 5.0 chapter 12).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{c_int, c_void};

use mpi_over_am::datatype::Predefined;
use mpi_over_am::window::{Assertion, Lock, TargetData, Word};
use mpi_over_am::{ErrorClass, PROC_NULL, RequestId, SendData};

use crate::constants::{
    MPI_LOCK_EXCLUSIVE, MPI_LOCK_SHARED, MPI_MODE_NOCHECK, MPI_MODE_NOPRECEDE, MPI_MODE_NOPUT,
    MPI_MODE_NOSTORE, MPI_MODE_NOSUCCEED, MPI_NO_OP, MPI_SUCCESS,
};
use crate::data::{
    count_of, datatype_for, datatype_of, dest_of, raw_to_receive, raw_to_send, to_receive, to_send,
};
use crate::failure::{Failure, Outcome};
use crate::groups::group_of;
use crate::operations::{op_of, predefined};
use crate::requests::handle_of;
use crate::state::{Mpi, enter_briefly, entered};
use crate::types::{
    MPI_Datatype, MPI_Group, MPI_Op, MPI_Request, MPI_Win, RecvElements, SendElements, Target,
};
use crate::windows::{on_window, on_window_in};

/// Calls `call` with the elements that a program names in a window, unless the rank is `MPI_PROC_NULL`.
fn with_target(
    mpi: &Mpi,
    (rank, displacement, count, datatype): Target,
    call: impl FnOnce(TargetData<'_>) -> mpi_over_am::Result<()>,
) -> Outcome<()> {
    let datatype = &datatype_for(mpi, datatype, count)?;
    let target = TargetData { rank: dest_of(rank)?, displacement, count: count_of(count)?, datatype };
    if target.rank == PROC_NULL { Ok(()) } else { Ok(call(target)?) }
}

/// The origin's elements of an operation; `None` with `MPI_NO_OP`, which ignores them.
///
/// # Safety
/// That of [`to_send`].
unsafe fn origin_of(mpi: &Mpi, origin: SendElements, op: MPI_Op) -> Outcome<Option<SendData>> {
    if op == MPI_NO_OP { Ok(None) } else { unsafe { to_send(mpi, origin) }.map(Some) }
}

/// Stores the request of a transfer, which is complete when the call returns.
unsafe fn give_ended(request: *mut MPI_Request) -> Outcome<()> {
    unsafe { *request = handle_of(RequestId::ENDED_SEND) };
    Ok(())
}

/// An element of 4 or 8 bytes, as the first bytes of a word; `None` for another length or a null pointer.
///
/// # Safety
/// `len` bytes at `at` must be readable, unless `at` is null.
#[inline(always)]
unsafe fn word_at(at: *const c_void, len: u64) -> Option<Word> {
    let mut word = Word::default();
    unsafe {
        match len {
            _ if at.is_null() => return None,
            8 => word = at.cast::<Word>().read(),
            4 => word[..4].copy_from_slice(&at.cast::<[u8; 4]>().read()),
            _ => return None,
        }
    }
    Some(word)
}

/// Stores the first `len` bytes of a word. `len` must be the number of bytes that [`word_at`] has read: 4 or 8.
///
/// # Safety
/// `len` bytes at `at` must be writable.
#[inline(always)]
unsafe fn store_word(word: Word, at: *mut c_void, len: u64) {
    unsafe {
        match len {
            8 => at.cast::<Word>().write(word),
            _ => at.cast::<[u8; 4]>().write([word[0], word[1], word[2], word[3]]),
        }
    }
}

/// Updates an element of 4 or 8 bytes of mapped memory, and returns its previous bytes. `None`: nothing was done, and the call takes the
/// general path.
///
/// # Safety
/// The element at `value` must be readable; with `MPI_NO_OP` it is not used.
#[inline(always)]
unsafe fn update_now(
    mpi: &Mpi,
    value: *const c_void,
    at: (c_int, i64),
    (kind, op): (Predefined, MPI_Op),
    win: MPI_Win,
) -> Option<Word> {
    // SAFETY: an update creates and frees no window.
    let window = unsafe { mpi.window_for_a_moment(win) }?;
    let value = if op == MPI_NO_OP { Word::default() } else { unsafe { word_at(value, kind.size()) }? };
    // As an unsigned number, a negative rank is above all ranks of the window.
    window.try_update(value, (at.0.cast_unsigned(), at.1), kind, predefined(op)?)
}

/// Updates contiguous elements of mapped memory, and stores their old bytes in `result` if there is one. Returns false if that is not
/// possible: the call then takes the general path.
///
/// # Safety
/// The elements at the origin must be readable, and those of the result writable.
unsafe fn update_all_now(
    mpi: &Mpi,
    origin: SendElements,
    result: Option<RecvElements>,
    (rank, displacement, count, datatype): Target,
    op: MPI_Op,
    win: MPI_Win,
) -> bool {
    let target = (count, datatype);
    let is_alike =
        target == (origin.1, origin.2) && result.is_none_or(|result| target == (result.1, result.2));
    if !is_alike || op == MPI_NO_OP {
        return false;
    }
    let done = || {
        let values = unsafe { raw_to_send(mpi, origin) }?;
        let result = match result {
            Some(result) => Some(unsafe { raw_to_receive(mpi, result) }?),
            None => None,
        };
        let (kind, op) = (mpi.predefined_kind(datatype)?, predefined(op)?);
        // SAFETY: an update creates and frees no window.
        let window = unsafe { mpi.window_for_a_moment(win) }?;
        // As an unsigned number, a negative rank is above all ranks of the window.
        window.try_update_all(values, result, (rank.cast_unsigned(), displacement), kind, op)
    };
    done().is_some()
}

/// `MPI_Put` and `MPI_Get`.
macro_rules! transfers {
    ($($call:ident $name:literal $now:ident $in_full:ident
        $elements:ty, $pointer:ty, $raw:ident $convert:ident $try_now:ident $transfer:ident;)*) => { $(
        /// Transfers contiguous elements from or to mapped memory. Returns false if that is not possible: the call then takes the general
        /// path.
        ///
        /// # Safety
        /// The elements at the origin must be readable and, for a get, writable.
        #[inline(always)]
        unsafe fn $now(
            mpi: &Mpi,
            origin: $elements,
            (rank, displacement, count, datatype): Target,
            win: MPI_Win,
        ) -> bool {
            // SAFETY: a transfer creates and frees no window.
            let Some(window) = (unsafe { mpi.window_for_a_moment(win) }) else { return false };
            let Some(bytes) = (unsafe { $raw(mpi, origin) }) else { return false };
            // Whether the target's elements are as many contiguous bytes.
            let is_alike = (count, datatype) == (origin.1, origin.2)
                || mpi.dense_len(datatype, count) == Some(bytes.len());
            // As an unsigned number, a negative rank is above all ranks of the window.
            is_alike && window.$try_now(bytes, rank.cast_unsigned(), displacement)
        }

        #[inline(always)]
        pub(crate) unsafe fn $call(origin: $elements, target: Target, win: MPI_Win) -> c_int {
            if let Some(mpi) = enter_briefly()
                && unsafe { $now(mpi, origin, target, win) }
            {
                return MPI_SUCCESS;
            }
            let ((at, count, datatype), (rank, displacement, target_count, target_datatype)) = (origin, target);
            unsafe { $in_full(at, count, datatype, rank, displacement, target_count, target_datatype, win) }
        }

        /// The general path of the call. This function has the arguments of the call, in the same registers, so that the fast path need
        /// not save them.
        #[inline(never)]
        unsafe fn $in_full(
            at: $pointer,
            count: i64,
            datatype: MPI_Datatype,
            rank: c_int,
            displacement: i64,
            target_count: i64,
            target_datatype: MPI_Datatype,
            win: MPI_Win,
        ) -> c_int {
            let mpi = entered!($name);
            let (origin, target) = ((at, count, datatype), (rank, displacement, target_count, target_datatype));
            if unsafe { $now(&mpi, origin, target, win) } {
                return MPI_SUCCESS;
            }
            on_window_in(&mpi, $name, win, move |mpi, object| {
                let origin = unsafe { $convert(mpi, origin) }?;
                with_target(mpi, target, |target| object.window.$transfer(&origin, target))
            })
        }
    )* };
}

transfers! {
    mpi_put_c "MPI_Put" put_now put_in_full
        SendElements, *const c_void, raw_to_send to_send try_put put_data;
    mpi_get_c "MPI_Get" get_now get_in_full
        RecvElements, *mut c_void, raw_to_receive to_receive try_get get_data;
}

pub(crate) unsafe fn mpi_accumulate_c(
    origin: SendElements,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let mpi = entered!("MPI_Accumulate");
    let (rank, displacement, count, datatype) = target;
    if (origin.1, count, origin.2) == (1, 1, datatype)
        && let Some(kind) = mpi.predefined_kind(datatype)
        && unsafe { update_now(&mpi, origin.0, (rank, displacement), (kind, op), win) }.is_some()
    {
        return MPI_SUCCESS;
    }
    if unsafe { update_all_now(&mpi, origin, None, target, op, win) } {
        return MPI_SUCCESS;
    }
    on_window_in(&mpi, "MPI_Accumulate", win, move |mpi, object| {
        let op = op_of(mpi, op)?;
        let origin = unsafe { to_send(mpi, origin) }?;
        with_target(mpi, target, |target| object.window.accumulate_data(&origin, target, &op))
    })
}

pub(crate) unsafe fn mpi_get_accumulate_c(
    origin: SendElements,
    result: RecvElements,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let mpi = entered!("MPI_Get_accumulate");
    unsafe { get_accumulate((&mpi, "MPI_Get_accumulate"), origin, result, target, op, win) }
}

#[inline(never)]
unsafe fn get_accumulate(
    (mpi, function): (&Mpi, &str),
    origin: SendElements,
    result: RecvElements,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    if unsafe { update_all_now(mpi, origin, Some(result), target, op, win) } {
        return MPI_SUCCESS;
    }
    on_window_in(mpi, function, win, |mpi, object| {
        let origin = unsafe { origin_of(mpi, origin, op) }?;
        let op = op_of(mpi, op)?;
        let result = unsafe { to_receive(mpi, result) }?;
        with_target(mpi, target, |target| {
            object.window.get_accumulate_data(origin.as_ref(), &result, target, &op)
        })
    })
}

pub(crate) unsafe fn mpi_rput_c(
    origin: SendElements,
    target: Target,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    on_window("MPI_Rput", win, |mpi, object| {
        let origin = unsafe { to_send(mpi, origin) }?;
        with_target(mpi, target, |target| object.window.put_data(&origin, target))?;
        unsafe { give_ended(request) }
    })
}

pub(crate) unsafe fn mpi_rget_c(
    origin: RecvElements,
    target: Target,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    on_window("MPI_Rget", win, |mpi, object| {
        let origin = unsafe { to_receive(mpi, origin) }?;
        with_target(mpi, target, |target| object.window.get_data(&origin, target))?;
        unsafe { give_ended(request) }
    })
}

pub(crate) unsafe fn mpi_raccumulate_c(
    origin: SendElements,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    on_window("MPI_Raccumulate", win, |mpi, object| {
        let op = op_of(mpi, op)?;
        let origin = unsafe { to_send(mpi, origin) }?;
        with_target(mpi, target, |target| object.window.accumulate_data(&origin, target, &op))?;
        unsafe { give_ended(request) }
    })
}

pub(crate) unsafe fn mpi_rget_accumulate_c(
    origin: SendElements,
    result: RecvElements,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    on_window("MPI_Rget_accumulate", win, |mpi, object| {
        let origin = unsafe { origin_of(mpi, origin, op) }?;
        let op = op_of(mpi, op)?;
        let result = unsafe { to_receive(mpi, result) }?;
        with_target(mpi, target, |target| {
            object.window.get_accumulate_data(origin.as_ref(), &result, target, &op)
        })?;
        unsafe { give_ended(request) }
    })
}

pub(crate) unsafe fn mpi_fetch_and_op(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: i64,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let mpi = entered!("MPI_Fetch_and_op");
    if !result_addr.is_null()
        && let Some(kind) = mpi.predefined_kind(datatype)
        && let Some(old) =
            unsafe { update_now(&mpi, origin_addr, (target_rank, target_disp), (kind, op), win) }
    {
        unsafe { store_word(old, result_addr, kind.size()) };
        return MPI_SUCCESS;
    }
    let (origin, result) = ((origin_addr, 1, datatype), (result_addr, 1, datatype));
    let target = (target_rank, target_disp, 1, datatype);
    unsafe { get_accumulate((&mpi, "MPI_Fetch_and_op"), origin, result, target, op, win) }
}

pub(crate) unsafe fn mpi_compare_and_swap(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: i64,
    win: MPI_Win,
) -> c_int {
    let mpi = entered!("MPI_Compare_and_swap");
    // SAFETY: a compare-and-swap creates and frees no window.
    if !result_addr.is_null()
        && let Some(window) = unsafe { mpi.window_for_a_moment(win) }
        && let Some(kind) = mpi.predefined_kind(datatype)
        && let Some(expected) = unsafe { word_at(compare_addr, kind.size()) }
        && let Some(new) = unsafe { word_at(origin_addr, kind.size()) }
        && let at = (target_rank.cast_unsigned(), target_disp)
        && let Some(old) = window.try_compare_and_swap((expected, new), at, kind)
    {
        unsafe { store_word(old, result_addr, kind.size()) };
        return MPI_SUCCESS;
    }
    on_window_in(&mpi, "MPI_Compare_and_swap", win, move |mpi, object| {
        let kind = datatype_of(mpi, datatype)?;
        let (new, expected) = unsafe {
            (to_send(mpi, (origin_addr, 1, datatype))?, to_send(mpi, (compare_addr, 1, datatype))?)
        };
        let result = unsafe { to_receive(mpi, (result_addr, 1, datatype)) }?;
        let rank = dest_of(target_rank)?;
        if rank == PROC_NULL {
            return Ok(());
        }
        let target = TargetData { rank, displacement: target_disp, count: 1, datatype: &kind };
        Ok(object.window.compare_and_swap_data(&new, &expected, &result, target)?)
    })
}

pub(crate) unsafe fn mpi_win_fence(assert: c_int, win: MPI_Win) -> c_int {
    on_window("MPI_Win_fence", win, |_, object| Ok(object.window.fence(assertion_of(assert)?)?))
}

pub(crate) unsafe fn mpi_win_start(group: MPI_Group, assert: c_int, win: MPI_Win) -> c_int {
    on_window("MPI_Win_start", win, |mpi, object| {
        Ok(object.window.start(&group_of(mpi, group)?, assertion_of(assert)?)?)
    })
}

pub(crate) unsafe fn mpi_win_post(group: MPI_Group, assert: c_int, win: MPI_Win) -> c_int {
    on_window("MPI_Win_post", win, |mpi, object| {
        Ok(object.window.post(&group_of(mpi, group)?, assertion_of(assert)?)?)
    })
}

pub(crate) unsafe fn mpi_win_complete(win: MPI_Win) -> c_int {
    on_window("MPI_Win_complete", win, |_, object| Ok(object.window.complete()?))
}

pub(crate) unsafe fn mpi_win_wait(win: MPI_Win) -> c_int {
    on_window("MPI_Win_wait", win, |_, object| Ok(object.window.wait()?))
}

pub(crate) unsafe fn mpi_win_test(win: MPI_Win, flag: *mut c_int) -> c_int {
    on_window("MPI_Win_test", win, |_, object| {
        unsafe { *flag = c_int::from(object.window.test()?) };
        Ok(())
    })
}

/// The assertion with a number from the program.
///
/// # Errors
/// The number is invalid.
fn assertion_of(assert: c_int) -> Outcome<Assertion> {
    let known = [
        (MPI_MODE_NOCHECK, Assertion::NO_CHECK),
        (MPI_MODE_NOSTORE, Assertion::NO_STORE),
        (MPI_MODE_NOPUT, Assertion::NO_PUT),
        (MPI_MODE_NOPRECEDE, Assertion::NO_PRECEDE),
        (MPI_MODE_NOSUCCEED, Assertion::NO_SUCCEED),
    ];
    let all = known.iter().fold(0, |all, &(bit, _)| all | bit);
    if assert & !all != 0 {
        let what = format!("{assert} is not an assertion: MPI_MODE_NOCHECK and the like, joined by |");
        return Err(Failure::new(ErrorClass::Assertion, what));
    }
    let promised = known.into_iter().filter(|&(bit, _)| assert & bit != 0);
    Ok(promised.fold(Assertion::NONE, |all, (_, promise)| all | promise))
}

/// A rank of a window; `None` for `MPI_PROC_NULL`, for which nothing is done.
fn rank_of(rank: c_int) -> Outcome<Option<u32>> {
    Ok(Some(dest_of(rank)?).filter(|&rank| rank != PROC_NULL))
}

pub(crate) unsafe fn mpi_win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) -> c_int {
    on_window("MPI_Win_lock", win, |_, object| {
        let lock = match lock_type {
            MPI_LOCK_EXCLUSIVE => Lock::Exclusive,
            MPI_LOCK_SHARED => Lock::Shared,
            other => {
                let what = format!("{other} is neither MPI_LOCK_SHARED nor MPI_LOCK_EXCLUSIVE");
                return Err(Failure::new(ErrorClass::LockType, what));
            }
        };
        let promise = assertion_of(assert)?;
        match rank_of(rank)? {
            Some(rank) => Ok(object.window.lock(lock, rank, promise)?),
            None => Ok(()),
        }
    })
}

pub(crate) unsafe fn mpi_win_lock_all(assert: c_int, win: MPI_Win) -> c_int {
    on_window("MPI_Win_lock_all", win, |_, object| Ok(object.window.lock_all(assertion_of(assert)?)?))
}

pub(crate) unsafe fn mpi_win_unlock_all(win: MPI_Win) -> c_int {
    on_window("MPI_Win_unlock_all", win, |_, object| Ok(object.window.unlock_all()?))
}

pub(crate) unsafe fn mpi_win_flush_all(win: MPI_Win) -> c_int {
    on_window("MPI_Win_flush_all", win, |_, object| Ok(object.window.flush_all()?))
}

pub(crate) unsafe fn mpi_win_flush_local_all(win: MPI_Win) -> c_int {
    on_window("MPI_Win_flush_local_all", win, |_, object| Ok(object.window.flush_local_all()?))
}

pub(crate) unsafe fn mpi_win_sync(win: MPI_Win) -> c_int {
    on_window("MPI_Win_sync", win, |_, object| Ok(object.window.sync()?))
}

pub(crate) unsafe fn mpi_win_unlock(rank: c_int, win: MPI_Win) -> c_int {
    on_window("MPI_Win_unlock", win, |_, object| match rank_of(rank)? {
        Some(rank) => Ok(object.window.unlock(rank)?),
        None => Ok(()),
    })
}

/// Whether a flush has nothing to wait for.
#[inline(always)]
fn flush_now(mpi: &Mpi, rank: c_int, win: MPI_Win) -> bool {
    // SAFETY: a flush that has nothing to wait for makes and frees no window.
    unsafe { mpi.window_for_a_moment(win) }.is_some_and(|window| window.try_flush(rank.cast_unsigned()))
}

#[inline(always)]
pub(crate) unsafe fn mpi_win_flush(rank: c_int, win: MPI_Win) -> c_int {
    if enter_briefly().is_some_and(|mpi| flush_now(mpi, rank, win)) {
        return MPI_SUCCESS;
    }
    flush_in_full(rank, win)
}

#[inline(never)]
fn flush_in_full(rank: c_int, win: MPI_Win) -> c_int {
    let mpi = entered!("MPI_Win_flush");
    if flush_now(&mpi, rank, win) {
        return MPI_SUCCESS;
    }
    on_window_in(&mpi, "MPI_Win_flush", win, move |_, object| match rank_of(rank)? {
        Some(rank) => Ok(object.window.flush(rank)?),
        None => Ok(()),
    })
}

pub(crate) unsafe fn mpi_win_flush_local(rank: c_int, win: MPI_Win) -> c_int {
    on_window("MPI_Win_flush_local", win, |_, object| match rank_of(rank)? {
        Some(rank) => Ok(object.window.flush_local(rank)?),
        None => Ok(()),
    })
}
