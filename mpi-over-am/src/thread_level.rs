//! The threads that may make calls (MPI 5.0 section 11.6).
//!
//! An [`Environment`](crate::Environment) belongs to the thread that made it, and the compiler keeps it there: that is
//! [`ThreadLevel::Funneled`], whatever other threads the program has. [`Environment::init_threads`](crate::Environment::init_threads) makes
//! an environment for all threads: [`ThreadLevel::Multiple`]. See [`LockPolicy`](crate::LockPolicy).

/// The level of thread support that a program asks for, or gets. Later levels include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadLevel {
    /// The process has one thread (`MPI_THREAD_SINGLE`).
    Single,
    /// Only one thread may make calls (`MPI_THREAD_FUNNELED`).
    Funneled,
    /// Only one thread at a time may make calls (`MPI_THREAD_SERIALIZED`).
    Serialized,
    /// Any thread may make calls at any time (`MPI_THREAD_MULTIPLE`).
    Multiple,
}

impl ThreadLevel {
    /// The level that a program gets if it asks for this one (`MPI_Init_thread`): the lower of this level and `offered`.
    #[must_use]
    pub fn provided(self, offered: Self) -> Self {
        self.min(offered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_what_it_asks_for_if_there_is_so_much() {
        use ThreadLevel::{Funneled, Multiple, Serialized, Single};
        assert_eq!(Single.provided(Multiple), Single);
        assert_eq!(Multiple.provided(Funneled), Funneled);
        assert_eq!(Serialized.provided(Serialized), Serialized);
        assert!(Single < Funneled && Funneled < Serialized && Serialized < Multiple);
    }
}
