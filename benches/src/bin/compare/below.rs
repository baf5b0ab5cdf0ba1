//! am-core's put and amsend compared with UCX's, which `ucx_perftest` measures if it is installed (Debian's package ucx-utils).

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use am_examples::Failure;

use crate::libraries::{Library, Placement};
use crate::row::Row;
use crate::said;

/// The name of UCX's rows.
pub(crate) const UCX: &str = "ucx";
const PERFTEST: &str = "ucx_perftest";
const BYTES: u64 = 8;
/// The rows, and UCX's test for each: one-way times of 8 bytes.
const ROWS: [(&str, &str); 2] = [("put", "ucp_put_lat"), ("amsend", "ucp_am_lat")];
/// How often the client tries to connect to its server, and the time between two tries.
const TRIES: u32 = 50;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Whether UCX can be measured here.
pub(crate) fn has_ucx() -> bool {
    let mut command = Command::new(PERFTEST);
    command.arg("-h").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// The rows of a build of this library, measured by its `counter_latency`: half a round trip, with target counters.
pub(crate) fn ours(library: &Library) -> Result<Vec<(Row, f64)>, Failure> {
    let program = library.beside("counter_latency");
    let text = said(library.command(2, Placement::Cores, &program), "counter_latency")?;
    Ok(text.lines().filter_map(parse_ours).collect())
}

/// The row of a line of `counter_latency`: operation, counter, median, p99. `None` if the line is not one of [`ROWS`], or not for a target
/// counter.
fn parse_ours(line: &str) -> Option<(Row, f64)> {
    let mut words = line.split_whitespace();
    let (operation, counter) = (words.next()?, words.next()?);
    let is_wanted = counter == "target" && ROWS.iter().any(|(name, _)| *name == operation);
    Some(((operation.to_owned(), BYTES), words.next()?.parse().ok()?)).filter(|_| is_wanted)
}

/// The rows of UCX: two processes on the first two cores.
pub(crate) fn ucx() -> Result<Vec<(Row, f64)>, Failure> {
    ROWS.into_iter().map(|(name, test)| Ok(((name.to_owned(), BYTES), one_test(test)?))).collect()
}

fn one_test(test: &str) -> Result<f64, Failure> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let port =
        free.map_err(|error| Failure::Input(format!("no port is free for {PERFTEST}: {error}")))?.port();
    let perftest = |core: &str| {
        let mut command = Command::new("timeout");
        command.args(["60", "taskset", "-c", core, PERFTEST, "-p", &port.to_string()]);
        command.env("UCX_TLS", "self,sm").stdin(Stdio::null());
        command
    };
    let server = perftest("1").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut server =
        Server(server.map_err(|error| Failure::Input(format!("cannot run {PERFTEST}: {error}")))?);
    let mut result = Err(Failure::Wrong(format!("{PERFTEST} has not started")));
    for _ in 0..TRIES {
        std::thread::sleep(BETWEEN_TRIES);
        let mut client = perftest("0");
        client.args(["127.0.0.1", "-t", test, "-s", &BYTES.to_string(), "-n", "100000", "-f", "-v"]);
        result = said(client, PERFTEST);
        // Success; or the server has ended, so that further tries are useless.
        if result.is_ok() || !matches!(server.0.try_wait(), Ok(None)) {
            break;
        }
    }
    let text = result?;
    parse_ucx(&text)
        .ok_or_else(|| Failure::Wrong(format!("{PERFTEST} printed no line of numbers, but:\n{text}")))
}

/// Nanoseconds from the last line, whose columns are separated by commas: iterations, the median in microseconds, and others.
fn parse_ucx(text: &str) -> Option<f64> {
    let mut columns = text.lines().last()?.split(',').skip(1);
    columns.next()?.trim().parse::<f64>().ok().map(|microseconds| microseconds * 1000.0)
}

/// Kills the server when its test is over.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that the server has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_programs_are_read() {
        let row = |name: &str| (name.to_owned(), BYTES);
        assert_eq!(
            parse_ours("  amsend      target        345.6        400.1"),
            Some((row("amsend"), 345.6))
        );
        assert_eq!(parse_ours("     put      origin         45.6         60.1"), None);
        assert_eq!(parse_ours("     get      target         45.6         60.1"), None);
        let text = "iterations,50.0_percentile_lat,avg_lat\n100000,0.230,0.231,0.232,33.2,33.1,43,43\n";
        assert_eq!(parse_ucx(text), Some(230.0));
        assert_eq!(parse_ucx(""), None);
    }
}
