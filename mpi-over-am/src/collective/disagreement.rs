//! Tasks that disagree about a collective so much that they do not do the same: they call different ones, name different roots, or
//! give it lengths on both sides of a bound. It is a mistake of the program's, by which each would wait for what the other never does.
//!
//! Collectives that wait are numbered alike in all tasks, where there are lanes. What a task puts, and the tag of each message, says the
//! number and what the collective is. So a task that waits knows of a mistake when something is there that has the number of its own
//! collective and is none of it, from whomever it comes, and in whatever order. It gives up, and tells all others, which may wait for
//! this task by now. Nothing is done for it but in waits that have not found what they wait for; messages are looked at when more of
//! them have come since the last look, and never those that are no collective's.
//!
//! What comes to a task that does not wait is seen by nobody, and where nothing comes there is nothing to see: two tasks that each
//! wait for the other as the root, or one that waits for another whose part in its own collective is over, wait for ever.

use std::ops::ControlFlow;

use am_core::Context;
use am_core::buffer::RawBytes;
use am_core::fabric::Fabric;

use super::lanes::{Lanes, LanesOf, Mark, TakenLanes, mismatched};
use super::tags::{self, LONG_FROM_BYTES, Said, Way};
use crate::buffer::SendData;
use crate::communicator::{Communicator, Space};
use crate::error::{Error, Result};
use crate::handlers::MpiHandlers;
use crate::policy::LockPolicy;
use crate::protocol::{self, Mode};
use crate::request::RequestId;
use crate::settings::Selection;
use crate::state::is_over;
use crate::turn::Turn;

/// What a task that waits knows of its own collective.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) number: u32,
    pub(super) mark: Mark,
    pub(super) by: By,
}

/// How a task carries a collective out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Puts,
    /// By messages; whether as a long one.
    Messages {
        is_long: bool,
    },
}

/// What a wait remembers of its looks.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Early messages of collectives that had ever come at the last one.
    seen: u64,
}

/// What a wait has found instead of what it waits for.
#[derive(Debug)]
pub(super) enum Mistake {
    /// A part of another collective, from this rank.
    Other(u32, Mark),
    /// The same one, which others carry out by these means; or news that somebody has found a mistake.
    Ways { by_puts: bool },
}

impl Mistake {
    fn of((source, theirs): (u32, Mark), own: Own, by_puts: bool) -> Self {
        if theirs == own.mark { Self::Ways { by_puts } } else { Self::Other(source, theirs) }
    }
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Waits for a message of the collective with this number.
    ///
    /// # Errors
    /// [`Error::WaysDiffer`], [`Error::Mismatched`]; what progress reports.
    pub(super) fn wait_beside_lanes(
        &self,
        state: &mut Turn<'_, F, L>,
        request: RequestId,
        (number, Way { mark, is_long }): (u32, Way),
    ) -> Result<()> {
        let taken = TakenLanes::<L>::take(self.lanes())?;
        let lanes = if let LanesOf::Ready(lanes) = &taken.lanes { Some(&**lanes) } else { None };
        let own = Own { number, mark, by: By::Messages { is_long } };
        let (mut watch, mut mistake) = (Watch::default(), None);
        state.wait_for(|context| {
            is_over(context, request) || {
                mistake = self.find_mistake(context, lanes, own, &mut watch);
                mistake.is_some()
            }
        })?;
        mistake.map_or(Ok(()), |mistake| Err(self.error_of(mistake, own, &state.selection)))
    }

    /// What the program is told of a mistake.
    #[cold]
    pub(super) fn error_of(&self, mistake: Mistake, own: Own, selection: &Selection) -> Error {
        match mistake {
            Mistake::Other(source, theirs) => mismatched((source, theirs), own.mark),
            Mistake::Ways { by_puts } if by_puts || own.by == By::Puts => {
                Error::WaysDiffer { bytes: own.mark.put_bytes_max(selection, self.size()) }
            }
            Mistake::Ways { .. } => Error::WaysDiffer { bytes: LONG_FROM_BYTES - 1 },
        }
    }

    /// Looks for what others have sent or put for the collective that this task waits in, and that is none of it.
    #[inline]
    pub(super) fn find_mistake(
        &self,
        context: &mut Context<F, MpiHandlers>,
        lanes: Option<&Lanes>,
        own: Own,
        watch: &mut Watch,
    ) -> Option<Mistake> {
        let known = (own.by == By::Puts).then_some(own.mark);
        if let Some(found) = lanes.and_then(|lanes| lanes.put_of(context, own.number, known)) {
            return Some(Mistake::of(found, own, true));
        }
        let early = &context.handlers().early_collective;
        if early.is_empty() || std::mem::replace(&mut watch.seen, early.arrivals()) == early.arrivals() {
            return None;
        }
        self.find_message(context, own)
    }

    /// Messages do not overtake each other: behind the first one of a later collective nothing is of interest.
    #[inline(never)]
    fn find_message(&self, context: &mut Context<F, MpiHandlers>, own: Own) -> Option<Mistake> {
        self.look_at_early_collectives(context, |source, tag| match tags::said(tag, own.number) {
            Said::Way(Way { mark, is_long }) if mark != own.mark || own.by != (By::Messages { is_long }) => {
                ControlFlow::Break(Some(Mistake::of((source, mark), own, false)))
            }
            Said::Disagreement => ControlFlow::Break(Some(Mistake::Ways { by_puts: false })),
            Said::Later => ControlFlow::Break(None),
            Said::Way(_) | Said::Nothing => ControlFlow::Continue(()),
        })
    }

    /// Tells all tasks that they disagree about the collective with this number, and waits for none.
    pub(super) fn tell_of_disagreement(&self, number: u32) -> Result<()> {
        let nothing = SendData::from_bytes(RawBytes::EMPTY);
        for rank in (0..self.size()).filter(|&rank| rank != self.rank()) {
            let route = self.route(Space::Collective, rank, tags::alarm(number))?;
            let mut state = self.state()?;
            let request = protocol::start_send_data(&mut state, Mode::Standard, &route, &nothing, 0)?;
            state.handlers().requests.detach(request);
        }
        Ok(())
    }
}
