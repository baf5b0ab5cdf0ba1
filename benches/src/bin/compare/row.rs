//! A row of the comparison, and its value of one run.

/// The name of a measurement, and its number of bytes (for kernels, first_alltoall, memory and start: of tasks).
pub(crate) type Row = (String, u64);

/// A line of the C program: NAME BYTES NANOSECONDS.
pub(crate) fn parse(line: &str) -> Option<(Row, f64)> {
    let mut words = line.split_whitespace();
    let row = (words.next()?.to_owned(), words.next()?.parse().ok()?);
    Some((row, words.next()?.parse().ok()?))
}
