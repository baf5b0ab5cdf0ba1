//! The files that Fortran programs include: `mpif.h` and the source of the module `mpi`, made from the header and its prototypes.

use std::fmt::Write as _;

use crate::Fallible;
use crate::constants::{Constant, Kind};
use crate::fortran::Routine;

/// Prefixes of C names that Fortran has in another form or not at all.
pub(crate) const NOT_IN_FORTRAN: [&str; 3] = ["MPI_T_", "MPI_F_", "MPI_ABI_"];

/// Constants that only Fortran has.
pub(crate) const FIXED: [(&str, &str); 8] = [
    ("MPI_ADDRESS_KIND", "8"),
    ("MPI_OFFSET_KIND", "8"),
    ("MPI_COUNT_KIND", "8"),
    ("MPI_INTEGER_KIND", "4"),
    ("MPI_STATUS_SIZE", "8"),
    ("MPI_SOURCE", "1"),
    ("MPI_TAG", "2"),
    ("MPI_ERROR", "3"),
];

/// The common blocks whose addresses are special arguments, and the variables in them (src/fortran/sentinels.rs).
pub(crate) const SENTINELS: [(&str, &str); 10] = [
    ("MPI_BOTTOM", "INTEGER MPI_BOTTOM"),
    ("MPI_IN_PLACE", "INTEGER MPI_IN_PLACE"),
    ("MPI_BUFFER_AUTOMATIC", "INTEGER MPI_BUFFER_AUTOMATIC"),
    ("MPI_STATUS_IGNORE", "INTEGER MPI_STATUS_IGNORE(8)"),
    ("MPI_STATUSES_IGNORE", "INTEGER MPI_STATUSES_IGNORE(8,1)"),
    ("MPI_ERRCODES_IGNORE", "INTEGER MPI_ERRCODES_IGNORE(1)"),
    ("MPI_UNWEIGHTED", "INTEGER MPI_UNWEIGHTED(1)"),
    ("MPI_WEIGHTS_EMPTY", "INTEGER MPI_WEIGHTS_EMPTY(1)"),
    ("MPI_ARGV_NULL", "CHARACTER*1 MPI_ARGV_NULL(1)"),
    ("MPI_ARGVS_NULL", "CHARACTER*1 MPI_ARGVS_NULL(1,1)"),
];

/// Functions of the library that programs pass back to it.
const FUNCTIONS: [&str; 13] = [
    "MPI_NULL_COPY_FN",
    "MPI_DUP_FN",
    "MPI_NULL_DELETE_FN",
    "MPI_COMM_NULL_COPY_FN",
    "MPI_COMM_DUP_FN",
    "MPI_COMM_NULL_DELETE_FN",
    "MPI_TYPE_NULL_COPY_FN",
    "MPI_TYPE_DUP_FN",
    "MPI_TYPE_NULL_DELETE_FN",
    "MPI_WIN_NULL_COPY_FN",
    "MPI_WIN_DUP_FN",
    "MPI_WIN_NULL_DELETE_FN",
    "MPI_CONVERSION_FN_NULL",
];

/// The constants that are integers in older Fortran. Lengths of strings do not count a terminating NUL.
fn integers(constants: &[Constant]) -> impl Iterator<Item = (&str, i64)> {
    in_fortran(constants).map(|(constant, value)| (constant.name.as_str(), value))
}

/// The constants of Fortran, with their values.
pub(crate) fn in_fortran(constants: &[Constant]) -> impl Iterator<Item = (&Constant, i64)> {
    let is_one = |constant: &&Constant| {
        !NOT_IN_FORTRAN.iter().any(|front| constant.name.starts_with(front))
            && !matches!(constant.kind, Kind::Pointer | Kind::Offset)
    };
    let value = |constant: &Constant| constant.value - i64::from(constant.kind == Kind::Size);
    constants.iter().filter(is_one).map(move |constant| (constant, value(constant)))
}

