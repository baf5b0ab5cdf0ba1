//! Makes the exported functions from the prototypes in `include/mpi.h`, and the library's constants from the header's constants, so that
//! header and library cannot differ.
//!
//! Each function is exported under two names, `MPI_X` and `PMPI_X`, that call one implementation: the function `mpi_x` (in small letters)
//! somewhere in `src`. Where only the form with large counts is implemented (`mpi_x_c`), the form with `int` is made here, by widening its
//! arguments and narrowing its results. A prototype without an implementation fails the build.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[path = "build/constants.rs"]
mod constants;
#[path = "src/tools/face_names.rs"]
mod face_names;
#[path = "build/faces.rs"]
mod faces;
#[path = "build/fortran.rs"]
mod fortran;
#[path = "build/fortran_descriptors.rs"]
mod fortran_descriptors;
#[path = "build/fortran_f08.rs"]
mod fortran_f08;
#[path = "build/fortran_text.rs"]
mod fortran_text;

use faces::Face;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Functions that are another function by an older name (MPI 5.0 sections 16.1 and 17.1).
const OLD_NAMES: [(&str, &str); 17] = [
    ("MPI_Address", "MPI_Get_address"),
    ("MPI_Attr_delete", "MPI_Comm_delete_attr"),
    ("MPI_Attr_get", "MPI_Comm_get_attr"),
    ("MPI_Attr_put", "MPI_Comm_set_attr"),
    ("MPI_Errhandler_create", "MPI_Comm_create_errhandler"),
    ("MPI_Errhandler_get", "MPI_Comm_get_errhandler"),
    ("MPI_Errhandler_set", "MPI_Comm_set_errhandler"),
    ("MPI_Get_elements_x", "MPI_Get_elements_c"),
    ("MPI_Keyval_create", "MPI_Comm_create_keyval"),
    ("MPI_Keyval_free", "MPI_Comm_free_keyval"),
    ("MPI_Status_set_elements_x", "MPI_Status_set_elements_c"),
    ("MPI_Type_get_extent_x", "MPI_Type_get_extent_c"),
    ("MPI_Type_get_true_extent_x", "MPI_Type_get_true_extent_c"),
    ("MPI_Type_hindexed", "MPI_Type_create_hindexed"),
    ("MPI_Type_hvector", "MPI_Type_create_hvector"),
    ("MPI_Type_size_x", "MPI_Type_size_c"),
    ("MPI_Type_struct", "MPI_Type_create_struct"),
];

/// The name that a function has today, if it is in [`OLD_NAMES`].
fn new_name(function: &str) -> Option<&'static str> {
    OLD_NAMES.iter().find(|(old, _)| *old == function).map(|(_, new)| *new)
}

/// A parameter of a prototype.
#[derive(Clone)]
struct Parameter {
    name: String,
    /// The parameter's type in Rust.
    kind: String,
    /// The parameter's type in C, without `const`, stars and brackets.
    base: String,
    is_array: bool,
}

/// A function of `mpi.h`: its result type in Rust, and its parameters.
#[derive(Clone)]
struct Prototype {
    returns: String,
    parameters: Vec<Parameter>,
}

