//! Rules on the manifests: each member and each dependency says why it is there.

use super::{Tree, Violation};

/// Words that make a reason, at least.
const REASON_WORDS_MIN: usize = 2;

/// Each member has its purpose on its line of the root manifest; each dependency there has its reason on the line above; and the members take
/// their dependencies from there. Dependencies by path are members, whose purpose is said already.
#[must_use]
pub fn manifests_give_reasons(tree: &Tree) -> Vec<Violation> {
    let Some(root) = tree.text("Cargo.toml") else {
        return vec![Violation::new("Cargo.toml", 0, "is missing: nothing was checked")];
    };
    let mut violations = Vec::new();
    let members = check_root(root, &mut violations);
    for member in &members {
        let path = format!("{member}/Cargo.toml");
        match tree.text(&path) {
            Some(text) => check_member(&path, text, &mut violations),
            None => violations.push(Violation::new(&path, 0, "a member without a manifest")),
        }
    }
    for (path, _) in tree.files().filter(|(path, _)| path.ends_with("/Cargo.toml")) {
        if !members.iter().any(|member| path.strip_suffix("/Cargo.toml") == Some(member)) {
            violations.push(Violation::new(path, 0, "is no member of the workspace"));
        }
    }
    violations
}

/// Checks the root manifest, and returns the members.
fn check_root(text: &str, violations: &mut Vec<Violation>) -> Vec<String> {
    let mut wrong = |line: usize, what: String| {
        violations.push(Violation::new("Cargo.toml", u32::try_from(line + 1).unwrap_or(u32::MAX), what));
    };
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let mut members = Vec::new();
    let mut dependencies = 0;
    let mut section = "";
    let mut in_members = false;
    for (number, &line) in lines.iter().enumerate() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[workspace]" && line.starts_with("members") {
            in_members = true;
            if line.contains('"') {
                wrong(number, "write one member a line, each with its purpose in a comment".to_owned());
            }
        } else if in_members && line.starts_with(']') {
            in_members = false;
        } else if in_members && line.starts_with('"') {
            let name = line.split('"').nth(1).unwrap_or_default();
            if !is_reason(line.split_once('#').map_or("", |(_, comment)| comment)) {
                wrong(number, format!("member `{name}` has no purpose in a comment on its line"));
            }
            members.push(name.to_owned());
        } else if section.starts_with("[workspace.dependencies")
            && let Some(name) = dependency(line)
            && !line.contains("path =")
        {
            dependencies += 1;
            let above = number.checked_sub(1).map_or("", |above| lines[above]);
            if !above.starts_with('#') || !is_reason(above) {
                wrong(number, format!("dependency `{name}` has no reason in a comment on the line above"));
            }
        }
    }
    if members.is_empty() {
        wrong(0, "no member was found: nothing was checked".to_owned());
    }
    if dependencies == 0 {
        wrong(0, "no dependency was found: nothing was checked".to_owned());
    }
    members
}

fn check_member(path: &str, text: &str, violations: &mut Vec<Violation>) {
    let mut section = "";
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.starts_with('[') {
            section = line;
        }
        let in_dependencies = section.trim_end_matches(']').ends_with("dependencies");
        if let Some(name) = dependency(line)
            && in_dependencies
            && !line.contains("workspace = true")
        {
            let what =
                format!("dependency `{name}` is not taken from the root manifest, where its reason stands");
            violations.push(Violation::new(path, number, what));
        } else if section.contains("dependencies.") && line.starts_with('[') {
            violations.push(Violation::new(
                path,
                number,
                "write a dependency on one line, from the root manifest",
            ));
        }
    }
}

/// The name of the dependency that a line starts.
fn dependency(line: &str) -> Option<&str> {
    let name = line.split(['=', '.']).next()?.trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    (is_name && line.contains('=')).then_some(name)
}

fn is_reason(comment: &str) -> bool {
    comment.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count()
        >= REASON_WORDS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace]\nmembers = [\n    \"a\", # the first of them\n]\n[workspace.dependencies]\na = { path = \"a\" }\n# System calls not in std.\nlibc = \"0.2\"\n";
    const MEMBER: &str = "[package]\nname = \"a\"\n[features]\nx = []\n[dependencies]\nlibc.workspace = true\n[dev-dependencies]\na = { workspace = true, features = [\"x\"] }\n";

    fn found(root: &str, member: &str) -> Vec<(u32, String)> {
        let tree = Tree::made_up(&[("Cargo.toml", root), ("a/Cargo.toml", member)]);
        manifests_give_reasons(&tree).into_iter().map(|found| (found.line, found.what)).collect()
    }

    #[test]
    fn manifests_with_reasons_pass() {
        assert_eq!(found(ROOT, MEMBER), []);
    }

    #[test]
    fn what_is_missing_is_found() {
        for (from, to, line) in [
            (" # the first of them", "", 3),
            (" # the first of them", " # first", 3),
            ("# System calls not in std.\n", "", 7),
            ("# System calls not in std.\n", "# System calls not in std.\n\n", 9),
        ] {
            let found = found(&ROOT.replace(from, to), MEMBER);
            assert!(found.len() == 1 && found[0].0 == line, "{from:?} to {to:?}: {found:?}");
        }
        assert_eq!(found(ROOT, &MEMBER.replace("libc.workspace = true", "libc = \"0.2\""))[0].0, 6);
        assert_eq!(
            found(ROOT, &MEMBER.replace("[dev-dependencies]", "[dependencies.b]\nversion = \"1\"")).len(),
            1
        );
    }

    #[test]
    fn members_and_manifests_belong_together() {
        let tree = Tree::made_up(&[("Cargo.toml", ROOT), ("b/Cargo.toml", MEMBER)]);
        assert_eq!(manifests_give_reasons(&tree).len(), 2);
    }

    #[test]
    fn nothing_to_check_is_a_violation() {
        assert_eq!(manifests_give_reasons(&Tree::default()).len(), 1);
        assert_eq!(found("[workspace]\n", MEMBER).len(), 3);
    }
}
