//! Who names whom.

use std::collections::BTreeSet;

use super::lexer::{lex, take_out_test_modules};
use super::paths::{Name, Standpoint, names};
use super::table::{CRATES, Crate, RESTRICTED, Row};
use super::{Tree, Violation};

/// A source under the law.
struct Room<'a> {
    path: &'a str,
    krate: Crate,
    /// `am-core/engine/packet`; `am-core/lib` for the crate's root.
    place: String,
    text: &'a str,
}

/// What one file names. Files that are test modules are left out.
struct Named<'a> {
    room: Room<'a>,
    names: Vec<Name>,
    hides_sources: Option<u32>,
}

/// The one file that brings in a source which the build makes: the exports of the C interface.
const GENERATED: &str = "mpi-over-am/abi/src/lib.rs";

/// Each file names only what its row allows. Fails when there was no file to look at.
#[must_use]
pub fn names_stay_in_their_rows(tree: &Tree, table: &[Row]) -> Vec<Violation> {
    let modules = modules(tree, table);
    let all = all_named(tree);
    if all.is_empty() {
        return vec![Violation::new(
            "",
            0,
            "no source of a crate under the law was found: nothing was checked",
        )];
    }
    let mut violations = Vec::new();
    for named in &all {
        let Some(row) = row_of(&named.room.place, table) else { continue };
        if let Some(line) = named.hides_sources.filter(|_| named.room.path != GENERATED) {
            let what =
                "`include!` or `#[path]` brings in a source that the law would not see: make it a module";
            violations.push(Violation::new(named.room.path, line, what));
        }
        for name in &named.names {
            let target = target(name, &modules);
            if let Some(reason) = refusal(&named.room.place, &target, row, table) {
                violations.push(Violation::new(
                    named.room.path,
                    name.line,
                    format!("names `{target}`: {reason}"),
                ));
            }
        }
    }
    violations
}

/// Each file or folder directly under a crate's `src` has a row.
#[must_use]
pub fn every_room_has_a_row(tree: &Tree, table: &[Row]) -> Vec<Violation> {
    rooms(tree)
        .filter(|room| row_of(&room.place, table).is_none())
        .map(|room| {
            let what = format!(
                "`{}` has no row in the law's table: say there what it may name, and why",
                room.place
            );
            Violation::new(room.path, 0, what)
        })
        .collect()
}

/// Each place of the table has files, or is expected; each name in the table is a room that the table knows; nothing is both allowed and refused.
#[must_use]
pub fn every_row_has_files(tree: &Tree, table: &[Row], expected: &[&str]) -> Vec<Violation> {
    let here: Vec<_> = rooms(tree).map(|room| room.place).collect();
    let known: BTreeSet<_> = table.iter().flat_map(full_places).collect();
    let mut violations = Vec::new();
    let mut wrong = |what: String| violations.push(Violation::new("tests/src/law/table.rs", 0, what));
    for row in table {
        for place in full_places(row) {
            if !here.iter().any(|room| is_inside(room, &place)) && !expected.contains(&place.as_str()) {
                wrong(format!("`{place}` matches no file: its row checks nothing"));
            }
        }
        for name in row.may.iter().chain(row.must_not) {
            let is_known = full_names(row, name, table).iter().all(|full| {
                CRATES.iter().any(|krate| krate.dir == full)
                    || known.iter().any(|place| is_inside(full, place))
            });
            if !is_known && !is_foreign(name) {
                wrong(format!("`{name}` in the row of `{}` is no room of the table", row.places.join(", ")));
            }
        }
        for may in row.may {
            let may_full = full_names(row, may, table);
            let refused = row.must_not.iter().flat_map(|not| full_names(row, not, table));
            if refused.into_iter().any(|not| may_full.iter().any(|may| is_inside(may, &not))) {
                wrong(format!(
                    "`{may}` in the row of `{}` is both allowed and refused",
                    row.places.join(", ")
                ));
            }
        }
    }
    violations
}

