//! A sender that is out of credits takes credit returns from its own ring if they are the next entries, and leaves all other entries to a
//! poll.

use std::thread;
use std::time::Duration;

use am_core::buffer::InlineBytes;
use am_core::fabric::{Class, Event, PeerIndex, Post, Posted, World};
use am_core_conform::watchdog::Watchdog;
use am_via::{ShmFabric, Task};

use crate::hostile_support::alone;

/// Sends until a credit is missing, without a poll; returns the number of packets.
fn flood(fabric: &mut ShmFabric, to: PeerIndex) -> u32 {
    let packet = InlineBytes::new();
    let mut sent = 0;
    while fabric.post_inline(to, Class::OneWay, 0, &packet).expect("the peer lives") == Posted::Done {
        sent += 1;
    }
    sent
}

/// Takes all arrivals; returns the number of packets.
fn drain(fabric: &mut ShmFabric) -> u32 {
    let mut taken = 0;
    // The notice of a connection is not an event.
    for _ in 0..1000 {
        taken += u32::from(matches!(fabric.poll(&mut InlineBytes::new()), Some(Event::Arrival(_))));
    }
    taken
}

/// The fabrics of two contexts that have exchanged a packet; then the first one's number for the second, and the second one's for the
/// first.
fn connected(task: &Task, contexts: [u8; 2]) -> ([ShmFabric; 2], [PeerIndex; 2]) {
    let [mut a, mut b] = contexts.map(|context| task.fabric(context).expect("a context is free"));
    let number = |from: &mut ShmFabric, to: &ShmFabric| {
        from.peer(to.world().endpoint()).expect("a peer fits in the tables").index
    };
    let (to_b, to_a) = (number(&mut a, &b), number(&mut b, &a));
    for (from, to) in [(&mut a, to_b), (&mut b, to_a)] {
        let first = from.post_inline(to, Class::OneWay, 0, &InlineBytes::new()).expect("the peer lives");
        assert_eq!(first, Posted::Done);
    }
    assert_eq!((drain(&mut a), drain(&mut b)), (1, 1));
    ([a, b], [to_b, to_a])
}

/// If the return of credits does not wake the sender, it sleeps for ever, and the watchdog reports that.
#[test]
fn a_sender_asleep_without_credits_is_woken() {
    let _alone = alone();
    let _watchdog = Watchdog::new("a sender asleep".to_owned(), Duration::from_secs(60));
    let task = Task::join().unwrap();
    let ([mut sender, mut target], [to, _]) = connected(&task, [12, 13]);
    let sent = flood(&mut sender, to);
    let drained = thread::scope(|scope| {
        let target = scope.spawn(|| {
            // By now the sender is asleep.
            thread::sleep(Duration::from_millis(300));
            drain(&mut target)
        });
        let mut polls = 0;
        let packet = InlineBytes::new();
        while sender.post_inline(to, Class::OneWay, 0, &packet).expect("the peer lives") != Posted::Done {
            sender.poll(&mut InlineBytes::new());
            sender.world_mut().wait(polls, Duration::MAX);
            polls += 1;
        }
        target.join().unwrap()
    });
    // The return of half of the credits wakes the sender, so its last packet may have been among those that the other thread took.
    assert_eq!(drained + drain(&mut target), sent + 1);
}

#[test]
fn credits_that_lie_next_are_taken_without_a_poll() {
    let _alone = alone();
    let task = Task::join().unwrap();
    let ([mut a, mut b], [to_b, to_a]) = connected(&task, [9, 10]);
    let credits = a.limits().credits;
    let all = flood(&mut a, to_b);
    assert!((credits - 1..=credits).contains(&all), "{all} of {credits}");
    for round in 0..20 {
        assert_eq!(drain(&mut b), if round == 0 { all } else { credits });
        assert_eq!(flood(&mut a, to_b), credits, "round {round}: the credits are back");
    }
    // Half of the credits return before the packet of the other side, and half after it.
    for _ in 0..credits / 2 {
        assert!(matches!(b.poll(&mut InlineBytes::new()), Some(Event::Arrival(_))));
    }
    assert_eq!(b.post_inline(to_a, Class::OneWay, 0, &InlineBytes::new()).unwrap(), Posted::Done);
    assert_eq!(drain(&mut b), credits - credits / 2);
    assert_eq!(flood(&mut a, to_b), credits / 2, "the other half returns after the packet");
    assert_eq!(drain(&mut a), 1);
    assert_eq!(flood(&mut a, to_b), credits - credits / 2);
}
