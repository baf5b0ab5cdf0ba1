//! Both queues against an oracle, a list searched from its front; and one test for each rule.

use proptest::prelude::*;

use super::*;

/// Removes the first item for which `matches` is true.
fn take_first<T>(list: &mut Vec<T>, matches: impl FnMut(&T) -> bool) -> Option<T> {
    list.iter().position(matches).map(|at| list.remove(at))
}

/// The matching rule, written without the code under test.
fn satisfies(envelope: &Envelope, pattern: &Pattern) -> bool {
    envelope.context_id() == pattern.context_id()
        && pattern.source().is_none_or(|source| source == envelope.source())
        && pattern.tag().is_none_or(|tag| tag == envelope.tag())
}

/// A model of both queues. It names an entry by the number of the operation that added the entry; this number is also the payload.
#[derive(Default)]
struct Oracle {
    posted: Vec<(Pattern, usize)>,
    early: Vec<(Envelope, usize)>,
}

/// The queues under test, every handle that they ever returned, and the oracle.
#[derive(Default)]
struct Receiver {
    posted: PostedQueue<usize>,
    early: EarlyArrivalQueue<usize>,
    posted_handles: Vec<(PostedHandle, usize)>,
    early_handles: Vec<(EarlyHandle, usize)>,
    oracle: Oracle,
    longest_posted: usize,
    longest_early: usize,
}

#[derive(Clone, Debug)]
enum Step {
    /// Searches the early arrivals; if none matches, posts the receive.
    Receive(Pattern),
    /// Searches the posted receives; if none matches, stores the message.
    Arrive(Envelope),
    /// Posts without a search, or searches without posting, to build long queues that a receiver with both queues would not get.
    PostOnly(Pattern),
    PushOnly(Envelope),
    TakePosted(Envelope),
    TakeEarly(Pattern),
    Probe(Pattern),
    /// Any handle that was ever returned, valid or not.
    Cancel(prop::sample::Index),
    Remove(prop::sample::Index),
    Change(prop::sample::Index),
}

fn envelope() -> impl Strategy<Value = Envelope> {
    (0u32..2, 0u32..4, -1i32..4)
        .prop_map(|(context, source, tag)| Envelope::new(ContextId(context), source, tag))
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let wild = |odds: f64| prop::bool::weighted(odds);
    (envelope(), wild(0.3), wild(0.3)).prop_map(|(envelope, any_source, any_tag)| {
        Pattern::new(
            envelope.context_id(),
            (!any_source).then_some(envelope.source()),
            (!any_tag).then_some(envelope.tag()),
        )
    })
}

/// Receives and arrivals in a ratio that differs from case to case, so that sometimes one queue is long and sometimes the other.
fn receiver_steps() -> impl Strategy<Value = Vec<Step>> {
    (1u32..12, 1u32..12).prop_flat_map(|(receives, arrivals)| {
        let step = prop_oneof![
            receives => pattern().prop_map(Step::Receive),
            arrivals => envelope().prop_map(Step::Arrive),
            1 => pattern().prop_map(Step::Probe),
            1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
            1 => any::<prop::sample::Index>().prop_map(Step::Remove),
            1 => any::<prop::sample::Index>().prop_map(Step::Change),
        ];
        prop::collection::vec(step, 1..300)
    })
}

/// The queues separately, with any content, so that entries are taken from anywhere in a long queue. Fills and drains alternate.
fn separate_steps() -> impl Strategy<Value = Vec<Step>> {
    let phase = (0u32..6, 0u32..6).prop_flat_map(|(fill, drain)| {
        let step = prop_oneof![
            fill => pattern().prop_map(Step::PostOnly),
            fill => envelope().prop_map(Step::PushOnly),
            drain => envelope().prop_map(Step::TakePosted),
            drain => pattern().prop_map(Step::TakeEarly),
            1 => pattern().prop_map(Step::Probe),
            1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
            1 => any::<prop::sample::Index>().prop_map(Step::Remove),
        ];
        prop::collection::vec(step, 1..80)
    });
    prop::collection::vec(phase, 1..8).prop_map(|phases| phases.concat())
}

impl Receiver {
    fn post(&mut self, pattern: Pattern, id: usize) {
        let handle = self.posted.post(pattern, id);
        self.posted_handles.push((handle, id));
        self.oracle.posted.push((pattern, id));
    }

    fn push(&mut self, envelope: Envelope, id: usize) {
        let handle = self.early.push(envelope, id);
        self.early_handles.push((handle, id));
        self.oracle.early.push((envelope, id));
    }

