use std::time::{Duration, Instant};

use am_via_shm::PrivateBytes;

use super::*;

/// Both sides, each with its endpoint. Each is the other's peer 0.
struct Pair {
    sides: [(Reads, Endpoint, PeerAddress); 2],
    end: Instant,
}

impl Pair {
    fn open() -> Self {
        let open = || Endpoint::open().expect("libfabric is there");
        let (mut a, mut b) = (open(), open());
        let to_b = a.add_peer(b.address()).expect("an address");
        let to_a = b.add_peer(a.address()).expect("an address");
        let sides = [(Reads::default(), a, to_b), (Reads::default(), b, to_a)];
        assert!(sides[0].1.can_read(), "{} cannot read", sides[0].1.provider());
        Self { sides, end: Instant::now() + Duration::from_secs(60) }
    }

    /// Lets both sides make progress once. Returns the messages that they have exchanged.
    fn step(&mut self) -> Vec<KeyMessage> {
        assert!(Instant::now() < self.end, "the reads do not end");
        let mut said = Vec::new();
        for side in 0..2 {
            let (reads, endpoint, peer) = &mut self.sides[side];
            endpoint.poll(&mut Vec::new(), |_, _| {}).expect("both are there");
            reads.progress(endpoint, |_| *peer);
            let mut words = Vec::new();
            reads.send(|_, what, bytes| {
                words.push((what, *bytes));
                true
            });
            for (what, bytes) in words {
                self.sides[1 - side].0.receive(0, what, &bytes);
                said.push(what);
            }
        }
        said
    }
}

const HANDLE: MemHandle = MemHandle { region: 5, generation: 7 };
const LEN: usize = READ_BYTES_MAX + 3;

fn bytes(range: CheckedRange<'_>) -> Vec<u8> {
    let mut bytes = vec![0; range.len()];
    range.copy_to_slice(&mut bytes);
    bytes
}

fn from(offset: u64) -> Claim {
    Claim { region: HANDLE.region, generation: HANDLE.generation, offset, len: 0, ptag: 1 }
}

#[test]
#[ignore = "needs libfabric"]
fn an_offered_key_comes_unasked_and_serves_one_read() {
    let mut pair = Pair::open();
    let (memory, to) = (PrivateBytes::new(LEN).expect("memory"), PrivateBytes::new(LEN).expect("memory"));
    memory.range().copy_from_slice(&[9; LEN]);
    let (owner, endpoint, _) = &mut pair.sides[1];
    let key = owner.lend_once(endpoint, 0, (HANDLE, 1), memory.range()).expect("the network reads it");
    let reader = &mut pair.sides[0].0;
    reader.receive_offered(0, &key);
    reader.begin(0, from(0), to.range(), 70);
    let mut said = Vec::new();
    while pair.sides[0].0.ended.is_empty() {
        said.extend(pair.step());
    }
    assert_eq!(std::mem::take(&mut pair.sides[0].0.ended), [(70, Ok(0))]);
    assert!(bytes(to.range()).iter().all(|&byte| byte == 9));
    assert!(said.is_empty(), "the reader has the key: {said:?}");
    // The peer has read the memory, so it is free without a message.
    let (owner, endpoint, _) = &mut pair.sides[1];
    assert!(owner.end_lent(endpoint, HANDLE, true));
    assert!(pair.step().is_empty());
    // The next read has to ask. The owner has no such memory any more.
    pair.sides[0].0.begin(0, from(0), to.range(), 71);
    assert_eq!(pair.step(), [KeyMessage::Request]);
}

#[test]
#[ignore = "needs libfabric"]
fn the_owner_ends_a_key_that_was_not_used() {
    let mut pair = Pair::open();
    let memory = PrivateBytes::new(LEN).expect("memory");
    let (owner, endpoint, _) = &mut pair.sides[1];
    let key = owner.lend_once(endpoint, 0, (HANDLE, 1), memory.range()).expect("the network reads it");
    pair.sides[0].0.receive_offered(0, &key);
    let (owner, endpoint, _) = &mut pair.sides[1];
    assert!(!owner.end_lent(endpoint, HANDLE, false), "the peer may read it");
    while !pair.step().contains(&KeyMessage::Released) {}
    assert!(pair.sides[0].0.offered.is_empty());
    let (owner, endpoint, _) = &mut pair.sides[1];
    assert!(owner.end_lent(endpoint, HANDLE, false));
}

#[test]
#[ignore = "needs libfabric"]
fn a_key_is_asked_for_once_for_many_reads() {
    let mut pair = Pair::open();
    let memory = PrivateBytes::new(LEN).expect("memory");
    memory.range().copy_from_slice(&[3; LEN]);
    let to = PrivateBytes::new(1000).expect("memory");
    for (id, byte) in (0..1000).enumerate() {
        let byte = to.range().part(byte, 1).expect("it is inside");
        pair.sides[0].0.begin(0, from(id as u64), byte, id as u64);
    }
    let mut asked = 0;
    while pair.sides[0].0.ended.len() < 1000 {
        asked += pair.step().iter().filter(|what| **what == KeyMessage::Request).count();
        let (owner, endpoint, _) = &mut pair.sides[1];
        if let Some(question) = owner.questions.pop() {
            owner.answer(endpoint, question, Ok(memory.range()));
        }
    }
    assert_eq!((asked, bytes(to.range())), (1, vec![3; 1000]));
    assert!(pair.sides[0].0.ended.iter().all(|(_, result)| result.is_ok()));
    pair.sides[0].0.begin(0, from(LEN as u64), to.range(), 2000);
    while pair.sides[0].0.ended.len() < 1001 {
        pair.step();
    }
    let bounds = Err(ClaimFault::Bounds { len: LEN as u64 });
    assert_eq!(pair.sides[0].0.ended.last(), Some(&(2000, bounds)));
}
