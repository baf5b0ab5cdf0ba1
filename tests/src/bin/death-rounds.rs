//! Seeded rounds of deaths (`am_tests::deaths`): `death-rounds [--rounds N] [--first N] [--seed N] [--amrun PATH]`.

use std::path::PathBuf;
use std::process::ExitCode;

use am_tests::deaths;

fn main() -> ExitCode {
    if deaths::is_task() {
        return deaths::be_a_task();
    }
    let outcome = Options::read(std::env::args().skip(1)).and_then(|options| {
        let own = std::env::current_exe()
            .map_err(|error| format!("cannot find this program's own file: {error}"))?;
        let amrun = options.amrun.unwrap_or_else(|| own.with_file_name("amrun"));
        println!("seed {}, rounds {} to {}", options.seed, options.first, options.first + options.rounds - 1);
        deaths::run(options.seed, options.first..options.first + options.rounds, &amrun, &own)
    });
    match outcome {
        Ok(rounds) => {
            println!("{rounds} rounds, each as promised");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("death-rounds: {what}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    rounds: u64,
    first: u64,
    seed: u64,
    amrun: Option<PathBuf>,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let mut options = Self { rounds: 50, first: 0, seed, amrun: None };
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number = || value.parse().map_err(|_| format!("{name} {value}: not a number"));
            match name.as_str() {
                "--rounds" => options.rounds = number()?,
                "--first" => options.first = number()?,
                "--seed" => options.seed = number()?,
                "--amrun" => options.amrun = Some(value.into()),
                _ => {
                    return Err(format!(
                        "unknown option {name}: there are --rounds, --first, --seed, --amrun"
                    ));
                }
            }
        }
        if options.rounds == 0 { Err("--rounds 0 would test nothing".to_owned()) } else { Ok(options) }
    }
}