fn main() -> Fallible<()> {
    let face = Face::of_package()?;
    let mut root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    // The packages of the other interfaces are in folders of the standard's.
    if face != Face::Standard {
        root.pop();
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for input in ["build.rs", "build", "faces", "include", "src"] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    println!("cargo:rustc-check-cfg=cfg(face, values(\"standard\", \"mpich\", \"openmpi\"))");
    println!("cargo:rustc-cfg=face=\"{}\"", face.name());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{}", face.soname());
    let header = fs::read_to_string(root.join("include/mpi.h"))?;
    let extension = fs::read_to_string(root.join("include/mpi-ext.h"))?;
    let constants = constants::constants(&header)?;
    if constants.len() < 350 {
        return Err(format!("mpi.h has only {} constants", constants.len()).into());
    }
    let of_extension = constants::constants(&extension)?;
    let table = face.table(&root)?;
    let of_face = faces::constants(&[constants.clone(), of_extension.clone()].concat(), &table)?;
    let in_rust = constants::in_rust(&of_face)?;
    fs::write(out.join("constants.rs"), in_rust)?;
    let standard = prototypes(&header, "prototypes", 664)?;
    let removed = prototypes(&header, "removed prototypes", 10)?;
    let extended = prototypes(&extension, "extension prototypes", 10)?;
    let all: BTreeMap<_, _> = standard.clone().into_iter().chain(removed).chain(extended.clone()).collect();
    let implemented = implemented(&root.join("src"))?;
    let mut text = String::new();
    for (name, prototype) in &all {
        export(&mut text, face, name, prototype, &all, &implemented)?;
    }
    if face != Face::Standard {
        let mut converting = String::new();
        for (name, prototype) in &all {
            faces::export(&mut converting, name, prototype)?;
        }
        text = format!(
            "use crate::face::{{Handle as _, Raw}};\n{converting}\n/// The functions with the standard's handles.\nmod inner {{ use super::*;\n{text} }}"
        );
    }
    fs::write(out.join("exports.rs"), text)?;
    let handles = match face {
        Face::Standard => None,
        Face::Mpich => Some(faces::mpich_handles(&constants, &table)?),
        Face::OpenMpi => Some(faces::openmpi_objects(&constants, &table)?),
    };
    if let Some(handles) = handles {
        fs::write(out.join("handles.rs"), handles)?;
    }
    let there = standard.keys().filter(|name| is_there(name, &standard, &implemented)).count();
    println!("cargo:rustc-env=MPI_FUNCTIONS_THERE={there}");
    println!("cargo:rustc-env=MPI_FUNCTIONS={}", standard.len());
    name_with_version(&out, face)?;
    let routines = fortran::routines(&standard)?;
    let of_module_ext = fortran::routines(&extended)?;
    let exports = [fortran::exports(&routines)?, fortran::exports(&of_module_ext)?].concat();
    fs::write(out.join("fortran_exports.rs"), exports)?;
    if face != Face::Standard {
        return Ok(());
    }
    fs::write(out.join("mpi_ext.f90"), fortran_text::extension(&of_extension, &of_module_ext)?)?;
    fs::write(out.join("mpif.h"), fortran_text::mpif(&constants)?)?;
    fs::write(out.join("mpi.f90"), fortran_text::module(&routines)?)?;
    fs::write(out.join("mpi_f08.f90"), fortran_f08::module(&constants, &routines)?)?;
    fs::write(out.join("mpi_f08.c"), fortran_descriptors::text(&routines)?)?;
    fs::create_dir_all(out.join("include"))?;
    fs::write(out.join("include/mpi.h"), with_profiling(&header)?)?;
    fs::write(out.join("include/mpi-ext.h"), extension_with_profiling(&extension)?)?;
    fs::write(out.join("include/shmem.h"), am_shmem_table::header())?;
    fs::create_dir_all(out.join("include/mpp"))?;
    for (name, text) in am_shmem_table::OTHER_HEADERS {
        fs::write(out.join("include").join(name), text)?;
    }
    Ok(())
}

/// The text between the marks of one part of the header.
fn part_of<'a>(header: &'a str, part: &str) -> Fallible<&'a str> {
    let begin = header.split_once(&format!("/* {part} begin */\n"));
    let (_, text) = begin.ok_or_else(|| format!("mpi.h has no {part}"))?;
    let end = text.split_once(&format!("/* {part} end */"));
    Ok(end.ok_or_else(|| format!("the {part} of mpi.h do not end"))?.0)
}

/// The header as programs get it: with a second declaration of each function as `PMPI_X`, for profiling layers (MPI 5.0 section 15.2).
fn with_profiling(header: &str) -> Fallible<String> {
    const MARK: &str =
        "/* The build adds here: the same functions by the names that a profiling layer calls (PMPI_). */\n";
    let (front, back) =
        header.split_once(MARK).ok_or("mpi.h has no mark where the profiling names are to be inserted")?;
    let (back, end) =
        back.split_once("/* removed prototypes end */\n").ok_or("mpi.h has no removed prototypes")?;
    let profiling = |part| -> Fallible<String> {
        let mut text = String::new();
        for line in part_of(header, part)?.lines() {
            // The first line of a statement has the name; its further lines are indented.
            let named =
                if line.starts_with(' ') { line.to_owned() } else { line.replacen(" MPI_", " PMPI_", 1) };
            writeln!(text, "{named}")?;
        }
        Ok(text)
    };
    let (standard, mut removed) = (profiling("prototypes")?, profiling("removed prototypes")?);
    // The conversions of handles, which are macros (MPI 5.0 section 2.6.4 allows that).
    for line in back.lines().filter(|line| {
        line.starts_with("#define MPI_") && (line.contains("(handle)") || line.contains("(number)"))
    }) {
        writeln!(removed, "{}", line.replace(" MPI_", " PMPI_").replace(")MPI_", ")PMPI_"))?;
    }
    Ok(format!(
        "{front}/* The same functions by the names that a profiling layer calls. */\n{standard}{back}{removed}{end}"
    ))
}

