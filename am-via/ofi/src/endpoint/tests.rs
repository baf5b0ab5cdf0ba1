use std::collections::HashMap;
use std::time::{Duration, Instant};

use am_via_os::poll;
use am_via_shm::{HeldRange, PrivateBytes};

use super::*;
use crate::READ_BYTES_MAX;

mod demanding;

/// Two endpoints, of which `a` sends to `b`.
struct Pair {
    a: Endpoint,
    b: Endpoint,
    to_b: PeerAddress,
    /// What has arrived at `b`.
    got: Vec<(u32, Vec<u8>)>,
    end: Instant,
}

impl Pair {
    fn open() -> Self {
        Self::of(Endpoint::open().unwrap(), Endpoint::open().unwrap())
    }

    fn of(mut a: Endpoint, b: Endpoint) -> Self {
        let to_b = a.add_peer(b.address()).unwrap();
        Self { a, b, to_b, got: Vec::new(), end: Instant::now() + Duration::from_secs(60) }
    }

    /// Lets both endpoints make progress once.
    fn turn(&mut self) {
        let mut broken = Vec::new();
        self.a.poll(&mut broken, |_, _| panic!("b sends nothing")).unwrap();
        self.b.poll(&mut broken, |word, bytes| self.got.push((word, bytes.to_vec()))).unwrap();
        assert!(broken.is_empty() && Instant::now() < self.end, "{} messages arrived", self.got.len());
    }

    /// Sends `len` times the lowest byte of `word`.
    fn send(&mut self, word: u32, len: usize) {
        while !self.a.send(self.to_b, word, len, |buffer| buffer.fill(word.to_le_bytes()[0])).unwrap() {
            self.turn();
        }
    }

    /// Waits until `count` messages have arrived, and none is in `a`'s buffers.
    fn receive(&mut self, count: usize) {
        while self.got.len() < count || !self.a.is_idle() {
            self.turn();
        }
    }
}

#[test]
#[ignore = "needs libfabric"]
fn messages_of_all_lengths_arrive_once_and_short_ones_in_order() {
    let mut pair = Pair::open();
    let max = pair.a.message_bytes_max();
    let lengths: Vec<usize> = (0..400).map(|at| [0, 8, 64, 65, 4096, max][at % 6]).collect();
    (0..).zip(&lengths).for_each(|(word, &len)| pair.send(word, len));
    pair.receive(lengths.len());
    let got = &mut pair.got;
    for (word, bytes) in got.iter() {
        assert_eq!(bytes.len(), lengths[*word as usize]);
        assert!(bytes.iter().all(|&byte| byte == word.to_le_bytes()[0]), "message {word}");
    }
    let short: Vec<u32> = got.iter().filter(|(_, bytes)| bytes.len() < max).map(|&(word, _)| word).collect();
    assert!(short.is_sorted(), "{short:?}");
    got.sort_unstable_by_key(|&(word, _)| word);
    got.dedup_by_key(|&mut (word, _)| word);
    assert_eq!(got.len(), lengths.len());
    // The opposite direction, over the same connection.
    let mut back = Pair::of(pair.b, pair.a);
    back.send(7, 3);
    back.receive(1);
    assert_eq!(back.got, [(7, vec![7; 3])]);
}

#[test]
#[ignore = "needs libfabric"]
fn what_was_sent_to_the_end_arrives_though_its_endpoint_closes() {
    let mut pair = Pair::open();
    // The receiver takes part until the two are connected.
    pair.send(0, 64);
    pair.receive(1);
    // More messages than the sockets of a connection hold.
    let Pair { a, to_b, .. } = &mut pair;
    let refused = (1..80_000).find(|&word| !a.send(*to_b, word, 64, |buffer| buffer.fill(7)).unwrap());
    let last = refused.unwrap_or(80_000);
    while !pair.a.send_to_the_end(pair.to_b, last, 64, |buffer| buffer.fill(7)).unwrap() {
        pair.turn();
    }
    while !pair.a.is_idle() {
        pair.turn();
    }
    let Pair { a, mut b, mut got, end, .. } = pair;
    drop(a);
    let mut broken = Vec::new();
    while got.len() <= last as usize {
        b.poll(&mut broken, |word, bytes| got.push((word, bytes.to_vec()))).unwrap();
        assert!(broken.is_empty() && Instant::now() < end, "{} of {} arrived", got.len(), last + 1);
    }
    for (number, (word, bytes)) in (0..).zip(&got).skip(1) {
        assert_eq!((*word, &bytes[..]), (number, &[7; 64][..]));
    }
}

#[test]
#[ignore = "needs libfabric"]
fn a_buffer_goes_only_to_the_endpoint_that_has_reserved_it() {
    let mut pair = Pair::open();
    let mut reserved = pair.a.reserve().map(|(reserved, _)| reserved);
    assert!(reserved.is_some(), "a new endpoint has free buffers");
    let other = std::panic::AssertUnwindSafe(|| pair.b.send_reserved(pair.to_b, 1, 1, &mut reserved, |_| {}));
    assert!(std::panic::catch_unwind(other).is_err());
    pair.a.give_back(&mut reserved);
}

/// Reads of all lengths, more than may be in flight at once. Those from another peer are abandoned.
#[test]
#[ignore = "needs libfabric"]
fn lent_memory_is_read_and_abandoned_reads_give_their_buffers_back() {
    let mut pair = Pair::open();
    read_lent_memory(&mut pair);
}

