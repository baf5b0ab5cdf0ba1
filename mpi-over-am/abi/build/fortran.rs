//! The Fortran routines, made from the same prototypes as the C functions: a table gives the Fortran form of each C type.
//!
//! `MPI_X` of C is `mpi_x_` and `pmpi_x_`. All arguments are passed by reference; the lengths of character arguments follow all others, as
//! `usize`. A handle is its number, an `INTEGER`; a `LOGICAL` is C's `int` with 0 and 1; a status is the same eight integers. Indices of
//! array elements count from 1. The conversions themselves are functions of `src/fortran`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::{Fallible, Parameter, Prototype};

/// An argument of a Fortran routine.
pub(crate) struct Argument {
    pub(crate) name: String,
    /// The parameter in C.
    pub(crate) parameter: Parameter,
    /// The argument's type in the library.
    rust: String,
    /// The argument's declaration in a program; `{name}` stands for the name.
    pub(crate) declaration: String,
    /// Whether the argument may be of any type and rank.
    pub(crate) is_any: bool,
    /// Whether the argument is a string, whose length follows all arguments.
    pub(crate) has_length: bool,
}

/// A Fortran routine, and how it calls its C function.
pub(crate) struct Routine {
    /// The name in C.
    pub(crate) name: String,
    /// Behind the name in the library: the form of the module `mpi_f08`, if it differs.
    pub(crate) suffix: &'static str,
    pub(crate) arguments: Vec<Argument>,
    /// The type of a function's result; `None` for a subroutine.
    pub(crate) returns: Option<String>,
    signature: String,
    before: String,
    call: Vec<String>,
    after: String,
}

impl Routine {
    /// Whether the routine is a function, and not a subroutine.
    pub(crate) fn is_function(&self) -> bool {
        self.returns.is_some()
    }

    /// Whether the module `mpi` and `mpif.h` have the routine: not the forms of `mpi_f08` and those with large counts.
    pub(crate) fn is_in_old_forms(&self) -> bool {
        self.suffix.is_empty() && !self.name.ends_with("_c")
    }

    /// Whether the error code is returned in a last argument.
    pub(crate) fn has_code(&self) -> bool {
        !self.is_function() && self.name != "MPI_Pcontrol"
    }
}

/// Arrays that are ignored at some tasks, or if `MPI_IN_PLACE` is given: programs may then pass any number instead of an array.
const OFTEN_IGNORED: [&str; 7] =
    ["sendcounts", "recvcounts", "displs", "sdispls", "rdispls", "sendtypes", "recvtypes"];

/// Names of the parameters that are truth values.
pub(crate) const LOGICALS: [&str; 8] =
    ["flag", "commute", "reorder", "high", "periods", "remain_dims", "is_set", "weighted"];

/// Parameters that hold the length of a string buffer, and after the call the length of the string.
pub(crate) const CAPACITIES: [&str; 2] = ["buflen", "pset_len"];

/// Parameters that only C has.
const ONLY_IN_C: [(&str, &str); 6] = [
    ("MPI_Init", "argc"),
    ("MPI_Init", "argv"),
    ("MPI_Init_thread", "argc"),
    ("MPI_Init_thread", "argv"),
    ("MPI_Info_create_env", "argc"),
    ("MPI_Info_create_env", "argv"),
];

/// Functions whose attribute values and extra states are plain integers.
const WITH_SMALL_ATTRIBUTES: [&str; 3] = ["MPI_Attr_put", "MPI_Attr_get", "MPI_Keyval_create"];

/// The form of `mpi_f08` of the calls that return the address of a buffer, which older programs do not get.
const RETURNS_ADDRESS: &str = "_f08";

/// The routines of all functions that Fortran has. The tool interface and the conversions of handles exist only in C.
pub(crate) fn routines(prototypes: &BTreeMap<String, Prototype>) -> Fallible<Vec<Routine>> {
    let mut routines = Vec::new();
    for (name, prototype) in prototypes {
        if name.starts_with("MPI_T_") || name.ends_with("_toint") || name.ends_with("_fromint") {
            continue;
        }
        routines.push(routine(name, prototype, "")?);
        if prototype.parameters.iter().any(|parameter| parameter.name == "buffer_addr") {
            routines.push(routine(name, prototype, RETURNS_ADDRESS)?);
        }
    }
    Ok(routines)
}

