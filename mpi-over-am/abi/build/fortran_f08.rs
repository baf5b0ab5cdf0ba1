//! The source of the module `mpi_f08` (MPI 5.0 section 19.1), made from the header and its prototypes.
//!
//! Handles and statuses are types of one or eight integers, so that they are passed like the integers of `mpif.h`: a routine without a
//! buffer is the routine of `mpif.h`. Buffers are passed as descriptors to routines in C (`fortran_descriptors`), whose names end in
//! `_f08ts`. The forms with large counts have the same generic name.

use std::fmt::Write as _;

use crate::Fallible;
use crate::constants::{Constant, Kind};
use crate::fortran::{Argument, CAPACITIES, LOGICALS, Routine};
use crate::fortran_descriptors::{has_buffers, is_buffer};
use crate::fortran_text::{FIXED, SENTINELS, in_fortran};

/// Functions that the standard has only in older Fortran (MPI 5.0 chapter 16).
const ONLY_IN_OLD_FORMS: [&str; 5] =
    ["MPI_Attr_delete", "MPI_Attr_get", "MPI_Attr_put", "MPI_Keyval_create", "MPI_Keyval_free"];

/// Functions whose form with large counts differs from the other one only by the program's function, which a generic name cannot tell apart
/// (MPI 5.0 section 19.1.5): both forms have their own name.
const NOT_GENERIC: [&str; 2] = ["MPI_Op_create", "MPI_Register_datarep"];

/// The types of handles.
const HANDLES: [&str; 11] = [
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_Errhandler",
    "MPI_File",
    "MPI_Group",
    "MPI_Info",
    "MPI_Message",
    "MPI_Op",
    "MPI_Request",
    "MPI_Session",
    "MPI_Win",
];

/// The program's functions: their names, and their arguments with their declarations.
const CALLBACKS: &str = "
MPI_User_function: type(c_ptr), value :: invec; type(c_ptr), value :: inoutvec; integer :: len; type(MPI_Datatype) :: datatype
MPI_User_function_c: type(c_ptr), value :: invec; type(c_ptr), value :: inoutvec; integer(MPI_COUNT_KIND) :: len; type(MPI_Datatype) :: datatype
MPI_Comm_copy_attr_function: type(MPI_Comm) :: oldcomm; integer :: comm_keyval; integer(MPI_ADDRESS_KIND) :: extra_state; integer(MPI_ADDRESS_KIND) :: attribute_val_in; integer(MPI_ADDRESS_KIND) :: attribute_val_out; logical :: flag; integer :: ierror
MPI_Comm_delete_attr_function: type(MPI_Comm) :: comm; integer :: comm_keyval; integer(MPI_ADDRESS_KIND) :: attribute_val; integer(MPI_ADDRESS_KIND) :: extra_state; integer :: ierror
MPI_Type_copy_attr_function: type(MPI_Datatype) :: oldtype; integer :: type_keyval; integer(MPI_ADDRESS_KIND) :: extra_state; integer(MPI_ADDRESS_KIND) :: attribute_val_in; integer(MPI_ADDRESS_KIND) :: attribute_val_out; logical :: flag; integer :: ierror
MPI_Type_delete_attr_function: type(MPI_Datatype) :: datatype; integer :: type_keyval; integer(MPI_ADDRESS_KIND) :: attribute_val; integer(MPI_ADDRESS_KIND) :: extra_state; integer :: ierror
MPI_Win_copy_attr_function: type(MPI_Win) :: oldwin; integer :: win_keyval; integer(MPI_ADDRESS_KIND) :: extra_state; integer(MPI_ADDRESS_KIND) :: attribute_val_in; integer(MPI_ADDRESS_KIND) :: attribute_val_out; logical :: flag; integer :: ierror
MPI_Win_delete_attr_function: type(MPI_Win) :: win; integer :: win_keyval; integer(MPI_ADDRESS_KIND) :: attribute_val; integer(MPI_ADDRESS_KIND) :: extra_state; integer :: ierror
MPI_Comm_errhandler_function: type(MPI_Comm) :: comm; integer :: error_code
MPI_File_errhandler_function: type(MPI_File) :: file; integer :: error_code
MPI_Session_errhandler_function: type(MPI_Session) :: session; integer :: error_code
MPI_Win_errhandler_function: type(MPI_Win) :: win; integer :: error_code
MPI_Grequest_query_function: integer(MPI_ADDRESS_KIND) :: extra_state; type(MPI_Status) :: status; integer :: ierror
MPI_Grequest_free_function: integer(MPI_ADDRESS_KIND) :: extra_state; integer :: ierror
MPI_Grequest_cancel_function: integer(MPI_ADDRESS_KIND) :: extra_state; logical :: complete; integer :: ierror
MPI_Datarep_extent_function: type(MPI_Datatype) :: datatype; integer(MPI_ADDRESS_KIND) :: extent; integer(MPI_ADDRESS_KIND) :: extra_state; integer :: ierror
MPI_Datarep_conversion_function: type(c_ptr), value :: userbuf; type(MPI_Datatype) :: datatype; integer :: count; type(c_ptr), value :: filebuf; integer(MPI_OFFSET_KIND) :: position; integer(MPI_ADDRESS_KIND) :: extra_state; integer :: ierror
MPI_Datarep_conversion_function_c: type(c_ptr), value :: userbuf; type(MPI_Datatype) :: datatype; integer(MPI_COUNT_KIND) :: count; type(c_ptr), value :: filebuf; integer(MPI_OFFSET_KIND) :: position; integer(MPI_ADDRESS_KIND) :: extra_state; integer :: ierror
";

