//! Callbacks: functions of a Fortran program, called from C. The C interface passes arguments by value and expects an error code as the
//! result; a Fortran function takes references and stores the error code in its last argument. Operations and error handlers take
//! references in C, too, and need no conversion.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicPtr;
use std::sync::{Mutex, PoisonError};

use crate::constants::{
    MPI_APPNUM, MPI_COMM_DUP_FN, MPI_COMM_NULL_COPY_FN, MPI_HOST, MPI_IO, MPI_LASTUSEDCODE, MPI_SUCCESS,
    MPI_TAG_UB, MPI_UNIVERSE_SIZE, MPI_WIN_CREATE_FLAVOR, MPI_WIN_DISP_UNIT, MPI_WIN_MODEL, MPI_WIN_SIZE,
    MPI_WTIME_IS_GLOBAL,
};
use crate::face::{Handle as _, Raw, integer_of_word};
use crate::types::{Callback, MPI_Datatype, MPI_Status};

/// The extra state that C carries for a Fortran program: the program's own state, and its functions. That of a generalized request is freed
/// with the request, that of a key with the key and its last attribute ([`OwnedState`]).
#[derive(Debug)]
pub(crate) struct Kept {
    functions: [Callback; 3],
    /// The program's extra state, and below it the same state as a short integer. A key has a copy, because the program's variable may
    /// end before the key; functions may change the copy.
    state: Cell<i64>,
    small_state: Cell<c_int>,
    /// The program's variable. The functions of a generalized request get the variable itself (MPI 5.0 section 13.2), so that they can
    /// return something to the program.
    variable: *mut i64,
}

/// Where a [`Kept`] is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptAt(*mut Kept);

impl KeptAt {
    /// The extra state for C.
    pub(crate) fn state(self) -> *mut c_void {
        self.0.cast()
    }
}

impl Kept {
    unsafe fn of<'a>(state: *mut c_void) -> &'a Self {
        // SAFETY: the caller's promise: `keep` has made the state, and nothing has freed it.
        unsafe { &*state.cast_const().cast() }
    }
}

/// Stores the extra state of a call, and its functions in the order of its arguments.
pub(crate) fn keep(functions: [Callback; 3], state: i64) -> KeptAt {
    let [copy, delete, _] = functions;
    let is_predefined = [NULL_COPY, DUP].contains(&copy_attribute(copy)) && delete_attribute(delete) == 0;
    if is_predefined {
        // Nothing of the program runs for this key, so nothing would free the state.
        return KeptAt(std::ptr::null_mut());
    }
    keep_with(functions, state, std::ptr::null_mut())
}

/// [`keep`] for functions that get the program's variable itself.
pub(crate) fn keep_variable(functions: [Callback; 3], variable: *const i64) -> KeptAt {
    keep_with(functions, 0, variable.cast_mut())
}

fn keep_with(functions: [Callback; 3], state: i64, variable: *mut i64) -> KeptAt {
    let (state, small_state) = (Cell::new(state), Cell::new(state as c_int));
    KeptAt(Box::into_raw(Box::new(Kept { functions, state, small_state, variable })))
}

/// The extra state of a Fortran program's key, which is freed with this value.
#[derive(Debug)]
pub(crate) struct OwnedState(AtomicPtr<Kept>);

impl OwnedState {
    /// The extra state of a key with these C functions for copying and deleting; `None` if the program that made the key is in C.
    pub(crate) fn of((copy, delete): (Callback, Callback), state: *mut c_void) -> Option<Self> {
        let copies = [copy_attribute_in_c as CopyInC, copy_small_attribute_in_c];
        let deletes = [delete_attribute_in_c as DeleteInC, delete_small_attribute_in_c];
        let is_fortran = copies.iter().any(|&own| own as *const () as usize == copy)
            || deletes.iter().any(|&own| own as *const () as usize == delete);
        is_fortran.then(|| Self(AtomicPtr::new(state.cast())))
    }
}

