//! The constants of the header, for Rust and for Fortran: both are made from `mpi.h`, so no other file repeats a number.

use std::fmt::Write as _;

use crate::Fallible;

/// The C type of a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An `int`.
    Number,
    /// The size of a string with its terminating NUL (`MPI_MAX_...`).
    Size,
    /// A displacement.
    Offset,
    /// A handle of this type.
    Handle(String),
    /// An address that is a constant: null, or one that names a predefined function.
    Pointer,
}

impl Kind {
    /// The type of this kind of constant in Rust.
    fn in_rust(&self) -> &str {
        match self {
            Self::Number => "c_int",
            Self::Size | Self::Pointer => "usize",
            Self::Offset => "i64",
            Self::Handle(name) => name,
        }
    }
}

/// A constant of the header.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) value: i64,
}

/// A number of the header: decimal, or hexadecimal.
fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The kind and number of a constant with this `value`, which may be the name of an earlier constant.
fn read(name: &str, value: &str, before: &[Constant]) -> Option<(Kind, i64)> {
    if let Some(number) = number(value) {
        let kind = if name.starts_with("MPI_MAX_") { Kind::Size } else { Kind::Number };
        return Some((kind, number));
    }
    if let Some(other) = before.iter().find(|other| other.name == value) {
        return Some((other.kind.clone(), other.value));
    }
    let (of, digits) = value.strip_prefix("((")?.strip_suffix(')')?.split_once(')')?;
    let kind = match of {
        "MPI_Offset" => Kind::Offset,
        of if of.contains('*') => Kind::Pointer,
        of => Kind::Handle(of.to_owned()),
    };
    Some((kind, number(digits)?))
}

/// All constants of the header, in its order.
pub(crate) fn constants(header: &str) -> Fallible<Vec<Constant>> {
    let mut found = Vec::new();
    for line in header.lines() {
        let line = line.split("/*").next().unwrap_or(line).trim();
        let Some((name, value)) = (match line.strip_prefix("#define ") {
            Some(rest) => rest.split_once(char::is_whitespace),
            None => line.trim_end_matches(',').split_once(" = "),
        }) else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        let is_constant = (name.starts_with("MPI_") || name.starts_with("MPIX_"))
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        if is_constant {
            let (kind, value) = read(name, value, &found)
                .ok_or_else(|| format!("mpi.h: the constant {name} has the unknown value {value}"))?;
            found.push(Constant { name: name.to_owned(), kind, value });
        }
    }
    Ok(found)
}

/// The constants in Rust.
pub(crate) fn in_rust(constants: &[Constant]) -> Fallible<String> {
    let mut text = String::new();
    for Constant { name, kind, value } in constants {
        let of = kind.in_rust();
        write!(text, "pub(crate) const {name}: {of} = ")?;
        match kind {
            Kind::Handle(_) if *value < 0 => writeln!(text, "{of}({value}_i64 as usize);")?,
            Kind::Handle(_) => writeln!(text, "{of}({value});")?,
            // An address of other interfaces may be a negative number.
            Kind::Pointer => writeln!(text, "{value}_i64 as usize;")?,
            _ => writeln!(text, "{value};")?,
        }
    }
    Ok(text)
}
