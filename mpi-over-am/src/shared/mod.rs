//! MPI for any number of threads (`MPI_THREAD_MULTIPLE`; MPI 5.0 section 11.6), and a thread that makes progress while the program
//! computes.
//!
//! An [`Environment`] belongs to one thread, and pays for no lock. A [`SharedEnvironment`] has one inside, and gives it to one
//! thread at a time. A thread that waits polls, and sleeps, for all; who wants in wakes it, and has its turn between two looks.
//! So a thread that waits never holds up the one that it waits for.
//!
//! ```
//! use mpi_over_am::{SharedEnvironment, op};
//!
//! # fn main() -> mpi_over_am::Result<()> {
//! let environment = SharedEnvironment::init()?;
//! let world = environment.world()?;
//! let (right, left) = ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
//! std::thread::scope(|threads| {
//!     for tag in 0..2 {
//!         let world = world.clone();
//!         threads.spawn(move || -> mpi_over_am::Result<()> {
//!             let sending = world.isend_owned(vec![tag; 1000], right, tag)?;
//!             let mut got = [0; 1000];
//!             world.recv(&mut got, left, tag)?;
//!             assert_eq!(got[999], tag);
//!             sending.wait().map(|_| ())
//!         });
//!     }
//! });
//! world.barrier()?;
//! environment.finalize()
//! # }
//! ```

mod array;
mod collectives;
mod communicator;
mod create;
mod inter;
mod partitioned;
mod persistent;
mod probe;
mod progress_thread;
mod requests;
mod scope;
mod send_buffer;
mod state_of;
mod topology;
mod window;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use am_core::Context;
use am_core::fabric::{Fabric, Waker};

use crate::buffer::{InTurns, Turn};
use crate::communicator::{Communicator, PendingCommunicator};
use crate::environment::{Environment, JobFabric, JobSettings};
use crate::error::{Error, ErrorClass, Result};
use crate::handlers::MpiHandlers;
use crate::request::RequestId;
use crate::settings::Settings;
use crate::state::is_over;
use crate::status::Status;
use crate::thread_level::ThreadLevel;
use crate::window::{NewWindow, Window};

pub use array::ThreadedArray;
pub use communicator::SharedCommunicator;
pub use create::SharedPending;
pub use partitioned::{ArrivedPart, OwnPart, SharedPartitionedReceive, SharedPartitionedSend};
pub use persistent::SharedPersistent;
pub use requests::SharedRequest;
pub use scope::{ScopedRequest, SharedScope};
pub use window::ThreadedWindow;

/// MPI between [`init`](Self::init) and [`finalize`](Self::finalize), for all threads of the task. Clones are the same one.
#[derive(Debug)]
pub struct SharedEnvironment<F: Fabric = JobFabric> {
    shared: Arc<Shared<F>>,
}

impl<F: Fabric> Clone for SharedEnvironment<F> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// What all handles share. The progress thread has the inner part only, and ends with the last handle.
#[derive(Debug)]
struct Shared<F: Fabric> {
    inner: Arc<Inner<F>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Inner<F: Fabric> {
    inside: InTurns<Inside<F>>,
    waker: Waker,
    progress: progress_thread::Control,
}

/// What threads take turns with.
#[derive(Debug)]
pub(crate) struct Inside<F: Fabric> {
    /// Until the end.
    environment: Option<Environment<F>>,
    /// By the numbers that their handles have.
    communicators: Vec<Option<Communicator<F>>>,
    /// Those that are being made.
    pending: Vec<Option<PendingCommunicator<F>>>,
    /// By the numbers that their handles have, of which none is given out twice.
    windows: BTreeMap<usize, Window<F>>,
    last_window: usize,
    /// Those that are being made.
    new_windows: Vec<Option<NewWindow<F>>>,
}

impl<F: Fabric> fmt::Debug for Inner<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl SharedEnvironment {
    /// As [`Environment::init`], for several threads (`MPI_Init_thread` with `MPI_THREAD_MULTIPLE`).
    ///
    /// # Errors
    /// As for [`Environment::init`].
    pub fn init() -> Result<Self> {
        Environment::init().and_then(Self::of)
    }
}

impl SharedEnvironment {
    /// As [`Environment::init_with`], for several threads.
    ///
    /// # Errors
    /// As there.
    pub fn init_with(change: impl FnOnce(&mut JobSettings)) -> Result<Self> {
        Environment::init_with(change).and_then(Self::of)
    }
}

impl<F: Fabric> SharedEnvironment<F> {
    /// As [`Environment::with_fabric`], for several threads.
    ///
    /// # Errors
    /// As for [`Environment::with_fabric`].
    pub fn with_fabric(fabric: F, settings: &Settings) -> Result<Self> {
        Environment::with_fabric(fabric, settings).and_then(Self::of)
    }

