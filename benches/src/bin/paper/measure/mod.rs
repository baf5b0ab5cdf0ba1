//! A measuring task of a job: measures each length for a given time, and task 0 prints the time of one operation.

mod interrupts;
mod lapi;
mod memory;
mod mpi;
mod tcp;
mod via;

use std::time::Instant;

use am_core::buffer::{Access, Exposed, RemoteAddress};
use am_core::{Context, PutOptions};
use am_examples::Failure;
use am_examples::statistics::{best, median};
use am_via::{ShmFabric, Task};
use clap::{Args, ValueEnum};

/// The arguments of a task.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    measure: Measure,
    /// Lengths in bytes.
    #[arg(long, value_delimiter = ',')]
    lengths: Vec<usize>,
    /// How long each length is measured.
    #[arg(long, default_value_t = 15)]
    milliseconds: u32,
}

/// The measurement. A time is that of one way between two tasks, in nanoseconds, unless noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// LAPI itself: a put, whose target waits for its counter.
    Put,
    /// MPI_Send and MPI_Recv.
    Mpi,
    /// The time of one of many MPI_Isend in one direction, until the last one is answered.
    MpiStream,
    /// An MPI_Recv of a message that has arrived before the call.
    MpiUnexpected,
    /// An MPI_Bcast; the root changes from one call to the next.
    MpiBroadcast,
    /// An MPI_Barrier.
    MpiBarrier,
    /// A message and its acknowledgement, by amsend; the target polls.
    AmsendPolled,
    /// A message and its acknowledgement, by amsend; the target sleeps, and is interrupted.
    AmsendInterrupted,
    /// A message and its acknowledgement, by amsend; the target computes, and is interrupted.
    AmsendComputing,
    /// The remaining speed of the target's computation in `AmsendComputing`, in per cent.
    ComputationLeft,
    /// An MPI_Ssend to a task that computes, and has a progress thread.
    SsendComputing,
    /// VIA itself: send and receive.
    ViaSend,
    /// VIA itself: RDMA write with immediate data.
    ViaWrite,
    /// A rendezvous over VIA by send and receive from the NIC's memory, with a copy at each end.
    ViaCopied,
    /// A rendezvous over VIA by RDMA; both buffers are registered for this message.
    ViaRegistered,
    /// A rendezvous over VIA by RDMA; both buffers stay registered.
    ViaKept,
    /// A TCP connection of std::net.
    Tcp,
    /// A broadcast over connections of std::net; the root writes to each task.
    TcpBroadcast,
    /// A barrier over connections of std::net, by dissemination.
    TcpBarrier,
    /// A copy from memory to memory.
    Copy,
    /// Registering private memory with the NIC, and deregistering it.
    RegisterPrivate,
    /// Registering job memory with the NIC, and deregistering it.
    RegisterJob,
}

impl Measure {
    /// The measurement's name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn way(self, task: &Task, control: &mut Control, bytes_max: usize) -> Result<Box<dyn Way>, Failure> {
        use interrupts::{Interrupts, SsendComputing, Target};
        use mpi::{Kind, Mpi};
        Ok(match self {
            Self::Put => Box::new(lapi::Put::new(task, bytes_max)?),
            Self::Mpi => Box::new(Mpi::new(task, Kind::PingPong, bytes_max)?),
            Self::MpiStream => Box::new(Mpi::new(task, Kind::Stream, bytes_max)?),
            Self::MpiUnexpected => Box::new(Mpi::new(task, Kind::Unexpected, bytes_max)?),
            Self::MpiBroadcast => Box::new(Mpi::new(task, Kind::Broadcast, bytes_max)?),
            Self::MpiBarrier => Box::new(Mpi::new(task, Kind::Barrier, bytes_max)?),
            Self::AmsendPolled => Box::new(Interrupts::new(task, Target::Polls, false, bytes_max)?),
            Self::AmsendInterrupted => Box::new(Interrupts::new(task, Target::Sleeps, false, bytes_max)?),
            Self::AmsendComputing => Box::new(Interrupts::new(task, Target::Computes, false, bytes_max)?),
            Self::ComputationLeft => Box::new(Interrupts::new(task, Target::Computes, true, bytes_max)?),
            Self::SsendComputing => Box::new(SsendComputing::new(task, bytes_max)?),
            Self::ViaSend => Box::new(via::Via::new(task, via::Operation::Send, bytes_max)?),
            Self::ViaWrite => Box::new(via::Via::new(task, via::Operation::Write, bytes_max)?),
            Self::ViaCopied => Box::new(via::Via::new(task, via::Operation::Copied, bytes_max)?),
            Self::ViaRegistered => Box::new(via::Via::new(task, via::Operation::Registered, bytes_max)?),
            Self::ViaKept => Box::new(via::Via::new(task, via::Operation::Kept, bytes_max)?),
            Self::Tcp => Box::new(tcp::Tcp::new(control, tcp::Kind::PingPong, bytes_max)?),
            Self::TcpBroadcast => Box::new(tcp::Tcp::new(control, tcp::Kind::Broadcast, bytes_max)?),
            Self::TcpBarrier => Box::new(tcp::Tcp::new(control, tcp::Kind::Barrier, bytes_max)?),
            Self::Copy => Box::new(memory::Copy::new(bytes_max)),
            Self::RegisterPrivate => Box::new(memory::Register::new(task, memory::Kind::Private, bytes_max)?),
            Self::RegisterJob => Box::new(memory::Register::new(task, memory::Kind::Job, bytes_max)?),
        })
    }
}

