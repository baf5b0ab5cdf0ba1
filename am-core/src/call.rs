//! Typed active messages: functions that run at another task and return their result (UPC++'s `rpc`, Lamellar's `AmData`), over
//! [`amsend`](Context::amsend).
//!
//! Arguments and results may have any types that serde can serialize and deserialize; postcard encodes them. Every task must register the
//! same functions in the same order, like handlers. A function cannot communicate: a communicating call inside it is refused.
//!
//! ```
//! use std::collections::HashMap;
//!
//! use am_core::call::Local;
//! use am_core::pgas::{Session, join_all};
//! use am_core_conform::threads;
//! use am_double::{Config, network};
//!
//! let (_, endpoints) = network(Config::new(3));
//! threads::run(endpoints, |context| {
//!     // A part of a map in each task. The length of a key, modulo the number of tasks, is the task that stores the key.
//!     let part = Local::new(HashMap::<String, u64>::new());
//!     let count = context
//!         .function_on(&part, |part, (word, by): (String, u64)| {
//!             let count = part.entry(word).or_default();
//!             *count += by;
//!             *count
//!         })
//!         .expect("not inside a handler");
//!     context.gfence().expect("all have registered");
//!
//!     let home = |word: &str| am_core::task::TaskId(word.len() as u32 % 3);
//!     let session = Session::new(context);
//!     let calls = ["one", "three", "four"].map(|word| session.call(home(word), count, (word.to_owned(), 1)));
//!     let counts = session.block_on(join_all(calls)).expect("all tasks live");
//!     assert!(counts.into_iter().all(|count| (1..=3).contains(&count.expect("it can be read"))));
//!     drop(session);
//!     context.gfence().expect("all have called");
//!     assert!(part.with(|part| part.values().all(|&count| count == 3)));
//! });
//! ```

mod local;

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::buffer::{Arrived, JobBuffer};
use crate::context::Context;
use crate::error::{Error, Refusal, Result};
use crate::fabric::Fabric;
use crate::handler::{Answer, Completion, Delivered, HandlerId, HandlerTable, Message, Reply};
use crate::task::{Endpoint, Target};
use crate::verbs::{AmOptions, Amsend, OwnedHandle};
use crate::wait::Errors;

use crate::handler::results::{Number, Results, Status};

pub use local::Local;

/// Maximum bytes encoded on the stack; longer encodings are allocated.
const SHORT_BYTES_MAX: usize = 64;

/// A registered function from `A` to `R`. Tasks that register the same functions in the same order have the same names for them.
pub struct Function<A, R> {
    handler: HandlerId,
    types: PhantomData<fn(A) -> R>,
}

impl<A, R> Clone for Function<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, R> Copy for Function<A, R> {}

impl<A, R> fmt::Debug for Function<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Function").field(&self.handler.0).finish()
    }
}

/// A call that has not returned its result yet ([`Context::begin_call`]). If the call is dropped, so is its result.
#[must_use = "Context::call_result returns the result"]
pub struct Call<R> {
    pub(crate) begun: BegunCall,
    result: PhantomData<fn() -> R>,
}

impl<R> fmt::Debug for Call<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("target", &self.begun.target).finish_non_exhaustive()
    }
}

/// A call without its types.
pub(crate) struct BegunCall {
    results: Arc<Mutex<Results>>,
    number: Number,
    target: Endpoint,
    /// Number of purges between this task and the target when the call began.
    purges: u32,
    /// The message with the arguments, until its memory may be freed.
    sending: Option<OwnedHandle>,
}

impl Drop for BegunCall {
    fn drop(&mut self) {
        lock(&self.results).forget(self.number);
    }
}