/// The library's functions that programs pass back to it, and their interfaces.
const PREDEFINED: [(&str, &str); 11] = [
    ("MPI_COMM_NULL_COPY_FN", "MPI_Comm_copy_attr_function"),
    ("MPI_COMM_DUP_FN", "MPI_Comm_copy_attr_function"),
    ("MPI_COMM_NULL_DELETE_FN", "MPI_Comm_delete_attr_function"),
    ("MPI_TYPE_NULL_COPY_FN", "MPI_Type_copy_attr_function"),
    ("MPI_TYPE_DUP_FN", "MPI_Type_copy_attr_function"),
    ("MPI_TYPE_NULL_DELETE_FN", "MPI_Type_delete_attr_function"),
    ("MPI_WIN_NULL_COPY_FN", "MPI_Win_copy_attr_function"),
    ("MPI_WIN_DUP_FN", "MPI_Win_copy_attr_function"),
    ("MPI_WIN_NULL_DELETE_FN", "MPI_Win_delete_attr_function"),
    ("MPI_CONVERSION_FN_NULL", "MPI_Datarep_conversion_function"),
    ("MPI_CONVERSION_FN_NULL_C", "MPI_Datarep_conversion_function_c"),
];

/// The source of the module.
pub(crate) fn module(constants: &[Constant], routines: &[Routine]) -> Fallible<String> {
    let mut text = String::from(
        "! The module mpi_f08 of MPI 5.0 (section 19.1). Made from mpi.h: the numbers are those of C.\n\
         module mpi_f08\n\
         \x20 use, intrinsic :: iso_c_binding, only: c_ptr\n\
         \x20 implicit none\n\
         \x20 private :: c_ptr\n",
    );
    types(&mut text)?;
    values(&mut text, constants)?;
    callbacks(&mut text)?;
    for prefix in ["", "P"] {
        interfaces(&mut text, prefix, routines)?;
        // Routines of Fortran alone.
        writeln!(
            text,
            "  interface\n\
             \x20   subroutine {prefix}MPI_F_sync_reg(buf) bind(C, name='{}mpi_f_sync_reg_f08ts')\n\
             \x20     type(*), dimension(..), asynchronous, target :: buf\n\
             \x20   end subroutine\n\
             \x20   subroutine {prefix}MPI_Sizeof(x, size, ierror) bind(C, name='{}mpi_sizeof_f08ts')\n\
             \x20     type(*), dimension(..) :: x\n\
             \x20     integer, intent(out) :: size\n\
             \x20     integer, optional, intent(out) :: ierror\n\
             \x20   end subroutine\n\
             \x20 end interface\n\
             \x20 interface {prefix}MPI_Status_f2f08\n\
             \x20   module procedure f2f08\n\
             \x20 end interface\n\
             \x20 interface {prefix}MPI_Status_f082f\n\
             \x20   module procedure f082f\n\
             \x20 end interface",
            prefix.to_lowercase(),
            prefix.to_lowercase()
        )?;
    }
    procedures(&mut text)?;
    match text.lines().find(|line| line.len() > 132) {
        Some(line) => Err(format!("mpi_f08.f90: a line is too long: {line}").into()),
        None => Ok(text),
    }
}

