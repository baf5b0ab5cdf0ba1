//! The header.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::{Call, Parameter, calls};

const FRONT: &str = include_str!("front.h");
const BACK: &str = "\n#endif /* SHMEM_H */\n";

/// The text of `shmem.h`.
#[must_use]
pub fn header() -> String {
    let calls = calls();
    let mut text = FRONT.to_owned();
    text.push_str("\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    for prefix in ["", "p"] {
        for call in &calls {
            declare(&mut text, call, &format!("{prefix}{}", call.symbol), false);
            if call.has_context {
                declare(&mut text, call, &format!("{prefix}shmem_ctx_{}", call.name), true);
            }
        }
    }
    text.push_str(LONG_DOUBLE);
    text.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n");
    text.push_str(GENERIC_FRONT);
    let mut names: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.is_generic) {
        names.entry(&call.generic).or_default().push(call);
    }
    for (name, calls) in names {
        generic(&mut text, name, &calls);
    }
    text.push_str("#endif\n");
    text.push_str(BACK);
    text
}

/// A prototype.
fn declare(text: &mut String, call: &Call, symbol: &str, with_context: bool) {
    let context = with_context.then(|| Parameter { kind: "shmem_ctx_t".to_owned(), name: "ctx".to_owned() });
    let parameters: Vec<String> = context
        .iter()
        .chain(&call.parameters)
        .map(|Parameter { kind, name }| {
            let kind = in_c(kind, call.kind.c);
            if kind.ends_with('*') { format!("{kind}{name}") } else { format!("{kind} {name}") }
        })
        .collect();
    let parameters = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
    let result = in_c(&call.result, call.kind.c);
    let space = if result.ends_with('*') { "" } else { " " };
    let _ = writeln!(text, "{result}{space}{symbol}({parameters});");
}

/// A type of the table in C.
fn in_c(kind: &str, element: &str) -> String {
    let word = |word: &str| match word {
        "T" => element.to_owned(),
        "V" => "void".to_owned(),
        word => word.to_owned(),
    };
    kind.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A generic name of C11 (OpenSHMEM 1.6, section 7): chosen by the type that a pointer, the first argument that is no context and no team,
/// points to.
fn generic(text: &mut String, name: &str, calls: &[&Call]) {
    let Some(first) = calls.first() else { return };
    if first.kind.name.is_empty() {
        // The same call with and without a context.
        let _ = writeln!(
            text,
            "#define shmem_{name}(...) _Generic(SHMEM_FIRST_(__VA_ARGS__), shmem_ctx_t: shmem_ctx_{name}, default: shmem_{name})(__VA_ARGS__)"
        );
        return;
    }
    let after_team = first.parameters[0].kind == "shmem_team_t";
    // A type of C with several names appears once.
    let mut seen = BTreeSet::new();
    let mut chosen: Vec<(&str, &str)> = Vec::new();
    for call in calls {
        if seen.insert(call.kind.base()) {
            chosen.push((call.kind.base(), &call.name));
        }
    }
    if matches!(name, "p" | "g") {
        // The header's own.
        chosen.push(("long double", if name == "p" { "longdouble_p" } else { "longdouble_g" }));
    }
    let branches = |front: &str| {
        let mut text = String::new();
        for (kind, call) in &chosen {
            for qualifier in ["", "const ", "volatile "] {
                let _ = write!(text, ", {qualifier}{kind} *: {front}{call}");
            }
        }
        text
    };
    let (first_argument, second_argument) = ("(SHMEM_FIRST_(__VA_ARGS__))", "(SHMEM_SECOND_(__VA_ARGS__))");
    let picked = if after_team {
        format!("_Generic({second_argument}{})", branches("shmem_"))
    } else if first.has_context {
        // The compiler looks at both choices.
        let with_context =
            format!("_Generic({second_argument}{}, default: shmem_no_such_type_)", branches("shmem_ctx_"));
        format!("_Generic({first_argument}, shmem_ctx_t: {with_context}{})", branches("shmem_"))
    } else {
        format!("_Generic({first_argument}{})", branches("shmem_"))
    };
    let _ = writeln!(text, "#define shmem_{name}(...) {picked}(__VA_ARGS__)");
}

/// The calls for values of long doubles, which only C can pass.
const LONG_DOUBLE: &str = "
static inline void shmem_ctx_longdouble_p(shmem_ctx_t ctx, long double *dest, long double value, int pe) {
    shmem_ctx_putmem(ctx, dest, &value, sizeof value, pe);
}
static inline void shmem_longdouble_p(long double *dest, long double value, int pe) {
    shmem_putmem(dest, &value, sizeof value, pe);
}
static inline long double shmem_ctx_longdouble_g(shmem_ctx_t ctx, const long double *source, int pe) {
    long double value;
    shmem_ctx_getmem(ctx, &value, source, sizeof value, pe);
    return value;
}
static inline long double shmem_longdouble_g(const long double *source, int pe) {
    long double value;
    shmem_getmem(&value, source, sizeof value, pe);
    return value;
}
void shmem_pcontrol(int level, ...);
void pshmem_pcontrol(int level, ...);
";

const GENERIC_FRONT: &str = "
#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
/* The generic names of C11. A type for which a call does not exist is refused by the compiler. */
void shmem_no_such_type_(void);
#define SHMEM_FIRST_(...) SHMEM_FIRST_OF_(__VA_ARGS__, 0)
#define SHMEM_FIRST_OF_(first, ...) first
#define SHMEM_SECOND_(...) SHMEM_SECOND_OF_(__VA_ARGS__, 0, 0)
#define SHMEM_SECOND_OF_(first, second, ...) second
#define shmem_sync(...) _Generic((SHMEM_FIRST_(__VA_ARGS__)), shmem_team_t: shmem_team_sync, default: shmem_sync)(__VA_ARGS__)
";