    /// Nobody else has a handle on anything of the environment: it has just been made. `Isolated` rests on that.
    fn of(environment: Environment<F>) -> Result<Self> {
        environment.take_turns(|rest| rest())?;
        let waker = environment.waker()?;
        let communicators = vec![Some(environment.world()), Some(environment.alone())];
        let inside = InTurns::new(Inside {
            environment: Some(environment),
            communicators,
            pending: Vec::new(),
            windows: BTreeMap::new(),
            last_window: 0,
            new_windows: Vec::new(),
        });
        let inner = Arc::new(Inner { inside, waker, progress: progress_thread::Control::default() });
        Ok(Self { shared: Arc::new(Shared { inner, thread: Mutex::new(None) }) })
    }

    /// Which threads may call: all (`MPI_Query_thread`).
    #[must_use]
    pub fn thread_level(&self) -> ThreadLevel {
        ThreadLevel::Multiple
    }

    /// The communicator of all tasks (`MPI_COMM_WORLD`).
    ///
    /// # Errors
    /// A call inside another one.
    pub fn world(&self) -> Result<SharedCommunicator<F>> {
        SharedCommunicator::new(&self.shared, WORLD)
    }

    /// The communicator of this task alone (`MPI_COMM_SELF`).
    ///
    /// # Errors
    /// A call inside another one.
    pub fn alone(&self) -> Result<SharedCommunicator<F>> {
        SharedCommunicator::new(&self.shared, ALONE)
    }

    /// As [`Environment::finalize`]: one thread calls it, when the others have ended what they do. Calls that come later are
    /// refused.
    ///
    /// # Errors
    /// As for [`Environment::finalize`]; MPI has ended already; what the progress thread has met.
    pub fn finalize(&self) -> Result<()> {
        self.shared.stop_progress_thread();
        let inner = &self.shared.inner;
        let ended = inner.enter()?.value().environment.take().ok_or(Error::Finalized)?.finalize();
        inner.progress.take_error().map_or(ended, Err)
    }
}

/// The numbers of the communicators that are always there.
const WORLD: usize = 0;
const ALONE: usize = 1;

impl<F: Fabric> Shared<F> {
    fn stop_progress_thread(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.inner.progress.stop(&self.inner.waker, thread);
        }
    }
}

impl<F: Fabric> Drop for Shared<F> {
    fn drop(&mut self) {
        self.stop_progress_thread();
    }
}

impl<F: Fabric> Inner<F> {
    /// The calling thread's turn.
    ///
    /// # Errors
    /// [`Error::Nested`]: it has one already. An operator of the program has made a call.
    fn enter(&self) -> Result<Turn<'_, Inside<F>>> {
        self.inside.enter(|| (self.waker)()).ok_or(Error::Nested)
    }

    /// Runs a call that waits for nobody. What leaves the turn may go to any thread: nothing that shares with what stays there what
    /// may not be shared among threads.
    fn with<R: Send>(&self, number: usize, call: impl FnOnce(&Communicator<F>) -> Result<R>) -> Result<R> {
        let mut turn = self.enter()?;
        call(turn.value().communicator(number)?)
    }

    /// Carries an operation out, whose memory is lent for the time of this call.
    fn carry_out(
        &self,
        number: usize,
        start: impl FnOnce(&Communicator<F>) -> Result<RequestId>,
    ) -> Result<Status> {
        self.carry_out_beside(number, start, || Ok(()))
    }

    /// As [`carry_out`](Self::carry_out), with another operation carried out while this one is under way.
    fn carry_out_beside(
        &self,
        number: usize,
        start: impl FnOnce(&Communicator<F>) -> Result<RequestId>,
        meanwhile: impl FnOnce() -> Result<()>,
    ) -> Result<Status> {
        let request = self.with(number, start)?;
        let mut call = Call { inner: self, number, request: Some(request) };
        meanwhile()?;
        let status = self.wait_over(number, request);
        if !matches!(status, Err(Waiting::Progress(_))) {
            call.request = None;
        }
        status.map_err(Waiting::into_error)
    }

    /// Waits until the operation is over, and takes its status.
    fn wait_over(&self, number: usize, request: RequestId) -> std::result::Result<Status, Waiting> {
        self.wait_until(
            number,
            |context| is_over(context, request),
            |communicator| communicator.state()?.handlers().requests.take(request),
        )
    }

    /// Makes progress, in turns, until something is there; then takes it, in the same turn.
    fn wait_until<R: Send>(
        &self,
        number: usize,
        mut is_there: impl FnMut(&mut Context<F, MpiHandlers>) -> bool,
        take: impl FnOnce(&Communicator<F>) -> Result<R>,
    ) -> std::result::Result<R, Waiting> {
        loop {
            if let Some(error) = self.progress.take_error() {
                return Err(Waiting::Progress(error));
            }
            let mut turn = self.enter().map_err(Waiting::Progress)?;
            let communicator = turn.value().communicator(number).map_err(Waiting::Progress)?;
            let mut found = false;
            let look = |context: &mut Context<F, MpiHandlers>| {
                found = is_there(context);
                found || self.inside.is_wanted()
            };
            communicator.state().and_then(|mut state| state.wait_for(look)).map_err(Waiting::Progress)?;
            if found {
                return take(communicator).map_err(Waiting::Operation);
            }
            drop(turn);
            self.inside.give_way();
        }
    }
}

