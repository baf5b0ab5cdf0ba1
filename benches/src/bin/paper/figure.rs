//! A figure of a paper: its contents, the jobs that measure it here, and the sentence about it.

use crate::curve::{Curve, Point, bytes, rate};
use crate::job::{Effort, Job, Results};

/// The quantity on the x axis.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Along {
    /// The length of a message.
    Bytes,
    /// The number of tasks of the job.
    Tasks,
    /// Names, by number.
    Names(&'static [&'static str]),
}

impl Along {
    pub(crate) fn name(self, x: f64) -> String {
        match self {
            Self::Bytes => bytes(x),
            Self::Tasks => format!("{x} tasks"),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "an index into a short list"
            )]
            Self::Names(names) => {
                names.get(x as usize).map_or_else(|| x.to_string(), |name| (*name).to_owned())
            }
        }
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Bytes => "message length",
            Self::Tasks => "tasks",
            Self::Names(_) => "kernel",
        }
    }
}

/// How a measured value is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quantity {
    /// Nanoseconds, as microseconds.
    Time,
    /// Nanoseconds of a message, as MB/s.
    Rate,
    /// The value itself, with its name and unit.
    Plain(&'static str),
}

impl Quantity {
    pub(crate) fn value(self, point: Point) -> f64 {
        match self {
            Self::Time => point.y / 1e3,
            Self::Rate => rate(point),
            Self::Plain(_) => point.y,
        }
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Time => "time, us",
            Self::Rate => "bandwidth, MB/s",
            Self::Plain(description) => description,
        }
    }
}

/// The form of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Curves over logarithmic axes, and the numbers below them.
    Chart,
    /// The numbers alone.
    Table,
}

/// A curve of a figure, with the jobs that supply its points.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) label: &'static str,
    pub(crate) jobs: Vec<Job>,
}

#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// The name for `--only`.
    pub(crate) name: &'static str,
    /// The paper and its figure.
    pub(crate) source: &'static str,
    pub(crate) title: &'static str,
    pub(crate) form: Form,
    pub(crate) along: Along,
    pub(crate) quantity: Quantity,
    /// Only points up to this x are shown, since several figures show parts of the same curves.
    pub(crate) x_max: f64,
    pub(crate) series: Vec<Series>,
    /// The paper's result, in our words.
    pub(crate) paper: &'static str,
    /// The result here, from the curves of this run.
    pub(crate) here: fn(&[Curve]) -> String,
}

/// A figure with its numbers.
pub(crate) struct Drawn<'a> {
    pub(crate) figure: &'a Figure,
    pub(crate) curves: Vec<Curve>,
    pub(crate) here: String,
}

impl Figure {
    pub(crate) fn draw(&self, results: &Results) -> Drawn<'_> {
        let curve = |series: &Series| {
            let mut points: Vec<Point> = series
                .jobs
                .iter()
                .flat_map(|job| results.points(job))
                .filter(|point| point.x <= self.x_max)
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Curve { label: series.label, points }
        };
        let curves: Vec<Curve> = self.series.iter().map(curve).collect();
        let here = (self.here)(&curves);
        Drawn { figure: self, curves, here }
    }

    /// The command that repeats this figure.
    pub(crate) fn command(&self) -> String {
        format!("cargo run --release -p am-benches --bin paper -- --only {}", self.name)
    }
}

impl Drawn<'_> {
    pub(crate) fn json(&self, effort: &Effort) -> serde_json::Value {
        let series: Vec<_> = self
            .figure
            .series
            .iter()
            .zip(&self.curves)
            .map(|(series, curve)| {
                let commands: Vec<String> = series.jobs.iter().map(|job| job.command(effort)).collect();
                let points: Vec<_> = curve
                    .points
                    .iter()
                    .map(|point| serde_json::json!({ "x": point.x, "median": point.y, "low": point.low, "high": point.high }))
                    .collect();
                serde_json::json!({ "label": series.label, "commands": commands, "points": points })
            })
            .collect();
        serde_json::json!({
            "name": self.figure.name, "source": self.figure.source, "title": self.figure.title,
            "command": self.figure.command(), "paper": self.figure.paper, "here": self.here, "series": series,
        })
    }
}

/// The jobs of these figures, each once.
pub(crate) fn jobs_of(figures: &[Figure]) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for job in figures.iter().flat_map(|figure| &figure.series).flat_map(|series| &series.jobs) {
        if !jobs.contains(job) {
            jobs.push(*job);
        }
    }
    jobs
}