/// The type of a parameter of the exported C function.
fn kind_in_c(Parameter { kind, base, .. }: &Parameter) -> String {
    let is_handle = base == "MPI_Request" || crate::faces::CONVERTED.contains(&base.as_str());
    if is_handle { kind.replace(base.as_str(), &format!("Raw<{base}>")) } else { kind.clone() }
}

fn routine(name: &str, prototype: &Prototype, suffix: &'static str) -> Fallible<Routine> {
    let kinds: Vec<_> = prototype.parameters.iter().map(kind_in_c).collect();
    let mut routine = Routine {
        name: name.to_owned(),
        suffix,
        arguments: Vec::new(),
        returns: (prototype.returns != "c_int").then(|| prototype.returns.clone()),
        signature: format!("unsafe extern \"C\" fn({}) -> {}", kinds.join(", "), prototype.returns),
        before: String::new(),
        call: Vec::new(),
        after: String::new(),
    };
    if prototype.parameters.iter().any(|parameter| parameter.name == "extra_state") {
        let functions: Vec<_> =
            prototype.parameters.iter().filter(|parameter| parameter.kind == "Callback").collect();
        let mut names: Vec<_> = functions.iter().map(|parameter| parameter.name.as_str()).collect();
        names.resize(3, "0");
        let widened =
            if WITH_SMALL_ATTRIBUTES.contains(&name) { "i64::from(*extra_state)" } else { "*extra_state" };
        let names = names.join(", ");
        let kept = match name {
            "MPI_Grequest_start" => format!("let kept = callbacks::keep_variable([{names}], extra_state);"),
            _ => format!("let kept = callbacks::keep([{names}], {widened});"),
        };
        writeln!(routine.before, "{kept}")?;
    }
    if ["MPI_Init", "MPI_Init_thread"].contains(&name) {
        writeln!(routine.before, "sentinels::check_integers();")?;
    }
    for parameter in &prototype.parameters {
        if ONLY_IN_C.contains(&(name, &parameter.name)) {
            let nothing = if parameter.kind == "c_int" { "0" } else { "std::ptr::null_mut()" };
            routine.call.push(nothing.to_owned());
        } else {
            argument(&mut routine, prototype, parameter)?;
        }
    }
    Ok(routine)
}

