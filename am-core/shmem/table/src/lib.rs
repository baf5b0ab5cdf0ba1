//! The calls of OpenSHMEM as one table, and what is made of it: `shmem.h`, and the exported functions.

mod c;
mod rows;
mod rust;
mod types;

pub use c::header;
pub use rust::exports;

use types::{Type, types_of};

/// The other headers that programs include, by name.
pub const OTHER_HEADERS: [(&str, &str); 4] = [
    ("shmemx.h", HEADER_X),
    ("pshmem.h", "/* The profiling names are in shmem.h. */\n#include <shmem.h>\n"),
    ("mpp/shmem.h", "/* The name of the header before OpenSHMEM 1.1. */\n#include <shmem.h>\n"),
    ("mpp/shmemx.h", "/* The name of the header before OpenSHMEM 1.1. */\n#include <shmemx.h>\n"),
];

/// The text of `shmemx.h`: calls beyond the standard.
const HEADER_X: &str = "\
/* Made by the build from the table of am-core/shmem. Calls beyond the standard; those of OpenSHMEM 1.6 are in shmem.h. */
#ifndef SHMEMX_H
#define SHMEMX_H
#include <shmem.h>
#endif
";

/// A call for one type.
#[derive(Clone, Debug)]
struct Call {
    /// The name without `shmem_`, with the type's name in it.
    name: String,
    /// The whole name.
    symbol: String,
    /// The name without the type, for C11's generic name.
    generic: String,
    kind: Type,
    has_context: bool,
    is_generic: bool,
    result: String,
    parameters: Vec<Parameter>,
    function: String,
}

/// A parameter: its type with `T` and `V` in it, and its name.
#[derive(Clone, Debug)]
struct Parameter {
    kind: String,
    name: String,
}

/// The calls of the table, without those with a context.
fn calls() -> Vec<Call> {
    let rows = rows::ROWS.lines().filter(|row| !row.is_empty() && !row.starts_with('#'));
    rows.flat_map(calls_of).collect()
}

/// The calls of a row.
///
/// # Panics
/// The row does not have six fields, or names types that do not exist: the table is a part of this crate.
fn calls_of(row: &str) -> Vec<Call> {
    let fields: Vec<&str> = row.split('|').collect();
    let [types, forms, result, name, parameters, function] = fields[..] else {
        panic!("a row has six fields: {row}")
    };
    let parameters: Vec<Parameter> =
        parameters.split(", ").filter(|text| !text.is_empty()).map(parameter).collect();
    let call = |kind: Type| {
        let full = name.replace("{}", kind.name);
        let symbol = if types == "bare" { full.clone() } else { format!("shmem_{full}") };
        Call {
            symbol,
            generic: name.replace("{}_", "").replace("{}", ""),
            name: full,
            kind,
            has_context: forms.contains('c'),
            is_generic: forms.contains('g'),
            result: result.to_owned(),
            parameters: parameters.clone(),
            function: function.to_owned(),
        }
    };
    types_of(types).into_iter().map(call).collect()
}

fn parameter(text: &str) -> Parameter {
    let at = text.rfind([' ', '*']).map_or(0, |at| at + 1);
    Parameter { kind: text[..at].trim().to_owned(), name: text[at..].to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_calls_have_one_name() {
        let calls = calls();
        let names: BTreeSet<_> = calls.iter().map(|call| &call.symbol).collect();
        assert_eq!(names.len(), calls.len());
        assert!(names.contains(&"shmem_long_p".to_owned()) && names.contains(&"shmem_put128".to_owned()));
    }

    /// Each call exists for as many types as tables 3, 5, 6, 7 and 8 of OpenSHMEM 1.5 list.
    #[test]
    fn calls_have_the_types_of_the_standard() {
        let calls = calls();
        let count =
            |generic: &str| calls.iter().filter(|call| call.is_generic && call.generic == generic).count();
        assert_eq!([count("put"), count("p"), count("iget")], [24, 23, 24]);
        assert_eq!([count("atomic_fetch_add"), count("atomic_swap"), count("atomic_xor")], [12, 14, 7]);
        assert_eq!([count("wait_until"), count("and_reduce"), count("sum_reduce")], [14, 14, 26]);
    }

    #[test]
    fn the_header_declares_each_call_and_its_twin() {
        let header = header();
        for call in calls() {
            for name in [call.symbol.clone(), format!("p{}", call.symbol)] {
                assert!(header.contains(&format!("{name}(")), "{name}");
            }
        }
    }
}
