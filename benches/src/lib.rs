//! The code that the measurements share.
