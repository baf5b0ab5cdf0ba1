//! Inter-communicators of several threads: the same steps as those of a task of one thread, each of which waits in turns.

use am_core::fabric::Fabric;

use super::SharedCommunicator;
use super::communicator::Handle;
use crate::buffer::{RecvData, bytes_of, lend_to_receive, lend_to_send};
use crate::collective::slices;
use crate::communicator::{Choice, Communicator, LISTS, list_len, met, no_bridge, numbers_of};
use crate::error::{Error, Result};
use crate::group::Group;

impl<F: Fabric> SharedCommunicator<F> {
    /// Whether it is an inter-communicator (`MPI_Comm_test_inter`).
    #[must_use]
    pub fn is_inter(&self) -> bool {
        self.place.remote.is_some()
    }

    /// As [`Communicator::remote_group`].
    ///
    /// # Errors
    /// As there.
    pub fn remote_group(&self) -> Result<Group> {
        self.with(Communicator::remote_group)
    }

    /// As [`Communicator::remote_size`].
    ///
    /// # Errors
    /// As there.
    pub fn remote_size(&self) -> Result<u32> {
        self.with(Communicator::remote_size)
    }

    /// As [`Communicator::create_inter_with`]. Threads whose leaders meet in one bridge at the same time have different tags.
    ///
    /// # Errors
    /// As there.
    pub fn create_inter_with(
        &self,
        local_leader: u32,
        bridge: Option<&Self>,
        remote_leader: u32,
        tag: i32,
    ) -> Result<Self> {
        let own = self.with(|inside| inside.begin_inter(local_leader))?;
        let met = if self.rank() == local_leader {
            bridge.ok_or_else(|| no_bridge(tag)).and_then(|bridge| bridge.meet(remote_leader, tag, &own))
        } else {
            Ok(Vec::new())
        };
        // If the leader has failed, the others learn it by an empty list.
        let list = self.broadcast_list(local_leader, met.as_deref().unwrap_or_default());
        let list = met.and(list)?;
        let made = self.keep_made(|inside| inside.end_inter(local_leader, &list).map(Some))?;
        Ok(made.expect("this task is a member"))
    }

    /// As [`Communicator::merge`].
    ///
    /// # Errors
    /// As there.
    pub fn merge(&self, high: bool) -> Result<Self> {
        self.remote_group()?;
        let (numbers, theirs) = self.exchange_lists(&[u64::from(high)])?;
        // Everybody goes by what the first rank of the side said.
        let mut own = [u64::from(high)];
        self.tell(&mut own, 0)?;
        let made = self.keep_made(|inside| inside.end_merge(numbers, own, &theirs).map(Some))?;
        Ok(made.expect("this task is a member"))
    }

    pub(super) fn create_inter(&self, group: &Group) -> Result<Option<Self>> {
        self.with(|inside| inside.check_part("create", group))?;
        let (numbers, theirs) = self.exchange_lists(&numbers_of(group))?;
        self.keep_made(|inside| inside.end_create_inter(numbers, group, &theirs))
    }

    pub(super) fn split_inter(&self, color: Option<i32>, key: i32) -> Result<Option<Self>> {
        let own = Choice::new(color, key)?;
        let mut words = self.with(|inside| Ok(inside.local().placed_words(&[own.to_word()])))?;
        self.combine(&mut words)?;
        let (numbers, theirs) = self.exchange_lists(&words)?;
        self.keep_made(|inside| inside.end_split_inter(own, numbers, (&words, &theirs)))
    }

    fn keep_made(
        &self,
        make: impl FnOnce(&Communicator<F>) -> Result<Option<Communicator<F>>>,
    ) -> Result<Option<Self>> {
        let Handle { shared, number } = &*self.handle;
        let made = {
            let mut turn = shared.inner.enter()?;
            let made = make(turn.value().communicator(*number)?)?;
            made.map(|made| turn.value().keep(made))
        };
        made.map(|made| Self::new(shared, made)).transpose()
    }

    /// What the first ranks of both sides have: numbers for something new, and the other side's list.
    fn exchange_lists(&self, list: &[u64]) -> Result<([u64; 2], Vec<u64>)> {
        let met = if self.rank() == 0 { self.meet(0, LISTS, list)? } else { Vec::new() };
        let mut all = self.broadcast_list(0, &met)?;
        let list = all.split_off(2);
        Ok(([all[0], all[1]], list))
    }

    /// The leaders exchange what they have, in this communicator.
    fn meet(&self, leader: u32, tag: i32, list: &[u64]) -> Result<Vec<u64>> {
        let out = self.with(|inside| inside.greeting(list))?;
        let mut into = [0; 4];
        self.exchange_words(leader, tag, &out, &mut into)?;
        let mut remote = vec![0; list_len(into, leader)?];
        self.exchange_words(leader, tag, list, &mut remote)?;
        Ok(met(out, into, &remote))
    }

    /// Sends words to a peer and gets as many from it, on the space of the library.
    fn exchange_words(&self, peer: u32, tag: i32, out: &[u64], into: &mut [u64]) -> Result<()> {
        let Handle { shared, number } = &*self.handle;
        let len = size_of_val(into) as u64;
        // Both operations have ended when their `carry_out` returns or unwinds.
        let status = lend_to_receive(into, |room| {
            let room = RecvData::from_buffer(room);
            let receive = |inside: &Communicator<F>| inside.start_room(&room, peer, tag);
            shared.inner.carry_out_beside(*number, receive, || {
                lend_to_send(bytes_of(out), |words| {
                    let send = |inside: &Communicator<F>| inside.start_words(&words, peer, tag);
                    shared.inner.carry_out(*number, send).map(|_| ())
                })
            })
        })?;
        if status.len() == len {
            return Ok(());
        }
        Err(Error::Protocol { peer, what: "a list of another length than it announced" })
    }

    /// A list that one task of this side has.
    fn broadcast_list(&self, root: u32, list: &[u64]) -> Result<Vec<u64>> {
        let mut len = [list.len() as u64];
        self.tell(&mut len, root)?;
        let len = usize::try_from(len[0]).map_err(|_| Error::TooLarge { call: "a list of tasks" })?;
        let mut all = if self.rank() == root { list.to_vec() } else { vec![0; len] };
        self.tell(&mut all, root)?;
        Ok(all)
    }

    /// What one task of this side has, all of it have.
    fn tell(&self, words: &mut [u64], root: u32) -> Result<()> {
        let Handle { shared, number } = &*self.handle;
        // The words live until it is over.
        let telling = slices::broadcast(words, root)?;
        shared.inner.carry_out(*number, |inside| inside.local().icollective_data(&telling)).map(|_| ())
    }
}
