//! Good and bad values for a parameter, by its type and name.

/// A parameter of a prototype.
pub(crate) struct Parameter {
    /// The type, such as `const int *`; an array is a pointer.
    kind: String,
    name: String,
}

/// A prototype of the header.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
}

impl Function {
    /// Reads a prototype, for example `int MPI_Send(const void *buf, ...)`.
    pub(crate) fn parse(statement: &str) -> Self {
        let (front, rest) = statement.split_once('(').expect("a prototype");
        let name = front.rsplit([' ', '*']).next().expect("a name").to_owned();
        let inner =
            rest.strip_suffix(')').expect("a prototype").split_whitespace().collect::<Vec<_>>().join(" ");
        let parameters = inner.split(',').map(str::trim).filter(|one| !matches!(*one, "void" | "..."));
        Self { name, parameters: parameters.map(Parameter::parse).collect() }
    }

    fn has(&self, name: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter.name == name)
    }

    /// The name in lower case, without `MPI_` and without the ending of the form with large counts.
    fn base(&self) -> String {
        self.name.trim_start_matches("MPI_").trim_end_matches("_c").to_lowercase()
    }

    fn is_large(&self) -> bool {
        self.name.ends_with("_c")
    }
}

impl Parameter {
    fn parse(text: &str) -> Self {
        let is_array = text.ends_with(']');
        let text = text.split('[').next().expect("there is a first part").trim();
        let at = text.rfind([' ', '*']).expect("a type and a name") + 1;
        let stars = if is_array { " *" } else { "" };
        Self { kind: format!("{}{stars}", text[..at].trim()), name: text[at..].to_owned() }
    }
}

/// A bad value; the error classes that the standard allows for it, the most likely class first; and a text that the message must contain.
pub(crate) struct Bad {
    pub(crate) value: String,
    pub(crate) classes: &'static [&'static str],
    pub(crate) says: String,
}

/// Whether a function is tested. Excluded are functions that have no bad arguments, end the program, may be called only once, have errors
/// of their own (the tool interface), or are missing in this library (dynamic tasks, and two that were added after MPI 5.0).
pub(crate) fn is_tested(name: &str) -> bool {
    const ELSEWHERE: [&str; 11] = [
        "MPI_Psend_init_c",
        "MPI_Precv_init_c",
        "MPI_Abort",
        "MPI_Init",
        "MPI_Init_thread",
        "MPI_Finalize",
        "MPI_Pcontrol",
        "MPI_Wtime",
        "MPI_Wtick",
        "MPI_Comm_get_parent",
        "MPI_Comm_join",
    ];
    const CHAPTERS: [&str; 3] = ["MPI_T_", "MPI_Abi_", "MPI_Comm_spawn"];
    let converts = name.ends_with("_toint") || name.ends_with("_fromint");
    !converts && !ELSEWHERE.contains(&name) && !CHAPTERS.iter().any(|chapter| name.starts_with(chapter))
}

/// Whether a function may be called while MPI is not running (MPI 5.0 section 11.4.1).
pub(crate) fn works_always(name: &str) -> bool {
    const PARTS: [&str; 8] = [
        "MPI_Info_",
        "MPI_Errhandler_free",
        "_create_errhandler",
        "MPI_Error_",
        "MPI_Add_error_",
        "MPI_Remove_error_",
        "MPI_Get_version",
        "MPI_Get_library_version",
    ];
    // The standard does not list these functions; they use only their arguments.
    const ITSELF: [&str; 8] = [
        "MPI_Initialized",
        "MPI_Finalized",
        "MPI_Is_thread_main",
        "MPI_Get_address",
        "MPI_Address",
        "MPI_Get_hw_resource_info",
        "MPI_Get_processor_name",
        "MPI_Test_cancelled",
    ];
    (name.starts_with("MPI_Status_") && !name.starts_with("MPI_Status_set_elements"))
        || ITSELF.contains(&name)
        || PARTS.iter().any(|part| name.contains(part))
}

/// Whether a function is also tried while MPI is not running. Excluded are functions that start MPI, would free what was not allocated, or
/// return no code.
pub(crate) fn is_tried_outside(name: &str) -> bool {
    const NOT: [&str; 4] = ["MPI_Session_init", "MPI_Free_mem", "MPI_Aint_add", "MPI_Aint_diff"];
    is_tested(name) && !NOT.contains(&name)
}

