//! The checks of the workspace on its own sources: who may name whom, where `unsafe` lives, what the manifests explain.
//!
//! They read text, not types: a path is followed from its first word (`crate`, `super`, a crate's name) to the room that it names.
//! A method call names nothing, so a room can still *use* what it was handed by a room that may name it; that is as it should be.
//!
//! Each check takes a [`Tree`], so that it can be shown to find a violation in a made-up one.

mod architecture;
mod lexer;
mod manifest;
mod naming;
mod paths;
mod table;
mod text;
mod tree;

use std::fmt;

pub use architecture::{naming_table_is_written_down, unsafe_places_are_written_down};
pub use manifest::manifests_give_reasons;
pub use naming::{
    every_room_has_a_row, every_row_has_files, names_stay_in_their_rows, one_file_chooses_the_fabric,
};
pub use table::{CRATES, Crate, EXPECTED, Row, TABLE, UNSAFE_PLACES, UnsafePlace};
pub use text::{files_stay_short, no_left_over_dbg, unsafe_has_reasons, unsafe_stays_in_its_places};
pub use tree::Tree;

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, from the workspace's root.
    pub file: String,
    /// The line, from 1; 0: the whole file.
    pub line: u32,
    /// What is wrong, and what to do.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

impl Violation {
    fn new(file: &str, line: u32, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into() }
    }
}
