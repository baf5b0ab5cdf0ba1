//! The suite over a hostile network, with tasks that take turns: the same seeds are the same run, other seeds another one.

use am_core::testing::loopback::{Config, network};
use am_core::testing::turns::{NOT_REPEATED, record_checks};

#[test]
fn the_same_seed_is_the_same_run() {
    for (tasks, seed) in [(2, 1), (3, 2)] {
        println!("{tasks} tasks, seed {seed}");
        let record = |turns| record_checks("", turns, || network(Config::hostile(tasks, seed)).1);
        let (first, again, other) = (record(seed), record(seed), record(seed + 1000));
        let mut others = 0;
        for ((first, again), other) in first.iter().zip(&again).zip(&other) {
            if NOT_REPEATED.contains(&first.check) {
                continue;
            }
            assert!(first.calls > 0, "{first:?}");
            assert_eq!(first, again, "{tasks} tasks, seed {seed}");
            others += usize::from(first != other);
        }
        assert!(
            others > first.len() / 2,
            "other turns, and {others} of {} checks ran otherwise",
            first.len()
        );
    }
}
