//! The first program with one-sided active messages: every task greets the next one, by put and by message.
//!
//! What it teaches: memory that other tasks may write (`expose`), a put that bumps a counter at its target, a message that runs a handler
//! at its target, and how to wait for both.
//!
//! ```text
//! cargo amrun -n 3 --example hello_am
//! ```
//!
//! You should see one line for each task, in any order: what its left neighbour wrote, and how often it was greeted.

use std::process::ExitCode;

use am_core::prelude::*;
use am_via::Task;

fn main() -> ExitCode {
    match greet() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hello_am: {error}");
            ExitCode::FAILURE
        }
    }
}

fn greet() -> am_core::Result<()> {
    let mut context = Task::join()?.context()?;
    let (me, tasks) = (context.task(), context.num_tasks());
    let next = TaskId((me.0 + 1) % tasks);

    // Memory that peers may write, a counter for their writes, and a handler for their messages.
    let memory = context.alloc(8)?;
    let memory = context.expose(memory, Access::WRITE)?;
    let (written, greeted) = (context.counter()?, context.counter()?);
    let greet = context.register_handler(move |_message| Answer::consumed(Completion::Bump(greeted)))?;
    // Collective: after this, every task knows every address, and every task has registered its handler.
    let addresses = context.address_init(memory.address(0))?;

    // A put into the next task's memory; when the bytes are there, it bumps the next task's counter. All tasks make their counters in the
    // same order, so the counters have the same names in all tasks.
    let options = PutOptions { target: Some(written.name()), ..PutOptions::default() };
    context.put(addresses[next.index()], &u64::from(me.0).to_le_bytes(), options)?;
    // A message to every task: it runs the handler there.
    for task in context.tasks() {
        context.amsend(task, greet, b"hello", &[], AmOptions::default())?;
    }

    context.wait_counter(written, 1)?;
    context.wait_counter(greeted, tasks.into())?;
    println!("{me} of {tasks}: task {} wrote here, and {tasks} said hello", memory.load_u64(0)?);
    // No task leaves while others may still need its answers.
    context.gfence()
}
