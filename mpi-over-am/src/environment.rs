//! The beginning and the end of an MPI program.

pub(crate) mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use am_core::fabric::Fabric;
use am_core::task::TaskId;

use crate::communicator::error_handler::ErrorHandler;
use crate::communicator::info::Info;
use crate::communicator::{Communicator, failures};
use crate::environment::session::Session;
use crate::error::Result;
use crate::job::{JobFabric, Joined, Variables};
use crate::message::attached_buffers::{BufferOwner, SendBuffer};
use crate::message::consensus::Contribution;
use crate::message::counts::{self, Counts};
use crate::message::notes::{Key, MEETING};
use crate::message::progress::end;
use crate::message::progress_thread::{ProgressThread, RunningThread, serve};
use crate::message::request_id::RequestId;
use crate::message::request_table::{Parts, Phase};
use crate::message::state::State;
use crate::message::turn::Turn;
use crate::policy::{ByCall, LockPolicy, OneThread, StateCell, Threads};
use crate::request::blocking::{detach, flush};
use crate::settings::Settings;
use crate::thread_level::ThreadLevel;

/// Number of contexts of a task. In a program that also uses OpenSHMEM, the last one is OpenSHMEM's.
const CONTEXTS: u8 = 16;
/// Number of times that this process has opened MPI. Each time uses the next context, since peers keep state about a used one.
static OPENED: AtomicU8 = AtomicU8::new(0);

/// MPI between [`init`](Self::init) and [`finalize`](Self::finalize). `L` determines which threads of the task may call it.
#[derive(Debug)]
pub struct Environment<F: Fabric = JobFabric, L: LockPolicy = OneThread> {
    /// The first field, so that the compiler's first error about use by a second thread names the lock policy.
    _mark: L::Mark,
    shared: Arc<L::Cell<State<F>>>,
    progress: ProgressThread,
    is_talkative: bool,
    world: Communicator<F, L>,
    alone: Communicator<F, L>,
    parent: Option<Communicator<F, L>>,
}

impl Environment {
    /// Joins the job that this process was started in (`MPI_Init`); without a launcher, starts a job of one task.
    ///
    /// A task can open MPI up to 16 times, and communicates with the tasks that have opened MPI the same number of times. Without a
    /// launcher there is no limit, since each time starts a new job.
    ///
    /// # Errors
    /// The job's memory cannot be opened; a setting is invalid; MPI has been opened 16 times.
    pub fn init() -> Result<Self> {
        Self::init_with(|_| ())
    }

    /// [`init`](Self::init) with changed settings. All settings must be the same in all tasks, except the limits of posted receives and
    /// long sends, `progress_thread` and `debug`.
    ///
    /// # Errors
    /// Those of [`init`](Self::init).
    pub fn init_with(change: impl FnOnce(&mut Settings)) -> Result<Self> {
        Self::init_for(change)
    }

    /// How the program was started (`MPI_INFO_ENV`).
    #[must_use]
    pub fn start_info() -> Info {
        let arguments: Vec<String> =
            std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
        Info::of_start(&arguments, |name| std::env::var(name).ok())
    }

    /// The environment variables with settings in the job that [`init`](Self::init) joins. May also be called before `init`.
    ///
    /// # Errors
    /// Those of [`init`](Self::init).
    pub fn variables() -> Result<Variables> {
        crate::job::variables()
    }
}

impl Environment<JobFabric, Threads> {
    /// Like [`init`](Environment::init), for any number of threads (`MPI_Init_thread` with `MPI_THREAD_MULTIPLE`).
    ///
    /// ```
    /// use mpi_over_am::Environment;
    ///
    /// # fn main() -> mpi_over_am::Result<()> {
    /// let environment = Environment::init_threads()?;
    /// let world = environment.world();
    /// let (right, left) = ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
    /// std::thread::scope(|threads| {
    ///     for tag in 0..2 {
    ///         let world = &world;
    ///         threads.spawn(move || -> mpi_over_am::Result<()> {
    ///             let sending = world.isend_owned(vec![tag; 1000], right, tag)?;
    ///             let mut got = [0; 1000];
    ///             world.recv(&mut got, left, tag)?;
    ///             assert_eq!(got[999], tag);
    ///             sending.wait()?;
    ///             Ok(())
    ///         });
    ///     }
    /// });
    /// world.barrier()?;
    /// environment.finalize()
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`init`](Environment::init).
    pub fn init_threads() -> Result<Self> {
        Self::init_for(|_| ())
    }
}

