//! The binary interfaces: the standard's, and those whose tables are in `faces`. A table lists the handles and numbers of an interface by
//! the standard's names. From it come the library's constants, its predefined handles, and exported functions that convert handles.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use crate::constants::{Constant, Kind};
use crate::face_names::{FACES, FOLDER, STANDARD_NAMES};
use crate::{Fallible, Parameter, Prototype};

/// The handles whose numbers differ between the program and the library. Requests have the program's numbers everywhere.
pub(crate) const CONVERTED: [&str; 10] = [
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_Errhandler",
    "MPI_File",
    "MPI_Group",
    "MPI_Info",
    "MPI_Message",
    "MPI_Op",
    "MPI_Session",
    "MPI_Win",
];

/// A binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Face {
    Standard,
    Mpich,
    OpenMpi,
}

impl Face {
    /// The interface of the package that is built.
    pub(crate) fn of_package() -> Fallible<Self> {
        Ok(match env::var("CARGO_PKG_NAME")?.as_str() {
            "mpi-over-am-abi" => Self::Standard,
            "mpi-over-am-mpich" => Self::Mpich,
            "mpi-over-am-openmpi" => Self::OpenMpi,
            other => return Err(format!("the package {other} has no binary interface").into()),
        })
    }

    /// The name in the sources (`cfg(face = ...)`), and of the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Mpich => "mpich",
            Self::OpenMpi => "openmpi",
        }
    }

    /// The file that cargo builds, the folder with its names, which is empty if it is that of the file, and the names by which programs
    /// ask for it.
    pub(crate) fn library(self) -> (&'static str, &'static str, &'static [&'static str]) {
        match FACES.iter().find(|(name, ..)| *name == self.name()) {
            Some(&(_, file, names)) => (file, FOLDER, names),
            None => ("libmpi_abi.so", "", &STANDARD_NAMES),
        }
    }

    /// The name that the dynamic linker knows.
    pub(crate) fn soname(self) -> &'static str {
        self.library().2[0]
    }

    /// The values in the interface's table, by the standard's names.
    pub(crate) fn table(self, root: &Path) -> Fallible<BTreeMap<String, String>> {
        if self == Self::Standard {
            return Ok(BTreeMap::new());
        }
        let file = root.join("faces").join(self.name()).with_extension("txt");
        let lines = fs::read_to_string(file)?;
        let rows = lines.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        rows.map(|row| {
            let (name, value) = row.split_once(' ').ok_or_else(|| format!("not a row of a table: {row}"))?;
            Ok((name.to_owned(), value.trim().to_owned()))
        })
        .collect()
    }
}

fn number(text: &str) -> Fallible<i64> {
    Ok(match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16)?,
        None => text.parse()?,
    })
}

fn is_converted(constant: &Constant) -> bool {
    matches!(&constant.kind, Kind::Handle(of) if CONVERTED.contains(&of.as_str()))
}

/// The constants with the interface's numbers; handles that are converted keep the standard's.
pub(crate) fn constants(constants: &[Constant], table: &BTreeMap<String, String>) -> Fallible<Vec<Constant>> {
    let with_table = constants.iter().map(|constant| {
        let own = table.get(&constant.name).filter(|_| !is_converted(constant));
        let value = match own.map(|value| number(value)) {
            Some(Ok(value)) => value,
            // An address, which the library compares itself.
            Some(Err(_)) | None => constant.value,
        };
        Ok(Constant { value, ..constant.clone() })
    });
    with_table.collect()
}

