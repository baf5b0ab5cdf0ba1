//! The measured values by row and library, and the comparison of our values with those of the peers.

use std::collections::BTreeMap;
use std::fmt;

use am_examples::statistics::median;

use crate::cores::{self, NEAR};
use crate::libraries::{BEFORE, OURS};
use crate::marks::{self, Kind, Mark};
use crate::row::Row;

/// A value, with the core-to-core latency of its turn where that was measured.
#[derive(Clone, Copy)]
struct Value {
    ns: f64,
    latency: Option<f64>,
}

/// The values of a row, by library.
type Values = BTreeMap<String, Vec<Value>>;

/// All values, in the order of their rows.
pub(crate) struct Table {
    libraries: Vec<String>,
    rows: Vec<(Row, Values)>,
    /// The core-to-core latency of each turn in which it was measured, with the library that had the turn.
    latencies: Vec<(String, f64)>,
    /// The rows that are asked for; see [`is_asked_for`].
    only: Vec<String>,
}

/// The comparison of a row.
pub(crate) struct Standing {
    pub(crate) kind: Kind,
    pub(crate) mark: Option<Mark>,
    /// Ratio of ours to the best peer, with the peer's name; `None` without a peer.
    pub(crate) ratio: Option<(f64, String)>,
    /// Whether every peer with which the mark is judged has run.
    pub(crate) is_judged: bool,
    /// Ratio of ours to the older build.
    pub(crate) before: Option<f64>,
    /// Spread of our rounds, relative to their median.
    pub(crate) spread: f64,
    medians: BTreeMap<String, f64>,
    /// Whether values of near and far turns were compared, because a library has no near turn.
    is_mixed: bool,
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

/// Whether a measurement is among those of `--only`: all are, if it names none.
pub(crate) fn is_asked_for(name: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|asked| asked == name)
}

impl Table {
    pub(crate) fn new(libraries: impl Iterator<Item = String>) -> Self {
        Self { libraries: libraries.collect(), rows: Vec::new(), latencies: Vec::new(), only: Vec::new() }
    }