/// The same for the header of the extensions.
fn extension_with_profiling(header: &str) -> Fallible<String> {
    const MARK: &str =
        "/* The build adds here: the same functions by the names that a profiling layer calls (PMPIX_). */\n";
    let (front, back) = header
        .split_once(MARK)
        .ok_or("mpi-ext.h has no mark where the profiling names are to be inserted")?;
    let profiling = part_of(header, "extension prototypes")?.replace(" MPIX_", " PMPIX_");
    Ok(format!(
        "{front}/* The same functions by the names that a profiling layer calls. */\n{profiling}{back}"
    ))
}

/// Links the names that programs ask for to the library, which is built three folders above.
fn name_with_version(out: &Path, face: Face) -> Fallible<()> {
    let folder = out.ancestors().nth(3).ok_or("the build's folder is not where it is expected")?;
    let (file, inside, names) = face.library();
    let file = if inside.is_empty() { PathBuf::from(file) } else { Path::new("..").join(file) };
    fs::create_dir_all(folder.join(inside))?;
    for name in names {
        let place = folder.join(inside).join(name);
        if fs::read_link(&place).is_ok_and(|target| target == file) {
            continue;
        }
        match fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => std::os::unix::fs::symlink(&file, place)?,
        }
    }
    Ok(())
}

/// The prototypes in a part of the header, by name; fails if there are not `expected` of them.
fn prototypes(header: &str, part: &str, expected: usize) -> Fallible<BTreeMap<String, Prototype>> {
    let text = part_of(header, part)?;
    let mut found = BTreeMap::new();
    for statement in text.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let wrong = || format!("not a prototype: {statement}");
        let (front, rest) = statement.split_once('(').ok_or_else(wrong)?;
        let parameters = rest.strip_suffix(')').ok_or_else(wrong)?;
        let (returns, name) = front.rsplit_once(' ').ok_or_else(wrong)?;
        let parameters = parameters
            .split(',')
            .map(|parameter| parameter.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|parameter| parameter != "void" && parameter != "...")
            .map(|parameter| parameter_in_rust(&parameter))
            .collect::<Fallible<_>>()?;
        found.insert(name.to_owned(), Prototype { returns: type_in_rust(returns)?, parameters });
    }
    if found.len() != expected {
        return Err(format!("mpi.h has {} {part}, not {expected}", found.len()).into());
    }
    Ok(found)
}

/// A parameter in Rust: `const int counts[]` is `counts` and `*const c_int`.
fn parameter_in_rust(parameter: &str) -> Fallible<Parameter> {
    let (parameter, triples) = match parameter.strip_suffix("[][3]") {
        Some(front) => (front, true),
        None => (parameter, false),
    };
    let (parameter, is_array) = match parameter.strip_suffix("[]") {
        Some(front) => (front, true),
        None => (parameter, false),
    };
    let name_at = parameter.rfind([' ', '*']).ok_or_else(|| format!("no name: {parameter}"))? + 1;
    let (in_c, name) = parameter.split_at(name_at);
    let base = in_c.replace("const ", "").replace('*', "").trim().to_owned();
    let mut kind = type_in_rust(in_c.trim())?;
    if triples {
        kind = format!("*mut [{kind}; 3]");
    }
    if is_array {
        let constness =
            if parameter.starts_with("const ") && !parameter.contains('*') { "const" } else { "mut" };
        kind = format!("*{constness} {kind}");
    }
    let name = match name {
        "type" => "kind",
        "in" => "input",
        other => other,
    };
    Ok(Parameter { name: name.to_owned(), kind, base, is_array: is_array || triples })
}

/// A C type in Rust, with the types of `types.rs`.
fn type_in_rust(kind: &str) -> Fallible<String> {
    let stars = kind.matches('*').count();
    let is_const = kind.starts_with("const ");
    let base = kind.replace("const ", "").replace('*', "");
    let base = base.trim();
    if base.ends_with("_function") || base.ends_with("_function_c") || base.ends_with("_fn") {
        // A function, or a number that stands for one.
        return Ok("Callback".to_owned());
    }
    let base = match base {
        "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int",
        "char" => "c_char",
        "double" => "f64",
        "void" => "c_void",
        "MPI_Count" | "MPI_Offset" | "MPI_Aint" => "i64",
        handle if handle.starts_with("MPI_") => handle,
        other => return Err(format!("unknown type {other}").into()),
    };
    let mut text = String::new();
    for star in 0..stars {
        text.push_str(if is_const && star + 1 == stars { "*const " } else { "*mut " });
    }
    Ok(text + base)
}

