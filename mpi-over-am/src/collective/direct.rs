//! Carries an algorithm out at once.

use am_core::fabric::Fabric;
use smallvec::SmallVec;

use super::tags::{self, Way};
use super::{Collective, Plan, Selection};
use crate::buffer::{RecvData, Scratch, SendData};
use crate::communicator::{Communicator, Space};
use crate::error::Result;
use crate::op::Combine;
use crate::policy::LockPolicy;
use crate::protocol::{self, Mode};
use crate::request::{RequestId, check_len};
use crate::turn::Turn;
use mpi_datatype::Datatype;

/// Scratch memory up to this length is kept for the next reduction: fresh memory costs more than the reduction itself.
const SPARE_BYTES_MAX: usize = 4 << 20;

/// A collective that is carried out while its caller waits. When it is dropped nothing uses the caller's memory any more.
pub(super) struct Direct<'a, F: Fabric, L: LockPolicy> {
    communicator: &'a Communicator<F, L>,
    /// Which collective of a communicator with lanes it is: others may carry out another one, or in another way, by mistake.
    number: Option<(u32, Way)>,
    op: Option<&'a dyn Combine>,
    selection: Selection,
    pending: SmallVec<[(RequestId, Option<u64>); 8]>,
    scratch: SmallVec<[Scratch; 2]>,
}

impl<'a, F: Fabric, L: LockPolicy> Direct<'a, F, L> {
    pub(super) fn new(
        communicator: &'a Communicator<F, L>,
        number: Option<(u32, Way)>,
        op: Option<&'a dyn Combine>,
    ) -> Result<Self> {
        let selection = communicator.state()?.selection;
        Ok(Self { communicator, number, op, selection, pending: SmallVec::new(), scratch: SmallVec::new() })
    }

    fn tag(&self) -> i32 {
        self.number.map_or(tags::WITHOUT_LANES, |(number, way)| tags::waited(number, way))
    }

    /// Whether a collective goes by puts, where its communicator has lanes: all tasks answer alike.
    pub(super) fn goes_by_puts(&self, collective: &Collective) -> bool {
        let longest = collective.mark().put_bytes_max(&self.selection, self.communicator.size());
        collective.longest_bytes().is_some_and(|len| len <= longest)
    }

    /// Whose collective it is.
    pub(super) fn communicator(&self) -> &'a Communicator<F, L> {
        self.communicator
    }

    /// Ends what a failure has left under way.
    #[cold]
    #[inline(never)]
    fn abandon(&mut self) {
        // If this fails the program ends, as it must: memory that is borrowed no longer would stay in use.
        let mut state = self
            .communicator
            .state_to_end()
            .expect("no call of this environment is under way where a collective ends");
        for (request, _) in self.pending.drain(..) {
            protocol::end(&mut state, request);
            // The caller gets the error that came first.
            let _ = state.handlers().requests.take(request);
        }
    }
}

impl<F: Fabric, L: LockPolicy> Drop for Direct<'_, F, L> {
    fn drop(&mut self) {
        if !self.pending.is_empty() {
            self.abandon();
        }
        if let Some(scratch) = self.scratch.pop()
            && scratch.len() <= SPARE_BYTES_MAX
            && let Some(mut state) = self.communicator.state_to_end()
        {
            state.spare = Some(scratch);
        }
    }
}

