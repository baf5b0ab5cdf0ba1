//! The machine's limit (the least latency that it allows), measured in the same run on the same cores: a bare ring of lines in each
//! direction, and for data longer than one line's payload, a copy by the receiver from the sender's mapped buffer. No layer of the stack is
//! involved.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use am_via_job::{Carrier, Job};
use am_via_os::memory;
use am_via_shm::layout::{MEASURE_BYTES, MEASURE_RING_LINES};
use am_via_shm::{Entry, Lines, Mapping, Payload, RingReader, RingWriter};

/// Bytes of the buffer that the receiver copies from.
pub const BARE_BUFFER_BYTES: usize = MEASURE_BYTES / 2;

/// Number of looks at an empty ring before [`BareLink::receive`] yields.
const SPINS: u32 = 1000;

/// One end of the bare link between two tasks. A job can have one link at a time, since all pairs use the same memory.
#[derive(Debug)]
pub struct BareLink {
    writer: RingWriter,
    reader: RingReader,
    own: Arc<Mapping>,
    theirs: Arc<Mapping>,
    _only: OnlyLink,
}

/// Whether this process has a link.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Held by the one link of this process, so that no two threads copy to and from the buffers.
#[derive(Debug)]
struct OnlyLink;

impl OnlyLink {
    fn take() -> io::Result<Self> {
        // Acquire: pairs with the Release in `drop`.
        match IS_OPEN.swap(true, Ordering::Acquire) {
            false => Ok(Self),
            true => Err(io::Error::other("this task has a bare link: close it before you open another one")),
        }
    }
}

impl Drop for OnlyLink {
    fn drop(&mut self) {
        IS_OPEN.store(false, Ordering::Release);
    }
}

impl BareLink {
    /// Maps the ends of both tasks' heap files, which are never allocated.
    ///
    /// # Errors
    /// The peer runs on another host; this process has a link; or the system's error.
    pub(crate) fn open(job: &Job, peer: u32) -> io::Result<Self> {
        if job.is_far(peer) {
            return Err(io::Error::other(format!(
                "task {peer} runs on another host, with which no memory is shared"
            )));
        }
        let only = OnlyLink::take()?;
        let map = |task: u32| -> io::Result<Arc<Mapping>> {
            // SAFETY: only the end of the file is mapped, which is never allocated, and which links alone use.
            let file = unsafe { job.heap_file(task) }.map_err(io::Error::other)?;
            let offset =
                memory::len(file)?.checked_sub(MEASURE_BYTES as u64).ok_or(io::ErrorKind::InvalidData)?;
            Mapping::new(file, offset, MEASURE_BYTES)
        };
        let (own, theirs) = (map(job.task())?, map(peer)?);
        let lines =
            |mapping| Lines::in_mapping(mapping, 0, MEASURE_RING_LINES).ok_or(io::ErrorKind::InvalidData);
        Ok(Self {
            writer: RingWriter::new(lines(&theirs)?),
            reader: RingReader::new(lines(&own)?),
            own,
            theirs,
            _only: only,
        })
    }

    /// Writes one line with 40 bytes of payload.
    #[inline(always)]
    pub fn send(&mut self, payload: &Payload) {
        self.writer.write(Entry::default(), payload);
    }

    /// Waits for one line: spins, and yields the processor after 1000 looks, far beyond a round trip between two cores. Without the yield,
    /// two tasks on one core would need a time slice for each message.
    #[inline(always)]
    pub fn receive(&mut self) -> Payload {
        let mut payload = Payload::default();
        let mut looks = 0u32;
        while self.reader.poll(&mut payload).is_none() {
            looks += 1;
            if looks < SPINS {
                std::hint::spin_loop();
            } else {
                looks = 0;
                std::thread::yield_now();
            }
        }
        payload
    }

    /// Waits for one line, then copies the first bytes of the sender's buffer, at most [`BARE_BUFFER_BYTES`], to `to`.
    #[inline(always)]
    pub fn receive_and_copy(&mut self, to: &mut [u8]) {
        self.receive();
        let len = to.len().min(BARE_BUFFER_BYTES);
        // SAFETY: only links access the ends of heap files, and this process has no other link.
        if let Some(from) = unsafe { self.theirs.checked(MEASURE_BYTES - BARE_BUFFER_BYTES, len) } {
            from.copy_to_slice(&mut to[..len]);
        }
    }

    /// Writes a byte at every multiple of `stride` in the first `len` bytes of this task's buffer, and the last of these bytes, so that
    /// each message differs from the one before.
    pub fn touch(&mut self, len: usize, stride: usize, value: u8) {
        let Some(last) = len.checked_sub(1) else { return };
        // SAFETY: as in `receive_and_copy`.
        let buffer = unsafe { self.own.checked(MEASURE_BYTES - BARE_BUFFER_BYTES, len) };
        let Some(buffer) = buffer else { return };
        for byte in (0..last).step_by(stride.max(1)).chain([last]).filter_map(|at| buffer.part(at, 1)) {
            byte.copy_from_slice(&[value]);
        }
    }
}
