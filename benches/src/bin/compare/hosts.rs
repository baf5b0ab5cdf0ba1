//! Two hosts: the launchers' arguments for them, and libfabric's own ping-pong between them, `fi_pingpong`, if it is installed (Debian's
//! package libfabric-bin). `tests/hosts/with` makes the hosts, and names them in the environment.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use am_examples::Failure;

use crate::row::Row;
use crate::said;

/// The name of the rows of the bare provider.
pub(crate) const BARE: &str = "fi_pingpong";
/// The row of our latency that is compared with the bare provider's.
pub(crate) const BARE_ROW: &str = "hosts_bare";
/// Environment variables that `tests/hosts/with` sets.
const HOSTS: &str = "HOSTS";
const AGENT: &str = "LAUNCH_AGENT";
/// The address of the first host.
const FIRST_ADDRESS: &str = "10.77.0.1";
/// The provider for jobs of several hosts over TCP, by its name in libfabric before 1.18.
const PROVIDER: &str = "tcp;ofi_rxm";
/// The sizes of the C program, with the number of messages of each: enough to take at least as long as the C program.
const SIZES: [(u64, u32); 4] = [(8, 20_000), (1024, 20_000), (65536, 4000), (1 << 20, 400)];
const TIME_TO_BEGIN: Duration = Duration::from_millis(300);

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn hosts() -> Vec<String> {
    variable(HOSTS).split(',').filter(|host| !host.is_empty()).map(str::to_owned).collect()
}

/// Words of a launcher's command line, in which HOSTS, HOST1, HOST2 and AGENT are replaced by the names of the hosts and the launch agent.
pub(crate) fn named(words: &str) -> Vec<String> {
    let hosts = hosts();
    let host = |at: usize| hosts.get(at).map_or("", String::as_str);
    words
        .split_whitespace()
        .map(|word| match word {
            "HOSTS" => hosts.join(","),
            "AGENT" => variable(AGENT),
            _ => word.replace("HOST1", host(0)).replace("HOST2", host(1)),
        })
        .collect()
}

/// Adds our latency once more, as the rows that are compared with the bare provider's.
pub(crate) fn set_beside_the_provider(rows: &mut Vec<(Row, f64)>) {
    let is_latency = |((name, _), _): &&(Row, f64)| name == "hosts_latency";
    let again: Vec<_> = rows
        .iter()
        .filter(is_latency)
        .map(|((_, bytes), value)| ((BARE_ROW.to_owned(), *bytes), *value))
        .collect();
    rows.extend(again);
}

/// `fi_pingpong` between the two hosts.
pub(crate) struct BareProvider {
    agent: String,
    server: String,
    client: String,
}

/// The bare provider. `None`, with a message, if `fi_pingpong` is not installed.
///
/// # Errors
/// The environment does not name two hosts.
pub(crate) fn bare_provider() -> Result<Option<BareProvider>, Failure> {
    let (agent, hosts) = (variable(AGENT), hosts());
    let ([server, client], false) = (hosts.as_slice(), agent.is_empty()) else {
        return Err(Failure::Input(format!(
            "the group hosts needs two hosts, which {HOSTS} and {AGENT} name: tests/hosts/with 2 COMMAND makes them"
        )));
    };
    let mut probe = Command::new(BARE);
    probe.arg("-h").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if probe.status().is_err() {
        println!("{BARE} is left out: apt-get install libfabric-bin");
        return Ok(None);
    }
    Ok(Some(BareProvider { agent, server: server.clone(), client: client.clone() }))
}

impl BareProvider {
    /// Half round trips of all sizes.
    pub(crate) fn rows(&self) -> Result<Vec<(Row, f64)>, Failure> {
        let row = |(bytes, times)| Ok(((BARE_ROW.to_owned(), bytes), self.half_round_trip(bytes, times)?));
        SIZES.into_iter().map(row).collect()
    }

    fn half_round_trip(&self, bytes: u64, times: u32) -> Result<f64, Failure> {
        let pingpong = |host: &str| {
            let mut command = Command::new(&self.agent);
            command.args([host, "timeout", "60", BARE, "-e", "rdm", "-p"]).arg(format!("'{PROVIDER}'"));
            command.args(["-S", &bytes.to_string(), "-I", &times.to_string()]).stdin(Stdio::null());
            command
        };
        let server = pingpong(&self.server).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let _server = Server(server.map_err(|error| Failure::Input(format!("cannot run {BARE}: {error}")))?);
        std::thread::sleep(TIME_TO_BEGIN);
        let mut client = pingpong(&self.client);
        client.arg(FIRST_ADDRESS);
        let text = said(client, BARE)?;
        parse(&text)
            .ok_or_else(|| Failure::Wrong(format!("{BARE} did not print a table of one line:\n{text}")))
    }
}

/// Nanoseconds of a transfer one way, from the last line, which has bytes, messages, acknowledgements, total, time, rate, microseconds of a
/// transfer one way, and transfers a second.
fn parse(text: &str) -> Option<f64> {
    let mut columns = text.lines().last()?.split_whitespace().skip(6);
    columns.next()?.parse::<f64>().ok().map(|microseconds| microseconds * 1000.0)
}

/// The server of `fi_pingpong`, which ends after its client.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // The server ends after its client, or when its time limit has passed.
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_fi_pingpong_is_read() {
        let text = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                    8       20k     =20k     312k        0.21s      1.52       5.25       0.19\n";
        assert_eq!(parse(text), Some(5250.0));
        assert_eq!(parse(""), None);
    }
}
