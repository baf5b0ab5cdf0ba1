//! Persistent requests (MPI 5.0 section 3.9): the arguments of an operation, kept for repeated starts.

use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;
use crate::message::progress::{start_parts, start_schedule_as};
use crate::message::protocol;
use crate::message::request_id::RequestId;
use crate::message::request_table::Recipe;
use crate::message::route::Mode;
use crate::message::state::State;
use crate::message::status::Status;
use crate::policy::LockPolicy;
use crate::rank::Source;
use crate::request::blocking::send_buffered_data;
use crate::tag::Tag;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A persistent send in any mode (`MPI_Send_init` and the like). What was promised about the memory of `data` must hold until the
    /// request is freed and no round is under way: any code of the program can start the request by its number.
    ///
    /// # Errors
    /// Those of the typed sends.
    pub fn send_init_data(&self, mode: Mode, data: &SendData, dest: u32, tag: i32) -> Result<RequestId> {
        self.init_send(mode, data, dest, tag).map(|id| self.numbered(id))
    }

    /// [`send_init_data`](Self::send_init_data), for a typed object.
    pub(super) fn init_send(&self, mode: Mode, data: &SendData, dest: u32, tag: i32) -> Result<RequestId> {
        let recipe = match self.route_or_nobody(dest, tag)? {
            Some(route) => Recipe::Send { mode, route, data: data.clone() },
            None => Recipe::Nobody { status: Status::EMPTY },
        };
        Ok(self.state()?.handlers().requests.insert_persistent(false, recipe))
    }

    /// A persistent receive (`MPI_Recv_init`). What was promised about the memory of `data` must hold as for
    /// [`send_init_data`](Self::send_init_data).
    ///
    /// # Errors
    /// Those of the typed receives.
    pub fn recv_init_data(
        &self,
        data: &RecvData,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<RequestId> {
        self.init_receive(data, source.into(), tag.into()).map(|id| self.numbered(id))
    }

    /// [`recv_init_data`](Self::recv_init_data), for a typed object.
    pub(super) fn init_receive(&self, data: &RecvData, source: Source, tag: Tag) -> Result<RequestId> {
        let recipe = match self.pattern_or_nobody(source, tag)? {
            Some(pattern) => Recipe::Receive { pattern, data: data.clone() },
            None => Recipe::Nobody { status: Status::OF_PROC_NULL },
        };
        Ok(self.state()?.handlers().requests.insert_persistent(true, recipe))
    }

    /// Starts a persistent request (`MPI_Start`). A wait, or a test that finds the operation complete, makes the request inactive. It can
    /// then be started again, until it is [freed](Self::free).
    ///
    /// # Errors
    /// The request is not persistent, or is already active; the operation's error, if it could not be started (the request is then
    /// inactive).
    pub fn start(&self, request: RequestId) -> Result<()> {
        let mut state = self.state_to_start_again(request)?;
        state.handlers().requests.check(request)?;
        start(&mut *state, request)
    }

    /// Starts all requests (`MPI_Startall`).
    ///
    /// # Errors
    /// Those of [`start`](Self::start), for the first request that fails; the requests before it have been started.
    pub fn start_all(&self, requests: &[RequestId]) -> Result<()> {
        requests.iter().try_for_each(|&request| self.start(request))
    }
}

/// See [`Communicator::start`].
///
/// # Errors
/// Those of [`Communicator::start`].
pub(super) fn start<F: Fabric>(state: &mut State<F>, request: RequestId) -> Result<()> {
    let recipe = state.handlers().requests.begin(request)?;
    let started = carry_out(state, request, recipe);
    if started.is_err() {
        state.handlers().requests.forget(request);
    }
    started
}

fn carry_out<F: Fabric>(state: &mut State<F>, request: RequestId, recipe: Recipe) -> Result<()> {
    match recipe {
        Recipe::Send { mode: Mode::Buffered, route, data } => {
            send_buffered_data(state, &route, &data)?;
            state.handlers().requests.end(request, None);
        }
        Recipe::Send { mode, route, data } => protocol::send_data_as(state, mode, &route, &data, request)?,
        Recipe::Receive { pattern, data } => {
            protocol::receive_data_as(&mut state.context, pattern, &data, request);
        }
        Recipe::Nobody { status } => {
            let requests = &mut state.handlers().requests;
            requests.set_status(request, status);
            requests.end(request, None);
        }
        Recipe::Parts => start_parts(state, request),
        Recipe::Schedule(schedule) => start_schedule_as(state, (schedule, None), request),
    }
    Ok(())
}
