//! What the tasks of a job have recorded of themselves, for a person: figures ([`Statistics`]) and a trace ([`Trace`]).
//!
//! Both are made when all tasks have ended, of memory that outlives them. What a task has written there is a claim.

mod picture;
mod statistics;
mod trace;
mod tree;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub use statistics::{Call, Messages, Queue, Statistics, TaskStatistics};
pub use trace::Trace;

impl Trace {
    /// Writes the trace to a file: as a tree for a person where its name ends in `.txt`, as a picture of all tasks where it ends in
    /// `.svg`, and otherwise as JSON.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(File::create(path)?);
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("txt") => tree::write(self, &mut out)?,
            Some("svg") => picture::write(self, &mut out)?,
            _ => self.write_json(&mut out)?,
        }
        out.flush()
    }
}
