//! A job whose tasks are threads.

use am_core::context::Context;
use am_core::fabric::Fabric;

/// Runs `task` once for each fabric, each in its own thread with a new context.
///
/// # Panics
/// If a task panicked. The task is marked as failed, so that the other tasks' waits fail, and all threads have ended by then.
pub fn run<F: Fabric + Send>(fabrics: Vec<F>, task: impl Fn(&mut Context<F>) + Sync) {
    let task = &task;
    let first_panic = std::thread::scope(|scope| {
        let threads: Vec<_> = fabrics
            .into_iter()
            .map(|fabric| {
                scope.spawn(move || {
                    let mut context = Context::new(fabric);
                    let run = std::panic::AssertUnwindSafe(|| task(&mut context));
                    let result = std::panic::catch_unwind(run);
                    if result.is_err() {
                        context.fail("its thread panicked");
                    }
                    result
                })
            })
            .collect();
        let results: Vec<_> =
            threads.into_iter().map(|thread| thread.join().and_then(|result| result)).collect();
        results.into_iter().find_map(Result::err)
    });
    if let Some(panic) = first_panic {
        std::panic::resume_unwind(panic);
    }
}
