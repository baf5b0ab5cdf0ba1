//! All far ends of a context.

use std::collections::HashMap;

use am_via_shm::layout::{REGIONS_PER_CONTEXT, RING_LINES};

use super::kind::{Kind, sender};
use super::link::{Closing, Link, part_bytes};
use super::reads::{KEY_MESSAGE_BYTES, KeyMessage, Reads};
use super::unconnected::Strangers;
use crate::device::{Endpoint, NICS_MAX};

#[derive(Debug)]
pub(super) struct Links {
    pub(super) own: Endpoint,
    pub(super) num_tasks: u32,
    pub(super) slot_bytes: usize,
    /// Longest message of the network, in bytes.
    pub(super) message_bytes_max: usize,
    pub(super) all: Vec<Link>,
    pub(super) by_peer: HashMap<Endpoint, usize>,
    /// The link of the last message: the next message is probably from the same peer.
    pub(super) latest: usize,
    pub(super) strangers: Strangers,
    pub(super) reads: Reads,
}

impl Links {
    /// Handles the loss of the links for which `is_it` returns true: the network has lost them, or their tasks have failed.
    pub(super) fn lose(&mut self, endpoint: &mut am_via_ofi::Endpoint, is_it: impl Fn(&Link) -> bool) {
        for (number, link) in self.all.iter_mut().enumerate().filter(|(_, link)| is_it(link)) {
            link.lose();
            self.reads.lose(endpoint, number, link.address);
        }
    }

    /// Makes progress with the reads, and sends their messages.
    pub(super) fn move_reads(&mut self, endpoint: &mut am_via_ofi::Endpoint) {
        let Self { own, all, reads, .. } = self;
        reads.progress(endpoint, |link| all[link].address);
        reads.send(|link, message, bytes| all[link].send_key_message(endpoint, *own, message, bytes));
    }

    /// Maximum number of lines, parts of lines and closes that a correct peer sends before it gets a message of this task.
    fn most_waiting(&self) -> usize {
        let messages_a_line = self.slot_bytes / part_bytes(self.message_bytes_max) + 1;
        (RING_LINES as usize + 1) * messages_a_line
    }

    /// Handles an arrived message. None of its contents is trusted.
    pub(super) fn receive(&mut self, word: u32, bytes: &[u8]) {
        let (Some(kind), from) = (Kind::of(word), sender(word)) else {
            tracing::warn!(word, "a message of an unknown kind");
            return;
        };
        let is_latest = self.all.get(self.latest).is_some_and(|link| link.peer == from);
        let at = if is_latest { Some(self.latest) } else { self.by_peer.get(&from).copied() };
        let most_waiting = self.most_waiting();
        let Some((at, link)) = at.and_then(|at| Some((at, self.all.get_mut(at)?))) else {
            if from.check(self.num_tasks, NICS_MAX).is_ok() {
                // The peer may also have asked for keys, once for each registration.
                let max = most_waiting + REGIONS_PER_CONTEXT as usize;
                self.strangers.keep(from, word, bytes, max);
            } else {
                tracing::warn!(word, "a message of a task that does not exist");
            }
            return;
        };
        self.latest = at;
        let (kind, bytes) = match offered_keys(bytes) {
            Some((keys, line)) if kind == Kind::Keyed => {
                keys.chunks_exact(KEY_MESSAGE_BYTES).for_each(|key| self.reads.receive_offered(at, key));
                (Kind::Line, line)
            }
            _ => (kind, bytes),
        };
        let Some(number) = number_at(bytes, 0) else { return };
        match kind {
            Kind::Ack => link.acknowledge(number),
            Kind::Closed => link.closing = Closing::Done,
            Kind::RequestKey => self.reads.receive(at, KeyMessage::Request, bytes),
            Kind::Key => self.reads.receive(at, KeyMessage::Grant, bytes),
            Kind::RevokeKey => self.reads.receive(at, KeyMessage::Revoke, bytes),
            Kind::ReleasedKey => self.reads.receive(at, KeyMessage::Released, bytes),
            // The message is too short for its keys.
            Kind::Keyed => {}
            Kind::Line | Kind::Part | Kind::Close if number == link.expected => {
                link.take(kind, bytes, self.slot_bytes);
                while let Some((kind, bytes)) = link.early.remove(&link.expected) {
                    link.take(kind, &bytes, self.slot_bytes);
                }
                if link.has_closed {
                    self.reads.note_closed(at);
                }
            }
            Kind::Line | Kind::Part | Kind::Close => {
                let ahead = number.wrapping_sub(link.expected) as usize;
                if ahead <= most_waiting {
                    link.early.insert(number, (kind, bytes.to_vec()));
                }
            }
        }
    }
}

/// The keys of a `Keyed` message, and the bytes after them. `None`: the message is too short.
fn offered_keys(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = (number_at(bytes, 0)? as usize).checked_mul(KEY_MESSAGE_BYTES)?;
    bytes[4..].split_at_checked(len)
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{ContextNumber, TaskId};

    fn message(number: u32) -> [u8; 4] {
        number.to_le_bytes()
    }

    /// Each peer without a connection has a limit of its own: a peer that sends too much does not reduce the limits of the others.
    #[test]
    fn messages_of_each_peer_without_a_connection_are_kept_up_to_a_limit_of_its_own() {
        const TASKS: u32 = 100;
        let own = Endpoint::new(TaskId(0), ContextNumber(0));
        let mut links = Links {
            own,
            num_tasks: TASKS,
            slot_bytes: 16 << 10,
            message_bytes_max: 16 << 10,
            all: Vec::new(),
            by_peer: HashMap::new(),
            latest: 0,
            strangers: Strangers::default(),
            reads: Reads::default(),
        };
        let peer = |task| Endpoint::new(TaskId(task), ContextNumber(1));
        let word = |task| Kind::Line.word(peer(task));
        let (wrong, many) = (99, 2 * REGIONS_PER_CONTEXT);
        for number in 0..many {
            links.receive(word(wrong), &message(number));
        }
        // The task beyond the last one does not exist.
        for task in (1..wrong).chain([TASKS]) {
            for number in 0..RING_LINES {
                links.receive(word(task), &message(number));
            }
        }
        let mut senders = links.strangers.senders();
        senders.sort_unstable();
        assert_eq!(senders, (1..TASKS).map(peer).collect::<Vec<_>>());
        for task in 1..wrong {
            let kept: Vec<_> = (0..RING_LINES).map(|number| (word(task), message(number).to_vec())).collect();
            assert!(links.strangers.take(peer(task)) == kept, "all that task {task} has sent, in order");
        }
        let of_wrong = links.strangers.take(peer(wrong));
        assert!((RING_LINES as usize..many as usize).contains(&of_wrong.len()), "{}", of_wrong.len());
        assert!(links.strangers.senders().is_empty());
    }
}
