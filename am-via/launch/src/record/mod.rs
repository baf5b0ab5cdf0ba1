//! Statistics and a trace of a job, from the records of its tasks: [`Statistics`] and [`Trace`].
//!
//! Both are made when all tasks have ended, from memory that outlives them. The records are not trusted.

mod picture;
mod statistics;
mod trace;
mod tree;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub use statistics::{Call, Messages, Queue, Statistics, TaskStatistics};
pub use trace::Trace;

/// The title of a task. `hosts`: the host of each task, if the job has several.
fn title(task: usize, hosts: &[String]) -> String {
    hosts.get(task).map_or_else(|| format!("task {task}"), |host| format!("task {task} on host {host}"))
}

impl Trace {
    /// Writes the trace to a file: as a tree of calls if its name ends in `.txt`, as a picture of all tasks if it ends in `.svg`, and
    /// otherwise as JSON.
    ///
    /// # Errors
    /// The system's error.
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
