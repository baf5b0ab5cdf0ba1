//! Operations that a program begins as one and that end as one: vectors and accumulations.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::Engine;
use super::outgoing::Issued;
use super::outstanding::{Data, End, Op, State};
use super::owner_operations::atomic_code;
use super::packet::{self, pack};
use super::send::{Started, refuse_operation_grant};
use crate::buffer::{Executor, PacketWriter, Range, RawBuffer, RawBytes, RawPieces, RemoteAddress};
use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::HandlerSet;
use crate::transfer::{AtomicOp, OpId, Parts, Transfer, Width};
use crate::user_code::UserCode;
use crate::vector::Layout;
use smallvec::SmallVec;

impl<U: UserCode> Engine<U> {
    /// Opens a group, which stays open until [`close_group`](Self::close_group).
    fn open_group(&mut self, peer: Peer, len: u64, notify: u32, end: End) -> Result<u32> {
        let state = State::Group { left: 1, failed: None, notify };
        self.ops.insert(Op { peer, len, end, state })
    }

    fn count_part(&mut self, group: u32, begun: Issued) {
        if let (Issued::Ongoing(_), Some(Op { state: State::Group { left, .. }, .. })) =
            (begun, self.ops.get_mut(group))
        {
            *left += 1;
        }
    }

    /// Closes a group: all parts have begun, or one failed to begin.
    fn close_group<F: Fabric>(&mut self, fabric: &mut F, group: u32, begun: Result<()>) -> Result<Issued> {
        let Some(Op { peer, state: State::Group { left, failed, notify }, .. }) = self.ops.get_mut(group)
        else {
            return begun.map(|()| Issued::Done);
        };
        let (peer, notify) = (*peer, *notify);
        *left -= 1;
        if *left > 0 {
            // The program may reuse its memory when the parts that have begun have ended.
            *failed = begun.err().map(Box::new);
            return Ok(Issued::Ongoing(group));
        }
        let Some(op) = self.ops.forget(group) else { return begun.map(|()| Issued::Done) };
        begun?;
        self.notify(fabric, peer, notify)?;
        self.bump_own(op.end.origin);
        self.bump_own(op.end.completion);
        self.counters.note_received(op.end.completion.map(Counter::name), peer.endpoint.task);
        Ok(Issued::Done)
    }

    /// Ends a part of a group.
    ///
    /// # Errors
    /// The error of the group, if it is reported nowhere else.
    pub(super) fn end_part<F: Fabric, H: HandlerSet>(
        &mut self,
        group: u32,
        result: Result<u64>,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let Some(Op { peer, state: State::Group { left, failed, notify }, .. }) = self.ops.get_mut(group)
        else {
            return result.map(|_| ());
        };
        let (peer, notify) = (*peer, *notify);
        if let Err(error) = result {
            failed.get_or_insert_with(|| Box::new(error));
        }
        *left -= 1;
        if *left > 0 {
            return Ok(());
        }
        match failed.take() {
            Some(error) => self.end_op(group, Err(*error), fabric, handlers),
            None => {
                let notified = self.notify(fabric, peer, notify);
                self.end_op(group, Ok(0), fabric, handlers).and(notified)
            }
        }
    }

    /// Writes pieces of this task's memory to the blocks of `layout`, from `to` on.
    ///
    /// # Errors
    /// `LengthsDiffer`, `UnknownTask`, `PeerFailed`, `RemoteRange`, or `Exhausted` (too many operations). If a piece cannot begin while
    /// others are under way, the operation ends with its error instead.
    pub fn write_pieces<F: Fabric>(
        &mut self,
        fabric: &mut F,
        (to, layout): (RemoteAddress, &Layout),
        from: RawPieces<RawBytes>,
        notify: u32,
        end: End,
    ) -> Result<Issued> {
        check_lengths(from.len(), layout.len())?;
        refuse_operation_grant(to, layout.len())?;
        let peer = self.target(fabric, to.owner())?;
        let group = self.open_group(peer, layout.len(), notify, end)?;
        let begun = self.write_each_piece(fabric, peer, (to, layout), from, group);
        self.close_group(fabric, group, begun)
    }

