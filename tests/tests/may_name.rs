//! The workspace keeps its own law: who names whom, where `unsafe` stands, what the manifests explain.

use std::path::Path;

use am_tests::law::{self, EXPECTED, TABLE, Tree, UNSAFE_PLACES, Violation};

/// Files that may be longer than the limit, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

fn tree() -> Tree {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace's root");
    let tree = Tree::read(root).expect("the sources can be read");
    assert!(tree.sources().count() > 0, "no source below {}: nothing would be checked", root.display());
    tree
}

fn none(mut violations: Vec<Violation>) {
    violations.sort();
    let list: String = violations.iter().map(|violation| format!("\n{violation}")).collect();
    assert!(violations.is_empty(), "{} violations:{list}", violations.len());
}

#[test]
fn each_file_names_only_what_its_row_allows() {
    none(law::names_stay_in_their_rows(&tree(), TABLE));
}

#[test]
fn each_room_has_a_row() {
    none(law::every_room_has_a_row(&tree(), TABLE));
}

#[test]
fn each_row_checks_something() {
    none(law::every_row_has_files(&tree(), TABLE, EXPECTED));
}

#[test]
fn one_file_of_mpi_over_am_chooses_the_fabric() {
    none(law::one_file_chooses_the_fabric(&tree()));
}

#[test]
fn architecture_holds_the_same_tables() {
    none(law::naming_table_is_written_down(&tree(), TABLE));
    none(law::unsafe_places_are_written_down(&tree(), UNSAFE_PLACES));
}

#[test]
fn unsafe_stays_in_its_places() {
    none(law::unsafe_stays_in_its_places(&tree(), UNSAFE_PLACES, EXPECTED));
}

#[test]
fn unsafe_has_reasons() {
    none(law::unsafe_has_reasons(&tree()));
}

#[test]
fn files_stay_short() {
    none(law::files_stay_short(&tree(), LONG_FILES));
}

#[test]
fn no_dbg_is_left_over() {
    none(law::no_left_over_dbg(&tree()));
}

#[test]
fn manifests_give_reasons() {
    none(law::manifests_give_reasons(&tree()));
}
