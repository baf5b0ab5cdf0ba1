//! Makes the provider wrong on purpose, to show which tests detect it.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_STATE_CHECK_BROKEN: AtomicBool = AtomicBool::new(false);

/// Makes all VIs of this process send in any state, from now on.
pub fn break_state_check() {
    IS_STATE_CHECK_BROKEN.store(true, Ordering::Relaxed);
}

pub(crate) fn is_state_check_broken() -> bool {
    IS_STATE_CHECK_BROKEN.load(Ordering::Relaxed)
}
