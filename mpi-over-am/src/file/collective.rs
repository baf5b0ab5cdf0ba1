//! Reads and writes by all tasks together (MPI 5.0 sections 14.4.2 to 14.4.4).
//!
//! If the tasks' pieces lie between each other, some tasks are *aggregators*: each gets all data of a domain of the file, and moves them by
//! few large accesses ([`Domains`]). A write still changes only bytes that a task writes. Otherwise each task accesses its own part.

use std::io;
use std::ops::Range;

use am_core::fabric::Fabric;
use mpi_io::{Domains, Moved, Selection, read_together, write_together};

use super::buffers::{Source, Target, to_usize};
use super::opened::Span;
use super::representation::FileView;
use super::{File, Place, code_of, error_of};
use crate::buffer::{RecvData, SendData};
use crate::collective::Placement;
use crate::error::{Error, ErrorClass, Result};
use crate::policy::{Field, LockPolicy};
use crate::status::Status;

/// Bytes of a domain that are moved in one round, unless the hint `cb_buffer_size` says otherwise.
const WINDOW_BYTES: u64 = 16 << 20;
/// The bounds of domains are multiples of this number of bytes, unless the hint `striping_unit` says otherwise: those of pages.
const UNIT_BYTES: u64 = 4 << 10;
/// The most aggregators, unless the hint `cb_nodes` says otherwise.
const AGGREGATORS_MAX: u32 = 8;
/// Pieces of this length on average are moved by their own task.
const LONG_PIECE_BYTES: u64 = 256 << 10;

/// What the tasks tell each other about an access. A task whose arguments are wrong takes part without data.
#[derive(Clone, Debug)]
struct Part {
    /// The task's pieces do not lie in the order of its data, so that no part of the file has a part of the data.
    is_tangled: bool,
    /// From the first to the last byte in the file.
    bytes: Range<u64>,
    /// Number of pieces.
    pieces: u64,
    len: u64,
}

impl Part {
    fn of(span: Option<&Span>) -> Self {
        let Some(span) = span.filter(|span| span.len > 0) else {
            return Self { is_tangled: false, bytes: 0..0, pieces: 0, len: 0 };
        };
        let (mut pieces, mut bytes) = (0, None::<Range<u64>>);
        if let Some(piece) = span.view.one_piece(span.from, span.len) {
            (pieces, bytes) = (1, Some(piece.at..piece.at + piece.len));
        } else {
            span.view.visit(span.from, span.len, |piece| {
                pieces += 1;
                let (at, end) = (piece.at, piece.at + piece.len);
                bytes = Some(bytes.take().map_or(at..end, |all| all.start.min(at)..all.end.max(end)));
            });
        }
        let is_tangled = !span.view.is_increasing();
        Self { is_tangled, bytes: bytes.unwrap_or(0..0), pieces, len: span.len }
    }

    fn to_words(&self) -> [u64; 5] {
        [self.is_tangled.into(), self.bytes.start, self.bytes.end, self.pieces, self.len]
    }

    fn from_words(words: &[u64]) -> Self {
        Self { is_tangled: words[0] != 0, bytes: words[1]..words[2], pieces: words[3], len: words[4] }
    }
}

/// Whether the parts of different tasks lie between each other.
fn are_mixed(parts: &[Part]) -> bool {
    let mut ranges: Vec<_> =
        parts.iter().filter(|part| part.len > 0).map(|part| part.bytes.clone()).collect();
    ranges.sort_by_key(|range| range.start);
    ranges.windows(2).any(|pair| pair[1].start < pair[0].end)
}

/// The tasks that move the data of all tasks.
struct Aggregators {
    domains: Domains,
    number: u32,
    tasks: u32,
}

impl Aggregators {
    /// The rank of an aggregator.
    fn rank(&self, number: u32) -> u32 {
        let rank = u64::from(number) * u64::from(self.tasks) / u64::from(self.number);
        u32::try_from(rank).expect("it is below the number of tasks")
    }

