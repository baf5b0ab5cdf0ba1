//! The paths in Rust: the actions of the two tasks of a count. The paths in C are in `benches/c/count.c`.

use std::path::Path as FilePath;

use am_core::buffer::{Access, RemoteAddress};
use am_core::counter::Counter;
use am_core::handler::{Answer, Completion, HandlerId};
use am_core::task::TaskId;
use am_core::{AmOptions, Context, PutOptions};
use am_examples::Failure;
use am_via::{ShmFabric, Task};
use mpi_over_am::{Communicator, Environment};

use crate::one_sided;
use crate::path::{COUNTED, Path, each};
use crate::turns::Turns;

pub(crate) fn run(path: Path, bytes: usize, messages: u32, turns: &FilePath) -> Result<(), Failure> {
    match path {
        Path::Amsend | Path::AmsendTarget | Path::Put | Path::PutTarget => core(path, bytes, messages, turns),
        Path::PutAlone
        | Path::Get
        | Path::Rmw
        | Path::PointerWrite
        | Path::PointerRead
        | Path::PointerAdd => one_sided::run(path, messages, turns),
        Path::Send | Path::Receive => mpi(path, bytes, messages, turns),
    }
}

/// The state for am-core messages between the two tasks.
struct Core {
    context: Context<ShmFabric>,
    data: Vec<u8>,
    handler: HandlerId,
    memory: RemoteAddress,
    peer: TaskId,
    arrived: Counter,
}

fn core(path: Path, bytes: usize, messages: u32, turns: &FilePath) -> Result<(), Failure> {
    let mut context = Task::join()?.context()?;
    let rank = context.task().0;
    let mut turns = Turns::open(turns, rank)?;
    let arrived = context.counter()?;
    let handler = context.register_handler(move |_| Answer::consumed(Completion::Bump(arrived)))?;
    let memory = context.alloc(bytes)?;
    // The memory is never unexposed: it is needed until the end.
    let memory = context.expose(memory, Access::WRITE)?.address(0);
    let addresses = context.address_init(memory)?;
    let peer = TaskId(1 - rank);
    let memory = addresses[peer.index()];
    let mut core = Core { context, data: vec![7; bytes], handler, memory, peer, arrived };

    let counted_is_origin = matches!(path, Path::Amsend | Path::Put);
    let put = matches!(path, Path::Put | Path::PutTarget);
    each(messages, |counted| {
        if (rank == COUNTED) == counted_is_origin {
            match (put, counted && rank == COUNTED) {
                (false, true) => counted_amsend(&mut core)?,
                (false, false) => core.amsend()?,
                (true, true) => counted_put(&mut core)?,
                (true, false) => core.put()?,
            }
            turns.peer_may_go()?;
            turns.wait()
        } else {
            turns.wait()?;
            if counted && rank == COUNTED {
                counted_wait(&mut core)?
            } else {
                core.wait()?
            }
            turns.peer_may_go()
        }
    })?;
    Ok(core.context.gfence()?)
}

impl Core {
    #[inline(always)]
    fn amsend(&mut self) -> am_core::error::Result<()> {
        let options = AmOptions::default();
        self.context.amsend(self.peer, self.handler, &[], &self.data, options)
    }

    #[inline(always)]
    fn put(&mut self) -> am_core::error::Result<()> {
        let options = PutOptions { target: Some(self.arrived.name()), ..PutOptions::default() };
        self.context.put(self.memory, &self.data, options)
    }

    #[inline(always)]
    fn wait(&mut self) -> am_core::error::Result<()> {
        self.context.wait_counter(self.arrived, 1)
    }
}

#[inline(never)]
fn counted_amsend(core: &mut Core) -> am_core::error::Result<()> {
    core.amsend()
}

#[inline(never)]
fn counted_put(core: &mut Core) -> am_core::error::Result<()> {
    core.put()
}

#[inline(never)]
fn counted_wait(core: &mut Core) -> am_core::error::Result<()> {
    core.wait()
}

fn mpi(path: Path, bytes: usize, messages: u32, turns: &FilePath) -> Result<(), Failure> {
    let environment = Environment::init()?;
    let world = environment.world();
    let rank = world.rank();
    let mut turns = Turns::open(turns, rank)?;
    let mut data = vec![7; bytes];
    each(messages, |counted| {
        if (rank == COUNTED) == (path == Path::Send) {
            if counted && rank == COUNTED {
                counted_send(&world, &data)?;
            } else {
                world.send(&data, 1 - rank, 7)?;
            }
            turns.peer_may_go()?;
            turns.wait()
        } else {
            turns.wait()?;
            if counted && rank == COUNTED {
                counted_receive(&world, &mut data)?;
            } else {
                world.recv(&mut data, 1 - rank, 7)?;
            }
            turns.peer_may_go()
        }
    })?;
    Ok(environment.finalize()?)
}

#[inline(never)]
fn counted_send(world: &Communicator, data: &[u8]) -> mpi_over_am::Result<()> {
    world.send(data, 0, 7)
}

#[inline(never)]
fn counted_receive(world: &Communicator, data: &mut [u8]) -> mpi_over_am::Result<()> {
    world.recv(data, 0, 7).map(|_| ())
}