/// Converts a parameter: adds the Fortran argument, and the code that the argument needs before, in and after the call of the C function.
fn argument(routine: &mut Routine, prototype: &Prototype, parameter: &Parameter) -> Fallible<()> {
    let Parameter { name, kind, base, is_array } = parameter;
    let (mut is_any, mut has_length) = (false, false);
    let integer = if LOGICALS.contains(&name.as_str()) { "logical" } else { "integer" };
    let plural = if *is_array { "(*)" } else { "" };
    let small = WITH_SMALL_ATTRIBUTES.contains(&routine.name.as_str());
    let (address, address_kind) =
        if small { ("c_int", "integer") } else { ("i64", "integer(MPI_ADDRESS_KIND)") };
    let (narrowed, widened) =
        if small { (" as c_int", format!("i64::from(*{name})")) } else { ("", format!("*{name}")) };
    let wide = match base.as_str() {
        "MPI_Offset" => "integer(MPI_OFFSET_KIND)",
        "MPI_Count" => "integer(MPI_COUNT_KIND)",
        _ => "integer(MPI_ADDRESS_KIND)",
    };
    let (before, after) = (&mut routine.before, &mut routine.after);
    let (rust, call, declaration) = match (kind.as_str(), name.as_str()) {
        ("c_int", _) if integer == "logical" => {
            ("*const c_int".to_owned(), format!("c_int::from(*{name} != 0)"), "logical :: {name}".to_owned())
        }
        ("c_int", _) => ("*const c_int".to_owned(), format!("*{name}"), "integer :: {name}".to_owned()),
        ("i64", _) => ("*const i64".to_owned(), format!("*{name}"), format!("{wide} :: {{name}}")),
        (_, "extra_state") => {
            let state = "kept.state()".to_owned();
            (format!("*const {address}"), state, format!("{address_kind} :: {{name}}"))
        }
        (_, "attribute_val") if routine.name.ends_with("_get_attr") || routine.name == "MPI_Attr_get" => {
            let keyval = &prototype.parameters[1].name;
            writeln!(before, "let mut value = 0_usize;")?;
            writeln!(
                after,
                "if code == 0 && *flag != 0 {{ *{name} = callbacks::attribute(*{keyval}, value){narrowed}; }}"
            )?;
            let call = "(&raw mut value).cast()".to_owned();
            (format!("*mut {address}"), call, format!("{address_kind} :: {{name}}"))
        }
        (_, "attribute_val") => {
            let call = format!("callbacks::keep_value({widened})");
            (format!("*const {address}"), call, format!("{address_kind} :: {{name}}"))
        }
        // A variable of any type, in which the call stores an address or a logical.
        ("*mut c_void", "baseptr" | "logical_true" | "logical_false") => {
            is_any = true;
            (kind.clone(), name.clone(), "type(*), dimension(*) :: {name}".to_owned())
        }
        ("*mut c_void", "buffer_addr") if routine.suffix == RETURNS_ADDRESS => {
            (kind.clone(), name.clone(), String::new())
        }
        // In older Fortran, a call that detaches a buffer does not return the buffer's address.
        ("*mut c_void", "buffer_addr") => {
            is_any = true;
            writeln!(before, "let _ = {name};\nlet mut detached = 0_usize;")?;
            let call = "(&raw mut detached).cast()".to_owned();
            (kind.clone(), call, "type(*), dimension(*) :: {name}".to_owned())
        }
        ("*mut c_void" | "*const c_void", _) => {
            is_any = true;
            let call = format!("sentinels::buffer({name})");
            ("*const c_void".to_owned(), call, "type(*), dimension(*) :: {name}".to_owned())
        }
        ("*mut MPI_Status" | "*const MPI_Status", _) => {
            let shape = if *is_array { "(MPI_STATUS_SIZE, *)" } else { "(MPI_STATUS_SIZE)" };
            let call = format!("sentinels::status({name})");
            (kind.clone(), call, format!("integer :: {{name}}{shape}"))
        }
        ("*mut c_int", "index") if !is_array => {
            // Also set if the operation that has completed has failed.
            writeln!(before, "let mut c_{name} = convert::NOT_SET;")?;
            writeln!(after, "convert::store_index({name}, c_{name});")?;
            (kind.clone(), format!("&raw mut c_{name}"), "integer :: {name}".to_owned())
        }
        ("*mut c_int", "array_of_indices") => {
            // A call that fails early leaves both arguments as they are.
            writeln!(before, "*outcount = 0;")?;
            writeln!(after, "convert::count_from_one({name}, *outcount);")?;
            (kind.clone(), name.clone(), "integer :: {name}(*)".to_owned())
        }
        // C counts the terminating NUL, if the caller asks for the length.
        ("*mut c_int", length) if CAPACITIES.contains(&length) => {
            writeln!(
                before,
                "let mut c_{name} = if *{name} > 0 {{ (*{name}).saturating_add(1) }} else {{ 0 }};"
            )?;
            writeln!(after, "*{name} = (c_{name} - 1).max(0);")?;
            (kind.clone(), format!("&raw mut c_{name}"), "integer :: {name}".to_owned())
        }
        ("*mut c_int", "array_of_errcodes") => {
            (kind.clone(), format!("sentinels::errcodes({name})"), "integer :: {name}(*)".to_owned())
        }
        ("*mut c_int" | "*const c_int", "sourceweights" | "destweights" | "weights") => {
            let call = format!("sentinels::weights({name})");
            (kind.clone(), call, "integer :: {name}(*)".to_owned())
        }
        ("*mut c_int" | "*const c_int", _) => {
            (kind.clone(), name.clone(), format!("{integer} :: {{name}}{plural}"))
        }
        ("*mut i64" | "*const i64", _) => (kind.clone(), name.clone(), format!("{wide} :: {{name}}{plural}")),
        ("*mut [c_int; 3]", _) => (kind.clone(), name.clone(), "integer :: {name}(3, *)".to_owned()),
        ("*const c_char", _) => {
            has_length = true;
            let strip = if ["MPI_Info_", "MPI_Comm_spawn"].iter().any(|start| routine.name.starts_with(start))
            {
                "text::given_stripped"
            } else {
                "text::given"
            };
            writeln!(before, "let {name} = {strip}({name}, {name}_len);")?;
            (kind.clone(), format!("{name}.as_ptr()"), "character(len=*) :: {name}".to_owned())
        }
        ("*mut c_char", _) => {
            has_length = true;
            let has_flag = prototype.parameters.iter().any(|other| other.name == "flag");
            let capacity =
                prototype.parameters.iter().find(|other| CAPACITIES.contains(&other.name.as_str()));
            let mut condition = String::from(if has_flag { " && *flag != 0" } else { "" });
            // A length of 0 asks for the length only.
            if let Some(capacity) = capacity {
                writeln!(before, "let is_wanted = *{} > 0;", capacity.name)?;
                condition.push_str(" && is_wanted");
            }
            writeln!(before, "let mut c_{name} = text::TextBuffer::new();")?;
            writeln!(after, "if code == 0{condition} {{ c_{name}.give({name}, {name}_len); }}")?;
            (kind.clone(), format!("c_{name}.as_mut_ptr()"), "character(len=*) :: {name}".to_owned())
        }
        ("*mut *mut c_char", _) => {
            has_length = true;
            let count = if name == "array_of_commands" { "Some(*count)" } else { "None" };
            writeln!(before, "let mut {name} = text::Several::new({name}, {name}_len, 1, {count});")?;
            (
                kind.replacen("*mut *mut", "*const", 1),
                format!("{name}.as_mut_ptr()"),
                "character(len=*) :: {name}(*)".to_owned(),
            )
        }
        ("*mut *mut *mut c_char", _) => {
            has_length = true;
            writeln!(before, "let mut {name} = text::Table::new({name}, {name}_len, *count);")?;
            let declaration = "character(len=*) :: {name}(count, *)".to_owned();
            ("*const c_char".to_owned(), format!("{name}.as_mut_ptr()"), declaration)
        }
        ("Callback", _) => {
            let call = match base.as_str() {
                "MPI_Comm_copy_attr_function"
                | "MPI_Type_copy_attr_function"
                | "MPI_Win_copy_attr_function" => {
                    format!("callbacks::copy_attribute({name})")
                }
                "MPI_Comm_delete_attr_function"
                | "MPI_Type_delete_attr_function"
                | "MPI_Win_delete_attr_function" => {
                    format!("callbacks::delete_attribute({name})")
                }
                "MPI_Copy_function" => format!("callbacks::copy_small_attribute({name})"),
                "MPI_Delete_function" => format!("callbacks::delete_small_attribute({name})"),
                "MPI_Grequest_query_function" => "callbacks::query()".to_owned(),
                "MPI_Grequest_free_function" => "callbacks::free()".to_owned(),
                "MPI_Grequest_cancel_function" => "callbacks::cancel()".to_owned(),
                "MPI_Datarep_extent_function" => "callbacks::extent()".to_owned(),
                "MPI_Datarep_conversion_function" if name.starts_with("read") => {
                    format!("callbacks::read_conversion({name})")
                }
                "MPI_Datarep_conversion_function" => format!("callbacks::write_conversion({name})"),
                "MPI_Datarep_conversion_function_c" if name.starts_with("read") => {
                    format!("callbacks::read_conversion_c({name})")
                }
                "MPI_Datarep_conversion_function_c" => format!("callbacks::write_conversion_c({name})"),
                // C, too, passes the handle by reference, and the first half of the C handle is the Fortran handle, so the program's
                // function needs no wrapper.
                other
                    if other.ends_with("_errhandler_function") || other.starts_with("MPI_User_function") =>
                {
                    name.clone()
                }
                other => return Err(format!("{}: no {other} in Fortran", routine.name).into()),
            };
            (kind.clone(), call, "external :: {name}".to_owned())
        }
        (handle, _) if handle.starts_with("MPI_") => (
            "*const c_int".to_owned(),
            format!("{handle}::from_integer(*{name}).to_raw()"),
            "integer :: {name}".to_owned(),
        ),
        (handle, _) if handle.starts_with("*mut MPI_") && !is_array => {
            writeln!(before, "let mut c_{name} = {base}::from_integer(*{name}).to_raw();")?;
            writeln!(after, "*{name} = {base}::from_raw(c_{name}).to_integer();")?;
            ("*mut c_int".to_owned(), format!("&raw mut c_{name}"), "integer :: {name}".to_owned())
        }
        (handle, _) if handle.contains(" MPI_") => {
            let count = count_of(&routine.name, name)?;
            let goes_out = handle.starts_with("*mut ");
            let (declared, mutable, call) = match goes_out {
                true => ("*mut c_int", "mut ", "as_mut_ptr"),
                false => ("*const c_int", "", "as_ptr"),
            };
            writeln!(
                before,
                "let {mutable}c_{name} = convert::handles({name}, {count}, |number| {base}::from_integer(number).to_raw());"
            )?;
            if goes_out {
                writeln!(
                    after,
                    "convert::store({name}, &c_{name}, |&handle| {base}::from_raw(handle).to_integer());"
                )?;
            }
            (declared.to_owned(), format!("c_{name}.{call}()"), "integer :: {name}(*)".to_owned())
        }
        (other, _) => return Err(format!("{}: no Fortran for {name}: {other}", routine.name).into()),
    };
    let is_any = is_any || OFTEN_IGNORED.contains(&name.as_str());
    routine.call.push(call);
    let (name, parameter) = (name.clone(), parameter.clone());
    routine.arguments.push(Argument { name, parameter, rust, declaration, is_any, has_length });
    Ok(())
}

