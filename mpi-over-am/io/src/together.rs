//! What an aggregator does in a window of a file: few large accesses for the pieces that several tasks have selected.

use std::io;
use std::ops::Range;

use crate::access::{read_all, write_all};
use crate::{Disk, Piece, Selection};

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

/// The part of `buffer`, whose first byte is that at `start`, that holds a piece.
fn place(buffer: &mut [u8], start: u64, Piece { at, len }: Piece) -> &mut [u8] {
    let from = (at - start) as usize;
    &mut buffer[from..from + len as usize]
}

/// Writes the pieces that several tasks have selected in a window; each comes with its bytes, in the order of its pieces. Where pieces
/// overlap, the bytes of a later task in the list are written. No other byte of the file changes. `buffer` is scratch memory that is kept
/// for the next call.
///
/// # Errors
/// That of a write; the pieces before it were written.
pub fn write_together(
    disk: &dyn Disk,
    window: &Range<u64>,
    tasks: &[(Selection, &[u8])],
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let mut pieces: Vec<Piece> = tasks.iter().flat_map(|(selection, _)| selection.iter()).collect();
    if let ([only], [(_, bytes), ..]) = (&pieces[..], &used(tasks)[..]) {
        return write_all(disk, bytes, only.at).failure.map_or(Ok(()), Err);
    }
    let len = (window.end - window.start) as usize;
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    for (selection, bytes) in tasks {
        let mut rest = *bytes;
        for piece in selection.iter() {
            let (own, others) = rest.split_at((piece.len as usize).min(rest.len()));
            place(buffer, window.start, piece)[..own.len()].copy_from_slice(own);
            rest = others;
        }
    }
    for run in runs(&mut pieces, 0) {
        let bytes = place(buffer, window.start, Piece { at: run.start, len: run.end - run.start });
        if let Some(failure) = write_all(disk, bytes, run.start).failure {
            return Err(failure);
        }
    }
    Ok(())
}

/// The tasks that have selected something.
fn used<'a, 'b>(tasks: &'b [(Selection, &'a [u8])]) -> Vec<&'b (Selection, &'a [u8])> {
    tasks.iter().filter(|(selection, _)| !selection.is_empty()).collect()
}

/// Reads the pieces that several tasks have selected in a window, and appends the bytes of each task's pieces, in their order, to that
/// task's message. Bytes behind the end of the file are zeros. `buffer` is scratch memory that is kept for the next call.
pub fn read_together(
    disk: &dyn Disk,
    window: &Range<u64>,
    tasks: &mut [(Selection, Vec<u8>)],
    buffer: &mut Vec<u8>,
) -> Found {
    let mut found = Found::default();
    let mut pieces: Vec<Piece> = tasks.iter().flat_map(|(selection, _)| selection.iter()).collect();
    let len = (window.end - window.start) as usize;
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    for run in runs(&mut pieces, GAP_BYTES) {
        let bytes = place(buffer, window.start, Piece { at: run.start, len: run.end - run.start });
        // Once the end was met, later bytes are not in the file, even if another task writes them meanwhile.
        let read = if found.end.is_some() {
            0
        } else {
            let read = read_all(disk, bytes, run.start);
            if read.bytes < bytes.len() as u64 {
                found = Found { end: Some(run.start + read.bytes), failure: read.failure };
            }
            read.bytes as usize
        };
        bytes[read..].fill(0);
    }
    for (selection, message) in tasks {
        message.reserve(selection.len() as usize);
        for piece in selection.iter() {
            message.extend_from_slice(place(buffer, window.start, piece));
        }
    }
    found
}
