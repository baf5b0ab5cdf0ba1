//! Communicators between worlds: which tasks of other worlds this task may still reach, and when it forgets them.

use am_core::Context;
use am_core::fabric::Fabric;
use am_core::task::TaskId;

use crate::context_id::ContextIds;
use crate::group::Group;
use crate::message::handlers::MpiHandlers;

/// Whether all tasks of the job are of this task's world, now and before.
fn is_alone<F: Fabric>(context: &Context<F, MpiHandlers>) -> bool {
    context.tasks_end() == context.tasks_at_start()
}

fn is_foreign<F: Fabric>(context: &Context<F, MpiHandlers>, task: TaskId) -> bool {
    task.0.wrapping_sub(context.first_task().0) >= context.num_tasks()
}

/// Notes that this task reaches these tasks from now on.
pub(super) fn hold<F: Fabric>(context: &mut Context<F, MpiHandlers>, groups: [&Group; 2]) {
    if is_alone(context) {
        return;
    }
    let mut has_foreign = false;
    for task in groups.iter().flat_map(|group| group.tasks()) {
        // A task that has ended, whose number is given up, is met at its first use, which fails.
        let _ = context.hold(task);
        context.handlers_mut().budget.make_room(task.0);
        has_foreign |= is_foreign(context, task);
    }
    if has_foreign {
        context.set_connected(true);
    }
}

/// Forgets the tasks that have ended, are in no communicator any more, and gave the context id of none. Called after a communicator has
/// ended, and before tasks are started.
pub(super) fn let_go<F: Fabric>(context: &mut Context<F, MpiHandlers>, ids: &ContextIds) {
    if is_alone(context) {
        return;
    }
    let has_foreign =
        context.handlers().peers.groups().any(|group| group.tasks().any(|task| is_foreign(context, task)));
    context.set_connected(has_foreign);
    for task in context.held_and_ended() {
        let is_named = context.handlers().peers.groups().any(|group| group.rank_of(task).is_some());
        if is_named || ids.has_of(task) {
            continue;
        }
        match context.forget(task) {
            Ok(true) => context.handlers_mut().forget(task),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%task, %error, "the number of a task that has ended cannot be used again")
            }
        }
    }
}
