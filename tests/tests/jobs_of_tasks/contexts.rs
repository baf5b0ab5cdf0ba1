//! Several contexts a process, each with a thread of its own: nothing of one is another's.

use std::time::Duration;

use am_core::Context;
use am_core::testing::conformance;
use am_tests::harness::job;
use am_via::Task;
use am_via::start::ShmFabric;

const CONTEXTS: u8 = 3;

fn in_threads(body: impl Fn(u8, &mut Context<ShmFabric>) + Sync) {
    let task = Task::join().expect("the launcher made a job");
    std::thread::scope(|scope| {
        for number in 0..CONTEXTS {
            let (task, body) = (&task, &body);
            scope.spawn(move || {
                let fabric = task.fabric(u32::from(number)).expect("the job has memory");
                body(number, &mut Context::new(fabric));
            });
        }
    });
}

#[test]
fn each_context_passes_the_suite_beside_the_others() {
    for memory in ["auto", "staged"] {
        job("each_context_passes_the_suite_beside_the_others")
            .tasks(2)
            .env("AM_MEMORY", memory)
            .time_limit(Duration::from_secs(300))
            .run(|| {
                in_threads(|number, context| {
                    // Each thread begins with other checks.
                    for filter in
                        [["amsend", "put", "rmw"], ["vector", "amsend", "put"], ["purge", "rmw", "fence"]]
                            [usize::from(number)]
                    {
                        conformance::run_all(filter, context);
                    }
                });
            });
    }
}