    fn take_posted(&mut self, envelope: &Envelope) -> Result<bool, TestCaseError> {
        let expected = take_first(&mut self.oracle.posted, |(pattern, _)| satisfies(envelope, pattern));
        let taken = self.posted.take_match(envelope);
        prop_assert_eq!(taken, expected.map(|(_, id)| id));
        Ok(taken.is_some())
    }

    fn take_early(&mut self, pattern: &Pattern) -> Result<bool, TestCaseError> {
        let expected = take_first(&mut self.oracle.early, |(envelope, _)| satisfies(envelope, pattern));
        let taken = self.early.take_match(pattern);
        prop_assert_eq!(taken, expected);
        Ok(taken.is_some())
    }

    fn step(&mut self, id: usize, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Receive(pattern) => {
                if !self.take_early(pattern)? {
                    self.post(*pattern, id);
                }
            }
            Step::Arrive(envelope) => {
                if !self.take_posted(envelope)? {
                    self.push(*envelope, id);
                }
            }
            Step::PostOnly(pattern) => self.post(*pattern, id),
            Step::PushOnly(envelope) => self.push(*envelope, id),
            Step::TakePosted(envelope) => {
                self.take_posted(envelope)?;
            }
            Step::TakeEarly(pattern) => {
                self.take_early(pattern)?;
            }
            Step::Probe(pattern) => {
                let expected = self.oracle.early.iter().find(|(envelope, _)| satisfies(envelope, pattern));
                let seen = self.early.peek_match(pattern).map(|(envelope, id)| (*envelope, *id));
                prop_assert_eq!(seen.as_ref(), expected);
            }
            Step::Cancel(_) if self.posted_handles.is_empty() => {}
            Step::Cancel(which) => {
                let (handle, id) = *which.get(&self.posted_handles);
                let expected = take_first(&mut self.oracle.posted, |(_, posted)| *posted == id);
                prop_assert_eq!(self.posted.cancel(handle), expected.map(|(_, id)| id));
            }
            Step::Remove(_) | Step::Change(_) if self.early_handles.is_empty() => {}
            Step::Remove(which) => {
                let (handle, id) = *which.get(&self.early_handles);
                let expected = take_first(&mut self.oracle.early, |(_, early)| *early == id);
                prop_assert_eq!(self.early.remove(handle), expected);
            }
            Step::Change(which) => {
                let at = which.index(self.early_handles.len());
                let (handle, old) = self.early_handles[at];
                let expected = self.oracle.early.iter_mut().find(|(_, early)| *early == old);
                let message = self.early.get_mut(handle);
                prop_assert_eq!(message.is_some(), expected.is_some());
                if let (Some(message), Some(expected)) = (message, expected) {
                    *message = id;
                    expected.1 = id;
                    self.early_handles[at].1 = id;
                }
            }
        }
        self.compare()
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.posted.len(), self.oracle.posted.len());
        prop_assert_eq!(self.early.len(), self.oracle.early.len());
        prop_assert_eq!(self.posted.is_empty(), self.oracle.posted.is_empty());
        prop_assert_eq!(self.early.is_empty(), self.oracle.early.is_empty());
        let posted = self.posted.iter().map(|(_, pattern, id)| (*pattern, id)).collect::<Vec<_>>();
        prop_assert_eq!(&posted, &self.oracle.posted);
        let early = self.early.iter().map(|(_, envelope, id)| (*envelope, *id)).collect::<Vec<_>>();
        prop_assert_eq!(&early, &self.oracle.early);
        self.longest_posted = self.longest_posted.max(posted.len());
        self.longest_early = self.longest_early.max(early.len());
        Ok(())
    }

    /// Removes everything that is left, using the handles that `iter` returns: each must be valid exactly once.
    fn empty_by_dumped_handles(&mut self) -> Result<(), TestCaseError> {
        let posted = self.posted.iter().map(|(handle, _, id)| (handle, id)).collect::<Vec<_>>();
        for (handle, id) in posted {
            prop_assert_eq!(self.posted.cancel(handle), Some(id));
            prop_assert_eq!(self.posted.cancel(handle), None);
        }
        let early = self.early.iter().map(|(handle, _, id)| (handle, *id)).collect::<Vec<_>>();
        for (handle, id) in early {
            prop_assert_eq!(self.early.remove(handle).map(|(_, id)| id), Some(id));
            prop_assert!(self.early.get_mut(handle).is_none());
        }
        prop_assert!(self.posted.is_empty() && self.early.is_empty());
        Ok(())
    }
}