    fn write_each_piece<F: Fabric>(
        &mut self,
        fabric: &mut F,
        peer: Peer,
        (to, layout): (RemoteAddress, &Layout),
        from: RawPieces<RawBytes>,
        group: u32,
    ) -> Result<()> {
        let write = |pieces: &[_]| fabric.write_pieces(to, pieces);
        let mut position = pieces_at_once(layout, |position, len| from.part_at(position, len), write)?;
        while let Some(block) = layout.block_at(position) {
            let Some(bytes) = from.part_at(position, block.len) else { break };
            let key = self.ops.reserve()?;
            let at = to.plus(block.offset);
            let posted = match fabric.write(at, bytes, OpId(key))? {
                Transfer::Done(()) => {
                    position += bytes.len() as u64;
                    continue;
                }
                // All pieces of a region take the same path.
                Transfer::Unreachable => {
                    let data = PiecesFrom { pieces: Arc::new(from), start: position };
                    return self.announce_pieces(fabric, peer, (to, layout), data, group);
                }
                Transfer::Posted => true,
                Transfer::Retry => false,
            };
            let end = End { part_of: Some(group), ..End::default() };
            let state = State::Write { bytes, to: at, notify: 0, completion_counter: 0, posted };
            let op = self.ops.insert(Op { peer, len: bytes.len() as u64, end, state })?;
            if !posted {
                self.retry_later(op);
            }
            self.count_part(group, Issued::Ongoing(op));
            position += bytes.len() as u64;
        }
        Ok(())
    }

    /// Sends the pieces in a few messages, which the engine at the target scatters: the target's memory is not accessible from here.
    fn announce_pieces<F: Fabric>(
        &mut self,
        fabric: &mut F,
        peer: Peer,
        (to, layout): (RemoteAddress, &Layout),
        mut data: PiecesFrom,
        group: u32,
    ) -> Result<()> {
        let destination_bytes_max = self.uhdr_bytes_max();
        while data.start < layout.len() {
            let (destination, len) =
                packet::scattered_destination(to, layout, data.start, destination_bytes_max);
            let end = End { part_of: Some(group), ..End::default() };
            let mut op = Op { peer, len, end, state: State::Fence };
            let key = self.ops.reserve()?;
            let part = Data::Parts(Box::new(PiecesOf { from: data.clone(), len }));
            if let Started::Ongoing = self.announce_put(fabric, key, &mut op, part, &destination, (0, 0))? {
                let op = self.ops.insert(op)?;
                self.count_part(group, Issued::Ongoing(op));
            }
            data.start += len;
        }
        Ok(())
    }

    /// Reads the blocks of `layout`, from `from` on, into pieces of this task's memory.
    ///
    /// # Errors
    /// Those of [`write_pieces`](Self::write_pieces).
    pub fn read_pieces<F: Fabric>(
        &mut self,
        fabric: &mut F,
        (from, layout): (RemoteAddress, &Layout),
        to: &RawPieces<RawBuffer>,
        notify: u32,
        end: End,
    ) -> Result<Issued> {
        check_lengths(to.len(), layout.len())?;
        let peer = self.target(fabric, from.owner())?;
        let group = self.open_group(peer, layout.len(), notify, end)?;
        let read = |pieces: &[_]| fabric.read_pieces(from, pieces);
        let at_once = pieces_at_once(layout, |position, len| to.part_at(position, len), read);
        let mut position = *at_once.as_ref().unwrap_or(&0);
        let mut begun = at_once.map(drop);
        while let (Ok(()), Some(block)) = (&begun, layout.block_at(position)) {
            let Some(part) = to.part_at(position, block.len) else { break };
            position += part.len() as u64;
            let end = End { part_of: Some(group), ..End::default() };
            begun = self
                .read(fabric, from.plus(block.offset), part, 0, end)
                .map(|begun| self.count_part(group, begun));
        }
        self.close_group(fabric, group, begun)
    }

    /// Combines each word at `to` with one of `operands`, little-endian words of the same width. Each word is updated atomically by the
    /// region's [`Executor`]; the whole is not atomic.
    ///
    /// # Errors
    /// `RemoteRange`, `Misaligned`, `PeerFailed`, or `Exhausted` (too many operations).
    pub fn accumulate<F: Fabric>(
        &mut self,
        fabric: &mut F,
        to: RemoteAddress,
        operands: RawBytes,
        (width, operation): (Width, AtomicOp),
        notify: u32,
        end: End,
    ) -> Result<Issued> {
        refuse_operation_grant(to, operands.len() as u64)?;
        let peer = self.target(fabric, to.owner())?;
        let group = self.open_group(peer, operands.len() as u64, notify, end)?;
        let begun = self.accumulate_words(fabric, peer, to, operands, (width, operation), group);
        self.close_group(fabric, group, begun)
    }