fn types(text: &mut String) -> Fallible<()> {
    for (name, value) in FIXED {
        writeln!(text, "  integer, parameter :: {name} = {value}")?;
    }
    for handle in HANDLES {
        writeln!(text, "  type, bind(C) :: {handle}\n    integer :: MPI_VAL\n  end type")?;
    }
    text.push_str(
        "  type, bind(C) :: MPI_Status\n\
         \x20   integer :: MPI_SOURCE, MPI_TAG, MPI_ERROR\n\
         \x20   integer, private :: internal(5)\n\
         \x20 end type\n",
    );
    for (operator, function) in [("==", "equal"), ("/=", "unequal")] {
        writeln!(text, "  interface operator({operator})")?;
        for handle in HANDLES {
            writeln!(text, "    module procedure {}", procedure(function, handle))?;
        }
        writeln!(text, "  end interface")?;
    }
    Ok(())
}

/// The name of a function on handles of a type.
fn procedure(what: &str, handle: &str) -> String {
    handle.replacen("MPI_", &format!("{what}_"), 1).to_lowercase()
}

/// The constants, and the variables whose addresses are special arguments.
fn values(text: &mut String, constants: &[Constant]) -> Fallible<()> {
    for (Constant { name, kind, .. }, value) in in_fortran(constants) {
        match kind {
            Kind::Handle(of) => {
                let what = format!("{of}({value})");
                writeln!(text, "  type({of}), parameter :: {name} = {what}")?;
            }
            _ => writeln!(text, "  integer, parameter :: {name} = {value}")?,
        }
    }
    text.push_str(
        "  integer(MPI_OFFSET_KIND), parameter :: MPI_DISPLACEMENT_CURRENT = -1\n\
         \x20 logical, parameter :: MPI_SUBARRAYS_SUPPORTED = .true.\n\
         \x20 logical, parameter :: MPI_ASYNC_PROTECTS_NONBLOCKING = .true.\n\
         ! Only the addresses of these variables have a meaning, not their values.\n",
    );
    for (name, declaration) in SENTINELS {
        let declaration = match name {
            "MPI_STATUS_IGNORE" => "type(MPI_Status) :: MPI_STATUS_IGNORE".to_owned(),
            "MPI_STATUSES_IGNORE" => "type(MPI_Status) :: MPI_STATUSES_IGNORE(1)".to_owned(),
            _ => declaration
                .to_lowercase()
                .replace("mpi_", "MPI_")
                .replacen(' ', " :: ", 1)
                .replace(&name.to_lowercase().replace("mpi_", "MPI_"), name),
        };
        let block = name.replacen("MPI_", "MPI_FORTRAN_", 1);
        writeln!(text, "  {declaration}\n  common /{block}/ {name}\n  save /{block}/")?;
    }
    Ok(())
}

fn callbacks(text: &mut String) -> Fallible<()> {
    writeln!(text, "  abstract interface")?;
    for line in CALLBACKS.lines().filter(|line| !line.is_empty()) {
        let (name, declarations) = line.split_once(": ").ok_or("a callback has no arguments")?;
        let declarations: Vec<_> = declarations.split("; ").collect();
        let arguments = declarations.iter().filter_map(|declaration| declaration.rsplit(' ').next());
        subroutine(text, name, &arguments.collect::<Vec<_>>(), None)?;
        for declaration in &declarations {
            writeln!(text, "      {declaration}")?;
        }
        writeln!(text, "    end subroutine")?;
    }
    writeln!(text, "  end interface")?;
    for (name, interface) in PREDEFINED {
        writeln!(text, "  procedure({interface}) :: {name}")?;
    }
    Ok(())
}

