//! A task's notes about a wait without arrivals, for hang reports.

use std::time::Duration;

pub use am_contract::wait::{UnderWay, WaitFacts};
use am_via_os::atomics::{Ordering, fence};
use am_via_os::{clock, stack, threads};
use am_via_shm::layout_job::{RETURN_ADDRESSES_MAX, Text, WAIT_FACTS_WORDS, WaitNote};

/// A task notes its wait once nothing has arrived for this long.
pub const NOTED_AFTER: Duration = Duration::from_secs(1);
/// A note that is older belongs to an earlier wait, or to a stopped task: a waiting task renews its note twice a second.
const FRESH_FOR: Duration = Duration::from_millis(2500);

/// How often a note is read that is replaced at the same time.
const READS_MAX: u32 = 10;

/// A task's note about its wait, not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedWait {
    /// What the task waits for; `None` if the text cannot be parsed.
    pub facts: Option<WaitFacts>,
    /// Time without arrivals.
    pub quiet: Duration,
    /// Time since the note was renewed.
    pub age: Duration,
    /// The stack of the waiting call, innermost first.
    pub return_addresses: Vec<u64>,
}

impl NotedWait {
    /// Whether the task still waits. A stopped task does not renew its note.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.age < FRESH_FOR
    }
}

/// The facts as text of at most `bytes_max` bytes. If it is too long, descriptions of early messages are left out, then operations, which
/// are counted.
fn text_of(mut facts: WaitFacts, bytes_max: usize) -> String {
    loop {
        // Strings and numbers can always be serialized.
        let text = serde_json::to_string(&facts).unwrap_or_default();
        if text.len() <= bytes_max {
            return text;
        }
        if facts.first_early.pop().is_none() {
            if facts.operations.pop().is_none() {
                return String::new();
            }
            facts.operations_left_out += 1;
        }
    }
}

/// Parses a task's note, which is not to be trusted; `None` if the text is no note.
fn facts_of(text: &str) -> Option<WaitFacts> {
    serde_json::from_str(text).ok()
}

/// Writes a note of this thread's wait.
pub(super) fn write(note: &WaitNote, quiet: Duration, mut facts: WaitFacts) {
    facts.may_end_alone |= facts.has_threads && threads::others_may_act();
    let mut addresses = [0; RETURN_ADDRESSES_MAX];
    let found = stack::return_addresses(&mut addresses);
    // A reader that sees a time of 0 finds no note.
    note.written_ns.store(0, Ordering::Relaxed);
    // Release: "no note", pairs with the fence in `read`: a reader that has seen a store below also sees that the time has changed.
    fence(Ordering::Release);
    for (shared, &address) in note.return_addresses.iter().zip(&addresses[..found]) {
        shared.store(address, Ordering::Relaxed);
    }
    note.num_return_addresses.store(found as u64, Ordering::Relaxed);
    note.quiet_ns.store(nanos(quiet), Ordering::Relaxed);
    note.facts.write(&text_of(facts, Text::<WAIT_FACTS_WORDS>::CAPACITY_BYTES));
    // Release: "wait noted", pairs with the load in `read`.
    note.written_ns.store(nanos(clock::monotonic()).max(1), Ordering::Release);
}

/// Reads a task's note, which is not to be trusted; `None` if the task has noted no wait.
pub(super) fn read(note: &WaitNote) -> Option<NotedWait> {
    // A task renews its note twice a second, so that a reader is disturbed once, or by a task that does not behave.
    (0..READS_MAX).find_map(|_| read_once(note))
}

/// The note; `None` if there is none, or the task replaces it meanwhile.
fn read_once(note: &WaitNote) -> Option<NotedWait> {
    // Acquire: pairs with the store in `write` ("wait noted").
    let written = note.written_ns.load(Ordering::Acquire);
    if written == 0 {
        return None;
    }
    let claimed = note.num_return_addresses.load(Ordering::Relaxed);
    let found =
        usize::try_from(claimed).map_or(RETURN_ADDRESSES_MAX, |found| found.min(RETURN_ADDRESSES_MAX));
    let noted = NotedWait {
        facts: facts_of(&note.facts.read()),
        quiet: Duration::from_nanos(note.quiet_ns.load(Ordering::Relaxed)),
        age: clock::monotonic().saturating_sub(Duration::from_nanos(written)),
        return_addresses: note.return_addresses[..found]
            .iter()
            .map(|address| address.load(Ordering::Relaxed))
            .collect(),
    };
    // Acquire: pairs with the fence in `write` ("no note").
    fence(Ordering::Acquire);
    (note.written_ns.load(Ordering::Relaxed) == written).then_some(noted)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use am_contract::task::TaskId;
    use am_via_os::atomics::AtomicBool;
    use am_via_shm::{Mapping, Shared};

    fn facts(count: u32) -> WaitFacts {
        let operation = |partner| UnderWay {
            what: "send".into(),
            partner: Some(TaskId(partner)),
            details: "tag 1, 8 bytes".into(),
        };
        WaitFacts {
            operations: (0..count).map(operation).collect(),
            first_early: vec!["from rank 1 with tag 4".into()],
            ..WaitFacts::default()
        }
    }

    #[test]
    fn facts_come_back_and_what_does_not_fit_is_counted() {
        assert_eq!(facts_of(&text_of(facts(3), 2000)), Some(facts(3)));
        let cut = facts_of(&text_of(facts(100), 1000)).unwrap();
        assert!(cut.operations.len() > 5 && cut.first_early.is_empty(), "{cut:?}");
        assert_eq!(cut.operations.len() + cut.operations_left_out as usize, 100);
        assert_eq!(facts_of("{\"operations\":"), None);
    }

    #[test]
    fn a_note_comes_back_and_a_damaged_one_reads_no_further() {
        let (_file, mapping) = Mapping::anonymous(4096).unwrap();
        let note: Shared<WaitNote> = mapping.atomics(0).unwrap();
        assert_eq!(read(&note), None);
        write(&note, Duration::from_secs(3), facts(2));
        let noted = read(&note).unwrap();
        assert_eq!((noted.facts, noted.quiet), (Some(facts(2)), Duration::from_secs(3)));
        assert!(noted.age < FRESH_FOR && noted.return_addresses.len() > 1);
        note.num_return_addresses.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(read(&note).unwrap().return_addresses.len(), RETURN_ADDRESSES_MAX);
    }

    /// Each note has as many operations as seconds.
    #[test]
    fn a_note_is_read_as_a_whole_while_it_is_replaced() {
        let (_file, mapping) = Mapping::anonymous(4096).unwrap();
        let note: Shared<WaitNote> = mapping.atomics(0).unwrap();
        let is_over = AtomicBool::new(false);
        let found = std::thread::scope(|scope| {
            scope.spawn(|| {
                for count in (1..4).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    write(&note, Duration::from_secs(count.into()), facts(count));
                }
            });
            let found: Vec<NotedWait> = (0..5000).filter_map(|_| read(&note)).collect();
            is_over.store(true, Ordering::Relaxed);
            found
        });
        let is_whole = |noted: &NotedWait| {
            let operations = noted.facts.as_ref().map(|facts| facts.operations.len() as u64);
            operations == Some(noted.quiet.as_secs())
        };
        let mixed = found.iter().filter(|noted| !is_whole(noted)).count();
        assert_eq!(mixed, 0, "of {}", found.len());
    }
}