/// The name that a call reports. A form with large counts reports the name of the other form. An older function reports the name of the
/// newer function, unless the check of its result pointers fails.
pub(crate) fn said_name(name: &str, is_refused_at_once: bool) -> &str {
    match name {
        _ if is_refused_at_once => name.trim_end_matches("_c").trim_end_matches("_x"),
        "MPI_Attr_put" => "MPI_Comm_set_attr",
        "MPI_Attr_get" => "MPI_Comm_get_attr",
        "MPI_Attr_delete" => "MPI_Comm_delete_attr",
        "MPI_Keyval_create" => "MPI_Comm_create_keyval",
        "MPI_Keyval_free" => "MPI_Comm_free_keyval",
        other => other.trim_end_matches("_c").trim_end_matches("_x"),
    }
}

/// A C expression that the call accepts as the value of this parameter.
pub(crate) fn good_value(function: &Function, parameter: &Parameter) -> String {
    let base = function.base();
    let large = function.is_large();
    let (kind, name) = (parameter.kind.as_str(), parameter.name.as_str());
    let of_kind = match kind {
        "MPI_Comm" => match base.as_str() {
            "cart_create" | "cart_map" | "graph_create" | "graph_map" => "comm",
            _ if base.starts_with("cart_") || base.contains("neighbor_a") || base == "cartdim_get" => "cart",
            _ if base.starts_with("graph") => "graph",
            _ if base.starts_with("dist_graph_n") => "dist",
            _ => "comm",
        },
        "MPI_Datatype" if base.contains("f90") => "MPI_INT",
        "MPI_Datatype" => match name {
            "value_type" | "index_type" => "MPI_INT",
            _ => "MPI_INT",
        },
        "MPI_Op" => "MPI_SUM",
        "MPI_Group" => "group",
        "MPI_Win" => match base.as_str() {
            "win_attach" | "win_detach" => "dynamic",
            "win_shared_query" => "shared",
            _ if uses_epoch(&base) => "locked",
            _ => "win",
        },
        "MPI_Info" => "info",
        "MPI_File" => "file",
        "MPI_Errhandler" if base.starts_with("file") => "on_file",
        "MPI_Errhandler" if base.starts_with("win") => "on_win",
        "MPI_Errhandler" if base.starts_with("session") => "on_session",
        "MPI_Errhandler" => "on_comm",
        "MPI_Session" => "session",
        "MPI_Request" if base.starts_with("pready") || base == "parrived" => "partitioned",
        "MPI_Request" => "request",
        "MPI_Message" => "message",
        "MPI_Aint" | "MPI_Count" | "MPI_Offset" | "int" => return good_number(&base, name).to_owned(),
        _ => "",
    };
    if !of_kind.is_empty() {
        return of_kind.to_owned();
    }
    let place = match kind {
        "MPI_Comm *" => "&made_comm",
        "MPI_Datatype *" | "const MPI_Datatype *" if name.starts_with("array") || name.ends_with("types") => {
            "types"
        }
        "MPI_Datatype *" => "&made_type",
        "MPI_Request *" | "const MPI_Request *" if name.starts_with("array") => "requests",
        "MPI_Request *" => match base.as_str() {
            "start" => "&persistent",
            _ => "&made_request",
        },
        "MPI_Message *" => "&message",
        "MPI_Status *" | "const MPI_Status *" => "&status",
        "MPI_Op *" => "&null_op",
        "MPI_Group *" => "&null_group",
        "MPI_Win *" => "&null_win",
        "MPI_Info *" => "&null_info",
        "MPI_Errhandler *" => "&null_errhandler",
        "MPI_Session *" => "&null_session",
        "MPI_File *" => "&made_file",
        "MPI_Offset *" => "&made_offset",
        "MPI_Aint *" | "const MPI_Aint *" => "aint_zeros",
        "const MPI_Count *" if name.contains("displ") => "large_zeros",
        "const MPI_Count *" => "large_ones",
        "MPI_Count *" if name == "position" => "large_zeros",
        "MPI_Count *" => "large_out",
        "const int *" if name.contains("displ") || name.contains("ranks") || name.contains("edges") => {
            "zeros"
        }
        "const int *"
            if matches!(name, "sources" | "destinations" | "periods" | "coords" | "array_of_starts") =>
        {
            "zeros"
        }
        "const int *" => "ones",
        "int *" if name == "ranges" => "(int (*)[3])zeros",
        "int *" if name == "position" => "zeros",
        "int *" if base.contains("keyval") && name.ends_with("keyval") => "&none",
        "int *" => "out",
        "char *" => "text",
        "const char *" if name == "filename" => "path",
        "const char *" if name == "datarep" => "\"external32\"",
        "const char *" => "\"key\"",
        "void *" if name == "attribute_val" || name == "baseptr" || name == "buffer_addr" => "out",
        "void *" | "const void *"
            if name.contains("recv") || name == "inoutbuf" || name.contains("result") =>
        {
            "more"
        }
        "void *" | "const void *" => "room",
        _ if kind.contains("function") => good_function(name, large),
        _ => "NULL",
    };
    place.to_owned()
}

