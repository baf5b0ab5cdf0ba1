//! TCP connections of std::net between the tasks: the transport of MPI in the papers before VIA.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

use am_examples::Failure;

use super::{Control, Way, of_system, wrong_byte};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    PingPong,
    Broadcast,
    Barrier,
}

pub(super) struct Tcp {
    kind: Kind,
    task: usize,
    /// The connection to each task; `None` for this task.
    streams: Vec<Option<TcpStream>>,
    buffer: Vec<u8>,
}

impl Tcp {
    /// Connects every task with every other one.
    pub(super) fn new(control: &mut Control, kind: Kind, bytes_max: usize) -> Result<Self, Failure> {
        let task = control.task();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(of_system)?;
        let port = listener.local_addr().map_err(of_system)?.port();
        let ports = control.swap(&port.to_le_bytes())?;
        let mut streams: Vec<Option<TcpStream>> = ports.iter().map(|_| None).collect();
        for (peer, port) in ports.iter().enumerate().take(task) {
            let port = u16::from_le_bytes([port[0], port[1]]);
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(of_system)?;
            stream.write_all(&(task as u64).to_le_bytes()).map_err(of_system)?;
            streams[peer] = Some(stream);
        }
        for _ in task + 1..ports.len() {
            let (mut stream, _) = listener.accept().map_err(of_system)?;
            let mut peer = [0; 8];
            stream.read_exact(&mut peer).map_err(of_system)?;
            let place = usize::try_from(u64::from_le_bytes(peer)).ok().and_then(|peer| streams.get_mut(peer));
            *place
                .ok_or_else(|| Failure::Wrong("a process that is not a task has connected".to_owned()))? =
                Some(stream);
        }
        for stream in streams.iter().flatten() {
            stream.set_nodelay(true).map_err(of_system)?;
        }
        Ok(Self { kind, task, streams, buffer: vec![0; bytes_max.max(1)] })
    }

    fn send(&mut self, peer: usize, bytes: usize) -> Result<(), Failure> {
        let Some(stream) = &mut self.streams[peer] else { return Ok(()) };
        stream.write_all(&self.buffer[..bytes]).map_err(of_system)
    }

    fn receive(&mut self, peer: usize, bytes: usize) -> Result<(), Failure> {
        let Some(stream) = &mut self.streams[peer] else { return Ok(()) };
        stream.read_exact(&mut self.buffer[..bytes]).map_err(of_system)
    }

    fn check(&self, bytes: usize, mark: u8) -> Result<(), Failure> {
        let last = self.buffer[bytes - 1];
        if last == mark { Ok(()) } else { Err(wrong_byte(bytes, last, mark)) }
    }

    fn ping_pong(&mut self, bytes: usize, mark: u8) -> Result<(), Failure> {
        if self.task == 0 {
            self.buffer[bytes - 1] = mark;
            self.send(1, bytes)?;
            self.receive(1, bytes)?;
        } else {
            self.receive(0, bytes)?;
            self.send(0, bytes)?;
        }
        self.check(bytes, mark)
    }

    fn broadcast(&mut self, bytes: usize, root: usize, mark: u8) -> Result<(), Failure> {
        if self.task != root {
            self.receive(root, bytes)?;
            return self.check(bytes, mark);
        }
        self.buffer[bytes - 1] = mark;
        (0..self.streams.len()).try_for_each(|peer| self.send(peer, bytes))
    }

    /// Dissemination: in each round, sends a byte to the task at twice the distance of the round before.
    fn barrier(&mut self) -> Result<(), Failure> {
        let tasks = self.streams.len();
        let mut distance = 1;
        while distance < tasks {
            self.send((self.task + distance) % tasks, 1)?;
            self.receive((self.task + tasks - distance) % tasks, 1)?;
            distance *= 2;
        }
        Ok(())
    }
}

impl Way for Tcp {
    fn batch(&mut self, _control: &mut Control, bytes: usize, times: u32) -> Result<f64, Failure> {
        let start = Instant::now();
        for round in 0..times {
            let mark = round.to_le_bytes()[0];
            match self.kind {
                Kind::PingPong => self.ping_pong(bytes, mark)?,
                Kind::Broadcast => self.broadcast(bytes, round as usize % self.streams.len(), mark)?,
                Kind::Barrier => self.barrier()?,
            }
        }
        let ways = if self.kind == Kind::PingPong { 2 } else { 1 };
        Ok(start.elapsed().as_nanos() as f64 / f64::from(ways * times))
    }
}