/// `mpif.h`, valid in both source forms.
pub(crate) fn mpif(constants: &[Constant]) -> Fallible<String> {
    let mut text = String::from(
        "! mpif.h: the constants of MPI 5.0 for Fortran programs, in fixed and in free source form.\n\
         ! Made from mpi.h: the numbers are those of C.\n",
    );
    let mut constant = |kind: &str, name: &str, value: &str| {
        writeln!(text, "      {kind} {name}")?;
        writeln!(text, "      PARAMETER ({name}={value})")
    };
    for (name, value) in FIXED {
        constant("INTEGER", name, value)?;
    }
    for (name, value) in integers(constants) {
        constant("INTEGER", name, &value.to_string())?;
    }
    constant("INTEGER(KIND=8)", "MPI_DISPLACEMENT_CURRENT", "-1")?;
    constant("LOGICAL", "MPI_SUBARRAYS_SUPPORTED", ".FALSE.")?;
    constant("LOGICAL", "MPI_ASYNC_PROTECTS_NONBLOCKING", ".FALSE.")?;
    writeln!(text, "! Only the addresses of these variables have a meaning, not their values.")?;
    for (name, declaration) in SENTINELS {
        let block = name.replacen("MPI_", "MPI_FORTRAN_", 1);
        writeln!(text, "      {declaration}\n      COMMON /{block}/ {name}\n      SAVE /{block}/")?;
    }
    for name in FUNCTIONS {
        writeln!(text, "      EXTERNAL {name}")?;
    }
    for (kind, name) in [
        ("DOUBLE PRECISION", "MPI_WTIME"),
        ("DOUBLE PRECISION", "MPI_WTICK"),
        ("INTEGER(KIND=8)", "MPI_AINT_ADD"),
        ("INTEGER(KIND=8)", "MPI_AINT_DIFF"),
    ] {
        for prefix in ["", "P"] {
            writeln!(text, "      {kind} {prefix}{name}\n      EXTERNAL {prefix}{name}")?;
        }
    }
    match text.lines().find(|line| line.len() > 72 && !line.starts_with('!')) {
        Some(line) => Err(format!("mpif.h: too long for the fixed source form: {line}").into()),
        None => Ok(text),
    }
}

/// The source of the module `mpi`: the constants, and an interface for each routine, under both names.
pub(crate) fn module(routines: &[Routine]) -> Fallible<String> {
    let mut text = String::from(
        "! The module mpi of MPI 5.0: the constants of mpif.h, and the interfaces of the routines.\n\
         module mpi\n  implicit none\n  include 'mpif.h'\n  interface\n",
    );
    for routine in routines.iter().filter(|routine| routine.is_in_old_forms() && !routine.is_function()) {
        for prefix in ["", "P"] {
            interface(&mut text, &format!("{prefix}{}", routine.name), routine)?;
        }
    }
    text.push_str(
        "    subroutine MPI_F_sync_reg(buf)\n\
         !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf\n\
         !DIR$ IGNORE_TKR buf\n\
         !DEC$ ATTRIBUTES NO_ARG_CHECK :: buf\n\
         \x20     type(*), dimension(*) :: buf\n\
         \x20   end subroutine\n\
         \x20   subroutine MPI_Sizeof(x, size, ierror) bind(C, name='mpi_sizeof_of_descriptor')\n\
         \x20     type(*), dimension(..) :: x\n\
         \x20     integer :: size, ierror\n\
         \x20   end subroutine\n\
         \x20 end interface\nend module mpi\n",
    );
    match text.lines().find(|line| line.len() > 132) {
        Some(line) => Err(format!("mpi.f90: a line is too long: {line}").into()),
        None => Ok(text),
    }
}

/// The source of the module `mpi_ext`: the constants and the interfaces of the extensions.
pub(crate) fn extension(constants: &[Constant], routines: &[Routine]) -> Fallible<String> {
    let mut text = String::from(
        "! The module mpi_ext: functions beyond the MPI standard, as in mpi-ext.h.\n\
         module mpi_ext\n  implicit none\n",
    );
    for (name, value) in integers(constants) {
        writeln!(text, "  integer, parameter :: {name} = {value}")?;
    }
    text.push_str("  interface\n");
    for routine in routines {
        for prefix in ["", "P"] {
            interface(&mut text, &format!("{prefix}{}", routine.name), routine)?;
        }
    }
    text.push_str("  end interface\nend module mpi_ext\n");
    Ok(text)
}

fn interface(text: &mut String, name: &str, routine: &Routine) -> Fallible<()> {
    let mut names: Vec<_> = routine.arguments.iter().map(|argument| argument.name.as_str()).collect();
    if routine.has_code() {
        names.push("ierror");
    }
    writeln!(text, "    subroutine {name}( &")?;
    for (place, argument) in names.iter().enumerate() {
        let comma = if place + 1 == names.len() { ")" } else { ", &" };
        writeln!(text, "      {argument}{comma}")?;
    }
    let choices: Vec<_> = routine.arguments.iter().filter(|argument| argument.is_any).collect();
    writeln!(text, "      import")?;
    for argument in &routine.arguments {
        writeln!(text, "      {}", argument.declaration.replace("{name}", &argument.name))?;
    }
    if routine.has_code() {
        writeln!(text, "      integer :: ierror")?;
    }
    // Directives of different compilers, which allow arguments of any type and rank.
    for name in choices.iter().map(|choice| &choice.name) {
        for words in
            ["!GCC$ ATTRIBUTES NO_ARG_CHECK ::", "!DIR$ IGNORE_TKR", "!DEC$ ATTRIBUTES NO_ARG_CHECK ::"]
        {
            writeln!(text, "{words} {name}")?;
        }
    }
    writeln!(text, "    end subroutine")?;
    Ok(())
}
