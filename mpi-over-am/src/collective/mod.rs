//! Collectives over point-to-point messages, one algorithm a file.
//!
//! All tasks of a communicator call them in the same order (MPI 4.1 section 6.1). Their messages have a context id of their
//! own, so that no receive of the program takes one, and since messages of a pair do not overtake each other a tag for each
//! kind of collective tells them apart.

mod allreduce;
mod barrier;
mod broadcast;

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use crate::buffer::{bytes_of, lend_to_receive};
use crate::communicator::{Communicator, Space};
use crate::error::{Error, Result};
use crate::protocol::{self, Borrowed, Mode, Receive, Room};

/// What can be sent and received: its bytes are all initialised, and any bytes make a value. Nobody has to implement it.
pub trait Datum: NoUninit + AnyBitPattern {}

impl<T: NoUninit + AnyBitPattern> Datum for T {}

/// A kind of collective, as a tag.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Barrier = 0,
    Broadcast = 1,
    Allreduce = 2,
}

impl<F: Fabric> Communicator<F> {
    fn part_out<T: NoUninit>(&self, kind: Kind, part: &[T], dest: u32) -> Result<()> {
        let route = self.route(Space::Collective, dest, kind as i32)?;
        protocol::send(&mut *self.state()?, Mode::Standard, &route, Borrowed(bytes_of(part)))
    }

    fn part_in<T: AnyBitPattern>(&self, kind: Kind, part: &mut [T], source: u32) -> Result<()> {
        let pattern = self.pattern(Space::Collective, source.into(), (kind as i32).into())?;
        let mut state = self.state()?;
        let expected = part.len();
        let status = lend_to_receive(part, |buffer| {
            protocol::receive(&mut state, Receive { pattern, room: Room::Bytes(buffer) })
        })?;
        whole::<T>(status.len(), expected)
    }

    /// Sends one part while receiving another.
    fn parts_across<T: Datum>(
        &self,
        kind: Kind,
        (out, dest): (&[T], u32),
        (part, source): (&mut [T], u32),
    ) -> Result<()> {
        let route = self.route(Space::Collective, dest, kind as i32)?;
        let pattern = self.pattern(Space::Collective, source.into(), (kind as i32).into())?;
        let mut state = self.state()?;
        let expected = part.len();
        let status = lend_to_receive(part, |buffer| {
            protocol::send_receive(
                &mut state,
                &route,
                bytes_of(out),
                Receive { pattern, room: Room::Bytes(buffer) },
            )
        })?;
        whole::<T>(status.len(), expected)
    }

    fn check_root(&self, root: u32) -> Result<()> {
        if root < self.size() { Ok(()) } else { Err(Error::UnknownRoot { root, size: self.size() }) }
    }
}

/// Refuses a part of another length than this task expects: the tasks disagree about the lengths of their buffers.
fn whole<T>(len: u64, expected: usize) -> Result<()> {
    if len == (expected * size_of::<T>()) as u64 {
        return Ok(());
    }
    let given = usize::try_from(len).unwrap_or(usize::MAX) / size_of::<T>().max(1);
    Err(Error::Count { call: "a collective got a part from a task that counts otherwise", given, expected })
}
