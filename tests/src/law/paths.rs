//! The paths that a source names, followed to where they lead.
//!
//! A path that starts with `crate`, `self`, `super` or the name of a crate is followed. One that starts otherwise leads to a child of the same
//! module or to something that a `use` brought in, and that `use` was looked at.

use super::lexer::{Kind, Token, after_closing};
use super::table::RESTRICTED;

/// A name and its line. Segments from the outermost: `["am-core", "engine", "packet"]`, `["std", "time"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) segments: Vec<String>,
    pub(super) line: u32,
}

/// Where a source stands, for the paths that start there.
#[derive(Clone, Debug)]
pub(super) struct Standpoint<'a> {
    /// What `crate` means.
    pub(super) root: &'a str,
    /// The module below the root.
    pub(super) module: Vec<String>,
    /// Names of other crates in paths, and what they are called here.
    pub(super) crates: &'a [(String, String)],
}

/// Macros that name a part of std without saying so.
const IO_MACROS: [&str; 4] = ["print", "println", "eprint", "eprintln"];

/// All names in the tokens of one source.
pub(super) fn names(tokens: &[Token], standpoint: &Standpoint<'_>) -> Vec<Name> {
    let mut scan =
        Scan { tokens, standpoint: standpoint.clone(), inline: Vec::new(), depth: 0, names: Vec::new() };
    let mut at = 0;
    while at < tokens.len() {
        at = scan.step(at);
    }
    scan.names
}

struct Scan<'a> {
    tokens: &'a [Token],
    standpoint: Standpoint<'a>,
    /// Depths at which inline modules opened.
    inline: Vec<usize>,
    depth: usize,
    names: Vec<Name>,
}

impl Scan<'_> {
    /// Looks at the token, and returns where to go on.
    fn step(&mut self, at: usize) -> usize {
        let tokens = self.tokens;
        match &tokens[at].kind {
            Kind::Mark('{') => self.depth += 1,
            Kind::Mark('}') => {
                self.depth = self.depth.saturating_sub(1);
                if self.inline.last() == Some(&self.depth) {
                    self.inline.pop();
                    self.standpoint.module.pop();
                }
            }
            Kind::Word(word) => return self.word(at, word),
            _ => {}
        }
        at + 1
    }

    fn word(&mut self, at: usize, word: &str) -> usize {
        let tokens = self.tokens;
        let next = tokens.get(at + 1);
        let follows = |mark| next.is_some_and(|token| token.is(mark));
        match word {
            // `use<'a>` in a bound captures lifetimes and names no path.
            "use" if !follows('<') => return self.tree(at + 1, &[]),
            "extern" if next.is_some_and(|token| token.is_word("crate")) => return self.tree(at + 2, &[]),
            // `pub(crate)` and `pub(in path)` say who may see, and name nothing.
            "pub" if follows('(') && is_visibility(tokens.get(at + 2)) => {
                return after_closing(tokens, at + 1);
            }
            "mod" if tokens.get(at + 2).is_some_and(|token| token.is('{')) => {
                if let Some(name) = next.and_then(Token::word) {
                    self.standpoint.module.push(name.to_owned());
                    self.inline.push(self.depth);
                    return at + 2;
                }
            }
            _ if IO_MACROS.contains(&word) && follows('!') => {
                self.push(&["std".to_owned(), "io".to_owned()], tokens[at].line);
            }
            _ if next.is_some_and(|token| token.kind == Kind::PathSeparator) && !self.is_continued(at) => {
                return self.inline_path(at);
            }
            _ => {}
        }
        at + 1
    }

    /// Whether the word at `at` goes on from a path or value before it.
    fn is_continued(&self, at: usize) -> bool {
        let before = |back: usize| at.checked_sub(back).map(|index| &self.tokens[index]);
        match before(1) {
            Some(token) if token.is('.') => true,
            Some(token) if token.kind == Kind::PathSeparator => before(2).is_some_and(|token| {
                // After `>` both `Vec<u8>::new` and `-> ::std::io::Result` can stand.
                (token.is('>') && !self.is_a_crate(at)) || token.word().is_some_and(|word| !is_keyword(word))
            }),
            _ => false,
        }
    }

    fn is_a_crate(&self, at: usize) -> bool {
        let word = self.tokens[at].word().unwrap_or_default();
        ["std", "core", "alloc"].contains(&word)
            || RESTRICTED.contains(&word)
            || self.standpoint.crates.iter().any(|(ident, _)| ident == word)
    }

    fn inline_path(&mut self, mut at: usize) -> usize {
        let line = self.tokens[at].line;
        let mut segments = Vec::new();
        while let Some(word) = self.tokens.get(at).and_then(Token::word) {
            segments.push(word.to_owned());
            at += 1;
            if self.tokens.get(at).is_none_or(|token| token.kind != Kind::PathSeparator) {
                break;
            }
            at += 1;
        }
        self.push(&segments, line);
        at
    }

    /// A use tree after `prefix`, up to and without the mark that ends it.
    fn tree(&mut self, mut at: usize, prefix: &[String]) -> usize {
        let mut path = prefix.to_vec();
        let mut line = self.tokens.get(at).map_or(0, |token| token.line);
        while let Some(token) = self.tokens.get(at) {
            match &token.kind {
                Kind::PathSeparator | Kind::Mark('$') => at += 1,
                Kind::Word(word) if word == "as" => at += 2,
                Kind::Word(word) => {
                    path.push(word.clone());
                    line = token.line;
                    at += 1;
                }
                Kind::Mark('*') => {
                    path.push("*".to_owned());
                    at += 1;
                }
                Kind::Mark('{') => {
                    at += 1;
                    while let Some(token) = self.tokens.get(at) {
                        if token.is('}') {
                            return at + 1;
                        }
                        at = if token.is(',') { at + 1 } else { self.tree(at, &path).max(at + 1) };
                    }
                    return at;
                }
                _ => break,
            }
        }
        self.push(&path, line);
        at
    }

    fn push(&mut self, path: &[String], line: u32) {
        let segments = self.follow(path);
        if !segments.is_empty() {
            self.names.push(Name { segments, line });
        }
    }

    /// The path from the outermost name on.
    fn follow(&self, path: &[String]) -> Vec<String> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        let from_module = |module: &[String], rest: &[String]| {
            let mut segments = vec![self.standpoint.root.to_owned()];
            segments.extend_from_slice(module);
            segments.extend(rest.iter().filter(|&segment| segment != "self").cloned());
            segments
        };
        let module = &self.standpoint.module;
        match first.as_str() {
            "crate" => from_module(&[], rest),
            "self" | "super" => {
                let ups = path
                    .iter()
                    .take_while(|&s| s == "super" || s == "self")
                    .filter(|&s| s == "super")
                    .count();
                let named =
                    path.iter().skip_while(|&s| s == "super" || s == "self").cloned().collect::<Vec<_>>();
                from_module(&module[..module.len().saturating_sub(ups)], &named)
            }
            _ => {
                let outer = match first.as_str() {
                    // The same things by another name.
                    "core" | "alloc" => "std",
                    name => self
                        .standpoint
                        .crates
                        .iter()
                        .find(|(ident, _)| ident == name)
                        .map_or(name, |(_, dir)| dir),
                };
                let mut segments = vec![outer.to_owned()];
                segments.extend(rest.iter().filter(|&segment| segment != "self").cloned());
                segments
            }
        }
    }
}