/// The names of the functions `mpi_…` in the sources.
fn implemented(folder: &Path) -> Fallible<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        for line in fs::read_to_string(&path)?.lines() {
            let name = line
                .trim_start()
                .strip_prefix("pub(crate) unsafe fn mpi")
                .and_then(|rest| rest.split('(').next());
            names.extend(name.map(|name| format!("mpi{name}")));
            // Functions that a macro makes are listed in the macro's call, with their names at the beginning of a line.
            let listed = line.split_whitespace().take_while(|word| {
                word.starts_with("mpi_")
                    && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            });
            names.extend(listed.map(str::to_owned));
        }
    }
    Ok(names)
}

/// Whether a function is implemented, by itself or by its form with large counts.
fn is_there(name: &str, prototypes: &BTreeMap<String, Prototype>, implemented: &BTreeSet<String>) -> bool {
    let name = new_name(name).unwrap_or(name);
    let large = format!("{name}_c");
    implemented.contains(&name.to_lowercase())
        || (prototypes.contains_key(&large) && implemented.contains(&large.to_lowercase()))
}

/// Writes both exports of a function; for other interfaces than the standard's, the function that their exports call.
fn export(
    text: &mut String,
    face: Face,
    name: &str,
    prototype: &Prototype,
    prototypes: &BTreeMap<String, Prototype>,
    implemented: &BTreeSet<String>,
) -> Fallible<()> {
    let own = name.to_lowercase();
    let large = format!("{own}_c");
    let body = if let Some(new) = new_name(name) {
        let arguments: Vec<_> = prototype.parameters.iter().map(|given| given.name.as_str()).collect();
        let prefix = if face == Face::Standard { "P" } else { "" };
        format!("unsafe {{ {prefix}{new}({}) }}", arguments.join(", "))
    } else if implemented.contains(&own) {
        let other = match name.strip_suffix("_c") {
            Some(short) => prototypes.get(short),
            None => prototypes.get(&format!("{name}_c")),
        };
        call(&own, prototype, prototype, other)?
    } else if implemented.contains(&large) {
        let wide = prototypes.get(&format!("{name}_c")).ok_or_else(|| format!("{name} has no large form"))?;
        call(&large, prototype, wide, Some(wide))?
    } else {
        return Err(format!("{name} must be implemented: write {own} or {large}").into());
    };
    let checks = checks(name, prototype);
    let parameters: Vec<_> =
        prototype.parameters.iter().map(|Parameter { name, kind, .. }| format!("{name}: {kind}")).collect();
    if face != Face::Standard {
        writeln!(
            text,
            "#[inline(always)]\npub(super) unsafe fn {name}({}) -> {} {{\n    {checks}{body}\n}}",
            parameters.join(", "),
            prototype.returns
        )?;
        return Ok(());
    }
    for prefix in ["", "P"] {
        writeln!(
            text,
            "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {prefix}{name}({}) -> {} {{\n    {checks}{body}\n}}",
            parameters.join(", "),
            prototype.returns
        )?;
    }
    Ok(())
}

/// The checks that an exported function makes before its implementation runs: for null pointers to results, and for invalid info objects.
/// Arrays and buffers may be null if they are empty, and statuses if they are ignored: the implementation checks those. Functions of the
/// tool interface, about files and about the ABI make all checks themselves.
fn checks(name: &str, prototype: &Prototype) -> String {
    let mut text = String::new();
    if ["MPI_T_", "MPI_File_", "MPI_Abi_"].iter().any(|chapter| name.starts_with(chapter)) {
        return text;
    }
    let function = name.strip_suffix("_c").unwrap_or(name);
    let about = |kind: &str| prototype.parameters.iter().find(|parameter| parameter.kind == kind);
    let of = ["MPI_Comm", "MPI_Win", "MPI_Session"]
        .into_iter()
        .find_map(|kind| {
            about(kind).map(|parameter| format!("crate::refusals::Of::{kind}({})", parameter.name))
        })
        .or_else(|| {
            made_with(name).map(|on| format!("crate::refusals::Of::Made(crate::raise::On::{on}, errhandler)"))
        })
        .unwrap_or_else(|| "crate::refusals::Of::Process".to_owned());
    for parameter in &prototype.parameters {
        let argument = &parameter.name;
        if is_result(name, parameter) {
            text += &format!(
                "if {argument}.is_null() {{ return crate::refusals::no_place_for({function:?}, {argument:?}, {of}); }}\n    "
            );
        } else if parameter.kind == "MPI_Info" && !name.starts_with("MPI_Info_") {
            text += &format!(
                "if !crate::infos::is_info({argument}) {{ return crate::refusals::no_info({function:?}, {argument}, {of}); }}\n    "
            );
        }
    }
    text
}

