//! What an aggregator does in a window of a file: few large accesses for the pieces that several tasks have selected.

use std::io;
use std::ops::Range;

use crate::access::{read_all, write_all};
use crate::{Disk, Piece, Selection, Space};

/// What an aggregator has read.
#[derive(Debug, Default)]
pub struct Found {
    /// The end of the file, if the read has met it: bytes from there on are not in the file.
    pub end: Option<u64>,
    /// The error, if a read has failed. The bytes behind the last one that was read then count as not in the file.
    pub failure: Option<io::Error>,
}

/// Gaps of at most this number of bytes between pieces are read, too, so that one call serves both pieces.
const GAP_BYTES: u64 = 32 << 10;

/// Bytes that an aggregator handles by one call: neighbours and overlapping pieces are one run. If `gap` is not 0, runs with gaps of up to
/// this number of bytes between them are also one run.
fn runs(pieces: &mut [Piece], gap: u64) -> Vec<Range<u64>> {
    // The pieces of each task are in order already, which a stable sort makes use of.
    pieces.sort();
    let mut runs: Vec<Range<u64>> = Vec::new();
    for &Piece { at, len } in &*pieces {
        match runs.last_mut() {
            Some(last) if at <= last.end.saturating_add(gap) => last.end = last.end.max(at + len),
            _ => runs.push(at..at + len),
        }
    }
    runs
}

/// The part of a window's memory that a run has.
fn place(window: &Range<u64>, run: &Range<u64>) -> Range<usize> {
    (run.start - window.start) as usize..(run.end - window.start) as usize
}

/// Writes the pieces that several tasks have selected in a window; `bytes` has the bytes of the window, of which only those of the pieces
/// count. No other byte of the file changes.
///
/// # Errors
/// That of a write; the pieces before it were written.
pub fn write_together(
    disk: &dyn Disk,
    window: &Range<u64>,
    tasks: &[Selection],
    bytes: &[u8],
) -> io::Result<()> {
    let mut pieces: Vec<Piece> = tasks.iter().flat_map(Selection::iter).collect();
    for run in runs(&mut pieces, 0) {
        if let Some(failure) = write_all(disk, &bytes[place(window, &run)], run.start).failure {
            return Err(failure);
        }
    }
    Ok(())
}

/// Reads the pieces that several tasks have selected in a window to the window's memory, and bytes between them. What lies behind the end
/// of the file stays as it is.
pub fn read_together(disk: &dyn Disk, window: &Range<u64>, tasks: &[Selection], to: &mut Space<'_>) -> Found {
    let mut pieces: Vec<Piece> = tasks.iter().flat_map(Selection::iter).collect();
    for run in runs(&mut pieces, GAP_BYTES) {
        let read = read_all(disk, &mut to.part(place(window, &run)), run.start);
        if read.bytes < run.end - run.start {
            // Later bytes are not in the file, even if another task writes them meanwhile.
            return Found { end: Some(run.start + read.bytes), failure: read.failure };
        }
    }
    Found::default()
}
