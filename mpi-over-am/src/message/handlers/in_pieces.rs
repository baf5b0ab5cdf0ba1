//! Messages in pieces, at their receiver.
//!
//! The user header of the first piece is the envelope, and the length of the message; that of the other pieces is empty. The sender posts
//! all pieces together, so no other message of the sender comes between them, and a piece need not name its message. The receiver copies
//! one piece while the sender copies the next.
//!
//! The first piece matches, like an eager message. A message without a receive is kept, within its sender's part of the budget. A receive
//! may take it before its last piece has come; the other pieces are then stored in the receive's buffer.

use am_core::buffer::Arrived;
use am_core::fabric::NextPacket;
use am_core::handler::{Answer, Message};
use am_core::task::TaskId;

use super::MpiHandlers;
use crate::error::Error;
use crate::matching::Envelope;
use crate::message::early_message::{EarlyMessage, footprint};
use crate::message::request_id::RequestId;
use crate::message::route::ReceiveBuffer;

/// Maximum bytes of a message in pieces. This maximum bounds the bytes of a message that a receiver keeps, and copies twice, if the receive
/// is posted later.
pub(crate) const IN_PIECES_BYTES_MAX: usize = 256 << 10;

/// Messages in pieces that are not received yet.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// The arrivals, by their numbers.
    slots: Vec<Arrival>,
    free: Vec<u32>,
    /// Arrivals with pieces still to come, at most one for each sender: the sender, and the number.
    under_way: Vec<(u32, u32)>,
}

#[derive(Debug)]
struct Arrival {
    /// The sender.
    task: u32,
    len: usize,
    /// Number of bytes that have arrived: the first bytes of the message.
    received: usize,
    /// Bytes that are stored in the receive's buffer.
    placed: u64,
    to: To,
}

/// Where the bytes are stored.
#[derive(Debug)]
enum To {
    Receive(RequestId, ReceiveBuffer),
    /// In this buffer, until the receive is posted.
    Kept(Box<[u8]>),
    /// The bytes that have arrived are already in the buffer of the receive that takes the message next.
    InPlace,
    /// The sender has failed.
    Lost(Box<am_core::error::Error>),
}

impl Arrivals {
    fn insert(&mut self, arrival: Arrival) -> u32 {
        let task = arrival.task;
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = arrival;
                number
            }
            None => {
                self.slots.push(arrival);
                u32::try_from(self.slots.len() - 1).expect("the budget limits messages")
            }
        };
        self.under_way.push((task, number));
        number
    }

    /// The number of the message of `task` with pieces still to come.
    fn from(&self, task: u32) -> Option<u32> {
        self.under_way.iter().find(|&&(sender, _)| sender == task).map(|&(_, number)| number)
    }

    /// Records that no piece of this message is still to come.
    fn end(&mut self, number: u32) {
        self.under_way.retain(|&(_, other)| other != number);
    }

    /// Removes a message that has been received, or is lost.
    fn remove(&mut self, number: u32) -> Arrival {
        self.free.push(number);
        let nothing = Arrival { task: 0, len: 0, received: 0, placed: 0, to: To::InPlace };
        std::mem::replace(&mut self.slots[number as usize], nothing)
    }
}

impl MpiHandlers {
    /// Handles a piece that `consume` has not taken.
    #[inline(never)]
    pub(super) fn piece(&mut self, message: &Message<'_>) -> Answer {
        let task = message.source.task.0;
        match message.here {
            Some(here) if self.take_piece(task, message.uhdr, here) => Answer::discard(),
            _ => self.malformed(message),
        }
    }

    /// Takes a piece of a message from `task` in line. `false`: it is not a valid piece, or beyond the budget, and nothing has changed.
    #[inline(never)]
    pub(crate) fn take_next_piece(&mut self, task: u32, next: NextPacket<'_>) -> bool {
        let parts = next.uhdr_len().and_then(|len| next.parts(len));
        parts.is_some_and(|(uhdr, here)| self.take_piece(task, uhdr.as_slice(), here))
    }