/// The predefined handles of MPICH: the library's numbers and the standard's; for datatypes, tables.
pub(crate) fn mpich_handles(constants: &[Constant], table: &BTreeMap<String, String>) -> Fallible<String> {
    const PAIRS: i64 = 0xe0;
    const NULL: i64 = 0x200;
    let mut text = String::from("predefined! {\n");
    for of in CONVERTED.into_iter().filter(|of| !["MPI_Datatype", "MPI_File"].contains(of)) {
        write!(text, "{of}:")?;
        for constant in constants.iter().filter(|constant| constant.kind == Kind::Handle(of.to_owned())) {
            let raw = table.get(&constant.name).ok_or_else(|| format!("{} is missing", constant.name))?;
            write!(text, " {raw} {:#x},", constant.value)?;
        }
        writeln!(text)?;
    }
    writeln!(text, "}}")?;
    let (mut numbers, mut raws) = ([0; 0x100], [0x0c00_0000; 0x200]);
    for constant in
        constants.iter().filter(|constant| constant.kind == Kind::Handle("MPI_Datatype".to_owned()))
    {
        let Some(raw) = table.get(&constant.name) else { continue };
        let raw = number(raw)?;
        raws[usize::try_from(constant.value - NULL)?] = raw;
        let place = match raw >> 24 {
            0x4c => raw & 0xff,
            0x8c => raw & 0xff | PAIRS,
            _ => continue,
        };
        numbers[usize::try_from(place)?] = constant.value;
        // MPIX_C_FLOAT16 is the same numbers in C.
        if constant.name == "MPI_REAL2" {
            numbers[0x46] = constant.value;
        }
    }
    writeln!(
        text,
        "/// The standard's numbers of predefined datatypes, by the lowest byte of the interface's.\n\
         static DATATYPES: [u16; 256] = {numbers:?};\n\
         /// The interface's numbers of predefined datatypes, by the lowest bits of the standard's.\n\
         static RAW_DATATYPES: [u32; 512] = {raws:?};\n\
         const PAIRS: u32 = {PAIRS};\nconst NO_DATATYPE: usize = {NULL};\nconst DATATYPE_NULL: u32 = 0x0c00_0000;"
    )?;
    Ok(text)
}

/// The predefined objects of Open MPI: their symbols, the sizes of these, and the standard's numbers.
pub(crate) fn openmpi_objects(constants: &[Constant], table: &BTreeMap<String, String>) -> Fallible<String> {
    let size = |of: &str| match of {
        "MPI_Group" | "MPI_Info" | "MPI_Message" | "MPI_Request" => 0x100,
        "MPI_Errhandler" => 0x400,
        "MPI_File" => 0x600,
        "MPI_Op" => 0x800,
        _ => 0x200,
    };
    let mut rows = BTreeMap::new();
    let mut in_fortran = String::new();
    for Constant { name, kind, value } in constants {
        if let (Kind::Handle(of), Some(row)) = (kind, table.get(name))
            && number(row).is_err()
        {
            let (symbol, integer) = row.split_once(' ').unwrap_or((row, ""));
            if rows.insert(symbol.to_owned(), (size(of), *value)).is_none() && !integer.is_empty() {
                writeln!(in_fortran, "    ({value}, {}),", integer.trim())?;
            }
        }
    }
    // Types that the standard does not have.
    for symbol in [
        "c_complex",
        "lb",
        "ub",
        "ldblcplex",
        "2cplex",
        "2dblcplex",
        "short_float",
        "c_short_float_complex",
        "cxx_sfltcplex",
        "unavailable",
    ] {
        rows.insert(format!("ompi_mpi_{symbol}"), (0x200, 0));
    }
    let mut text = String::from("objects! {\n");
    for (symbol, (size, value)) in rows {
        writeln!(text, "{symbol} {size} {value}")?;
    }
    writeln!(text, "}}")?;
    writeln!(
        text,
        "/// The standard's numbers of predefined handles, and the interface's integers for them in Fortran."
    )?;
    writeln!(text, "const IN_FORTRAN: &[(usize, c_int)] = &[\n{in_fortran}];")?;
    Ok(text)
}

/// Whether a call reads the handle at an address before it stores another one there.
fn is_read(function: &str) -> bool {
    let function = function.trim_end_matches("_c");
    function.ends_with("_free")
        || [
            "MPI_Comm_disconnect",
            "MPI_File_close",
            "MPI_Session_finalize",
            "MPI_Type_commit",
            "MPI_Mrecv",
            "MPI_Imrecv",
        ]
        .contains(&function)
}

