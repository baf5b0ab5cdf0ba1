//! The imports between the modules of a crate, read from its sources, and the circles among them.
//!
//! A module may import from its own parts and from the modules that contain it. Modules beside each other, each with all its parts, import
//! each other in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use crate::code_lines::{is_of_tests, skip_item};

/// The modules from the crate's root to a file. The root is the empty path.
type Module = Vec<String>;
/// The names of a path.
type Names = Vec<String>;

/// A circle: modules beside each other whose imports lead from each of them to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The module that contains them.
    pub parent: String,
    /// Their names, in alphabetical order.
    pub modules: Vec<String>,
    /// The imports between them, each as `importing file: path`.
    pub imports: Vec<String>,
}

/// What the check needs to know of a file.
#[derive(Debug, Default)]
struct File {
    uses: Vec<Use>,
    /// The paths in the code outside of `use`, single names included.
    paths: Vec<Names>,
    /// The items of the file.
    items: BTreeSet<String>,
}

#[derive(Debug)]
struct Use {
    path: Names,
    /// The name that is imported. None: all names of the path's module.
    name: Option<String>,
    is_public: bool,
}

/// The imports of a crate: from each file to the files whose items it names, with the paths that name them.
#[derive(Debug)]
pub struct Imports(BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>);

impl Imports {
    /// The imports of the crate whose root, `lib.rs` or `main.rs`, is in the folder `src`, apart from tests and other binaries.
    ///
    /// # Errors
    /// A file cannot be read, or is not Rust.
    pub fn of_crate(src: &Path) -> Result<Self, String> {
        let mut files = BTreeMap::new();
        read(src, &mut Vec::new(), &mut files)?;
        Ok(Self::between(&files))
    }

    fn between(files: &BTreeMap<Module, File>) -> Self {
        let mut imports: BTreeMap<Module, BTreeMap<_, BTreeSet<_>>> = BTreeMap::new();
        for (module, file) in files {
            let own = imports.entry(module.clone()).or_default();
            // A name that is only passed on is no import.
            let is_used =
                |name: &String| file.paths.iter().any(|path| path.first().is_some_and(|first| first == name));
            let used =
                file.uses.iter().filter(|used| !used.is_public || used.name.as_ref().is_none_or(is_used));
            for path in used.map(|used| &used.path).chain(file.paths.iter().filter(|path| path.len() > 1)) {
                if let Some(from) = resolve(files, module, path, 0).filter(|from| from != module) {
                    own.entry(from).or_default().insert(path.join("::"));
                }
            }
        }
        Self(imports)
    }

    /// The number of pairs of files of which one imports from the other.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// All circles among modules beside each other.
    #[must_use]
    pub fn circles(&self) -> Vec<Circle> {
        let parents: BTreeSet<&[String]> =
            self.0.keys().flat_map(|module| (0..module.len()).map(|len| &module[..len])).collect();
        parents.into_iter().flat_map(|parent| self.circles_in(parent)).collect()
    }

    fn circles_in(&self, parent: &[String]) -> Vec<Circle> {
        let child = |module: &Module| module.strip_prefix(parent).and_then(|rest| rest.first().cloned());
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut named = Vec::new();
        for (module, imports) in &self.0 {
            let Some(importing) = child(module) else { continue };
            graph.entry(importing.clone()).or_default();
            for (from, paths) in imports {
                if let Some(from) = child(from).filter(|from| *from != importing) {
                    graph.entry(importing.clone()).or_default().insert(from.clone());
                    let paths = paths.iter().map(|path| format!("{}: {path}", module.join("::")));
                    named.push((importing.clone(), from, paths.collect::<Vec<_>>()));
                }
            }
        }
        let mut circles = Vec::new();
        let mut done = BTreeSet::new();
        for module in graph.keys() {
            if !done.insert(module) {
                continue;
            }
            let ahead = reached(&graph, module);
            let modules: Vec<String> = graph
                .keys()
                .filter(|other| ahead.contains(*other) && reached(&graph, other).contains(module))
                .cloned()
                .collect();
            if modules.is_empty() {
                continue;
            }
            done.extend(graph.keys().filter(|other| modules.contains(other)));
            let inside = named.iter().filter(|(to, from, _)| modules.contains(to) && modules.contains(from));
            let imports = inside.flat_map(|(.., paths)| paths.clone()).collect();
            circles.push(Circle { parent: parent.join("::"), modules, imports });
        }
        circles
    }
}