/// One file of mpi-over-am, the ABI apart, names am-via. Before there is an `environment` that could, none does.
#[must_use]
pub fn one_file_chooses_the_fabric(tree: &Tree) -> Vec<Violation> {
    let all = all_named(tree);
    let mpi: Vec<_> = all.iter().filter(|named| named.room.krate.dir == "mpi-over-am").collect();
    let choosing: Vec<_> =
        mpi.iter().filter(|named| named.names.iter().any(|name| name.segments[0] == "am-via")).collect();
    let opens = mpi.iter().any(|named| is_inside(&named.room.place, "mpi-over-am/environment"));
    if choosing.len() > 1 {
        let what = "more than one file of mpi-over-am names am-via";
        choosing.iter().map(|named| Violation::new(named.room.path, 0, what)).collect()
    } else if opens && choosing.is_empty() {
        vec![Violation::new("mpi-over-am/src", 0, "no file names am-via: who chooses the fabric?")]
    } else {
        Vec::new()
    }
}

/// The sources of the crates under the law.
fn rooms(tree: &Tree) -> impl Iterator<Item = Room<'_>> {
    tree.sources().filter_map(|(path, text)| {
        let (krate, inside) = CRATES.iter().find_map(|krate| {
            Some((*krate, path.strip_prefix(krate.dir)?.strip_prefix("/src/")?.strip_suffix(".rs")?))
        })?;
        let inside = inside.strip_suffix("/mod").unwrap_or(inside);
        Some(Room { path, krate, place: format!("{}/{inside}", krate.dir), text })
    })
}

fn all_named(tree: &Tree) -> Vec<Named<'_>> {
    let crates: Vec<_> = CRATES.iter().map(|krate| (krate.ident.to_owned(), krate.dir.to_owned())).collect();
    let mut test_places = Vec::new();
    let mut all = Vec::new();
    for room in rooms(tree) {
        let mut tokens = lex(room.text).tokens;
        let (root, module) = standpoint(&room);
        let folder = [std::slice::from_ref(&root), &module].concat().join("/");
        test_places
            .extend(take_out_test_modules(&mut tokens).into_iter().map(|name| format!("{folder}/{name}")));
        let hides_sources = tokens
            .windows(3)
            .find(|three| {
                (three[0].is('[') && three[1].is_word("path") && three[2].is('='))
                    || (three[0].is_word("include") && three[1].is('!'))
            })
            .map(|three| three[0].line);
        let names = names(&tokens, &Standpoint { root: &root, module, crates: &crates });
        all.push(Named { room, names, hides_sources });
    }
    all.retain(|named| !test_places.iter().any(|place| is_inside(&named.room.place, place)));
    all
}

/// What `crate` means in a room, and the module below it. Each file of `bin` is a crate of its own.
fn standpoint(room: &Room<'_>) -> (String, Vec<String>) {
    let inside = room.place.strip_prefix(room.krate.dir).unwrap_or_default().trim_start_matches('/');
    if inside == "lib" {
        return (room.krate.dir.to_owned(), Vec::new());
    }
    if let Some(program) = inside.strip_prefix("bin/") {
        let mut module = program.split('/').map(str::to_owned);
        let name = module.next().unwrap_or_default();
        return (format!("{}/bin/{name}", room.krate.dir), module.filter(|part| part != "main").collect());
    }
    (room.krate.dir.to_owned(), inside.split('/').map(str::to_owned).collect())
}

/// The modules directly below each crate, as `am-core/engine`.
fn modules(tree: &Tree, table: &[Row]) -> BTreeSet<String> {
    let first_two = |krate: &str, place: &str| {
        let inside = place.strip_prefix(krate)?.strip_prefix('/')?;
        Some(format!("{krate}/{}", inside.split('/').next()?))
    };
    let in_tree = rooms(tree).filter_map(|room| first_two(room.krate.dir, &room.place));
    let in_table = table
        .iter()
        .flat_map(|row| full_places(row).into_iter().filter_map(|place| first_two(row.krate, &place)));
    in_tree.chain(in_table).collect()
}

