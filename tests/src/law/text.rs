//! Rules on the text of a file: where `unsafe` stands and what stands above it, how long a file is, what was left over.

use super::lexer::{Kind, Source, Token, after_closing, lex};
use super::table::UnsafePlace;
use super::{Tree, Violation};

/// A SAFETY note stands this many lines above its block, at most.
const SAFETY_LINES_MAX: u32 = 12;
/// Where functions have the contract that MPI's standard gives them.
const CALLED_FROM_C: &str = "mpi-over-am/abi/";
/// A file has this many lines, at most.
const FILE_LINES_MAX: usize = 800;

/// `unsafe` stands only in `places`, and each of these has some or is expected.
#[must_use]
pub fn unsafe_stays_in_its_places(tree: &Tree, places: &[UnsafePlace], expected: &[&str]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut used = vec![false; places.len()];
    for (path, text) in tree.sources() {
        let tokens = lex(text).tokens;
        for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.is_word("unsafe")) {
            let allowed = places.iter().position(|place| {
                let inside =
                    path.strip_prefix(place.path).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
                inside && (!place.raw_only || is_in_raw_function(&tokens, at))
            });
            match allowed {
                Some(index) => used[index] = true,
                None => violations.push(Violation::new(
                    path,
                    token.line,
                    "`unsafe` outside the places that ARCHITECTURE.md lists: use their safe wrappers, or move it there",
                )),
            }
        }
    }
    for (place, _) in places.iter().zip(used).filter(|(place, used)| !used && !expected.contains(&place.path))
    {
        violations.push(Violation::new(
            place.path,
            0,
            "has no `unsafe`: take it off the list of unsafe places",
        ));
    }
    violations
}

/// Each unsafe block, impl and extern block has a SAFETY note above it or on its line. Where every function is called by C, under
/// one contract, a note in the file's own documentation (`//! SAFETY:`) stands for all of them.
#[must_use]
pub fn unsafe_has_reasons(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.sources() {
        let source = lex(text);
        let contract =
            path.starts_with(CALLED_FROM_C) && text.lines().any(|line| line.starts_with("//! SAFETY:"));
        for (at, token) in source.tokens.iter().enumerate().filter(|(_, token)| token.is_word("unsafe")) {
            if contract {
                break;
            }
            if needs_note(&source.tokens[at + 1..]) && !has_note(&source, token.line) {
                violations.push(Violation::new(
                    path,
                    token.line,
                    format!(
                        "no `SAFETY:` note on this line or the {SAFETY_LINES_MAX} above: list the conditions and where each was made true"
                    ),
                ));
            }
        }
    }
    violations
}

/// No file is longer than anybody wants to scroll, but for `exceptions` (path and reason), which must be.
#[must_use]
pub fn files_stay_short(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.sources() {
        let lines = text.lines().count();
        let excepted = exceptions.iter().any(|&(exception, _)| exception == path);
        if lines > FILE_LINES_MAX && !excepted {
            let what = format!("{lines} lines, of {FILE_LINES_MAX} at most: split it by noun or by protocol");
            violations.push(Violation::new(path, 0, what));
        } else if lines <= FILE_LINES_MAX && excepted {
            violations.push(Violation::new(path, 0, "is short: take it off the list of exceptions"));
        }
    }
    for &(path, reason) in exceptions {
        if tree.text(path).is_none() || reason.is_empty() {
            violations.push(Violation::new(path, 0, "an exception without a file or without a reason"));
        }
    }
    violations
}

/// No `dbg!` was left over.
#[must_use]
pub fn no_left_over_dbg(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.sources() {
        let tokens = lex(text).tokens;
        for two in tokens.windows(2).filter(|two| two[0].is_word("dbg") && two[1].is('!')) {
            violations.push(Violation::new(path, two[0].line, "`dbg!` was left over"));
        }
    }
    violations
}

/// Whether what follows the word `unsafe` makes a promise to the compiler here: a block, an impl, an extern block. A function, a trait or a
/// function type only asks for one, and an attribute stands under its item's note.
fn needs_note(after: &[Token]) -> bool {
    let mut after = after.iter();
    match after.next().map(|token| &token.kind) {
        Some(Kind::Mark('{')) => true,
        Some(Kind::Word(word)) if word == "impl" => true,
        Some(Kind::Word(word)) if word == "extern" => {
            after.find(|token| token.kind != Kind::Literal).is_some_and(|token| token.is('{'))
        }
        _ => false,
    }
}

fn has_note(source: &Source, line: u32) -> bool {
    let lines = line.saturating_sub(SAFETY_LINES_MAX)..=line;
    source.comments.iter().any(|comment| lines.contains(&comment.line) && comment.text.contains("SAFETY:"))
}