fn run(steps: &[Step]) -> Result<Receiver, TestCaseError> {
    let mut receiver = Receiver::default();
    for (id, step) in steps.iter().enumerate() {
        receiver.step(id, step)?;
    }
    Ok(receiver)
}

proptest! {
    #[test]
    fn a_receiver_behaves_as_the_oracle(steps in receiver_steps()) {
        run(&steps)?.empty_by_dumped_handles()?;
    }

    #[test]
    fn each_queue_behaves_as_the_oracle(steps in separate_steps()) {
        run(&steps)?.empty_by_dumped_handles()?;
    }

    #[test]
    fn a_pattern_says_what_it_was_made_of(
        context in any::<u32>(),
        source in any::<Option<u32>>(),
        tag in any::<Option<i32>>(),
        envelope in (any::<u32>(), any::<u32>(), any::<i32>()),
    ) {
        let pattern = Pattern::new(ContextId(context), source, tag);
        prop_assert_eq!((pattern.context_id(), pattern.source(), pattern.tag()), (ContextId(context), source, tag));
        let shape = match (source, tag) {
            (Some(_), Some(_)) => Shape::Exact,
            (None, Some(_)) => Shape::AnySource,
            (Some(_), None) => Shape::AnyTag,
            (None, None) => Shape::AnySourceAnyTag,
        };
        prop_assert_eq!(pattern.shape(), shape);
        // At first with all fields different, then with one field after the other equal to the pattern.
        let (other_context, other_source, other_tag) = envelope;
        let same_source = source.unwrap_or(other_source);
        let elsewhere = Envelope::new(ContextId(other_context), other_source, other_tag);
        let near = Envelope::new(ContextId(context), other_source, other_tag);
        let nearer = Envelope::new(ContextId(context), same_source, other_tag);
        let same = Envelope::new(ContextId(context), same_source, tag.unwrap_or(other_tag));
        for envelope in [elsewhere, near, nearer, same] {
            prop_assert_eq!(pattern.matches(&envelope), satisfies(&envelope, &pattern));
        }
        prop_assert!(pattern.matches(&same));
        prop_assert_eq!(shape.key_of(&same), pattern.key());
    }
}

/// The random tests prove nothing if their queues stay short.
#[test]
fn the_random_steps_build_long_queues() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut longest = [(0, 0); 2];
    for _ in 0..64 {
        let of_receiver = receiver_steps().new_tree(&mut runner).expect("a case").current();
        let of_each = separate_steps().new_tree(&mut runner).expect("a case").current();
        for (longest, steps) in longest.iter_mut().zip([of_receiver, of_each]) {
            let receiver = run(&steps).expect("the queues behave");
            longest.0 = longest.0.max(receiver.longest_posted);
            longest.1 = longest.1.max(receiver.longest_early);
        }
    }
    for (posted, early) in longest {
        assert!(posted > 5 * SHORT_ENTRIES_MAX && early > 5 * SHORT_ENTRIES_MAX, "{longest:?}");
    }
}

const WORLD: ContextId = ContextId(0);
const OTHER: ContextId = ContextId(2);
/// A short list that is not full; a full one; one entry more; a long queue.
const DEPTHS: [i32; 4] = [1, 8, 9, 1000];

fn from(source: u32, tag: i32) -> Envelope {
    Envelope::new(WORLD, source, tag)
}

#[test]
fn messages_of_a_pair_with_one_tag_are_taken_in_the_order_of_their_coming() {
    for depth in DEPTHS {
        let mut early = EarlyArrivalQueue::new();
        for number in 0..depth {
            early.push(from(1, 5), number);
        }
        for number in 0..depth {
            assert_eq!(early.take_match(&Pattern::exact(WORLD, 1, 5)), Some((from(1, 5), number)));
        }
        assert!(early.is_empty());
    }
}

#[test]
fn receives_with_one_pattern_are_served_in_the_order_of_their_posting() {
    for depth in DEPTHS {
        let mut posted = PostedQueue::new();
        for number in 0..depth {
            posted.post(Pattern::exact(WORLD, 1, 5), number);
        }
        for number in 0..depth {
            assert_eq!(posted.take_match(&from(1, 5)), Some(number));
        }
        assert!(posted.is_empty());
    }
}