    /// The windows of all aggregators in a round, with their ranks. Empty ones are left out.
    fn windows(&self, round: u64) -> impl Iterator<Item = (u32, Range<u64>)> {
        (0..self.number)
            .map(move |number| (self.rank(number), self.domains.window(number, round)))
            .filter(|(_, window)| !window.is_empty())
    }

    /// This task's window in a round.
    fn own_window(&self, rank: u32, round: u64) -> Range<u64> {
        self.windows(round).find(|&(of, _)| of == rank).map_or(0..0, |(_, window)| window)
    }
}

/// A collective access after the tasks have met.
pub(super) enum Met<D> {
    /// The aggregators have moved the data.
    Over(Status),
    /// Each task accesses its own part.
    Own(D, Span),
}

impl<F: Fabric, L: LockPolicy> File<F, L> {
    /// Writes elements, together with all other tasks (`MPI_File_write_all`, `MPI_File_write_at_all`). Collective.
    ///
    /// # Errors
    /// Those of [`write_data`](Self::write_data). If a task could not write data of others, all tasks get its error.
    pub fn write_data_all(&self, place: Place, data: &SendData) -> Result<Status> {
        self.write_met(place, self.meet_to_write(place, data)?)
    }

    /// Reads elements, together with all other tasks (`MPI_File_read_all`, `MPI_File_read_at_all`). Collective.
    ///
    /// # Errors
    /// Those of [`read_data`](Self::read_data). If a task could not read data of others, all tasks get its error.
    pub fn read_data_all(&self, place: Place, data: &RecvData) -> Result<Status> {
        self.read_met(place, self.meet_to_read(place, data)?)
    }

    /// Writes the elements of all tasks at the shared pointer, in the order of the ranks (`MPI_File_write_ordered`). Collective.
    ///
    /// # Errors
    /// Those of [`write_data_all`](Self::write_data_all).
    pub fn write_data_ordered(&self, data: &SendData) -> Result<Status> {
        self.write_met(Place::Shared, self.meet_to_write_ordered(data)?)
    }

    /// Reads the elements of all tasks at the shared pointer, in the order of the ranks (`MPI_File_read_ordered`). Collective.
    ///
    /// # Errors
    /// Those of [`read_data_all`](Self::read_data_all).
    pub fn read_data_ordered(&self, data: &RecvData) -> Result<Status> {
        self.read_met(Place::Shared, self.meet_to_read_ordered(data)?)
    }

    pub(super) fn meet_to_write(&self, place: Place, data: &SendData) -> Result<Met<Source>> {
        self.check_written()?;
        let view = self.view.get();
        let prepared = Source::new(&view, self.path(), data).and_then(|source| {
            let span = self.span(view, self.check_place(place)?, source.len())?;
            Ok((source, span))
        });
        self.write_prepared(place, prepared)
    }

    pub(super) fn meet_to_read(&self, place: Place, data: &RecvData) -> Result<Met<Target>> {
        self.check_read()?;
        let view = self.view.get();
        let prepared = Target::new(&view, self.path(), data).and_then(|target| {
            let span = self.span(view, self.check_place(place)?, target.len())?;
            Ok((target, span))
        });
        self.read_prepared(place, prepared)
    }

    pub(super) fn meet_to_write_ordered(&self, data: &SendData) -> Result<Met<Source>> {
        self.check_written()?;
        let view = self.view.get();
        let source = Source::new(&view, self.path(), data);
        let position = self.take_turns(&view, source.as_ref().map(Source::len).ok())?;
        let prepared = source.and_then(|source| {
            let span = self.span_at(view, position?, source.len())?;
            Ok((source, span))
        });
        self.write_prepared(Place::Shared, prepared)
    }

