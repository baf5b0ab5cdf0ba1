//! A peer that writes whatever it likes into the shared structures of its connection, while its victim works: the victim sees
//! errors, and everybody else's messages arrive.

#![expect(clippy::unwrap_used, reason = "a test: what can't go wrong may panic")]

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use am_core::buffer::Access;
use am_core::handler::{Answer, Completion};
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core::testing::Random;
use am_core::testing::watchdog::Watchdog;
use am_core::{AmOptions, Context};
use am_via::device::shm::{OwnHeap, Shm, ShmOptions};
use am_via::device::{Device, Entry, News, NodeAddress, Payload, Posted};
use am_via::shm::layout::{ATTENTION_OFFSET, Attention, ControlLayout, RING_LINES, ViHeader};
use am_via::shm::regions::Ways;
use am_via::shm::segment::{Mapping, Shared};
use am_via::shm::wait::WaitPolicy;
use am_via::{ShmFabric, Task};

const ATTACKER: u32 = 2;

fn context_at(number: u8) -> Endpoint {
    Endpoint::new(TaskId(0), ContextNumber(number))
}

/// The attacker's device, connected to the victim, and the victim's end of that connection as memory.
struct Attack {
    device: Shm,
    vi: am_via::device::ViNumber,
    slot: Arc<Mapping>,
    attention: Shared<Attention>,
    random: Random,
    /// Lines posted.
    posted: u32,
}

impl Attack {
    fn new(task: &Task, seed: u64) -> Self {
        let job = task.job();
        let packet_bytes = job.settings().packet_bytes;
        let options = ShmOptions {
            context: ATTACKER,
            packet_bytes,
            ways: Ways { mapped: true, kernel: true },
            wait: WaitPolicy { spin_polls_max: 10, yield_polls_max: 10 },
        };
        let mut device = Shm::open(Arc::clone(job), OwnHeap::open(job).unwrap(), options).unwrap();
        let vi = loop {
            if let Some(vi) = device.connect(NodeAddress { task: 0, context: 0 }).unwrap() {
                break vi;
            }
        };
        let layout = ControlLayout { num_tasks: job.num_tasks(), packet_bytes };
        let file = job.control_file(0).unwrap();
        let map = |offset, len| Mapping::new(file.as_fd(), offset, len).unwrap();
        let slot = (0..layout.vis())
            .map(|vi| map(layout.vi_slot_offset(vi), layout.vi_slot_bytes()))
            .find(|slot| {
                let header: Shared<ViHeader> = slot.atomics(0).unwrap();
                let identity = &header.identity;
                identity.peer_context.load(Ordering::Relaxed) == ATTACKER
                    && identity.own_context.load(Ordering::Relaxed) == 0
            })
            .expect("the connection was made");
        let attention = map(0, layout.head_bytes()).atomics(ATTENTION_OFFSET).unwrap();
        Self { device, vi, slot, attention, random: Random::new(seed), posted: 0 }
    }

    fn number(&mut self) -> u64 {
        match self.random.below(5) {
            0 => 0,
            1 => self.random.below(200) as u64,
            2 => u64::MAX - self.random.below(3) as u64,
            3 => 1 << self.random.below(64),
            _ => self.random.bits(),
        }
    }

    /// Garbage into the header, the ring and the first slots of the area.
    fn scribble(&mut self) {
        let reach = ControlLayout::area_offset() + 64 * 1024;
        for _ in 0..8 {
            let offset = self.random.below(reach.min(self.slot.len()) / 8) * 8;
            let value = self.number();
            self.slot.checked(offset, 8).unwrap().copy_from_slice(&value.to_le_bytes());
        }
    }

    /// A line that was spoiled, or is in use, made valid again with anything in it: perhaps the victim waits for just this one.
    fn forge(&mut self) {
        let back = u32::try_from(self.random.below(RING_LINES as usize)).unwrap();
        let sequence = self.posted.wrapping_sub(back);
        let line = ControlLayout::ring_offset() + 64 * (sequence % RING_LINES) as usize;
        for at in (0..56).step_by(8) {
            let value = if at == 40 { self.random.below(2000) as u64 | 1 << 32 } else { self.number() };
            self.slot.checked(line + at, 8).unwrap().copy_from_slice(&value.to_le_bytes());
        }
        let valid = u64::from(sequence) | self.number() << 32;
        self.slot.checked(line + 56, 8).unwrap().copy_from_slice(&valid.to_le_bytes());
    }

