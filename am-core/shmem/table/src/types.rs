//! The types of the calls.

/// A type: its name in calls, in C and in Rust.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) c: &'static str,
    pub(crate) rust: &'static str,
}

impl Type {
    /// The type of C that this name stands for, on the machines that the library supports.
    pub(crate) fn base(&self) -> &'static str {
        match self.c {
            "int8_t" => "signed char",
            "int16_t" => "short",
            "int32_t" => "int",
            "int64_t" | "ptrdiff_t" => "long",
            "uint8_t" => "unsigned char",
            "uint16_t" => "unsigned short",
            "uint32_t" => "unsigned int",
            "uint64_t" | "size_t" => "unsigned long",
            other => other,
        }
    }
}

const fn of(name: &'static str, c: &'static str, rust: &'static str) -> Type {
    Type { name, c, rust }
}

/// The standard types (OpenSHMEM 1.6, table 4).
const STANDARD: [Type; 24] = [
    of("float", "float", "f32"),
    of("double", "double", "f64"),
    of("longdouble", "long double", "LongDouble"),
    of("char", "char", "c_char"),
    of("schar", "signed char", "i8"),
    of("short", "short", "i16"),
    of("int", "int", "i32"),
    of("long", "long", "i64"),
    of("longlong", "long long", "i64"),
    of("uchar", "unsigned char", "u8"),
    of("ushort", "unsigned short", "u16"),
    of("uint", "unsigned int", "u32"),
    of("ulong", "unsigned long", "u64"),
    of("ulonglong", "unsigned long long", "u64"),
    of("int8", "int8_t", "i8"),
    of("int16", "int16_t", "i16"),
    of("int32", "int32_t", "i32"),
    of("int64", "int64_t", "i64"),
    of("uint8", "uint8_t", "u8"),
    of("uint16", "uint16_t", "u16"),
    of("uint32", "uint32_t", "u32"),
    of("uint64", "uint64_t", "u64"),
    of("size", "size_t", "usize"),
    of("ptrdiff", "ptrdiff_t", "isize"),
];

/// Complex types, for sums and products.
const COMPLEX: [Type; 2] =
    [of("complexd", "double _Complex", "Complex<f64>"), of("complexf", "float _Complex", "Complex<f32>")];

const NONE: Type = of("", "", "");

/// The types of a group of the table.
pub(crate) fn types_of(group: &str) -> Vec<Type> {
    let named = |names: &str| {
        let names: Vec<&str> = names.split(' ').collect();
        STANDARD.into_iter().filter(|kind| names.contains(&kind.name)).collect::<Vec<_>>()
    };
    const AMO: &str = "int long longlong uint ulong ulonglong int32 int64 uint32 uint64 size ptrdiff";
    const OLD: &str = "short int long longlong";
    match group {
        "one" | "bare" => vec![NONE],
        "std" => STANDARD.to_vec(),
        // Rust has no long double: the header has these calls itself.
        "std-" => STANDARD.into_iter().filter(|kind| kind.name != "longdouble").collect(),
        "stdc" => STANDARD.into_iter().chain(COMPLEX).collect(),
        // The names of version 1.3 had fewer types; other libraries have them for all, and programs use that.
        "amo" | "old" => named(AMO),
        "ext" | "oldext" => named(&format!("float double {AMO}")),
        "bit" => named("uint ulong ulonglong int32 int64 uint32 uint64"),
        "sync" => named(&format!("short ushort {AMO}")),
        "sync4" | "oldbit" => named(OLD),
        "rbit" => {
            named("uchar ushort uint ulong ulonglong int8 int16 int32 int64 uint8 uint16 uint32 uint64 size")
        }
        "oldnum" => named(&format!("float double longdouble {OLD}")),
        "oldsum" => named(&format!("float double longdouble {OLD}")).into_iter().chain(COMPLEX).collect(),
        "bits" => vec![
            of("8", "void", "u8"),
            of("16", "void", "u16"),
            of("32", "void", "u32"),
            of("64", "void", "u64"),
            of("128", "void", "Bits128"),
        ],
        "b3264" => vec![of("32", "void", "u32"), of("64", "void", "u64")],
        "mem" => vec![of("", "void", "u8")],
        _ => panic!("no group of types has this name: {group}"),
    }
}