fn uses_epoch(base: &str) -> bool {
    base.starts_with("win_flush")
        || base == "win_sync"
        || base == "win_unlock_all"
        || base == "win_unlock"
        || ["put", "get", "accumulate", "get_accumulate", "rput", "rget", "raccumulate", "rget_accumulate"]
            .contains(&base)
        || ["fetch_and_op", "compare_and_swap"].contains(&base)
}

fn good_function(name: &str, large: bool) -> &'static str {
    match name {
        "user_fn" if large => "combine_c",
        "user_fn" => "combine",
        "query_fn" => "query",
        "free_fn" => "free_it",
        "cancel_fn" => "cancel_it",
        "comm_errhandler_fn" => "raise_comm",
        "win_errhandler_fn" => "raise_win",
        "session_errhandler_fn" => "raise_session",
        "file_errhandler_fn" => "raise_file",
        "dtype_file_extent_fn" => "extent_of",
        _ => "NULL",
    }
}

fn good_number(base: &str, name: &str) -> &'static str {
    match name {
        "root" | "offset" | "dest" | "source" | "target_rank" | "rank" | "tag" | "sendtag" | "recvtag"
        | "assert" | "direction" | "local_leader" | "target_disp" | "lb" | "disp" | "index" | "n"
            if name != "n" || base.starts_with("type_get") =>
        {
            "0"
        }
        "remote_leader" | "color" | "key" | "high" | "reorder" | "commute" | "flag" | "partition" => "0",
        "partition_low" | "partition_high" => "0",
        "n" if base == "session_get_nth_pset" || base == "info_get_nthkey" => "0",
        "comm_keyval" | "keyval" => "comm_key",
        "type_keyval" => "type_key",
        "win_keyval" => "win_key",
        "errorcode" => "error_code",
        "errorclass" => "error_class",
        "lock_type" => "MPI_LOCK_SHARED",
        "amode" => "MPI_MODE_CREATE | MPI_MODE_RDWR",
        "whence" => "MPI_SEEK_SET",
        "split_type" => "MPI_COMM_TYPE_SHARED",
        "order" => "MPI_ORDER_C",
        "typeclass" => "MPI_TYPECLASS_INTEGER",
        "size" if base == "type_match_size" => "4",
        "insize" | "outsize" | "outcount" | "valuelen" => "64",
        "extent" | "stride" => "8",
        "p" => "6",
        "r" => "6",
        "rank_" => "0",
        _ => "1",
    }
}