/// What went wrong while a thread waited.
enum Waiting {
    /// The operation itself; it is over.
    Operation(Error),
    /// Something else; the operation is still under way.
    Progress(Error),
}

impl Waiting {
    fn into_error(self) -> Error {
        match self {
            Self::Operation(error) | Self::Progress(error) => error,
        }
    }
}

/// An operation whose memory is lent for the time of a call.
struct Call<'a, F: Fabric> {
    inner: &'a Inner<F>,
    number: usize,
    request: Option<RequestId>,
}

impl<F: Fabric> Drop for Call<'_, F> {
    /// After a failure: nothing may use the memory when the call returns.
    fn drop(&mut self) {
        let Some(request) = self.request else { return };
        // If this fails the program ends, as it must: memory that is lent no longer would stay in use.
        let mut turn = self.inner.enter().expect("no thread waits during its own turn");
        let communicator = turn.value().communicator(self.number);
        let communicator = communicator.expect("its handle is still there");
        communicator.end_request(request);
    }
}

impl<F: Fabric> Inside<F> {
    fn communicator(&self, number: usize) -> Result<&Communicator<F>> {
        self.communicators.get(number).and_then(Option::as_ref).ok_or_else(|| {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            Error::refused(
                ErrorClass::Communicator,
                "a call",
                "the communicator is not there any more",
                number,
            )
        })
    }

    fn keep(&mut self, made: Communicator<F>) -> usize {
        insert(&mut self.communicators, made)
    }

    fn keep_pending(&mut self, pending: PendingCommunicator<F>) -> usize {
        insert(&mut self.pending, pending)
    }

    fn window(&self, number: usize) -> Result<&Window<F>> {
        self.windows.get(&number).ok_or_else(|| no_window(number))
    }

    fn take_window(&mut self, number: usize) -> Result<Window<F>> {
        self.windows.remove(&number).ok_or_else(|| no_window(number))
    }

    fn keep_window(&mut self, made: Window<F>) -> usize {
        self.last_window += 1;
        self.windows.insert(self.last_window, made);
        self.last_window
    }

    fn keep_new_window(&mut self, new: NewWindow<F>) -> usize {
        insert(&mut self.new_windows, new)
    }

    fn take_new_window(&mut self, place: usize) -> NewWindow<F> {
        self.new_windows[place].take().expect("only the call that has put it there takes it")
    }

    fn take_pending(&mut self, place: usize) -> PendingCommunicator<F> {
        self.pending[place].take().expect("only the call that has put it there takes it")
    }
}

fn no_window(number: usize) -> Error {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    Error::refused(ErrorClass::Window, "a call", "the window is not there any more", number)
}

/// Puts a value into the first place that is free.
fn insert<T>(places: &mut Vec<Option<T>>, value: T) -> usize {
    let place = places.iter().position(Option::is_none).unwrap_or(places.len());
    if place == places.len() {
        places.push(None);
    }
    places[place] = Some(value);
    place
}
