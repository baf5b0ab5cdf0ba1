//! The routines in C that a Fortran compiler calls from the module `mpi_f08` with the descriptors of buffers (MPI 5.0 section 19.1.12). The
//! form of a descriptor differs between compilers, so the text is compiled for each with its `ISO_Fortran_binding.h`.
//!
//! Contiguous memory is passed by its address to the routine of `mpif.h`. Otherwise all buffers of the call become sections
//! (`src/fortran/sections.rs`), and their datatypes types in these sections.

use std::fmt::Write as _;

use crate::Fallible;
use crate::fortran::{Argument, Routine};

/// The text before the routines.
const FRONT: &str = r#"/* The routines of the module mpi_f08 that get descriptors of buffers. Made from mpi.h. */
#include <stddef.h>
#include <stdint.h>
#include <ISO_Fortran_binding.h>

/* Memory of a call: a section of an array; with rank 0, contiguous memory. */
struct section {
    void *at;
    int64_t element_len;
    int64_t rank;
    int64_t dimension[15][2];
};

void mpi_f08_addresses(int count, const struct section *sections, void **at);
int mpi_f08_datatype(int count, const struct section *sections, const int *datatype);
int *mpi_f08_datatypes(int count, const struct section *sections, const int *datatypes, int side, const int *comm, int *len);
void mpi_f08_free(const int *given, int made);
void mpi_f08_free_all(const int *given, int *made, int len);

/* Whether the elements lie one behind the other. The length of the last dimension may be unknown (-1): then they do. */
static inline int is_whole(const CFI_cdesc_t *buffer)
{
    int is_whole = 1;
    ptrdiff_t len = (ptrdiff_t)buffer->elem_len;
    for (int place = 0; place < buffer->rank; place++) {
        ptrdiff_t extent = buffer->dim[place].extent;
        if (extent == 0)
            return 1;
        if (extent != 1 && extent != -1 && buffer->dim[place].sm != len)
            is_whole = 0;
        len *= extent;
    }
    return is_whole;
}

static void describe(const CFI_cdesc_t *buffer, struct section *section)
{
    section->at = buffer->base_addr;
    section->element_len = (int64_t)buffer->elem_len;
    section->rank = is_whole(buffer) ? 0 : buffer->rank;
    for (int place = 0; place < section->rank; place++) {
        section->dimension[place][0] = buffer->dim[place].extent;
        section->dimension[place][1] = buffer->dim[place].sm;
    }
}

/* Memory that must be contiguous. Null, which the call refuses, if it is not. */
static inline void *whole(const CFI_cdesc_t *buffer)
{
    return is_whole(buffer) ? buffer->base_addr : NULL;
}

void mpi_f_sync_reg_(void *buffer);

void mpi_f_sync_reg_f08ts(CFI_cdesc_t *buffer)
{
    mpi_f_sync_reg_(buffer->base_addr);
}

void pmpi_f_sync_reg_f08ts(CFI_cdesc_t *buffer)
{
    mpi_f_sync_reg_(buffer->base_addr);
}

void mpi_sizeof_f08ts(CFI_cdesc_t *x, int *size, int *ierror)
{
    *size = (int)x->elem_len;
    if (ierror)
        *ierror = 0;
}

void pmpi_sizeof_f08ts(CFI_cdesc_t *x, int *size, int *ierror)
{
    mpi_sizeof_f08ts(x, size, ierror);
}
"#;

/// Whether an argument is memory of any type and rank.
pub(crate) fn is_buffer(function: &str, argument: &Argument) -> bool {
    let parameter = &argument.parameter;
    let is_address = ["baseptr", "buffer_addr", "extra_state", "attribute_val"].contains(&&*parameter.name);
    parameter.base == "void"
        && !is_address
        && !function.starts_with("MPI_Abi_")
        && ["*const c_void", "*mut c_void"].contains(&&*parameter.kind)
}

/// Whether a routine gets descriptors.
pub(crate) fn has_buffers(routine: &Routine) -> bool {
    routine.arguments.iter().any(|argument| is_buffer(&routine.name, argument))
}

/// What a routine does with a buffer.
enum Use {
    /// Only its address counts.
    Address,
    /// It must be contiguous.
    Whole,
    /// Elements of the type, or of the types, that another argument gives.
    Elements(String),
}

/// What a routine does with a buffer.
fn use_of(routine: &Routine, buffer: &str) -> Use {
    let function = routine.name.trim_end_matches("_c");
    if ["MPI_Get_address", "MPI_Free_mem", "MPI_Win_detach"].contains(&function) || function.ends_with("_end")
    {
        return Use::Address;
    }
    let is_packed = match buffer {
        "outbuf" => function.starts_with("MPI_Pack"),
        "inbuf" => function.starts_with("MPI_Unpack"),
        _ => false,
    };
    let stem = buffer.trim_end_matches("_addr").trim_end_matches("buf");
    let names =
        [format!("{stem}type"), format!("{stem}types"), format!("{stem}_datatype"), "datatype".to_owned()];
    let datatype = names.into_iter().find(|name| routine.arguments.iter().any(|other| other.name == *name));
    match datatype {
        Some(datatype) if !is_packed => Use::Elements(datatype),
        _ => Use::Whole,
    }
}

