//! Longer tests of everything at once: traffic over many VIs, random calls, and a peer that posts garbage.

use crate::pair::{Outcome, Pair, ensure, same};
use crate::suite::table;
use am_via_nic::device::{ContextNumber, Endpoint, MemAttributes, MemHandle};
use am_via_nic::{Device, Entry, News, Payload, ViNumber};
use am_via_vipl::{
    AddressSegment, Control, DataSegment, Descriptor, Discriminator, Reliability, ViAttributes, ViState,
};

table! {
    Functional {
        stress_of_messages_both_ways: "stress: VipPostSend, VipPostRecv";
        stress_of_connections: "stress: VipConnectPeerRequest, VipDisconnect";
        stress_of_many_vis_and_one_cq: "stress: VipCQWait";
        stress_of_registrations: "stress: VipRegisterMem, VipDeregisterMem";
    }
    Full {
        stress_of_wrong_calls: "stress: invalid inputs at random";
        garbage_of_a_hostile_nic_spoils_nothing_else: "a peer that writes arbitrary bytes into its connection";
    }
}

/// Random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.word() % bound
    }

    fn word(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// Often a small number, or one at a limit.
    fn edgy(&mut self) -> u64 {
        match self.below(5) {
            0 => u64::from(self.below(4)),
            1 => u64::from(self.below(300)),
            2 => u64::MAX - u64::from(self.below(4)),
            3 => 1 << self.below(64),
            _ => self.next(),
        }
    }

    fn edgy_word(&mut self) -> u32 {
        let [a, b, c, d, ..] = self.edgy().to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

fn stress_of_messages_both_ways<D: Device>(pair: &mut Pair<D>) -> Outcome {
    for attributes in [pair.delivery(), pair.reception()] {
        let vi = pair.connected(attributes)?;
        // Both sides use the same numbers, so each knows what the other sends.
        let mut random = Random(pair.terms.seed);
        let (from, to) = (pair.region(20_000)?, pair.region(20_000)?);
        from.fill(1)?;
        for _ in 0..100 {
            pair.post_recv(vi, Descriptor::receive().with_segment(to.segment(0, 20_000)))?;
        }
        pair.sync()?;
        for batch in 0..20 {
            let sizes: Vec<u32> =
                (0..50).map(|_| [0, 8, 40, 41, 3000, 20_000][random.below(6) as usize]).collect();
            for (number, &len) in (batch * 50..).zip(&sizes) {
                pair.post_send(
                    vi,
                    Descriptor::send().with_segment(from.segment(0, len)).with_immediate(number),
                )?;
            }
            for (number, &len) in (batch * 50..).zip(&sizes) {
                let done = pair.received_well(vi)?;
                same((done.immediate(), done.length()), (Some(number), len), "the next message")?;
                to.must_hold(0, len as usize, 1, 0)?;
                pair.post_recv(vi, done.again())?;
            }
            for _ in &sizes {
                pair.sent_well(vi)?;
            }
            pair.sync()?;
        }
    }
    Ok(())
}

fn stress_of_connections<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let mut random = Random(pair.terms.seed);
    let vis = [0; 6].map(|_| pair.vi(pair.delivery()));
    let vis: Vec<_> = vis.into_iter().collect::<Outcome<_>>()?;
    for round in 0..40_u32 {
        let endpoint = Discriminator::new(&round.to_le_bytes())?;
        let other = am_via_vipl::NetAddress::new(pair.other(), endpoint);
        let used = 1 + random.below(6) as usize;
        let a_breaks = random.below(2) == 0;
        for &vi in &vis[..used] {
            pair.nic.connect_peer_request(vi, endpoint, other, None)?;
        }
        for (number, &vi) in (round..).zip(&vis[..used]) {
            pair.nic.connect_peer_wait(vi)?;
            pair.post_recv(vi, Descriptor::receive())?;
            pair.sync()?;
            pair.post_send(vi, Descriptor::send().with_immediate(number))?;
            same(pair.received_well(vi)?.immediate(), Some(number), "the number of the other end")?;
            pair.sent_well(vi)?;
        }
        pair.sync()?;
        if pair.is_a() == a_breaks {
            for &vi in &vis[..used] {
                pair.nic.disconnect(vi)?;
            }
        } else {
            for &vi in &vis[..used] {
                pair.until_state(vi, ViState::Error)?;
                pair.nic.disconnect(vi)?;
            }
        }
        pair.sync()?;
    }
    Ok(())
}

fn stress_of_many_vis_and_one_cq<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let cq = pair.cq(4096)?;
    let mut vis = Vec::new();
    for _ in 0..16 {
        let vi = pair.vi_with(pair.delivery(), None, Some(cq))?;
        pair.connect(vi)?;
        for _ in 0..64 {
            pair.post_recv(vi, Descriptor::receive())?;
        }
        vis.push((vi, 0));
    }
    pair.sync()?;
    for number in 0..64 {
        for &(vi, _) in &vis {
            pair.post_send(vi, Descriptor::send().with_immediate(number))?;
        }
    }
    for _ in 0..16 * 64 {
        let entry = pair.nic.cq_wait(cq, Some(pair.patience()))?;
        let Some((vi, next)) = vis.iter_mut().find(|(vi, _)| *vi == entry.vi) else {
            return crate::pair::fail("an entry of an unknown VI");
        };
        let done = pair.nic.recv_done(*vi)?.and_then(|done| done.immediate());
        same(done, Some(*next), "the next message of a VI")?;
        *next += 1;
    }
    same(pair.nic.cq_done(cq)?, None, "one entry too many")
}

