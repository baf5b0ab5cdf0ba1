//! The exports of the library.

use std::fmt::Write as _;

use crate::{Call, Parameter, calls};

/// The exported functions, as Rust.
#[must_use]
pub fn exports() -> String {
    let mut text = String::new();
    for call in calls() {
        export(&mut text, &call, &call.symbol, false);
        if call.has_context {
            export(&mut text, &call, &format!("shmem_ctx_{}", call.name), true);
        }
    }
    text
}

/// A function under its name and under that of the profiling interface (OpenSHMEM 1.6, section 10).
fn export(text: &mut String, call: &Call, symbol: &str, with_context: bool) {
    let context = with_context.then(|| Parameter { kind: "shmem_ctx_t".to_owned(), name: "ctx".to_owned() });
    let parameters: Vec<String> = context
        .iter()
        .chain(&call.parameters)
        .map(|parameter| format!("{}: {}", parameter.name, kind(&parameter.kind, call.kind.rust)))
        .collect();
    let mut arguments = vec![format!("\"{symbol}\"")];
    if call.has_context {
        arguments.push(if with_context { "ctx" } else { "Ctx::DEFAULT" }.to_owned());
    }
    arguments.extend(call.parameters.iter().map(|Parameter { kind, name }| {
        if kind.contains('V') { format!("{name}.cast()") } else { name.clone() }
    }));
    let generics = if call.kind.rust.is_empty() { String::new() } else { format!("::<{}>", call.kind.rust) };
    let result = match call.result.as_str() {
        "void" => String::new(),
        result => format!(" -> {}", kind(result, call.kind.rust)),
    };
    for name in [symbol.to_owned(), format!("p{symbol}")] {
        let _ = writeln!(
            text,
            "#[unsafe(no_mangle)]\nunsafe extern \"C\" fn {name}({}){result} {{ unsafe {{ crate::{}{generics}({}) }} }}",
            parameters.join(", "),
            call.function,
            arguments.join(", "),
        );
    }
}

/// A type of C in Rust.
fn kind(c: &str, element: &str) -> String {
    let (front, stars) = (c.trim_end_matches('*').trim(), c.matches('*').count());
    let (is_const, base) = match front.strip_prefix("const ") {
        Some(base) => (true, base),
        None => (false, front),
    };
    let base = match base {
        "T" => element,
        "V" | "void" => "c_void",
        "int" => "c_int",
        "long" => "i64",
        "char" => "c_char",
        "size_t" => "usize",
        "ptrdiff_t" => "isize",
        "uint64_t" => "u64",
        "shmem_ctx_t" => "Ctx",
        "shmem_team_t" => "Team",
        "shmem_team_config_t" => "TeamConfig",
        "shmem_ctx_session_config_t" => "SessionConfig",
        _ => panic!("no type of Rust is known for {c}"),
    };
    match (stars, is_const) {
        (0, _) => base.to_owned(),
        (_, true) => format!("*const {base}"),
        (_, false) => format!("*mut {base}"),
    }
}
