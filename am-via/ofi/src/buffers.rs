//! The buffers of an endpoint: memory in equal parts that the network reads and writes. Each buffer has a context, in which the library
//! keeps the state of the operation that uses the buffer.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use crate::OfiError;
use crate::sys::OpContext;

/// The memory, which is freed on drop. The owner must close the objects of the endpoint first.
#[derive(Debug)]
pub(crate) struct Buffers {
    memory: NonNull<u8>,
    layout: Layout,
    contexts: Box<[OpContext]>,
    stride: usize,
}

impl std::fmt::Debug for OpContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpContext")
    }
}

impl Buffers {
    /// `count` buffers of at least `bytes`.
    pub(crate) fn new(count: usize, bytes: usize) -> Result<Self, OfiError> {
        let stride = bytes.max(1).next_multiple_of(64);
        let all = stride.saturating_mul(count.max(1));
        let none = OfiError::NoMemory { bytes: all };
        let layout = Layout::from_size_align(all, 4096).map_err(|_| none.clone())?;
        // SAFETY: the layout has a size above 0.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(none)?;
        let contexts = vec![OpContext { internal: [null_mut(); 8] }; count].into_boxed_slice();
        Ok(Self { memory, layout, contexts, stride })
    }

    /// Address and length of the memory.
    pub(crate) fn whole(&self) -> (*mut c_void, usize) {
        (self.memory.as_ptr().cast(), self.layout.size())
    }

    /// Length of one buffer.
    pub(crate) fn bytes(&self) -> usize {
        self.stride
    }

    /// Address of a buffer. Panics if there is no buffer of this index.
    pub(crate) fn at(&self, index: usize) -> *mut u8 {
        assert!(index < self.contexts.len(), "buffer {index} of {}", self.contexts.len());
        // SAFETY: `index` is below the count (just checked), so the sum stays inside the allocation.
        unsafe { self.memory.as_ptr().add(index * self.stride) }
    }

    /// The library's context of the operation that uses a buffer.
    pub(crate) fn context(&mut self, index: usize) -> *mut c_void {
        (&raw mut self.contexts[index]).cast()
    }

    /// The buffer of the operation whose context the library has reported; `None` if the context is none of these.
    pub(crate) fn index_of(&self, context: *mut c_void) -> Option<usize> {
        let offset = context.addr().checked_sub(self.contexts.as_ptr().addr())?;
        let index = offset / size_of::<OpContext>();
        (offset.is_multiple_of(size_of::<OpContext>()) && index < self.contexts.len()).then_some(index)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}
