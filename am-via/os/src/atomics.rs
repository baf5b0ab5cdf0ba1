//! Selects between the machine's atomics and loom's.

/// For flags that signal handlers set: loom models no signals.
pub use core::sync::atomic::AtomicBool;

#[cfg(not(loom))]
pub use core::hint::spin_loop;
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

#[cfg(loom)]
pub use loom::hint::spin_loop;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};

/// Under loom, plain memory as the model sees it: two accesses that are not ordered fail the model.
#[cfg(loom)]
#[derive(Debug, Default)]
pub struct Plain(loom::cell::UnsafeCell<()>);

#[cfg(loom)]
impl Plain {
    /// Marks a read.
    pub fn read(&self) {
        self.0.with(|_| ());
    }

    /// Marks a write.
    pub fn write(&self) {
        self.0.with_mut(|_| ());
    }
}