impl Drop for OwnedState {
    fn drop(&mut self) {
        // SAFETY: `keep` made the state by `Box::into_raw` for the call that made the key: only a Fortran routine passes these functions to
        // it. The key and its last attribute are gone, so nothing uses the state any more.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
    }
}

type CopyInC =
    unsafe extern "C-unwind" fn(Handle, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
type DeleteInC = unsafe extern "C-unwind" fn(Handle, c_int, *mut c_void, *mut c_void) -> c_int;

type Handle = usize;
type Copy<A> =
    unsafe extern "C-unwind" fn(*mut c_int, *mut c_int, *const A, *mut A, *mut A, *mut c_int, *mut c_int);
type Delete<A> = unsafe extern "C-unwind" fn(*mut c_int, *mut c_int, *mut A, *const A, *mut c_int);

/// C's functions for "copy nothing" and, below, "copy the value".
const NULL_COPY: Callback = MPI_COMM_NULL_COPY_FN;
const DUP: Callback = MPI_COMM_DUP_FN;

macro_rules! attribute_functions {
    ($copy:ident $delete:ident $copy_in_c:ident $delete_in_c:ident $kind:ty, $state:ident,
     $null_copies:expr, $dups:expr, $null_deletes:expr) => {
        /// The function for C that copies an attribute by calling the program's function; C's constant for a predefined function.
        pub(crate) fn $copy(function: Callback) -> Callback {
            if $null_copies.contains(&function) {
                NULL_COPY
            } else if $dups.contains(&function) {
                DUP
            } else {
                $copy_in_c as *const () as usize
            }
        }

        /// The function for C that deletes an attribute by calling the program's function; C's constant for a predefined function.
        pub(crate) fn $delete(function: Callback) -> Callback {
            if $null_deletes.contains(&function) { 0 } else { $delete_in_c as *const () as usize }
        }

        unsafe extern "C-unwind" fn $copy_in_c(
            handle: Handle,
            keyval: c_int,
            state: *mut c_void,
            value: *mut c_void,
            to: *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: `keep` made the state, and `functions[0]` is the program's copy function. A Fortran function takes the address of
            // each argument; the values at these addresses live until it returns. The caller gives `flag` and `to` as addresses of results.
            unsafe {
                let kept = Kept::of(state);
                let function: Copy<$kind> = std::mem::transmute(kept.functions[0]);
                let (mut handle, mut keyval, mut code) = (integer_of_word(handle), keyval, MPI_SUCCESS);
                let (mut from, mut copied): ($kind, $kind) = (value_of(value.addr()) as $kind, 0);
                function(
                    &raw mut handle,
                    &raw mut keyval,
                    kept.$state.as_ptr().cast_const(),
                    &raw mut from,
                    &raw mut copied,
                    flag,
                    &raw mut code,
                );
                *flag = c_int::from(*flag != 0);
                *to.cast::<*mut c_void>() = keep_value(i64::from(copied));
                code
            }
        }

        unsafe extern "C-unwind" fn $delete_in_c(
            handle: Handle,
            keyval: c_int,
            value: *mut c_void,
            state: *mut c_void,
        ) -> c_int {
            // SAFETY: `keep` made the state, and `functions[1]` is the program's delete function. A Fortran function takes the address of
            // each argument; the values at these addresses live until it returns.
            unsafe {
                let kept = Kept::of(state);
                let function: Delete<$kind> = std::mem::transmute(kept.functions[1]);
                let (mut handle, mut keyval, mut code) = (integer_of_word(handle), keyval, MPI_SUCCESS);
                let mut value = value_of(value.addr()) as $kind;
                function(
                    &raw mut handle,
                    &raw mut keyval,
                    &raw mut value,
                    kept.$state.as_ptr().cast_const(),
                    &raw mut code,
                );
                code
            }
        }
    };
}

attribute_functions! {
    copy_attribute delete_attribute copy_attribute_in_c delete_attribute_in_c i64, state,
    null_copies(), dups(), null_deletes()
}

// Programs also pass the newer names to the older calls.
attribute_functions! {
    copy_small_attribute delete_small_attribute copy_small_attribute_in_c delete_small_attribute_in_c c_int, small_state,
    null_copies(), dups(), null_deletes()
}

fn null_copies() -> [usize; 4] {
    let newer: [Copy<i64>; 3] = [mpi_comm_null_copy_fn_, mpi_type_null_copy_fn_, mpi_win_null_copy_fn_];
    let [comm, kind, win] = newer.map(|function| function as *const () as usize);
    [comm, kind, win, mpi_null_copy_fn_ as *const () as usize]
}

fn dups() -> [usize; 4] {
    let newer: [Copy<i64>; 3] = [mpi_comm_dup_fn_, mpi_type_dup_fn_, mpi_win_dup_fn_];
    let [comm, kind, win] = newer.map(|function| function as *const () as usize);
    [comm, kind, win, mpi_dup_fn_ as *const () as usize]
}

fn null_deletes() -> [usize; 4] {
    let newer: [Delete<i64>; 3] =
        [mpi_comm_null_delete_fn_, mpi_type_null_delete_fn_, mpi_win_null_delete_fn_];
    let [comm, kind, win] = newer.map(|function| function as *const () as usize);
    [comm, kind, win, mpi_null_delete_fn_ as *const () as usize]
}

/// Functions of the library that programs pass back to it by name, and may also call (MPI 5.0 section 7.7.2).
macro_rules! predefined {
    ($kind:ty: $($null_copy:ident $dup:ident $null_delete:ident)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $null_copy(
            _handle: *mut c_int,
            _keyval: *mut c_int,
            _state: *const $kind,
            _value: *mut $kind,
            _to: *mut $kind,
            flag: *mut c_int,
            ierror: *mut c_int,
        ) {
            // SAFETY: the caller gives the addresses of these results.
            unsafe { (*flag, *ierror) = (0, MPI_SUCCESS) };
        }

        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $dup(
            _handle: *mut c_int,
            _keyval: *mut c_int,
            _state: *const $kind,
            value: *mut $kind,
            to: *mut $kind,
            flag: *mut c_int,
            ierror: *mut c_int,
        ) {
            // SAFETY: the caller gives the value, and the addresses of these results.
            unsafe { (*to, *flag, *ierror) = (*value, 1, MPI_SUCCESS) };
        }

        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $null_delete(
            _handle: *mut c_int,
            _keyval: *mut c_int,
            _value: *mut $kind,
            _state: *const $kind,
            ierror: *mut c_int,
        ) {
            // SAFETY: the caller gives the address of this result.
            unsafe { *ierror = MPI_SUCCESS };
        }
    )* };
}