    /// Leaves out second rows that are not asked for.
    pub(crate) fn only(self, only: &[String]) -> Self {
        Self { only: only.to_vec(), ..self }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds the rows of one turn of `library`, and returns the core-to-core latency among them.
    pub(crate) fn add(&mut self, library: &str, mut rows: Vec<(Row, f64)>) -> Option<f64> {
        let latency = cores::take(&mut rows);
        self.latencies.extend(latency.map(|latency| (library.to_owned(), latency)));
        for (row, ns) in rows {
            let bytes = row.1;
            let beside: Vec<_> = marks::beside(&row.0, ns)
                .filter(|(name, ..)| library == OURS && is_asked_for(name, &self.only))
                .collect();
            self.put(row, library, Value { ns, latency });
            for (name, column, ns) in beside {
                self.put((name.to_owned(), bytes), column, Value { ns, latency });
            }
        }
        latency
    }

    /// Adds a value, and its column if the table does not have the column yet.
    fn put(&mut self, row: Row, column: &str, value: Value) {
        if !self.libraries.iter().any(|known| known == column) {
            self.libraries.push(column.to_owned());
        }
        let at = self.rows.iter().position(|(known, _)| *known == row).unwrap_or_else(|| {
            self.rows.push((row, Values::new()));
            self.rows.len() - 1
        });
        self.rows[at].1.entry(column.to_owned()).or_default().push(value);
    }

    /// The least core-to-core latency of all turns, in ns; infinite if it was not measured.
    pub(crate) fn least_latency(&self) -> f64 {
        self.latencies.iter().map(|(_, latency)| *latency).fold(f64::INFINITY, f64::min)
    }

    /// The rows with their standings.
    pub(crate) fn standings(&self) -> impl Iterator<Item = (&Row, Standing)> {
        let least = self.least_latency();
        self.rows.iter().map(move |(row, values)| (row, standing(row, values, least)))
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let rows = self.rows.iter().zip(self.standings());
        let rows = rows.flat_map(|(((what, bytes), by_library), (_, standing))| {
            by_library.iter().map(move |(library, values)| {
                let rounds: Vec<f64> = values.iter().map(|value| value.ns).collect();
                let latencies: Vec<Option<f64>> = values.iter().map(|value| value.latency).collect();
                serde_json::json!({
                    "what": what, "bytes": bytes, "library": library, "median": standing.medians.get(library),
                    "rounds": rounds, "core_to_core": latencies,
                })
            })
        });
        rows.collect()
    }

    /// The text below the rows about the distance of the cores, if it was measured.
    fn write_distance(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = self.least_latency();
        if least.is_infinite() {
            return Ok(());
        }
        write!(
            f,
            "A cache line takes at least {least:.0} ns from core to core. Near turns (at most {NEAR} x that):"
        )?;
        let had_turns = |name: &&String| self.latencies.iter().any(|(library, _)| library == *name);
        for (at, name) in self.libraries.iter().filter(had_turns).enumerate() {
            let turns = || self.latencies.iter().filter(|(library, _)| library == name);
            let near = turns().filter(|(_, latency)| cores::is_near(Some(*latency), least)).count();
            write!(f, "{} {name} {near} of {}", if at == 0 { "" } else { "," }, turns().count())?;
        }
        writeln!(
            f,
            ".\nOnly near turns count. In a row with 'mixed' all turns count, since a library has no near turn."
        )
    }
}

/// The values of a row that count, by library, and whether near and far turns are mixed. If each library has a near turn, only near turns
/// count; otherwise all turns do.
fn counted(values: &Values, least: f64) -> (BTreeMap<String, Vec<f64>>, bool) {
    let is_near = |value: &Value| cores::is_near(value.latency, least);
    let all_have_near = values.values().all(|values| values.iter().any(is_near));
    let by_library = values.iter().map(|(library, values)| {
        let counted = values.iter().filter(|value| !all_have_near || is_near(value));
        (library.clone(), counted.map(|value| value.ns).collect())
    });
    (by_library.collect(), !all_have_near)
}

fn standing((name, bytes): &Row, values: &Values, least: f64) -> Standing {
    let (values, is_mixed) = counted(values, least);
    let medians: BTreeMap<_, _> =
        values.iter().map(|(library, values)| (library.clone(), median(values))).collect();
    let of = |library: &str| medians.get(library).copied();
    let kind = marks::kind(name);
    let ratio_to = |other: f64| {
        of(OURS).map(|ours| match kind {
            Kind::Less => ours / other,
            Kind::Rate => other / ours,
        })
    };
    let best = medians
        .iter()
        .filter(|(library, _)| ![OURS, BEFORE].contains(&library.as_str()) && marks::is_judge(name, library))
        .map(|(library, median)| (*median, library.clone()))
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
        medians,
        is_mixed,
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_before = self.libraries.iter().any(|library| library == BEFORE);
        write!(f, "{:<18} {:>8}", "ns a message", "bytes")?;
        self.libraries.iter().try_for_each(|library| write!(f, " {library:>12}"))?;
        write!(f, " {:>7}", "spread")?;
        if has_before {
            write!(f, " {:>9}", "x before")?;
        }
        writeln!(f, " {:>7} {:<12} {:>5} {:>5}", "x best", "peer", "reach", "aim")?;
        for (row, standing) in self.standings() {
            write!(f, "{:<18} {:>8}", row.0, row.1)?;
            for library in &self.libraries {
                match standing.medians.get(library) {
                    Some(median) => write!(f, " {median:>12.1}")?,
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
            if let Some(mark) = standing.mark {
                write!(f, " {:>5} {:>5}  {}", mark.reach, mark.aim, standing.verdict())?;
            }
            writeln!(f, "{}", if standing.is_mixed { "  mixed" } else { "" })?;
        }
        self.write_distance(f)?;
        writeln!(
            f,
            "x best, x before: ratio of ours to the best peer, or to the older build. Times: less is better. Streams, as rates: more is better."
        )?;
        writeln!(
            f,
            "Memory is in bytes of a task. The second column of memory, start, first_alltoall and kernels is the number of tasks."
        )?;
        writeln!(
            f,
            "Columns that are not libraries: amsend of {OURS}; by_hand, a loop in C for the same; limit, a mark that is a time."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of two libraries. Each turn is given by its library, its core-to-core latency and the time of its message.
    fn table(turns: &[(&str, f64, f64)]) -> Table {
        let mut table = Table::new([OURS.to_owned(), "mpich".to_owned()].into_iter());
        for &(library, latency, ns) in turns {
            let rows = vec![
                ((cores::ROW.to_owned(), 64), 20.0),
                (("latency_new".to_owned(), 8), ns),
                ((cores::ROW.to_owned(), 64), latency),
            ];
            assert_eq!(table.add(library, rows), Some(latency));
        }
        table
    }

    fn only_row(table: &Table) -> Standing {
        let mut rows: Vec<_> = table.standings().collect();
        assert_eq!(rows.len(), 1, "the cores' distance is not a row");
        rows.remove(0).1
    }

    #[test]
    fn far_turns_do_not_count() {
        let turns = [(OURS, 25.0, 100.0), (OURS, 90.0, 300.0), (OURS, 90.0, 310.0), ("mpich", 30.0, 200.0)];
        let standing = only_row(&table(&turns));
        assert!(!standing.is_mixed);
        assert_eq!(standing.medians[OURS], 100.0);
        assert_eq!(standing.ratio, Some((0.5, "mpich".to_owned())));
    }

    #[test]
    fn a_peer_that_is_only_shown_does_not_judge() {
        let mut table = Table::new([OURS, "mpich", "impi", "openmpi"].map(str::to_owned).into_iter());
        for (library, ns) in [(OURS, 100.0), ("mpich", 200.0), ("impi", 180.0), ("openmpi", 50.0)] {
            table.add(library, vec![(("hosts_latency".to_owned(), 8), ns)]);
        }
        assert_eq!(only_row(&table).ratio, Some((100.0 / 180.0, "impi".to_owned())));
    }

    #[test]
    fn a_row_is_judged_only_if_all_its_peers_have_run() {
        let mut table =
            Table::new([OURS, "mpich", "openmpi", "openmpi-ucx", "impi"].map(str::to_owned).into_iter());
        let verdict =
            |table: &Table| (only_row(table).verdict(), table.to_string().contains("  not judged\n"));
        for (library, ns) in [(OURS, 100.0), ("mpich", 200.0), ("openmpi", 190.0), ("openmpi-ucx", 200.0)] {
            table.add(library, vec![(("barrier".to_owned(), 0), ns)]);
            assert_eq!(verdict(&table), ("not judged", true));
        }
        table.add("impi", vec![(("barrier".to_owned(), 0), 250.0)]);
        assert_eq!(verdict(&table), ("aim", false));
    }

    #[test]
    fn our_own_measurement_judges_another_one() {
        let mut table = Table::new([OURS, BEFORE].map(str::to_owned).into_iter());
        let rows = |name: &str, ns| vec![((name.to_owned(), 8), ns)];
        table.add(OURS, rows("mpi_beside_amsend", 104.0));
        assert_eq!(only_row(&table).verdict(), "not judged");
        let mut without = Table::new([OURS.to_owned()].into_iter()).only(&["amsend".to_owned()]);
        without.add(OURS, rows("amsend", 100.0));
        assert_eq!(without.standings().count(), 1, "the second row is not asked for");
        table.add(OURS, rows("amsend", 100.0));
        // The older build's amsend is not a judge.
        table.add(BEFORE, rows("amsend", 50.0));
        let (_, standing) = table.standings().next().unwrap();
        assert_eq!((standing.verdict(), standing.ratio), ("reached", Some((1.04, "amsend".to_owned()))));
    }

    #[test]
    fn packing_is_judged_by_the_loop_and_by_the_peers() {
        let mut table = Table::new([OURS, "mpich"].map(str::to_owned).into_iter());
        for (library, packed, loop_ns) in [(OURS, 106.0, 100.0), ("mpich", 200.0, 50.0)] {
            let row = |name: &str, ns| ((name.to_owned(), 8), ns);
            table.add(library, vec![row("pack_by_hand", loop_ns), row("pack_vector", packed)]);
        }
        let ratio = |name: &str| table.standings().find(|(row, _)| row.0 == name).unwrap().1.ratio.unwrap();
        assert_eq!(ratio("pack_beside_loop"), (1.06, "by_hand".to_owned()));
        assert_eq!(ratio("pack_vector"), (0.53, "mpich".to_owned()));
    }

    #[test]
    fn all_turns_count_if_a_library_has_no_near_one() {
        let turns = [(OURS, 25.0, 100.0), (OURS, 90.0, 300.0), (OURS, 90.0, 310.0), ("mpich", 90.0, 600.0)];
        let table = table(&turns);
        let standing = only_row(&table);
        assert!(standing.is_mixed);
        assert_eq!(standing.medians[OURS], 300.0);
        assert!(table.to_string().contains("am-via 1 of 3, mpich 0 of 1"), "{table}");
    }
}
