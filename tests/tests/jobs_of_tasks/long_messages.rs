//! Messages long enough for pipes, through which both tasks copy them: in both directions at once, with all lengths, and when one of the
//! tasks dies.

use std::time::Duration;

use am_core::buffer::JobBuffer;
use am_core::error::Error;
use am_core::handler::{Answer, Completion, Delivered, Destination, HandlerId};
use am_core::task::TaskId;
use am_core::{AmOptions, Amsend, Context, Counter};
use am_tests::harness::job;
use am_via::Task;
use am_via::start::ShmFabric;

const PIECE_BYTES: usize = 16 << 10;
/// Lengths around one piece, around a full ring of pieces, and around the number of bytes that one call fetches.
const LENS: [usize; 9] = [
    1,
    8191,
    PIECE_BYTES - 1,
    PIECE_BYTES,
    PIECE_BYTES + 1,
    5 * PIECE_BYTES + 3,
    128 * PIECE_BYTES,
    129 * PIECE_BYTES + 65,
    (5 << 20) + 7,
];
/// Number of messages at once: more than there are pipes.
const AT_ONCE: usize = 6;

/// The content of message `number` of task `from`.
fn content(from: u32, number: usize, len: usize) -> Vec<u8> {
    let mut state = u64::from(from) << 32 | number as u64;
    let next = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

fn open(task: &Task) -> (Context<ShmFabric>, HandlerId, Counter) {
    let mut context = task.context().expect("the job has memory");
    let came = context.counter().expect("counter");
    let check = |message: &am_core::handler::Message<'_>| {
        let (from, len) = (message.source.task.0, usize::try_from(message.len).expect("it fits"));
        let number = usize::from(message.uhdr[0]);
        let check = move |delivered: Delivered| {
            delivered.outcome.expect("the message arrives whole");
            let bytes = delivered.buffer.expect("the buffer of the destination");
            assert!(
                bytes[..] == content(from, number, len)[..],
                "message {number} of {len} bytes is corrupt"
            );
        };
        let place = Destination::Owned(JobBuffer::from(vec![0xEE; len]));
        Answer::new(place, Completion::Call(Box::new(check)))
    };
    let handler = context.register_handler(check).expect("the first handler");
    (context, handler, came)
}

/// Sends messages of `len` bytes, and waits until as many have come. Message n begins n bytes after the start of its buffer; every second
/// buffer is in job memory.
fn exchange(
    (context, handler, came): &mut (Context<ShmFabric>, HandlerId, Counter),
    own: u32,
    len: usize,
) -> Result<(), Error> {
    // Fewer of the longest messages, since they are made and checked by code without optimisation.
    let count = if len > 1 << 20 { 2 } else { AT_ONCE };
    let message = |number| {
        let bytes = [vec![0; number], content(own, number, len)].concat();
        if number % 2 == 0 {
            return Ok(JobBuffer::from(bytes));
        }
        let mut in_job_memory = context.alloc(bytes.len())?;
        in_job_memory.copy_from_slice(&bytes);
        Ok(in_job_memory)
    };
    let messages: Vec<_> = (0..count).map(message).collect::<Result<_, Error>>()?;
    let options = AmOptions { announce: true, target: Some(came.name()), ..AmOptions::default() };
    context.scope(|scope| {
        for (number, message) in messages.iter().enumerate() {
            let uhdr = [u8::try_from(number).expect("few")];
            let amsend = Amsend { target: TaskId(1 - own), handler: *handler, uhdr: &uhdr, options };
            scope.start(amsend, &message[number..])?;
        }
        Ok(())
    })??;
    context.wait_counter(*came, count as u64).map(|_| ())
}

#[test]
fn messages_of_all_lengths_arrive_whole_both_ways_at_once() {
    // Without pipes, with pipes, and with all messages in pipes.
    for (setting, value) in [("AM_MEMORY", "kernel"), ("AM_CREDITS", "64"), ("AM_PIPE_BYTES_MIN", "0")] {
        job("messages_of_all_lengths_arrive_whole_both_ways_at_once").tasks(2).env(setting, value).run(
            || {
                let task = Task::join().expect("the launcher made a job");
                let mut all = open(&task);
                for len in LENS {
                    exchange(&mut all, task.number(), len).expect("no task fails");
                }
                all.0.gfence().expect("gfence");
            },
        );
    }
}

/// Task `dying` aborts while both tasks exchange long messages; the other task gets the error, whatever it was doing.
fn one_dies(test: &'static str, dying: u32) {
    let run = move || {
        let task = Task::join().expect("the launcher made a job");
        let mut all = open(&task);
        exchange(&mut all, task.number(), LENS[0]).expect("no task has failed yet");
        // The other task has ended its first exchange when it sends in the second one, which the death of this task may end for it.
        let mut ended = exchange(&mut all, task.number(), LENS[0]);
        if task.number() == dying {
            assert!(ended.is_ok(), "only this task fails: {ended:?}");
            std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                std::process::abort();
            });
        }
        let error = loop {
            if let Err(error) = ended {
                break error;
            }
            ended = exchange(&mut all, task.number(), 3 << 20);
        };
        println!("\ntold: {error}");
    };
    job(test).tasks(2).after("ulimit -c 0; exec \"$0\" \"$@\"").run_and_judge(run, |outcome| {
        assert_eq!(outcome.failure.as_ref().map(|failure| failure.task), Some(dying), "{outcome:?}");
        let survivor = &outcome.tasks[1 - dying as usize];
        assert!(survivor.stdout.contains(&format!("told: task {dying}")), "{survivor:?}");
    });
}

#[test]
fn the_death_of_the_first_task_ends_long_messages_both_ways() {
    one_dies("the_death_of_the_first_task_ends_long_messages_both_ways", 0);
}

#[test]
fn the_death_of_the_second_task_ends_long_messages_both_ways() {
    one_dies("the_death_of_the_second_task_ends_long_messages_both_ways", 1);
}