impl<F: Fabric> Context<F, HandlerTable> {
    /// Registers the next function that other tasks may call. The function runs in the polling thread. If its arguments do not fit into one
    /// packet, a call (but not a [`cast`](Self::cast)) runs it on the handler thread. It never runs in two threads at the same time.
    ///
    /// If a function panics, the task that called it gets an error. After a [`cast`](Self::cast) no caller waits for an answer, so this
    /// task gets the error, as it does when a handler panics.
    ///
    /// # Errors
    /// Called inside a handler; too many handlers.
    pub fn function<A, R>(&mut self, function: impl FnMut(A) -> R + Send + 'static) -> Result<Function<A, R>>
    where
        A: DeserializeOwned,
        R: Serialize,
    {
        self.function_on(&Local::new(function), |function, args| function(args))
    }

    /// Like [`function`](Self::function), for a function with state of this task, which the program accesses by [`Local::with`].
    ///
    /// # Errors
    /// Those of [`function`](Self::function).
    pub fn function_on<S, A, R>(
        &mut self,
        state: &Local<S>,
        function: impl Fn(&mut S, A) -> R + Send + Sync + 'static,
    ) -> Result<Function<A, R>>
    where
        S: Send + 'static,
        A: DeserializeOwned,
        R: Serialize,
    {
        let results = self.result_handler()?;
        let state = state.clone();
        let run = Arc::new(move |bytes: &[u8]| {
            let args = postcard::from_bytes(bytes).map_err(|_| Status::Unreadable)?;
            Ok(postcard::to_allocvec(&state.enter(|state| function(state, args))).ok())
        });
        let handler = self.register_handler(move |message| match Number::of(message.uhdr) {
            None => run_cast(&run, message),
            Some(number) => run_call(&run, message, number, results),
        })?;
        Ok(Function { handler, types: PhantomData })
    }

    /// Calls `function` at `target` and waits for its result.
    ///
    /// # Errors
    /// An unknown or dead target; a call inside a handler; the function is not registered in this task; arguments that cannot be serialized
    /// ([`Error::Arguments`]). [`Error::Refused`]: the function panicked, or the target could not read the arguments or serialize the
    /// result. A result that this task cannot read ([`Error::Protocol`]); a purge of the target; an error while making progress.
    pub fn call<A: Serialize, R: DeserializeOwned>(
        &mut self,
        target: impl Target,
        function: Function<A, R>,
        args: A,
    ) -> Result<R> {
        let mut call = self.begin_call(target, function, args)?;
        let bytes = self.wait_for(Errors::Report, |context| call.begun.look(context).transpose())?;
        read(&bytes, call.begun.target)
    }

    /// Begins a call without waiting for its result.
    ///
    /// # Errors
    /// Errors of [`call`](Self::call) that are known before the message is sent.
    pub fn begin_call<A: Serialize, R>(
        &mut self,
        target: impl Target,
        function: Function<A, R>,
        args: A,
    ) -> Result<Call<R>> {
        let target = target.seen_from(self.endpoint().context);
        let results = self.results(function.handler)?;
        let number = lock(&results).insert(target)?;
        let mut begun =
            BegunCall { results, number, target, purges: self.engine.purges.count(target).0, sending: None };
        let args = JobBuffer::from(postcard::to_allocvec(&args).map_err(|error| unwritable(&error))?);
        let options = AmOptions { answerable: true, ..AmOptions::default() };
        let uhdr = number.to_bytes();
        let sending = self.start(Amsend { target, handler: function.handler, uhdr: &uhdr, options }, args);
        begun.sending = Some(sending.map_err(|returned| returned.error)?);
        Ok(Call { begun, result: PhantomData })
    }

    /// Returns the result of a call, or the call if its result has not arrived yet. Makes no progress.
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    pub fn call_result<R: DeserializeOwned>(&mut self, mut call: Call<R>) -> Result<Result<R, Call<R>>> {
        match call.begun.look(self) {
            None => Ok(Err(call)),
            Some(result) => read(&result?, call.begun.target).map(Ok),
        }
    }

    /// Runs `function` at `target` without a result. [`fence_ops`](Self::fence_ops) and [`gfence`](Self::gfence) wait for it.
    ///
    /// # Errors
    /// Those of [`amsend`](Self::amsend); arguments that cannot be serialized.
    pub fn cast<A: Serialize, R>(
        &mut self,
        target: impl Target,
        function: Function<A, R>,
        args: A,
    ) -> Result<()> {
        let options = AmOptions::default();
        let mut short = [0; SHORT_BYTES_MAX];
        if let Ok(bytes) = postcard::to_slice(&args, &mut short) {
            return self.amsend(target, function.handler, &[], bytes, options);
        }
        let bytes = postcard::to_allocvec(&args).map_err(|error| unwritable(&error))?;
        self.amsend(target, function.handler, &[], &bytes, options)
    }

    /// The table of calls under way; an error if no function is registered, or none with this number.
    fn results(&self, handler: HandlerId) -> Result<Arc<Mutex<Results>>> {
        let registered = self.handlers_count();
        match &self.handlers.calls {
            Some((_, results)) if usize::from(handler.0) < registered => Ok(Arc::clone(results)),
            _ => Err(Error::UnregisteredHandler { handler: handler.0, registered }),
        }
    }

    /// The handler for results, registered before the first function.
    fn result_handler(&mut self) -> Result<HandlerId> {
        if let Some((handler, _)) = &self.handlers.calls {
            return Ok(*handler);
        }
        let results = Arc::new(Mutex::new(Results::default()));
        let table = Arc::clone(&results);
        let handler = self.register_handler(move |message| take_result(&results, message))?;
        self.handlers.calls = Some((handler, table));
        Ok(handler)
    }
}

impl BegunCall {
    /// The encoded result or the error of a call that has ended; `None` if the call has not ended.
    pub(crate) fn look<F: Fabric, H: crate::handler::HandlerSet>(
        &mut self,
        context: &mut Context<F, H>,
    ) -> Option<Result<Vec<u8>>> {
        if let Some(sending) = self.sending.take() {
            match context.try_owned(sending) {
                Ok(Err(again)) => self.sending = Some(again),
                Ok(Ok((_, Ok(())))) => {}
                Ok(Ok((_, Err(error)))) | Err(error) => return Some(Err(error)),
            }
        }
        let refused = |why| Error::Refused { target: self.target, why };
        match lock(&self.results).take(self.number) {
            Some((Status::Done, bytes)) => Some(Ok(bytes)),
            Some((Status::Panicked, _)) => Some(Err(refused(Refusal::HandlerPanicked))),
            Some((Status::Unreadable, _)) => Some(Err(refused(Refusal::Malformed))),
            None => self.lost(context).map(Err),
        }
    }

