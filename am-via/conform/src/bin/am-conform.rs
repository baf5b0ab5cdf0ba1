//! `am-conform`: runs the conformance suite of the VI provider and prints a score. All work is done by [`am_via_conform`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

use am_via_conform::Plan;
use clap::Parser;

/// Runs the conformance suite of the VI provider: two processes over shared memory, then two threads over the emulated wire. `--device ofi`
/// runs two processes over the network, by libfabric, instead. Prints each failing check with its clause, and last the score of the three
/// levels. Exit code 0 for a perfect score, 1 for a lower score, 2 for invalid arguments or if the system did not allow the run.
#[derive(Debug, Parser)]
#[command(name = "am-conform", version)]
struct Options {
    /// Lists the checks with their levels and clauses, and runs none.
    #[arg(long)]
    list: bool,
    /// Runs only checks whose names contain this text.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// The seed of random numbers and faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs on this device only: shm, ofi or wire.
    #[arg(long, value_name = "DEVICE", value_parser = ["shm", "ofi", "wire"])]
    device: Option<String>,
    /// Prints the name of each check when it starts.
    #[arg(long)]
    verbose: bool,
}

fn say(text: &str) -> bool {
    am_via_launch::say("am-conform", &format!("{text}\n"))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(ended) = am_via_conform::run_as_task(&arguments) {
        return match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("am-conform: {error}");
                ExitCode::from(2)
            }
        };
    }
    let options = Options::parse();
    if options.list {
        for check in am_via_conform::list() {
            let where_ = if check.on_wire_only { " (wire only)" } else { "" };
            let line = format!("{:<13}  {}{where_}: {}", check.level.to_string(), check.name, check.clause);
            if !say(&line) {
                return ExitCode::FAILURE;
            }
        }
        return ExitCode::SUCCESS;
    }
    let on = |device: &str| options.device.as_deref().is_none_or(|chosen| chosen == device);
    let plan = Plan {
        over_shm: on("shm"),
        over_ofi: options.device.as_deref() == Some("ofi"),
        over_wire: on("wire"),
        only: options.only.clone(),
        seed: options.seed,
        ..Plan::default()
    };
    let told = say(&format!("seed {}", plan.seed));
    // `say` has reported an error.
    let tell = |what: &str| {
        let _ = options.verbose && say(what);
    };
    match am_via_conform::run(&plan, tell) {
        Ok(score) => {
            if say(&score.to_string()) && told && score.is_perfect() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("am-conform: {error}");
            ExitCode::from(2)
        }
    }
}
