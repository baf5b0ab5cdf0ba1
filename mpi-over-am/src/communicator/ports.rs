//! Connections between tasks that share no communicator (MPI 5.0 section 11.9): the roots find each other by the text of a port, get an
//! inter-communicator of the two, and exchange the tasks of their groups over it.

use am_core::fabric::Fabric;
use am_core::task::TaskId;

use super::create::take_numbers;
use super::inter::{LISTS, numbers_of};
use super::{Communicator, InheritedState, worlds};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::message::notes::{ANSWERS, CALLS, Key, Words};
use crate::message::ports::{ANY_CALLER, Port, REFUSED};
use crate::message::state::State;
use crate::policy::LockPolicy;

fn bad(text: &str, why: &str) -> Error {
    Error::Processes { class: ErrorClass::Port, what: format!("the port {text:?}: {why}") }
}

fn parsed(text: &str) -> Result<Port> {
    Port::parse(text).ok_or_else(|| bad(text, "this is no text that open_port (MPI_Open_port) has returned"))
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// See [`Environment::open_port`](crate::Environment::open_port).
    pub(crate) fn open_port(&self) -> Result<String> {
        let mut state = self.state()?;
        let own = state.context.task();
        Ok(state.handlers().ports.open(own.0).to_string())
    }

    /// See [`Environment::close_port`](crate::Environment::close_port).
    pub(crate) fn close_port(&self, text: &str) -> Result<()> {
        let port = self.own_port(text)?;
        let mut state = self.state()?;
        let handlers = state.handlers();
        handlers.ports.close(port.number);
        let key = call_key(port);
        for request in handlers.notes.give_up(key) {
            handlers.requests.end(request, Some(bad(text, "it was closed")));
        }
        while let Some([_, caller]) = state.handlers().notes.take(key) {
            // A caller that has ended needs no answer.
            let _ = state.send_note(task(caller), (ANSWERS, port.number), REFUSED);
        }
        Ok(())
    }

    /// Waits for a call of [`connect`](Self::connect) with this port, which the root must have opened
    /// ([`Environment::open_port`](crate::Environment::open_port)). Returns the inter-communicator with the group that has called
    /// (`MPI_Comm_accept`). Collective; the port matters at `root` only.
    ///
    /// # Errors
    /// [`ErrorClass::Port`]: the port is not an open port of the root. An unknown root; an inter-communicator; groups that overlap; all
    /// context ids are in use; the death of a task.
    pub fn accept(&self, port: &str, root: u32) -> Result<Self> {
        self.accept_or_tell(Ok(port), root)
    }

    /// Like [`accept`](Self::accept). If the root has no port, it passes the error, which all tasks then get.
    ///
    /// # Errors
    /// Those of [`accept`](Self::accept).
    pub fn accept_or_tell(&self, port: Result<&str>, root: u32) -> Result<Self> {
        self.join_groups("accept", root, |bridge| self.accept_as_root(port?, bridge))
    }

    /// Calls the port of a task of the same job, and waits until its owner calls [`accept`](Self::accept). Returns the inter-communicator
    /// with the group that has accepted (`MPI_Comm_connect`). Collective; the port matters at `root` only.
    ///
    /// # Errors
    /// [`ErrorClass::Port`]: the port is not open in this job, or was closed before the call was accepted. Those of
    /// [`accept`](Self::accept).
    pub fn connect(&self, port: &str, root: u32) -> Result<Self> {
        self.connect_or_tell(Ok(port), root)
    }

    /// Like [`connect`](Self::connect). If the root has no port, it passes the error, which all tasks then get.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    pub fn connect_or_tell(&self, port: Result<&str>, root: u32) -> Result<Self> {
        self.join_groups("connect", root, |bridge| self.connect_as_root(port?, bridge))
    }

    /// The root meets the other root. All tasks get the result.
    fn join_groups(
        &self,
        call: &'static str,
        root: u32,
        meet: impl FnOnce(&mut Option<Self>) -> Result<Vec<u64>>,
    ) -> Result<Self> {
        self.check_root(call, root)?;
        // The bridge lasts until the inter-communicator has begun. Without a communicator with the other root, this task would forget that
        // root if it has ended meanwhile, and with it the messages that it has sent to the inter-communicator.
        let mut bridge = None;
        let (_, list) = if self.rank() == root {
            self.tell(root, || (Vec::new(), meet(&mut bridge)))
        } else {
            self.told(root)
        };
        let made = self.end_inter(root, &list?);
        drop(bridge);
        made
    }

    fn own_port(&self, text: &str) -> Result<Port> {
        let port = parsed(text)?;
        let mut state = self.state()?;
        if state.context.task().0 != port.task {
            return Err(bad(
                text,
                &format!("task {} has opened it, and only that task can use it here", port.task),
            ));
        }
        if !state.handlers().ports.is_open(port.number, port.secret) {
            return Err(bad(text, "this task has closed it, or never opened it"));
        }
        Ok(port)
    }

    /// Takes the calls in their order, until one is of a task that does not end meanwhile.
    fn accept_as_root(&self, text: &str, bridge: &mut Option<Self>) -> Result<Vec<u64>> {
        let port = self.own_port(text)?;
        loop {
            let [_, caller] = self.note_of(call_key(port))?;
            let caller = task(caller);
            let met = self.answer(port, caller, bridge);
            if met.is_ok() || !self.state()?.context.has_ended(caller) {
                return met;
            }
            *bridge = None;
            let mut state = self.state()?;
            let State { context, context_ids, .. } = &mut *state;
            worlds::let_go(context, context_ids);
        }
    }

    fn answer(&self, port: Port, caller: TaskId, bridge: &mut Option<Self>) -> Result<Vec<u64>> {
        let numbers = {
            let mut state = self.state()?;
            worlds::hold(&mut state.context, [&self.group_of(caller), &Group::EMPTY]);
            let numbers = take_numbers(&mut state);
            state.send_note(caller, (ANSWERS, port.number), numbers)?;
            numbers
        };
        self.meet_caller(numbers, caller, bridge)
    }

    fn connect_as_root(&self, text: &str, bridge: &mut Option<Self>) -> Result<Vec<u64>> {
        let port = parsed(text)?;
        let owner = TaskId(port.task);
        if self.group().rank_of(owner).is_some() {
            return Err(bad(
                text,
                &format!("task {owner} has opened it, which is of the group that connects"),
            ));
        }
        {
            let mut state = self.state()?;
            if owner.0 >= state.context.tasks_end() {
                return Err(bad(
                    text,
                    &format!("this job has no task {owner}; a port connects tasks of one job"),
                ));
            }
            worlds::hold(&mut state.context, [&self.group_of(owner), &Group::EMPTY]);
            if state.context.has_ended(owner) {
                return Err(bad(text, &format!("task {owner}, which has opened it, has ended")));
            }
            state.send_note(owner, (CALLS, port.number), [port.secret, 0])?;
        }
        let numbers = self.note_of(Key { context_id: ANSWERS, tag: port.number, from: owner.0 })?;
        if numbers == REFUSED {
            return Err(bad(text, "it is not open in this job: it was closed, or is a port of another job"));
        }
        self.meet_caller(numbers, owner, bridge)
    }

    /// The next note with this key.
    fn note_of(&self, key: Key) -> Result<Words> {
        let (request, slot) = self.state()?.start_note(key);
        self.wait_over(request)?;
        let ended = self.state()?.handlers().requests.take(request);
        match slot.get() {
            Some(words) => Ok(*words),
            None => Err(ended.err().unwrap_or(Error::Cancelled)),
        }
    }

    /// The roots exchange the tasks of their groups over a new inter-communicator, the bridge.
    fn meet_caller(&self, numbers: Words, other: TaskId, bridge: &mut Option<Self>) -> Result<Vec<u64>> {
        let own = self.group_of(self.state()?.context.task());
        let groups = (own, Some(self.group_of(other)));
        let bridge = bridge.insert(self.begin(numbers, groups, InheritedState::default())?);
        self.meet(bridge, 0, LISTS, &numbers_of(&self.group()))
    }

    fn group_of(&self, task: TaskId) -> Group {
        let own = self.group().task_of(self.rank()).expect("this task is a member");
        Group::of_tasks(vec![task.0], own).of_session(self.group().session())
    }
}

fn call_key(port: Port) -> Key {
    Key { context_id: CALLS, tag: port.number, from: ANY_CALLER }
}

fn task(word: u64) -> TaskId {
    TaskId(u32::try_from(word).unwrap_or(u32::MAX))
}
