use am_via_os::test_aids::Random;
use am_via_shm::layout::{ATTENTION_OFFSET, ControlLayout, DOORBELL_OFFSET};
use am_via_shm::{Bell, Draft, Mapping, PrivateBytes, SleepBarrier, TELL_AFTER, ViSlot, Written};

use super::kind::Kind;
use super::reads::{KEY_MESSAGE_BYTES, OFFERED_MAX};
use super::*;
use crate::device::{ContextNumber, TaskId};
use crate::device::{Entry, Operation, Payload};

/// The network end of a context without connections.
fn far() -> Far {
    let (_file, mapping) = Mapping::anonymous(4096).expect("a page");
    let endpoint = am_via_ofi::Endpoint::open().expect("libfabric is there");
    let links = Links {
        own: Endpoint::new(TaskId(0), ContextNumber(0)),
        num_tasks: 2,
        slot_bytes: 16 << 10,
        message_bytes_max: endpoint.message_bytes_max(),
        all: Vec::new(),
        by_peer: HashMap::new(),
        latest: 0,
        strangers: Strangers::default(),
        reads: Reads::default(),
    };
    Far(Arc::new(Mutex::new(State {
        endpoint,
        links,
        broken: Vec::new(),
        doorbell: mapping.atomics(0).expect("a doorbell fits into a page"),
        thread: OnDemand::NotYet,
        vain: 0,
        rounds: 0,
        has_unseen: false,
        failed: None,
    })))
}

/// The network thread's end of a context.
fn carrier(far: &Far) -> Unsent {
    Unsent { far: Arc::downgrade(&far.0), rounds: far.lock().rounds }
}

/// A message that the network thread takes resets the count of wake-ups without a message.
#[test]
#[ignore = "needs libfabric"]
fn a_message_that_the_thread_takes_lets_the_task_sleep_on_the_file_again() {
    let far = far();
    let mut peer = am_via_ofi::Endpoint::open().expect("libfabric is there");
    let to = peer.add_peer(far.lock().endpoint.address()).expect("an address");
    far.lock().vain = VAIN_MAX;
    let end = Instant::now() + Duration::from_secs(60);
    let mut was_sent = false;
    while !far.lock().has_unseen {
        assert!(Instant::now() < end, "no message arrives");
        // A message of a task that does not exist is dropped.
        was_sent = was_sent || peer.send(to, u32::MAX, 4, |bytes| bytes.fill(1)).expect("the peer is there");
        peer.poll(&mut Vec::new(), |_, _| {}).expect("the peer is there");
        carrier(&far).carry();
    }
    assert_eq!(far.lock().vain, 0);
}

#[test]
#[ignore = "needs libfabric"]
fn each_progress_after_a_panic_of_the_thread_reports_it_and_the_task_does_not_sleep() {
    let far = far();
    far.progress().expect("the network is there");
    carrier(&far).fail("it has panicked".to_owned());
    for _ in 0..2 {
        assert!(!far.wakes());
        assert_eq!(far.progress().expect_err("the thread has failed"), "it has panicked");
    }
    assert!(!carrier(&far).carry(), "nothing is carried any more");
}

const LAYOUT: ControlLayout = ControlLayout { num_tasks: 2, packet_bytes: 16 << 10, vis: 64 };

/// Two connected contexts. The first one posts lines.
struct Pair {
    sender: Side,
    receiver: Side,
    /// The lengths of all posted lines. Each line has the number of lines before it as its immediate data.
    posted: Vec<u32>,
    /// Number of lines that the receiver's program has received.
    received: u32,
    end: Instant,
}

/// One context: its network end, and its program's end of the connection.
struct Side {
    far: Far,
    near: Connection,
}

impl Side {
    fn open(task: u32) -> Self {
        let far = far();
        far.lock().links.own = Endpoint::new(TaskId(task), ContextNumber(0));
        Self { far, near: near_end(&Slots::new()) }
    }

    fn join(&mut self, task: u32, address: &[u8]) {
        let slots = Slots::new();
        let draft = Arc::clone(&slots.draft);
        self.near = near_end(&slots);
        let stand_in = StandIn { end: stand_in_end(&slots), draft };
        self.far
            .join(Endpoint::new(TaskId(task), ContextNumber(0)), address, &mut self.near, stand_in)
            .expect("an address");
    }
}