    /// Takes a piece of a message from `task`. `false`: it is invalid, or beyond the budget, and nothing has changed.
    #[inline(never)]
    pub(super) fn take_piece(&mut self, task: u32, uhdr: &[u8], here: Arrived<'_>) -> bool {
        let number = if uhdr.is_empty() {
            match self.arrivals.from(task) {
                Some(number) => number,
                // A piece of a message that ended when its sender failed.
                None if self.has_failed(TaskId(task)) => return true,
                None => return false,
            }
        } else {
            match self.begin_in_pieces(task, uhdr, here.len()) {
                Some(number) => number,
                None => return false,
            }
        };
        self.store_piece(number, here)
    }

    /// The envelope and the length of a message of `task`, from the user header and the number of bytes of the message's first piece.
    /// `None`: no first piece has this header and this number of bytes, or an earlier message of `task` is still incomplete.
    pub(crate) fn first_of_pieces(&self, task: u32, uhdr: &[u8], bytes: usize) -> Option<(Envelope, usize)> {
        let (envelope, len) = self.envelope_and_word(uhdr)?;
        let len = len as usize;
        let is_meant = 0 < bytes && bytes < len && len <= IN_PIECES_BYTES_MAX;
        (is_meant && self.arrivals.from(task).is_none()).then_some((envelope, len))
    }

    /// Begins a message that comes in pieces: gives it to a matching receive, or keeps it as an early message. Returns the arrival's
    /// number; `None` if this is not a first piece, or if the budget for early messages is used up.
    fn begin_in_pieces(&mut self, task: u32, uhdr: &[u8], bytes: usize) -> Option<u32> {
        let (envelope, len) = self.first_of_pieces(task, uhdr, bytes)?;
        let arrival = |to| Arrival { task, len, received: 0, placed: 0, to };
        if let Some((request, buffer)) = self.requests.take_match(&envelope) {
            self.record_match(|| TaskId(task), &envelope, len as u64, false);
            self.budget.received(task, footprint(len));
            return Some(self.arrivals.insert(arrival(To::Receive(request, buffer))));
        }
        if !self.budget.keep(task, footprint(len)) {
            return None;
        }
        self.record_early(task, &envelope, len as u64);
        let number = self.arrivals.insert(arrival(To::Kept(self.buffers.take(len))));
        self.early.push(envelope, EarlyMessage::InPieces { task, number, len: len as u64 });
        Some(number)
    }

    /// Makes an early message of a message whose first bytes have been received in line. The caller must then post the receive that takes
    /// the message.
    pub(crate) fn begin_in_place(&mut self, task: u32, envelope: Envelope, len: usize, received: usize) {
        let number = self.arrivals.insert(Arrival { task, len, received, placed: 0, to: To::InPlace });
        self.early.push(envelope, EarlyMessage::InPieces { task, number, len: len as u64 });
    }

    /// Stores the next piece of a message. Returns false if the packet is empty, or longer than the rest of the message.
    fn store_piece(&mut self, number: u32, here: Arrived<'_>) -> bool {
        let Self { arrivals, requests, .. } = self;
        let arrival = &mut arrivals.slots[number as usize];
        let at = arrival.received;
        if here.is_empty() || here.len() > arrival.len - at {
            return false;
        }
        match &mut arrival.to {
            &mut To::Receive(request, buffer) => arrival.placed += requests.store(request, buffer, at, here),
            To::Kept(bytes) => {
                here.copy_to(&mut bytes[at..]);
            }
            To::InPlace | To::Lost(_) => {}
        }
        arrival.received += here.len();
        if arrival.received == arrival.len {
            arrivals.end(number);
            self.end_if_received(number);
        }
        true
    }

    /// Completes the receive of a message, if there is one and all pieces have arrived.
    fn end_if_received(&mut self, number: u32) {
        let &Arrival { len, received, placed, ref to, .. } = &self.arrivals.slots[number as usize];
        if let &To::Receive(request, _) = to
            && received == len
        {
            self.arrivals.remove(number);
            self.requests.delivered(request, len as u64, placed);
        }
    }