/// The first lines of a subroutine's interface, one argument a line.
fn subroutine(text: &mut String, name: &str, arguments: &[&str], symbol: Option<&str>) -> Fallible<()> {
    writeln!(text, "    subroutine {name}( &")?;
    let end = symbol.map_or_else(|| ")".to_owned(), |symbol| format!(") bind(C, name='{symbol}')"));
    for (place, argument) in arguments.iter().enumerate() {
        let behind = if place + 1 == arguments.len() { &end } else { ", &" };
        writeln!(text, "      {argument}{behind}")?;
    }
    if arguments.is_empty() {
        writeln!(text, "      {end}")?;
    }
    writeln!(text, "      import")?;
    Ok(())
}

/// The interfaces of all functions, each with its form with large counts if Fortran can tell the two apart.
fn interfaces(text: &mut String, prefix: &str, routines: &[Routine]) -> Fallible<()> {
    let find = |name: &str| routines.iter().rfind(|routine| routine.name == name);
    for routine in routines.iter().filter(|routine| routine.is_in_old_forms()) {
        let name = routine.name.as_str();
        if ONLY_IN_OLD_FORMS.contains(&name) {
            continue;
        }
        // The last routine of a name is the form of this module.
        let routine = find(name).unwrap_or(routine);
        let large = find(&format!("{name}_c")).filter(|large| shape(large) != shape(routine));
        let is_generic = !NOT_GENERIC.contains(&name);
        let generic = format!("{prefix}{name}");
        match large {
            Some(large) if is_generic => {
                writeln!(text, "  interface {generic}")?;
                interface(text, prefix, routine)?;
                interface(text, prefix, large)?;
            }
            _ => {
                // A routine whose own name is another one gets the generic name.
                let named = if specific(prefix, routine) == generic { "" } else { generic.as_str() };
                writeln!(text, "  interface {named}")?;
                interface(text, prefix, routine)?;
                if let Some(large) = large {
                    interface(text, prefix, large)?;
                }
            }
        }
        writeln!(text, "  end interface")?;
    }
    Ok(())
}

/// The name of a routine's interface.
fn specific(prefix: &str, routine: &Routine) -> String {
    let suffix = if has_buffers(routine) { "_f08ts" } else { routine.suffix };
    format!("{prefix}{}{suffix}", routine.name)
}

/// What tells a routine from others of the same generic name: the kinds of its arguments.
fn shape(routine: &Routine) -> Vec<String> {
    let kinds = |argument: &Argument| {
        let declaration = declaration(&routine.name, argument);
        let kind = declaration.split(" :: ").next().unwrap_or_default().split(", intent").next();
        ["MPI_COUNT_KIND", "MPI_ADDRESS_KIND", "MPI_OFFSET_KIND"]
            .iter()
            .fold(kind.unwrap_or_default().to_owned(), |kind, name| kind.replace(name, "8"))
    };
    routine.arguments.iter().map(kinds).collect()
}

fn interface(text: &mut String, prefix: &str, routine: &Routine) -> Fallible<()> {
    let name = specific(prefix, routine);
    let mut arguments: Vec<_> = routine.arguments.iter().map(|argument| argument.name.as_str()).collect();
    if let Some(kind) = &routine.returns {
        let kind = if kind == "f64" { "double precision" } else { "integer(MPI_ADDRESS_KIND)" };
        writeln!(
            text,
            "    function {name}({})\n      import\n      {kind} :: {name}",
            arguments.join(", ")
        )?;
    } else {
        if routine.has_code() {
            arguments.push("ierror");
        }
        let symbol = has_buffers(routine).then(|| name.to_lowercase());
        subroutine(text, &name, &arguments, symbol.as_deref())?;
    }
    for argument in &routine.arguments {
        writeln!(text, "      {}", declaration(&routine.name, argument))?;
    }
    if routine.has_code() {
        writeln!(text, "      integer, optional, intent(out) :: ierror")?;
    }
    writeln!(text, "    end {}", if routine.is_function() { "function" } else { "subroutine" })?;
    Ok(())
}

