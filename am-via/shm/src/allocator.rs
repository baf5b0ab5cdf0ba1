//! A global allocator that puts a program's large blocks into job memory, which peers access by one plain copy.
//!
//! The system supplies small blocks, blocks that do not fit into job memory, and all blocks from before the job was joined. The address of
//! a block tells where it has to be returned. A forked copy of the process gets its own copy of existing blocks (see [`fork`]), and new
//! ones from the system. Blocks are included in core dumps, unlike the rest of job memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use am_via_os::{fork, memory};

/// Minimum bytes of a block in job memory.
pub const LARGE_BYTES: usize = 64 << 10;

/// Blocks of job memory.
///
/// # Safety
/// A block of [`take`](Self::take) must be `len` mapped bytes inside [`addresses`](Self::addresses) that nothing else uses until it is
/// returned, aligned to a page if it has [`LARGE_BYTES`] or more, and zero if it says so. The addresses must be the same on each call, and
/// stay mapped until the value is dropped; no other allocator may return memory there. No method may unwind, or ask the global allocator
/// for a large block.
pub unsafe trait LargeBlocks: Send + Sync + std::fmt::Debug {
    /// A block of `len` bytes.
    fn take(&self, len: usize) -> Option<LargeBlock>;
    /// The address range of blocks, fixed while the process lives.
    fn addresses(&self) -> Range<usize>;
    /// Takes back the block of `len` bytes at `at`.
    ///
    /// # Safety
    /// The block must be one of [`take`](Self::take) for this `len`, not yet given back, and nothing may use it any more.
    unsafe fn give_back(&self, at: NonNull<u8>, len: usize);
}

/// A block of job memory.
#[derive(Clone, Copy, Debug)]
pub struct LargeBlock {
    /// The start of the block.
    pub at: NonNull<u8>,
    /// Whether the block reads as zero. Other blocks have arbitrary contents.
    pub is_zero: bool,
}

/// An allocator that takes large blocks from the job's memory, once the program has joined its job.
///
/// The blocks' memory stays mapped until the process ends. A fork without exec copies the blocks in use, and waits for the copy.
#[derive(Debug)]
pub struct JobAllocator {
    blocks: OnceLock<Arc<dyn LargeBlocks>>,
}

/// The job memory offered to the program's allocator, in case that allocator is a [`JobAllocator`].
static OFFERED: Mutex<Option<Weak<dyn LargeBlocks>>> = Mutex::new(None);

impl JobAllocator {
    /// The allocator, for a `static` with `#[global_allocator]`.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a static needs a constant")]
    pub const fn new() -> Self {
        Self { blocks: OnceLock::new() }
    }

    /// The job memory of this allocator. The first call that finds offered memory keeps it.
    #[inline]
    fn blocks(&self) -> Option<&dyn LargeBlocks> {
        if let Some(blocks) = self.blocks.get() {
            return Some(&**blocks);
        }
        let offered =
            OFFERED.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Weak::upgrade)?;
        // From now on a fork has to copy the blocks.
        fork::hold_contents();
        Some(&**self.blocks.get_or_init(|| offered))
    }

    #[cold]
    #[inline(never)]
    fn take(&self, layout: Layout) -> Option<LargeBlock> {
        if layout.align() as u64 > memory::PAGE_BYTES { None } else { self.take_block(layout.size()) }
    }

    /// A block of `len` bytes of job memory, for allocators of other languages. `None` before the job was joined, in a forked copy, or if
    /// no memory is left. Blocks of [`LARGE_BYTES`] and more are aligned to a page. The block belongs to the caller until
    /// [`give_back_block`](Self::give_back_block). After the first block, a fork copies the blocks in use.
    #[must_use]
    pub fn take_block(&self, len: usize) -> Option<LargeBlock> {
        if fork::is_copy() {
            return None;
        }
        let block = self.blocks()?.take(len)?;
        // The system refuses a block that is not aligned to a page: it stays out of dumps.
        // SAFETY: the block is `len` mapped bytes that only the caller uses.
        unsafe { memory::set_in_dumps(block.at, len, true) };
        Some(block)
    }

    /// The address range of blocks; `None` before the job was joined. It is fixed, and stays mapped, until the process ends.
    #[must_use]
    pub fn addresses(&self) -> Option<Range<usize>> {
        self.blocks().map(LargeBlocks::addresses)
    }

    /// Takes back a block of [`take_block`](Self::take_block); returns whether the address is in job memory.
    ///
    /// # Safety
    /// If the address is in job memory, `at` and `len` must be those of a block that the caller got from [`take_block`](Self::take_block)
    /// and no longer uses.
    pub unsafe fn give_back_block(&self, at: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's contract.
        unsafe { self.give_back(at, len) }
    }

    /// Returns a block to job memory; `false` if the address is not in job memory.
    ///
    /// # Safety
    /// Those of [`give_back_block`](Self::give_back_block).
    #[cold]
    #[inline(never)]
    unsafe fn give_back(&self, at: *mut u8, len: usize) -> bool {
        let (Some(blocks), Some(at)) = (self.blocks.get(), NonNull::new(at)) else { return false };
        if !blocks.addresses().contains(&at.addr().get()) {
            return false;
        }
        // A forked copy frees nothing: the ranges belong to its parent.
        if !fork::is_copy() {
            // SAFETY: a block of `take` that the caller no longer uses (this function's contract), and that is still mapped.
            unsafe {
                memory::set_in_dumps(at, len, false);
                blocks.give_back(at, len);
            }
        }
        true
    }
}

/// Offers job memory to the program's allocator. The allocator keeps the first memory that it uses until the process ends.
pub fn offer(blocks: Weak<dyn LargeBlocks>) {
    *OFFERED.lock().unwrap_or_else(PoisonError::into_inner) = Some(blocks);
}

// SAFETY: each block fits its layout. Blocks of System do; a block of job memory starts at a page, and nothing else uses it (`LargeBlocks`;
// `take` refuses larger alignments). A block is returned to its source, which its address determines: job memory is mapped while the
// process lives, so System never returns an address in it. Nothing here unwinds.
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
                // SAFETY: the block has at least `layout.size()` bytes, and belongs to the caller.
                unsafe { block.at.as_ptr().write_bytes(0, layout.size()) };
            }
            return block.at.as_ptr();
        }
        // SAFETY: the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller gives up a block of this layout, which is job memory only if `take` returned it.
        if layout.size() < LARGE_BYTES || !unsafe { self.give_back(at, layout.size()) } {
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
        // SAFETY: the caller ensures that the new size, with this alignment, is a valid layout.
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