/// The modules to which imports lead from a module.
fn reached(graph: &BTreeMap<String, BTreeSet<String>>, module: &str) -> BTreeSet<String> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![module.to_owned()]);
    while let Some(name) = next.pop() {
        let imports = graph.get(&name).into_iter().flatten();
        next.extend(imports.filter(|name| seen.insert((*name).clone())).cloned());
    }
    seen
}

/// Reads the files of a module's folder.
fn read(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, File>) -> Result<(), String> {
    let of = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    for entry in fs::read_dir(folder).map_err(|error| of(folder, &error))? {
        let path = entry.map_err(|error| of(folder, &error))?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with("tests") || name == "testing" || (name == "bin" && module.is_empty()) {
            continue;
        }
        let is_own = ["mod", "lib", "main"].contains(&&*name);
        if !is_own {
            module.push(name);
        }
        if path.is_dir() {
            read(&path, module, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).map_err(|error| of(&path, &error))?;
            files.insert(module.clone(), File::of(&text).map_err(|error| of(&path, &error))?);
        }
        if !is_own {
            module.pop();
        }
    }
    Ok(())
}

/// The module whose file has the item that a path names in `module`, behind re-exports. None: it is not of this crate.
fn resolve(files: &BTreeMap<Module, File>, module: &Module, path: &[String], depth: usize) -> Option<Module> {
    let is_file = |module: &Module, name: &String| {
        files.contains_key(&[&module[..], std::slice::from_ref(name)].concat())
    };
    let mut at = module.clone();
    let mut path = path;
    match path.first()?.as_str() {
        "crate" => (at, path) = (Vec::new(), &path[1..]),
        "self" => path = &path[1..],
        "super" => {
            while path.first().is_some_and(|name| name == "super") {
                at.pop()?;
                path = &path[1..];
            }
        }
        _ if is_file(&at, &path[0]) => {}
        _ => return None,
    }
    while let Some((name, rest)) = path.split_first() {
        if is_file(&at, name) {
            at.push(name.clone());
            path = rest;
            continue;
        }
        let file = files.get(&at)?;
        let mut passed_on = file.uses.iter().filter(|used| used.name.as_ref() == Some(name));
        if let Some(used) = passed_on.next().filter(|_| depth < 16) {
            return resolve(files, &at, &used.path, depth + 1);
        }
        if !file.items.contains(name) && depth < 16 {
            let all = file.uses.iter().filter(|used| used.name.is_none());
            let mut sources = all.filter_map(|used| {
                let path = [&used.path[..], std::slice::from_ref(name)].concat();
                resolve(files, &at, &path, depth + 1).filter(|source| files[source].items.contains(name))
            });
            if let Some(source) = sources.next() {
                return Some(source);
            }
        }
        break;
    }
    files.contains_key(&at).then_some(at)
}

impl File {
    fn of(text: &str) -> Result<Self, String> {
        let tokens: TokenStream = text.parse().map_err(|error| format!("not Rust: {error}"))?;
        let mut words = Vec::new();
        flatten(tokens, &mut words);
        let mut file = Self::default();
        // For each brace that is open, whether it is that of a module inside the file.
        let mut braces = Vec::new();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let before = at.checked_sub(1).map_or("", |before| &*words[before]);
            let inner = braces.iter().filter(|is_module| **is_module).count();
            match word.as_str() {
                "{" => braces.push(at > 1 && words[at - 2] == "mod"),
                "}" => drop(braces.pop()),
                "use" if before != "r#" => {
                    let len = words[at..].iter().position(|word| word == ";").unwrap_or(words.len() - at);
                    let is_public = before == "pub" || before == ")";
                    file.add_tree(&[], &words[at + 1..at + len], inner, is_public);
                    at += len;
                }
                _ if !is_name(word) || before == "." => {}
                _ => {
                    if ITEMS.contains(&before) && braces.is_empty()
                        || before == "!" && words[at - 2] == "macro_rules"
                    {
                        file.items.insert(word.clone());
                    }
                    let start = at;
                    while words.get(at + 1).is_some_and(|word| word == "::")
                        && words.get(at + 2).is_some_and(|word| is_name(word))
                    {
                        at += 2;
                    }
                    // A path that goes on from something else, such as `$crate::`, is no path of this file.
                    if before != "::" && before != "$" {
                        file.paths.push(leave(words[start..=at].iter().filter(|word| *word != "::"), inner));
                    }
                }
            }
            at += 1;
        }
        Ok(file)
    }

    /// Adds the imports of a tree of `use`, whose paths begin with `before`.
    fn add_tree(&mut self, before: &[String], tree: &[String], inner: usize, is_public: bool) {
        let len = tree.iter().position(|word| word == "{" || word == "as").unwrap_or(tree.len());
        let mut path: Names =
            before.iter().chain(tree[..len].iter().filter(|word| *word != "::")).cloned().collect();
        if tree.get(len).is_some_and(|word| word == "{") {
            let (mut depth, mut start) = (0, len + 1);
            for (at, word) in tree.iter().enumerate().skip(len) {
                depth += i32::from(word == "{") - i32::from(word == "}");
                if (depth == 1 && word == ",") || depth == 0 {
                    if start < at {
                        self.add_tree(&path, &tree[start..at], inner, is_public);
                    }
                    start = at + 1;
                }
            }
            return;
        }
        path.pop_if(|last| last == "self");
        let mut name = path.last().cloned();
        if path.pop_if(|last| last == "*").is_some() {
            name = None;
        }
        name = tree.get(len + 1).cloned().or(name);
        self.uses.push(Use { path: leave(path.iter(), inner), name, is_public });
    }
}

