//! The queues of a task as text, for whoever asks why a program does not go on (SIGUSR2; MPICH over Portals had the like).

use std::fmt::Write;

use am_core::Context;
use am_core::fabric::Fabric;

use crate::early_message::EarlyMessage;
use crate::handlers::MpiHandlers;

/// Lines of each queue, at most.
const LINES_MAX: usize = 50;

/// Posted receives, messages without a receive, operations under way.
pub(crate) fn show<F: Fabric>(context: &Context<F, MpiHandlers>) -> String {
    let handlers = context.handlers();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut text, handlers, &context.task().to_string());
    text
}

fn write(text: &mut String, handlers: &MpiHandlers, task: &str) -> std::fmt::Result {
    let (posted, early) = (&handlers.posted, &handlers.early);
    let under_way = handlers.requests.unfinished();
    writeln!(
        text,
        "{task}: {} receives are posted, {} messages wait for a receive, {} operations are under way",
        posted.len(),
        early.len(),
        under_way.len()
    )?;
    for (_, pattern, receive) in posted.iter().take(LINES_MAX) {
        writeln!(text, "{task}:   posted: {pattern:?}, request {:#x}", receive.request.number())?;
    }
    for (_, envelope, message) in early.iter().take(LINES_MAX) {
        let how = match message {
            EarlyMessage::Short { .. } | EarlyMessage::Kept { .. } => "here",
            EarlyMessage::Announced { .. } => "still at its sender",
            EarlyMessage::NotReady { .. } => "lost: it was sent in ready mode",
        };
        let (source, tag, len) = (envelope.source(), envelope.tag(), message.len());
        writeln!(
            text,
            "{task}:   early: from rank {source} with tag {tag} in context id {}, {len} bytes, {how}",
            envelope.context_id().0
        )?;
    }
    let left_out = posted.len().saturating_sub(LINES_MAX) + early.len().saturating_sub(LINES_MAX);
    if left_out > 0 {
        writeln!(text, "{task}:   and {left_out} more")?;
    }
    Ok(())
}
