//! A program written to VIA itself, without the layers above: two tasks with one VI each, and explicit descriptors.
//!
//! What it teaches: how to open a NIC, register memory, connect VIs and post descriptors; and the cost of each of VIA's operations on this
//! provider.
//!
//! ```text
//! cargo amrun -n 2 --bind core --example via_ping_pong
//! cargo amrun -n 2 --bind core --example via_ping_pong -- --json rows.json
//! ```
//!
//! You should see a row for each size: nanoseconds for one way by send and receive, by RDMA write (the target polls its memory) and by RDMA
//! write with immediate data; nanoseconds for a whole RDMA read; then MB/s of each, with 16 descriptors posted at a time. Below the rows:
//! the cost of registering memory and of connecting. All numbers are medians over the batches; the last byte of every message is checked.
//! Tasks beyond the first two do nothing.

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use am_examples::statistics::median;
use am_via::Task;
use am_via::device::shm::Shm;
use am_via_vipl::{
    AddressSegment, DataSegment, Descriptor, Discriminator, Endpoint, MemAttributes, MemHandle, Memory, PTag,
    Posted, UserAgent, ViAttributes, ViHandle, open_nic,
};
use clap::Parser;

type Error = Box<dyn std::error::Error>;

/// Latency and bandwidth of VIA's operations, and the cost of registration and connection.
#[derive(Parser)]
struct Arguments {
    /// Also write the rows to this file, as a JSON object.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Measure only sizes up to this many bytes.
    #[arg(long, default_value_t = BYTES_MAX)]
    max_bytes: u32,
    /// Batches for each size and operation.
    #[arg(long, default_value_t = 11)]
    batches: usize,
}

const BYTES_MAX: u32 = 4 << 20;
const SIZES: [u32; 10] = [1, 8, 64, 512, 2048, 8192, 65_536, 262_144, 1 << 20, 4 << 20];
/// Number of receives that are always posted: more than a window of sends and the answer to it.
const RECEIVES: usize = 40;
/// Descriptors posted at a time when bandwidth is measured.
const WINDOW: usize = 16;
/// Limit for a wait, which is reached only if the other task has died.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// An operation of VIA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Send,
    Write,
    WriteImmediate,
    Read,
}

const OPERATIONS: [(Operation, &str); 4] = [
    (Operation::Send, "send"),
    (Operation::Write, "write"),
    (Operation::WriteImmediate, "write_immediate"),
    (Operation::Read, "read"),
];

/// Registered memory.
struct Region {
    memory: Rc<Memory>,
    handle: MemHandle,
}

/// One of the two tasks.
struct Player {
    nic: UserAgent<Shm>,
    vi: ViHandle,
    tag: PTag,
    peer: Endpoint,
    /// The source of this task's messages.
    source: Region,
    /// The target of the peer's messages.
    target: Region,
    /// The peer's target.
    theirs: MemHandle,
    begins: bool,
    /// The value of the last byte of each message.
    mark: u8,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("via_ping_pong: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    let task = Task::join()?;
    if task.job().num_tasks() < 2 {
        return Err(
            "via_ping_pong needs two tasks: start it with `cargo amrun -n 2 --bind core --example via_ping_pong`".into()
        );
    }
    if task.number() > 1 {
        return Ok(());
    }
    let mut player = Player::new(&task)?;
    let mut rows = Vec::new();
    if player.begins {
        print_head();
    }
    for bytes in SIZES.into_iter().filter(|&bytes| bytes <= arguments.max_bytes) {
        let row = player.measure(bytes, arguments.batches)?;
        if player.begins {
            print_row(bytes, &row);
        }
        rows.push(row);
    }
    let registrations = player.registrations(arguments)?;
    let connection_ns = player.connections(arguments.batches)?;
    if !player.begins {
        return Ok(());
    }
    for row in &registrations {
        println!("registration of {row}");
    }
    println!("connection: {connection_ns:.0} ns to connect two VIs");
    let Some(file) = &arguments.json else { return Ok(()) };
    let pinned = std::env::var("AM_PINNED").is_ok_and(|value| value == "1");
    let all = serde_json::json!({
        "rows": rows, "registrations": registrations, "connection_ns": connection_ns, "pinned": pinned,
    });
    std::fs::write(file, serde_json::to_string_pretty(&all)?).map_err(|error| {
        format!("cannot write {}: {error}; name a file in a folder that exists", file.display()).into()
    })
}

fn print_head() {
    print!("{:>9}", "bytes");
    OPERATIONS.iter().for_each(|(_, name)| print!(" {:>18}", format!("{name}_ns")));
    OPERATIONS.iter().for_each(|(_, name)| print!(" {:>20}", format!("{name}_mb_s")));
    println!();
}

fn print_row(bytes: u32, row: &serde_json::Value) {
    let number = |name: String| row.get(&name).and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN);
    print!("{bytes:>9}");
    OPERATIONS.iter().for_each(|(_, name)| print!(" {:>18.1}", number(format!("{name}_ns"))));
    OPERATIONS.iter().for_each(|(_, name)| print!(" {:>20.1}", number(format!("{name}_mb_s"))));
    println!();
}