predefined! { i64:
    mpi_comm_null_copy_fn_ mpi_comm_dup_fn_ mpi_comm_null_delete_fn_
    mpi_type_null_copy_fn_ mpi_type_dup_fn_ mpi_type_null_delete_fn_
    mpi_win_null_copy_fn_ mpi_win_dup_fn_ mpi_win_null_delete_fn_
}
predefined! { c_int: mpi_null_copy_fn_ mpi_dup_fn_ mpi_null_delete_fn_ }

/// The attribute values that Fortran programs have set. C gets the address of a copy of the value (MPI 5.0 section 19.3.7). Equal values
/// share one copy, which is never freed, because the program may keep its address anywhere. Programs use few different values.
struct Values {
    places: BTreeMap<i64, usize>,
    values: BTreeMap<usize, i64>,
}

static VALUES: Mutex<Values> = Mutex::new(Values { places: BTreeMap::new(), values: BTreeMap::new() });

/// C's form of a value that a Fortran program sets: the address of the value's copy.
pub(crate) fn keep_value(value: i64) -> *mut c_void {
    let mut all = VALUES.lock().unwrap_or_else(PoisonError::into_inner);
    let place = *all.places.entry(value).or_insert_with(|| {
        let kept: *mut i64 = Box::leak(Box::new(value));
        kept.expose_provenance()
    });
    all.values.insert(place, value);
    std::ptr::with_exposed_provenance_mut(place)
}

