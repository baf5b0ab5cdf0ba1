//! The paths of one-sided operations on memory that both tasks have mapped: rank 1 carries them out, rank 0 makes no call meanwhile.

use std::path::Path as FilePath;

use am_core::pgas::{GlobalPointer, Segment};
use am_core::task::TaskId;
use am_core::transfer::{AtomicOp, Width};
use am_core::{Context, GetOptions, PutOptions};
use am_examples::Failure;
use am_via::{ShmFabric, Task};

use crate::path::{COUNTED, Path, each};
use crate::turns::Turns;

type Done = am_core::error::Result<()>;

pub(crate) fn run(path: Path, messages: u32, turns: &FilePath) -> Result<(), Failure> {
    let mut context = Task::join()?.context()?;
    let rank = context.task().0;
    let mut turns = Turns::open(turns, rank)?;
    let segment = Segment::<u64>::new(&mut context, 8)?;
    let word = segment.at(TaskId(1 - rank), 3)?;
    each(messages, |counted| {
        if rank != COUNTED {
            turns.wait()?;
            return turns.peer_may_go();
        }
        match path {
            Path::PutAlone if counted => counted_put(&mut context, word)?,
            Path::PutAlone => put(&mut context, word)?,
            Path::Get if counted => counted_get(&mut context, word)?,
            Path::Get => get(&mut context, word)?,
            Path::Rmw if counted => counted_rmw(&mut context, word)?,
            Path::Rmw => rmw(&mut context, word)?,
            Path::PointerWrite if counted => counted_write(&mut context, word)?,
            Path::PointerWrite => word.write(&mut context, 5)?,
            Path::PointerRead if counted => drop(counted_read(&mut context, word)?),
            Path::PointerRead => drop(word.read(&mut context)?),
            Path::PointerAdd if counted => drop(counted_add(&mut context, word)?),
            _ => drop(word.fetch_add(&mut context, 1)?),
        }
        turns.peer_may_go()?;
        turns.wait()
    })?;
    Ok(context.gfence()?)
}

#[inline(always)]
fn put(context: &mut Context<ShmFabric>, to: GlobalPointer<u64>) -> Done {
    context.put(to.address(), &7_u64.to_ne_bytes(), PutOptions::default())
}

#[inline(always)]
fn get(context: &mut Context<ShmFabric>, from: GlobalPointer<u64>) -> Done {
    context.get(from.address(), &mut [0; 8], GetOptions::default())
}

#[inline(always)]
fn rmw(context: &mut Context<ShmFabric>, at: GlobalPointer<u64>) -> Done {
    context.rmw(at.address(), Width::Bits64, AtomicOp::FetchAdd(1)).map(drop)
}

#[inline(never)]
fn counted_put(context: &mut Context<ShmFabric>, to: GlobalPointer<u64>) -> Done {
    put(context, to)
}

#[inline(never)]
fn counted_get(context: &mut Context<ShmFabric>, from: GlobalPointer<u64>) -> Done {
    get(context, from)
}

#[inline(never)]
fn counted_rmw(context: &mut Context<ShmFabric>, at: GlobalPointer<u64>) -> Done {
    rmw(context, at)
}

#[inline(never)]
fn counted_write(context: &mut Context<ShmFabric>, to: GlobalPointer<u64>) -> Done {
    to.write(context, 5)
}

#[inline(never)]
fn counted_read(context: &mut Context<ShmFabric>, from: GlobalPointer<u64>) -> am_core::error::Result<u64> {
    from.read(context)
}

#[inline(never)]
fn counted_add(context: &mut Context<ShmFabric>, at: GlobalPointer<u64>) -> am_core::error::Result<u64> {
    at.fetch_add(context, 1)
}
