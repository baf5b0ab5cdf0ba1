//! The messages between the supervisors of a job's hosts, and their encoding on a stream: a pipe to an agent of `amrun`, or a connection
//! between the hosts of a job that a launcher of another project has started.
//!
//! A frame is its length (32 bits, little-endian), a byte with its kind, and its bytes: output of tasks is sent unchanged, all other
//! messages as JSON. What a frame says is a claim: [`Bus`](crate::Bus) checks it.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::JobNotice;

/// Longest frame, in bytes. A longer one is refused: its sender is no supervisor of this library.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// Longest first message.
const FIRST_BYTES_MAX: usize = 256;
const HEAD_BYTES: usize = 5;

/// The kinds of frames.
const OUTPUT: u8 = b'o';
const ERRORS: u8 = b'e';
const WORDS: u8 = b'w';

/// What only one kind of supervisors tells each other, such as a launcher and its agents.
pub trait OwnMessage: Serialize + DeserializeOwned + Clone + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Clone + Send + 'static> OwnMessage for T {}

/// A message between supervisors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message<M> {
    /// The first message of each end of a connection: the number of its host, and a secret that only supervisors of this job know.
    Hello {
        /// The host.
        host: u32,
        /// The secret.
        secret: u64,
    },
    /// A fact about a task or the job.
    Notice(JobNotice),
    /// An empty message, sent to show that the sender is alive.
    Alive,
    /// The last message: the tasks of the host have ended.
    Over,
    /// Bytes that tasks have written to their standard output.
    #[serde(skip)]
    Output(Vec<u8>),
    /// Bytes that tasks have written to their standard error.
    #[serde(skip)]
    Errors(Vec<u8>),
    /// What only this kind of supervisors tells each other.
    Own(M),
}

impl<M: DeserializeOwned> Message<M> {
    /// Reads the next message of a supervisor; `None` at the end of the stream.
    ///
    /// # Errors
    /// The system's error; what is read is no message.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        Self::read_at_most(from, FRAME_BYTES_MAX)
    }

    /// Reads the first message of a program that may be a stranger.
    pub(super) fn read_first(from: &mut impl Read) -> io::Result<Self> {
        Self::read_at_most(from, FIRST_BYTES_MAX)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads the next message, of at most `bytes_max` bytes; `None` at the end of the stream. The memory that this takes grows with what
    /// arrives, and not with what the frame claims as its length.
    fn read_at_most(from: &mut impl Read, bytes_max: usize) -> io::Result<Option<Self>> {
        let mut head = [0; HEAD_BYTES];
        match from.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let [a, b, c, d, kind] = head;
        let len = u32::from_le_bytes([a, b, c, d]);
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "this is not a message of amrun");
        if len as usize > bytes_max {
            return Err(wrong());
        }
        let mut bytes = Vec::new();
        if from.take(len.into()).read_to_end(&mut bytes)? < len as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(match kind {
            OUTPUT => Self::Output(bytes),
            ERRORS => Self::Errors(bytes),
            WORDS => serde_json::from_slice(&bytes)?,
            _ => return Err(wrong()),
        }))
    }
}

impl<M: Serialize> Message<M> {
    /// Writes this message, in one call of `write_all`: messages of several threads to one output do not mix.
    ///
    /// # Errors
    /// The system's error.
    pub fn write(&self, to: &mut (impl Write + ?Sized)) -> io::Result<()> {
        match self {
            Self::Output(bytes) => write(to, OUTPUT, bytes),
            Self::Errors(bytes) => write(to, ERRORS, bytes),
            words => write(to, WORDS, &serde_json::to_vec(words)?),
        }
    }
}

fn write(to: &mut (impl Write + ?Sized), kind: u8, bytes: &[u8]) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let frame = [&len.to_le_bytes()[..], &[kind], bytes].concat();
    to.write_all(&frame)?;
    to.flush()
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    type Plain = Message<i32>;

    fn read(mut from: &[u8]) -> io::Result<Option<Plain>> {
        Message::read(&mut from)
    }

    #[test]
    fn messages_come_back_and_what_is_none_is_refused() {
        let mut bytes = Vec::new();
        Plain::Own(15).write(&mut bytes).unwrap();
        Plain::Output(b"a line\n\xff".to_vec()).write(&mut bytes).unwrap();
        let mut from = &bytes[..];
        let mut next = || Plain::read(&mut from);
        assert!(matches!(next(), Ok(Some(Message::Own(15)))));
        assert!(matches!(next(), Ok(Some(Message::Output(line))) if line == b"a line\n\xff"));
        assert!(matches!(next(), Ok(None)));
        assert!(read(b"Permission denied (publickey)").is_err());
        assert!(read(&bytes[..bytes.len() - 1][6..]).is_err());
        let cut = read(&bytes[..bytes.len() / 4]).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_first_message_is_short_and_a_length_alone_takes_no_memory() {
        let mut bytes = Vec::new();
        Plain::Hello { host: u32::MAX, secret: u64::MAX }.write(&mut bytes).unwrap();
        assert!(matches!(Plain::read_first(&mut &bytes[..]), Ok(Message::Hello { host: u32::MAX, .. })));
        let claims = |len: u32| [&len.to_le_bytes()[..], &[WORDS], b"{"].concat();
        let refused = Plain::read_first(&mut &claims(1 << 20)[..]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        let cut = read(&claims(64 << 20)).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    }
}
