//! Hands the events of contexts to the recorder of the job.

use std::sync::Arc;

use am_core::record;
use am_via_job::{Event, EventKind, Recorder};

/// The recorder of am-core that writes into the job's.
#[derive(Debug)]
pub(crate) struct ToJob(pub(crate) Arc<Recorder>);

impl record::Recorder for ToJob {
    fn record(&self, event: &record::Event<'_>) {
        let kind = match event.kind {
            record::EventKind::Begin => EventKind::Begin,
            record::EventKind::End => EventKind::End,
            record::EventKind::Sent => EventKind::Sent,
            record::EventKind::Received => EventKind::Received,
            record::EventKind::Moved => EventKind::Moved,
            record::EventKind::Value => EventKind::Value,
            record::EventKind::Mark => EventKind::Mark,
        };
        let &record::Event { name, peer, tag, context, amount, .. } = event;
        self.0.record(&Event { kind, name, peer: peer.map(|task| task.0), tag, context, amount });
    }
}