impl Player {
    /// Opens a NIC, registers memory, connects a VI, and tells the peer where it may write.
    fn new(task: &Task) -> Result<Self, Error> {
        let mut nic = open_nic(task, "shm0")?;
        let tag = nic.create_ptag()?;
        let region = |nic: &mut UserAgent<Shm>| -> Result<Region, Error> {
            let memory = nic.alloc(BYTES_MAX as usize)?;
            let rights = MemAttributes { ptag: 0, rdma_write: true, rdma_read: true };
            let handle = nic.register_mem(&memory, (0, BYTES_MAX as usize), tag, rights)?;
            Ok(Region { memory, handle })
        };
        let (source, target) = (region(&mut nic)?, region(&mut nic)?);
        nic.ns_init()?;
        let peer = nic.host_by_name(if task.number() == 0 { "task1" } else { "task0" }, 0)?;
        let vi = nic.create_vi(ViAttributes::new(tag), None, None)?;
        let whole = DataSegment { handle: target.handle, offset: 0, length: BYTES_MAX };
        for _ in 0..RECEIVES {
            nic.post_recv(vi, Descriptor::receive().with_segment(whole))?;
        }
        nic.connect_peer_request(vi, Discriminator::default(), peer, PATIENCE)?;
        nic.connect_peer_wait(vi)?;
        let (begins, theirs) = (task.number() == 0, target.handle);
        let mut player = Self { nic, vi, tag, peer, source, target, theirs, begins, mark: 0 };
        player.swap_handles()?;
        Ok(player)
    }