    /// Gives an early message in pieces to its receive.
    pub(crate) fn receive_arrival(&mut self, number: u32, request: RequestId, buffer: ReceiveBuffer) {
        let arrival = &mut self.arrivals.slots[number as usize];
        let (task, footprint) = (arrival.task, footprint(arrival.len));
        match std::mem::replace(&mut arrival.to, To::Receive(request, buffer)) {
            To::Kept(bytes) => {
                let here = Arrived::private(&bytes[..arrival.received]);
                arrival.placed = self.requests.store(request, buffer, 0, here);
                self.buffers.give_back(bytes);
                self.budget.take(task, footprint);
            }
            To::InPlace => arrival.placed = arrival.received as u64,
            To::Lost(why) => {
                self.arrivals.remove(number);
                return self.requests.end(request, Some(Error::Core(*why)));
            }
            // A message is given to only one receive.
            To::Receive(..) => {}
        }
        self.end_if_received(number);
    }

    /// Ends the message in pieces that `task`, which is gone, has not completed. The message's receive gets the error.
    pub(super) fn end_arrivals_from(&mut self, task: TaskId, why: &dyn Fn() -> am_core::error::Error) {
        let Some(number) = self.arrivals.from(task.0) else { return };
        self.arrivals.end(number);
        let arrival = &mut self.arrivals.slots[number as usize];
        let footprint = footprint(arrival.len);
        match std::mem::replace(&mut arrival.to, To::Lost(Box::new(why()))) {
            To::Receive(request, _) => {
                self.arrivals.remove(number);
                self.requests.end(request, Some(Error::Core(why())));
            }
            To::Kept(bytes) => {
                self.buffers.give_back(bytes);
                self.budget.take(task.0, footprint);
            }
            To::InPlace | To::Lost(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use am_core::buffer::RawBuffer;
    use am_core::fabric::Fabric;
    use am_double::{Config, network};

    use super::*;
    use crate::data::buffer::keep_vec;
    use crate::error::Result;
    use crate::matching::{ContextId, Pattern};
    use crate::message::envelope;
    use crate::message::handlers::RANKS_MAX;
    use crate::message::protocol::start_receive;
    use crate::message::route::Receive;
    use crate::message::state::State;
    use crate::message::status::Status;
    use crate::settings::Settings;

    const SENDER: u32 = 1;
    const LEN: usize = 300;

    fn header(len: usize) -> [u8; 20] {
        envelope::to_bytes_with_word(&Envelope::new(ContextId(0), SENDER, 5), 0, u32::try_from(len).unwrap())
    }

    fn data() -> Vec<u8> {
        (0..=250).cycle().step_by(7).take(LEN).collect()
    }

    fn receive<F: Fabric>(state: &mut State<F>, buffer: RawBuffer) -> RequestId {
        let pattern = Pattern::new(ContextId(0), Some(SENDER), Some(5));
        start_receive(state, Receive { pattern, buffer: ReceiveBuffer::Bytes(buffer) })
    }

    /// Sends the pieces between the given offsets, posts the receive before the piece with this number, and returns the receive's result.
    /// `None`: the receive is not complete.
    fn take<F: Fabric>(
        state: &mut State<F>,
        cuts: &[usize],
        receive_before: usize,
        buffer: RawBuffer,
    ) -> Option<Result<Status>> {
        let (data, mut request) = (data(), None);
        for (number, ends) in cuts.windows(2).enumerate() {
            if number == receive_before {
                request = Some(receive(state, buffer));
            }
            let header = header(LEN);
            let uhdr = if number == 0 { &header[..] } else { &[] };
            let taken = state.handlers().take_piece(SENDER, uhdr, Arrived::private(&data[ends[0]..ends[1]]));
            assert!(taken, "piece {number}");
        }
        let request = request.unwrap_or_else(|| receive(state, buffer));
        let requests = &mut state.handlers().requests;
        requests.is_over(request).then(|| requests.take(request))
    }

    #[test]
    fn a_receive_takes_a_message_before_between_and_after_its_pieces() {
        let (_network, mut fabrics) = network(Config::new(2));
        let mut state = State::new(fabrics.swap_remove(0), &Settings::default()).unwrap();
        let untouched = state.handlers().budget.clone();
        for capacity in [LEN + 10, LEN, 150, 0] {
            for receive_before in 0..4 {
                let (_kept, buffer) = keep_vec(&state, vec![0xEE; capacity]);
                let taken = take(&mut state, &[0, 100, 200, LEN], receive_before, buffer);
                let stored = LEN.min(capacity);
                match taken.expect("the message is whole") {
                    Ok(status) => assert_eq!((status.tag(), status.len, stored), (5, LEN as u64, LEN)),
                    Err(Error::Truncated { sent, capacity: placed, .. }) => {
                        assert_eq!((sent, placed), (LEN as u64, capacity as u64));
                        assert!(stored < LEN, "it fits");
                    }
                    Err(error) => panic!("{error}"),
                }
                let mut got = vec![0; capacity];
                buffer.as_bytes().copy_to(&mut got);
                assert_eq!(got[..stored], data()[..stored], "{capacity} bytes, receive {receive_before}");
                assert!(got[stored..].iter().all(|&byte| byte == 0xEE));
            }
        }
        let handlers = state.handlers();
        assert!(handlers.early.is_empty() && handlers.arrivals.under_way.is_empty());
        assert_eq!(handlers.arrivals.slots.len(), handlers.arrivals.free.len(), "all numbers are free");
        assert!(handlers.budget != untouched, "the sender gets its part of the budget back");
    }

    #[test]
    fn pieces_that_no_message_can_have_are_refused() {
        let settings = Settings { early_arrival_bytes_max: 4096, ..Settings::default() };
        let mut handlers = MpiHandlers::new(TaskId(0), 2, &settings);
        let data = data();
        let mut is_refused = |uhdr: &[u8], bytes: &[u8]| {
            let untouched = format!("{:?} {:?}", handlers.arrivals, handlers.budget);
            let refused = !handlers.take_piece(SENDER, uhdr, Arrived::private(bytes));
            assert!(!refused || untouched == format!("{:?} {:?}", handlers.arrivals, handlers.budget));
            refused
        };
        assert!(is_refused(&[], &data), "a piece of no message");
        assert!(is_refused(&header(LEN), &[]), "an empty first piece");
        assert!(is_refused(&header(LEN), &data), "a message that is whole in its first piece");
        assert!(is_refused(&header(IN_PIECES_BYTES_MAX + 1), &data), "too long");
        assert!(is_refused(&header(3000), &data), "beyond the sender's part of the budget");
        assert!(is_refused(&header(LEN)[..19], &data[..100]), "a header that is too short");
        let unknown = envelope::to_bytes_with_word(&Envelope::new(ContextId(0), RANKS_MAX, 5), 0, 300);
        assert!(is_refused(&unknown, &data[..100]), "a rank that does not exist");
        assert!(!is_refused(&header(LEN), &data[..100]));
        assert!(is_refused(&header(LEN), &data[..100]), "a second message before the end of the first one");
        assert!(is_refused(&[], &[]), "an empty piece");
        assert!(is_refused(&[], &data[..201]), "more than its length");
        assert!(!is_refused(&[], &data[100..]));
        assert!(is_refused(&[], &data[..1]), "a piece after the last one");
    }

    #[test]
    fn a_message_whose_sender_fails_between_its_pieces_ends_with_that_error() {
        let (_network, mut fabrics) = network(Config::new(2));
        let mut state = State::new(fabrics.swap_remove(0), &Settings::default()).unwrap();
        let what = || am_core::error::Error::PeerFailed { task: TaskId(SENDER), what: "killed".to_owned() };
        let (_kept, buffer) = keep_vec(&state, vec![0; LEN]);
        for is_early in [false, true] {
            let posted = (!is_early).then(|| receive(&mut state, buffer));
            let handlers = state.handlers();
            let taken = handlers.take_piece(SENDER, &header(LEN), Arrived::private(&data()[..100]));
            assert!(taken);
            handlers.end_arrivals_from(TaskId(SENDER), &what);
            let request = posted.unwrap_or_else(|| receive(&mut state, buffer));
            let error = state.handlers().requests.take(request).unwrap_err();
            assert!(matches!(error, Error::Core(am_core::error::Error::PeerFailed { .. })), "{error}");
            let arrivals = &state.handlers().arrivals;
            assert!(arrivals.under_way.is_empty() && arrivals.slots.len() == arrivals.free.len());
        }
    }
}