fn stress_of_registrations<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.reception())?;
    let own = pair.region(4096)?;
    for round in 0..200 {
        let region = pair.region(4096)?;
        let theirs = pair.swap_handle(region.handle)?;
        if pair.is_a() {
            own.fill(round)?;
            let place = AddressSegment { handle: theirs, offset: 0 };
            pair.post_send(vi, Descriptor::rdma_write(place).with_segment(own.segment(0, 4096)))?;
            pair.sent_well(vi)?;
        }
        pair.sync()?;
        if !pair.is_a() {
            region.must_hold(0, 4096, round, 0)?;
        }
        pair.deregister(region.handle)?;
    }
    Ok(())
}

/// A descriptor with random contents.
fn any_descriptor(random: &mut Random, own: MemHandle, theirs: MemHandle) -> Box<Descriptor> {
    let handle = |random: &mut Random| match random.below(5) {
        0 => theirs,
        1 => MemHandle { region: random.edgy_word(), generation: random.edgy_word() },
        _ => own,
    };
    let place = AddressSegment { handle: handle(random), offset: random.edgy() };
    let mut descriptor = match random.below(3) {
        0 => Descriptor::send(),
        1 => Descriptor::rdma_write(place),
        _ => Descriptor::rdma_read(place),
    };
    for _ in 0..random.below(5) {
        let offset = if random.below(2) == 0 { 0 } else { random.edgy() };
        let length = if random.below(2) == 0 { random.below(64) } else { random.edgy_word() };
        descriptor = descriptor.with_segment(DataSegment { handle: handle(random), offset, length });
    }
    if random.below(3) == 0 {
        descriptor = descriptor.with_immediate(random.word());
    }
    match random.below(6) {
        0 => descriptor.with_length(random.edgy_word()),
        1 => descriptor.with_control(Control((random.word() & 0xffff) as u16)),
        _ => descriptor,
    }
}

