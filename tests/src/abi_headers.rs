//! Headers of the binary interfaces of other MPI libraries, made from this library's `mpi.h` and the tables of its build. With them the
//! test programs of the C interface are built as if another library had compiled them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The interfaces, and the files that programs of each ask for.
pub const INTERFACES: [(&str, &str); 2] = [("mpich", "libmpi.so.12"), ("openmpi", "libmpi.so.40")];

/// Names that are functions or variables in an interface, and no numbers: the table does not have them.
const SYMBOLS: [(&str, &str, &str); 17] = [
    ("mpich", "MPI_STATUS_IGNORE", "((MPI_Status *)1)"),
    ("mpich", "MPI_STATUSES_IGNORE", "((MPI_Status *)1)"),
    ("mpich", "MPI_DUP_FN", "MPIR_Dup_fn"),
    ("mpich", "MPI_COMM_DUP_FN", "MPIR_Dup_fn"),
    ("mpich", "MPI_TYPE_DUP_FN", "MPIR_Dup_fn"),
    ("mpich", "MPI_WIN_DUP_FN", "MPIR_Dup_fn"),
    ("openmpi", "MPI_NULL_COPY_FN", "OMPI_C_MPI_NULL_COPY_FN"),
    ("openmpi", "MPI_DUP_FN", "OMPI_C_MPI_DUP_FN"),
    ("openmpi", "MPI_NULL_DELETE_FN", "OMPI_C_MPI_NULL_DELETE_FN"),
    ("openmpi", "MPI_COMM_NULL_COPY_FN", "OMPI_C_MPI_COMM_NULL_COPY_FN"),
    ("openmpi", "MPI_COMM_DUP_FN", "OMPI_C_MPI_COMM_DUP_FN"),
    ("openmpi", "MPI_COMM_NULL_DELETE_FN", "OMPI_C_MPI_COMM_NULL_DELETE_FN"),
    ("openmpi", "MPI_TYPE_NULL_COPY_FN", "OMPI_C_MPI_TYPE_NULL_COPY_FN"),
    ("openmpi", "MPI_TYPE_DUP_FN", "OMPI_C_MPI_TYPE_DUP_FN"),
    ("openmpi", "MPI_TYPE_NULL_DELETE_FN", "OMPI_C_MPI_TYPE_NULL_DELETE_FN"),
    ("openmpi", "MPI_WIN_NULL_COPY_FN", "OMPI_C_MPI_WIN_NULL_COPY_FN"),
    ("openmpi", "MPI_WIN_DUP_FN", "OMPI_C_MPI_WIN_DUP_FN"),
];

/// Variables and functions of MPICH's interface.
const OF_MPICH: &str = "
extern int *const MPI_UNWEIGHTED, *const MPI_WEIGHTS_EMPTY;
extern const MPI_T_pvar_handle MPI_T_PVAR_ALL_HANDLES;
int MPIR_Dup_fn(int object, int keyval, void *extra_state, void *value_in, void *value_out, int *flag);
";

/// The kinds of handles whose predefined objects are symbols in Open MPI, and the sizes of these.
const SIZES: [(&str, u32); 11] = [
    ("MPI_Comm", 0x200),
    ("MPI_Datatype", 0x200),
    ("MPI_Errhandler", 0x400),
    ("MPI_File", 0x600),
    ("MPI_Group", 0x100),
    ("MPI_Info", 0x100),
    ("MPI_Message", 0x100),
    ("MPI_Op", 0x800),
    ("MPI_Request", 0x100),
    ("MPI_Session", 0x200),
    ("MPI_Win", 0x200),
];

fn of_open_mpi() -> String {
    let mut text = String::new();
    for (kind, handle) in
        [("", "MPI_Comm"), ("COMM_", "MPI_Comm"), ("TYPE_", "MPI_Datatype"), ("WIN_", "MPI_Win")]
    {
        let arguments = format!("{handle} object, int keyval, void *");
        for name in ["NULL_COPY_FN", "DUP_FN"] {
            text += &format!(
                "int OMPI_C_MPI_{kind}{name}({arguments}extra_state, void *in, void *out, int *flag);\n"
            );
        }
        text += &format!("int OMPI_C_MPI_{kind}NULL_DELETE_FN({arguments}value, void *extra_state);\n");
    }
    text
}