/// Fortran's form of a value: the value itself if a Fortran program has set it, else C's pointer as a number.
fn value_of(in_c: usize) -> i64 {
    let all = VALUES.lock().unwrap_or_else(PoisonError::into_inner);
    all.values.get(&in_c).copied().unwrap_or(in_c as i64)
}

/// The value of an attribute in Fortran. For predefined attributes but `MPI_WIN_BASE`, C returns the value's address (include/mpi.h).
pub(crate) unsafe fn attribute(keyval: c_int, value: usize) -> i64 {
    let at = std::ptr::with_exposed_provenance::<c_int>(value);
    match keyval {
        MPI_TAG_UB
        | MPI_IO
        | MPI_HOST
        | MPI_WTIME_IS_GLOBAL
        | MPI_APPNUM
        | MPI_LASTUSEDCODE
        | MPI_UNIVERSE_SIZE
        | MPI_WIN_DISP_UNIT
        | MPI_WIN_CREATE_FLAVOR
        | MPI_WIN_MODEL => {
            // SAFETY: the value of these predefined attributes is the address of an integer (MPI 5.0 sections 9.1.2 and 12.2.6).
            unsafe { i64::from(*at) }
        }
        // SAFETY: the value of this predefined attribute is the address of an MPI_Aint.
        MPI_WIN_SIZE => unsafe { *at.cast() },
        _ => value_of(value),
    }
}

/// The function for C that queries a generalized request.
pub(crate) fn query() -> Callback {
    query_in_c as *const () as usize
}

/// The function for C that frees the state of a generalized request.
pub(crate) fn free() -> Callback {
    free_in_c as *const () as usize
}

/// The function for C that cancels a generalized request.
pub(crate) fn cancel() -> Callback {
    cancel_in_c as *const () as usize
}

unsafe extern "C-unwind" fn query_in_c(state: *mut c_void, status: *mut MPI_Status) -> c_int {
    type Query = unsafe extern "C-unwind" fn(*mut i64, *mut MPI_Status, *mut c_int);
    // SAFETY: `keep` made the state, and `functions[0]` is the program's query function. A Fortran function takes the address of each
    // argument; the values at these addresses live until it returns. The caller gives the address of `status`.
    unsafe {
        let (kept, mut code) = (Kept::of(state), MPI_SUCCESS);
        let function: Query = std::mem::transmute(kept.functions[0]);
        function(kept.variable, status, &raw mut code);
        code
    }
}

unsafe extern "C-unwind" fn free_in_c(state: *mut c_void) -> c_int {
    type Free = unsafe extern "C-unwind" fn(*mut i64, *mut c_int);
    // SAFETY: `keep` made the state by `Box::into_raw`. This is the last call with it: the request is forgotten before its free function
    // runs. `functions[1]` is the program's free function. A Fortran function takes the address of each argument; the values at these
    // addresses live until it returns.
    unsafe {
        let (kept, mut code) = (Box::from_raw(state.cast::<Kept>()), MPI_SUCCESS);
        let function: Free = std::mem::transmute(kept.functions[1]);
        function(kept.variable, &raw mut code);
        code
    }
}

unsafe extern "C-unwind" fn cancel_in_c(state: *mut c_void, is_complete: c_int) -> c_int {
    type Cancel = unsafe extern "C-unwind" fn(*mut i64, *const c_int, *mut c_int);
    // SAFETY: `keep` made the state, and `functions[2]` is the program's cancel function. A Fortran function takes the address of each
    // argument; the values at these addresses live until it returns.
    unsafe {
        let (kept, is_complete, mut code) = (Kept::of(state), c_int::from(is_complete != 0), MPI_SUCCESS);
        let function: Cancel = std::mem::transmute(kept.functions[2]);
        function(kept.variable, &raw const is_complete, &raw mut code);
        code
    }
}

