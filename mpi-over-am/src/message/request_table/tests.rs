//! Tests of the table alone.

use super::*;
use crate::matching::ContextId;

#[test]
fn an_old_number_finds_nothing() {
    let mut requests = Requests::default();
    let first = requests.insert(true);
    requests.matched(first, &Envelope::new(ContextId(0), 4, 5));
    requests.delivered(first, 10, 10);
    assert_eq!(requests.take(first).unwrap(), Status::new(4, 5, 10));
    let second = requests.insert(false);
    assert_eq!(first.slot(), second.slot());
    assert!(matches!(requests.take(first), Err(Error::UnknownRequest { .. })));
    assert!(requests.is_over(first));
    assert!(!requests.is_over(second));
}

#[test]
fn the_blocking_slot_is_never_given_out_nor_waited_for_by_number() {
    let mut requests = Requests::default();
    requests.begin_blocking();
    assert!(requests.check(RequestId::BLOCKING_RECEIVE).is_err());
    assert!(requests.insert(true).slot() >= RequestId::RESERVED);
}

#[test]
fn an_operation_that_ended_in_its_call_can_be_waited_for_any_number_of_times() {
    let mut requests = Requests::default();
    for (ended, status) in
        [(RequestId::ENDED_SEND, Status::EMPTY), (RequestId::RECEIVED_FROM_NOBODY, Status::OF_PROC_NULL)]
    {
        for _ in 0..2 {
            assert!(requests.check(ended).is_ok() && requests.is_over(ended) && requests.is_active(ended));
            assert_eq!(requests.take_plain(ended), Some(status));
            assert_eq!(requests.take(ended).unwrap(), status);
            requests.watch(ended, true);
            requests.set_context(ended, 5);
            requests.keep(ended, KeptVec::new(vec![0]));
            requests.detach(ended);
            assert_eq!(requests.status(ended), Some(status));
            assert!(!requests.was_cancelled(ended));
            assert_eq!(requests.facts(ended).unwrap().context_id, None);
        }
    }
    assert!(requests.insert(false).slot() >= RequestId::RESERVED);
}

#[test]
fn a_number_is_a_handle_above_the_predefined_ones_and_other_numbers_find_nothing() {
    let mut requests = Requests::default();
    for _ in 0..200 {
        let id = requests.insert(true);
        assert!(id.handle() > 1 << 12 && id.handle() < 1 << 31);
        assert_eq!(RequestId::from_handle(id.handle()), id);
        requests.end(id, None);
        assert!(requests.take(id).is_ok());
    }
    let id = requests.insert(true);
    for wrong in [0, 1, 2, 0x180, id.handle() | 1 << 31, id.handle() | 1 << 40, usize::MAX] {
        assert!(requests.check(RequestId::from_handle(wrong)).is_err(), "{wrong:#x}");
    }
    assert!(requests.check(RequestId::BLOCKING_RECEIVE).is_err());
}

/// A posted receive needs no other memory: links, pattern and destination are in the record of its request.
#[test]
fn a_posted_receive_and_its_request_are_one_cache_line() {
    assert_eq!((size_of::<Record>(), align_of::<Record>()), (64, 64));
    let mut requests = Requests::default();
    let pattern = Pattern::exact(ContextId(4), 1, 2);
    let id = requests.insert_posted(pattern, ReceiveBuffer::Layout);
    let lines = requests.records.len();
    assert_eq!(requests.posted_receives().collect::<Vec<_>>(), [(id, pattern)]);
    let record = &requests.records[id.index()];
    assert_eq!(record.entry.pattern, pattern);
    assert!(std::ptr::from_ref(record).addr().is_multiple_of(64));
    assert_eq!(requests.take_match(&Envelope::new(ContextId(4), 1, 2)).map(|(id, _)| id), Some(id));
    assert_eq!(requests.records.len(), lines);
}

#[test]
fn only_the_end_of_what_is_watched_is_counted() {
    let mut requests = Requests::default();
    let ids = [requests.insert(true), requests.insert(true), requests.insert(true)];
    requests.watch(ids[1], true);
    requests.watch(ids[2], true);
    requests.watch(ids[2], false);
    ids.iter().for_each(|&id| requests.complete_plain(id, 8, 8));
    assert_eq!(requests.watched_ended(), 1);
}

#[test]
fn a_detached_request_goes_when_it_is_over() {
    let mut requests = Requests::default();
    let id = requests.insert(false);
    requests.set_scope(id, 7);
    requests.detach(id);
    assert_eq!(requests.unfinished(), [id]);
    assert_eq!(requests.of_scope(7), [id]);
    requests.end(id, None);
    assert!(requests.unfinished().is_empty());
    assert!(requests.check(id).is_err());
}

#[test]
fn a_cut_receive_ends_with_the_four_values() {
    let mut requests = Requests::default();
    let id = requests.insert(true);
    requests.matched(id, &Envelope::new(ContextId(0), 2, 3));
    requests.delivered(id, 100, 60);
    assert!(matches!(
        requests.take(id),
        Err(Error::Truncated { source_rank: 2, tag: 3, sent: 100, capacity: 60 })
    ));
}