/// The expression for the number of handles in an array.
fn count_of(function: &str, array: &str) -> Fallible<String> {
    let of_neighbors = function.to_lowercase().contains("neighbor");
    Ok(match (function.trim_end_matches("_c"), array) {
        ("MPI_Comm_spawn_multiple", _) => "crate::conversions::at_root(count, root, comm)".to_owned(),
        (_, "array_of_info" | "array_of_types") => "count".to_owned(),
        ("MPI_Type_get_contents", _) => "max_datatypes".to_owned(),
        ("MPI_T_event_get_info", _) => "num_elements.as_ref().map_or(0, |&len| len)".to_owned(),
        (_, "sendtypes") => format!("crate::conversions::send_types(sendbuf, comm, {of_neighbors})"),
        (_, "recvtypes") => format!("crate::conversions::recv_types(comm, {of_neighbors})"),
        _ => return Err(format!("{function}: the length of {array} is unknown").into()),
    })
}

/// The exported function of a program's interface, and its profiling name, which convert the arguments and call `inner`.
pub(crate) fn export(text: &mut String, name: &str, prototype: &Prototype) -> Fallible<()> {
    // The lengths of arrays need the converted communicator.
    let (mut before, mut arrays, mut after) = (String::new(), String::new(), String::new());
    let (mut parameters, mut arguments) = (Vec::new(), Vec::new());
    for Parameter { name: argument, kind, base, is_array } in &prototype.parameters {
        let is_handle = CONVERTED.contains(&base.as_str());
        let (given, passed) = match kind.as_str() {
            of if is_handle && of == base => {
                writeln!(before, "let {argument} = {base}::from_raw({argument});")?;
                (format!("Raw<{base}>"), argument.clone())
            }
            of if is_handle && !is_array && of.starts_with("*mut ") => {
                let how = if is_read(name) { "to_change" } else { "to_set" };
                writeln!(
                    before,
                    "let mut {argument} = crate::conversions::Place::<{base}>::{how}({argument});"
                )?;
                writeln!(after, "{argument}.store();")?;
                (format!("*mut Raw<{base}>"), format!("{argument}.at()"))
            }
            _ if is_handle && *is_array => {
                let count = count_of(name, argument)?;
                if argument == "array_of_datatypes" {
                    writeln!(
                        arrays,
                        "let mut own_{argument} = crate::conversions::places::<{base}>({count});"
                    )?;
                    writeln!(after, "crate::conversions::store({argument}, &own_{argument});")?;
                    let passed = format!("crate::conversions::array({argument}, &own_{argument}).cast_mut()");
                    // The call stores through the address.
                    let passed = format!("{{ let _ = own_{argument}.as_mut_ptr(); {passed} }}");
                    (format!("*mut Raw<{base}>"), passed)
                } else {
                    writeln!(
                        arrays,
                        "let own_{argument} = crate::conversions::handles::<{base}>({argument}, {count});"
                    )?;
                    let passed = format!("crate::conversions::array({argument}, &own_{argument})");
                    let (constness, passed) = if kind.starts_with("*mut") {
                        ("mut", format!("{passed}.cast_mut()"))
                    } else {
                        ("const", passed)
                    };
                    (format!("*{constness} Raw<{base}>"), passed)
                }
            }
            of if base == "MPI_Status" => {
                let passed = format!("crate::face::status({argument}.cast_mut())");
                (
                    of.to_owned(),
                    if of.starts_with("*const") { passed } else { passed.replace(".cast_mut()", "") },
                )
            }
            of => (of.to_owned(), argument.clone()),
        };
        parameters.push(format!("{argument}: {given}"));
        arguments.push(passed);
    }
    let call = format!("inner::{name}({})", arguments.join(", "));
    let (returns, call) = match prototype.returns.as_str() {
        handle if CONVERTED.contains(&handle) => (format!("Raw<{handle}>"), format!("{call}.to_raw()")),
        other => (other.to_owned(), call),
    };
    let body = if after.is_empty() {
        format!("{before}{arrays}{call}")
    } else {
        format!("{before}{arrays}let code = {call};\n{after}code")
    };
    for prefix in ["", "P"] {
        writeln!(
            text,
            "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {prefix}{name}({}) -> {returns} {{ unsafe {{\n{body}\n}} }}",
            parameters.join(", ")
        )?;
    }
    Ok(())
}
