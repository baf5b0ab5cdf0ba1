//! MPI-LAPI: M. Banikazemi, R. K. Govindaraju, R. Blackmore, D. K. Panda, "MPI-LAPI: An Efficient Implementation of MPI for IBM RS/6000 SP
//! Systems", figures 13 to 18 and table 3.

use super::{Settings, pair};
use crate::curve::{Curve, below_from, bytes, less_or_more, rate, ratio, saved_percent, time, times_of};
use crate::figure::{Along, Figure, Form, Quantity, Series};
use crate::job::{Job, Program};
use crate::measure::Measure;

/// The paper's eager limit in all its experiments.
const EAGER_LIMIT: f64 = 4096.0;
const LENGTHS: &[usize] = &[4, 16, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
const STREAM: &[usize] = &[64, 256, 1024, 4096, 16384, 65536, 262_144, 1 << 20];
const INTERRUPTS: &[usize] = &[4, 64, 1024, 4096, 16384, 65536];

const BASE: Settings = &[("AM_COMPLETION", "thread"), ("AM_EAGER_LIMIT_BYTES", "4096")];
const COUNTERS: Settings = &[("AM_COMPLETION", "counter"), ("AM_EAGER_LIMIT_BYTES", "4096")];
const ENHANCED: Settings = &[("AM_COMPLETION", "in-context"), ("AM_EAGER_LIMIT_BYTES", "4096")];
/// As in native MPI: all data pass through buffers of the library at both ends.
const STAGED: Settings = &[("AM_MEMORY", "staged"), ("AM_EAGER_LIMIT_BYTES", "4096")];

const KERNELS: &[&str] = &["BT", "CG", "EP", "FT", "IS", "LU", "MG", "SP"];

fn raw() -> Series {
    pair("raw LAPI (put)", &[], Measure::Put, LENGTHS)
}

fn base() -> Series {
    pair("base MPI (handler thread)", BASE, Measure::Mpi, LENGTHS)
}

fn counters() -> Series {
    pair("MPI with counters", COUNTERS, Measure::Mpi, LENGTHS)
}

fn enhanced() -> Series {
    pair("enhanced MPI (in context)", ENHANCED, Measure::Mpi, LENGTHS)
}

pub(super) fn figures() -> Vec<Figure> {
    let chart = Figure {
        name: "lapi13",
        source: "MPI-LAPI, figure 13",
        title: "Raw LAPI and the base MPI",
        form: Form::Chart,
        along: Along::Bytes,
        quantity: Quantity::Time,
        x_max: f64::INFINITY,
        series: vec![raw(), base()],
        paper: "The base MPI runs a completion handler on a thread of its own for each message. It took far longer than LAPI itself, more \
                than matching could explain: most of it was the switch to that thread.",
        here: |curves| {
            let [raw, base] = curves else { return String::new() };
            let (first, last) = (raw.first().x, raw.last().x);
            format!(
                "{}. The thread and all of MPI cost {} a message at {} and {} at {}.",
                times_of(base, raw),
                time(base.near(first).y - raw.near(first).y),
                bytes(first),
                time(base.near(last).y - raw.near(last).y),
                bytes(last)
            )
        },
    };
    vec![
        Figure {
            name: "lapi14",
            source: "MPI-LAPI, figure 14",
            title: "Raw LAPI and MPI with counters",
            series: vec![raw(), base(), counters()],
            paper: "Target counters instead of completion handlers brought eager messages (up to 4 KiB) much nearer to LAPI. The request of \
                    a rendezvous still needs its handler, so longer messages gained nothing.",
            here: |curves| {
                let [raw, base, counters] = curves else { return String::new() };
                let (eager, long) = (counters.near(EAGER_LIMIT).x, counters.last().x);
                format!(
                    "Beside the base, counters take {} time at {}, {} at {}, the longest eager message, and {} at {}. {}.",
                    less_or_more(base.first().y, counters.first().y),
                    bytes(counters.first().x),
                    less_or_more(base.near(eager).y, counters.near(eager).y),
                    bytes(eager),
                    less_or_more(base.near(long).y, counters.near(long).y),
                    bytes(long),
                    times_of(counters, raw)
                )
            },
            ..chart.clone()
        },
        Figure {
            name: "lapi15",
            source: "MPI-LAPI, figure 15",
            title: "Raw LAPI and all versions of MPI",
            series: vec![raw(), base(), counters(), enhanced()],
            paper: "Predefined completions that run in the polling context brought all lengths very close to LAPI. What was left is the \
                    posting and matching of receives, and the locks around them.",
            here: |curves| {
                let [raw, base, counters, enhanced] = curves else { return String::new() };
                let (shortest, cost) = (bytes(raw.first().x), enhanced.first().y - raw.first().y);
                let cost = if cost < 0.0 {
                    format!("A message of {shortest} takes {} less than a put with its counter", time(-cost))
                } else {
                    format!("Matching and all else of MPI cost {} at {shortest}", time(cost))
                };
                format!(
                    "{}. {cost}. Completion in context takes {} time than the handler thread there, and {} than counters.",
                    times_of(enhanced, raw),
                    less_or_more(base.first().y, enhanced.first().y),
                    less_or_more(counters.first().y, enhanced.first().y)
                )
            },
            ..chart.clone()
        },
        Figure {
            name: "lapi16",
            source: "MPI-LAPI, figure 16",
            title: "Latency with and without copies through the library's buffers",
            series: vec![pair("staged MPI (as native MPI)", STAGED, Measure::Mpi, LENGTHS), enhanced()],
            paper: "Native MPI copied data through pipe buffers at both ends. MPI-LAPI was slightly slower for very short messages, since LAPI \
                    checks more and its headers are longer (48 bytes, not 16), and faster above 256 bytes, by up to 17.3 %.",
            here: |curves| {
                let [staged, direct] = curves else { return String::new() };
                let gain = staged
                    .beside(direct)
                    .map(|(staged, direct)| (staged.x, saved_percent(staged.y, direct.y)))
                    .max_by(|a, b| a.1.total_cmp(&b.1));
                let (at, percent) = gain.unwrap_or((staged.first().x, 0.0));
                let from = match below_from(direct, staged) {
                    Some(x) => format!("It is faster at all lengths from {} on", bytes(x)),
                    None => "It is not faster at the longest length".to_owned(),
                };
                format!(
                    "{}. {from}; it saves at most {percent:.1} %, at {}.",
                    times_of(direct, staged),
                    bytes(at)
                )
            },
            ..chart.clone()
        },
        Figure {
            name: "lapi17",
            source: "MPI-LAPI, figure 17",
            title: "Bandwidth with and without copies through the library's buffers",
            quantity: Quantity::Rate,
            series: vec![
                pair("staged MPI (as native MPI)", STAGED, Measure::MpiStream, STREAM),
                pair("enhanced MPI (in context)", ENHANCED, Measure::MpiStream, STREAM),
            ],
            paper: "Back-to-back MPI_Isend up to the answer to the last one. MPI-LAPI was ahead over a wide range: at 64 KiB 83.35 MB/s, 20.9 % \
                    more than native MPI's 68.93 MB/s.",
            here: |curves| {
                let [staged, direct] = curves else { return String::new() };
                let (before, now) = (staged.near(65536.0), direct.near(65536.0));
                format!(
                    "At {} the stream moves {:.0} MB/s directly and {:.0} MB/s through buffers, {}; at {} {:.0} and {:.0} MB/s.",
                    bytes(now.x),
                    rate(now),
                    rate(before),
                    ratio(rate(now) / rate(before)),
                    bytes(direct.last().x),
                    rate(direct.last()),
                    rate(staged.last())
                )
            },
            ..chart.clone()
        },
        Figure {
            name: "lapi18",
            source: "MPI-LAPI, figure 18",
            title: "Interrupt mode: a message and its acknowledgement",
            series: vec![
                pair("amsend, target polls", &[], Measure::AmsendPolled, INTERRUPTS),
                pair("amsend, target sleeps", &[], Measure::AmsendInterrupted, INTERRUPTS),
                pair("amsend, target computes", &[], Measure::AmsendComputing, INTERRUPTS),
                pair("MPI_Ssend, target computes", &[], Measure::SsendComputing, INTERRUPTS),
            ],
            paper: "The receiver computes, and an interrupt takes the message. MPI-LAPI was 35.8 % faster than native MPI at 4 bytes, since \
                    native MPI's interrupt handler lingers to see whether more comes, and LAPI's does not.",
            here: |curves| {
                let [polls, sleeps, computes, ssend] = curves else { return String::new() };
                let first = polls.first();
                format!(
                    "At {} a message and its acknowledgement take {} when the target polls, {} when its progress thread is woken, {} when \
                     that thread takes the processor from a computation, and {} by MPI_Ssend to a computing task. At {} the interrupt of a \
                     computing target costs {} the time of polling.",
                    bytes(first.x),
                    time(first.y),
                    time(sleeps.first().y),
                    time(computes.first().y),
                    time(ssend.first().y),
                    bytes(polls.last().x),
                    ratio(computes.last().y / polls.last().y)
                )
            },
            ..chart.clone()
        },
        Figure {
            name: "lapi18-computation",
            source: "MPI-LAPI, beside figure 18",
            title: "What interrupts leave of the target's computation",
            form: Form::Table,
            quantity: Quantity::Plain("speed of the computation, % of that alone"),
            series: vec![pair("amsend, target computes", &[], Measure::ComputationLeft, INTERRUPTS)],
            paper: "Interrupt mode is for programs that compute while messages come; the paper measured what it costs the message, not what it \
                    costs the computation.",
            here: |curves| {
                let [left] = curves else { return String::new() };
                format!(
                    "While messages come as fast as they are acknowledged, {:.0} % of the computation's speed is left at {}, and {:.0} % at {}.",
                    left.first().y,
                    bytes(left.first().x),
                    left.last().y,
                    bytes(left.last().x)
                )
            },
            ..chart.clone()
        },
        kernels(&chart),
    ]
    .into_iter()
    .fold(vec![chart], |mut all, figure| {
        all.push(figure);
        all
    })
}

fn kernels(like: &Figure) -> Figure {
    let series = |label: &'static str, settings: Settings| Series {
        label,
        jobs: [
            ("nas_bt", "S"),
            ("nas_cg", "W"),
            ("nas_ep", "S"),
            ("nas_ft", "S"),
            ("nas_is", "W"),
            ("nas_lu", "S"),
            ("nas_mg", "W"),
            ("nas_sp", "S"),
        ]
        .into_iter()
        .enumerate()
        .map(|(x, (name, class))| Job { tasks: 2, settings, program: Program::Kernel { name, class, x } })
        .collect(),
    };
    Figure {
        name: "lapi-table3",
        source: "MPI-LAPI, table 3",
        title: "NAS kernels under each completion",
        form: Form::Table,
        along: Along::Names(KERNELS),
        quantity: Quantity::Plain("best run, Mop/s"),
        series: vec![
            series("base (handler thread)", BASE),
            series("counters", COUNTERS),
            series("enhanced (in context)", ENHANCED),
        ],
        paper: "On four nodes MPI-LAPI beat native MPI by 13.8 % in FT, 5.1 % in BT, 4.6 % in CG, 4.1 % in IS, 1.9 % in LU, and by less than 1 % \
                in EP, MG and SP.",
        here: |curves| {
            let [base, counters, enhanced] = curves else { return String::new() };
            let gains = |before: &Curve| -> String {
                let gains = before.beside(enhanced).map(|(before, now)| {
                    format!(
                        "{} {:+.1} %",
                        Along::Names(KERNELS).name(now.x),
                        100.0 * (now.y / before.y - 1.0)
                    )
                });
                gains.collect::<Vec<_>>().join(", ")
            };
            format!(
                "Two tasks, the same program and data; completion in context beats the handler thread by {}; and counters by {}.",
                gains(base),
                gains(counters)
            )
        },
        ..like.clone()
    }
}