/// The routines.
pub(crate) fn text(routines: &[Routine]) -> Fallible<String> {
    let mut text = String::from(FRONT);
    for routine in routines.iter().filter(|routine| has_buffers(routine)) {
        for prefix in ["", "p"] {
            routine_in_c(&mut text, prefix, routine)?;
        }
    }
    Ok(text)
}

fn routine_in_c(text: &mut String, prefix: &str, routine: &Routine) -> Fallible<()> {
    let name = format!("{prefix}{}", routine.name.to_lowercase());
    let (mut outer, mut inner) = (Vec::new(), Vec::new());
    // The arguments of the call if all memory is contiguous, and in general.
    let (mut plain, mut general) = (Vec::new(), Vec::new());
    let (mut sections, mut datatypes): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    for argument in &routine.arguments {
        if !is_buffer(&routine.name, argument) {
            continue;
        }
        if let Use::Elements(datatype) = use_of(routine, &argument.name) {
            sections.push(&argument.name);
            if !datatypes.contains(&datatype) {
                datatypes.push(datatype);
            }
        }
    }
    for argument in &routine.arguments {
        let own = argument.name.as_str();
        let section = sections.iter().position(|section| *section == own);
        let (declared, passed, passed_in_general) = if let Some(place) = section {
            ("CFI_cdesc_t *", format!("{own}->base_addr"), format!("at[{place}]"))
        } else if is_buffer(&routine.name, argument) {
            let passed = match use_of(routine, own) {
                Use::Address => format!("{own}->base_addr"),
                _ => format!("whole({own})"),
            };
            ("CFI_cdesc_t *", passed.clone(), passed)
        } else if argument.has_length {
            ("CFI_cdesc_t *", format!("{own}->base_addr"), format!("{own}->base_addr"))
        } else if let Some(place) = datatypes.iter().position(|datatype| datatype == own) {
            let made = if own.ends_with('s') { format!("made{place}") } else { format!("&made{place}") };
            ("int *", own.to_owned(), made)
        } else {
            ("void *", own.to_owned(), own.to_owned())
        };
        outer.push(format!("{declared}{own}"));
        inner.push("void *".to_owned());
        plain.push(passed);
        general.push(passed_in_general);
    }
    outer.push("void *ierror".to_owned());
    inner.push("void *".to_owned());
    plain.push("ierror".to_owned());
    general.push("ierror".to_owned());
    for argument in routine.arguments.iter().filter(|argument| argument.has_length) {
        inner.push("size_t".to_owned());
        plain.push(format!("{}->elem_len", argument.name));
        general.push(format!("{}->elem_len", argument.name));
    }
    let (plain, general) = (plain.join(", "), general.join(", "));
    writeln!(text, "\nvoid {name}_({});\n", inner.join(", "))?;
    writeln!(text, "void {name}_f08ts({})\n{{", outer.join(", "))?;
    if sections.is_empty() {
        writeln!(text, "    {name}_({plain});\n}}")?;
        return Ok(());
    }
    let are_whole: Vec<_> = sections.iter().map(|section| format!("is_whole({section})")).collect();
    let count = sections.len();
    writeln!(
        text,
        "    if ({}) {{\n        {name}_({plain});\n        return;\n    }}",
        are_whole.join(" && ")
    )?;
    writeln!(text, "    struct section sections[{count}];\n    void *at[{count}];")?;
    for (place, section) in sections.iter().enumerate() {
        writeln!(text, "    describe({section}, &sections[{place}]);")?;
    }
    writeln!(text, "    mpi_f08_addresses({count}, sections, at);")?;
    for (place, datatype) in datatypes.iter().enumerate() {
        let side = usize::from(datatype == "recvtypes") + if name.contains("neighbor") { 2 } else { 0 };
        match datatype.ends_with('s') {
            true => writeln!(
                text,
                "    int len{place};\n    int *made{place} = mpi_f08_datatypes({count}, sections, {datatype}, {side}, comm, &len{place});"
            )?,
            false => {
                writeln!(text, "    int made{place} = mpi_f08_datatype({count}, sections, {datatype});")?
            }
        }
    }
    writeln!(text, "    {name}_({general});")?;
    for (place, datatype) in datatypes.iter().enumerate() {
        match datatype.ends_with('s') {
            true => writeln!(text, "    mpi_f08_free_all({datatype}, made{place}, len{place});")?,
            false => writeln!(text, "    mpi_f08_free({datatype}, made{place});")?,
        }
    }
    writeln!(text, "}}")?;
    Ok(())
}
