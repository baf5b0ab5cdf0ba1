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
use crate::policy::LockPolicy;

/// How the root's list begins: its list, or the class of an error and its text.
const CONNECTED: u64 = 0;
const BAD_PORT: u64 = 1;
const FAILED: u64 = 2;

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
        self.join_groups("accept", root, || self.accept_as_root(port))
    }

    /// Calls the port of a task of the same job, and waits until its owner calls [`accept`](Self::accept). Returns the inter-communicator
    /// with the group that has accepted (`MPI_Comm_connect`). Collective; the port matters at `root` only.
    ///
    /// # Errors
    /// [`ErrorClass::Port`]: the port is not open in this job, or was closed before the call was accepted. Those of
    /// [`accept`](Self::accept).
    pub fn connect(&self, port: &str, root: u32) -> Result<Self> {
        self.join_groups("connect", root, || self.connect_as_root(port))
    }

    /// The root meets the other root. All tasks get the result.
    fn join_groups(
        &self,
        call: &'static str,
        root: u32,
        meet: impl FnOnce() -> Result<Vec<u64>>,
    ) -> Result<Self> {
        if self.is_inter() {
            let what = "groups are connected by an intra-communicator; the value is the size of the inter-communicator";
            return Err(Error::refused(ErrorClass::Communicator, call, what, i64::from(self.size())));
        }
        if root >= self.size() {
            return Err(Error::UnknownRoot { root, size: self.size() });
        }
        drop(self.state_for_all()?);
        if self.rank() == root {
            let met = meet();
            let told = match &met {
                Ok(list) => [&[CONNECTED][..], list].concat(),
                Err(error) => {
                    let class = if error.class() == ErrorClass::Port { BAD_PORT } else { FAILED };
                    std::iter::once(class).chain(error.to_string().bytes().map(u64::from)).collect()
                }
            };
            let sent = self.broadcast_list(root, &told);
            let list = met.and_then(|list| sent.map(|_| list))?;
            return self.end_inter(root, &list);
        }
        let told = self.broadcast_list(root, &[])?;
        match told.as_slice() {
            [CONNECTED, list @ ..] => self.end_inter(root, list),
            [class, text @ ..] => {
                let class = if *class == BAD_PORT { ErrorClass::Port } else { ErrorClass::Other };
                let text: Vec<u8> = text.iter().map(|&byte| u8::try_from(byte).unwrap_or(b'?')).collect();
                Err(Error::Processes { class, what: String::from_utf8_lossy(&text).into_owned() })
            }
            [] => Err(Error::Protocol { peer: root, what: "an answer that is too short" }),
        }
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

    fn accept_as_root(&self, text: &str) -> Result<Vec<u64>> {
        let port = self.own_port(text)?;
        let [_, caller] = self.note_of(call_key(port))?;
        let caller = task(caller);
        let numbers = {
            let mut state = self.state()?;
            worlds::hold(&mut state.context, [&self.group_of(caller), &Group::EMPTY]);
            let numbers = take_numbers(&mut state);
            state.send_note(caller, (ANSWERS, port.number), numbers)?;
            numbers
        };
        self.meet_caller(numbers, caller)
    }

    fn connect_as_root(&self, text: &str) -> Result<Vec<u64>> {
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
        self.meet_caller(numbers, owner)
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

    /// The roots exchange the tasks of their groups.
    fn meet_caller(&self, numbers: Words, other: TaskId) -> Result<Vec<u64>> {
        let own = self.group_of(self.state()?.context.task());
        let bridge = self.begin(numbers, (own, Some(self.group_of(other))), InheritedState::default())?;
        self.meet(&bridge, 0, LISTS, &numbers_of(&self.group()))
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