fn is_visibility(token: Option<&Token>) -> bool {
    token.and_then(Token::word).is_some_and(|word| matches!(word, "crate" | "self" | "super" | "in"))
}

/// Words that can stand before a path that starts with `::`.
fn is_keyword(word: &str) -> bool {
    const KEYWORDS: [&str; 12] =
        ["as", "dyn", "else", "for", "if", "impl", "in", "match", "mut", "return", "use", "where"];
    KEYWORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::lexer::lex;

    fn found(text: &str) -> Vec<String> {
        let crates = [("am_via".to_owned(), "am-via".to_owned())];
        let standpoint = Standpoint {
            root: "am-core",
            module: vec!["engine".to_owned(), "packet".to_owned()],
            crates: &crates,
        };
        names(&lex(text).tokens, &standpoint).into_iter().map(|name| name.segments.join("/")).collect()
    }

    #[test]
    fn use_trees_are_flattened() {
        assert_eq!(
            found(
                "pub(crate) use crate::{fabric::{self, Body as B}, *}; use super::{super::verbs, Engine}; x();"
            ),
            ["am-core/fabric", "am-core/fabric/Body", "am-core/*", "am-core/verbs", "am-core/engine/Engine"]
        );
        assert_eq!(
            found("use {std::time, core::sync::*}; use ::alloc::vec::Vec;"),
            ["std/time", "std/sync/*", "std/vec/Vec"]
        );
        assert_eq!(found("extern crate am_via as x; use am_via;"), ["am-via", "am-via"]);
    }

    #[test]
    fn inline_paths_are_found_wherever_they_stand() {
        assert_eq!(
            found(
                "fn f<T: am_via::shm::A>(x: &crate::fabric::B::<super::C>) -> ::std::io::Result<()> { a.b::<self::D>() }"
            ),
            [
                "am-via/shm/A",
                "am-core/fabric/B",
                "am-core/engine/C",
                "std/io/Result",
                "am-core/engine/packet/D"
            ]
        );
        assert_eq!(
            found("$crate::fabric::x!(); <T as super::super::verbs::V>::f::<u8>();"),
            ["am-core/fabric/x", "am-core/verbs/V"]
        );
        assert_eq!(found("println!(\"{}\", 1)"), ["std/io"]);
    }

    #[test]
    fn inline_modules_move_the_standpoint() {
        assert_eq!(
            found("mod a { fn f() { if x {} } mod b { use super::super::c; } use super::d; } use super::e;"),
            ["am-core/engine/packet/c", "am-core/engine/packet/d", "am-core/engine/e"]
        );
    }

    #[test]
    fn what_names_nothing_is_left_alone() {
        assert_eq!(
            found("pub(in crate::fabric) fn f(self) -> impl Sized + use<'_> { self.crate_name.a }"),
            [""; 0]
        );
    }
}
