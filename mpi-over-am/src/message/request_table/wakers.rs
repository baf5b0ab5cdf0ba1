//! Futures that wait for requests.

use std::collections::HashMap;
use std::task::Waker;

use crate::message::request_id::RequestId;

/// Wakers of the requests that futures under `Communicator::block_on` wait for.
#[derive(Debug, Default)]
pub(crate) struct Wakers(pub(crate) HashMap<RequestId, Waker>);

impl Wakers {
    /// Removes the waker of a request whose future no longer waits.
    pub(crate) fn forget(&mut self, request: RequestId) {
        if !self.0.is_empty() {
            self.0.remove(&request);
        }
    }
}
