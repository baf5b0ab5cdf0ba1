use am_via_shm::Mapping;

use super::*;

/// The network end of a context without connections. `None` without libfabric.
fn far() -> Option<Far> {
    if !am_via_ofi::is_there_for_tests() {
        return None;
    }
    let (_file, mapping) = Mapping::anonymous(4096).expect("a page");
    let endpoint = Endpoint::open().expect("libfabric is there");
    let links = Links {
        own: NodeAddress { task: 0, context: 0 },
        num_tasks: 2,
        slot_bytes: 16 << 10,
        message_bytes_max: endpoint.message_bytes_max(),
        all: Vec::new(),
        by_peer: HashMap::new(),
        strangers: Strangers::default(),
        reads: Reads::default(),
    };
    Some(Far(Arc::new(Mutex::new(State {
        endpoint,
        links,
        broken: Vec::new(),
        doorbell: mapping.atomics(0).expect("a doorbell fits into a page"),
        thread: OnDemand::NotYet,
        vain: 0,
        rounds: 0,
        has_unseen: false,
        failed: None,
    }))))
}

/// The network thread's end of a context.
fn carrier(far: &Far) -> Unsent {
    Unsent { far: Arc::downgrade(&far.0), rounds: far.lock().rounds }
}

/// A message that the network thread takes shows that the provider's file wakes the task for a reason.
#[test]
fn a_message_that_the_thread_takes_lets_the_task_sleep_on_the_file_again() {
    let Some(far) = far() else { return };
    let mut peer = Endpoint::open().expect("libfabric is there");
    let to = peer.add_peer(far.lock().endpoint.address()).expect("an address");
    far.lock().vain = VAIN_MAX;
    let end = Instant::now() + Duration::from_secs(60);
    let mut was_sent = false;
    while !far.lock().has_unseen {
        assert!(Instant::now() < end, "no message arrives");
        // A message of a task that does not exist is dropped.
        was_sent = was_sent || peer.send(to, u32::MAX, 4, |bytes| bytes.fill(1)).expect("the peer is there");
        peer.poll(&mut Vec::new(), |_, _| {}).expect("the peer is there");
        carrier(&far).carry();
    }
    assert_eq!(far.lock().vain, 0);
}

#[test]
fn each_progress_after_a_panic_of_the_thread_reports_it_and_the_task_does_not_sleep() {
    let Some(far) = far() else { return };
    far.progress().expect("the network is there");
    carrier(&far).fail("it has panicked".to_owned());
    for _ in 0..2 {
        assert!(!far.wakes());
        assert_eq!(far.progress().expect_err("the thread has failed"), "it has panicked");
    }
    assert!(!carrier(&far).carry(), "nothing is carried any more");
}
