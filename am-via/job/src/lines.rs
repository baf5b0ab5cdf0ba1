//! Words over a stream: a line of JSON each.

use std::io::{self, BufRead, BufReader, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Words over a stream: a line of JSON each.
#[derive(Debug)]
pub(super) struct Lines<S: Read>(BufReader<S>);

impl<S: Read> Lines<S> {
    pub(super) fn new(stream: S) -> Self {
        Self(BufReader::new(stream))
    }

    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    pub(super) fn stream(&mut self) -> &mut S {
        self.0.get_mut()
    }
}

/// Writes a word.
pub(super) fn say<T: Serialize>(to: &mut impl Write, word: &T) -> io::Result<()> {
    to.write_all(format!("{}\n", serde_json::to_string(word)?).as_bytes())
}
