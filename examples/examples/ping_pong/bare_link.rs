//! The machine's limit (the least latency that it allows), measured in the same run on the same cores: a bare ring of lines in each
//! direction, and for data longer than one line's payload, a copy by the receiver from the sender's mapped buffer. No layer of the stack is
//! involved.

use std::io;
use std::sync::Arc;

use am_via_shm::{CheckedRange, Entry, Lines, Mapping, Payload, RingReader, RingWriter};
use am_via_shm::{SharedFileName, SharedFiles};

/// Bytes of a task's file: the ring that its peer writes, then the buffer that its peer copies from.
const FILE_BYTES: usize = BUFFER_OFFSET + crate::BYTES_MAX;
const BUFFER_OFFSET: usize = 1 << 16;
const RING_LINES: u32 = 128;

/// Number of looks at an empty ring before [`BareLink::receive`] yields.
const SPINS: u32 = 1000;

/// This task's end of a bare link, before it has the file of its peer.
pub(crate) struct HalfLink {
    name: SharedFileName,
    own: Arc<Mapping>,
    files: SharedFiles,
}

/// One end of the bare link between two tasks.
pub(crate) struct BareLink {
    writer: RingWriter,
    reader: RingReader,
    own: Arc<Mapping>,
    theirs: Arc<Mapping>,
    /// Keeps this task's file open for the peer.
    _files: SharedFiles,
}

impl HalfLink {
    /// Makes this task's file.
    pub(crate) fn new() -> io::Result<Self> {
        let mut files = SharedFiles::default();
        let (name, own) = files.make(FILE_BYTES)?;
        Ok(Self { name, own, files })
    }

    /// The words by which the peer opens the file.
    pub(crate) fn name(&self) -> [u64; 3] {
        [self.name.pid.into(), u64::from(self.name.number.unsigned_abs()), self.name.inode]
    }

    /// Maps the file of the peer, which has sent its name. The link is complete once both tasks have mapped both files.
    pub(crate) fn join(mut self, [pid, number, inode]: [u64; 3]) -> io::Result<BareLink> {
        let invalid = |_| io::ErrorKind::InvalidData;
        let (pid, number) = (pid.try_into().map_err(invalid)?, number.try_into().map_err(invalid)?);
        let theirs = self.files.open(SharedFileName { pid, number, inode, ..self.name })?;
        let lines = |mapping| Lines::in_mapping(mapping, 0, RING_LINES).ok_or(io::ErrorKind::InvalidData);
        Ok(BareLink {
            writer: RingWriter::new(lines(&theirs)?),
            reader: RingReader::new(lines(&self.own)?),
            own: self.own,
            theirs,
            _files: self.files,
        })
    }
}

impl BareLink {
    /// Writes one line with 40 bytes of payload.
    #[inline(always)]
    pub(crate) fn send(&mut self, payload: &Payload) {
        self.writer.write(Entry::default(), payload);
    }

    /// Waits for one line: spins, and yields the processor after 1000 looks, far beyond a round trip between two cores. Without the yield,
    /// two tasks on one core would need a time slice for each message.
    #[inline(always)]
    pub(crate) fn receive(&mut self) -> Payload {
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

    /// Waits for one line, then copies the first bytes of the sender's buffer to `to`.
    #[inline(always)]
    pub(crate) fn receive_and_copy(&mut self, to: &mut [u8]) {
        self.receive();
        buffer(&self.theirs, to.len()).copy_to_slice(to);
    }

    /// Writes a byte at every multiple of `stride` in the first `len` bytes of this task's buffer, and the last of these bytes, so that
    /// each message differs from the one before.
    pub(crate) fn touch(&mut self, len: usize, stride: usize, value: u8) {
        let Some(last) = len.checked_sub(1) else { return };
        let buffer = buffer(&self.own, len);
        for byte in (0..last).step_by(stride.max(1)).chain([last]).filter_map(|at| buffer.part(at, 1)) {
            byte.copy_from_slice(&[value]);
        }
    }
}

/// The first `len` bytes of a task's buffer.
#[inline(always)]
fn buffer(mapping: &Mapping, len: usize) -> CheckedRange<'_> {
    // SAFETY: of this process, only the one link that has made or opened the mapping accesses these bytes, in calls with `&mut self`.
    unsafe { mapping.checked(BUFFER_OFFSET, len) }.expect("a message has at most BYTES_MAX bytes")
}
