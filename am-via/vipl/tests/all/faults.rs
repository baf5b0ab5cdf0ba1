//! A faulty wire under each reliability level.

use super::*;
use am_double::wire::WireFaults;
use am_via_vipl::AddressSegment;

const FAULTS: WireFaults = WireFaults {
    seed: 0,
    drop: 60,
    duplicate: 60,
    reorder: 100,
    delay: 50,
    refuse: 80,
    hold_back: 100,
    overrun: 30,
    apart: 200,
    cut: 0,
    kill: None,
};

fn options(seed: u64, reach: Reach) -> WireOptions {
    let faults = WireFaults { seed, ..FAULTS };
    WireOptions { slot_bytes: 128, ring_lines: 8, faults, ..WireOptions::new(2) }.with_reach(reach)
}

#[test]
fn reliable_levels_carry_everything_in_order() {
    for seed in 0..12 {
        for (attributes, reach) in [
            (delivery as fn(PTag) -> ViAttributes, Reach::Posted),
            (delivery, Reach::Direct),
            (reception, Reach::Staged),
        ] {
            let (network, mut a, mut b) = on_wire(options(seed, reach), attributes);
            connect(&mut a, &mut b);
            let (from, to) = (a.region(1000), b.region(1000));
            for round in 0..20 {
                let bytes = from.fill(u8::try_from(round).unwrap());
                let len = 1 + round * 47;
                b.post_recv(Descriptor::receive().with_segment(to.segment(0, 1000)));
                b.post_recv(Descriptor::receive());
                a.post_send(Descriptor::send().with_segment(from.segment(0, len)).with_immediate(round));
                let done = received(&mut a, &mut b);
                assert_eq!((done.immediate(), done.length()), (Some(round), len), "seed {seed}");
                assert_eq!(to.bytes(0, len as usize), bytes[..len as usize], "seed {seed}");
                let place = AddressSegment { handle: to.handle, offset: u64::from(1000 - len) };
                a.post_send(
                    Descriptor::rdma_write(place).with_segment(from.segment(0, len)).with_immediate(round),
                );
                let done = received(&mut a, &mut b);
                assert_eq!(done.status().operation(), Status::OP_REMOTE_RDMA_WRITE, "seed {seed}");
                assert_eq!(to.bytes(1000 - len as usize, len as usize), bytes[..len as usize]);
                for _ in 0..2 {
                    assert!(sent(&mut a, &mut b).status().is_success(), "seed {seed}");
                }
            }
            assert!(network.statistics().retransmitted > 0, "seed {seed}");
        }
    }
}

#[test]
fn an_unreliable_level_shows_whole_messages_or_none() {
    let mut lost = 0;
    for seed in 0..20 {
        let (_network, mut a, mut b) = on_wire(options(seed, Reach::Posted), unreliable);
        connect(&mut a, &mut b);
        let (from, to) = (a.region(600), b.region(600));
        let bytes = from.fill(u8::try_from(seed).unwrap());
        let mut arrived = 0;
        for round in 0..50 {
            b.post_recv(Descriptor::receive().with_segment(to.segment(0, 600)));
            let len = if round % 2 == 0 { 20 } else { 500 };
            a.post_send(Descriptor::send().with_segment(from.segment(0, len)).with_immediate(len));
            assert!(sent(&mut a, &mut b).status().is_success());
            for _ in 0..20 {
                a.agent.progress();
                if let Some(done) = b.agent.recv_done(b.vi).unwrap() {
                    assert!(done.status().is_success(), "seed {seed}: {:?}", done.status());
                    assert_eq!(done.immediate(), Some(done.length()), "seed {seed}");
                    assert_eq!(to.bytes(0, done.length() as usize), bytes[..done.length() as usize]);
                    arrived += 1;
                }
            }
        }
        assert_eq!((a.state(), b.state()), (ViState::Connected, ViState::Connected), "seed {seed}");
        lost += 50 - arrived;
    }
    assert!(lost > 0, "no fault had an effect");
}