/// Whether the `unsafe` at `at` declares a function `*_raw`, or stands inside one.
fn is_in_raw_function(tokens: &[Token], at: usize) -> bool {
    tokens.iter().enumerate().take(at + 3).any(|(index, token)| {
        let raw = token.is_word("fn")
            && tokens.get(index + 1).and_then(Token::word).is_some_and(|name| name.ends_with("_raw"));
        if !raw {
            return false;
        }
        // The parameters, then the body: the first brace after them.
        let parameters = (index..tokens.len()).find(|&i| tokens[i].is('('));
        let signature_end = parameters.map_or(tokens.len(), |open| after_closing(tokens, open));
        let body = (signature_end..tokens.len()).find(|&i| tokens[i].is('{')).unwrap_or(tokens.len());
        let declares = at + 1 == index;
        declares || (at > body && at < after_closing(tokens, body))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: &[UnsafePlace] = &[
        UnsafePlace { path: "a/shm", raw_only: false, why: "" },
        UnsafePlace { path: "a/buffer", raw_only: false, why: "" },
        UnsafePlace { path: "a/verbs", raw_only: true, why: "" },
    ];
    const IN_PLACE: [(&str, &str); 3] = [
        ("a/shm/x.rs", "unsafe {}"),
        ("a/buffer.rs", "unsafe impl A for B {}"),
        (
            "a/verbs/put.rs",
            "pub unsafe fn put_raw(x: u8) -> Result<()> where A: B { if c {} unsafe { d() } }",
        ),
    ];

    #[test]
    fn unsafe_in_its_places_passes() {
        assert_eq!(unsafe_stays_in_its_places(&Tree::made_up(&IN_PLACE), PLACES, &[]), []);
        assert_eq!(unsafe_stays_in_its_places(&Tree::made_up(&IN_PLACE[..2]), PLACES, &["a/verbs"]), []);
    }

    #[test]
    fn unsafe_elsewhere_is_found() {
        for (path, text) in [
            ("a/shmem.rs", "unsafe {}"),
            ("a/buffers/x.rs", "unsafe fn f() {}"),
            ("a/verbs/get.rs", "fn get_raw(f: fn()) {} fn g() { unsafe {} }"),
            ("a/verbs/get.rs", "unsafe fn get() {}"),
        ] {
            let tree = Tree::made_up(&[&IN_PLACE[..], &[(path, text)]].concat());
            let found = unsafe_stays_in_its_places(&tree, PLACES, &[]);
            assert!(found.len() == 1 && found[0].file == path, "{text}: {found:?}");
        }
        let comment = ("a/other.rs", "// unsafe { }\n#![forbid(unsafe_code)]");
        assert_eq!(
            unsafe_stays_in_its_places(&Tree::made_up(&[&IN_PLACE[..], &[comment]].concat()), PLACES, &[]),
            []
        );
    }

    #[test]
    fn a_place_without_unsafe_is_found() {
        assert_eq!(unsafe_stays_in_its_places(&Tree::made_up(&IN_PLACE[..2]), PLACES, &[]).len(), 1);
    }

    #[test]
    fn a_missing_note_is_found() {
        let lines = |text: &str| -> Vec<u32> {
            unsafe_has_reasons(&Tree::made_up(&[("a.rs", text)])).iter().map(|found| found.line).collect()
        };
        assert_eq!(lines("unsafe { a() }"), [1]);
        assert_eq!(lines("unsafe impl A for B {}"), [1]);
        assert_eq!(lines("unsafe extern \"C\" { fn a(); }"), [1]);
        assert_eq!(lines("// SAFETY: a\nunsafe { a() }"), [0; 0]);
        assert_eq!(lines("unsafe { a() } // SAFETY: a"), [0; 0]);
        assert_eq!(lines("unsafe fn a() {} unsafe trait B {} type C = unsafe extern \"C\" fn();"), [0; 0]);
        assert_eq!(lines("const A: &str = \"SAFETY:\"; unsafe { a() }"), [1]);
        assert_eq!(lines(&format!("// SAFETY: far\n{}unsafe {{ a() }}", "\n".repeat(12))), [14]);
        assert_eq!(lines(&format!("// SAFETY: near\n{}unsafe {{ a() }}", "\n".repeat(11))), [0; 0]);
    }

    #[test]
    fn long_files_are_found() {
        let long = "\n".repeat(801);
        let tree = Tree::made_up(&[("long.rs", &long), ("short.rs", "")]);
        assert_eq!(files_stay_short(&tree, &[]).len(), 1);
        assert_eq!(files_stay_short(&tree, &[("long.rs", "a table")]), []);
        assert_eq!(files_stay_short(&tree, &[("long.rs", "a table"), ("short.rs", "why?")]).len(), 1);
        assert_eq!(files_stay_short(&tree, &[("long.rs", "a table"), ("gone.rs", "why?")]).len(), 1);
    }

    #[test]
    fn left_over_dbg_is_found() {
        let tree = Tree::made_up(&[("a.rs", "// dbg!(1)\nfn f() { dbg!(2); dbg; }")]);
        assert_eq!(no_left_over_dbg(&tree).iter().map(|found| found.line).collect::<Vec<_>>(), [2]);
    }
}