fn stress_of_wrong_calls<D: Device>(pair: &mut Pair<D>) -> Outcome {
    // Different numbers on the two sides.
    let mut random = Random(pair.terms.seed ^ u64::from(pair.is_a()));
    let safe = pair.region_with(64, pair.tag, MemAttributes::default())?;
    for round in 0..30_u32 {
        let reliability =
            [Reliability::Unreliable, Reliability::ReliableDelivery, Reliability::ReliableReception];
        let reliability = reliability[round as usize % 3];
        let rdma_read = reliability != Reliability::Unreliable;
        let vi = pair.connected(ViAttributes { reliability, rdma_read, ..pair.delivery() })?;
        let region = pair.region(64)?;
        let theirs = pair.swap_handle(region.handle)?;
        let mut posted = [0, 0];
        for _ in 0..60 {
            let descriptor = any_descriptor(&mut random, region.handle, theirs);
            let is_send = random.below(2) == 0;
            let result =
                if is_send { pair.nic.post_send(vi, descriptor) } else { pair.nic.post_recv(vi, descriptor) };
            posted[usize::from(is_send)] += u32::from(result.is_ok());
            // Any result is allowed; a panic, a hang or changed memory is not.
            let _ = (pair.nic.post_inline(vi, None, &[0; 40]), pair.nic.query_vi(vi)?);
        }
        pair.sync()?;
        if pair.state(vi)? != ViState::Idle {
            pair.nic.disconnect(vi)?;
        }
        let mut done = [0, 0];
        while pair.nic.recv_done(vi)?.is_some() {
            done[0] += 1;
        }
        while pair.nic.send_done(vi)?.is_some() {
            done[1] += 1;
        }
        same(done, posted, "completed receives and sends")?;
        pair.sync()?;
    }
    safe.must_be_untouched()
}

fn garbage_of_a_hostile_nic_spoils_nothing_else<D: Device>(pair: &mut Pair<D>) -> Outcome {
    let vi = pair.connected(pair.reception())?;
    let secret = pair.region_with(64, pair.tag, MemAttributes::default())?;
    let victim = Endpoint { context: ContextNumber(0), ..pair.other() };
    if !pair.is_a() {
        for _ in 0..40 {
            pair.post_recv(vi, Descriptor::receive())?;
        }
    }
    pair.sync()?;
    if pair.is_a() {
        let mut device = pair.open_device(12)?;
        let mut random = Random(pair.terms.seed);
        let mut payload = Payload::default();
        let channel = pair.until("the hostile NIC's connection", |_| {
            device.poll(&mut payload);
            Ok(device.connect(ViNumber(0), victim).map_err(am_via_vipl::VipError::from)?)
        })?;
        for round in 0..2000_u32 {
            // The target: the fabric's VI, the NIC itself, or any connection.
            let to = match random.below(3) {
                0 => 0,
                1 => u32::MAX >> 8,
                _ => random.edgy_word(),
            };
            let kind = u64::from(random.below(13));
            let entry = Entry {
                immediate: random.edgy_word(),
                length: random.edgy_word(),
                operation: random.below(6) | to << 8,
                extra: if random.below(4) == 0 { random.edgy() } else { random.edgy() >> 8 | kind << 56 },
            };
            let words: Payload = std::array::from_fn(|_| random.edgy());
            // The ring may be full, or the connection closed.
            if random.below(2) == 0 {
                let _ = device.post(channel, entry, &words);
            } else {
                let _ = device.post_area(channel, entry, &words, 40, |area, _| Some(area.len().min(40)));
            }
            while let Some(News::Entry(completion)) = device.poll(&mut payload) {
                if completion.keeps_slot() {
                    device.release(completion.vi);
                }
            }
            if round % 50 == 0 {
                pair.post_send(vi, Descriptor::send().with_immediate(round))?;
                pair.sent_well(vi)?;
            }
        }
        pair.sync()
    } else {
        for round in 0..40 {
            same(pair.received_well(vi)?.immediate(), Some(round * 50), "the next honest message")?;
        }
        pair.sync()?;
        same(pair.state(vi)?, ViState::Connected, "the honest connection")?;
        same(pair.nic.next_error(), None, "an error of another VI")?;
        ensure(pair.nic.query_mem(secret.handle).is_ok(), "a registration is gone")?;
        secret.must_be_untouched()
    }
}