type Conversion<C> = unsafe extern "C-unwind" fn(
    *mut c_void,
    *const c_int,
    *const C,
    *mut c_void,
    *const i64,
    *const i64,
    *mut c_int,
);

/// The predefined functions that mean: no conversion is needed. Programs must not call them.
macro_rules! no_conversions {
    ($($name:ident $count:ty)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            _user: *mut c_void,
            _datatype: *const c_int,
            _count: *const $count,
            _file: *mut c_void,
            _position: *const i64,
            _state: *const i64,
            ierror: *mut c_int,
        ) {
            // SAFETY: the caller gives the address of this result.
            unsafe { *ierror = MPI_SUCCESS };
        }
    )* };
}

no_conversions! { mpi_conversion_fn_null_ c_int mpi_conversion_fn_null_c_ i64 }

fn is_no_conversion(function: Callback) -> bool {
    let own: [usize; 2] =
        [mpi_conversion_fn_null_ as *const () as usize, mpi_conversion_fn_null_c_ as *const () as usize];
    own.contains(&function)
}

/// The function for C that returns the size of a datatype in a file.
pub(crate) fn extent() -> Callback {
    extent_in_c as *const () as usize
}

macro_rules! conversions {
    ($($of:ident $name:ident $place:literal $count:ty)*) => { $(
        /// The function for C that converts data of a file; 0 if no conversion is needed.
        pub(crate) fn $of(function: Callback) -> Callback {
            if is_no_conversion(function) { 0 } else { $name as *const () as usize }
        }

        unsafe extern "C-unwind" fn $name(
            user: *mut c_void,
            datatype: Raw<MPI_Datatype>,
            count: $count,
            file: *mut c_void,
            position: i64,
            state: *mut c_void,
        ) -> c_int {
            // SAFETY: `keep` made the state, and `functions[$place]` is the program's conversion function. A Fortran function takes the
            // address of each argument; the values at these addresses live until it returns. The caller gives `user` and `file`, the
            // addresses of the data.
            unsafe {
                let (kept, datatype, mut code) =
                    (Kept::of(state), MPI_Datatype::from_raw(datatype).to_integer(), MPI_SUCCESS);
                let function: Conversion<$count> = std::mem::transmute(kept.functions[$place]);
                function(
                    user,
                    &raw const datatype,
                    &raw const count,
                    file,
                    &raw const position,
                    kept.state.as_ptr().cast_const(),
                    &raw mut code,
                );
                code
            }
        }
    )* };
}

conversions! {
    read_conversion read_conversion_in_c 0 c_int
    write_conversion write_conversion_in_c 1 c_int
    read_conversion_c large_read_conversion_in_c 0 i64
    write_conversion_c large_write_conversion_in_c 1 i64
}

unsafe extern "C-unwind" fn extent_in_c(
    datatype: Raw<MPI_Datatype>,
    extent: *mut i64,
    state: *mut c_void,
) -> c_int {
    type Extent = unsafe extern "C-unwind" fn(*const c_int, *mut i64, *const i64, *mut c_int);
    // SAFETY: `keep` made the state, and `functions[2]` is the program's extent function. A Fortran function takes the address of each
    // argument; the values at these addresses live until it returns. The caller gives `extent`, the address of the result.
    unsafe {
        let (kept, datatype, mut code) =
            (Kept::of(state), MPI_Datatype::from_raw(datatype).to_integer(), MPI_SUCCESS);
        let function: Extent = std::mem::transmute(kept.functions[2]);
        function(&raw const datatype, extent, kept.state.as_ptr().cast_const(), &raw mut code);
        code
    }
}
