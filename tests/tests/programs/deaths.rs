//! Seeded rounds of deaths: 50 rounds, with a new seed in each run. `DEATH_ROUNDS` and `DEATH_SEED` set other values; a failure prints its
//! seed.

use std::path::Path;
use std::time::SystemTime;

use am_tests::{deaths, programs};

#[test]
fn a_death_ends_the_job_leaves_nothing_and_is_told_with_its_cause() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("DEATH_SEED").unwrap_or_else(|| {
        SystemTime::UNIX_EPOCH.elapsed().expect("the clock is set").as_millis().try_into().expect("not yet")
    });
    let rounds = number("DEATH_ROUNDS").unwrap_or(50);
    assert!(rounds > 0, "DEATH_ROUNDS=0 would test nothing");
    println!("seed {seed}, {rounds} rounds");
    programs::build();
    let program = Path::new(env!("CARGO_BIN_EXE_death-rounds"));
    let ran = deaths::run(seed, 0..rounds, &programs::folder().join("amrun"), program);
    assert_eq!(ran.unwrap_or_else(|what| panic!("{what}")), rounds);
}
