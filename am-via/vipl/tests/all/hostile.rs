//! A peer that posts arbitrary entries can only damage its own connection.

use super::*;
use am_via_nic::{Entry, News, Payload, ViNumber};
use am_via_os::test_aids::Random;
use am_via_vipl::{AddressSegment, AsyncCode, request_entry};

/// The attacker's number for its connection.
const CONNECTION: u32 = 7;
/// The receiver of an entry that is for the NIC itself: all ones, above the operation's 8 bits.
const TO_NIC: u32 = u32::MAX >> 8;

#[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
fn low_word(word: u64) -> u32 {
    word as u32
}

/// Posts random entries, most of them almost valid.
fn attack<D: Device>(attacker: &mut D, vi: ViNumber, random: &mut Random, handle: MemHandle) {
    let operation = match random.below(8) {
        0 => low_word(random.edgy()),
        _ => low_word(random.below(4)) | [0, 1, 2, TO_NIC][low_word(random.below(4)) as usize] << 8,
    };
    let entry = Entry {
        immediate: low_word(random.edgy()),
        length: low_word(random.edgy()),
        operation,
        extra: match random.below(3) {
            0 => random.edgy(),
            _ => random.below(16) | random.below(3) << 8 | random.below(13) << 56,
        },
    };
    let named = u64::from(handle.region) | u64::from(handle.generation) << 32;
    let words: Payload = std::array::from_fn(|_| if random.below(3) == 0 { named } else { random.edgy() });
    // A full ring, or an ended connection, is a possible result of an attack.
    if random.below(2) == 0 {
        let _ = attacker.post(vi, entry, &words);
    } else {
        let _ = attacker.post_area(vi, entry, &words, 256, |area, _| {
            let bytes: Vec<u8> =
                words.iter().cycle().flat_map(|word| word.to_le_bytes()).take(area.len()).collect();
            area.copy_from_slice(&bytes);
            Some(usize::try_from(random.below(area.len() as u64 + 1)).unwrap())
        });
    }
}

/// Lets a raw device attack `victim` over one VI while `honest` exchanges messages with the victim over another VI.
fn survive<D: Device>(mut attacker: D, victim: &mut End<D>, honest: &mut End<D>, seed: u64) {
    let mut random = Random(seed);
    let (here, there) = (attacker.endpoint(), victim.agent.address());
    let attacked = victim.agent.create_vi(attributes_of(victim, seed), None, None).unwrap();
    victim.ask(attacked, here).unwrap();
    let (open, secret) = (victim.region(64), victim.agent.alloc(64).unwrap());
    let none = MemAttributes::default();
    let secret_handle = victim.agent.register_mem(&secret, (0, 64), victim.tag, none).unwrap();
    let (from, to) = (honest.region(64), victim.region(64));
    let mut payload = Payload::default();
    let mut vi = None;
    for round in 0..400_u32 {
        for _ in 0..4 {
            if let Some(News::Entry(completion)) = attacker.poll(&mut payload)
                && completion.keeps_slot()
            {
                attacker.release(completion.vi);
            }
        }
        vi = vi.or_else(|| attacker.connect(ViNumber(0), there).unwrap());
        if let Some(vi) = vi {
            if round == 40 {
                let (polite, words) = request_entry(&attributes_of(victim, seed), CONNECTION);
                assert_eq!(polite.operation >> 8, TO_NIC);
                let _ = attacker.post(vi, polite, &words);
            }
            if round > 40 || seed.is_multiple_of(5) {
                let handle = if round.is_multiple_of(2) { open.handle } else { secret_handle };
                attack(&mut attacker, vi, &mut random, handle);
            }
        }
        let own = DataSegment { handle: open.handle, offset: 0, length: 32 };
        // The queue may be full, or the VI broken.
        let _ = victim.agent.post_recv(attacked, Descriptor::receive().with_segment(own));
        let place = AddressSegment { handle: open.handle, offset: 0 };
        let _ = match round % 3 {
            0 => victim.agent.post_send(attacked, Descriptor::rdma_read(place).with_segment(own)),
            1 => victim.agent.post_send(attacked, Descriptor::send().with_segment(own)),
            _ => Ok(()),
        };
        while victim.agent.recv_done(attacked).unwrap().is_some() {}
        while victim.agent.send_done(attacked).unwrap().is_some() {}
        if round.is_multiple_of(20) {
            let bytes = from.fill(u8::try_from(round % 251).unwrap());
            victim.post_recv(Descriptor::receive().with_segment(to.segment(0, 64)));
            honest.post_send(Descriptor::send().with_segment(from.segment(0, 64)).with_immediate(round));
            let done = received(honest, victim);
            assert_eq!((done.immediate(), to.bytes(0, 64)), (Some(round), bytes), "seed {seed}");
            assert!(sent(honest, victim).status().is_success(), "seed {seed}");
        }
    }
    let mut bytes = [0; 64];
    secret.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 64], "seed {seed}: memory that was not opened to peers");
    while let Some(error) = victim.agent.next_error() {
        assert!(error.vi == attacked || error.code == AsyncCode::ReceiveQueueEmpty, "seed {seed}: {error:?}");
    }
    assert_eq!((victim.state(), honest.state()), (ViState::Connected, ViState::Connected), "seed {seed}");
}

fn attributes_of<D: Device>(victim: &End<D>, seed: u64) -> ViAttributes {
    match seed % 3 {
        0 => unreliable(victim.tag),
        1 => delivery(victim.tag),
        _ => reception(victim.tag),
    }
}

#[test]
fn over_a_wire() {
    let ways = [Reach::Direct, Reach::Posted, Reach::Staged];
    for (seed, reach) in (0..60).zip(ways.into_iter().cycle()) {
        let options = WireOptions { slot_bytes: 256, ring_lines: 8, ..WireOptions::new(3) }.with_reach(reach);
        let (network, mut honest, mut victim) = on_wire(options, delivery);
        connect(&mut honest, &mut victim);
        survive(network.open(task(2)).unwrap(), &mut victim, &mut honest, seed);
    }
}

#[test]
fn over_shared_memory() {
    for (seed, mapped) in [(1, true), (2, false)] {
        let (mut honest, mut victim) = on_shm(Ways { mapped, kernel: false }, delivery);
        connect(&mut honest, &mut victim);
        survive(shm_device(Ways { mapped, kernel: false }), &mut victim, &mut honest, seed);
    }
}
