//! MPI's settings, also by their names in other libraries: limits are kept, and `MPI_DEBUG` reports the start and the end.

use am_tests::harness::{Outcome, job};
use mpi_over_am::{Communicator, Environment, Error, ErrorClass, Fault};

fn as_a_task(body: impl FnOnce(&Environment, &Communicator)) {
    let environment = Environment::init().expect("the launcher made a job");
    body(&environment, &environment.world());
    environment.finalize().expect("all tasks finalize");
}

#[test]
fn no_more_receives_are_posted_than_the_setting_says() {
    job("no_more_receives_are_posted_than_the_setting_says").env("MPI_IRECV_MAX", "2").run(|| {
        as_a_task(|_, world| {
            let mut buffers = [[0u8; 4]; 3];
            let [first, second, third] = &mut buffers;
            let error = world.scope(|s| {
                let (_first, _second) = (s.irecv(first, 0, 1)?, s.irecv(second, 0, 2)?);
                s.irecv(third, 0, 3).map(|_| ())
            });
            let error = error.expect_err("the third is one too many");
            assert!(matches!(error, Error::TooMany { max: 2, .. }), "{error}");
            assert_eq!((error.class(), error.fault()), (ErrorClass::Other, Fault::Resource));
            assert!(error.to_string().contains("AM_POSTED_RECEIVES_MAX"), "{error}");
        });
    });
}

#[test]
fn no_more_long_sends_are_under_way_than_the_setting_says() {
    job("no_more_long_sends_are_under_way_than_the_setting_says").env("MPI_LONG_MAX", "1").run(|| {
        as_a_task(|_, world| {
            let (long, short) = (vec![1u8; 100_000], [1u8; 8]);
            let error = world.scope(|s| {
                let _first = s.isend(&long, 0, 1)?;
                let _short_ones_go = s.isend(&short, 0, 2)?;
                s.isend(&long, 0, 3).map(|_| ())
            });
            let error = error.expect_err("the second is one too many");
            assert!(matches!(error, Error::TooMany { max: 1, .. }), "{error}");
            world.recv(&mut [0u8; 8], 0, 2).expect("the short one was sent");
        });
    });
}

#[test]
fn early_messages_beyond_the_setting_wait_at_their_sender() {
    const COUNT: i32 = 100;
    job("early_messages_beyond_the_setting_wait_at_their_sender").tasks(2).env("MPI_UNEX_MAX", "8").run(
        || {
            as_a_task(|environment, world| {
                if world.rank() == 0 {
                    let bytes = [7u8; 8];
                    let sent = world.scope(|s| {
                        let requests: Result<Vec<_>, _> =
                            (0..COUNT).map(|tag| s.isend(&bytes, 1, tag)).collect();
                        let requests = requests?;
                        world.send(&(), 1, COUNT)?;
                        s.wait_all(requests).map(|_| ())
                    });
                    sent.expect("all are received");
                } else {
                    world.recv(&mut (), 0, COUNT).expect("it is the last one");
                    let early = environment.counts().expect("MPI is open").early_messages;
                    for tag in (0..COUNT).rev() {
                        world.recv(&mut [0u8; 8], 0, tag).expect("each was sent");
                    }
                    let waited = environment.counts().expect("MPI is open").long_messages_received;
                    assert!(
                        (1..=8).contains(&(early - waited)),
                        "{waited} of {early} waited at their sender"
                    );
                }
            });
        },
    );
}

#[test]
fn a_talkative_task_says_how_it_starts_and_what_it_has_done() {
    job("a_talkative_task_says_how_it_starts_and_what_it_has_done").env("MPI_DEBUG", "1").run_and_judge(
        || as_a_task(|_, world| world.barrier().expect("all tasks reach the barrier")),
        |outcome: &Outcome| {
            let said = &outcome.tasks[0].stderr;
            assert!(
                outcome.is_success && said.contains("MPI starts") && said.contains("MPI has ended"),
                "{said}"
            );
        },
    );
}

#[test]
fn a_foreign_name_with_a_senseless_value_is_refused() {
    // Without a launcher, because then the task itself reads the variable.
    for value in ["many".to_owned(), format!("many{}", " ".repeat(100))] {
        job("a_foreign_name_with_a_senseless_value_is_refused")
            .env("MPI_LONG_MSG", value)
            .without_launcher()
            .run(|| {
                let error = Environment::init().expect_err("many is no number").to_string();
                assert!(error.contains("MPI_LONG_MSG") && error.contains("many"), "{error}");
            });
    }
}

/// A sender that assumes a different limit for the receiver's early messages exceeds its part of the budget.
#[test]
fn a_sender_beyond_its_part_of_the_budget_is_named_and_the_receiver_keeps_no_more() {
    const PART: u64 = 64 << 10;
    const SENT: i32 = 20_000;
    job("a_sender_beyond_its_part_of_the_budget_is_named_and_the_receiver_keeps_no_more").tasks(2).run(
        || {
            let is_wild = std::env::var("AM_TASK").is_ok_and(|task| task == "0");
            let environment = Environment::init_with(|settings| {
                settings.early_arrival_bytes_max = if is_wild { 1 << 40 } else { 2 * PART };
            })
            .expect("a job");
            let world = environment.world();
            if is_wild {
                for tag in 0..SENT {
                    world.send(&[1u8; 1000], 1, tag).expect("it goes eagerly");
                }
                world.ssend(&0u8, 1, SENT).expect("the message is received");
            } else {
                world.recv(&mut 0u8, 0, SENT).expect("the next calls report the errors");
                let mut errors = 0;
                let kept = loop {
                    match environment.counts() {
                        Ok(counts) => break counts.early_messages,
                        Err(error) => {
                            assert!(matches!(error, Error::Protocol { peer: 0, .. }), "{error}");
                            assert!(error.to_string().contains("early_arrival_bytes_max"), "{error}");
                            errors += 1;
                        }
                    }
                };
                assert_eq!(
                    errors, 64,
                    "of thousands of errors, as many as the queue of unreported errors holds"
                );
                assert!((1..=PART / 1000).contains(&kept), "{kept} messages are kept");
            }
            // `finalize` reports the remaining errors.
            let _ = environment.finalize();
        },
    );
}
