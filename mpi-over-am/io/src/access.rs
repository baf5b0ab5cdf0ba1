//! Reads and writes of a part of a view's stream by one task.

use std::io;

use crate::{Disk, Piece, Space, View};

/// What became of a transfer: the bytes that were moved, from the first one on, and the error that ended it.
#[derive(Debug, Default)]
pub struct Moved {
    /// The number of bytes. A read moves fewer than asked for if it meets the end of the file.
    pub bytes: u64,
    /// The error, if the transfer did not end well.
    pub failure: Option<io::Error>,
}

/// Pieces that are read by one call lie in this number of bytes of the file at most.
const SIEVE_BYTES: u64 = 1 << 20;
/// Pieces are read by one call if the gaps between them have this number of bytes on average at most: a call costs more than such a gap.
const GAP_BYTES: u64 = 4 << 10;

/// Writes all of `bytes`; returns how many were written.
pub(crate) fn write_all(disk: &dyn Disk, bytes: &[u8], at: u64) -> Moved {
    let mut done = 0;
    while done < bytes.len() {
        match disk.write_at(&bytes[done..], at + done as u64) {
            Ok(0) => {
                let failure = Some(io::ErrorKind::WriteZero.into());
                return Moved { bytes: done as u64, failure };
            }
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Moved { bytes: done as u64, failure: Some(error) },
        }
    }
    Moved { bytes: done as u64, failure: None }
}

/// Fills `to` up to the end of the file; returns how many bytes were read.
pub(crate) fn read_all(disk: &dyn Disk, to: &mut Space<'_>, at: u64) -> Moved {
    let mut done = 0;
    while done < to.len() {
        match disk.read_at(&mut to.part(done..to.len()), at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Moved { bytes: done as u64, failure: Some(error) },
        }
    }
    Moved { bytes: done as u64, failure: None }
}

/// Writes `bytes` as the stream's bytes from `from` on. Only bytes of the view are written: never those between its pieces.
pub fn write(disk: &dyn Disk, view: &View, from: u64, bytes: &[u8]) -> Moved {
    if let Some(piece) = view.one_piece(from, bytes.len() as u64) {
        return write_all(disk, bytes, piece.at);
    }
    let mut moved = Moved::default();
    view.visit(from, bytes.len() as u64, |Piece { at, len }| {
        if moved.failure.is_none() {
            let start = moved.bytes as usize;
            let written = write_all(disk, &bytes[start..start + len as usize], at);
            moved.bytes += written.bytes;
            moved.failure = written.failure;
        }
    });
    moved
}

/// Reads the stream's bytes from `from` on into `to`, up to the end of the file.
pub fn read(disk: &dyn Disk, view: &View, from: u64, to: &mut Space<'_>) -> Moved {
    if let Some(piece) = view.one_piece(from, to.len() as u64) {
        return read_all(disk, to, piece.at);
    }
    let len = to.len() as u64;
    let mut reader =
        Reader { disk, to, moved: Moved::default(), is_over: false, pieces: Vec::new(), scratch: Vec::new() };
    view.visit(from, len, |piece| reader.add(piece));
    reader.read_pieces();
    reader.moved
}

/// Collects pieces that lie close to each other, and reads them by one call.
struct Reader<'a, 'b> {
    disk: &'a dyn Disk,
    to: &'a mut Space<'b>,
    moved: Moved,
    /// Whether the end of the file was met, or a read has failed.
    is_over: bool,
    pieces: Vec<Piece>,
    scratch: Vec<u8>,
}

impl Reader<'_, '_> {
    fn add(&mut self, piece: Piece) {
        let end = piece.at + piece.len;
        let fits = self.pieces.first().is_none_or(|first| {
            // A view that is only read may go back to bytes that it has passed.
            piece.at >= first.at && end - first.at <= SIEVE_BYTES
        });
        if !fits {
            self.read_pieces();
        }
        self.pieces.push(piece);
    }

    fn read_pieces(&mut self) {
        let pieces = std::mem::take(&mut self.pieces);
        let (Some(first), Some(end)) =
            (pieces.first(), pieces.iter().map(|piece| piece.at + piece.len).max())
        else {
            return;
        };
        let wanted: u64 = pieces.iter().map(|piece| piece.len).sum();
        if self.is_over {
            return;
        }
        let gaps = (end - first.at).saturating_sub(wanted);
        if pieces.len() == 1 || gaps / pieces.len() as u64 > GAP_BYTES {
            for &Piece { at, len } in &pieces {
                let start = self.moved.bytes as usize;
                let read = read_all(self.disk, &mut self.to.part(start..start + len as usize), at);
                self.count(read.bytes, len, read.failure);
                if self.is_over {
                    return;
                }
            }
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let span = (end - first.at) as usize;
        if scratch.len() < span {
            scratch.resize(span, 0);
        }
        let mut read = read_all(self.disk, &mut Space::from(&mut scratch[..span]), first.at);
        for &Piece { at, len } in &pieces {
            let from = at - first.at;
            let there = read.bytes.saturating_sub(from).min(len);
            let start = self.moved.bytes as usize;
            self.to.store(start, &scratch[from as usize..(from + there) as usize]);
            let failure = if there < len { read.failure.take() } else { None };
            self.count(there, len, failure);
            if self.is_over {
                break;
            }
        }
        self.scratch = scratch;
    }

    fn count(&mut self, read: u64, wanted: u64, failure: Option<io::Error>) {
        self.moved.bytes += read;
        self.is_over = read < wanted || failure.is_some();
        self.moved.failure = failure;
    }
}
