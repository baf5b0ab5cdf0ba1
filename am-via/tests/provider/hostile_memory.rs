//! A peer writes arbitrary bytes into the shared structures of its connection, while its victim exchanges messages with others: the victim
//! sees errors, and all other messages arrive.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use am_core::buffer::Access;
use am_core::handler::{Answer, Completion};
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core::{AmOptions, Context};
use am_core_conform::watchdog::Watchdog;
use am_via::{ShmFabric, Task};

use crate::hostile_support::{Attack, alone};

fn context_at(number: u8) -> Endpoint {
    Endpoint::new(TaskId(0), ContextNumber(number))
}

fn context(task: &Task, number: u8) -> Context<ShmFabric> {
    Context::new(task.fabric(number).unwrap())
}

#[test]
fn the_victim_goes_on_and_the_honest_peer_notices_nothing() {
    let seed = 4711;
    println!("seed {seed}");
    let _alone = alone();
    let _watchdog = Watchdog::new("hostile memory".to_owned(), Duration::from_secs(120));
    let task = Task::join().unwrap();
    let (mut victim, mut honest) = (context(&task, 0), context(&task, 1));
    let count = Arc::new(AtomicU64::new(0));
    let in_handler = Arc::clone(&count);
    let handler = victim
        .register_handler(move |message| {
            if message.source == context_at(1) {
                in_handler.fetch_add(1, Ordering::Relaxed);
            }
            Answer::consumed(Completion::None)
        })
        .unwrap();
    let echoes = Arc::new(AtomicU64::new(0));
    let in_handler = Arc::clone(&echoes);
    let same = honest
        .register_handler(move |_| {
            in_handler.fetch_add(1, Ordering::Relaxed);
            Answer::consumed(Completion::None)
        })
        .unwrap();
    assert_eq!(handler, same);
    let mut buffer = victim.alloc(4096).unwrap();
    buffer.fill(0x5A);
    let read_only = victim.expose(buffer, Access::READ).unwrap();
    let mut errors = 0;
    let wild_peer = victim.peer(context_at(2)).unwrap().index;
    let packet_bytes = task.job().settings().packet_bytes as usize;
    let taken = Cell::new(0);
    let mut exchange = |round: u64, victim: &mut Context<ShmFabric>, errors: &mut u32| {
        let body = vec![7; if round.is_multiple_of(3) { 2000 } else { 8 }];
        honest.amsend(context_at(0), handler, &[], &body, AmOptions::default()).unwrap();
        while count.load(Ordering::Relaxed) <= round {
            if let Some((mut messages, _)) = victim.in_line(wild_peer)
                && let Some(next) = messages.look(handler)
                && let Some((uhdr, data)) = next.uhdr_len().and_then(|len| next.parts(len))
            {
                assert!(uhdr.len() < 64 && data.to_vec().len() <= packet_bytes);
                taken.set(taken.get() + 1);
                messages.take();
            }
            *errors += u32::from(victim.probe().is_err());
            honest.probe().unwrap();
        }
        victim.amsend(context_at(1), handler, &[], &body, AmOptions::default()).unwrap();
        while echoes.load(Ordering::Relaxed) <= round {
            *errors += u32::from(victim.probe().is_err());
            honest.probe().unwrap();
        }
    };
    exchange(0, &mut victim, &mut errors);
    assert_eq!(errors, 0);
    let attack = Attack::new(&task, seed);
    let (wild, end) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let attacker = scope.spawn(|| attack.run(&wild, &end));
        let mut rounds = 1..;
        for round in rounds.by_ref() {
            exchange(round, &mut victim, &mut errors);
            if errors > 1000 {
                break;
            }
        }
        wild.store(true, Ordering::Relaxed);
        for round in rounds.by_ref().take(20_000) {
            exchange(round, &mut victim, &mut errors);
        }
        // A packet of the attacker has to be taken without a poll. On a busy machine that needs more rounds.
        for round in rounds {
            if taken.get() > 0 {
                break;
            }
            exchange(round, &mut victim, &mut errors);
        }
        end.store(true, Ordering::Relaxed);
        attacker.join().unwrap();
    });
    let mut bytes = [0; 4096];
    read_only.read(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 0x5A), "memory that peers may only read is unchanged");
    println!("{errors} errors, {} packets of the attacker taken without a poll", taken.get());
}
