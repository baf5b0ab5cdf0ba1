//! What all tasks tell each other in exchanges when they make something together, so that all of them get an error if one does.

use am_core_engine::protocol::collective::CONTRIBUTION_BYTES_MAX;

use crate::buffer::{RemoteAddress, SharedName};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::task::{Endpoint, TaskId};

/// Collective: checks that all tasks have passed the same number of `what`.
///
/// # Errors
/// The first task whose number differs; those of [`Context::exchange`].
pub fn agree<F: Fabric, H: HandlerSet>(context: &mut Context<F, H>, number: u64, what: &str) -> Result<()> {
    let all = context.exchange(&number.to_le_bytes())?;
    check_equal(all.iter().map(|told| &told[..]), number, what, context.endpoint(), context.first_task())
}

/// Tells all tasks whether this one is ready; returns the first that is not.
pub(super) fn first_refusal<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    is_ready: bool,
) -> Result<Option<TaskId>> {
    let all = context.exchange(&[is_ready.into()])?;
    Ok(all
        .iter()
        .zip(context.first_task().0..)
        .find(|(told, _)| told[..] != [1])
        .map(|(_, task)| TaskId(task)))
}

/// Bytes of a length, as a task tells it.
const LEN_BYTES: usize = 8;
const _: () = assert!(LEN_BYTES + RemoteAddress::BYTES <= CONTRIBUTION_BYTES_MAX);

/// What a task tells the others of its part: the length, and the address if it has memory.
pub(super) fn announcement(len: u64, address: Option<RemoteAddress>) -> Vec<u8> {
    let mut told = len.to_le_bytes().to_vec();
    told.extend(address.iter().flat_map(|address| address.to_bytes()));
    told
}

/// The address of each task's part, decoded from what the tasks have told.
pub(super) fn addresses(
    all: &[Vec<u8>],
    len: u64,
    own: Endpoint,
    first: TaskId,
) -> Result<Vec<RemoteAddress>> {
    let lens = all.iter().map(|told| told.get(..LEN_BYTES).unwrap_or_default());
    check_equal(lens, len, "bytes of memory of all tasks", own, first)?;
    let address = |told: &Vec<u8>| told[LEN_BYTES..].try_into().ok().map(RemoteAddress::from_bytes);
    all.iter().map(address).collect::<Option<_>>().ok_or(Error::Exhausted {
        resource: "memory of all tasks, in another task",
        needed: len,
        available: 0,
        remedy: "that task reports the cause; ask for less, or give that task more memory",
    })
}

/// Checks that all tasks have told the same number.
fn check_equal<'a>(
    all: impl Iterator<Item = &'a [u8]>,
    number: u64,
    what: &str,
    own: Endpoint,
    first: TaskId,
) -> Result<()> {
    match all.zip(first.0..).find(|(told, _)| *told != number.to_le_bytes()) {
        None => Ok(()),
        Some((told, task)) => {
            let told: [u8; 8] = told.try_into().unwrap_or_default();
            Err(Error::Protocol {
                peer: Endpoint::new(TaskId(task), own.context),
                what: format!(
                    "it says {} {what}, and this task {number}: all tasks must say the same",
                    u64::from_le_bytes(told)
                ),
            })
        }
    }
}

/// The name that a task tells; `None`: it has no memory that others can map.
pub(super) fn shared_name(bytes: &[u8]) -> Option<SharedName> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: [[u8; 8]; 4] = words.try_into().ok().filter(|_| rest.is_empty())?;
    Some(SharedName(words.map(u64::from_le_bytes)))
}
