//! The beginning and the end of an MPI program. This is the one file that names am-via: it chooses the fabric.

use std::cell::RefCell;
use std::rc::Rc;

use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::settings::Settings;
use crate::state::State;

/// MPI between [`init`](Self::init) and [`finalize`](Self::finalize), for one thread of the task.
#[derive(Debug)]
pub struct Environment<F: Fabric> {
    shared: Rc<RefCell<State<F>>>,
}

impl<F: Fabric> Environment<F> {
    /// MPI over a fabric that the caller has opened: for tests, and for programs that use am-core as well.
    #[must_use]
    pub fn with_fabric(fabric: F, settings: Settings) -> Self {
        Self { shared: Rc::new(RefCell::new(State::new(fabric, settings))) }
    }

    /// The communicator of all tasks (`MPI_COMM_WORLD`).
    #[must_use]
    pub fn world(&self) -> Communicator<F> {
        Communicator::world(&self.shared)
    }
}