#[test]
fn of_an_exact_receive_and_three_wildcards_the_one_posted_first_is_served() {
    let patterns = [
        Pattern::exact(WORLD, 1, 5),
        Pattern::new(WORLD, None, Some(5)),
        Pattern::new(WORLD, Some(1), None),
        Pattern::new(WORLD, None, None),
    ];
    for depth in DEPTHS {
        for turn in 0..patterns.len() {
            let mut posted = PostedQueue::new();
            for filler in 0..depth {
                posted.post(Pattern::exact(WORLD, 9, filler), usize::MAX);
            }
            let mut order = patterns;
            order.rotate_left(turn);
            for (number, pattern) in order.into_iter().enumerate() {
                posted.post(pattern, number);
            }
            for number in 0..patterns.len() {
                assert_eq!(posted.take_match(&from(1, 5)), Some(number), "depth {depth}, turn {turn}");
            }
            assert_eq!(posted.take_match(&from(1, 5)), None);
        }
    }
}

#[test]
fn any_source_takes_the_earliest_of_all_senders() {
    for depth in DEPTHS {
        let mut early = EarlyArrivalQueue::new();
        for number in 0..depth {
            early.push(from((depth - number).cast_unsigned(), 5), number);
            early.push(from((depth - number).cast_unsigned(), 6), -1);
        }
        for number in 0..depth {
            let taken = early.take_match(&Pattern::new(WORLD, None, Some(5)));
            assert_eq!(taken, Some((from((depth - number).cast_unsigned(), 5), number)));
        }
        assert_eq!(early.take_match(&Pattern::new(WORLD, None, Some(5))), None);
        assert_eq!(early.len(), usize::try_from(depth).expect("positive"));
    }
}

#[test]
fn any_tag_takes_the_earliest_of_one_sender() {
    for depth in DEPTHS {
        let mut early = EarlyArrivalQueue::new();
        for number in 0..depth {
            early.push(from(2, depth - number), -1);
            early.push(from(1, depth - number), number);
        }
        for number in 0..depth {
            let taken = early.take_match(&Pattern::new(WORLD, Some(1), None));
            assert_eq!(taken, Some((from(1, depth - number), number)));
        }
        assert_eq!(early.take_match(&Pattern::new(WORLD, Some(1), None)), None);
    }
}

#[test]
fn the_communicator_is_never_a_wildcard() {
    for depth in DEPTHS {
        let everything = Pattern::new(OTHER, None, None);
        let (mut posted, mut early) = (PostedQueue::new(), EarlyArrivalQueue::new());
        for number in 0..depth {
            early.push(from(1, number), ());
            posted.post(everything, ());
        }
        assert_eq!(early.take_match(&everything), None);
        assert_eq!(early.peek_match(&everything), None);
        assert_eq!(posted.take_match(&from(1, 0)), None);
        assert_eq!(posted.take_match(&Envelope::new(OTHER, 1, 0)), Some(()));
    }
}

#[test]
fn a_probe_sees_what_the_next_receive_takes_and_leaves_it() {
    for depth in DEPTHS {
        let mut early = EarlyArrivalQueue::new();
        for number in 0..depth {
            early.push(from(1, number), number);
        }
        for pattern in [
            Pattern::exact(WORLD, 1, depth - 1),
            Pattern::new(WORLD, None, Some(depth - 1)),
            Pattern::new(WORLD, Some(1), Some(depth - 1)),
        ] {
            assert_eq!(early.peek_match(&pattern), Some((&from(1, depth - 1), &(depth - 1))));
        }
        let anything = Pattern::new(WORLD, None, None);
        assert_eq!(early.peek_match(&anything), Some((&from(1, 0), &0)));
        assert_eq!(early.take_match(&anything), Some((from(1, 0), 0)));
    }
}

#[test]
fn a_cancelled_receive_is_served_nothing_and_its_handle_stays_dead() {
    for depth in DEPTHS {
        let mut posted = PostedQueue::new();
        let handles =
            (0..depth).map(|number| posted.post(Pattern::exact(WORLD, 1, 5), number)).collect::<Vec<_>>();
        let middle = usize::try_from(depth / 2).expect("positive");
        assert_eq!(posted.cancel(handles[middle]), Some(depth / 2));
        assert_eq!(posted.cancel(handles[middle]), None);
        // The slot is used again; the old handle does not name the new receive.
        let again = posted.post(Pattern::exact(WORLD, 1, 5), -1);
        assert_eq!(posted.cancel(handles[middle]), None);
        for number in (0..depth).filter(|&number| number != depth / 2) {
            assert_eq!(posted.take_match(&from(1, 5)), Some(number));
        }
        assert_eq!(posted.cancel(again), Some(-1));
        assert!(posted.is_empty());
    }
}

