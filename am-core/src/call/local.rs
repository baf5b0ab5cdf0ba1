//! State of one task that its functions change and its program reads.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::call_guard;
use crate::error::Result;

/// A value that functions of this task change ([`Context::function_on`](crate::Context::function_on)) and that the program accesses by
/// [`with`](Self::with). Clones share the value. After a panic it stays as the panic left it.
pub struct Local<S> {
    value: Arc<Mutex<S>>,
}

impl<S> Local<S> {
    /// Wraps `value`.
    #[must_use]
    pub fn new(value: S) -> Self {
        Self { value: Arc::new(Mutex::new(value)) }
    }

    /// Runs `call` with the value. Communicating calls are rejected meanwhile ([`Error::InHandler`](crate::error::Error::InHandler)),
    /// because a function that runs during such a call could need the value. A thread may block here until another thread releases the
    /// value, but the two cannot deadlock.
    ///
    /// # Panics
    /// If this method is called inside a function of a call, a handler, or another `with`.
    pub fn with<R>(&self, call: impl FnOnce(&mut S) -> R) -> R {
        assert!(
            !call_guard::is_running(),
            "Local::with inside a handler, a function of a call or another Local::with: the value may be in use"
        );
        let _mark = call_guard::Mark::set();
        call(&mut self.lock())
    }

    /// Like [`with`](Self::with), for a registered function, which runs inside a handler.
    pub(super) fn enter<R>(&self, call: impl FnOnce(&mut S) -> R) -> R {
        call(&mut self.lock())
    }

    /// The value, if this is the last clone.
    ///
    /// # Errors
    /// Another clone or a registered function still uses it.
    pub fn into_inner(self) -> Result<S, Self> {
        Arc::try_unwrap(self.value)
            .map(|value| value.into_inner().unwrap_or_else(PoisonError::into_inner))
            .map_err(|value| Self { value })
    }

    fn lock(&self) -> MutexGuard<'_, S> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Clone for Local<S> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value) }
    }
}

impl<S> fmt::Debug for Local<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").finish_non_exhaustive()
    }
}