    pub(super) fn meet_to_read_ordered(&self, data: &RecvData) -> Result<Met<Target>> {
        self.check_read()?;
        let view = self.view.get();
        let target = Target::new(&view, self.path(), data);
        let position = self.take_turns(&view, target.as_ref().map(Target::len).ok())?;
        let prepared = target.and_then(|target| {
            let span = self.span_at(view, position?, target.len())?;
            Ok((target, span))
        });
        self.read_prepared(Place::Shared, prepared)
    }

    fn write_prepared(&self, place: Place, prepared: Result<(Source, Span)>) -> Result<Met<Source>> {
        let aggregators = self.meet(prepared.as_ref().ok().map(|(_, span)| span), "romio_cb_write")?;
        let Some(aggregators) = aggregators else {
            return prepared.map(|(source, span)| Met::Own(source, span));
        };
        let written = self.write_by(&aggregators, prepared.as_ref().ok())?;
        let failure = self.tell(written)?;
        let (source, span) = prepared?;
        let moved = Moved { bytes: if failure.is_none() { span.len } else { 0 }, failure };
        self.moved(place, &span, &moved);
        self.opened.written(&span, moved, &source).map(Met::Over)
    }

    fn read_prepared(&self, place: Place, mut prepared: Result<(Target, Span)>) -> Result<Met<Target>> {
        let aggregators = self.meet(prepared.as_ref().ok().map(|(_, span)| span), "romio_cb_read")?;
        let Some(aggregators) = aggregators else {
            return prepared.map(|(target, span)| Met::Own(target, span));
        };
        let (read, bytes) = self.read_by(&aggregators, prepared.as_mut().ok())?;
        let failure = self.tell(read)?;
        let (target, span) = prepared?;
        let moved = Moved { bytes, failure };
        self.moved(place, &span, &moved);
        self.opened.was_read(&span, moved, target).map(Met::Over)
    }

    fn write_met(&self, place: Place, met: Met<Source>) -> Result<Status> {
        match met {
            Met::Over(status) => Ok(status),
            Met::Own(source, span) => self.write_now(place, &source, &span),
        }
    }

    fn read_met(&self, place: Place, met: Met<Target>) -> Result<Status> {
        match met {
            Met::Over(status) => Ok(status),
            Met::Own(target, span) => self.read_now(place, target, &span),
        }
    }

    /// Moves the shared pointer behind the data of all tasks; returns the position of this task's data. A task whose arguments are wrong
    /// takes part without data.
    fn take_turns(&self, view: &FileView, len: Option<u64>) -> Result<Result<u64>> {
        let own = len.map_or(Ok(0), |len| self.etypes(view, len));
        let all = self.communicator.gather_words(&[*own.as_ref().unwrap_or(&0)])?;
        let sum = |counts: &[Vec<u64>]| counts.iter().fold(0_u64, |sum, count| sum.saturating_add(count[0]));
        let mut start = [0];
        if self.rank() == 0 {
            start[0] = self.shared_pointer.advance(sum(&all))?;
        }
        self.communicator.broadcast_words(&mut start, 0)?;
        let before = sum(&all[..self.rank() as usize]);
        Ok(own.map(|_| start[0].saturating_add(before)))
    }

    fn check_place(&self, place: Place) -> Result<Place> {
        if place == Place::Shared {
            let what = "a collective access at the shared pointer is an ordered one: call read_ordered or write_ordered";
            return Err(self.opened.refused(ErrorClass::Argument, what));
        }
        Ok(place)
    }