struct Slots {
    own: Arc<Mapping>,
    stand_in: Arc<Mapping>,
    draft: Arc<Draft>,
}

impl Slots {
    fn new() -> Self {
        let slot = || Mapping::anonymous(LAYOUT.vi_slot_bytes()).expect("memory").1;
        Self { own: slot(), stand_in: slot(), draft: Arc::default() }
    }

    fn own(&self) -> ViSlot {
        // SAFETY: each slot gets one connection that reads it, and one that writes it.
        unsafe { ViSlot::new(Arc::clone(&self.own), LAYOUT) }.expect("it is long enough")
    }

    fn stand_in(&self) -> ViSlot {
        // SAFETY: as above.
        let slot = unsafe { ViSlot::new(Arc::clone(&self.stand_in), LAYOUT) }.expect("it is long enough");
        slot.with_draft(Arc::clone(&self.draft))
    }
}

fn near_end(slots: &Slots) -> Connection {
    end_of(slots.own(), slots.stand_in())
}

fn stand_in_end(slots: &Slots) -> Connection {
    end_of(slots.stand_in(), slots.own())
}

fn end_of(own: ViSlot, theirs: ViSlot) -> Connection {
    let (_file, head) = Mapping::anonymous(LAYOUT.head_bytes()).expect("memory");
    let bell = Bell {
        doorbell: head.atomics(DOORBELL_OFFSET).expect("it lies inside"),
        attention: head.atomics(ATTENTION_OFFSET).expect("it lies inside"),
        outlet: None,
    };
    Connection::new(own, theirs, 0, bell, SleepBarrier::SenderFence, usize::MAX).expect("both are whole")
}

/// No messages, for a network thread that is to send none.
#[derive(Debug)]
struct Nothing;

impl Waiting for Nothing {
    fn carry(&mut self) -> bool {
        false
    }

    fn fail(&mut self, why: String) {
        panic!("{why}");
    }
}

impl Pair {
    fn open() -> Self {
        let (mut sender, mut receiver) = (Side::open(0), Side::open(1));
        let [from, to] = [&sender, &receiver].map(|side| side.far.lock().endpoint.address().to_vec());
        sender.join(1, &to);
        receiver.join(0, &from);
        let end = Instant::now() + Duration::from_secs(60);
        let mut pair = Self { sender, receiver, posted: Vec::new(), received: 0, end };
        // The first line connects the two endpoints.
        pair.post(0);
        pair.receive_all();
        pair
    }

    /// A pair with its sender's network end and its receiver's address.
    fn open_for_drafts() -> (Self, Far, Endpoint) {
        let pair = Self::open();
        let far = pair.sender.far.clone();
        assert!(far.carries_together(4, 4 * (16 << 10)), "the network must carry long lines together");
        (pair, far, Endpoint::new(TaskId(1), ContextNumber(0)))
    }

