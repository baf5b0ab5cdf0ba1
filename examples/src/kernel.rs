//! Common parts of programs that measure themselves: timing of a collective part, and agreement on sums.

use std::time::Instant;

use am_core::Context;
use am_core::fabric::Fabric;
use am_core::handler::HandlerSet;

use crate::Failure;
use crate::failure::agree;

/// Collective: runs `body` between two fences of all tasks. Returns its result, and the seconds of the slowest task.
///
/// # Errors
/// The error of `body`; a failed fence or exchange.
pub fn timed<T, F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    body: impl FnOnce(&mut Context<F, H>) -> Result<T, Failure>,
) -> Result<(T, f64), Failure> {
    context.gfence()?;
    let started = Instant::now();
    let value = body(context)?;
    context.gfence()?;
    let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let slowest = gather(context, nanoseconds)?.into_iter().max().unwrap_or(0);
    Ok((value, slowest.max(1) as f64 / 1e9))
}

/// Collective: the numbers of all tasks, by task.
///
/// # Errors
/// A failed exchange.
pub fn gather<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, own: u64) -> Result<Vec<u64>, Failure> {
    let all = context.exchange(&own.to_le_bytes())?;
    Ok(all.iter().map(|bytes| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))).collect())
}

/// Collective: the sum of all tasks' numbers.
///
/// # Errors
/// A failed exchange.
pub fn sum<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, own: u64) -> Result<u64, Failure> {
    Ok(gather(context, own)?.into_iter().fold(0, u64::wrapping_add))
}

/// Collective: checks that no task has found an error. If there are errors, the first task's failure says how many, followed by `what`.
///
/// # Errors
/// [`Failure::Wrong`] in the first task and [`Failure::Elsewhere`] in the others; a failed exchange.
pub fn no_errors<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    own_errors: u64,
    what: &str,
) -> Result<(), Failure> {
    match (sum(context, own_errors)?, context.task().0) {
        (0, _) => Ok(()),
        // Only the first task prints the error.
        (errors, 0) => Err(Failure::Wrong(format!("{errors} {what}"))),
        _ => {
            // The first task exits, which ends the job. If another task exited earlier, the launcher would name that task as the cause.
            let _ = context.gfence();
            Err(Failure::Elsewhere { exit_code: 1 })
        }
    }
}

/// Collective: `count` copies of `value` in private memory. If tasks have too little memory, the first of them reports it.
///
/// # Errors
/// [`Failure::Elsewhere`] if a task has too little memory; a failed exchange.
pub fn filled<T: Clone, F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    program: &str,
    count: u64,
    value: T,
) -> Result<Vec<T>, Failure> {
    let mut values = Vec::new();
    let fits = usize::try_from(count).ok().filter(|count| values.try_reserve_exact(*count).is_ok());
    let bytes = count.saturating_mul(size_of::<T>() as u64);
    let no_room =
        || Failure::Input(format!("a task cannot allocate {bytes} bytes: ask for a smaller problem"));
    let count = agree(context, program, fits.ok_or_else(no_room))?;
    values.resize(count, value);
    Ok(values)
}

/// Start and length of share `number`, if `total` items are cut into `of` shares. The first shares take the remainder.
#[must_use]
pub fn share(total: u64, of: u64, number: u64) -> (u64, u64) {
    let (each, left) = (total / of, total % of);
    (number * each + number.min(left), each + u64::from(number < left))
}

/// The share that contains element `index`, and the element's index there: the inverse of [`share`].
#[inline(always)]
#[must_use]
pub fn owner_of(total: u64, of: u64, index: u64) -> (u64, u64) {
    let (each, left) = (total / of, total % of);
    let long = left * (each + 1);
    if index < long {
        (index / (each + 1), index % (each + 1))
    } else {
        (left + (index - long) / each, (index - long) % each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_the_whole_and_know_their_owner() {
        for (total, of) in [(10, 3), (9, 3), (1, 1), (100, 7), (3, 5)] {
            let mut index = 0;
            for number in 0..of {
                let (start, len) = share(total, of, number);
                assert_eq!(start, index);
                for place in 0..len {
                    assert_eq!(owner_of(total, of, index), (number, place));
                    index += 1;
                }
            }
            assert_eq!(index, total);
        }
    }
}
