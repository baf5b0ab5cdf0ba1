//! What the root of a call finds out alone, and all tasks of its group must know: facts, and a result or the error.

use am_core::fabric::Fabric;

use super::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::policy::LockPolicy;

/// How the words of a result begin.
const GOOD: u64 = 0;
const FAILED: u64 = 1;

/// Facts, which all tasks get even if the call has failed, and the result.
type Told = (Vec<u64>, Result<Vec<u64>>);

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Whether a call in which the root acts for this group may begin.
    pub(super) fn check_root(&self, call: &'static str, root: u32) -> Result<()> {
        if self.is_inter() {
            let what = "groups are connected, and tasks started, by an intra-communicator; the value is the size of the inter-communicator";
            return Err(Error::refused(ErrorClass::Communicator, call, what, i64::from(self.size())));
        }
        if root >= self.size() {
            return Err(Error::UnknownRoot { root, size: self.size() });
        }
        self.state_for_all().map(drop)
    }

    /// Called at the root: finds out, and tells the other tasks, which call [`told`](Self::told). Returns what was found.
    pub(super) fn tell(&self, root: u32, find_out: impl FnOnce() -> Told) -> Told {
        let (facts, found) = find_out();
        let result = match &found {
            Ok(words) => [&[GOOD][..], words].concat(),
            Err(error) => {
                let text = error.to_string();
                [FAILED, error.class().to_word()].into_iter().chain(text.bytes().map(u64::from)).collect()
            }
        };
        let sent = self.broadcast_list(root, &[&[facts.len() as u64][..], &facts, &result].concat());
        (facts, found.and_then(|words| sent.map(|_| words)))
    }

    /// What the root tells. Its error has the same class and text here.
    pub(super) fn told(&self, root: u32) -> Told {
        let words = match self.broadcast_list(root, &[]) {
            Ok(words) => words,
            Err(error) => return (Vec::new(), Err(error)),
        };
        let parts =
            words.split_first().and_then(|(&len, rest)| rest.split_at_checked(usize::try_from(len).ok()?));
        match parts {
            Some((facts, [GOOD, words @ ..])) => (facts.to_vec(), Ok(words.to_vec())),
            Some((facts, [FAILED, class, text @ ..])) => {
                let text: Vec<u8> = text.iter().map(|&byte| u8::try_from(byte).unwrap_or(b'?')).collect();
                let what = String::from_utf8_lossy(&text).into_owned();
                (facts.to_vec(), Err(Error::Processes { class: ErrorClass::of_word(*class), what }))
            }
            _ => (Vec::new(), Err(Error::Protocol { peer: root, what: "an answer that is too short" })),
        }
    }
}