/// The declaration of an argument.
fn declaration(function: &str, argument: &Argument) -> String {
    let parameter = &argument.parameter;
    let (name, kind, base) = (parameter.name.as_str(), parameter.kind.as_str(), parameter.base.as_str());
    let plural = if parameter.is_array || kind.starts_with("*mut *mut") { "(*)" } else { "" };
    let is_given = !kind.starts_with("*mut") || kind.starts_with("*mut *mut") || kind.starts_with("*mut [");
    let integer = match base {
        _ if name == "extra_state" || name == "attribute_val" => "integer(MPI_ADDRESS_KIND)",
        _ if LOGICALS.contains(&name) => "logical",
        "int" => "integer",
        "MPI_Aint" => "integer(MPI_ADDRESS_KIND)",
        "MPI_Offset" => "integer(MPI_OFFSET_KIND)",
        "MPI_Count" => "integer(MPI_COUNT_KIND)",
        _ => "",
    };
    if is_buffer(function, argument) {
        let intent = if kind.starts_with("*const") { ", intent(in)" } else { "" };
        // gfortran takes only the address of a target for one that the library may keep.
        let protected = if is_asynchronous(function) { ", asynchronous, target" } else { "" };
        return format!("type(*), dimension(..){intent}{protected} :: {name}");
    }
    let mut intent = if is_given { ", intent(in)" } else { ", intent(out)" };
    let what = match (kind, name) {
        ("*mut c_void", "baseptr" | "buffer_addr") => "type(c_ptr)".to_owned(),
        ("*mut c_void", "logical_true" | "logical_false") => {
            intent = "";
            "type(*)".to_owned()
        }
        ("Callback", _) => return format!("procedure({base}) :: {name}"),
        (_, _) if base == "char" => "character(len=*)".to_owned(),
        (_, _) if base == "MPI_Status" => {
            // The program may pass the ignored status, which is no status to be written.
            intent = match function.strip_prefix("MPI_Status_") {
                _ if kind.starts_with("*const") => ", intent(in)",
                Some(_) => ", intent(inout)",
                None => "",
            };
            "type(MPI_Status)".to_owned()
        }
        (_, _) if !integer.is_empty() => integer.to_owned(),
        _ => format!("type({base})"),
    };
    if function.ends_with("_set_attr") && name == "attribute_val" {
        intent = ", intent(in)";
    }
    if name == "extra_state" {
        intent = ", intent(in)";
    }
    if changes(function, name) {
        intent = ", intent(inout)";
    }
    if name == "array_of_errcodes" || (name.ends_with("weights") && !is_given) {
        intent = "";
    }
    let plural = match kind {
        "*mut [c_int; 3]" => "(3, *)",
        "*mut *mut *mut c_char" => "(count, *)",
        "*const c_char" | "*mut c_char" => "",
        _ if name.ends_with("weights") => "(*)",
        _ => plural,
    };
    format!("{what}{intent} :: {name}{plural}")
}

/// Whether a function reads an argument, and changes it.
fn changes(function: &str, name: &str) -> bool {
    let function = function.trim_end_matches("_c");
    let is_one_of = |functions: &[&str]| functions.contains(&function);
    match name {
        "position" => !function.starts_with("MPI_File"),
        "dims" => function == "MPI_Dims_create",
        "message" => is_one_of(&["MPI_Mrecv", "MPI_Imrecv"]),
        "request" => is_one_of(&["MPI_Wait", "MPI_Test", "MPI_Request_free", "MPI_Cancel", "MPI_Start"]),
        "array_of_requests" => !function.contains("get_status"),
        "fh" => function == "MPI_File_close",
        "session" => function == "MPI_Session_finalize",
        "datatype" => is_one_of(&["MPI_Type_commit", "MPI_Type_free"]),
        "comm" => is_one_of(&["MPI_Comm_free", "MPI_Comm_disconnect"]),
        name if CAPACITIES.contains(&name) => true,
        name if name.ends_with("keyval") => function.ends_with("_free_keyval"),
        _ => function.ends_with("_free"),
    }
}