/// A name as the table would say it. What is no module of a crate stands in its `lib`: `am-core/lib/Context`.
fn target(name: &Name, modules: &BTreeSet<String>) -> String {
    let (outer, rest) = name.segments.split_first().expect("a name has a first segment");
    let rest: Vec<_> = rest.iter().map(String::as_str).filter(|&segment| segment != "*").collect();
    let is_crate = CRATES.iter().any(|krate| krate.dir == outer);
    match rest.first() {
        None => outer.clone(),
        Some(first) if is_crate && !modules.contains(&format!("{outer}/{first}")) => {
            format!("{outer}/lib/{}", rest.join("/"))
        }
        Some(_) => format!("{outer}/{}", rest.join("/")),
    }
}

/// Why a row refuses a name; `None` if it does not.
fn refusal(place: &str, target: &str, row: &Row, table: &[Row]) -> Option<String> {
    let refused = all_full_names(row, row.must_not, table);
    // One name can hold another: `use std::{self}` lets `std::time` in by another path.
    if refused.iter().any(|name| is_inside(target, name) || is_inside(name, target)) {
        return Some(format!("`{place}` must not ({})", row.why));
    }
    let outer = target.split('/').next().unwrap_or_default();
    let in_law = CRATES.iter().any(|krate| krate.dir == outer);
    if !in_law && !RESTRICTED.contains(&outer) {
        return None;
    }
    let allowed = [full_places(row), all_full_names(row, row.may, table)].concat();
    if allowed.iter().any(|name| is_inside(target, name)) {
        return None;
    }
    let may = if row.may.is_empty() { "no other room".to_owned() } else { row.may.join(", ") };
    let hint = match row_of(target, table) {
        _ if target.contains("/lib/") => {
            "; inside its crate a thing is named where it lives, not by the crate's root"
        }
        Some(_) => "",
        None => "; is it a room without a row, or a whole crate?",
    };
    Some(format!("`{place}` may name {may} ({}){hint}", row.why))
}

/// The row whose place is the innermost around `place`.
fn row_of<'a>(place: &str, table: &'a [Row]) -> Option<&'a Row> {
    table
        .iter()
        .filter_map(|row| {
            let depth = full_places(row).iter().filter(|own| is_inside(place, own)).map(String::len).max()?;
            Some((depth, row))
        })
        .max_by_key(|(depth, _)| *depth)
        .map(|(_, row)| row)
}

fn full_places(row: &Row) -> Vec<String> {
    row.places.iter().map(|place| format!("{}/{place}", row.krate)).collect()
}

fn all_full_names(row: &Row, names: &[&str], table: &[Row]) -> Vec<String> {
    names.iter().flat_map(|name| full_names(row, name, table)).collect()
}

/// What a name of the table stands for, in full and with `/` between its parts.
fn full_names(row: &Row, name: &str, table: &[Row]) -> Vec<String> {
    if is_foreign(name) {
        vec![name.replace("::", "/")]
    } else if CRATES.iter().any(|krate| is_inside(name, krate.dir)) {
        vec![name.to_owned()]
    } else if let Some(called) = table.iter().find(|other| other.krate == row.krate && other.called == name) {
        full_places(called)
    } else {
        vec![format!("{}/{name}", row.krate)]
    }
}

fn is_foreign(name: &str) -> bool {
    let outer = name.split("::").next().unwrap_or_default();
    outer == "std" || RESTRICTED.contains(&outer)
}