/// A method to move bytes, or another operation to time.
trait Way {
    /// The mean time of `times` operations, or another value. All tasks must call this together.
    fn batch(&mut self, control: &mut Control, bytes: usize, times: u32) -> Result<f64, Failure>;

    /// The maximum number of operations in a batch.
    fn times_max(&self, _bytes: usize) -> u32 {
        100_000
    }

    /// Whether the values are times, of which the smallest is the best.
    fn tells_times(&self) -> bool {
        true
    }

    /// The task whose value is used.
    fn teller(&self) -> usize {
        0
    }

    /// Closes what the method has opened.
    fn end(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Batches measured per length.
const BATCHES: u32 = 5;

/// Measures as one task of a job.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let task = Task::join()?;
    let mut control = Control::new(&task)?;
    let bytes_max = arguments.lengths.iter().copied().max().unwrap_or(1);
    let mut way = arguments.measure.way(&task, &mut control, bytes_max)?;
    for &bytes in &arguments.lengths {
        let value = measure(way.as_mut(), &mut control, bytes, arguments.milliseconds)?;
        if task.number() == 0 {
            println!("{} {value:.2}", if bytes == 0 { control.num_tasks() as usize } else { bytes });
        }
    }
    control.meet()?;
    way.end()?;
    control.meet()
}

/// Returns the best of several batches, which together take about the given time (each has at most `times_max` operations). The other
/// batches took longer because of other load on the machine. For values that are not times, returns the median.
fn measure(
    way: &mut dyn Way,
    control: &mut Control,
    bytes: usize,
    milliseconds: u32,
) -> Result<f64, Failure> {
    let teller = way.teller();
    // First operations take longer (untouched pages, missing connections) and are not counted.
    way.batch(control, bytes, 4)?;
    let start = Instant::now();
    way.batch(control, bytes, 4)?;
    let one = control.agree(start.elapsed().as_secs_f64() / 4.0, 0)?;
    let wanted = f64::from(milliseconds) / 1e3 / f64::from(BATCHES) / one.max(1e-9);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped first")]
    let times = wanted.clamp(4.0, f64::from(way.times_max(bytes))) as u32;
    let mut values = Vec::new();
    for _ in 0..BATCHES {
        control.meet()?;
        let value = way.batch(control, bytes, times)?;
        values.push(control.agree(value, teller)?);
    }
    Ok(if way.tells_times() { best(&values) } else { median(&values) })
}

/// A second context, through which the tasks agree on the next step.
struct Control {
    context: Context<ShmFabric>,
    flag: Exposed,
    flags: Vec<RemoteAddress>,
    raised: u64,
}

impl Control {
    fn new(task: &Task) -> Result<Self, Failure> {
        let mut context = Context::new(task.fabric(1)?);
        let flag = context.alloc(8)?;
        let flag = context.expose(flag, Access::READ_WRITE)?;
        let flags = context.address_init(flag.address(0))?;
        Ok(Self { context, flag, flags, raised: 0 })
    }

    fn task(&self) -> usize {
        self.context.task().index()
    }

    fn num_tasks(&self) -> u32 {
        self.context.num_tasks()
    }

    /// Returns once all tasks have called this function.
    fn meet(&mut self) -> Result<(), Failure> {
        self.swap(&[]).map(|_| ())
    }

    /// Exchanges bytes between all tasks.
    fn swap(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        Ok(self.context.exchange(own)?)
    }

    /// One task's value, in all tasks.
    fn agree(&mut self, own: f64, task: usize) -> Result<f64, Failure> {
        let all = self.swap(&own.to_le_bytes())?;
        let bytes = all.get(task).and_then(|bytes| bytes.as_slice().try_into().ok());
        bytes.map(f64::from_le_bytes).ok_or_else(|| Failure::Wrong("a task sent no value".to_owned()))
    }

    /// Sets the flag of another task, which sees it without making progress. Both tasks must call this or [`lower`](Self::lower) equally
    /// often.
    fn raise(&mut self, task: usize) -> Result<(), Failure> {
        self.raised += 1;
        let bytes = self.raised.to_le_bytes();
        Ok(self.context.put(self.flags[task], &bytes, PutOptions::default())?)
    }

    /// Whether the flag was set since [`lower`](Self::lower).
    fn is_raised(&self) -> bool {
        let mut bytes = [0; 8];
        self.flag.read(0, &mut bytes).is_ok() && u64::from_le_bytes(bytes) > self.raised
    }

    /// Clears the flag.
    fn lower(&mut self) {
        self.raised += 1;
    }
}

/// The failure for an error of the system or of a layer below MPI.
fn of_system(error: impl std::error::Error + 'static) -> Failure {
    Failure::Library { fault: "the operating system", error: Box::new(error) }
}

/// The failure for a message whose last byte is not the one that was sent.
fn wrong_byte(bytes: usize, is: u8, should: u8) -> Failure {
    Failure::Wrong(format!("the last of {bytes} bytes is {is}, but {should} was sent"))
}
