//! Requests as futures, and an executor that makes MPI progress while it waits for them.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{self, Poll, Wake};

use am_core::Context;
use am_core::fabric::{self, Fabric};

use super::owned::{OwnedRequest, Returned};
use crate::communicator::Communicator;
use crate::error::Result;
use crate::message::handlers::MpiHandlers;
use crate::message::progress::is_over;
use crate::message::status::Status;
use crate::policy::LockPolicy;

thread_local! {
    /// The environment that this thread makes progress for between polls, by the address of its state; 0: none.
    static DRIVEN: Cell<usize> = const { Cell::new(0) };
}

/// Records, until this value is dropped, the environment that this thread makes progress for.
struct Driven {
    before: usize,
}

impl Driven {
    fn new(environment: usize) -> Self {
        Self { before: DRIVEN.replace(environment) }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        DRIVEN.set(self.before);
    }
}

/// Records that a future has to be polled, and wakes the thread that polls it.
struct Woken {
    is_woken: AtomicBool,
    end_sleep: fabric::Waker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        // Release: pairs with the Acquire in `block_on`, so that the poll sees earlier stores.
        self.is_woken.store(true, Ordering::Release);
        (self.end_sleep)();
    }
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Runs `future` to its end in this thread. Awaited requests of this environment are polled when they are complete; meanwhile the
    /// thread makes progress and sleeps, as in any wait. Any thread may call the future's waker.
    ///
    /// Under another executor a request makes progress when it is polled, and asks to be polled again at once.
    ///
    /// ```
    /// use mpi_over_am::{Communicator, Environment, Result, join_all};
    ///
    /// # fn main() -> Result<()> {
    /// # let environment = Environment::init()?;
    /// # let world = environment.world();
    /// let all: Vec<u32> = (0..world.size()).collect();
    /// let sums: Vec<Result<u32>> = world.block_on(join_all(all.iter().map(async |&peer| {
    ///     let sending = world.isend_owned(vec![world.rank()], peer, 0)?;
    ///     let (got, _) = world.irecv_owned(vec![0; 1], peer, 0)?.await?;
    ///     sending.await?;
    ///     Ok(got[0] + 1)
    /// })))?;
    /// # for (sum, peer) in sums.into_iter().zip(all) { assert_eq!(sum?, peer + 1); }
    /// # environment.finalize()
    /// # }
    /// ```
    ///
    /// # Errors
    /// An error while making progress, such as the failure of a task; the future is dropped then.
    pub fn block_on<R>(&self, future: impl Future<Output = R>) -> Result<R> {
        let end_sleep = self.state()?.context.waker();
        let woken = Arc::new(Woken { is_woken: AtomicBool::new(false), end_sleep });
        let waker = task::Waker::from(Arc::clone(&woken));
        let mut future = pin!(future);
        let _driven = Driven::new(self.state_address());
        loop {
            if let Poll::Ready(result) = future.as_mut().poll(&mut task::Context::from_waker(&waker)) {
                return Ok(result);
            }
            let mut over = Vec::new();
            self.state()?.wait_for(&mut |context| {
                take_over(context, &mut over);
                // Acquire: pairs with the Release in `wake`.
                !over.is_empty() || woken.is_woken.swap(false, Ordering::Acquire)
            })?;
            over.into_iter().for_each(task::Waker::wake);
        }
    }
}

/// Moves the wakers of requests that are complete to `over`.
fn take_over<F: Fabric>(context: &mut Context<F, MpiHandlers>, over: &mut Vec<task::Waker>) {
    let mut wakers = std::mem::take(&mut context.handlers_mut().wakers);
    over.extend(wakers.0.extract_if(|&request, _| is_over(context, request)).map(|(_, waker)| waker));
    context.handlers_mut().wakers = wakers;
}

/// Ready when the operation is complete, with what [`wait`](OwnedRequest::wait) returns.
impl<T: Send + 'static, F: Fabric, L: LockPolicy> Future for OwnedRequest<T, F, L> {
    type Output = std::result::Result<(Vec<T>, Status), Returned<T, F, L>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let is_driven = DRIVEN.get() == self.state_address();
        let taken = self.turn().and_then(|mut turn| {
            let is_over = match is_driven {
                true => is_over(&mut turn.context, self.id),
                false => turn.is_over_after_progress(self.id)?,
            };
            if is_over {
                return turn.handlers().requests.take_kept(self.id).map(Some);
            }
            if is_driven {
                turn.handlers().wakers.0.insert(self.id, cx.waker().clone());
            }
            Ok(None)
        });
        if let Some(taken) = taken.transpose() {
            return Poll::Ready(self.ended(taken));
        }
        if !is_driven {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
