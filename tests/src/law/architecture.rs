//! ARCHITECTURE.md says the same as the tables that are checked.

use std::fmt::Write as _;

use super::table::{Row, UnsafePlace};
use super::{Tree, Violation};

const PAPER: &str = "ARCHITECTURE.md";

/// The section "The layer law" holds exactly this table.
#[must_use]
pub fn naming_table_is_written_down(tree: &Tree, table: &[Row]) -> Vec<Violation> {
    let mut want = "| Place | may name | must not name | because |\n| --- | --- | --- | --- |\n".to_owned();
    for row in table {
        let places: Vec<_> = row.places.iter().map(|place| format!("{}/{place}", row.krate)).collect();
        let places: Vec<_> = places.iter().map(String::as_str).collect();
        let _ = writeln!(
            want,
            "| {}{} | {} | {} | {} |",
            if row.called.is_empty() { String::new() } else { format!("*{}*: ", row.called) },
            quoted(&places),
            quoted(row.may),
            quoted(row.must_not),
            row.why
        );
    }
    same_table(tree, "## The layer law", &want)
}

/// The section "Unsafe code" holds exactly this table.
#[must_use]
pub fn unsafe_places_are_written_down(tree: &Tree, places: &[UnsafePlace]) -> Vec<Violation> {
    let mut want = "| Place | what | because |\n| --- | --- | --- |\n".to_owned();
    for place in places {
        let what = if place.raw_only { "functions `*_raw`" } else { "any" };
        let _ = writeln!(want, "| `{}` | {what} | {} |", place.path, place.why);
    }
    same_table(tree, "## Unsafe code", &want)
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn same_table(tree: &Tree, heading: &str, want: &str) -> Vec<Violation> {
    let text = tree.text(PAPER).unwrap_or_default();
    let section =
        text.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "));
    let found: String = section.filter(|line| line.starts_with('|')).flat_map(|line| [line, "\n"]).collect();
    if found == want {
        return Vec::new();
    }
    let what = format!("the table under `{heading}` differs from tests/src/law/table.rs, which has:\n{want}");
    vec![Violation::new(PAPER, 0, what)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Row] = &[Row {
        krate: "a",
        called: "",
        places: &["b", "c"],
        may: &["d", "e"],
        must_not: &[],
        why: "of that",
    }];
    const WRITTEN: &str = "# T\n## The layer law\nText.\n\n| Place | may name | must not name | because |\n| --- | --- | --- | --- |\n| `a/b`, `a/c` | `d`, `e` |  | of that |\n\n## Next\n| x |\n";

    #[test]
    fn the_same_table_passes_and_another_does_not() {
        let differs =
            |text: &str| !naming_table_is_written_down(&Tree::made_up(&[(PAPER, text)]), TABLE).is_empty();
        assert!(!differs(WRITTEN));
        assert!(differs(&WRITTEN.replace("`e`", "`f`")));
        assert!(differs(&WRITTEN.replace("of that", "of this")));
        assert!(differs(&WRITTEN.replace("## The layer law", "## A law")));
        assert!(differs(""));
    }
}