    /// Meets the other tasks. All decide alike whether aggregators move the data, or (`None`) each task its own.
    fn meet(&self, span: Option<&Span>, hint: &str) -> Result<Option<Aggregators>> {
        let words = self.communicator.gather_words(&Part::of(span).to_words())?;
        let parts: Vec<_> = words.iter().map(|words| Part::from_words(words)).collect();
        let total: u64 = parts.iter().map(|part| part.len).sum();
        let pieces: u64 = parts.iter().map(|part| part.pieces).sum();
        let info = self.properties.info();
        let wanted = match info.get(hint).ok().flatten() {
            Some("enable") => true,
            Some("disable") => false,
            _ => are_mixed(&parts) && total / pieces.max(1) < LONG_PIECE_BYTES,
        };
        if !wanted || self.is_atomic.get() || parts.iter().any(|part| part.is_tangled) {
            return Ok(None);
        }
        let tasks = self.communicator.size();
        let number = self.number_of("cb_nodes").and_then(|nodes| u32::try_from(nodes).ok());
        let number = number.filter(|&nodes| nodes > 0).unwrap_or(AGGREGATORS_MAX).min(tasks);
        let window = self.number_of("cb_buffer_size").filter(|&bytes| bytes > 0).unwrap_or(WINDOW_BYTES);
        let unit = self.number_of("striping_unit").filter(|&bytes| bytes > 0).unwrap_or(UNIT_BYTES);
        let domains = Domains::new(parts.into_iter().map(|part| part.bytes), number, window, unit);
        Ok(domains.map(|domains| Aggregators { domains, number, tasks }))
    }

    /// Sends each task a message, and receives one from each.
    fn exchange(&self, messages: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let lengths: Vec<u64> = messages.iter().map(|message| message.len() as u64).collect();
        let mut coming = vec![0; lengths.len()];
        self.communicator.alltoall(&lengths, &mut coming)?;
        let out = messages.concat();
        let coming: Vec<usize> = coming.into_iter().map(to_usize).collect();
        let mut into = vec![0; coming.iter().sum()];
        let going: Vec<usize> = messages.iter().map(Vec::len).collect();
        let (out_at, into_at) = (starts(&going), starts(&coming));
        let from = Placement { counts: &going, displacements: &out_at };
        let to = Placement { counts: &coming, displacements: &into_at };
        self.communicator.alltoallv((&out, from), (&mut into, to))?;
        let mut rest = into.as_slice();
        Ok(coming
            .into_iter()
            .map(|len| {
                let (message, others) = rest.split_at(len);
                rest = others;
                message.to_vec()
            })
            .collect())
    }

