//! One-sided active messages in the manner of LAPI.