/// The kind of object that a function makes with an error handler given by the program. This handler also gets the errors that occur while
/// the object is made (MPI 5.0 sections 7.4.2 and 11.3.1).
fn made_with(function: &str) -> Option<&'static str> {
    match function {
        "MPI_Session_init" => Some("Session"),
        "MPI_Comm_create_from_group" | "MPI_Intercomm_create_from_groups" => Some("Communicator"),
        _ => None,
    }
}

/// Whether the function always stores something through a parameter.
fn is_result(function: &str, parameter: &Parameter) -> bool {
    let Parameter { name, kind, base, is_array } = parameter;
    let is_optional = matches!(name.as_str(), "argc" | "argv" | "pset_name")
        || (function == "MPI_Info_get_string" && name == "value");
    let is_place = match base.as_str() {
        "MPI_Status" => function.starts_with("MPI_Status_") || kind.starts_with("*const"),
        "void" => {
            matches!(name.as_str(), "baseptr" | "buffer_addr")
                || (name == "attribute_val"
                    && !function.contains("set_attr")
                    && !function.contains("ttr_put"))
        }
        _ => kind.starts_with("*mut"),
    };
    is_place && !is_array && !is_optional
}

/// The code that calls an implementation, which has the parameters of `wide`, from a function that has the parameters of `given`. Arrays of
/// counts whose types differ between the two forms are passed as `Ints`, which reads both, and the arguments that describe elements as
/// one argument ([`grouped`]).
fn call(function: &str, given: &Prototype, wide: &Prototype, other: Option<&Prototype>) -> Fallible<String> {
    let (mut before, mut arguments, mut after) = (String::new(), Vec::new(), String::new());
    for (index, (given, Parameter { kind: wide, .. })) in
        given.parameters.iter().zip(&wide.parameters).enumerate()
    {
        let Parameter { name, kind, .. } = given;
        let differs =
            other.is_some_and(|other| other.parameters.get(index).is_some_and(|other| other.kind != *kind));
        match (kind.as_str(), wide.as_str()) {
            ("*const c_int" | "*const i64", _) if differs || kind != wide => {
                arguments.push(format!("Ints::from({name})"));
            }
            (kind, wide) if kind == wide => arguments.push(name.clone()),
            ("c_int", "i64") => arguments.push(format!("i64::from({name})")),
            ("*mut c_int", "*mut i64") => {
                writeln!(before, "let mut wide_{name} = unsafe {{ crate::types::widened({name}) }};")?;
                arguments.push(format!("&raw mut wide_{name}"));
                writeln!(after, "unsafe {{ crate::types::narrow({name}, wide_{name}) }};")?;
            }
            (kind, wide) => return Err(format!("{function}: cannot make {wide} of {kind}").into()),
        }
    }
    let arguments = grouped(&wide.parameters, &arguments);
    let call = format!("unsafe {{ crate::implementation::{function}({arguments}) }}");
    Ok(if before.is_empty() { call } else { format!("{before}let code = {call};\n{after}code") })
}

/// Joins the arguments of an implementation: address, count and type of a buffer's elements become `types::SendElements` or
/// `types::RecvElements`, and rank, displacement, count and type at the target of a one-sided call become `types::Target`.
fn grouped(parameters: &[Parameter], arguments: &[String]) -> String {
    let kinds: Vec<_> = parameters.iter().map(|parameter| parameter.kind.as_str()).collect();
    let mut joined = Vec::new();
    let mut index = 0;
    while index < kinds.len() {
        let len = match kinds[index..] {
            ["c_int", "i64", "i64", "MPI_Datatype", ..] => 4,
            // In a reduction, the count and the type also belong to the buffer before.
            ["*mut c_void", "i64", "MPI_Datatype", ..]
                if index > 0 && kinds[index - 1] == "*const c_void" =>
            {
                1
            }
            ["*const c_void" | "*mut c_void", "i64", "MPI_Datatype", ..] => 3,
            _ => 1,
        };
        let group = arguments[index..index + len].join(", ");
        joined.push(if len == 1 { group } else { format!("({group})") });
        index += len;
    }
    joined.join(", ")
}
