//! The handler thread cannot be started.

use std::process::Command;

use am_core::error::Error;
use am_core::handler::{Answer, Completion};
use am_core::{AmOptions, Context};
use am_double::{Config, network};

/// Environment variable that marks the process that can start no threads.
const WITHOUT_THREADS: &str = "TEST_WITHOUT_THREADS";

/// A dropped job would never end: the fence of its sender would wait for ever. Each round of progress tries to start the thread again, and
/// reports the error.
#[test]
fn a_completion_stays_queued_while_its_thread_cannot_be_started() {
    if std::env::var_os(WITHOUT_THREADS).is_some() {
        return without_threads();
    }
    let child = Command::new(std::env::current_exe().expect("a test has a path"))
        .args(["--exact", "handler_thread::a_completion_stays_queued_while_its_thread_cannot_be_started"])
        .env(WITHOUT_THREADS, "1")
        // No system has so much memory for a stack. The test then runs in the main thread.
        .env("RUST_MIN_STACK", (1_u64 << 50).to_string())
        .output()
        .expect("a test can start its own binary");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

fn without_threads() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let handler = context
        .register_handler(|_| Answer::consumed(Completion::Thread(Box::new(|_, _| {}))))
        .expect("a handler");
    context.amsend(context.task(), handler, &[], &[1; 8], AmOptions::default()).expect("it is posted");
    for _ in 0..2 {
        let error = (0..10).find_map(|_| context.probe().err()).expect("the thread cannot be started");
        assert!(matches!(error, Error::System { .. }), "{error}");
    }
    // Without a thread the message never ends.
    std::mem::forget(context);
}
