//! The thesis: R. Engler, T. Wenzel, "Developing a VIA-RPI for LAM", Chemnitz 2004, figures 4.2, 6.1 to 6.3 and 6.7.

use super::{job, pair};
use crate::curve::{Curve, below_from, bytes, rate, ratio, time, times_of};
use crate::figure::{Along, Figure, Form, Quantity, Series};
use crate::measure::Measure;

const REGISTRATION: &[usize] = &[64, 256, 1024, 4096, 16384, 65536, 262_144, 1 << 20, 4 << 20];
const LENGTHS: &[usize] =
    &[1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 262_144, 1 << 20, 4 << 20];
const BROADCAST: &[usize] = &[4, 64, 1024, 4096, 16384, 65536, 262_144, 1 << 20];

fn mpi() -> Series {
    pair("MPI", &[], Measure::Mpi, LENGTHS)
}

fn via_send() -> Series {
    pair("raw VIA, send and receive", &[], Measure::ViaSend, LENGTHS)
}

fn via_write() -> Series {
    pair("raw VIA, RDMA write", &[], Measure::ViaWrite, LENGTHS)
}

fn tcp() -> Series {
    pair("TCP", &[], Measure::Tcp, LENGTHS)
}

pub(super) fn figures() -> Vec<Figure> {
    let chart = Figure {
        name: "thesis6.1",
        source: "VIA-RPI for LAM, figure 6.1",
        title: "Ping-pong over MPI, raw VIA and TCP",
        form: Form::Chart,
        along: Along::Bytes,
        quantity: Quantity::Time,
        x_max: f64::INFINITY,
        series: vec![mpi(), via_send(), via_write(), tcp()],
        paper: "MPI over VIA was faster than MPI over TCP nearly everywhere, most clearly up to 512 bytes; between 16 and 64 KiB TCP was faster. \
                The curve of MPI over VIA had no jumps.",
        here: |curves| {
            let [mpi, _, _, tcp] = curves else { return String::new() };
            let slower: Vec<String> =
                mpi.beside(tcp).filter(|(mpi, tcp)| mpi.y >= tcp.y).map(|(mpi, _)| bytes(mpi.x)).collect();
            let where_slower = if slower.is_empty() {
                "MPI is faster at every length".to_owned()
            } else {
                format!("TCP is faster at {}", slower.join(", "))
            };
            format!("{}. {where_slower}.", times_of(tcp, mpi))
        },
    };
    let details = Figure {
        name: "thesis6.2",
        source: "VIA-RPI for LAM, figure 6.2",
        title: "Ping-pong up to 512 bytes",
        x_max: 512.0,
        paper: "The VIA device began at 74 us, the other MPI over VIA (MVICH) at 77 us: short messages show best how much time VIA saves.",
        here: |curves| {
            let [mpi, send, write, tcp] = curves else { return String::new() };
            let (first, last) = (mpi.first(), mpi.last());
            format!(
                "At {} MPI takes {}, raw VIA {} (RDMA write {}), TCP {}; at {} {}, {} ({}) and {}.",
                bytes(first.x),
                time(first.y),
                time(send.first().y),
                time(write.first().y),
                time(tcp.first().y),
                bytes(last.x),
                time(last.y),
                time(send.last().y),
                time(write.last().y),
                time(tcp.last().y)
            )
        },
        ..chart.clone()
    };
    let native = Figure {
        name: "thesis6.3",
        source: "VIA-RPI for LAM, figure 6.3",
        title: "MPI and the VIA below it",
        series: vec![mpi(), via_send()],
        paper: "MPI's curve ran parallel to that of VIA itself, without anomalies: MPI adds a constant.",
        here: |curves| {
            let [mpi, via] = curves else { return String::new() };
            let least = mpi.beside(via).map(|(mpi, via)| mpi.y / via.y).fold(f64::INFINITY, f64::min);
            let most = mpi.beside(via).map(|(mpi, via)| mpi.y / via.y).fold(0.0, f64::max);
            let beside = |mpi: f64, via: f64| {
                format!("{} {}", time((mpi - via).abs()), if mpi < via { "less" } else { "more" })
            };
            format!(
                "MPI takes {} than raw VIA by descriptors at {}, and {} at {}; its time is {} to {} that of VIA.",
                beside(mpi.first().y, via.first().y),
                bytes(mpi.first().x),
                beside(mpi.last().y, via.last().y),
                bytes(mpi.last().x),
                ratio(least),
                ratio(most)
            )
        },
        ..chart.clone()
    };
    vec![registration(&chart), chart.clone(), details, native, broadcast(&chart)]
}

fn registration(like: &Figure) -> Figure {
    Figure {
        name: "thesis4.2",
        source: "VIA-RPI for LAM, figure 4.2",
        title: "A copy beside a registration",
        series: vec![
            job("a copy", 1, &[], Measure::Copy, REGISTRATION),
            job("registration (private memory)", 1, &[], Measure::RegisterPrivate, REGISTRATION),
            job("registration (job memory)", 1, &[], Measure::RegisterJob, REGISTRATION),
        ],
        paper: "A registration cost much more than a short copy, and much less than a long copy. So tiny messages were copied, short messages \
                were sent from registered memory, and long messages were written directly into the receiver's memory.",
        here: |curves| {
            let [copy, private, job] = curves else { return String::new() };
            let from = |curve: &Curve| match below_from(curve, copy) {
                Some(x) => format!("costs less than a copy from {} on", bytes(x)),
                None => "never costs less than a copy".to_owned(),
            };
            format!(
                "A registration and its end take {} at {} and {} at {} (private memory), {} and {} (job memory). \
                 Private memory {}, job memory {}.",
                time(private.first().y),
                bytes(private.first().x),
                time(private.last().y),
                bytes(private.last().x),
                time(job.first().y),
                time(job.last().y),
                from(private),
                from(job)
            )
        },
        ..like.clone()
    }
}

fn broadcast(like: &Figure) -> Figure {
    Figure {
        name: "thesis6.7",
        source: "VIA-RPI for LAM, figure 6.7",
        title: "Broadcast among 4 tasks",
        series: vec![
            job("MPI_Bcast", 4, &[], Measure::MpiBroadcast, BROADCAST),
            job("TCP broadcast", 4, &[], Measure::TcpBroadcast, BROADCAST),
        ],
        paper: "For short messages the broadcast over VIA took less than half of the time of the broadcast over TCP, and it was faster at all lengths.",
        here: |curves| {
            let [mpi, tcp] = curves else { return String::new() };
            let last = mpi.last();
            format!(
                "{}. At {} each task gets {:.0} MB/s by MPI_Bcast and {:.0} MB/s by TCP.",
                times_of(tcp, mpi),
                bytes(last.x),
                rate(last),
                rate(tcp.last())
            )
        },
        ..like.clone()
    }
}
