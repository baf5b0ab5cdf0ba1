//! Words, and how the text of many files is cut into pieces that tasks count independently.

use std::io::{self, Read, Seek, SeekFrom};

/// Maximum length of a word in bytes. A longer run of characters counts as the word of the first characters that fit.
pub const WORD_BYTES_MAX: usize = 63;

/// Calls `take` with each word of `text`: a run of alphanumeric characters (as Unicode has them), in lower case, at most [`WORD_BYTES_MAX`]
/// bytes long.
pub fn for_each_word(text: &str, mut take: impl FnMut(&str)) {
    let mut word = String::with_capacity(WORD_BYTES_MAX + 4);
    for run in text.split(|character: char| !character.is_alphanumeric()) {
        if run.is_empty() {
            continue;
        }
        word.clear();
        for character in run.chars().flat_map(char::to_lowercase) {
            if word.len() + character.len_utf8() > WORD_BYTES_MAX {
                break;
            }
            word.push(character);
        }
        take(&word);
    }
}

/// A piece of a file: the words, separated by blanks, that begin in `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Which file of the list.
    pub file: usize,
    /// Offset of the first byte. Unless it is 0, the text of the piece begins after the first blank at `start - 1` or later.
    pub start: u64,
    /// Offset after the last byte. The text of the piece ends with the first blank at `end - 1` or later.
    pub end: u64,
    /// Bytes of the whole file.
    pub file_bytes: u64,
}

impl Chunk {
    /// Approximate length of the text in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether the piece is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Reads the piece. Bytes that are not UTF-8 separate words.
    ///
    /// In UTF-8, the byte of an ASCII blank is never part of another character, so the tasks on both sides of a cut find the same position
    /// independently.
    ///
    /// # Errors
    /// The error of the system.
    pub fn read(&self, file: &mut (impl Read + Seek)) -> io::Result<String> {
        let first = self.start.saturating_sub(1);
        file.seek(SeekFrom::Start(first))?;
        let mut bytes = Vec::new();
        file.by_ref().take(self.end - first).read_to_end(&mut bytes)?;
        let begin = if self.start == 0 { 0 } else { behind_blank(&bytes).unwrap_or(bytes.len()) };
        if begin >= bytes.len() && self.start > 0 {
            return Ok(String::new());
        }
        let mut end_seen = bytes.last().is_none_or(u8::is_ascii_whitespace);
        let mut position = self.end;
        while !end_seen && position < self.file_bytes {
            let from = bytes.len();
            let left = (self.file_bytes - position).min(4096);
            let read = file.by_ref().take(left).read_to_end(&mut bytes)?;
            if read == 0 {
                break;
            }
            position += read as u64;
            if let Some(blank) = behind_blank(&bytes[from..]) {
                bytes.truncate(from + blank);
                end_seen = true;
            }
        }
        Ok(String::from_utf8_lossy(&bytes[begin..]).into_owned())
    }
}

fn behind_blank(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(u8::is_ascii_whitespace).map(|at| at + 1)
}

/// Cuts files of these sizes into pieces of about `chunk_bytes`.
#[must_use]
pub fn chunks(file_sizes: &[u64], chunk_bytes: u64) -> Vec<Chunk> {
    let chunk_bytes = chunk_bytes.max(1);
    file_sizes
        .iter()
        .enumerate()
        .flat_map(|(file, &file_bytes)| {
            (0..file_bytes.div_ceil(chunk_bytes)).map(move |number| Chunk {
                file,
                start: number * chunk_bytes,
                end: ((number + 1) * chunk_bytes).min(file_bytes),
                file_bytes,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        for_each_word(text, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn words_are_runs_in_lower_case() {
        assert_eq!(
            words("Ring_of 64-byte lines; Ärger, it's"),
            ["ring", "of", "64", "byte", "lines", "ärger", "it", "s"]
        );
        assert!(words(" \n--").is_empty());
    }

    #[test]
    fn a_long_run_counts_as_its_beginning() {
        assert_eq!(words(&"x".repeat(500)), ["x".repeat(WORD_BYTES_MAX)]);
        // Two bytes for each character: 63 is odd, so one byte stays free.
        assert_eq!(words(&"ö".repeat(500)), ["ö".repeat(31)]);
    }

    #[test]
    fn chunks_of_any_size_have_the_words_of_the_whole() {
        let text: &[u8] = b"One two  three\n\xc3\xa4\xc3\xb6 f\xffour averyverylongrunwithoutanyblank x\ty\n";
        let whole = words(&String::from_utf8_lossy(text));
        for chunk_bytes in 1..text.len() as u64 + 2 {
            let mut parts = Vec::new();
            for chunk in chunks(&[text.len() as u64], chunk_bytes) {
                parts.extend(words(&chunk.read(&mut Cursor::new(text)).unwrap()));
            }
            assert_eq!(parts, whole, "chunks of {chunk_bytes} bytes");
        }
    }

    #[test]
    fn chunks_cover_the_files() {
        let all = chunks(&[10, 0, 3], 4);
        let lens: Vec<_> = all.iter().map(|chunk| (chunk.file, chunk.len())).collect();
        assert_eq!(lens, [(0, 4), (0, 4), (0, 2), (2, 3)]);
        assert!(all.iter().all(|chunk| !chunk.is_empty()));
    }

    #[test]
    fn a_file_that_has_shrunk_ends_early() {
        let chunk = Chunk { file: 0, start: 0, end: 8, file_bytes: 100 };
        assert_eq!(chunk.read(&mut Cursor::new(b"ab cd")).unwrap(), "ab cd");
    }
}
