//! Messages over a stream, each a line of JSON.

use std::io::{self, BufRead, BufReader, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest line, in bytes. A longer line is cut, and then refused. The description of a job of 10 000 tasks needs a fifth of this length.
const LINE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Lines<S: Read>(BufReader<S>);

impl<S: Read> Lines<S> {
    pub(super) fn new(stream: S) -> Self {
        Self(BufReader::new(stream))
    }

    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = String::new();
        // A peer that is not yet identified must not use up this process's memory.
        if (&mut self.0).take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    pub(super) fn stream(&mut self) -> &mut S {
        self.0.get_mut()
    }
}

/// Writes a message.
pub(super) fn say<T: Serialize>(to: &mut impl Write, word: &T) -> io::Result<()> {
    to.write_all(format!("{}\n", serde_json::to_string(word)?).as_bytes())
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_and_a_line_without_end_is_refused() {
        let mut bytes = Vec::new();
        say(&mut bytes, &(1, "two")).unwrap();
        let mut lines = Lines::new(&bytes[..]);
        assert_eq!(lines.hear::<(u32, String)>().unwrap(), (1, "two".to_owned()));
        assert_eq!(lines.hear::<u32>().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let mut endless = Lines::new(io::repeat(b'1'));
        assert!(endless.hear::<u32>().is_err());
    }
}
