//! The multi-process test harness.