impl<L: LockPolicy> Environment<JobFabric, L> {
    /// [`init_with`](Environment::init_with) for the threads that `L` allows.
    ///
    /// # Errors
    /// Those of [`init`](Environment::init).
    pub fn init_for(change: impl FnOnce(&mut Settings)) -> Result<Self> {
        let joined = Joined::join()?;
        let mut settings = joined.settings()?;
        change(&mut settings);
        let settings = settings.checked_when_debugging();
        if settings.debug {
            joined.trace_to_stderr();
        }
        ByCall::look_at_recorder();
        // Relaxed: the number only has to be unique; it publishes no other memory.
        let context = OPENED.fetch_add(1, Ordering::Relaxed) % CONTEXTS;
        let mut environment = Self::on_fabric(joined.fabric(context)?, &settings)?;
        environment.parent =
            joined.parent().and_then(|parent| Communicator::parent(&environment.world, &parent));
        let goes_on = joined.goes_on();
        environment.set_go_on(goes_on)?;
        environment.state()?.job_goes_on = goes_on;
        Ok(environment)
    }
}

impl<F: Fabric> Environment<F> {
    /// MPI for one thread over a fabric that the caller has opened: for tests, and for programs that use am-core as well.
    ///
    /// # Errors
    /// Too many tasks for the completion variant in the settings.
    pub fn with_fabric(fabric: F, settings: &Settings) -> Result<Self> {
        Self::on_fabric(fabric, settings)
    }
}

impl<F: Fabric + Send + 'static> Environment<F, Threads> {
    /// Starts or stops a thread that makes progress while no other thread waits: messages are then handled while the program computes, at
    /// the cost of waking that thread. Off by default. A later call reports the thread's errors.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn set_progress_thread(&self, on: bool) -> Result<()> {
        if !on {
            self.progress.stop();
            return Ok(());
        }
        let (waker, shared) = (self.state()?.context.waker(), Arc::clone(&self.shared));
        self.progress.start(waker, move |is_on| serve::<F, Threads>(&shared, is_on))
    }

    /// Whether a thread makes progress.
    #[must_use]
    pub fn has_progress_thread(&self) -> bool {
        self.progress.is_on()
    }
}

impl<F: Fabric> Environment<F, ByCall> {
    /// Starts a thread that makes progress while no other thread is in a call. `run` begins a call in that thread, and then calls
    /// [`make_progress`](Self::make_progress). The layer above must have [set locking](ByCall::set_locking).
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start_progress_thread(&self, run: impl FnOnce(&AtomicBool) + Send + 'static) -> Result<()> {
        self.progress.start(self.state()?.context.waker(), run)
    }

    /// Makes progress until `is_on` is false, and gives its turn up for other threads' calls.
    pub fn make_progress(&self, is_on: &AtomicBool) {
        serve::<F, ByCall>(&self.shared, is_on);
    }

    /// Takes out the progress thread, if it runs. The caller must stop it outside all calls.
    #[must_use]
    pub fn take_progress_thread(&self) -> Option<RunningThread> {
        self.progress.take()
    }
}

impl<F: Fabric, L: LockPolicy> Environment<F, L> {
    /// MPI over a fabric that the caller has opened, for the threads that `L` allows.
    ///
    /// # Errors
    /// Too many tasks for the completion variant in the settings.
    pub fn on_fabric(fabric: F, settings: &Settings) -> Result<Self> {
        let mut state = State::new(fabric, settings)?;
        state.handlers().set_threads(L::takes_turns());
        if settings.debug {
            let (task, tasks) = (state.context.task(), state.context.num_tasks());
            crate::job::complain!(
                "{task} of {tasks}: MPI starts with {settings:?}; eager up to {}",
                state.eager_limits.bytes
            );
        }
        let waker = state.context.waker();
        let shared = Arc::new(L::Cell::new(state, waker));
        let (world, alone) = (Communicator::world(&shared), Communicator::alone(&shared));
        Ok(Self {
            shared,
            progress: ProgressThread::default(),
            is_talkative: settings.debug,
            world,
            alone,
            parent: None,
            _mark: L::Mark::default(),
        })
    }

    /// Counts of this task's activity so far, and the lengths of its queues.
    ///
    /// # Errors
    /// A call inside another call; the deferred error of an earlier call.
    pub fn counts(&self) -> Result<Counts> {
        Ok(counts::counts(&mut self.state()?.context))
    }