fn is_inside(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Row] = &[
        Row { krate: "am-core", called: "", places: &["lib"], may: &["am-core"], must_not: &[], why: "" },
        Row { krate: "am-core", called: "", places: &["error"], may: &[], must_not: &[], why: "" },
        Row {
            krate: "am-core",
            called: "",
            places: &["engine"],
            may: &["error"],
            must_not: &["fabric", "std::time"],
            why: "",
        },
        Row {
            krate: "am-core",
            called: "",
            places: &["fabric", "port"],
            may: &["error"],
            must_not: &[],
            why: "",
        },
        Row {
            krate: "am-via",
            called: "",
            places: &["device"],
            may: &["shm/os"],
            must_not: &["am-core"],
            why: "",
        },
        Row {
            krate: "am-via",
            called: "",
            places: &["shm"],
            may: &["libc"],
            must_not: &["std::sync::atomic"],
            why: "",
        },
        Row { krate: "am-via", called: "", places: &["shm/atomics"], may: &[], must_not: &[], why: "" },
        Row { krate: "am-via", called: "", places: &["bin", "launch"], may: &[], must_not: &[], why: "" },
    ];

    fn refused(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::made_up(&[
            ("am-core/src/lib.rs", "pub use fabric::Fabric;"),
            ("am-core/src/fabric.rs", "use crate::error; use crate::port; use crate::fabric::x;"),
            (path, text),
        ]);
        let found = names_stay_in_their_rows(&tree, TABLE);
        assert!(found.iter().all(|violation| violation.file == path), "{found:?}");
        found
            .into_iter()
            .filter_map(|violation| violation.what.split('`').nth(1).map(str::to_owned))
            .collect()
    }

    #[test]
    fn what_the_row_allows_passes() {
        let text = "use crate::error::E; use super::error; use std::fmt; use crate::engine::packet::P; use smallvec::S;";
        assert_eq!(refused("am-core/src/engine/mod.rs", text), [""; 0]);
        assert_eq!(
            refused("am-via/src/device/shm/mod.rs", "use crate::shm::os::x; use super::y; shm::z();"),
            [""; 0]
        );
        assert_eq!(refused("am-via/src/bin/amrun.rs", "use crate::own; use am_via::launch::run;"), [""; 0]);
        assert_eq!(refused("am-via/src/shm/atomics.rs", "pub use core::sync::atomic::*;"), [""; 0]);
    }

    #[test]
    fn each_way_to_name_a_refused_room_is_found() {
        for text in [
            "use crate::fabric::F;",
            "use crate::{error, fabric};",
            "use super::super::fabric as f;",
            "fn f(x: &mut crate::fabric::F) {}",
            "fn f<T>() where T: am_core::fabric::F {}",
            "macro_rules! m { () => { $crate::fabric::f() } }",
            "mod inner { use super::super::super::fabric; }",
        ] {
            let found = refused("am-core/src/engine/packet.rs", text);
            assert!(found.len() == 1 && found[0].starts_with("am-core/fabric"), "{text}: {found:?}");
        }
    }

    #[test]
    fn the_root_of_the_crate_is_no_way_round() {
        for text in
            ["use crate::*;", "use crate as root;", "use crate::{self as root};", "use super::super::*;"]
        {
            assert_eq!(refused("am-core/src/engine/packet.rs", text), ["am-core"], "{text}");
        }
        assert_eq!(refused("am-core/src/engine/packet.rs", "use crate::Fabric;"), ["am-core/lib/Fabric"]);
    }

    #[test]
    fn refused_parts_of_std_and_restricted_crates_are_found() {
        let path = "am-core/src/engine/mod.rs";
        assert_eq!(refused(path, "use std::{fmt, time::{self, Instant}};"), ["std/time", "std/time/Instant"]);
        assert_eq!(refused(path, "fn f() -> core::time::Duration {}"), ["std/time/Duration"]);
        assert_eq!(refused(path, "use std as s; use ::std::*;"), ["std", "std"]);
        assert_eq!(refused(path, "libc::getpid();"), ["libc/getpid"]);
        assert_eq!(
            refused("am-via/src/shm/ring.rs", "use std::sync::{Arc, atomic::Ordering};"),
            ["std/sync/atomic/Ordering"]
        );
    }

    #[test]
    fn a_room_inside_an_allowed_room_is_not_the_whole() {
        assert_eq!(
            refused("am-via/src/device/mod.rs", "use crate::shm; use crate::shm::ring::R;"),
            ["am-via/shm", "am-via/shm/ring/R"]
        );
        assert_eq!(refused("am-via/src/device/mod.rs", "use am_core::error;"), ["am-core/error"]);
    }

    #[test]
    fn comments_strings_and_test_modules_may_say_anything() {
        let text = "// use crate::fabric;\nconst A: &str = \"crate::fabric::F\"; #[cfg(test)] mod tests { use crate::fabric; }";
        assert_eq!(refused("am-core/src/engine/mod.rs", text), [""; 0]);
        let tree = Tree::made_up(&[
            ("am-core/src/engine/mod.rs", "#[cfg(test)] mod tests;"),
            ("am-core/src/engine/tests.rs", "use crate::fabric;"),
            ("am-core/src/engine/tests/more.rs", "use crate::fabric;"),
        ]);
        assert_eq!(names_stay_in_their_rows(&tree, TABLE), []);
    }

    #[test]
    fn hidden_sources_are_found() {
        for text in ["#[path = \"x.rs\"] mod x;", "include!(\"x.rs\");"] {
            let tree = Tree::made_up(&[("am-core/src/engine/mod.rs", text)]);
            assert_eq!(names_stay_in_their_rows(&tree, TABLE).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_room_without_a_row_is_found() {
        let tree = Tree::made_up(&[
            ("am-core/src/engine/mod.rs", ""),
            ("am-core/src/attic/mod.rs", ""),
            ("am-via/src/shmem.rs", ""),
        ]);
        let found: Vec<_> = every_room_has_a_row(&tree, TABLE).into_iter().map(|found| found.file).collect();
        assert_eq!(found, ["am-core/src/attic/mod.rs", "am-via/src/shmem.rs"]);
    }

    #[test]
    fn a_row_that_matches_nothing_is_found_unless_expected() {
        let table = &TABLE[..4];
        let tree = Tree::made_up(&[
            ("am-core/src/lib.rs", ""),
            ("am-core/src/error.rs", ""),
            ("am-core/src/engine/mod.rs", ""),
            ("am-core/src/fabric.rs", ""),
        ]);
        let found = every_row_has_files(&tree, table, &[]);
        assert!(found.len() == 1 && found[0].what.contains("am-core/port"), "{found:?}");
        assert_eq!(every_row_has_files(&tree, table, &["am-core/port"]), []);
    }

    #[test]
    fn a_wrong_table_is_found() {
        let tree = Tree::made_up(&[("am-core/src/error.rs", "")]);
        let row = |may, must_not| {
            [Row { krate: "am-core", called: "", places: &["error"], may, must_not, why: "" }]
        };
        assert_eq!(every_row_has_files(&tree, &row(&["enigne"], &[]), &[]).len(), 1);
        assert_eq!(every_row_has_files(&tree, &row(&["error"], &["error"]), &[]).len(), 1);
        assert_eq!(every_row_has_files(&tree, &row(&["am-via", "libc"], &["std::io"]), &[]), []);
    }

    #[test]
    fn a_row_can_be_named_as_a_whole() {
        let row = |called, places, may| Row { krate: "am-core", called, places, may, must_not: &[], why: "" };
        let table = [
            row("nouns", &["task", "error"], &[]),
            row("", &["engine"], &["nouns"]),
            row("", &["fabric"], &["noun"]),
        ];
        let tree = Tree::made_up(&[
            ("am-core/src/task.rs", "use crate::error::E;"),
            ("am-core/src/error.rs", ""),
            ("am-core/src/engine.rs", "use crate::{error, task};"),
            ("am-core/src/fabric.rs", "use crate::error;"),
        ]);
        let found: Vec<_> =
            names_stay_in_their_rows(&tree, &table).into_iter().map(|found| found.file).collect();
        assert_eq!(found, ["am-core/src/fabric.rs"]);
        assert_eq!(every_row_has_files(&tree, &table, &[]).len(), 1);
    }

    #[test]
    fn nothing_to_check_is_a_violation() {
        assert_eq!(names_stay_in_their_rows(&Tree::default(), TABLE).len(), 1);
    }

    #[test]
    fn one_file_of_mpi_names_the_fabric() {
        let file = |name: &'static str| (name, "use am_via::fabric::Via;");
        let count = |files: &[_]| one_file_chooses_the_fabric(&Tree::made_up(files)).len();
        assert_eq!(count(&[file("mpi-over-am/src/environment.rs"), file("mpi-over-am/abi/src/lib.rs")]), 0);
        assert_eq!(count(&[file("mpi-over-am/src/environment.rs"), file("mpi-over-am/src/rank.rs")]), 2);
        assert_eq!(count(&[("mpi-over-am/src/environment.rs", "")]), 1);
        assert_eq!(count(&[("mpi-over-am/src/rank.rs", "")]), 0);
    }
}
