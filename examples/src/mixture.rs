//! A mixture of messages that every task can compute for all tasks: of all lengths, sent in all modes, received by several methods.

use crate::random;

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// In standard mode.
    Standard,
    /// In synchronous mode.
    Synchronous,
    /// In ready mode: its receive has been posted.
    Ready,
    /// In buffered mode.
    Buffered,
    /// In standard mode, from words that are not contiguous.
    Scattered,
}

/// How a message is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// By a receive that was posted before the message was sent, and names the sender.
    Posted,
    /// By a receive that was posted before the message was sent, for any sender.
    PostedForAnySource,
    /// After a probe, perhaps long after the message arrived.
    Probed,
    /// After a probe, to words that are not contiguous.
    ProbedScattered,
}

/// One message.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// The sender of the message.
    pub from: u32,
    /// The receiver of the message.
    pub dest: u32,
    /// The tag of the message, which no other message of the round has.
    pub tag: i32,
    /// The length of the message in words.
    pub words: usize,
    /// How the message is sent.
    pub sent: Sent,
    /// How the message is received.
    pub received: Received,
    seed: u64,
}

impl Planned {
    /// Word `index` of the message's content.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, index: usize) -> u64 {
        self.seed.wrapping_add(index as u64)
    }

    /// The content of the message.
    #[must_use]
    pub fn content(&self) -> Vec<u64> {
        (0..self.words).map(|index| self.word(index)).collect()
    }
}

/// The longest message that is sent in buffered mode.
pub const BUFFERED_WORDS_MAX: usize = 512;
/// The longest message.
pub const WORDS_MAX: usize = 32 << 10;

/// The messages of a job.
#[derive(Clone, Copy, Debug)]
pub struct Mixture {
    /// Seed of the mixture.
    pub seed: u64,
    /// Tasks of the job.
    pub tasks: u32,
    /// Messages that a task sends in a round.
    pub of_a_round: u32,
}

impl Mixture {
    /// All messages of a round.
    #[must_use]
    pub fn round(&self, round: u64) -> Vec<Planned> {
        let round = random::stream(self.seed, round);
        let senders = (0..self.tasks).flat_map(|from| (0..self.of_a_round).map(move |_| from));
        (0_i32..)
            .zip(senders)
            .map(|(tag, from)| self.message(random::stream(round, u64::from(tag.cast_unsigned())), from, tag))
            .collect()
    }

    fn message(&self, seed: u64, from: u32, tag: i32) -> Planned {
        let below = |number: u64, bound: usize| {
            usize::try_from(random::below(random::at(seed, number), bound as u64)).unwrap_or(0)
        };
        // Most messages are short; most bytes are in long ones.
        let words_max = [8, 8, 8, 8, 8, 8, 512, 512, 512, 4 << 10][below(0, 10)];
        let words_max = if below(1, 100) == 0 { WORDS_MAX } else { words_max };
        let words = below(2, words_max + 1);
        let sent = match below(3, 8) {
            0 => Sent::Synchronous,
            1 => Sent::Ready,
            2 if words <= BUFFERED_WORDS_MAX => Sent::Buffered,
            3 => Sent::Scattered,
            _ => Sent::Standard,
        };
        let ways = if sent == Sent::Ready { 2 } else { 4 };
        let received =
            [Received::Posted, Received::PostedForAnySource, Received::Probed, Received::ProbedScattered]
                [below(4, ways)];
        let dest = u32::try_from(below(5, self.tasks as usize)).unwrap_or(0);
        Planned { from, dest, tag, words, sent, received, seed: random::mix(seed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_send_and_to_receive_is_in_the_mixture() {
        let mixture = Mixture { seed: 1, tasks: 8, of_a_round: 64 };
        let messages: Vec<Planned> = (0..20).flat_map(|round| mixture.round(round)).collect();
        let (mut ways, mut lengths) = (Vec::new(), [0; 4]);
        for message in &messages {
            assert!(message.words <= WORDS_MAX && message.dest < 8);
            if !ways.contains(&(message.sent, message.received)) {
                ways.push((message.sent, message.received));
            }
            lengths[match message.words {
                0 => 0,
                1..=8 => 1,
                9..=512 => 2,
                _ => 3,
            }] += 1;
        }
        assert_eq!(ways.len(), 4 * 4 + 2, "a message in ready mode is received by a posted receive");
        assert!(lengths.iter().all(|count| *count > 50), "{lengths:?}");
    }
}