    /// Updates the environment after a change of the watched events ([`events::watch`](crate::events::watch)): matches of messages are
    /// recorded from now on if they are watched.
    ///
    /// # Errors
    /// [`Error::Nested`](crate::Error::Nested): the calling thread is in another call.
    pub fn look_at_watched(&self) -> Result<()> {
        Turn::<F, L>::enter(&*self.shared)?.handlers().completions.look_at_watched();
        Ok(())
    }

    /// The communicator of all tasks (`MPI_COMM_WORLD`).
    #[must_use]
    pub fn world(&self) -> Communicator<F, L> {
        self.world.clone()
    }

    /// The communicator of this task alone (`MPI_COMM_SELF`). Its attributes are deleted before MPI ends, the most recently set one first.
    #[must_use]
    pub fn alone(&self) -> Communicator<F, L> {
        self.alone.clone()
    }

    /// The inter-communicator with the tasks that have started this task's world (`MPI_Comm_get_parent`); `None` for a task that the job
    /// began with, and after [`disconnect_parent`](Self::disconnect_parent).
    #[must_use]
    pub fn parent(&self) -> Option<Communicator<F, L>> {
        self.parent.clone()
    }

    /// Opens a port of this task, by which other tasks of the job can [`connect`](Communicator::connect) to it (`MPI_Open_port`). The text
    /// contains a secret: only tasks that were given the text, for example by [`publish`](Self::publish), can connect.
    ///
    /// # Errors
    /// A call inside another call; MPI has ended.
    pub fn open_port(&self) -> Result<String> {
        self.world.open_port()
    }

    /// Closes a port of this task (`MPI_Close_port`). Calls that wait to be accepted are refused.
    ///
    /// # Errors
    /// [`ErrorClass::Port`](crate::ErrorClass::Port): this task has no such port.
    pub fn close_port(&self, port: &str) -> Result<()> {
        self.world.close_port(port)
    }

    /// Publishes a text, such as a port, under a name, until this task ends or [withdraws](Self::unpublish) it (`MPI_Publish_name`).
    ///
    /// # Errors
    /// [`ErrorClass::Service`](crate::ErrorClass::Service): the name is published already.
    /// [`ErrorClass::UnsupportedOperation`](crate::ErrorClass::UnsupportedOperation): the job runs on several hosts, or its launcher keeps
    /// no names.
    pub fn publish(&self, name: &str, text: &str) -> Result<()> {
        crate::job::publish(name, text)
    }

    /// Withdraws a name that this task has published (`MPI_Unpublish_name`).
    ///
    /// # Errors
    /// [`ErrorClass::Service`](crate::ErrorClass::Service): this task has not published the name. Those of [`publish`](Self::publish).
    pub fn unpublish(&self, name: &str) -> Result<()> {
        crate::job::unpublish(name)
    }

    /// The text that is published under a name (`MPI_Lookup_name`).
    ///
    /// # Errors
    /// [`ErrorClass::Name`](crate::ErrorClass::Name): no living task of the job has published the name.
    /// [`ErrorClass::UnsupportedOperation`](crate::ErrorClass::UnsupportedOperation): see [`publish`](Self::publish).
    pub fn look_up(&self, name: &str) -> Result<String> {
        crate::job::look_up(name)
    }

    /// Gives up the inter-communicator with the tasks that have started this task's world.
    pub fn disconnect_parent(&mut self) {
        self.parent = None;
    }

    /// Sets whether this task goes on when another task has failed: if so, only calls that need that task fail. By default each blocking
    /// call reports the failure, unless the launcher was told to let the job go on (`amrun --keep-going`). Whether the launcher lets the
    /// other tasks go on is a separate choice of the job (am-via's `Job::set_continue_on_failure`).
    ///
    /// # Errors
    /// A call inside another call; the deferred error of an earlier call.
    pub fn set_go_on(&self, go_on: bool) -> Result<()> {
        let mut state = self.state()?;
        state.goes_on = go_on;
        state.context.set_go_on(go_on);
        Ok(())
    }

    /// The threads that may make calls (`MPI_Query_thread`): the one that made the environment, or any.
    #[must_use]
    pub fn thread_level(&self) -> ThreadLevel {
        if L::takes_turns() { ThreadLevel::Multiple } else { ThreadLevel::Funneled }
    }

