//! A global allocator that puts a program's large blocks into job memory, where peers reach them with one plain copy.
//!
//! Small blocks, blocks that job memory has no room for, and all blocks from before the job was joined are the system's. A block
//! goes back to where it came from: its address says so. In a forked copy of the process the blocks that were there are its own
//! (see [`fork`]); new ones are the system's. In a core dump they appear, while the rest of job memory does not.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use am_via_os::{fork, memory};

/// Blocks of at least this size go to job memory.
pub const LARGE_BYTES: usize = 64 << 10;

/// Blocks of job memory. Nothing here may ask the global allocator for a large block.
pub trait LargeBlocks: Send + Sync + std::fmt::Debug {
    /// A block of `len` bytes at the start of a page, that nobody else uses until it is given back.
    fn take(&self, len: usize) -> Option<LargeBlock>;
    /// The addresses that blocks are taken from, as long as the process lives.
    fn addresses(&self) -> Range<usize>;
    /// Takes back the block of `len` bytes at `at`.
    fn give_back(&self, at: NonNull<u8>, len: usize);
}

/// A block of job memory.
#[derive(Clone, Copy, Debug)]
pub struct LargeBlock {
    /// Where it starts: at a page.
    pub at: NonNull<u8>,
    /// Whether it was never used before, so that it reads as zero. Others hold anything.
    pub is_zero: bool,
}

/// An allocator that takes large blocks from the job's memory, once the program has joined its job.
///
/// Memory that was used once stays with the job until the process ends. A fork without exec copies what is in use, and waits for
/// that.
#[derive(Debug)]
pub struct JobAllocator {
    blocks: OnceLock<Arc<dyn LargeBlocks>>,
}

/// Where the program's allocator, if it has this one, finds out about job memory.
static OFFERED: Mutex<Option<Weak<dyn LargeBlocks>>> = Mutex::new(None);

impl JobAllocator {
    /// The allocator, for a `static` with `#[global_allocator]`.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a static needs a constant")]
    pub const fn new() -> Self {
        Self { blocks: OnceLock::new() }
    }

    /// Job memory, once there is any.
    #[inline]
    fn blocks(&self) -> Option<&dyn LargeBlocks> {
        if let Some(blocks) = self.blocks.get() {
            return Some(&**blocks);
        }
        let offered =
            OFFERED.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Weak::upgrade)?;
        // From now on a fork has to copy what lies there.
        fork::hold_contents();
        Some(&**self.blocks.get_or_init(|| offered))
    }

    #[cold]
    #[inline(never)]
    fn take(&self, layout: Layout) -> Option<LargeBlock> {
        if layout.align() as u64 > memory::PAGE_BYTES { None } else { self.take_block(layout.size()) }
    }

    /// A block of job memory, of `len` bytes, for allocators of other languages; `None` where there is none: before the job was joined,
    /// in a forked copy, when all is in use. Blocks of [`LARGE_BYTES`] and more begin at a page. It is the caller's until it goes back by
    /// [`give_back_block`](Self::give_back_block). From the first one on a fork copies what is in use.
    #[must_use]
    pub fn take_block(&self, len: usize) -> Option<LargeBlock> {
        if fork::is_copy() {
            return None;
        }
        let block = self.blocks()?.take(len)?;
        // SAFETY: the block is `len` mapped bytes that are the caller's alone. Those that begin at no page are left out of dumps.
        unsafe { memory::set_in_dumps(block.at, len, true) };
        Some(block)
    }

    /// The addresses that blocks come from; `None` before the job was joined. They stay the same, and mapped, until the process ends.
    #[must_use]
    pub fn addresses(&self) -> Option<Range<usize>> {
        self.blocks().map(LargeBlocks::addresses)
    }

    /// Takes back a block of [`take_block`](Self::take_block); whether it was one, which its address says.
    ///
    /// # Safety
    /// Where the address lies in job memory, it and `len` are those of a block that is the caller's, who does not use it any more.
    pub unsafe fn give_back_block(&self, at: *mut u8, len: usize) -> bool {
        self.give_back(at, len)
    }

    /// Whether the block is job memory; if so it goes back there.
    #[cold]
    #[inline(never)]
    fn give_back(&self, at: *mut u8, len: usize) -> bool {
        let (Some(blocks), Some(at)) = (self.blocks.get(), NonNull::new(at)) else { return false };
        if !blocks.addresses().contains(&at.addr().get()) {
            return false;
        }
        // The ranges of a copy belong to its parent.
        if !fork::is_copy() {
            // SAFETY: the block is still the caller's, as it came from `take`.
            unsafe { memory::set_in_dumps(at, len, false) };
            blocks.give_back(at, len);
        }
        true
    }
}

/// Makes job memory known to the program's allocator, which keeps the first that it uses until the process ends.
pub fn offer(blocks: Weak<dyn LargeBlocks>) {
    *OFFERED.lock().unwrap_or_else(PoisonError::into_inner) = Some(blocks);
}

// SAFETY: blocks are of the size and alignment that the layout says: System's, or whole pages that nobody else has (LargeBlocks).
// A block goes back to where it came from, which its address tells: job memory is mapped as long as the process lives, so
// System never has an address in it. Nothing here unwinds.
unsafe impl GlobalAlloc for JobAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGE_BYTES
            && let Some(block) = self.take(layout)
        {
            return block.at.as_ptr();
        }
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGE_BYTES
            && let Some(block) = self.take(layout)
        {
            if !block.is_zero {
                // SAFETY: as many bytes are the caller's.
                unsafe { block.at.as_ptr().write_bytes(0, layout.size()) };
            }
            return block.at.as_ptr();
        }
        // SAFETY: the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if layout.size() < LARGE_BYTES || !self.give_back(at, layout.size()) {
            // SAFETY: the caller's contract, and the block is not job memory.
            unsafe { System.dealloc(at, layout) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.size() < LARGE_BYTES && new_size < LARGE_BYTES {
            // SAFETY: the caller's contract; small blocks are the system's.
            return unsafe { System.realloc(at, layout, new_size) };
        }
        // SAFETY: the caller has seen to it that the new size, with this alignment, is a layout.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: the sizes are not 0 (the caller's contract); the blocks do not overlap, and each holds what is copied.
        unsafe {
            let new = self.alloc(new_layout);
            if !new.is_null() {
                std::ptr::copy_nonoverlapping(at, new, layout.size().min(new_size));
                self.dealloc(at, layout);
            }
            new
        }
    }
}