    /// The selections of all tasks in this task's window, and the bytes behind them.
    fn selected<'a>(
        &self,
        messages: &'a [Vec<u8>],
        window: &Range<u64>,
    ) -> Result<Vec<(Selection, &'a [u8])>> {
        let read = |(rank, message): (usize, &'a Vec<u8>)| {
            if message.is_empty() {
                return Ok((Selection::default(), &message[..]));
            }
            Selection::decode(message, window).map_err(|_| {
                let what = "a list of pieces that do not lie in the aggregator's part of the file";
                Error::Protocol { peer: self.task_of(rank), what }
            })
        };
        messages.iter().enumerate().map(read).collect()
    }

    fn task_of(&self, rank: usize) -> u32 {
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        self.communicator.task_of(rank).map_or(rank, |task| task.0)
    }

    fn write_by(&self, aggregators: &Aggregators, own: Option<&(Source, Span)>) -> Result<io::Result<()>> {
        let (mut written, mut buffer) = (Ok(()), Vec::new());
        for round in 0..aggregators.domains.rounds() {
            let mut messages = vec![Vec::new(); aggregators.tasks as usize];
            if let Some((source, span)) = own {
                let stream = span.from..span.from + span.len;
                for (rank, window) in aggregators.windows(round) {
                    let (part, selection) = Selection::of_window(&span.view, &stream, &window);
                    if !selection.is_empty() {
                        let message = &mut messages[rank as usize];
                        selection.encode(message);
                        source.append(part.start - span.from, part.end - part.start, message);
                    }
                }
            }
            let messages = self.exchange(&messages)?;
            let window = aggregators.own_window(self.rank(), round);
            let tasks = self.selected(&messages, &window)?;
            if let Some(rank) =
                tasks.iter().position(|(selection, bytes)| selection.len() != bytes.len() as u64)
            {
                let what = "pieces of a file with other data than their length";
                return Err(Error::Protocol { peer: self.task_of(rank), what });
            }
            // After an error, too, the other tasks go on with their rounds.
            written = written.and_then(|()| write_together(&*self.opened.disk, &window, &tasks, &mut buffer));
        }
        Ok(written)
    }

    /// Returns how many bytes of this task were in the file, too.
    fn read_by(
        &self,
        aggregators: &Aggregators,
        mut own: Option<&mut (Target, Span)>,
    ) -> Result<(io::Result<()>, u64)> {
        let (mut failure, mut buffer, mut end) = (Ok(()), Vec::new(), u64::MAX);
        for round in 0..aggregators.domains.rounds() {
            let mut messages = vec![Vec::new(); aggregators.tasks as usize];
            let mut parts = vec![0..0; messages.len()];
            if let Some((_, span)) = &own {
                let stream = span.from..span.from + span.len;
                for (rank, window) in aggregators.windows(round) {
                    let (part, selection) = Selection::of_window(&span.view, &stream, &window);
                    if !selection.is_empty() {
                        selection.encode(&mut messages[rank as usize]);
                        parts[rank as usize] = part;
                    }
                }
            }
            let messages = self.exchange(&messages)?;
            let window = aggregators.own_window(self.rank(), round);
            let selected = self.selected(&messages, &window)?;
            // An answer begins with the end of the file.
            let mut tasks: Vec<_> =
                selected.into_iter().map(|(selection, _)| (selection, vec![0; size_of::<u64>()])).collect();
            let found = read_together(&*self.opened.disk, &window, &mut tasks, &mut buffer);
            let end_here = found.end.unwrap_or(u64::MAX).to_le_bytes();
            let answers: Vec<_> = tasks
                .into_iter()
                .map(|(selection, mut message)| {
                    message[..end_here.len()].copy_from_slice(&end_here);
                    if selection.is_empty() { Vec::new() } else { message }
                })
                .collect();
            failure = failure.and(found.failure.map_or(Ok(()), Err));
            let answers = self.exchange(&answers)?;
            let Some((target, span)) = &mut own else { continue };
            for (rank, (part, answer)) in
                parts.into_iter().zip(&answers).enumerate().filter(|(_, (part, _))| !part.is_empty())
            {
                let what = "an answer of another length than the pieces of a file";
                let wrong = || Error::Protocol { peer: self.task_of(rank), what };
                let (end_there, bytes) = answer.split_first_chunk().ok_or_else(wrong)?;
                if bytes.len() as u64 != part.end - part.start {
                    return Err(wrong());
                }
                let end_there = u64::from_le_bytes(*end_there);
                end = end.min(end_there);
                let there = span.view.bytes_before(end_there).clamp(part.start, part.end) - part.start;
                target.store(part.start - span.from, &bytes[..to_usize(there)]);
            }
        }
        let bytes = own.map_or(0, |(_, span)| {
            let (first, last) = (span.from, span.from + span.len);
            span.view.bytes_before(end).clamp(first, last) - first
        });
        Ok((failure, bytes))
    }

    /// Tells all tasks whether an access of this task has failed; returns the error of the first task that has one.
    fn tell(&self, own: io::Result<()>) -> Result<Option<io::Error>> {
        let codes = self.communicator.gather_words(&[code_of(own.as_ref().err())])?;
        let other = codes.iter().map(|code| code[0]).find(|&code| code != 0).map(error_of);
        Ok(own.err().or(other))
    }
}

/// Where parts of these lengths begin, one behind the other.
fn starts(lengths: &[usize]) -> Vec<usize> {
    lengths
        .iter()
        .scan(0, |next, len| {
            let start = *next;
            *next += len;
            Some(start)
        })
        .collect()
}
