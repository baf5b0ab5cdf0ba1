//! MPICH2 over VAPI: R. Grabner, F. Mietke, W. Rehm, "An MPICH2 Channel Device Implementation over VAPI on InfiniBand", figure 6 and the
//! table of barriers.

use super::{Settings, job, pair};
use crate::curve::{Curve, bytes, less_or_more, listed, rate, time};
use crate::figure::{Along, Figure, Form, Quantity, Series};
use crate::measure::Measure;

const LENGTHS: &[usize] = &[1024, 4096, 16384, 32768, 65536, 131_072, 262_144, 1 << 20, 4 << 20];
/// Minimum length for which the paper's device uses RDMA.
const THRESHOLD: f64 = 32768.0;
/// A barrier has no length; the x of its job is the number of tasks.
const NO_LENGTH: &[usize] = &[0];
const IN_ROUNDS: Settings =
    &[("AM_COLLECTIVE_ROUNDS_TASKS_MAX", "64"), ("AM_COLLECTIVE_BOARD_TASKS_MAX", "0")];

pub(super) fn figures() -> Vec<Figure> {
    let rdma = Figure {
        name: "mpich2-6",
        source: "MPICH2 over VAPI, figure 6",
        title: "Bandwidth of a ping-pong with and without RDMA and kept registrations",
        form: Form::Chart,
        along: Along::Bytes,
        quantity: Quantity::Rate,
        x_max: f64::INFINITY,
        series: vec![
            pair("VIA, copied at both ends", &[], Measure::ViaCopied, LENGTHS),
            pair("VIA RDMA, registered each time", &[], Measure::ViaRegistered, LENGTHS),
            pair("VIA RDMA, kept registered", &[], Measure::ViaKept, LENGTHS),
            pair("MPI", &[], Measure::Mpi, LENGTHS),
            pair("MPI, staged", &[("AM_MEMORY", "staged")], Measure::Mpi, LENGTHS),
        ],
        paper: "RDMA without a copy lost about two thirds of the bandwidth as long as buffers were registered and deregistered for each message; \
                with registrations that are kept it was ahead of copying.",
        here: |curves| {
            let [copied, registered, kept, mpi, staged] = curves else { return String::new() };
            let last = kept.last().x;
            let at = |curve: &Curve| format!("{:.0}", rate(curve.near(last)));
            format!(
                "At 4 MiB copying at both ends moves {} MB/s, RDMA with a registration each time {}, RDMA with kept registrations {}; MPI moves {}, \
                 and {} where all data are staged. With a registration for each message the bandwidth is {} than with kept \
                 ones at {}, and {} at {}.",
                at(copied),
                at(registered),
                at(kept),
                at(mpi),
                at(staged),
                less_or_more(rate(kept.near(THRESHOLD)), rate(registered.near(THRESHOLD))),
                bytes(kept.near(THRESHOLD).x),
                less_or_more(rate(kept.last()), rate(registered.last())),
                bytes(last)
            )
        },
    };
    let barrier = Figure {
        name: "mpich2-barrier",
        source: "MPICH2 over VAPI, the table of barriers",
        title: "Barrier of 2, 4 and 8 tasks",
        form: Form::Table,
        along: Along::Tasks,
        quantity: Quantity::Time,
        series: vec![
            barriers("MPI_Barrier", &[], Measure::MpiBarrier),
            barriers("MPI_Barrier, dissemination", IN_ROUNDS, Measure::MpiBarrier),
            barriers("TCP, dissemination", &[], Measure::TcpBarrier),
        ],
        paper: "In microseconds for 2 and 4 nodes: this device 9.63 and 18.96; MVAPICH2, which uses RDMA for short messages too, 8.02 and 16.47; \
                MPICH2 by send and receive 13.57 and 26.50.",
        here: |curves| {
            let [chosen, in_rounds, tcp] = curves else { return String::new() };
            let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let row =
                |curve: &Curve| listed(&curve.points.iter().map(|point| time(point.y)).collect::<Vec<_>>());
            format!(
                "Barriers of 2, 4 and 8 tasks take {} (on a board if the tasks outnumber the {processors} processors), {} by dissemination, {} by \
                 dissemination over TCP. Tasks beyond the processors wait for their turn on one.",
                row(chosen),
                row(in_rounds),
                row(tcp)
            )
        },
        ..rdma.clone()
    };
    vec![rdma, barrier]
}

fn barriers(label: &'static str, settings: Settings, measure: Measure) -> Series {
    let jobs = [2, 4, 8].into_iter().flat_map(|tasks| job(label, tasks, settings, measure, NO_LENGTH).jobs);
    Series { label, jobs: jobs.collect() }
}