    /// A session on this environment (`MPI_Session_init`).
    #[must_use]
    pub fn session(&self, info: &Info, error_handler: ErrorHandler) -> Session<F, L> {
        Session::new(self.world.clone(), info, error_handler)
    }

    /// Gives the library memory for buffered sends (`MPI_Buffer_attach`). Each message takes contiguous memory: its length, and at most
    /// [`BSEND_OVERHEAD_BYTES`](crate::BSEND_OVERHEAD_BYTES) more.
    ///
    /// # Errors
    /// [`Error::BufferAttached`](crate::Error::BufferAttached): a buffer is already attached.
    pub fn attach_buffer(&self, memory: Vec<u8>) -> Result<()> {
        self.attach_buffer_for(BufferOwner::Process, memory.into())
    }

    /// Waits until all messages in the buffer of [`attach_buffer`](Self::attach_buffer) have been sent (`MPI_Buffer_flush`).
    ///
    /// # Errors
    /// The first error of the messages; an error while making progress.
    pub fn flush_buffer(&self) -> Result<()> {
        self.flush_buffer_for(BufferOwner::Process)
    }

    /// Waits until all messages in the buffer of [`attach_buffer`](Self::attach_buffer) have been sent, and detaches and returns the buffer
    /// (`MPI_Buffer_detach`). `None` if no buffer was attached, or if the detached buffer is not a vector
    /// ([`attach_buffer_for`](Self::attach_buffer_for)).
    ///
    /// # Errors
    /// Those of [`flush_buffer`](Self::flush_buffer); the buffer then stays attached.
    pub fn detach_buffer(&self) -> Result<Option<Vec<u8>>> {
        Ok(match self.detach_buffer_for(BufferOwner::Process)? {
            Some(SendBuffer::Owned(memory)) => Some(memory),
            Some(SendBuffer::Lent(_) | SendBuffer::Automatic) | None => None,
        })
    }

    /// [`attach_buffer`](Self::attach_buffer) for another owner, and with any kind of memory.
    ///
    /// # Errors
    /// [`Error::BufferAttached`](crate::Error::BufferAttached): a buffer is already attached.
    pub fn attach_buffer_for(&self, owner: BufferOwner, memory: SendBuffer) -> Result<()> {
        self.state()?.handlers().attached.attach(owner, memory)
    }

    /// Like [`flush_buffer`](Self::flush_buffer), for the buffer of another owner.
    ///
    /// # Errors
    /// Those of [`flush_buffer`](Self::flush_buffer).
    pub fn flush_buffer_for(&self, owner: BufferOwner) -> Result<()> {
        flush(&mut self.state()?, owner)
    }

    /// Starts an operation that completes when all messages now in a buffer have been sent (`MPI_Buffer_iflush` and the like).
    ///
    /// # Errors
    /// A call inside another call; the deferred error of an earlier call.
    pub fn iflush_buffer_for(&self, owner: BufferOwner) -> Result<RequestId> {
        let mut state = self.state()?;
        let flush = Parts::Flush { owner, until: state.handlers().attached.last() };
        let requests = &mut state.handlers().requests;
        let request = requests.insert(false);
        requests.in_parts(request);
        requests.put_parts(request, Box::new(flush));
        Ok(request)
    }

    /// Like [`detach_buffer`](Self::detach_buffer), for another owner, and with any kind of memory.
    ///
    /// # Errors
    /// Those of [`flush_buffer`](Self::flush_buffer); the buffer then stays attached.
    pub fn detach_buffer_for(&self, owner: BufferOwner) -> Result<Option<SendBuffer>> {
        detach(&mut self.state()?, owner)
    }

    /// Ends MPI in this task (`MPI_Finalize`). Collective: waits until every task has called `finalize`, and all messages of this task have
    /// been sent. Remaining communicators then refuse every call.
    ///
    /// # Errors
    /// The deferred error of an earlier call, such as a ready-mode message without its receive; an error while making progress. MPI has
    /// ended nevertheless.
    pub fn finalize(self) -> Result<()> {
        self.progress.stop();
        let deleted = self.alone.properties().delete_attributes();
        let (mut state, earlier) = self.state_to_end()?;
        state.finalized = true;
        state.handlers().attention = true;
        let ended = finish(&mut state);
        if self.is_talkative {
            crate::job::complain!(
                "{}: MPI has ended; {:?}",
                state.context.task(),
                state.context.statistics()
            );
        }
        let left = state.first_deferred();
        earlier.and(ended).and(left).and(deleted)
    }

