//! The line on which the two sides of a check synchronise and exchange values, independently of the provider under test: a channel between
//! two threads, or a socket through the process that started both.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// The messages on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Numbers for the other side.
    Numbers(Vec<u64>),
    /// This side has ended the check, with the reason if it failed.
    Done(Option<String>),
    /// For the process that started the sides: the verdict on a check.
    Verdict { check: String, failure: Option<String> },
}

impl Word {
    /// The message as a line of text.
    pub(super) fn to_line(&self) -> String {
        let text = |failure: &Option<String>| match failure {
            None => "ok".to_owned(),
            Some(why) => format!("no {}", why.replace('\n', " / ")),
        };
        match self {
            Self::Numbers(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
                format!("numbers {}", numbers.join(" "))
            }
            Self::Done(failure) => format!("done {}", text(failure)),
            Self::Verdict { check, failure } => format!("verdict {check} {}", text(failure)),
        }
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let failure = |text: &str| match text.strip_prefix("no ") {
            Some(why) => Some(Some(why.to_owned())),
            None => (text == "ok").then_some(None),
        };
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "numbers" => {
                rest.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok().map(Self::Numbers)
            }
            "done" => failure(rest).map(Self::Done),
            "verdict" => {
                let (check, rest) = rest.split_once(' ')?;
                Some(Self::Verdict { check: check.to_owned(), failure: failure(rest)? })
            }
            _ => None,
        }
    }
}

/// One end of a line.
#[derive(Debug)]
pub(super) struct Line {
    out: Out,
    heard: Receiver<Word>,
}

#[derive(Debug)]
enum Out {
    Thread(Sender<Word>),
    Socket(UnixStream),
}

impl Line {
    /// The two ends of a line within this process.
    pub(super) fn between_threads() -> (Self, Self) {
        let ((to_b, from_a), (to_a, from_b)) = (mpsc::channel(), mpsc::channel());
        let end = |out, heard| Self { out: Out::Thread(out), heard };
        (end(to_b, from_b), end(to_a, from_a))
    }

    /// A line through the process at the other end of `socket`.
    pub(super) fn over(socket: UnixStream) -> std::io::Result<Self> {
        let reader = BufReader::new(socket.try_clone()?);
        let (tell, heard) = mpsc::channel();
        thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                // If the receiver is gone, no message is needed any more.
                let Some(Ok(())) = Word::parse(&line).map(|word| tell.send(word)) else { return };
            }
        });
        Ok(Self { out: Out::Socket(socket), heard })
    }

    /// Sends a message. If the other side is gone, the caller notices it by the missing answer.
    pub(super) fn say(&mut self, word: Word) {
        match &mut self.out {
            Out::Thread(tell) => drop(tell.send(word)),
            Out::Socket(socket) => drop(writeln!(socket, "{}", word.to_line())),
        }
    }

    /// Receives a message, waiting for at most `patience`.
    pub(super) fn hear(&mut self, patience: Duration) -> Result<Word, RecvTimeoutError> {
        self.heard.recv_timeout(patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lines() {
        for word in [
            Word::Numbers(vec![]),
            Word::Numbers(vec![0, u64::MAX]),
            Word::Done(None),
            Word::Done(Some("why not".to_owned())),
            Word::Verdict { check: "a_check".to_owned(), failure: None },
            Word::Verdict { check: "a_check".to_owned(), failure: Some("it failed".to_owned()) },
        ] {
            assert_eq!(Word::parse(&word.to_line()), Some(word));
        }
        for line in ["", "numbers x", "done", "done perhaps", "verdict a_check", "else"] {
            assert_eq!(Word::parse(line), None, "{line}");
        }
    }
}
