//! The figures of the page, in its order.

mod lapi;
mod mpich2;
mod portals;
mod thesis;

use crate::figure::{Figure, Series};
use crate::job::{Job, Program};
use crate::measure::Measure;

type Settings = &'static [(&'static str, &'static str)];

pub(crate) fn all() -> Vec<Figure> {
    [lapi::figures(), thesis::figures(), mpich2::figures(), portals::figures()].concat()
}

/// A curve from one job of two tasks.
fn pair(label: &'static str, settings: Settings, measure: Measure, lengths: &'static [usize]) -> Series {
    job(label, 2, settings, measure, lengths)
}

/// A curve from one job.
fn job(
    label: &'static str,
    tasks: u32,
    settings: Settings,
    measure: Measure,
    lengths: &'static [usize],
) -> Series {
    Series { label, jobs: vec![Job { tasks, settings, program: Program::Measure(measure, lengths) }] }
}
