//! Counts the lines of Rust code of the product's crates: lines that have a token which is neither a comment nor documentation, outside of
//! what is compiled for tests only. Left out are the folders and files `tests`, `testing`, `benches`, `conform`, `double`, and items under
//! `#[cfg(test)]` or the feature `testing`. A build script counts as code of its crate; what it writes does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The folders of the product's crates, from the workspace's root.
pub const PRODUCT: [&str; 3] = ["am-core", "am-via", "mpi-over-am"];
/// Names of folders, and of files without their ending, that are not code of the product.
const LEFT_OUT: [&str; 6] = ["tests", "testing", "benches", "conform", "double", "target"];

/// The number of lines of code of each crate below `root` (the root of a checkout), by the folder of the crate.
///
/// # Errors
/// A folder or a file cannot be read, a file is not Rust, or one of the product's folders holds no code.
pub fn of_checkout(root: &Path) -> Result<BTreeMap<String, usize>, String> {
    let mut crates = BTreeMap::new();
    for folder in PRODUCT {
        let before = crates.len();
        count(root, &root.join(folder), folder, &mut crates)?;
        if crates.len() == before {
            return Err(format!(
                "{} holds no crate; name the root of a checkout",
                root.join(folder).display()
            ));
        }
    }
    Ok(crates)
}

/// Adds the files of a folder to the count of their crate, the nearest folder that has a manifest.
fn count(
    root: &Path,
    folder: &Path,
    owner: &str,
    crates: &mut BTreeMap<String, usize>,
) -> Result<(), String> {
    let of = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let is_crate = folder.join("Cargo.toml").exists();
    let own = folder.strip_prefix(root).unwrap_or(folder).display().to_string();
    let owner = if is_crate { own.as_str() } else { owner };
    let entries = fs::read_dir(folder).map_err(|error| of(folder, &error))?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()).map_err(|error| of(folder, &error)))
        .collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if LEFT_OUT.iter().any(|name| stem == *name) {
            continue;
        }
        if path.is_dir() {
            count(root, &path, owner, crates)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).map_err(|error| of(&path, &error))?;
            *crates.entry(owner.to_owned()).or_default() +=
                of_text(&text).map_err(|error| of(&path, &error))?;
        }
    }
    Ok(())
}

/// The number of lines of code in a text.
///
/// # Errors
/// The text is not Rust.
pub fn of_text(text: &str) -> Result<usize, String> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("not Rust: {error}"))?;
    let mut lines = BTreeSet::new();
    add(tokens, &mut lines);
    Ok(lines.len())
}

/// Adds the lines of code in `tokens`.
fn add(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if matches!(&token, TokenTree::Punct(mark) if mark.as_char() == '#') {
            let is_inner =
                tokens.next_if(|next| matches!(next, TokenTree::Punct(mark) if mark.as_char() == '!'));
            if let Some(TokenTree::Group(attribute)) = tokens.peek()
                && attribute.delimiter() == Delimiter::Bracket
            {
                let is_documentation = starts_with(attribute.stream(), "doc");
                if is_documentation || is_of_tests(attribute.stream()) {
                    tokens.next();
                    if !is_documentation && is_inner.is_none() {
                        skip_item(&mut tokens);
                    }
                    continue;
                }
            }
        }
        match &token {
            TokenTree::Group(group) => {
                lines.insert(group.span_open().start().line);
                add(group.stream(), lines);
                lines.insert(group.span_close().end().line);
            }
            other => lines.extend(other.span().start().line..=other.span().end().line),
        }
    }
}

/// Passes over the item to which an attribute belongs: as far as its body in braces, its semicolon, or the comma behind a field or a
/// variant.
pub(crate) fn skip_item(tokens: &mut Peekable<impl Iterator<Item = TokenTree>>) {
    let is =
        |token: &TokenTree, wanted: char| matches!(token, TokenTree::Punct(mark) if mark.as_char() == wanted);
    let mut has_parameters = false;
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                tokens.next_if(|next| is(next, ';')); // of an import
                return;
            }
            TokenTree::Ident(word) => {
                has_parameters |=
                    ["fn", "impl", "struct", "enum", "trait", "type"].iter().any(|item| word == item);
            }
            token if is(token, ';') || is(token, ',') && !has_parameters => return,
            _ => {}
        }
    }
}

fn starts_with(attribute: TokenStream, name: &str) -> bool {
    matches!(attribute.into_iter().next(), Some(TokenTree::Ident(first)) if first == name)
}

/// Whether an attribute keeps its item out of a build that is neither for tests nor with the feature `testing`.
pub(crate) fn is_of_tests(attribute: TokenStream) -> bool {
    let text = attribute.to_string();
    let names = |name: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
    starts_with(attribute, "cfg") && (names("test") || names("testing")) && !names("not")
}

#[cfg(test)]
mod tests {
    use super::of_text;

    #[test]
    fn comments_documentation_and_tests_are_no_code() {
        let text = "//! A file.\n\n/// Adds.\n#[inline]\nfn add() -> u8 { // here\n    1\n\n}\n/* two\nlines */\n\
                    #[cfg(test)]\nmod tests {\n    fn no() {}\n}\nconst A: &str = \"// two\nlines\";\n";
        assert_eq!(of_text(text), Ok(6)); // the attribute, three of the function, two of the text
        assert_eq!(of_text("#[cfg(any(test, feature = \"testing\"))]\npub mod testing;\nmod a;\n"), Ok(1));
        assert_eq!(of_text("#[cfg(not(test))]\nmod a;\n"), Ok(2));
        assert_eq!(of_text("#[cfg(test)]\nfn a<A, B>() {\n}\n#[cfg(test)]\nuse b::{\nc};\nmod d;\n"), Ok(1));
        assert_eq!(of_text("struct A {\n#[cfg(test)]\na: u8,\nb: u8,\n}\n"), Ok(3));
        assert!(of_text("fn open( {").is_err());
    }

    #[test]
    fn each_part_of_the_product_is_counted() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's root");
        let crates = super::of_checkout(root).expect("a checkout");
        for name in super::PRODUCT {
            assert!(crates.get(name).is_some_and(|&lines| lines > 1000), "{name} in {crates:?}");
        }
        assert!(!crates.contains_key("am-via/conform"), "{crates:?}");
        assert!(super::of_checkout(&root.join("docs")).is_err());
    }
}