    /// The reason, if no result will come.
    fn lost<F: Fabric, H: crate::handler::HandlerSet>(&self, context: &Context<F, H>) -> Option<Error> {
        let purged = match context.engine.purges.count(self.target) {
            (count, Some(by)) if count != self.purges => Some(Error::Purged { task: self.target.task, by }),
            _ => None,
        };
        purged.or_else(|| context.engine.gone(self.target))
    }
}

fn run_cast<R>(run: &Arc<R>, message: &Message<'_>) -> Answer
where
    R: Fn(&[u8]) -> Result<Option<Vec<u8>>, Status> + Send + Sync + 'static,
{
    if let Some(here) = message.here {
        with_bytes(here, |bytes| without_caller(run(bytes)));
        return Answer::consumed(Completion::None);
    }
    let run = Arc::clone(run);
    Answer::owned(
        JobBuffer::zeroed(message.len as usize),
        Completion::Call(Box::new(move |delivered| {
            if let Some(bytes) = whole(delivered) {
                without_caller(run(&bytes));
            }
        })),
    )
}

/// Ends a cast, whose caller gets no answer. If this task could not read the arguments, reports that like the panic of a handler.
fn without_caller(ended: Result<Option<Vec<u8>>, Status>) {
    if ended.is_err() {
        let why = "the arguments have another type here: register the same functions in the same order in every task";
        resume_unwind(Box::new(why.to_owned()));
    }
}

fn run_call<R>(run: &Arc<R>, message: &Message<'_>, number: Number, results: HandlerId) -> Answer
where
    R: Fn(&[u8]) -> Result<Option<Vec<u8>>, Status> + Send + Sync + 'static,
{
    if let Some(here) = message.here {
        let (status, result) = with_bytes(here, |bytes| guarded(&**run, bytes));
        if let Some(reply) = Reply::new(results, &number.with(status, &result)) {
            return Answer::consumed(Completion::Reply(reply));
        }
        // A result too long for a reply needs a message of its own, which is sent between two rounds of progress.
        return Answer::consumed(Completion::Thread(Box::new(move |delivered, later| {
            later.amsend(delivered.source, results, &number.with(status, &[]), result);
        })));
    }
    let run = Arc::clone(run);
    Answer::owned(
        JobBuffer::zeroed(message.len as usize),
        Completion::Thread(Box::new(move |delivered, later| {
            let source = delivered.source;
            let Some(bytes) = whole(delivered) else { return };
            let (status, result) = guarded(&*run, &bytes);
            later.amsend(source, results, &number.with(status, &[]), result);
        })),
    )
}

/// Runs a function; returns the status of the call and the bytes of its result. A panic becomes [`Status::Panicked`].
fn guarded(run: impl Fn(&[u8]) -> Result<Option<Vec<u8>>, Status>, bytes: &[u8]) -> (Status, Vec<u8>) {
    // Unwind safety: the state is behind a lock that returns it as a panic left it, as `Local` documents.
    match catch_unwind(AssertUnwindSafe(|| run(bytes))) {
        Ok(Ok(Some(result))) => (Status::Done, result),
        Ok(Ok(None)) | Ok(Err(_)) => (Status::Unreadable, Vec::new()),
        Err(_) => (Status::Panicked, Vec::new()),
    }
}

/// Stores a result that has arrived at the caller.
fn take_result(results: &Arc<Mutex<Results>>, message: &Message<'_>) -> Answer {
    let Some((number, status, short)) = Number::with_status(message.uhdr) else { return Answer::discard() };
    let source = message.source;
    match message.here {
        _ if message.len == 0 => lock(results).fill(number, source, status, short.to_vec()),
        Some(here) => lock(results).fill(number, source, status, here.to_vec()),
        None => {
            let results = Arc::clone(results);
            return Answer::owned(
                JobBuffer::zeroed(message.len as usize),
                Completion::Call(Box::new(move |delivered| {
                    if let Some(bytes) = whole(delivered) {
                        lock(&results).fill(number, source, status, bytes.to_vec());
                    }
                })),
            );
        }
    }
    Answer::consumed(Completion::None)
}

/// The buffer of a message that has arrived without an error.
fn whole(delivered: Delivered) -> Option<JobBuffer> {
    delivered.buffer.filter(|_| delivered.outcome.is_ok())
}

/// Runs `call` with a private copy of the bytes.
fn with_bytes<T>(here: Arrived<'_>, call: impl FnOnce(&[u8]) -> T) -> T {
    let mut short = [0; SHORT_BYTES_MAX];
    match short.get_mut(..here.len()) {
        Some(short) => {
            here.copy_to(short);
            call(short)
        }
        None => call(&here.to_vec()),
    }
}

/// Decodes the result of a call at `target`.
pub(crate) fn read<R: DeserializeOwned>(bytes: &[u8], target: Endpoint) -> Result<R> {
    postcard::from_bytes(bytes).map_err(|error| Error::Protocol {
        peer: target,
        what: format!(
            "the result of a call has another type there ({error}); register the same functions in the same order in every task"
        ),
    })
}

#[cold]
fn unwritable(error: &postcard::Error) -> Error {
    Error::Arguments { why: error.to_string() }
}

fn lock(results: &Mutex<Results>) -> std::sync::MutexGuard<'_, Results> {
    results.lock().unwrap_or_else(PoisonError::into_inner)
}