    /// Each task tells the other the handle of its target, by a message of 8 bytes.
    fn swap_handles(&mut self) -> Result<(), Error> {
        let MemHandle { region, generation } = self.target.handle;
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&region.to_le_bytes());
        bytes[4..].copy_from_slice(&generation.to_le_bytes());
        self.source.memory.write(0, &bytes).ok_or("8 bytes fit into the memory")?;
        self.post(Operation::Send, 8)?;
        self.receive()?;
        self.target.memory.read(0, &mut bytes).ok_or("8 bytes are in the memory")?;
        let [a, b, c, d, e, f, g, h] = bytes;
        self.theirs = MemHandle {
            region: u32::from_le_bytes([a, b, c, d]),
            generation: u32::from_le_bytes([e, f, g, h]),
        };
        self.sent()?;
        // Neither task overwrites the handle before both have read it.
        self.meet()
    }

    /// Posts one operation of `bytes`.
    fn post(&mut self, operation: Operation, bytes: u32) -> Result<(), Error> {
        let place = AddressSegment { handle: self.theirs, offset: 0 };
        let descriptor = match operation {
            Operation::Send => Descriptor::send(),
            Operation::Write => Descriptor::rdma_write(place),
            Operation::WriteImmediate => Descriptor::rdma_write(place).with_immediate(bytes),
            Operation::Read => Descriptor::rdma_read(place),
        };
        let own = DataSegment { handle: self.source.handle, offset: 0, length: bytes };
        Ok(self.nic.post_send(self.vi, if bytes == 0 { descriptor } else { descriptor.with_segment(own) })?)
    }

    /// Waits for a receive and posts it again.
    fn receive(&mut self) -> Result<(), Error> {
        let done = self.nic.recv_wait(self.vi, PATIENCE)?;
        if !done.status().is_success() {
            return Err(format!("a receive ended as {:?}", done.status()).into());
        }
        Ok(self.nic.post_recv(self.vi, done.again())?)
    }

    /// Waits for the oldest posted send, write or read.
    fn sent(&mut self) -> Result<(), Error> {
        let done = self.nic.send_wait(self.vi, PATIENCE)?;
        if done.status().is_success() {
            Ok(())
        } else {
            Err(format!("a descriptor ended as {:?}", done.status()).into())
        }
    }

    /// Returns once both tasks have called this function.
    fn meet(&mut self) -> Result<(), Error> {
        self.post(Operation::Send, 0)?;
        self.receive()?;
        self.sent()
    }

    /// Marks the last byte of the next message.
    fn write_mark(&mut self, bytes: u32) -> Result<(), Error> {
        self.mark = self.mark.wrapping_add(1);
        Ok(self
            .source
            .memory
            .write(bytes as usize - 1, &[self.mark])
            .ok_or("the mark lies inside the memory")?)
    }

    fn last_byte(region: &Region, bytes: u32) -> Result<u8, Error> {
        let mut last = [0];
        region.memory.read(bytes as usize - 1, &mut last).ok_or("the mark lies inside the memory")?;
        Ok(last[0])
    }

    /// Waits for a message of the other task, and checks that its mark is `mark`. A write only changes the memory, without a completion at
    /// the target, so this function polls for the mark.
    fn arrived(&mut self, operation: Operation, bytes: u32, mark: u8) -> Result<(), Error> {
        if operation == Operation::Write {
            let start = Instant::now();
            while Self::last_byte(&self.target, bytes)? != mark {
                self.nic.progress();
                if start.elapsed() > Duration::from_secs(60) {
                    return Err("a write never arrived".into());
                }
            }
            return Ok(());
        }
        self.receive()?;
        match Self::last_byte(&self.target, bytes)? {
            last if last == mark => Ok(()),
            last => Err(format!("the last of {bytes} bytes is {last} instead of {mark}").into()),
        }
    }

    /// One row: medians of all operations at one size.
    fn measure(&mut self, bytes: u32, batches: usize) -> Result<serde_json::Value, Error> {
        let mut row = serde_json::Map::new();
        row.insert("bytes".into(), bytes.into());
        let mut times = vec![(Vec::new(), Vec::new()); OPERATIONS.len()];
        // The first batch warms up and is not counted. Every batch runs all operations in turn.
        for batch in 0..=batches {
            for ((operation, _), (latencies, rates)) in OPERATIONS.iter().zip(&mut times) {
                let (latency, rate) = (self.latency(*operation, bytes)?, self.rate(*operation, bytes)?);
                if batch > 0 {
                    latencies.push(latency);
                    rates.push(rate);
                }
            }
        }
        for ((_, name), (latencies, rates)) in OPERATIONS.iter().zip(&times) {
            row.insert(format!("{name}_ns"), median(latencies).into());
            row.insert(format!("{name}_mb_s"), median(rates).into());
        }
        Ok(row.into())
    }

    /// Nanoseconds for one way, or for a whole read: the mean over one batch.
    fn latency(&mut self, operation: Operation, bytes: u32) -> Result<f64, Error> {
        let rounds = (4_000_000 / (4_000 + bytes)).clamp(4, 500);
        self.meet()?;
        let start = Instant::now();
        if operation == Operation::Read {
            // The peer has nothing to do; it waits in the next `meet`.
            for _ in 0..if self.begins { rounds } else { 0 } {
                self.post(operation, bytes)?;
                self.sent()?;
            }
            let time = start.elapsed();
            self.meet()?;
            return Ok(time.as_nanos() as f64 / f64::from(rounds));
        }
        for _ in 0..rounds {
            if self.begins {
                self.write_mark(bytes)?;
                self.post(operation, bytes)?;
                self.arrived(operation, bytes, self.mark)?;
            } else {
                self.arrived(operation, bytes, self.mark.wrapping_add(1))?;
                self.write_mark(bytes)?;
                self.post(operation, bytes)?;
            }
            self.sent()?;
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(2 * rounds))
    }

    /// MB/s from the first task to the second, or read by the first, over one window.
    fn rate(&mut self, operation: Operation, bytes: u32) -> Result<f64, Error> {
        self.meet()?;
        let start = Instant::now();
        let receives = matches!(operation, Operation::Send | Operation::WriteImmediate);
        if self.begins {
            for _ in 0..WINDOW {
                self.post(operation, bytes)?;
            }
            for _ in 0..WINDOW {
                self.sent()?;
            }
        } else if receives {
            for _ in 0..WINDOW {
                self.receive()?;
            }
        }
        // The peer's message in `meet` follows its receives. Writes and reads have completed already.
        self.meet()?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(f64::from(bytes) * WINDOW as f64 / seconds / 1e6)
    }

    /// The median times to register and to deregister memory, a line of text for each length and kind of memory.
    fn registrations(&mut self, arguments: &Arguments) -> Result<Vec<String>, Error> {
        let mut rows = Vec::new();
        for bytes in [4096, 1 << 20].into_iter().filter(|&bytes| bytes <= arguments.max_bytes.max(4096)) {
            let private = self.nic.alloc_private(bytes as usize)?;
            let job = self.nic.alloc(bytes as usize)?;
            for (memory, kind) in [(job, "job memory"), (private, "private memory")] {
                let (mut begins, mut ends) = (Vec::new(), Vec::new());
                for _ in 0..arguments.batches * 20 {
                    let start = Instant::now();
                    let rights = MemAttributes { ptag: 0, rdma_write: true, rdma_read: true };
                    let handle = self.nic.register_mem(&memory, (0, bytes as usize), self.tag, rights)?;
                    begins.push(start.elapsed().as_nanos() as f64);
                    let start = Instant::now();
                    while self.nic.deregister_mem(handle)? == Posted::Retry {}
                    ends.push(start.elapsed().as_nanos() as f64);
                }
                let (begin, end) = (median(&begins), median(&ends));
                rows.push(format!("{bytes} bytes of {kind}: {begin:.0} ns, its end {end:.0} ns"));
            }
        }
        Ok(rows)
    }

    /// Nanoseconds to connect a second VI; the median of many connections.
    fn connections(&mut self, batches: usize) -> Result<f64, Error> {
        let second = self.nic.create_vi(ViAttributes::new(self.tag), None, None)?;
        let mut times = Vec::new();
        for _ in 0..batches * 10 {
            self.meet()?;
            let start = Instant::now();
            self.nic.connect_peer_request(second, Discriminator::default(), self.peer, PATIENCE)?;
            self.nic.connect_peer_wait(second)?;
            times.push(start.elapsed().as_nanos() as f64);
            self.meet()?;
            self.nic.disconnect(second)?;
        }
        self.meet()?;
        Ok(median(&times))
    }
}
