//! The program's representations of numbers in files (MPI 5.0 section 14.5.3).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: the functions have the types that the
//! standard gives them, and may be called with the extra state until MPI ends.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use mpi_over_am::ErrorClass;
use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::file::Conversion;
use mpi_over_am::{RecvData, SendData};

use crate::constants::{MPI_MAX_DATAREP_STRING, MPI_SUCCESS};
use crate::face::Raw;
use crate::failure::{Failure, call_program};
use crate::files::on_no_file;
use crate::operations::with_handle;
use crate::text::string_at;
use crate::types::{Callback, MPI_Datatype};

type Extent = unsafe extern "C-unwind" fn(Raw<MPI_Datatype>, *mut i64, *mut c_void) -> c_int;
type Small = unsafe extern "C-unwind" fn(
    *mut c_void,
    Raw<MPI_Datatype>,
    c_int,
    *mut c_void,
    i64,
    *mut c_void,
) -> c_int;
type Large =
    unsafe extern "C-unwind" fn(*mut c_void, Raw<MPI_Datatype>, i64, *mut c_void, i64, *mut c_void) -> c_int;

/// The functions of a representation; 0 is `MPI_CONVERSION_FN_NULL`.
#[derive(Debug)]
struct Functions {
    name: String,
    read: Callback,
    write: Callback,
    extent: Callback,
    extra_state: usize,
    /// Whether the conversions take large counts.
    are_large: bool,
}

impl Functions {
    fn extra_state(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.extra_state)
    }

    /// Calls a conversion function, for all numbers at once.
    fn convert(
        &self,
        function: Callback,
        (memory, datatype): (*mut u8, &Datatype),
        items: u64,
        file: *mut u8,
    ) -> Result<(), String> {
        let small = c_int::try_from(items);
        if !self.are_large && small.is_err() {
            return Err(format!(
                "the data representation {:?} cannot convert {items} numbers at once: register it by MPI_Register_datarep_c",
                self.name
            ));
        }
        let mut code = MPI_SUCCESS;
        with_handle(datatype, |handle| {
            code = call_program("a data conversion", || match small {
                Ok(items) if !self.are_large => {
                    // SAFETY: the program gave a function of this type (the module's contract). The elements are those of the program's
                    // call, which lasts until the function returns; `file` has room for, or has, `items` numbers in the file's form.
                    unsafe {
                        let function: Small = std::mem::transmute(function);
                        function(memory.cast(), handle, items, file.cast(), 0, self.extra_state())
                    }
                }
                // SAFETY: as above.
                _ => unsafe {
                    let function: Large = std::mem::transmute(function);
                    function(memory.cast(), handle, items.cast_signed(), file.cast(), 0, self.extra_state())
                },
            });
        });
        self.check("conversion", code)
    }

    fn check(&self, what: &str, code: c_int) -> Result<(), String> {
        if code == MPI_SUCCESS {
            return Ok(());
        }
        Err(format!(
            "the {what} function of the data representation {:?} has returned error {code}",
            self.name
        ))
    }
}

impl Conversion for Functions {
    fn name(&self) -> &str {
        &self.name
    }

    fn bytes_of(&self, basic: Predefined) -> Result<u64, String> {
        let (mut code, mut extent) = (MPI_SUCCESS, 0);
        with_handle(&Datatype::predefined(basic), |handle| {
            // SAFETY: the program gave a function of this type (the module's contract). The result lives until the function returns.
            code = call_program("an extent function", || unsafe {
                let function: Extent = std::mem::transmute(self.extent);
                function(handle, &raw mut extent, self.extra_state())
            });
        });
        self.check("extent", code)?;
        u64::try_from(extent).ok().filter(|&extent| extent > 0).ok_or_else(|| {
            format!(
                "the extent function of the data representation {:?} has returned {extent} bytes for {}",
                self.name,
                basic.name()
            )
        })
    }

    fn converts_writes(&self) -> bool {
        self.write != 0
    }

    fn converts_reads(&self) -> bool {
        self.read != 0
    }

    fn write(&self, from: &SendData, items: u64, to: &mut [u8]) -> Result<(), String> {
        self.convert(self.write, (from.at().cast_mut(), from.datatype()), items, to.as_mut_ptr())
    }

    fn read(&self, from: &[u8], items: u64, to: &RecvData) -> Result<(), String> {
        self.convert(self.read, (to.at(), to.datatype()), items, from.as_ptr().cast_mut())
    }
}

unsafe fn register(
    function: &str,
    datarep: *const c_char,
    [read, write, extent]: [Callback; 3],
    extra_state: *mut c_void,
    are_large: bool,
) -> c_int {
    on_no_file(function, |mpi| {
        // SAFETY: a string of the program (the module's contract).
        let name = unsafe { string_at(datarep) }?;
        if name.len() >= MPI_MAX_DATAREP_STRING {
            let what = format!(
                "the name of a data representation has {} bytes; it may have {} at most",
                name.len(),
                MPI_MAX_DATAREP_STRING - 1
            );
            return Err(Failure::new(ErrorClass::Argument, what));
        }
        if extent == 0 {
            return Err(Failure::new(ErrorClass::Argument, "the extent function is null"));
        }
        let extra_state = extra_state.expose_provenance();
        let functions = Functions { name, read, write, extent, extra_state, are_large };
        Ok(mpi.world.communicator.register_representation(Arc::new(functions))?)
    })
}

pub(crate) unsafe fn mpi_register_datarep(
    datarep: *const c_char,
    read: Callback,
    write: Callback,
    extent: Callback,
    extra_state: *mut c_void,
) -> c_int {
    // SAFETY: the module's contract.
    unsafe { register("MPI_Register_datarep", datarep, [read, write, extent], extra_state, false) }
}

pub(crate) unsafe fn mpi_register_datarep_c(
    datarep: *const c_char,
    read: Callback,
    write: Callback,
    extent: Callback,
    extra_state: *mut c_void,
) -> c_int {
    // SAFETY: the module's contract.
    unsafe { register("MPI_Register_datarep_c", datarep, [read, write, extent], extra_state, true) }
}
