//! The sources as a map from path to text.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// The Rust sources, manifests and papers of a workspace, by path from its root, with `/` between folders.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the workspace at `root`: what a checkout holds, not what was built.
    ///
    /// # Errors
    /// A folder or file that cannot be read, or a file that is not UTF-8.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    /// A tree of made-up files: pairs of path and text.
    #[must_use]
    pub fn made_up(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect() }
    }

    /// Paths and texts, in order.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Those that are Rust.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// The text of one file.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !name.starts_with('.') && name != "target" {
                self.read_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() && [".rs", ".toml", ".md"].iter().any(|end| name.ends_with(end)) {
                self.files.insert(path, fs::read_to_string(entry.path())?);
            }
        }
        Ok(())
    }
}
