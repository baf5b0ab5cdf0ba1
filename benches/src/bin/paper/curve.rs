//! A measured curve, and the texts about it.

use am_examples::statistics::median;

/// The results of the rounds at one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Bytes, tasks, or the number of a kernel.
    pub(crate) x: f64,
    /// The median of the rounds.
    pub(crate) y: f64,
    /// The lowest of the rounds.
    pub(crate) low: f64,
    /// The highest of the rounds.
    pub(crate) high: f64,
}

impl Point {
    pub(crate) fn of_rounds(x: f64, values: &[f64]) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { x, y: median(values), low, high }
    }
}

/// A measured series of a figure. The values are nanoseconds for one operation, unless the measurement says otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) label: &'static str,
    /// By ascending x; never empty.
    pub(crate) points: Vec<Point>,
}

impl Curve {
    pub(crate) fn first(&self) -> Point {
        self.points[0]
    }

    pub(crate) fn last(&self) -> Point {
        self.points[self.points.len() - 1]
    }

    /// The point whose x is nearest to `x` on a logarithmic scale. A quick page has fewer points, and may have none at `x`.
    pub(crate) fn near(&self, x: f64) -> Point {
        let far = |point: &Point| (point.x.max(0.5).ln() - x.max(0.5).ln()).abs();
        self.points.iter().copied().min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or_else(|| self.first())
    }

    /// The points of this curve and of another one at the same x.
    pub(crate) fn beside<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (Point, Point)> + 'a {
        self.points.iter().filter_map(|point| {
            other.points.iter().find(|other| other.x == point.x).map(|other| (*point, *other))
        })
    }
}

/// The shortest length from which `curve` stays below `other`; `None` if it is not below at the longest.
pub(crate) fn below_from(curve: &Curve, other: &Curve) -> Option<f64> {
    let pairs: Vec<_> = curve.beside(other).collect();
    let below = pairs.iter().rev().take_while(|(point, other)| point.y < other.y);
    below.last().map(|(point, _)| point.x)
}

/// A sentence without its full stop: the ratio of `curve` to `base` at the shortest length, in the middle, and at the longest.
pub(crate) fn times_of(curve: &Curve, base: &Curve) -> String {
    let pairs: Vec<_> = curve.beside(base).collect();
    let mut places = vec![0, pairs.len() / 2, pairs.len().saturating_sub(1)];
    places.dedup();
    let at = |place: &usize| pairs.get(*place).map(|(point, base)| (ratio(point.y / base.y), bytes(point.x)));
    let mut parts: Vec<String> =
        places.iter().filter_map(at).map(|(ratio, x)| format!("{ratio} at {x}")).collect();
    if let (Some(first), Some((ratio, x))) = (parts.first_mut(), at(&0)) {
        *first = format!("{ratio} the time of {} at {x}", base.label);
    }
    format!("{} takes {}", curve.label, listed(&parts))
}

/// `a, b and c`.
pub(crate) fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `1.3 x`.
pub(crate) fn ratio(value: f64) -> String {
    if value < 10.0 { format!("{value:.2} x") } else { format!("{value:.0} x") }
}

/// `12 % less` or `7 % more`: `after` beside `before`.
pub(crate) fn less_or_more(before: f64, after: f64) -> String {
    let percent = saved_percent(before, after);
    // 99.6 % would be 100.
    let digits = usize::from(percent > 99.0);
    format!("{:.digits$} % {}", percent.abs(), if percent < 0.0 { "more" } else { "less" })
}

/// The reduction from `before` to `after` in per cent; negative if `after` is larger.
pub(crate) fn saved_percent(before: f64, after: f64) -> f64 {
    100.0 * (before - after) / before
}

/// A time in nanoseconds, in a suitable unit.
pub(crate) fn time(nanoseconds: f64) -> String {
    match nanoseconds.abs() {
        size if size < 1e3 => format!("{nanoseconds:.0} ns"),
        size if size < 1e6 => format!("{:.2} us", nanoseconds / 1e3),
        _ => format!("{:.2} ms", nanoseconds / 1e6),
    }
}

/// A length, in a suitable unit.
pub(crate) fn bytes(length: f64) -> String {
    const KIB: f64 = 1024.0;
    match length {
        length if length % KIB != 0.0 => format!("{length} B"),
        length if length >= KIB * KIB => format!("{} MiB", length / (KIB * KIB)),
        length => format!("{} KiB", length / KIB),
    }
}

/// The rate in MB/s of messages with the length and the time in nanoseconds of `point`.
pub(crate) fn rate(point: Point) -> f64 {
    point.x * 1e3 / point.y
}