    /// The part of [`finalize`](Self::finalize) for the communicator of all tasks, for a program that has sessions when it calls
    /// `MPI_Finalize`: MPI itself continues.
    ///
    /// # Errors
    /// Those of [`finalize`](Self::finalize).
    pub fn leave_world(&self) -> Result<()> {
        let deleted = self.alone.properties().delete_attributes();
        let (mut state, earlier) = self.state_to_end()?;
        let flushed = flush(&mut state, BufferOwner::Process);
        meet(&mut state)?;
        let left = state.first_deferred();
        earlier.and(flushed).and(left).and(deleted)
    }

    /// Ends MPI in this task. Does not wait for the other tasks to end MPI, because they may still have sessions.
    ///
    /// # Errors
    /// The deferred error of an earlier call; an error while making progress.
    pub fn leave(self) -> Result<()> {
        self.progress.stop();
        let (mut state, earlier) = self.state_to_end()?;
        state.finalized = true;
        state.handlers().attention = true;
        let ended = state.context.fence_data(None);
        earlier.and(ended.map_err(Into::into))
    }

    /// The state, and the error that [`state`](Self::state) would return instead: an end of MPI does its work nevertheless.
    fn state_to_end(&self) -> Result<(Turn<'_, F, L>, Result<()>)> {
        let mut state = Turn::enter(&*self.shared)?;
        let earlier = state.attend();
        Ok((state, earlier))
    }

    pub(crate) fn state(&self) -> Result<Turn<'_, F, L>> {
        let mut state = Turn::enter(&*self.shared)?;
        state.attend()?;
        Ok(state)
    }
}

/// Completes what this task sends, waits for the other tasks, then ends what is left: no task leaves while another may need it.
///
/// Receives stay posted until all tasks are here, and so have sent everything: the program may have freed their requests
/// (`MPI_Request_free`, MPI 5.0 section 3.7.3), and other tasks wait until their messages are received.
fn finish<F: Fabric, L: LockPolicy>(state: &mut Turn<'_, F, L>) -> Result<()> {
    let owners = state.handlers().attached.owners();
    let flushed = owners.into_iter().try_for_each(|owner| flush(state, owner));
    state.finish_schedules()?;
    for request in state.handlers().requests.unfinished() {
        let requests = &mut state.handlers().requests;
        let is_left = matches!(requests.phase(request), Phase::Parts | Phase::ByProgram);
        if !is_left && !requests.is_receive(request) {
            state.wait_over(request)?;
        }
    }
    meet(state)?;
    for request in state.handlers().requests.unfinished() {
        end(state, request);
    }
    let State { context, boards, .. } = &mut **state;
    boards.free(context);
    flushed
}

/// [`meet`] in a job that goes on after failures, for the tasks that have not failed.
fn meet_survivors<F: Fabric, L: LockPolicy>(state: &mut Turn<'_, F, L>) -> Result<()> {
    for _ in 0..2 {
        let members = state.context.tasks().map(|task| task.0).collect();
        let nothing = Contribution { flags: 0, numbers: [0; 2], failed: Vec::new() };
        let (request, _) = failures::start(state, (MEETING, members), nothing, (None, false))?;
        state.wait_over(request)?;
        state.handlers().requests.take(request)?;
        // Messages to failed tasks are lost.
        let _ = state.context.fence_data(None);
    }
    Ok(())
}

/// Waits until all tasks are in this function, and the messages of this task are stored at their receivers. Other threads have their turns
/// until all tasks are here; the final fence does not depend on other threads.
fn meet<F: Fabric, L: LockPolicy>(state: &mut Turn<'_, F, L>) -> Result<()> {
    if state.job_goes_on {
        return meet_survivors(state);
    }
    let (first, tasks) = (state.context.first_task().0, state.context.num_tasks());
    let own = state.context.task().0 - first;
    let distances = (0..).map(|round| (round, 1u32 << round)).take_while(|&(_, distance)| distance < tasks);
    for (round, distance) in distances {
        let (to, from) = (first + (own + distance) % tasks, first + (own + tasks - distance) % tasks);
        state.send_note(TaskId(to), (MEETING, round), [0; 2])?;
        let key = Key { context_id: MEETING, tag: round, from };
        state.wait_for(&mut |context| context.handlers_mut().notes.take(key).is_some())?;
    }
    state.context.fence_data(None)?;
    Ok(state.context.gfence()?)
}
