//! The loom models of the boards.

use std::sync::Arc;

use loom::thread;

/// Runs `task` for each of `size` ranks that share a board, in all interleavings with at most `preemptions_max` preemptions per thread.
pub(super) fn check_all_orders<B: Send + Sync + 'static>(
    size: u32,
    preemptions_max: usize,
    board: impl Fn() -> B + Send + Sync + 'static,
    task: impl Fn(&B, u32) + Copy + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.check(move || {
        let board = Arc::new(board());
        let start = |rank| {
            let board = Arc::clone(&board);
            thread::spawn(move || task(&board, rank))
        };
        let others: Vec<_> = (1..size).map(start).collect();
        task(&board, 0);
        others.into_iter().for_each(|other| other.join().expect("an assertion of another task"));
    });
}
