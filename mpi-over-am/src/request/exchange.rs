//! A send and a receive as one operation (MPI 5.0 section 3.10), which is complete when both are.

use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::data::buffer::{KeptVec, RecvData, SendData, bytes_to_keep};
use crate::error::{Error, Result};
use crate::message::progress::end;
use crate::message::request_id::RequestId;
use crate::message::request_table::{Exchange, Parts};
use crate::message::route::Mode;
use crate::message::state::State;
use crate::message::status::Status;
use crate::policy::LockPolicy;
use crate::rank::Source;
use crate::tag::Tag;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Starts a send and a receive as one operation (`MPI_Isendrecv`). Its status is that of the receive.
    ///
    /// # Errors
    /// Those of [`isend_data`](Self::isend_data) and [`irecv_data`](Self::irecv_data); neither half is then under way.
    pub fn isendrecv_data(
        &self,
        (out, dest, send_tag): (&SendData, u32, i32),
        (data, source, recv_tag): (&RecvData, Source, Tag),
    ) -> Result<RequestId> {
        self.check_exchange((dest, send_tag), (source, recv_tag))?;
        let receive = self.irecv_data(data, source, recv_tag)?;
        let send = self.isend_data(Mode::Standard, out, dest, send_tag);
        // `state_to_end` instead of `state`: the error of another call must not leave the halves under way without a request.
        let mut state = self.state_to_end().ok_or(Error::Nested)?;
        let send = send.inspect_err(|_| {
            end(&mut state, receive);
            // The caller gets the error of the send.
            let _ = state.handlers().requests.take(receive);
        })?;
        Ok(join(&mut state, vec![receive, send]))
    }

    /// Starts to send the elements and to replace them with the received ones (`MPI_Isendrecv_replace`).
    ///
    /// # Errors
    /// Those of [`isend_data`](Self::isend_data) and [`irecv_data`](Self::irecv_data); if the receive cannot be started, the message is
    /// sent nevertheless. [`Error::TooLarge`]: more bytes than memory can hold.
    pub fn isendrecv_replace_data(
        &self,
        data: &RecvData,
        (dest, send_tag): (u32, i32),
        (source, recv_tag): (Source, Tag),
    ) -> Result<RequestId> {
        let len =
            usize::try_from(data.packed_len()).map_err(|_| Error::TooLarge { call: "isendrecv_replace" })?;
        self.check_exchange((dest, send_tag), (source, recv_tag))?;
        let mut out = vec![0u8; len];
        data.as_send().pack(0, &mut out);
        let bytes = SendData::from_bytes(bytes_to_keep(self, &out));
        let send = self.isend_data(Mode::Standard, &bytes, dest, send_tag)?;
        // `state_to_end` as in `isendrecv_data`; the send needs its memory, so there is no way out here.
        match self.state_to_end() {
            Some(mut state) => state.handlers().requests.keep(send, KeptVec::new(out)),
            None => std::mem::forget(out),
        }
        let receive = self.irecv_data(data, source, recv_tag);
        let mut state = self.state_to_end().ok_or(Error::Nested)?;
        // The message was sent and belongs to the receiver, even if this task's receive fails.
        let receive = receive.inspect_err(|_| state.handlers().requests.detach(send))?;
        Ok(join(&mut state, vec![receive, send]))
    }

    /// Checks the arguments of a send and a receive that are to be started together, before either half starts: a receive may take an early
    /// message at once, and could not put it back if the send then failed.
    ///
    /// # Errors
    /// Those of [`isend_data`](Self::isend_data) and [`irecv_data`](Self::irecv_data) for an unknown rank or a tag out of range.
    pub fn check_exchange(
        &self,
        (dest, send_tag): (u32, i32),
        (source, recv_tag): (Source, Tag),
    ) -> Result<()> {
        self.route_or_nobody(dest, send_tag)?;
        self.pattern_or_nobody(source, recv_tag).map(drop)
    }
}

fn join<F: Fabric>(state: &mut State<F>, under_way: Vec<RequestId>) -> RequestId {
    let request = state.handlers().requests.insert(true);
    state.handlers().requests.in_parts(request);
    let exchange = Exchange { under_way, status: Status::EMPTY, failure: None };
    state.handlers().requests.put_parts(request, Box::new(Parts::Exchange(exchange)));
    request
}