/// Whether a buffer of a function is used after the call has returned, or by an operation that ends in another call.
fn is_asynchronous(function: &str) -> bool {
    let name = function.trim_start_matches("MPI_").trim_end_matches("_c");
    let of_file = name.strip_prefix("File_").unwrap_or_default();
    let is_started = |name: &str| {
        name.starts_with('I') && !["Info", "Init", "Inter", "Is_"].iter().any(|front| name.starts_with(front))
    };
    let ends = ["_init", "_begin", "_end", "_attach_buffer", "_detach_buffer", "put", "Put"];
    let is_one_sided = ["Get", "Rget", "Accumulate", "Raccumulate", "Get_accumulate", "Rget_accumulate"]
        .iter()
        .chain(&["Fetch_and_op", "Compare_and_swap", "Get_address"])
        .any(|&known| known == name);
    is_started(name)
        || is_one_sided
        || of_file.starts_with("iread")
        || of_file.starts_with("iwrite")
        || ends.iter().any(|end| name.ends_with(end))
        || ["Buffer_", "Win_"].iter().any(|front| name.starts_with(front))
}

/// The procedures that are in Fortran: comparisons of handles, and the conversions of statuses (MPI 5.0 sections 19.1.3 and 19.3.5).
fn procedures(text: &mut String) -> Fallible<()> {
    for (operator, function) in [("==", "equal"), ("/=", "unequal")] {
        for handle in HANDLES {
            writeln!(text, "  private :: {}", procedure(function, handle))?;
        }
        let _ = operator;
    }
    writeln!(text, "  private :: f2f08, f082f\ncontains")?;
    for (operator, function) in [("==", "equal"), ("/=", "unequal")] {
        for handle in HANDLES {
            let name = procedure(function, handle);
            writeln!(
                text,
                "  elemental function {name}(left, right)\n\
                 \x20   type({handle}), intent(in) :: left, right\n\
                 \x20   logical :: {name}\n\
                 \x20   {name} = left%MPI_VAL {operator} right%MPI_VAL\n\
                 \x20 end function"
            )?;
        }
    }
    text.push_str(
        "  subroutine f2f08(f_status, f08_status, ierror)\n\
         \x20   integer, intent(in) :: f_status(MPI_STATUS_SIZE)\n\
         \x20   type(MPI_Status), intent(out) :: f08_status\n\
         \x20   integer, optional, intent(out) :: ierror\n\
         \x20   f08_status%MPI_SOURCE = f_status(MPI_SOURCE)\n\
         \x20   f08_status%MPI_TAG = f_status(MPI_TAG)\n\
         \x20   f08_status%MPI_ERROR = f_status(MPI_ERROR)\n\
         \x20   f08_status%internal = f_status(4:8)\n\
         \x20   if (present(ierror)) ierror = MPI_SUCCESS\n\
         \x20 end subroutine\n\
         \x20 subroutine f082f(f08_status, f_status, ierror)\n\
         \x20   type(MPI_Status), intent(in) :: f08_status\n\
         \x20   integer, intent(out) :: f_status(MPI_STATUS_SIZE)\n\
         \x20   integer, optional, intent(out) :: ierror\n\
         \x20   f_status(MPI_SOURCE) = f08_status%MPI_SOURCE\n\
         \x20   f_status(MPI_TAG) = f08_status%MPI_TAG\n\
         \x20   f_status(MPI_ERROR) = f08_status%MPI_ERROR\n\
         \x20   f_status(4:8) = f08_status%internal\n\
         \x20   if (present(ierror)) ierror = MPI_SUCCESS\n\
         \x20 end subroutine\n\
         end module\n",
    );
    Ok(())
}