/// Values that the call must refuse.
pub(crate) fn bad_values(function: &Function, parameter: &Parameter) -> Vec<Bad> {
    let base = function.base();
    // One task cannot make an intercommunicator, so these calls have no good value here.
    let needs_inter = ["comm_remote_size", "comm_remote_group", "intercomm_merge", "intercomm_create"]
        .contains(&base.as_str());
    let (kind, name) = (parameter.kind.as_str(), parameter.name.as_str());
    if needs_inter && !(kind == "MPI_Comm" && name != "peer_comm") {
        return Vec::new();
    }
    let bad = |value: &str, classes, says: &str| Bad { value: value.into(), classes, says: says.into() };
    let handle = |class: &'static [&'static str], null: &str, freed: &str, other: &str| {
        vec![bad(null, class, null), bad(freed, class, "0x"), bad(other, class, "0x")]
    };
    // Any number is valid in a status, and an unknown error code has a class and a text, too.
    let says_what_it_wants =
        base.starts_with("status_set") || matches!(base.as_str(), "error_class" | "error_string");
    if says_what_it_wants && kind == "int" {
        return Vec::new();
    }
    // No access is split, so the end of one is refused, whatever the other arguments are.
    if base.starts_with("file_") && base.ends_with("_end") && kind != "MPI_File" {
        return Vec::new();
    }
    // A named datatype has no contents, whatever the other arguments are.
    if base == "type_get_contents" && name != "datatype" {
        return Vec::new();
    }
    match kind {
        "MPI_Comm" | "MPI_Datatype" | "MPI_Win" if base.ends_with("get_name") => {
            let (class, freed): (&'static [_], _) = match kind {
                "MPI_Comm" => (&["COMM"], "freed_comm"),
                "MPI_Win" => (&["WIN"], "freed_win"),
                _ => (&["TYPE"], "freed_type"),
            };
            vec![bad(freed, class, "0x")]
        }
        "MPI_Comm" => handle(&["COMM"], "MPI_COMM_NULL", "freed_comm", "(MPI_Comm)MPI_INT"),
        "MPI_Datatype" => {
            let mut all =
                handle(&["TYPE"], "MPI_DATATYPE_NULL", "freed_type", "(MPI_Datatype)MPI_COMM_WORLD");
            if communicates(function) {
                all.push(bad("uncommitted", &["TYPE"], "not committed"));
            }
            all
        }
        "MPI_Op" => handle(&["OP"], "MPI_OP_NULL", "freed_op", "(MPI_Op)MPI_INT"),
        "MPI_Group" => handle(&["GROUP"], "MPI_GROUP_NULL", "freed_group", "(MPI_Group)MPI_INT"),
        "MPI_Win" => handle(&["WIN"], "MPI_WIN_NULL", "freed_win", "(MPI_Win)MPI_INT"),
        "MPI_Info" => {
            let mut all = handle(&["INFO"], "MPI_INFO_NULL", "freed_info", "(MPI_Info)MPI_INT");
            if !base.starts_with("info_") {
                all.remove(0);
            }
            all
        }
        "MPI_Errhandler" => {
            handle(&["ERRHANDLER"], "MPI_ERRHANDLER_NULL", "freed_errhandler", "(MPI_Errhandler)MPI_INT")
        }
        "MPI_Session" => handle(&["SESSION"], "MPI_SESSION_NULL", "freed_session", "(MPI_Session)MPI_INT"),
        "MPI_File" => {
            let mut all = handle(&["FILE"], "MPI_FILE_NULL", "freed_file", "(MPI_File)MPI_INT");
            if base.ends_with("errhandler") {
                all.remove(0);
            }
            all
        }
        "MPI_Request" => {
            vec![bad("freed_request", &["REQUEST"], "0x"), bad("(MPI_Request)MPI_INT", &["REQUEST"], "0x")]
        }
        "int" | "MPI_Count" | "MPI_Aint" | "MPI_Offset" => bad_numbers(&base, name),
        _ if kind.ends_with('*') => bad_addresses(function, parameter),
        _ => Vec::new(),
    }
}

/// Whether the call uses data of a datatype, which must then be committed.
fn communicates(function: &Function) -> bool {
    let base = function.base();
    !base.starts_with("type_")
        && !base.starts_with("pack_")
        && !base.starts_with("status_")
        && !base.starts_with("get_count")
        && !base.starts_with("get_elements")
        && !base.starts_with("unpack_external_")
        && !base.starts_with("file_get_")
        && function.has("comm")
            | function.has("win")
            | function.has("fh")
            | function.has("inbuf")
            | function.has("message")
}

