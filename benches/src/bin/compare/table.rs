//! The measured values by row and library, and the comparison with ours.

use std::collections::BTreeMap;
use std::fmt;

use am_examples::statistics::median;

use crate::libraries::{BEFORE, OURS};
use crate::marks::{self, Kind, Mark};

/// The name of a measurement, and its number of bytes (for kernels, memory and start: of tasks).
pub(crate) type Row = (String, u64);

/// A line of the C program: NAME BYTES NANOSECONDS.
pub(crate) fn parse(line: &str) -> Option<(Row, f64)> {
    let mut words = line.split_whitespace();
    let row = (words.next()?.to_owned(), words.next()?.parse().ok()?);
    Some((row, words.next()?.parse().ok()?))
}

/// All values, in the order of their rows.
pub(crate) struct Table {
    libraries: Vec<String>,
    rows: Vec<(Row, BTreeMap<String, Vec<f64>>)>,
}

/// The comparison of a row.
pub(crate) struct Standing {
    pub(crate) kind: Kind,
    pub(crate) mark: Option<Mark>,
    /// Ratio of ours to the best peer, with its name; `None` without a peer.
    pub(crate) ratio: Option<(f64, String)>,
    /// Whether every peer that the mark is judged by has run.
    pub(crate) is_judged: bool,
    /// Ratio of ours to the older build.
    pub(crate) before: Option<f64>,
    /// Spread of our rounds, relative to their median.
    pub(crate) spread: f64,
}

impl Standing {
    pub(crate) fn verdict(&self) -> &'static str {
        match (self.mark, &self.ratio) {
            (None, _) => "",
            (Some(mark), Some((ratio, _))) if self.is_judged => mark.verdict(self.kind, *ratio),
            _ => "not judged",
        }
    }
}

impl Table {
    pub(crate) fn new(libraries: impl Iterator<Item = String>) -> Self {
        Self { libraries: libraries.collect(), rows: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn add(&mut self, row: Row, library: &str, value: f64) {
        let at = self.rows.iter().position(|(known, _)| *known == row).unwrap_or_else(|| {
            self.rows.push((row, BTreeMap::new()));
            self.rows.len() - 1
        });
        self.rows[at].1.entry(library.to_owned()).or_default().push(value);
    }

    /// The rows with their standings.
    pub(crate) fn standings(&self) -> impl Iterator<Item = (&Row, Standing)> {
        self.rows.iter().map(|(row, values)| (row, standing(row, values)))
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let rows = self.rows.iter().flat_map(|((what, bytes), by_library)| {
            by_library.iter().map(move |(library, values)| {
                serde_json::json!({
                    "what": what, "bytes": bytes, "library": library, "median": median(values), "rounds": values,
                })
            })
        });
        rows.collect()
    }
}

fn standing((name, bytes): &Row, values: &BTreeMap<String, Vec<f64>>) -> Standing {
    let of = |library: &str| values.get(library).map(|values| median(values));
    let kind = marks::kind(name);
    let ratio_to = |other: f64| {
        of(OURS).map(|ours| match kind {
            Kind::Less => ours / other,
            Kind::Rate => other / ours,
        })
    };
    let best = values
        .iter()
        .filter(|(library, _)| library.as_str() != OURS && library.as_str() != BEFORE)
        .map(|(library, values)| (median(values), library.clone()))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let ours = values.get(OURS).map_or(&[][..], Vec::as_slice);
    let (least, most) = ours
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), &value| (least.min(value), most.max(value)));
    Standing {
        kind,
        mark: marks::mark(name, *bytes),
        ratio: best.and_then(|(other, library)| Some((ratio_to(other)?, library))),
        is_judged: marks::peers(name).iter().all(|peer| values.contains_key(*peer)),
        before: of(BEFORE).and_then(ratio_to),
        spread: if ours.is_empty() { f64::NAN } else { (most - least) / median(ours) },
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_before = self.libraries.iter().any(|library| library == BEFORE);
        write!(f, "{:<17} {:>8}", "ns a message", "bytes")?;
        self.libraries.iter().try_for_each(|library| write!(f, " {library:>12}"))?;
        write!(f, " {:>7}", "spread")?;
        if has_before {
            write!(f, " {:>9}", "x before")?;
        }
        writeln!(f, " {:>7} {:<12} {:>5} {:>5}", "x best", "peer", "reach", "aim")?;
        for ((row, values), (_, standing)) in self.rows.iter().zip(self.standings()) {
            write!(f, "{:<17} {:>8}", row.0, row.1)?;
            for library in &self.libraries {
                match values.get(library) {
                    Some(values) => write!(f, " {:>12.1}", median(values))?,
                    None => write!(f, " {:>12}", "-")?,
                }
            }
            write!(f, " {:>6.0}%", standing.spread * 100.0)?;
            if has_before {
                match standing.before {
                    Some(ratio) => write!(f, " {ratio:>9.2}")?,
                    None => write!(f, " {:>9}", "-")?,
                }
            }
            match &standing.ratio {
                Some((ratio, peer)) => write!(f, " {ratio:>7.2} {peer:<12}")?,
                None => write!(f, " {:>7} {:<12}", "-", "")?,
            }
            match standing.mark {
                Some(mark) => writeln!(f, " {:>5} {:>5}  {}", mark.reach, mark.aim, standing.verdict())?,
                None => writeln!(f)?,
            }
        }
        writeln!(
            f,
            "x best, x before: ours to the other one; a time: less is better; a stream: as a rate, more is better."
        )?;
        writeln!(
            f,
            "Memory is in bytes of a task. The second column of memory, start and kernels is the number of tasks."
        )
    }
}
