//! How one side runs one check.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use am_via_nic::Device;

use super::line::Word;
use super::pair::{Pair, Stop};
use super::suite::Check;

/// How long a side waits for the other side to end a check. Longer than any wait inside a check.
const OTHER_SIDE: Duration = Duration::from_secs(100);

/// Runs a check. Returns the reason if it failed on this side.
pub(super) fn run<D: Device>(pair: &mut Pair<D>, check: &Check<D>) -> Option<String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| (check.run)(pair)));
    let failure = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(Stop::Failed(what))) => Some(what),
        Ok(Err(Stop::OtherSide)) if pair.ended == Some(Word::Done(None)) => {
            Some("the other side ended the check while this side still waited for it".to_owned())
        }
        // The other side reports its failure itself.
        Ok(Err(Stop::OtherSide)) => None,
        Err(panic) => Some(format!("panicked: {}", text_of(&*panic))),
    };
    if check.needs.is_death() {
        // The other side no longer exists.
        return failure;
    }
    let ended = end(pair, failure.as_ref());
    let swept = pair.sweep().err().map(|stop| format!("its objects could not be destroyed: {stop:?}"));
    let ready = end(pair, swept.as_ref());
    failure.or(swept).or(ended.err()).or(ready.err())
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
}

/// Tells the other side that this side has finished, and waits until the other side has finished.
fn end<D: Device>(pair: &mut Pair<D>, failure: Option<&String>) -> Result<(), String> {
    pair.line.say(Word::Done(failure.cloned()));
    if pair.ended.take().is_some() {
        return Ok(());
    }
    let start = Instant::now();
    while start.elapsed() < OTHER_SIDE {
        match pair.line.hear(Duration::from_micros(20)) {
            Ok(Word::Done(_)) => return Ok(()),
            // A message that a failed check did not receive.
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => {
                pair.nic.progress();
            }
            Err(RecvTimeoutError::Disconnected) => return Err("the other side is gone".to_owned()),
        }
    }
    Err("the other side did not end the check in time".to_owned())
}