    /// Posts a line with `len` bytes in its area.
    fn post(&mut self, len: u32) {
        let number = u32::try_from(self.posted.len()).expect("a test posts few lines");
        let operation = if len > 0 { Operation::Area } else { Operation::Inline };
        let entry = Entry { immediate: number, length: len, operation: operation as u32, extra: 0 };
        let fill = |area: CheckedRange<'_>, _| {
            area.copy_from_slice(&vec![number.to_le_bytes()[0]; area.len()]);
            Some(area.len())
        };
        let near = &mut self.sender.near;
        let written = match len {
            0 => near.post(entry, &Payload::default()),
            _ => near.post_area(&Payload::default(), len as usize, fill, |_| entry),
        };
        assert_eq!(written, Written::Done);
        self.posted.push(len);
    }

    /// The bytes of the message of this number, as if the sender had sent it: a `Part` with `here` bytes, or a line of `len` bytes, of
    /// which `here` bytes are in this message.
    fn message(&mut self, number: &mut u32, kind: Kind, len: u32, here: usize) -> Vec<u8> {
        let line = u32::try_from(self.posted.len()).expect("a test posts few lines");
        let area = PrivateBytes::new(here.max(1)).expect("memory");
        area.range().copy_from_slice(&vec![line.to_le_bytes()[0]; here.max(1)]);
        let area = area.range().part(0, here).expect("it is inside");
        let mut bytes = Vec::new();
        if kind == Kind::Part {
            bytes.extend(number.to_le_bytes());
            bytes.extend(vec![line.to_le_bytes()[0]; here]);
        } else {
            let operation = if len > 0 { Operation::Area } else { Operation::Inline };
            let entry = Entry { immediate: line, length: len, operation: operation as u32, extra: 0 };
            // The message brings no keys.
            bytes.extend(if kind == Kind::Keyed { &[0; 4][..] } else { &[] });
            let before = bytes.len();
            bytes.resize(before + BEFORE_AREA_BYTES + here, 0);
            line::write(&mut bytes[before..], *number, &entry, &Payload::default(), area);
            self.posted.push(len);
        }
        *number = number.wrapping_add(1);
        bytes
    }

    /// From now on the sender's network thread sends nothing. On a slow machine it would send some of the lines that wait for more of their
    /// burst.
    fn carry_nothing(&mut self) {
        let mut state = self.sender.far.lock();
        let thread = NetworkThread::start(None, state.doorbell.clone(), Box::new(Nothing), REST_MAX);
        state.thread = OnDemand::Here(thread.expect("a thread"));
    }

    /// Number of messages with lines that the sender has sent.
    fn sent(&self) -> u32 {
        self.sender.far.lock().links.all[0].sent
    }

    /// Receives all lines that were posted, with the sender's progress, until the sender has its credits back.
    fn receive_all(&mut self) {
        let acked = |pair: &Self| pair.sender.far.lock().links.all[0].acked;
        while (self.received as usize) < self.posted.len() || self.received - acked(self) >= TELL_AFTER {
            self.sender.far.progress().expect("the network is there");
            self.receive();
        }
    }

    /// Receives the lines that have arrived, and checks them.
    fn receive(&mut self) {
        assert!(Instant::now() < self.end, "{} of {} lines arrive", self.received, self.posted.len());
        self.receiver.far.progress().expect("the network is there");
        self.take_lines();
    }

    /// Takes the lines in the receiver's ring, and checks them.
    fn take_lines(&mut self) {
        let near = &mut self.receiver.near;
        while let Some((entry, slot)) = near.poll(&mut Payload::default()) {
            let number = self.received;
            self.received += 1;
            assert_eq!((entry.immediate, entry.length), (number, self.posted[number as usize]));
            if entry.length > 0 {
                let mut bytes = vec![0; entry.length as usize];
                // SAFETY: the entry has just arrived.
                unsafe { near.area(slot, entry.length) }.copy_to_slice(&mut bytes);
                assert!(bytes.iter().all(|&byte| byte == number.to_le_bytes()[0]), "line {number}");
            }
            near.release();
        }
    }
}

/// The lines of the first posts after the task's progress leave at once, and further short lines leave together. A short line does not wait
/// for a long one. Once enough bytes wait, they leave before the task's next progress.
#[test]
#[ignore = "needs libfabric"]
fn short_lines_of_a_burst_share_messages() {
    let mut pair = Pair::open();
    pair.carry_nothing();
    for (len, messages) in [(0, 8 + 2), (40, 8 + 2), (1024, 8 + 4), (9000, 8 + 32)] {
        let before = pair.sent();
        for _ in 0..40 {
            pair.post(len);
        }
        let sent = pair.sent() - before;
        assert!(sent <= messages, "{sent} messages for 40 lines of {len} bytes");
        assert_eq!(sent == 40, len > 8192);
        pair.receive_all();
        assert!(pair.sent() - before <= messages + 1);
    }
    // After progress a line leaves at once.
    let before = pair.sent();
    pair.post(8);
    assert_eq!(pair.sent(), before + 1);
    pair.receive_all();
}

/// Long lines that are posted together are written in the message that carries them. Each of these: what was announced is posted in whole,
/// in part, or with short lines between; and a long line follows that was not announced.
#[test]
#[ignore = "needs libfabric 2, whose messages are longer"]
fn the_lines_of_a_long_message_are_written_where_the_network_sends_them() {
    let (mut pair, far, peer) = Pair::open_for_drafts();
    let is_drafted = || far.lock().links.all[0].is_drafted();
    for round in 0..50 {
        for (lines, drafted) in [
            (&[16384, 16384, 16384, 16384][..], true),
            (&[10240, 9000], true),
            (&[13696, 13696, 13568], true),
            (&[16384, 100, 9000], true),
            (&[100, 16384, 16384], false),
            (&[16384, 0], true),
        ] {
            let before = pair.sent();
            far.expect_posts(peer, lines.len() as u32);
            let cut = if round % 5 == 4 { lines.len() - 1 } else { lines.len() };
            for (at, &len) in lines[..cut].iter().enumerate() {
                pair.post(len);
                // The last expected post sends the message, whose lines are no longer in the draft.
                assert_eq!(is_drafted(), drafted && at + 1 < lines.len(), "line {at} of {lines:?}");
            }
            assert_eq!(pair.sent() - before, u32::from(cut == lines.len()), "{lines:?}");
            pair.post(12000);
            pair.receive_all();
            while !far.lock().endpoint.is_idle() {
                far.progress().expect("the network is there");
            }
            assert!(!is_drafted());
        }
    }
}

