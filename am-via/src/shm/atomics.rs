//! The one switch between the machine's atomics and loom's.

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
