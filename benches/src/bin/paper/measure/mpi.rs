//! MPI with the settings of the job, from buffers of the program's own memory.

use std::time::Instant;

use am_examples::Failure;
use am_via::{ShmFabric, Task};
use mpi_over_am::{Communicator, Environment, Settings};

use super::{Control, Way, wrong_byte};

/// Messages pending at a time in a stream.
const WINDOW: usize = 16;
const DATA: i32 = 1;
const ANSWER: i32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    PingPong,
    Stream,
    Unexpected,
    Broadcast,
    Barrier,
}

pub(super) struct Mpi {
    environment: Environment<ShmFabric>,
    world: Communicator<ShmFabric>,
    kind: Kind,
    from: Vec<u8>,
    /// One buffer; for several pending messages, one for each.
    to: Vec<u8>,
}

impl Mpi {
    pub(super) fn new(task: &Task, kind: Kind, bytes_max: usize) -> Result<Self, Failure> {
        let settings = Settings::try_from(task.job().variables())?;
        let environment = Environment::with_fabric(task.fabric(0)?, &settings)?;
        let buffers = if kind == Kind::Stream { WINDOW } else { 1 };
        Ok(Self {
            world: environment.world(),
            environment,
            kind,
            from: vec![0; bytes_max],
            to: vec![0; buffers * bytes_max],
        })
    }

    fn ping_pong(&mut self, bytes: usize, times: u32) -> Result<f64, Failure> {
        let (from, to) = (&mut self.from[..bytes], &mut self.to[..bytes]);
        let (begins, peer) = (self.world.rank() == 0, 1 - self.world.rank());
        let start = Instant::now();
        for round in 0..times {
            let mark = round.to_le_bytes()[0];
            from[bytes - 1] = mark;
            if begins {
                self.world.send(from, peer, DATA)?;
                self.world.recv(to, peer, DATA)?;
            } else {
                self.world.recv(to, peer, DATA)?;
                self.world.send(from, peer, DATA)?;
            }
            if to[bytes - 1] != mark {
                return Err(wrong_byte(bytes, to[bytes - 1], mark));
            }
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(2 * times))
    }

    fn stream(&mut self, bytes: usize, times: u32) -> Result<f64, Failure> {
        let windows = (times as usize).div_ceil(WINDOW);
        let start = Instant::now();
        for _ in 0..windows {
            if self.world.rank() == 0 {
                let from = &self.from[..bytes];
                self.world
                    .scope(|scope| (0..WINDOW).try_for_each(|_| scope.isend(from, 1, DATA).map(|_| ())))?;
            } else {
                let mut buffers = self.to.chunks_exact_mut(bytes).take(WINDOW);
                self.world.scope(|scope| buffers.try_for_each(|to| scope.irecv(to, 0, DATA).map(|_| ())))?;
            }
        }
        self.answer()?;
        Ok(start.elapsed().as_nanos() as f64 / (windows * WINDOW) as f64)
    }

    /// The second task reports that it has received everything.
    fn answer(&mut self) -> Result<(), Failure> {
        if self.world.rank() == 0 {
            self.world.recv(&mut [0u8], 1, ANSWER)?;
        } else {
            self.world.send(&[0u8], 0, ANSWER)?;
        }
        Ok(())
    }

    /// Times receives of messages that have arrived. Rank 0 sends the messages and then a note, so rank 1 has the messages when it has the
    /// note.
    fn unexpected(&mut self, bytes: usize, times: u32) -> Result<f64, Failure> {
        let windows = (times as usize).div_ceil(WINDOW);
        let mut nanoseconds = 0;
        for _ in 0..windows {
            if self.world.rank() == 0 {
                let (world, from) = (&self.world, &self.from[..bytes]);
                world.scope(|scope| {
                    (0..WINDOW).try_for_each(|_| scope.isend(from, 1, DATA).map(|_| ()))?;
                    world.send(&[0u8], 1, ANSWER)
                })?;
            } else {
                self.world.recv(&mut [0u8], 0, ANSWER)?;
                let start = Instant::now();
                for _ in 0..WINDOW {
                    self.world.recv(&mut self.to[..bytes], 0, DATA)?;
                }
                nanoseconds += start.elapsed().as_nanos();
            }
            self.answer()?;
        }
        Ok(nanoseconds as f64 / (windows * WINDOW) as f64)
    }

    fn broadcast(&mut self, bytes: usize, times: u32) -> Result<f64, Failure> {
        let (rank, size) = (self.world.rank(), self.world.size());
        let start = Instant::now();
        for round in 0..times {
            let (root, mark) = (round % size, round.to_le_bytes()[0]);
            if rank == root {
                self.to[bytes - 1] = mark;
            }
            self.world.broadcast(&mut self.to[..bytes], root)?;
            if self.to[bytes - 1] != mark {
                return Err(wrong_byte(bytes, self.to[bytes - 1], mark));
            }
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(times))
    }

    fn barrier(&mut self, times: u32) -> Result<f64, Failure> {
        let start = Instant::now();
        for _ in 0..times {
            self.world.barrier()?;
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(times))
    }
}

impl Way for Mpi {
    fn batch(&mut self, _control: &mut Control, bytes: usize, times: u32) -> Result<f64, Failure> {
        match self.kind {
            Kind::PingPong => self.ping_pong(bytes, times),
            Kind::Stream => self.stream(bytes, times),
            Kind::Unexpected => self.unexpected(bytes, times),
            Kind::Broadcast => self.broadcast(bytes, times),
            Kind::Barrier => self.barrier(times),
        }
    }

    fn teller(&self) -> usize {
        usize::from(self.kind == Kind::Unexpected)
    }

    fn end(self: Box<Self>) -> Result<(), Failure> {
        let Self { environment, world, .. } = *self;
        drop(world);
        Ok(environment.finalize()?)
    }
}