    /// A line that is valid, and says anything.
    fn lie(&mut self) {
        let low = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap();
        let entry = Entry {
            immediate: low(self.number()),
            length: low(self.number()),
            operation: low(self.random.below(14) as u64),
            extra: self.number(),
        };
        let words: Payload = std::array::from_fn(|_| self.number());
        // A full ring is the attacker's trouble.
        let posted = if self.random.one_in(2) {
            self.device.post(self.vi, entry, &words)
        } else {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.device.post_area(self.vi, entry, 40, |room| {
                room.copy_from_slice(&bytes);
                40
            })
        };
        self.posted += u32::from(matches!(posted, Ok(Posted::Done)));
        let mut payload = Payload::default();
        while let Some(News::Entry(completion)) = self.device.poll(&mut payload) {
            self.device.release(completion.vi);
        }
    }

    /// First lies in the right places; then, when `wild` says so, anything anywhere.
    fn run(mut self, wild: &AtomicBool, end: &AtomicBool) -> Self {
        while !end.load(Ordering::Relaxed) {
            let choice = self.random.below(20);
            match choice {
                0 if wild.load(Ordering::Relaxed) => {
                    self.attention.raise(u32::try_from(self.random.below(40)).unwrap());
                }
                1 if wild.load(Ordering::Relaxed) => self.scribble(),
                2..8 if wild.load(Ordering::Relaxed) => self.forge(),
                _ => self.lie(),
            }
            if self.random.one_in(50) {
                thread::yield_now();
            }
        }
        self
    }
}

fn context(task: &Task, number: u32) -> Context<ShmFabric> {
    Context::new(task.fabric(number).unwrap())
}

#[test]
fn the_victim_goes_on_and_the_honest_peer_notices_nothing() {
    let seed = 4711;
    println!("seed {seed}");
    let _watchdog = Watchdog::new("hostile memory".to_owned(), Duration::from_secs(120));
    let task = Task::join().unwrap();
    let (mut victim, mut honest) = (context(&task, 0), context(&task, 1));
    let count = Arc::new(AtomicU64::new(0));
    let in_handler = Arc::clone(&count);
    let handler = victim
        .register_handler(move |message| {
            if message.source == context_at(1) {
                in_handler.fetch_add(1, Ordering::Relaxed);
            }
            Answer::consumed(Completion::None)
        })
        .unwrap();
    let echoes = Arc::new(AtomicU64::new(0));
    let in_handler = Arc::clone(&echoes);
    let same = honest
        .register_handler(move |_| {
            in_handler.fetch_add(1, Ordering::Relaxed);
            Answer::consumed(Completion::None)
        })
        .unwrap();
    assert_eq!(handler, same);
    let mut buffer = victim.alloc(4096).unwrap();
    buffer.fill(0x5A);
    let read_only = victim.expose(buffer, Access::READ).unwrap();
    let mut errors = 0;
    let mut exchange = |round: u64, victim: &mut Context<ShmFabric>, errors: &mut u32| {
        let body = vec![7; if round.is_multiple_of(3) { 2000 } else { 8 }];
        honest.amsend(context_at(0), handler, &[], &body, AmOptions::default()).unwrap();
        while count.load(Ordering::Relaxed) <= round {
            *errors += u32::from(victim.probe().is_err());
            honest.probe().unwrap();
        }
        victim.amsend(context_at(1), handler, &[], &body, AmOptions::default()).unwrap();
        while echoes.load(Ordering::Relaxed) <= round {
            *errors += u32::from(victim.probe().is_err());
            honest.probe().unwrap();
        }
    };
    exchange(0, &mut victim, &mut errors);
    assert_eq!(errors, 0);
    let attack = Attack::new(&task, seed);
    let (wild, end) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let attacker = scope.spawn(|| attack.run(&wild, &end));
        let mut rounds = 1..;
        for round in rounds.by_ref() {
            exchange(round, &mut victim, &mut errors);
            if errors > 1000 {
                break;
            }
        }
        wild.store(true, Ordering::Relaxed);
        for round in rounds.take(20_000) {
            exchange(round, &mut victim, &mut errors);
        }
        end.store(true, Ordering::Relaxed);
        attacker.join().unwrap();
    });
    let mut bytes = [0; 4096];
    read_only.read(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 0x5A), "memory that peers may only read");
    println!("{errors} errors");
}
