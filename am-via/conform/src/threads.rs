//! The suite in one process: two threads on an emulated wire, with a new wire for each check.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use am_double::wire::{Wire, WireNetwork, WireOptions};
use am_via_nic::device::{ContextNumber, Endpoint, TaskId};
use am_via_vipl::UserAgent;

use super::line::Line;
use super::pair::{DIES_AFTER, Opener, Outcome, Pair, Side};
use super::suite::{Check, Needs};
use super::{Terms, Verdicts, add, checks, session};

/// Time limit of a check, far above the waits inside it.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// Runs the named checks.
pub(super) fn run(names: &[&str], terms: Terms, said: &mut dyn FnMut(&str)) -> Verdicts {
    let mut verdicts = Verdicts::new();
    for check in checks::all::<Wire>().into_iter().filter(|check| names.contains(&check.name)) {
        said(&format!("wire  {}", check.name));
        let check = Arc::new(check);
        let (tell, told) = mpsc::channel();
        let (line_a, line_b) = Line::between_threads();
        let options = match check.needs {
            Needs::Faults(options) => options(terms.seed),
            Needs::Nothing | Needs::Death => WireOptions::new(2),
        };
        let network = WireNetwork::new(options);
        for (side, line) in [(Side::A, line_a), (Side::B, line_b)] {
            let (check, network, tell) = (Arc::clone(&check), network.clone(), tell.clone());
            thread::spawn(move || {
                let failure = one_side(&check, &network, side, line, terms);
                // After a hang, the verdict has no receiver.
                let _ = tell.send(failure);
            });
        }
        for _ in 0..2 {
            let failure = match told.recv_timeout(HANGS_AFTER) {
                Ok(failure) => failure,
                Err(RecvTimeoutError::Timeout) => Some("it hangs".to_owned()),
                Err(RecvTimeoutError::Disconnected) => Some("its thread has died".to_owned()),
            };
            add(&mut verdicts, check.name, failure);
        }
    }
    verdicts
}

fn one_side(
    check: &Check<Wire>,
    network: &WireNetwork,
    side: Side,
    line: Line,
    terms: Terms,
) -> Option<String> {
    match open(network, side, line, terms) {
        Ok(mut pair) => session::run(&mut pair, check),
        Err(stop) => Some(format!("its NIC could not be opened: {stop:?}")),
    }
}

fn open(network: &WireNetwork, side: Side, line: Line, terms: Terms) -> Outcome<Pair<Wire>> {
    let task = if side == Side::A { 0 } else { 1 };
    let address = move |context| Endpoint::new(TaskId(task), ContextNumber(context));
    let nic = UserAgent::open(network.open(address(0)).map_err(am_via_vipl::VipError::from)?);
    let (opens, dies, dies_soon, counts) =
        (network.clone(), network.clone(), network.clone(), network.clone());
    let devices = network.clone();
    let opener = Opener {
        device: Box::new(move |context| devices.open(address(context))),
        nic: Box::new(move |context| Ok(UserAgent::open(opens.open(address(context))?))),
        by_name: None,
    };
    let mut pair = Pair::new(nic, side, terms, line, opener)?;
    pair.die = Box::new(move || dies.fail_task(task, "killed by its check"));
    pair.die_soon = Box::new(move || {
        let network = dies_soon.clone();
        thread::spawn(move || {
            thread::sleep(DIES_AFTER);
            network.fail_task(task, "killed by its check");
        });
    });
    pair.statistics = Some(Box::new(move || counts.statistics()));
    Ok(pair)
}
