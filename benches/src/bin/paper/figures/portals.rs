//! MPICH over Portals: "MPICH 1.2.0 over Portals 3.1", the short and the long protocol. The paper has no measurements; those here show the
//! purpose of its two protocols.

use super::{Settings, pair};
use crate::curve::{Curve, below_from, bytes, ratio, time, times_of};
use crate::figure::{Along, Figure, Form, Quantity, Series};
use crate::measure::Measure;

const LENGTHS: &[usize] = &[64, 512, 2048, 8000, 16384, 32768, 65536, 131_072];
/// The default of MPI_LONG_MSG.
const LIMIT: f64 = 8064.0;
const SHORT: Settings = &[("AM_EAGER_LIMIT_BYTES", "512k"), ("AM_PACKET_BYTES", "512k")];
const LONG: Settings = &[("AM_EAGER_LIMIT_BYTES", "0")];
const BOTH: Settings = &[("AM_EAGER_LIMIT_BYTES", "8064")];

fn protocols(measure: Measure) -> Vec<Series> {
    vec![
        pair("short protocol", SHORT, measure, LENGTHS),
        pair("long protocol", LONG, measure, LENGTHS),
        pair("limit of 8064 bytes", BOTH, measure, LENGTHS),
    ]
}

pub(super) fn figures() -> Vec<Figure> {
    let expected = Figure {
        name: "portals-expected",
        source: "MPICH over Portals, short and long protocol",
        title: "Ping-pong by each protocol",
        form: Form::Chart,
        along: Along::Bytes,
        quantity: Quantity::Time,
        x_max: f64::INFINITY,
        series: protocols(Measure::Mpi),
        paper: "Messages below MPI_LONG_MSG, 8064 bytes by default, use the short protocol: they are sent at once, and kept in a buffer of the library if \
                no receive is posted. Longer messages stay at their sender until they are received. The text has no measurements; the limit is a \
                setting because its best value depends on the machine.",
        here: |curves| {
            let [short, long, both] = curves else { return String::new() };
            let crossing = match below_from(long, short) {
                Some(x) => format!("Announced messages are faster from {} on", bytes(x)),
                None => "Announced messages are not faster at any length up to the longest".to_owned(),
            };
            format!(
                "{}. {crossing}. With the paper's limit a message of {} takes {}, and one of {} {}.",
                times_of(long, short),
                bytes(both.near(LIMIT).x),
                time(both.near(LIMIT).y),
                bytes(both.last().x),
                time(both.last().y)
            )
        },
    };
    let unexpected = Figure {
        name: "portals-unexpected",
        title: "The receive of a message that has arrived earlier",
        series: protocols(Measure::MpiUnexpected),
        paper: "A short message that arrives before its receive is kept in the library's memory and copied again by the receive. Of a long message only the \
                description is kept, and the receive reads the data from the sender's buffer: one copy, and no memory at the receiver.",
        here: |curves| {
            let [short, long, _] = curves else { return String::new() };
            let last = short.last().x;
            let at = |curve: &Curve, x: f64| time(curve.near(x).y);
            format!(
                "A receive finds a message of {} in {} (short) or {} (long), and one of {} in {} or {}: reading it from the sender takes {} the \
                 time of the second copy.",
                bytes(short.first().x),
                at(short, 0.0),
                at(long, 0.0),
                bytes(last),
                at(short, last),
                at(long, last),
                ratio(long.last().y / short.last().y)
            )
        },
        ..expected.clone()
    };
    vec![expected, unexpected]
}