/// The expression for the number of handles in an array.
fn count_of(function: &str, array: &str) -> Fallible<&'static str> {
    Ok(match (function.trim_end_matches("_c"), array) {
        ("MPI_Waitsome" | "MPI_Testsome" | "MPI_Request_get_status_some", _) => "*incount",
        ("MPI_Comm_spawn_multiple", _) => "convert::at_root(*count, *root, *comm)",
        (_, "array_of_requests" | "array_of_info" | "array_of_types") => "*count",
        ("MPI_Type_get_contents", _) => "*max_datatypes",
        (name, "sendtypes") if name.to_lowercase().contains("neighbor") => "convert::neighbors(*comm).1",
        (name, "recvtypes") if name.to_lowercase().contains("neighbor") => "convert::neighbors(*comm).0",
        (_, "sendtypes") => "convert::senders(sendbuf, *comm)",
        (_, "recvtypes") => "convert::peers(*comm)",
        _ => return Err(format!("{function}: the length of {array} is unknown").into()),
    })
}

/// The exported routines, in Rust. `mpi_x_` calls the process's `MPI_X`, so that a tool that intercepts the C function also sees Fortran's
/// calls; `pmpi_x_` calls `PMPI_X`.
pub(crate) fn exports(routines: &[Routine]) -> Fallible<String> {
    let mut text = String::new();
    for routine in routines {
        let Routine { name, signature, before, after, .. } = routine;
        let small = name.to_lowercase() + routine.suffix;
        let call = routine.call.join(", ");
        let mut parameters: Vec<_> = routine
            .arguments
            .iter()
            .map(|argument| format!("{}: {}", argument.name, argument.rust))
            .collect();
        let mut names: Vec<_> = routine.arguments.iter().map(|argument| argument.name.clone()).collect();
        if routine.has_code() {
            parameters.push("ierror: *mut c_int".to_owned());
            names.push("ierror".to_owned());
        }
        for argument in routine.arguments.iter().filter(|argument| argument.has_length) {
            parameters.push(format!("{}_len: usize", argument.name));
            names.push(format!("{}_len", argument.name));
        }
        let (parameters, names) = (parameters.join(", "), names.join(", "));
        let returns = routine.returns.as_ref().map(|kind| format!(" -> {kind}")).unwrap_or_default();
        let body = match (routine.is_function(), routine.has_code()) {
            (true, _) => format!("function({call})"),
            (_, true) => {
                format!("{before}let code = function({call});\n{after}convert::report(ierror, code);")
            }
            _ => format!("{before}let _code = function({call});\n{after}"),
        };
        writeln!(
            text,
            "#[inline(always)]\nunsafe fn {small}(function: {signature}, {parameters}){returns} {{ unsafe {{\n{body}\n}} }}"
        )?;
        writeln!(
            text,
            "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {small}_({parameters}){returns} {{\n\
             static FOUND: Found = Found::new(c\"{name}\");\n\
             unsafe {{\nlet function: {signature} = std::mem::transmute(FOUND.or(crate::exports::P{name} as *const ()));\n\
             {small}(function, {names})\n}} }}"
        )?;
        writeln!(
            text,
            "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn p{small}_({parameters}){returns} {{\n\
             unsafe {{ {small}(crate::exports::P{name}, {names}) }} }}"
        )?;
    }
    Ok(text)
}
