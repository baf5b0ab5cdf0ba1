//! A peer that writes arbitrary bytes into the shared structures of its connection.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use am_core_conform::Random;
use am_via::Task;
use am_via::device::shm::{OwnHeap, Shm, ShmOptions};
use am_via_job::Carrier;
use am_via_nic::{Device, Entry, News, Payload, ViNumber};
use am_via_shm::layout::{ATTENTION_OFFSET, Attention, ControlLayout, RING_LINES, ViHeader};
use am_via_shm::layout_job::TASKS_MAX;
use am_via_shm::regions::Ways;
use am_via_shm::{Mapping, Shared, WaitPolicy};
use am_via_vipl::{ContextNumber, Endpoint, Posted, TaskId};

/// The attacker's context; its victim is context 0 of the same task.
pub(crate) const ATTACKER: u8 = 2;

/// The connection number of the NIC itself, in the upper bits of an operation word.
const TO_NIC: u32 = u32::MAX >> 8;
/// Kinds of entries, in the upper bits of an extra word: a VI asks for a connection, a VI accepts it; and the number of kinds.
const REQUEST: u64 = 1;
const ACCEPT: u64 = 2;
const KINDS: usize = 12;

/// A test holds this lock from before it joins its job until it has left. A process has one job, so two such tests at once would attack
/// each other in the same contexts.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The attacker's device, connected to the victim, and the victim's end of that connection as memory.
#[derive(Debug)]
pub(crate) struct Attack {
    device: Shm,
    vi: ViNumber,
    slot: Arc<Mapping>,
    attention: Shared<Attention>,
    random: Random,
    /// Number of posted lines.
    posted: u32,
    /// The victim's number of the connection that one of its VIs has accepted.
    accepted: usize,
}

impl Attack {
    /// Connects to the victim.
    pub(crate) fn new(task: &Task, seed: u64) -> Self {
        let job = task.job();
        let packet_bytes = job.settings().packet_bytes;
        let options = ShmOptions {
            context: ContextNumber(ATTACKER),
            packet_bytes,
            ways: Ways { mapped: true, kernel: true },
            wait: WaitPolicy { spin_max: Duration::ZERO, yield_polls_max: 10 },
            pipe_bytes_min: 0,
        };
        let mut device = Shm::open(Arc::clone(job), OwnHeap::open(job).unwrap(), options).unwrap();
        let vi = loop {
            if let Some(vi) = device.connect(ViNumber(0), Endpoint::new(TaskId(0), ContextNumber(0))).unwrap()
            {
                break vi;
            }
        };
        let layout = ControlLayout { num_tasks: TASKS_MAX, packet_bytes, vis: job.vis() };
        // SAFETY: this is the attack: its victim must survive whatever is written there, and is another process.
        let file = unsafe { job.control_file(0) }.unwrap();
        let map = |offset, len| Mapping::new(file.as_fd(), offset, len).unwrap();
        let slot = (0..layout.vis)
            .map(|vi| map(layout.vi_slot_offset(vi), layout.vi_slot_bytes()))
            .find(|slot| {
                let header: Shared<ViHeader> = slot.atomics(0).unwrap();
                let identity = &header.identity;
                identity.peer_context.load(Ordering::Relaxed) == u32::from(ATTACKER)
                    && identity.own_context.load(Ordering::Relaxed) == 0
            })
            .expect("the connection was made");
        let attention = map(0, layout.head_bytes()).atomics(ATTENTION_OFFSET).unwrap();
        Self { device, vi, slot, attention, random: Random::new(seed), posted: 0, accepted: 0 }
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

    fn store(&self, offset: usize, value: u64) {
        // SAFETY: this process has one thread that accesses the slot.
        unsafe { self.slot.checked(offset, 8) }.unwrap().copy_from_slice(&value.to_le_bytes());
    }

    /// Writes garbage into the header, the ring and the first slots of the area.
    fn scribble(&mut self) {
        let reach = ControlLayout::area_offset() + 64 * 1024;
        for _ in 0..8 {
            let offset = self.random.below(reach.min(self.slot.len()) / 8) * 8;
            let value = self.number();
            self.store(offset, value);
        }
    }

    /// Makes a corrupt or used line valid again, with arbitrary contents, since the victim may be waiting for this line.
    fn forge(&mut self) {
        let back = u32::try_from(self.random.below(RING_LINES as usize)).unwrap();
        let sequence = self.posted.wrapping_sub(back);
        let line = ControlLayout::line_offset(sequence);
        for at in (0..56).step_by(8) {
            let value = if at == 40 { self.random.below(2000) as u64 | 1 << 32 } else { self.number() };
            self.store(line + at, value);
        }
        let valid = u64::from(sequence) | self.number() << 32;
        self.store(line + 56, valid);
    }

    /// Requests a connection as a VI would, to attack it: reliable delivery, transfers of any size.
    fn ask(&mut self) {
        let extra = 2 | 7 << 8 | (1 + self.random.below(3) as u64) << 32 | REQUEST << 56;
        let entry = Entry { immediate: u32::MAX, length: 1, operation: 1 | TO_NIC << 8, extra };
        self.posted += u32::from(matches!(self.device.post(self.vi, entry, &[0; 5]), Ok(Posted::Done)));
    }

    /// Posts a valid line with arbitrary contents.
    fn lie(&mut self, may_close: bool) {
        let low = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap();
        // The operation, and the number of the connection.
        let connection = self.random.below(4) * self.accepted.max(1);
        let connection = if self.random.one_in(8) { TO_NIC as usize } else { connection };
        let operation = match low((self.random.below(6) | (connection << 8)) as u64) {
            // A disconnect would end everything between the two NICs.
            4 if !may_close => 5,
            operation => operation,
        };
        let kind = self.random.below(KINDS + 1) as u64;
        let entry = Entry {
            immediate: low(self.number()),
            length: low(self.number()),
            operation,
            extra: self.number() >> 8 | kind << 56,
        };
        let words: Payload = std::array::from_fn(|_| self.number());
        // If the ring is full, nothing is posted.
        let posted = if self.random.one_in(2) {
            self.device.post(self.vi, entry, &words)
        } else {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.device.post_area(self.vi, entry, &words, 40, |area, _| {
                area.copy_from_slice(&bytes);
                Some(40)
            })
        };
        self.posted += u32::from(matches!(posted, Ok(Posted::Done)));
        let mut payload = Payload::default();
        while let Some(News::Entry(completion)) = self.device.poll(&mut payload) {
            if completion.entry.extra >> 56 == ACCEPT {
                self.accepted = usize::try_from(completion.entry.extra >> 32 & 0xff_ffff).unwrap();
            }
            if completion.keeps_slot() {
                self.device.release(completion.vi);
            }
        }
    }

    /// First posts false entries; then, when `wild` is set, also writes arbitrary bytes to arbitrary locations.
    pub(crate) fn run(mut self, wild: &AtomicBool, end: &AtomicBool) -> Self {
        while !end.load(Ordering::Relaxed) {
            let choice = self.random.below(20);
            match choice {
                0 if wild.load(Ordering::Relaxed) => {
                    self.attention.raise(u32::try_from(self.random.below(40)).unwrap());
                }
                1 if wild.load(Ordering::Relaxed) => self.scribble(),
                2..8 if wild.load(Ordering::Relaxed) => self.forge(),
                8 => self.ask(),
                _ => self.lie(wild.load(Ordering::Relaxed)),
            }
            if self.random.one_in(50) {
                thread::yield_now();
            }
        }
        self
    }
}
