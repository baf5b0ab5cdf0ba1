//! A peer writes garbage into the rings and areas that it shares with a program written to VIA: only the peer's own connections may get
//! errors.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core_conform::watchdog::Watchdog;
use am_via::Task;
use am_via::device::shm::Shm;
use am_via_vipl::{
    AddressSegment, DataSegment, Descriptor, Discriminator, MemAttributes, MemHandle, UserAgent,
    ViAttributes, ViHandle, ViState, open_nic,
};

use crate::hostile_support::{ATTACKER, Attack, alone};

/// Number of the attacker's connections that must break by false entries before it also writes arbitrary bytes, and number of rounds of
/// honest traffic after that.
const BROKEN: u32 = 20;
const ROUNDS: u32 = 10_000;

fn ask(nic: &mut UserAgent<Shm>, vi: ViHandle, context: u8) {
    let to = Endpoint::new(TaskId(0), ContextNumber(context));
    nic.connect_peer_request(vi, Discriminator::default(), to, None).unwrap();
}

fn segment(handle: MemHandle, length: u32) -> DataSegment {
    DataSegment { handle, offset: 0, length }
}

#[test]
fn the_honest_connection_of_the_victim_notices_nothing() {
    let seed = 4712;
    println!("seed {seed}");
    let _alone = alone();
    let _watchdog = Watchdog::new("hostile VI".to_owned(), Duration::from_secs(120));
    let task = Task::join().unwrap();
    let (mut victim, mut honest) = (open_nic(&task, "shm0").unwrap(), open_nic(&task, "shm1").unwrap());
    let (tag, other_tag) = (victim.create_ptag().unwrap(), honest.create_ptag().unwrap());
    let vi = victim.create_vi(ViAttributes::new(tag), None, None).unwrap();
    let other = honest.create_vi(ViAttributes::new(other_tag), None, None).unwrap();
    ask(&mut victim, vi, 1);
    ask(&mut honest, other, 0);
    while victim.connect_peer_done(vi).unwrap().is_none()
        || honest.connect_peer_done(other).unwrap().is_none()
    {}

    let rights = MemAttributes { ptag: 0, rdma_write: true, rdma_read: true };
    let (open, secret) = (victim.alloc(4096).unwrap(), victim.alloc(64).unwrap());
    let open_handle = victim.register_mem(&open, (0, 4096), tag, rights).unwrap();
    let secret_handle = victim.register_mem(&secret, (0, 64), tag, MemAttributes::default()).unwrap();
    let source = honest.alloc(4096).unwrap();
    let source_handle = honest.register_mem(&source, (0, 4096), other_tag, rights).unwrap();
    // Memory for the attacker's messages, and the VI to which the attacker may connect.
    let bait = victim.alloc(64).unwrap();
    let bait_handle = victim.register_mem(&bait, (0, 64), tag, rights).unwrap();
    let attacked = victim.create_vi(ViAttributes::new(tag), None, None).unwrap();

    let attack = Attack::new(&task, seed);
    let (wild, end) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut broken = 0;
    thread::scope(|scope| {
        let attacker = scope.spawn(|| attack.run(&wild, &end));
        let (mut round, mut wild_rounds) = (0_u32, 0);
        while wild_rounds < ROUNDS {
            round += 1;
            // First false entries, until some have had an effect; then arbitrary bytes, which may end all connections.
            if broken >= BROKEN {
                wild_rounds += 1;
                wild.store(true, Ordering::Relaxed);
            }
            match victim.query_vi(attacked).unwrap().state {
                ViState::Idle => ask(&mut victim, attacked, ATTACKER),
                ViState::Error => {
                    broken += 1;
                    victim.disconnect(attacked).unwrap();
                }
                ViState::ConnectPending | ViState::Connected => {
                    // After a refused connection the VI is idle.
                    let _ = victim.connect_peer_done(attacked);
                }
            }
            let receive = Descriptor::receive().with_segment(segment(bait_handle, 64));
            // A full queue is no error here.
            let _ = victim.post_recv(attacked, receive);
            let _ = victim.post_send(attacked, Descriptor::send().with_segment(segment(bait_handle, 8)));
            while victim.recv_done(attacked).unwrap().is_some()
                || victim.send_done(attacked).unwrap().is_some()
            {}

            let len = if round.is_multiple_of(3) { 3000 } else { 8 };
            let mark = round.to_le_bytes();
            source.write(0, &mark).unwrap();
            let send = match round % 2 {
                0 => Descriptor::send(),
                _ => Descriptor::rdma_write(AddressSegment { handle: open_handle, offset: 0 }),
            };
            victim.post_recv(vi, Descriptor::receive().with_segment(segment(open_handle, 4096))).unwrap();
            let send = send.with_segment(segment(source_handle, len)).with_immediate(round);
            honest.post_send(other, send).unwrap();
            let done = loop {
                honest.progress();
                if let Some(done) = victim.recv_done(vi).unwrap() {
                    break done;
                }
            };
            assert!(done.status().is_success(), "seed {seed}, round {round}: {:?}", done.status());
            let mut bytes = [0; 4];
            open.read(0, &mut bytes).unwrap();
            assert_eq!((done.immediate(), done.length(), bytes), (Some(round), len, mark), "seed {seed}");
            while honest.send_done(other).unwrap().is_none() {}
            while let Some(error) = victim.next_error() {
                assert!(error.vi == attacked, "seed {seed}, round {round}: {error:?}");
            }
        }
        end.store(true, Ordering::Relaxed);
        attacker.join().unwrap();
    });
    let mut bytes = [0; 64];
    secret.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 64], "memory that peers may not access is unchanged");
    assert!(victim.query_mem(secret_handle).is_ok());
    println!("{broken} connections were broken");
}