fn bad_numbers(base: &str, name: &str) -> Vec<Bad> {
    let make = |values: &[&str], classes: &'static [&'static str]| -> Vec<Bad> {
        values.iter().map(|value| Bad { value: (*value).into(), classes, says: (*value).into() }).collect()
    };
    match name {
        "count" if base == "comm_spawn_multiple" => Vec::new(),
        "count" | "sendcount" | "recvcount" | "origin_count" | "target_count" | "result_count" => {
            make(&["-5"], &["COUNT", "ARG"])
        }
        "incount" => make(&["-5"], &["COUNT", "ARG"]),
        "blocklength" => make(&["-5"], &["ARG", "COUNT"]),
        "partitions" => make(&["-5"], &["COUNT", "ARG"]),
        "root" => make(&["-7", "99"], &["ROOT"]),
        "dest" | "source" | "target_rank" => make(&["-7", "99"], &["RANK"]),
        "rank" if base != "type_create_darray" => make(&["-7", "99"], &["RANK"]),
        "tag" | "sendtag" | "recvtag" => make(&["-5"], &["TAG"]),
        "comm_keyval" | "type_keyval" | "win_keyval" | "keyval" => {
            make(&["MPI_KEYVAL_INVALID", "freed_key", "9999"], &["KEYVAL"])
                .into_iter()
                .map(|bad| Bad { says: String::new(), ..bad })
                .collect()
        }
        "errorcode" if base == "error_class" || base == "error_string" => make(&["-9", "12345"], &["ARG"]),
        "errorcode" if base.contains("add_error") || base.contains("remove_error") => {
            make(&["-9", "12345"], &["ARG"])
        }
        "errorclass" => make(&["-9", "12345"], &["ARG"]),
        "lock_type" => make(&["77"], &["LOCKTYPE"]),
        "amode" => make(&["0x0", "0x12fd1"], &["AMODE"]),
        "whence" => make(&["77"], &["ARG"]),
        "offset" => make(&["-5"], &["ARG"]),
        "disp" if base == "file_set_view" => make(&["-5"], &["ARG"]),
        "split_type" => make(&["77"], &["ARG"]),
        "color" => make(&["-7"], &["ARG"]),
        // The call checks the distributions first.
        "order" if base == "type_create_darray" => Vec::new(),
        "order" | "typeclass" => make(&["77"], &["ARG"]),
        "direction" => make(&["-5", "7"], &["DIMS", "ARG"]),
        "ndims" | "nnodes" => make(&["-5"], &["DIMS", "ARG", "TOPOLOGY", "COUNT"]),
        "maxdims" | "maxindex" | "maxedges" | "maxneighbors" | "maxindegree" | "maxoutdegree"
        | "indegree" | "outdegree" => make(&["-5"], &["ARG", "DIMS", "COUNT"]),
        "n" if base == "info_get_nthkey" => make(&["77"], &["ARG", "INFO_KEY"]),
        "n" => make(&["-5"], &["ARG", "COUNT"]),
        "size" if base.starts_with("type_create") => make(&["-5"], &["ARG", "COUNT"]),
        "size" => make(&["-5"], &["SIZE", "ARG"]),
        "disp_unit" => make(&["-5"], &["DISP", "ARG"]),
        "partition" | "partition_low" | "partition_high" => make(&["-5"], &["ARG", "COUNT"]),
        "max_integers" | "max_addresses" | "max_datatypes" | "max_large_counts" => {
            make(&["-5"], &["ARG", "COUNT"])
        }
        "insize" | "outsize" => make(&["-5"], &["ARG", "COUNT", "SIZE"]),
        "local_leader" => make(&["-7", "99"], &["RANK"]),
        "required" => make(&["77"], &["ARG"]),
        "p" => make(&["5000"], &["ARG"]),
        "target_disp" => make(&["-5"], &["DISP", "RMA_RANGE", "ARG"]),
        "assert" => Vec::new(),
        _ => Vec::new(),
    }
}

/// Bad handles that a call takes by address, with their classes: the null handle, and a freed handle (twice where a null handle is
/// allowed). `None` if the parameter is not such a handle.
fn by_address(base: &str, kind: &str) -> Option<(&'static str, &'static str, &'static [&'static str])> {
    let takes = base.ends_with("_free") || base.ends_with("_finalize") || base.ends_with("_disconnect");
    match kind {
        "MPI_Comm *" if takes => Some(("&null_comm", "&freed_comm", &["COMM"])),
        "MPI_Datatype *" if takes || base == "type_commit" => Some(("&null_type", "&freed_type", &["TYPE"])),
        "MPI_Op *" if takes => Some(("&null_op", "&freed_op", &["OP"])),
        "MPI_Group *" if takes => Some(("&null_group", "&freed_group", &["GROUP"])),
        "MPI_Win *" if takes => Some(("&null_win", "&freed_win", &["WIN"])),
        "MPI_Info *" if takes => Some(("&null_info", "&freed_info", &["INFO"])),
        "MPI_Errhandler *" if takes => Some(("&null_errhandler", "&freed_errhandler", &["ERRHANDLER"])),
        "MPI_File *" if takes || base.ends_with("_close") => Some(("&null_file", "&freed_file", &["FILE"])),
        "MPI_Session *" if takes => Some(("&null_session", "&freed_session", &["SESSION"])),
        "MPI_Message *" if base.ends_with("mrecv") => Some(("&null_message", "&freed_message", &["REQUEST"])),
        "MPI_Request *" if takes || base == "start" || base == "cancel" => {
            Some(("&null_request", "&freed_request", &["REQUEST"]))
        }
        "MPI_Request *" if base == "wait" || base == "test" => {
            Some(("&freed_request", "&freed_request", &["REQUEST"]))
        }
        "int *" if base.ends_with("free_keyval") || base == "keyval_free" => {
            Some(("&none", "&freed_key", &["KEYVAL"]))
        }
        _ => None,
    }
}