    fn accumulate_words<F: Fabric>(
        &mut self,
        fabric: &mut F,
        peer: Peer,
        to: RemoteAddress,
        operands: RawBytes,
        (width, operation): (Width, AtomicOp),
        group: u32,
    ) -> Result<()> {
        let size = width.bytes() as usize;
        for at in (0..operands.len()).step_by(size) {
            let mut word = [0; 8];
            if let Some(operand) = operands.part(at, size) {
                operand.copy_to(&mut word[..size]);
            }
            let operation = operation.with_operand(u64::from_le_bytes(word));
            let key = self.ops.reserve()?;
            let word_at = to.plus(at as u64);
            let started = match to.executor {
                Executor::Owner => Transfer::Unreachable,
                Executor::Anyone => fabric.atomic(word_at, width, operation, OpId(key))?,
            };
            let posted = match started {
                Transfer::Done(_) => continue,
                Transfer::Unreachable => {
                    let code = atomic_code(width, operation);
                    return self.accumulate_at_owner(fabric, peer, word_at, (operands, at), code, group);
                }
                Transfer::Posted => true,
                Transfer::Retry => false,
            };
            let end = End { part_of: Some(group), ..End::default() };
            let state = State::Atomic { at: word_at, width, operation, posted };
            let op = self.ops.insert(Op { peer, len: size as u64, end, state })?;
            if !posted {
                self.retry_later(op);
            }
            self.count_part(group, Issued::Ongoing(op));
        }
        Ok(())
    }

    /// Sends the operands from byte `at` on to the owner, as one message.
    fn accumulate_at_owner<F: Fabric>(
        &mut self,
        fabric: &mut F,
        peer: Peer,
        to: RemoteAddress,
        (operands, at): (RawBytes, usize),
        code: u16,
        group: u32,
    ) -> Result<()> {
        let Some(rest) = operands.part(at, operands.len() - at) else { return Ok(()) };
        let destination = pack([
            &to.grant.region.to_le_bytes(),
            &to.grant.generation.to_le_bytes(),
            &to.offset.to_le_bytes(),
            &u64::from(code).to_le_bytes(),
        ]);
        let end = End { part_of: Some(group), ..End::default() };
        let mut op = Op { peer, len: rest.len() as u64, end, state: State::Fence };
        let key = self.ops.reserve()?;
        let operands = Data::Bytes(rest);
        if let Started::Ongoing =
            self.announce_put(fabric, key, &mut op, operands, destination.as_slice(), (0, 0))?
        {
            let op = self.ops.insert(op)?;
            self.count_part(group, Issued::Ongoing(op));
        }
        Ok(())
    }
}

/// The pieces from one position of their stream on.
#[derive(Clone, Debug)]
struct PiecesFrom {
    pieces: Arc<RawPieces<RawBytes>>,
    start: u64,
}

/// `len` bytes of the pieces, as the data of a message.
#[derive(Debug)]
struct PiecesOf {
    from: PiecesFrom,
    len: u64,
}

impl Parts for PiecesOf {
    fn size(&self) -> u64 {
        self.len
    }

    fn write_part(&mut self, offset: u64, len: usize, writer: &mut PacketWriter<'_>) -> Result<()> {
        self.from.pieces.gather_from(self.from.start + offset, len, writer);
        Ok(())
    }
}

/// Number of pieces that are handed to the fabric together.
const PIECES_AT_ONCE: usize = 512;

/// Copies the blocks of a layout, each with its part of the local memory, by calls of `copy` for many pieces, as long as `copy` returns
/// true. Returns the position of the stream from which on each piece must be copied by itself.
fn pieces_at_once<R>(
    layout: &Layout,
    part_at: impl Fn(u64, u64) -> Option<R>,
    mut copy: impl FnMut(&[(u64, R)]) -> Result<bool>,
) -> Result<u64>
where
    R: Range,
{
    let (mut done, mut position) = (0, 0);
    let mut pieces = SmallVec::<[(u64, R); PIECES_AT_ONCE]>::new();
    let mut blocks = layout.blocks_from(0);
    loop {
        let block = blocks.next();
        if let Some(mut block) = block {
            while let Some(part) = part_at(position, block.len).filter(|part| part.len() > 0) {
                let len = part.len();
                pieces.push((block.offset, part));
                position += len;
                block.offset += len;
                block.len -= len;
                if block.len == 0 {
                    break;
                }
            }
        }
        let is_last = block.is_none();
        if pieces.len() >= PIECES_AT_ONCE || is_last {
            if pieces.len() < 2 || !copy(&pieces)? {
                return Ok(done);
            }
            done = position;
            pieces.clear();
        }
    }
}

fn check_lengths(here: u64, there: u64) -> Result<()> {
    if here == there { Ok(()) } else { Err(Error::LengthsDiffer { here, there }) }
}