/// The header `mpi.h` of an interface.
///
/// # Panics
/// If a file of this library's sources cannot be read.
#[must_use]
pub fn header(interface: &str) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi-over-am/abi");
    let table = fs::read_to_string(sources.join(format!("faces/{interface}.txt"))).expect("a table");
    let mut values: BTreeMap<&str, &str> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            // Behind the value, the integer in Fortran.
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?))
        })
        .collect();
    let symbols =
        SYMBOLS.into_iter().filter(|(of, ..)| *of == interface).map(|(_, name, value)| (name, value));
    values.extend(symbols);
    if interface == "openmpi" {
        values.insert("MPI_WIN_NULL_DELETE_FN", "OMPI_C_MPI_WIN_NULL_DELETE_FN");
    }
    let standard = fs::read_to_string(sources.join("include/mpi.h")).expect("the header");
    let (mut text, mut symbols) = (String::new(), String::new());
    let mut lines = standard.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("typedef struct MPI_Status {") {
            text += match interface {
                "mpich" => {
                    "typedef struct MPI_Status { int low, high, MPI_SOURCE, MPI_TAG, MPI_ERROR; } MPI_Status;\n"
                }
                _ => {
                    "typedef struct MPI_Status { int MPI_SOURCE, MPI_TAG, MPI_ERROR, cancelled; unsigned long count; } MPI_Status;\n"
                }
            };
            lines.by_ref().find(|line| line.starts_with("} MPI_Status;"));
        } else if interface == "mpich" && line.starts_with("typedef struct MPI_ABI_") {
            let handle = line.rsplit_once('*').expect("a pointer").1.trim_end_matches(';');
            let kind = if handle == "MPI_File" { "struct a_file *" } else { "int " };
            text += &format!("typedef {kind}{handle};\n");
        } else if interface == "mpich"
            && ["MPI_UNWEIGHTED ", "MPI_WEIGHTS_EMPTY ", "MPI_T_PVAR_ALL_HANDLES "]
                .iter()
                .any(|name| line.strip_prefix("#define ").is_some_and(|rest| rest.starts_with(name)))
        {
            // A variable.
        } else {
            text += &changed(line, &values, &mut symbols);
            text.push('\n');
        }
    }
    let more = if interface == "mpich" { OF_MPICH.to_owned() } else { symbols + &of_open_mpi() };
    text.replacen("/* prototypes begin */", &format!("{more}/* prototypes begin */"), 1)
}

/// A line of the header with the interface's value, if it defines a constant. `symbols` gets the declarations of objects.
fn changed(line: &str, values: &BTreeMap<&str, &str>, symbols: &mut String) -> String {
    if let Some((name, rest)) =
        line.strip_prefix("#define ").and_then(|rest| rest.split_once(char::is_whitespace))
    {
        let (Some(value), standard) = (values.get(name), rest.trim()) else { return line.to_owned() };
        let kind = standard.strip_prefix("((").and_then(|rest| rest.split_once(')')).map(|(kind, _)| kind);
        let is_symbol = value.starts_with("ompi_");
        return match kind {
            Some(kind) if is_symbol => {
                let size = SIZES.iter().find(|(known, _)| *known == kind).expect("a known handle").1;
                *symbols += &format!("extern char {value}[{size}];\n");
                format!("#define {name} (({kind})(void *){value})")
            }
            Some(kind) if value.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                format!("#define {name} (({kind}){value})")
            }
            _ => format!("#define {name} {value}"),
        };
    }
    if let Some((name, rest)) = line.trim().split_once(" = ")
        && let Some(value) = values.get(name)
    {
        let comma = if rest.ends_with(',') { "," } else { "" };
        return format!("    {name} = {value}{comma}");
    }
    line.to_owned()
}