fn read_lent_memory(pair: &mut Pair) {
    if !pair.a.can_read() {
        assert!(!pair.a.provider().starts_with("tcp"), "tcp reads");
        return;
    }
    let memory = PrivateBytes::new(4 * READ_BYTES_MAX).unwrap();
    let pattern: Vec<u8> = (0..=250).cycle().take(4 * READ_BYTES_MAX).collect();
    memory.range().copy_from_slice(&pattern);
    // SAFETY: the memory lives longer than the loan, and is not written any more.
    let lent = unsafe { pair.b.lend(HeldRange::hold(memory.range())) }.unwrap();
    let parts: [(u32, usize); 4] = [(0, 1), (3, 64), (5, READ_BYTES_MAX), (1 << 18, READ_BYTES_MAX)];
    let mut due: Vec<(u32, usize)> = (0..40).map(|at| parts[at % 4]).collect();
    let (mut under_way, mut ended) = (HashMap::new(), 0);
    while ended < 40 {
        if let Some(&(offset, len)) = due.last()
            && let Some(id) = pair.a.read(pair.to_b, lent.remote, offset.into(), len).unwrap()
        {
            due.pop();
            under_way.insert(id, (offset as usize, len));
        }
        if ended == 20 && under_way.len() > 2 {
            ended += under_way.len();
            under_way.clear();
            pair.a.abandon_reads(pair.to_b);
        }
        pair.turn();
        while pair.a.ended_read(|id, bytes| {
            let (offset, len) = under_way.remove(&id).expect("it was begun, and not abandoned");
            assert!(bytes == Some(&pattern[offset..][..len]), "{len} bytes from {offset}");
        }) {
            ended += 1;
        }
    }
    pair.b.end_lend(&lent);
}

/// Sends messages to `b` from an endpoint that knows `b`'s address without its key, and messages of `a` between them. `rests`: how many of
/// the stranger's messages come between two polls of `b`.
fn send_as_a_stranger(pair: &mut Pair, messages: u32, rests: u32) {
    let mut stranger = Endpoint::open().unwrap();
    let mut address = pair.b.address().to_vec();
    let at = address.len() - 1 - Key::BYTES / 2;
    address[at] ^= 1;
    let to_b = stranger.add_peer(&address).unwrap();
    let (before, mut broken) = (pair.got.len(), Vec::new());
    for number in 0..messages {
        if number % 1000 == 0 {
            pair.send(number, 64);
        }
        while !stranger.send(to_b, number, 64, |bytes| bytes.fill(0xEE)).unwrap() {
            stranger.poll(&mut broken, |_, _| ()).unwrap();
            pair.turn();
        }
        if number % rests == 0 {
            pair.turn();
        }
    }
    let wanted = pair.b.strangers().messages.max(u64::from(messages) - 100);
    while pair.b.strangers().messages < wanted {
        stranger.poll(&mut broken, |_, _| ()).unwrap();
        pair.turn();
    }
    pair.receive(before + messages.div_ceil(1000) as usize);
    for (word, bytes) in &pair.got[before..] {
        assert_eq!((word % 1000, &bytes[..]), (0, &[word.to_le_bytes()[0]; 64][..]), "a stranger's message");
    }
}

/// Resident memory of this process in MB.
fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
#[ignore = "needs libfabric"]
fn messages_without_the_key_are_dropped_and_counted() {
    let mut pair = Pair::open();
    assert_eq!(pair.b.strangers(), &Strangers::default());
    send_as_a_stranger(&mut pair, 2000, 1);
    let before = resident_mb();
    send_as_a_stranger(&mut pair, 60_000, 50);
    let grown = resident_mb().saturating_sub(before);
    println!("{:?}, {grown} MB", pair.b.strangers());
    // A message that is kept takes 16 KiB. Other tests of this process use memory, too.
    assert!(grown < 60_000 * 16 / 1024 / 3, "60 000 messages of 64 bytes take {grown} MB");
}

#[test]
#[ignore = "needs libfabric"]
fn an_idle_endpoint_can_be_slept_on_and_wakes() {
    let mut pair = Pair::open();
    if pair.b.file().is_none() {
        assert!(!pair.b.provider().starts_with("tcp"), "tcp has a file to sleep on");
        return;
    }
    pair.send(1, 1);
    pair.receive(1);
    // The file of `net` is always readable.
    let is_ready = pair.b.provider().starts_with("net");
    let file = pair.b.file_to_sleep_on().expect("nothing is left to poll");
    assert_eq!(poll::poll(&[file], Some(Duration::ZERO)).unwrap(), [is_ready]);
    assert!(pair.a.send(pair.to_b, 2, 1, |buffer| buffer.fill(2)).unwrap());
    assert_eq!(poll::poll(&[file], Some(Duration::from_secs(60))).unwrap(), [true]);
    pair.receive(2);
    assert_eq!(pair.b.can_wake_a_sleeper().unwrap(), !is_ready);
}

#[test]
#[ignore = "needs libfabric"]
fn a_provider_with_the_demands_of_real_network_cards_finds_no_fault() {
    let library = demanding::library(Library::open().unwrap());
    let open = || Endpoint::open_by(library).unwrap();
    let mut pair = Pair::of(open(), open());
    let max = pair.a.message_bytes_max();
    for word in 0..200 {
        pair.send(word, [8, max][word as usize % 2]);
    }
    pair.receive(200);
    read_lent_memory(&mut pair);
    // The provider carries 32 bits beside a message, so that the key is in the message.
    assert!(!pair.b.keys_beside && max < pair.b.sends.bytes());
    send_as_a_stranger(&mut pair, 1000, 1);
    drop(pair);
    let (uses, faults) = demanding::report();
    assert!(faults.is_empty(), "{faults:?}");
    // A receive for each message, a send for each long one, and the reads.
    assert!(uses >= 300, "{uses}");
}
