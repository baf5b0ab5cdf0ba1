//! Prints the lines of code of the product's crates (`am_tests::code_lines`), and their sum: `code-lines [CHECKOUT...]`. Of several
//! checkouts, for example this one and one of an older commit, each has a column.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use am_tests::code_lines;

fn main() -> ExitCode {
    let mut roots: Vec<String> = std::env::args().skip(1).collect();
    if roots.is_empty() {
        roots.push(".".to_owned());
    }
    let counted: Result<Vec<_>, _> =
        roots.iter().map(|root| code_lines::of_checkout(Path::new(root))).collect();
    let columns = match counted {
        Ok(columns) => columns,
        Err(what) => {
            eprintln!("code-lines: {what}");
            return ExitCode::FAILURE;
        }
    };
    let names: BTreeSet<_> = columns.iter().flat_map(|column| column.keys()).collect();
    let row = |name: &str, numbers: Vec<usize>| {
        let numbers: String = numbers.iter().map(|number| format!("{number:>10}")).collect();
        println!("{name:<24}{numbers}");
    };
    for name in names {
        row(name, columns.iter().map(|column| column.get(name).copied().unwrap_or(0)).collect());
    }
    row("together", columns.iter().map(|column| column.values().sum()).collect());
    ExitCode::SUCCESS
}