#[test]
fn a_taken_message_leaves_nothing_behind() {
    use std::rc::Rc;

    let message = Rc::new(());
    let mut early = EarlyArrivalQueue::new();
    for tag in 0..20 {
        early.push(from(1, tag), Rc::clone(&message));
    }
    for tag in 0..20 {
        early.take_match(&Pattern::exact(WORLD, 1, 19 - tag)).expect("it has arrived");
    }
    assert_eq!(Rc::strong_count(&message), 1);
}

/// A queue with a linear search would need 10^10 steps here.
#[test]
fn a_hundred_thousand_entries_in_any_order() {
    const DEPTH: i32 = 100_000;
    let wildcards: [fn(i32) -> Pattern; 3] = [
        |tag| Pattern::exact(WORLD, 1, tag),
        |tag| Pattern::new(WORLD, None, Some(tag)),
        |_| Pattern::new(WORLD, None, None),
    ];
    for (round, pattern_for) in wildcards.into_iter().enumerate() {
        let (mut posted, mut early) = (PostedQueue::new(), EarlyArrivalQueue::new());
        for tag in 0..DEPTH {
            posted.post(pattern_for(tag), tag);
            early.push(from(1, tag), tag);
        }
        for step in 0..DEPTH {
            let tag = DEPTH - 1 - step;
            // A wildcard takes them in order.
            let expected = if round == 2 { step } else { tag };
            assert_eq!(posted.take_match(&from(1, tag)), Some(expected));
            assert_eq!(early.take_match(&pattern_for(tag)), Some((from(1, expected), expected)));
        }
        assert!(posted.is_empty() && early.is_empty());
    }
}

/// Number of table searches during a call.
fn lookups(call: impl FnOnce()) -> usize {
    let before = index::LOOKUPS.get();
    call();
    index::LOOKUPS.get() - before
}

/// A wildcard that first meets a deep queue finds its table already there: no call costs more because the queue is long.
#[test]
fn no_step_grows_with_the_queue() {
    const DEPTH: i32 = 10_000;
    let wildcards = [
        (Pattern::new(WORLD, None, Some(4000)), 4000),
        (Pattern::new(WORLD, Some(2), None), 5001),
        (Pattern::new(OTHER, None, None), 5000),
        (Pattern::exact(WORLD, 1, 9991), 9991),
    ];
    // With tables that are large enough: growth is paid for by earlier entries.
    let (mut posted, mut early) = (PostedQueue::new(), EarlyArrivalQueue::with_capacity(20_000));
    for tag in 0..DEPTH {
        let envelope = match tag {
            5000 => Envelope::new(OTHER, 1, tag),
            5001 => from(2, tag),
            _ => from(1, tag),
        };
        assert!(lookups(|| _ = early.push(envelope, tag)) <= 2 * 4);
        let pattern =
            if tag % 2 == 0 { Pattern::of(&envelope) } else { Pattern::new(OTHER, None, Some(-tag)) };
        posted.post(pattern, tag);
    }
    for (pattern, tag) in wildcards {
        assert!(lookups(|| assert_eq!(early.peek_match(&pattern).map(|(_, &tag)| tag), Some(tag))) <= 1);
        assert!(lookups(|| assert_eq!(early.take_match(&pattern).map(|(_, tag)| tag), Some(tag))) <= 1 + 4);
    }
    let longest = (0..DEPTH).rev().map(|tag| {
        lookups(|| {
            let taken = early.take_match(&Pattern::exact(WORLD, 1, tag));
            assert_eq!(taken.is_some(), !matches!(tag, 4000 | 5000 | 5001 | 9991));
            posted.take_match(&from(1, tag));
        })
    });
    assert!(longest.max() <= Some(1 + 4 + 4 + 1));
}

#[test]
fn queues_with_a_capacity_behave_as_those_without() {
    let mut posted = PostedQueue::new();
    let mut early = EarlyArrivalQueue::with_capacity(100);
    for tag in 0..100 {
        posted.post(Pattern::exact(WORLD, 1, tag), tag);
        early.push(from(1, tag), tag);
    }
    for tag in (0..100).rev() {
        assert_eq!(posted.take_match(&from(1, tag)), Some(tag));
        assert_eq!(early.take_match(&Pattern::exact(WORLD, 1, tag)), Some((from(1, tag), tag)));
    }
}