/// The program gives up a line whose bytes it has begun to write in the draft, and posts another one. What was written for the line that
/// was given up is not sent, and the next area does not lie on those of the lines before it.
#[test]
#[ignore = "needs libfabric 2, whose messages are longer"]
fn the_area_of_a_line_that_was_given_up_is_used_for_the_next_line() {
    let (mut pair, far, peer) = Pair::open_for_drafts();
    for lens in [[16384, 16384], [100, 16384], [9000, 10000], [0, 9000]] {
        for progresses in [false, true] {
            far.expect_posts(peer, 4);
            pair.post(9000);
            let fill = |area: CheckedRange<'_>, _| {
                area.copy_from_slice(&vec![0xEE; area.len()]);
                None
            };
            let given_up =
                pair.sender.near.post_area(&Payload::default(), 10_000, fill, |_| Entry::default());
            assert_eq!(given_up, Written::Nothing);
            if progresses {
                far.progress().expect("the network is there");
            }
            lens.into_iter().for_each(|len| pair.post(len));
            pair.receive_all();
        }
    }
    far.expect_posts(peer, 2);
    pair.post(9000);
    assert!(far.lock().links.all[0].is_drafted());
    pair.receive_all();
}

/// Each announcement of a burst brings the key of its data, even if the announcement waits for the lines before it. A registration that
/// ends before its key is sent leaves no key.
#[test]
#[ignore = "needs libfabric"]
fn the_next_lines_bring_the_keys_of_all_offered_memory() {
    let mut pair = Pair::open();
    let far = pair.sender.far.clone();
    if !far.can_read() {
        return;
    }
    let (memory, peer) =
        (PrivateBytes::new(100).expect("memory"), Endpoint::new(TaskId(1), ContextNumber(0)));
    let handle = |region| MemHandle { region, generation: 1 };
    for most in [1, 7, OFFERED_MAX as u32] {
        // The last key is one too many, and the reader has to ask for it.
        for region in 0..most + u32::from(most > 7) {
            far.offer(peer, handle(region), 5, memory.range());
        }
        assert!(far.end_lent(handle(0), true));
        // A message of the greatest length has no space for a key.
        for len in [16 << 10, 0, 0] {
            pair.post(len);
        }
        pair.receive_all();
        let offered = pair.receiver.far.lock().links.reads.take_offered();
        assert_eq!(offered, (1..most).map(handle).collect::<Vec<_>>());
        for region in 1..=most {
            assert!(far.end_lent(handle(region), true), "the peer has read it");
        }
    }
}

/// The network delivers numbered messages out of order, and some of them again. The receiver gets each line once, in the order of the
/// numbers, as soon as all earlier messages have arrived.
#[test]
#[ignore = "needs libfabric"]
fn messages_out_of_order_and_twice_are_taken_in_order_and_once() {
    let mut pair = Pair::open();
    let seed = 4711;
    println!("seed {seed}");
    let mut random = Random(seed);
    // The numbers wrap.
    let mut number = u32::MAX - 100;
    pair.receiver.far.lock().links.all[0].expected = number;
    for round in 0..100 {
        // A line without an area, a line with one, a long line whose area begins in a `Part`, and a line that may bring keys.
        let messages: Vec<_> = [
            (Kind::Line, 0, 0),
            (Kind::Line, 300, 300),
            (Kind::Part, 0, 1000),
            (Kind::Line, 3000, 2000),
            (Kind::Keyed, 9, 9),
        ]
        .into_iter()
        .map(|(kind, len, here)| (kind, pair.message(&mut number, kind, len, here)))
        .collect();
        let mut has_arrived = [false; 5];
        while has_arrived.contains(&false) {
            let at = random.below(5) as usize;
            let (kind, bytes) = &messages[at];
            pair.receiver
                .far
                .lock()
                .links
                .receive(kind.word(Endpoint::new(TaskId(0), ContextNumber(0))), bytes);
            has_arrived[at] = true;
            pair.take_lines();
            let in_order = has_arrived.iter().take_while(|&&has_arrived| has_arrived).count();
            // The first line of all has connected the two ends. The `Part` is no line.
            let lines = 1 + 4 * round + [0, 1, 2, 2, 3, 4][in_order];
            assert_eq!(pair.received, lines, "round {round}: {has_arrived:?}");
        }
        assert!(pair.receiver.far.lock().links.all[0].early.is_empty(), "what came again is not kept");
    }
}

