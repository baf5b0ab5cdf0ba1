//! The open ports of a task (MPI 5.0 section 11.9). A task calls a port by a note to its owner, with the port's secret. The owner
//! answers by a note with the context ids of an inter-communicator of the two. A call with another secret, or of a port that is not
//! open, is refused when it arrives.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use crate::message::notes::Words;

/// Stands for the caller in the key of a call, because an accept takes calls of all tasks. The call's second word names the caller.
pub(crate) const ANY_CALLER: u32 = u32::MAX;
/// The answer to a call that is refused.
pub(crate) const REFUSED: Words = [u64::MAX; 2];

const PREFIX: &str = "am-port";

/// A port, as its text names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    /// The task that has opened it.
    pub(crate) task: u32,
    /// Its number in that task, not below zero.
    pub(crate) number: i32,
    /// What a caller must know.
    pub(crate) secret: u64,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}:{}:{}:{:016x}", self.task, self.number, self.secret)
    }
}

impl Port {
    /// `None`: the text is none of a port.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split(':');
        let (PREFIX, task, number, secret, None) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next())
        else {
            return None;
        };
        let number = number.parse().ok().filter(|&number| number >= 0)?;
        Some(Self { task: task.parse().ok()?, number, secret: u64::from_str_radix(secret, 16).ok()? })
    }
}

/// The secrets of the open ports, by number.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    next: i32,
    open: HashMap<i32, u64>,
}

impl Ports {
    /// Opens a port of this task.
    pub(crate) fn open(&mut self, task: u32) -> Port {
        while self.open.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1).max(0);
        }
        let number = self.next;
        self.next = number.wrapping_add(1).max(0);
        // The standard library seeds this hasher from the system's random numbers.
        let secret = RandomState::new().build_hasher().finish();
        self.open.insert(number, secret);
        Port { task, number, secret }
    }

    pub(crate) fn is_open(&self, number: i32, secret: u64) -> bool {
        self.open.get(&number) == Some(&secret)
    }

    pub(crate) fn close(&mut self, number: i32) {
        self.open.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_known_by_its_text_and_open_until_it_is_closed() {
        let mut ports = Ports::default();
        let (first, second) = (ports.open(3), ports.open(3));
        assert_eq!(Port::parse(&first.to_string()), Some(first));
        assert_ne!((first.number, first.secret), (second.number, second.secret));
        assert!(ports.is_open(first.number, first.secret) && !ports.is_open(first.number, second.secret));
        ports.close(first.number);
        assert!(!ports.is_open(first.number, first.secret) && ports.is_open(second.number, second.secret));
        for text in ["", "am-port:1:2", "am-port:1:-2:0", "am-port:1:2:0:0", "tcp:1:2:0", "am-port:x:2:0"] {
            assert_eq!(Port::parse(text), None, "{text}");
        }
    }
}