/// An array with a bad element, the class, and what the message must contain.
fn bad_element(
    function: &Function,
    parameter: &Parameter,
) -> Option<(&'static str, &'static [&'static str], &'static str)> {
    let base = function.base();
    let is_collective = function.has("comm") && !base.starts_with("pack") && !base.starts_with("unpack");
    match (parameter.name.as_str(), parameter.kind.as_str()) {
        ("sendcounts" | "recvcounts", "const int *") if is_collective => {
            Some(("bad_counts", &["COUNT", "ARG"], "-5"))
        }
        ("sendcounts" | "recvcounts", "const MPI_Count *") if is_collective => {
            Some(("large_bad_counts", &["COUNT", "ARG"], "-5"))
        }
        ("sendtypes" | "recvtypes", _) => Some(("bad_types", &["TYPE"], "0x")),
        ("array_of_types", _) if base == "type_create_struct" => Some(("bad_types", &["TYPE"], "0x")),
        ("array_of_blocklengths", "const int *") => Some(("bad_counts", &["ARG", "COUNT"], "-5")),
        ("array_of_blocklengths", "const MPI_Count *") => Some(("large_bad_counts", &["ARG", "COUNT"], "-5")),
        ("array_of_requests", _) => Some(("bad_requests()", &["REQUEST", "IN_STATUS"], "0x")),
        _ => None,
    }
}

fn bad_addresses(function: &Function, parameter: &Parameter) -> Vec<Bad> {
    let base = function.base();
    let (kind, name) = (parameter.kind.as_str(), parameter.name.as_str());
    let null =
        |classes: &'static [&'static str]| vec![Bad { value: "NULL".into(), classes, says: "null".into() }];
    if let Some((value, class, says)) = bad_element(function, parameter) {
        // The first element is bad; the array itself may be null if it is empty.
        let mut all = null(&["ARG", "COUNT", "TYPE", "REQUEST"]);
        all.push(Bad { value: value.into(), classes: class, says: says.into() });
        return all;
    }
    if let Some((nothing, freed, classes)) = by_address(&base, kind) {
        let mut all = null(&["ARG"]);
        all[0].classes = if kind == "MPI_Request *" { &["ARG", "REQUEST"] } else { &["ARG"] };
        for value in [nothing, freed] {
            all.push(Bad { value: value.into(), classes, says: String::new() });
        }
        return all;
    }
    let is_function = kind.contains("function");
    match (kind, name) {
        // These pointers may be null.
        ("MPI_Status *", "status" | "array_of_statuses") if !base.starts_with("status_") => Vec::new(),
        (_, "argc" | "argv" | "extra_state") => Vec::new(),
        (_, "read_conversion_fn" | "write_conversion_fn") => Vec::new(),
        _ if is_function && name.contains("attr_fn") || matches!(name, "copy_fn" | "delete_fn") => Vec::new(),
        ("void *", "attribute_val") if base.contains("set_attr") || base.contains("attr_put") => Vec::new(),
        ("const int *", "weights" | "sourceweights" | "destweights") => null(&["ARG"]),
        // These may be null: the call then returns only the length.
        ("char *", "pset_name" | "value") if function.has("pset_len") || function.has("buflen") => Vec::new(),
        ("const void *" | "void *", "location" | "base")
            if base == "get_address" || base.starts_with("address") =>
        {
            Vec::new()
        }
        ("void *", "base") if base == "win_detach" => Vec::new(),
        ("const void *" | "void *", "base") if base == "free_mem" => Vec::new(),
        ("const void *" | "void *", "base") => {
            vec![Bad { value: "NULL".into(), classes: &["BASE", "RMA_ATTACH"], says: String::new() }]
        }
        ("void *", "baseptr" | "attribute_val" | "buffer_addr") => null(&["ARG"]),
        ("void *" | "const void *", _) => null(&["BUFFER", "ARG"]),
        ("const char *", _) => null(&["ARG", "INFO_KEY", "INFO_VALUE"]),
        _ => null(&["ARG"]),
    }
}