const ITEMS: [&str; 9] = ["struct", "enum", "union", "trait", "fn", "type", "const", "static", "mod"];

/// A path as the file itself would write it, from a path in a module inside the file.
fn leave<'a>(path: impl Iterator<Item = &'a String>, inner: usize) -> Names {
    let mut left = 0;
    let is_left = |word: &&String| {
        left += 1;
        left <= inner && (*word == "super" || *word == "self")
    };
    path.skip_while(is_left).cloned().collect()
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Adds the words and marks of the tokens, apart from documentation and what is compiled for tests only.
fn flatten(tokens: TokenStream, words: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) =
                    tokens.next_if(|next| matches!(next, TokenTree::Group(_)))
                    && is_of_tests(attribute.stream())
                {
                    skip_item(&mut tokens);
                }
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' && mark.spacing() == Spacing::Joint => {
                tokens.next();
                words.push("::".to_owned());
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                words.push(open.to_owned());
                flatten(group.stream(), words);
                words.push(close.to_owned());
            }
            TokenTree::Literal(_) => words.push("0".to_owned()),
            other => words.push(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let file = |text: &str| File::of(text).expect("Rust");
        let module =
            |path: &str| path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let files = files.iter().map(|(path, text)| (module(path), file(text))).collect();
        Imports::between(&files).circles().into_iter().map(|circle| circle.modules).collect()
    }

    #[test]
    fn files_beside_each_other_import_in_one_direction() {
        let root = ("", "mod a; mod b; pub use a::A; pub use b::{self, inner::{B, C as D}};");
        let is_circle = |a: &str, b: &str| {
            !circles(&[root, ("a", a), ("b", b), ("b/inner", "pub struct B; pub struct C;")]).is_empty()
        };
        let a = "pub struct A; use crate::b::inner::B;";
        assert!(!is_circle(a, "// use crate::a::A;\nmod inner; pub struct A;"));
        for b in [
            "use crate::A;",
            "fn f() { super::a::A; }",
            "pub use super::A; type T = A;",
            "mod m { use super::super::a::{A}; }",
        ] {
            assert!(is_circle(a, b), "{b}");
        }
        for b in [
            "pub use super::A;",
            "#[cfg(test)] mod tests { use crate::A; }",
            "fn f() { x.super_a(); $crate::a::A }",
        ] {
            assert!(!is_circle(a, b), "{b}");
        }
        // What the root has under another name is where it comes from, also if it comes with all names of a module.
        assert!(is_circle("use crate::D;", "use crate::a;"));
        assert!(is_circle("use super::b::B;", "use self::inner::*; pub use inner::*; use super::a;"));
    }

    #[test]
    fn a_module_and_its_parts_import_each_other() {
        let files =
            [("", "mod a;"), ("a", "mod b; use b::B; pub struct A;"), ("a/b", "use super::A; pub struct B;")];
        assert!(circles(&files).is_empty());
        let further = [("a/c", "use super::b::B;"), ("a/b/d", "use super::super::c::C;")];
        assert_eq!(circles(&[&files[..], &further[..]].concat()), [["b", "c"]]);
    }
}
