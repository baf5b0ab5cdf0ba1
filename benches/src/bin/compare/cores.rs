//! The distance between the two cores of a turn: the core-to-core latency of a cache line, which the C program measures before and after
//! all other measurements.
//!
//! The processors of a virtual machine move, within seconds, between cores that share a cache (near) and cores that do not (far), and a
//! short message takes two to four times as long between far cores. A median over near and far turns would compare one library's near turns
//! with another library's far turns.

use crate::row::Row;

/// The name of the C program's row.
pub(crate) const ROW: &str = "core_to_core";
/// A turn is near if its latency is at most this multiple of the least latency of all turns.
pub(crate) const NEAR: f64 = 1.6;

/// Takes the latency out of a turn's rows. Returns the greater of the two values, which were measured before and after all other rows.
pub(crate) fn take(rows: &mut Vec<(Row, f64)>) -> Option<f64> {
    let is_latency = |(row, _): &(Row, f64)| row.0 == ROW;
    let greatest = rows.iter().filter(|row| is_latency(row)).map(|(_, ns)| *ns).reduce(f64::max);
    rows.retain(|row| !is_latency(row));
    greatest
}

/// Whether a turn is near. A turn whose latency was not measured counts as near.
pub(crate) fn is_near(latency: Option<f64>, least: f64) -> bool {
    latency.is_none_or(|ns| ns <= NEAR * least)
}
