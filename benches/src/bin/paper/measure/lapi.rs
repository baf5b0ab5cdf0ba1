//! LAPI itself, the paper's "raw LAPI": a put, and a wait for its target counter.

use std::time::Instant;

use am_core::buffer::{Access, Exposed, JobBuffer, RemoteAddress};
use am_core::counter::Counter;
use am_core::{Context, PutOptions};
use am_examples::Failure;
use am_via::{ShmFabric, Task};

use super::{Control, Way, wrong_byte};

pub(super) struct Put {
    context: Context<ShmFabric>,
    arrived: Counter,
    own: Exposed,
    theirs: RemoteAddress,
    from: JobBuffer,
}

impl Put {
    pub(super) fn new(task: &Task, bytes_max: usize) -> Result<Self, Failure> {
        let mut context = task.context()?;
        let arrived = context.counter()?;
        let own = context.alloc(bytes_max)?;
        let own = context.expose(own, Access::READ_WRITE)?;
        let addresses = context.address_init(own.address(0))?;
        let theirs = addresses[1 - context.task().index()];
        let from = context.alloc(bytes_max)?;
        Ok(Self { context, arrived, own, theirs, from })
    }

    fn send(&mut self, bytes: usize, mark: u8) -> Result<(), Failure> {
        self.from[bytes - 1] = mark;
        let options = PutOptions { target: Some(self.arrived.name()), ..PutOptions::default() };
        Ok(self.context.put(self.theirs, &self.from[..bytes], options)?)
    }

    fn receive(&mut self, bytes: usize, mark: u8) -> Result<(), Failure> {
        self.context.wait_counter(self.arrived, 1)?;
        let mut last = [0];
        self.own.read(bytes as u64 - 1, &mut last)?;
        if last[0] == mark { Ok(()) } else { Err(wrong_byte(bytes, last[0], mark)) }
    }
}

impl Way for Put {
    fn batch(&mut self, control: &mut Control, bytes: usize, times: u32) -> Result<f64, Failure> {
        let start = Instant::now();
        for round in 0..times {
            let mark = round.to_le_bytes()[0];
            if control.task() == 0 {
                self.send(bytes, mark)?;
                self.receive(bytes, mark)?;
            } else {
                self.receive(bytes, mark)?;
                self.send(bytes, mark)?;
            }
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(2 * times))
    }
}