impl<F: Fabric, L: LockPolicy> Plan for Direct<'_, F, L> {
    #[inline]
    fn rank(&self) -> u32 {
        self.communicator.rank()
    }

    #[inline]
    fn size(&self) -> u32 {
        self.communicator.size()
    }

    #[inline]
    fn peers(&self) -> u32 {
        self.communicator.remote_size().unwrap_or(self.communicator.size())
    }

    #[inline]
    fn is_commutative(&self) -> bool {
        self.op.is_none_or(|op| op.is_commutative())
    }

    #[inline]
    fn selection(&self) -> Selection {
        self.selection
    }

    fn send(&mut self, data: &SendData, to: u32) -> Result<()> {
        let route = self.communicator.route(Space::Collective, to, self.tag())?;
        let mut state = self.communicator.state()?;
        let request = protocol::start_send_data(&mut state, Mode::Standard, &route, data, 0)?;
        self.pending.push((request, None));
        Ok(())
    }

    fn receive(&mut self, data: &RecvData, from: u32) -> Result<()> {
        let pattern = self.communicator.pattern(Space::Collective, from.into(), self.tag().into())?;
        let mut state = self.communicator.state()?;
        let request = protocol::start_receive_data(&mut state, pattern, data, 0);
        self.pending.push((request, Some(data.packed_len())));
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        while let Some(&(request, expected)) = self.pending.last() {
            let mut state = self.communicator.state()?;
            match self.number {
                None => state.wait_over(request)?,
                Some(number) => self.communicator.wait_beside_lanes(&mut state, request, number)?,
            }
            self.pending.pop();
            let status = state.handlers().requests.take(request)?;
            check_len(status, expected)?;
        }
        Ok(())
    }

    fn combine(&mut self, earlier: &SendData, later: &RecvData) -> Result<()> {
        self.op.map_or(Ok(()), |op| op.combine(earlier, later))
    }

    fn copy(&mut self, from: &SendData, to: &RecvData) -> Result<()> {
        from.copy_to(to);
        Ok(())
    }

    fn scratch(&mut self, count: u64, datatype: &Datatype) -> Result<RecvData> {
        let spare = self.communicator.state()?.spare.take();
        let (scratch, elements) = Scratch::with_elements(spare, count, datatype)?;
        self.scratch.push(scratch);
        Ok(elements)
    }

    fn among_own(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let whole = self.communicator;
        self.communicator = whole.local();
        let result = part(self);
        self.communicator = whole;
        result
    }

    #[inline]
    fn push(&mut self, data: &SendData, to: u32) -> Result<()> {
        let route = self.communicator.route(Space::Collective, to, self.tag())?;
        let mut state = self.communicator.state()?;
        if self.number.is_none() || protocol::goes_now(&mut state, &route, data.packed_len()) {
            return protocol::send_data(&mut state, Mode::Standard, &route, data);
        }
        drop(state);
        self.send(data, to)?;
        self.wait()
    }

    #[inline]
    fn pull(&mut self, data: &RecvData, from: u32) -> Result<()> {
        let communicator = self.communicator;
        let pattern = communicator.pattern(Space::Collective, from.into(), self.tag().into())?;
        let mut state = communicator.state()?;
        let status = match self.number {
            None => protocol::receive_data(&mut state, pattern, data)?,
            Some(number) => protocol::receive_data_by(&mut state, pattern, data, |state, request| {
                communicator.wait_beside_lanes(state, request, number)
            })?,
        };
        check_len(status, Some(data.packed_len()))
    }

    #[inline]
    fn across(&mut self, (out, to): (&SendData, u32), (data, from): (&RecvData, u32)) -> Result<()> {
        let communicator = self.communicator;
        let route = communicator.route(Space::Collective, to, self.tag())?;
        let pattern = communicator.pattern(Space::Collective, from.into(), self.tag().into())?;
        let mut state = communicator.state()?;
        let status = match self.number {
            None => protocol::send_receive_data(&mut state, &route, out, pattern, data)?,
            Some(number) if protocol::goes_now(&mut state, &route, out.packed_len()) => {
                let wait = |state: &mut Turn<'_, F, L>, request| {
                    communicator.wait_beside_lanes(state, request, number)
                };
                protocol::send_receive_data_by(&mut state, (&route, out), (pattern, data), wait)?
            }
            Some(_) => {
                drop(state);
                self.receive(data, from)?;
                self.send(out, to)?;
                return self.wait();
            }
        };
        check_len(status, Some(data.packed_len()))
    }
}