/// The number of keys in a message is a claim.
#[test]
#[ignore = "needs libfabric"]
fn messages_with_fewer_keys_than_they_claim_are_dropped() {
    let mut pair = Pair::open();
    let word = Kind::Keyed.word(Endpoint::new(TaskId(0), ContextNumber(0)));
    for claimed in [0, 1, 3, 1 << 30, u32::MAX] {
        let mut bytes = vec![0; 4 + 3 * KEY_MESSAGE_BYTES + 2 * BEFORE_AREA_BYTES];
        bytes[..4].copy_from_slice(&claimed.to_le_bytes());
        for len in 0..=bytes.len() {
            let links = &mut pair.receiver.far.lock().links;
            links.receive(word, &bytes[..len]);
            let are_there = len >= 4 + (claimed as usize).saturating_mul(KEY_MESSAGE_BYTES);
            let offered = links.reads.take_offered().len();
            assert_eq!(offered, if are_there { claimed as usize } else { 0 }, "{len} bytes, {claimed} keys");
        }
    }
    pair.post(8);
    pair.receive_all();
}

/// Lines that are held leave although the task makes no progress.
#[test]
#[ignore = "needs libfabric"]
fn the_last_lines_of_a_burst_leave_while_the_task_computes() {
    let mut pair = Pair::open();
    for _ in 0..20 {
        pair.post(8);
    }
    assert!(pair.sender.far.has_unsent());
    while (pair.received as usize) < pair.posted.len() {
        pair.receive();
    }
    assert!(!pair.sender.far.has_unsent());
    pair.sender.far.end_thread();
    // Without the thread, each line leaves at once.
    let before = pair.sent();
    for _ in 0..20 {
        pair.post(8);
    }
    assert_eq!(pair.sent(), before + 20);
    pair.receive_all();
}

/// A get asks the owner for the key, and the owner closes instead of answering.
#[test]
#[ignore = "needs libfabric"]
fn a_read_that_waits_for_a_key_ends_if_the_owner_closes() {
    let pair = Pair::open();
    if !pair.sender.far.can_read() {
        return;
    }
    let to = PrivateBytes::new(100).expect("memory");
    let owner = Endpoint::new(TaskId(1), ContextNumber(0));
    let read = |pair: &Pair, region, id| {
        let from = Claim { region, generation: 1, offset: 0, len: 100, ptag: 1 };
        pair.sender.far.read(owner, from, to.range(), id)
    };
    read(&pair, 5, 70).expect("it begins");
    read(&pair, 5, 71).expect("it begins");
    read(&pair, 6, 72).expect("it begins");
    // The owner takes the questions, and drops them.
    let mut asked = 0;
    while asked < 2 {
        pair.sender.far.progress().expect("the network is there");
        asked += pair.receiver.far.progress().expect("the network is there").questions.len();
        assert!(Instant::now() < pair.end, "{asked} questions arrive");
    }
    let leaver = pair.receiver.far.clone();
    let leaves = std::thread::spawn(move || leaver.leave(|| false));
    let mut ended = Vec::new();
    while ended.len() < 3 {
        ended.extend(pair.sender.far.progress().expect("the network is there").reads_ended);
        assert!(Instant::now() < pair.end, "the reads end: {ended:?}");
    }
    leaves.join().expect("it leaves");
    ended.sort_unstable_by_key(|&(id, _)| id);
    assert_eq!(ended, [70, 71, 72].map(|id| (id, Err(ClaimFault::Stale))));
    assert_eq!(read(&pair, 5, 73), Err(ClaimFault::Stale), "the owner has closed");
}
