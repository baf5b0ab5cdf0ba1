//! The collectives that hand data on, for structs that derive [`Equivalence`].
//!
//! Each rank's part is listed by itself: where the fields of values lie may differ from value to value, and all tasks must choose
//! the same algorithm.

use am_core::fabric::Fabric;

use super::{Collective, Parts};
use crate::buffer::{Equivalence, RecvData, SendData, field_room_to_keep, fields_to_keep};
use crate::communicator::Communicator;
use crate::error::{Error, Result};

impl<F: Fabric> Communicator<F> {
    /// As [`broadcast`](Self::broadcast), of the fields of `values`.
    ///
    /// # Errors
    /// As there.
    pub fn broadcast_fields<T: Equivalence>(&self, values: &mut [T], root: u32) -> Result<()> {
        self.collective_data(&Collective::Broadcast { data: field_room_to_keep(values)?, root })
    }

    /// As [`gather`](Self::gather), of the fields of `send`. `recv` counts at the root.
    ///
    /// # Errors
    /// As there.
    pub fn gather_fields<T: Equivalence>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<()> {
        let recv = match self.is_root(root) {
            true => Some(rooms("gather_fields: the receive buffer", recv, send.len(), self.partners()?)?),
            false => None,
        };
        self.collective_data(&Collective::Gather { send: Some(fields_to_keep(send)?), recv, root })
    }

    /// As [`scatter`](Self::scatter), of the fields of `send`, which counts at the root.
    ///
    /// # Errors
    /// As there.
    pub fn scatter_fields<T: Equivalence>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<()> {
        let send = match self.is_root(root) {
            true => Some(parts("scatter_fields: the send buffer", send, recv.len(), self.partners()?)?),
            false => None,
        };
        self.collective_data(&Collective::Scatter { send, recv: Some(field_room_to_keep(recv)?), root })
    }

    /// As [`allgather`](Self::allgather), of the fields of `send`.
    ///
    /// # Errors
    /// As there.
    pub fn allgather_fields<T: Equivalence>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        let recv = rooms("allgather_fields: the receive buffer", recv, send.len(), self.partners()?)?;
        self.collective_data(&Collective::Allgather { send: Some(fields_to_keep(send)?), recv })
    }

    /// As [`alltoall`](Self::alltoall), of the fields of `send`.
    ///
    /// # Errors
    /// As there.
    pub fn alltoall_fields<T: Equivalence>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        let partners = self.partners()?;
        let count = send.len() / partners;
        let send = Some(parts("alltoall_fields: the send buffer", send, count, partners)?);
        let recv = rooms("alltoall_fields: the receive buffer", recv, count, partners)?;
        self.collective_data(&Collective::Alltoall { send, recv })
    }
}

/// `ranks` parts of `count` values, to be sent. The call borrows them until the collective has ended.
fn parts<T: Equivalence>(
    call: &'static str,
    values: &[T],
    count: usize,
    ranks: usize,
) -> Result<Parts<SendData>> {
    check(call, values.len(), count, ranks)?;
    let part = |rank: usize| fields_to_keep(&values[rank * count..][..count]);
    Ok(Parts::Listed((0..ranks).map(part).collect::<Result<_>>()?))
}

/// As [`parts`], to be received.
fn rooms<T: Equivalence>(
    call: &'static str,
    values: &mut [T],
    count: usize,
    ranks: usize,
) -> Result<Parts<RecvData>> {
    check(call, values.len(), count, ranks)?;
    let part = |rank: usize| field_room_to_keep(&mut values[rank * count..][..count]);
    Ok(Parts::Listed((0..ranks).map(part).collect::<Result<_>>()?))
}

fn check(call: &'static str, given: usize, count: usize, ranks: usize) -> Result<()> {
    let expected = count.checked_mul(ranks).ok_or(Error::TooLarge { call })?;
    if given == expected { Ok(()) } else { Err(Error::Count { call, given, expected }) }
}
