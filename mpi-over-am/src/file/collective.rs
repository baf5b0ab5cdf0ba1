//! Reads and writes by all tasks together (MPI 5.0 sections 14.4.2 to 14.4.4).
//!
//! If the tasks' pieces lie between each other, some tasks are *aggregators*: each gets all data of a domain of the file, and moves them by
//! few large accesses ([`Domains`]). A write still changes only bytes that a task writes. Otherwise each task accesses its own part.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use am_core::fabric::Fabric;
use mpi_io::{Domains, Moved, Selection, read_together, write_together};

use super::buffers::{Source, Target, to_usize};
use super::opened::Span;
use super::representation::FileView;
use super::staging::Staging;
use super::{File, Place, code_of, error_of};
use crate::collective::Placement;
use crate::data::buffer::{RecvData, SendData};
use crate::error::{Error, ErrorClass, Result};
use crate::message::status::Status;
use crate::policy::{Field, LockPolicy};

/// Bytes of a domain that are moved in one round, unless the hint `cb_buffer_size` says otherwise.
const WINDOW_BYTES: u64 = 16 << 20;
/// The bounds of domains are multiples of this number of bytes, unless the hint `striping_unit` says otherwise: those of pages.
const UNIT_BYTES: u64 = 4 << 10;
/// The most aggregators, unless the hint `cb_nodes` says otherwise.
const AGGREGATORS_MAX: u32 = 8;
/// Pieces of this length on average are moved by their own task.
const LONG_PIECE_BYTES: u64 = 256 << 10;

/// The bytes of a list of pieces with one group: their number, and the group.
const SHORT_LIST_BYTES: usize = 5 * size_of::<u64>();
/// The length of a list, and a short list.
const LIST_WORDS: usize = 6;

/// What the tasks tell each other about an access. A task whose arguments are wrong takes part without data.
#[derive(Clone, Debug)]
struct Reach {
    /// The task's pieces do not lie in the order of its data, so that no part of the file has a part of the data.
    is_tangled: bool,
    /// From the first to the last byte in the file.
    bytes: Range<u64>,
    /// Number of pieces.
    pieces: u64,
    len: u64,
}

impl Reach {
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
fn are_mixed(parts: &[Reach]) -> bool {
    let mut ranges: Vec<_> =
        parts.iter().filter(|part| part.len > 0).map(|part| part.bytes.clone()).collect();
    ranges.sort_by_key(|range| range.start);
    ranges.windows(2).any(|pair| pair[1].start < pair[0].end)
}

/// A task's data in the window of an aggregator.
struct Part {
    rank: u32,
    window: Range<u64>,
    /// The first byte among those of the task.
    from: u64,
    selection: Selection,
}

/// A task's parts in a round, and their lists for the aggregators.
struct Wanted {
    parts: Vec<Part>,
    /// The encoded selection for each aggregator.
    lists: Vec<Vec<u8>>,
}

/// The tasks that move the data of all tasks.
struct Aggregators {
    domains: Domains,
    /// Bytes that an aggregator moves in one round at most.
    part_bytes: u64,
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
        let (failure, bytes) = self.read_by(&aggregators, prepared.as_mut().ok())?;
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
        let info = self.properties.info();
        let wish = info.get(hint).ok().flatten();
        // No task has pieces between those of another one, so no task has to wait.
        if self.view.get().are_contiguous && wish != Some("enable") || self.is_atomic.get() {
            return Ok(None);
        }
        let words = self.communicator.gather_words(&Reach::of(span).to_words())?;
        let parts: Vec<_> = words.iter().map(|words| Reach::from_words(words)).collect();
        let total: u64 = parts.iter().map(|part| part.len).sum();
        let pieces: u64 = parts.iter().map(|part| part.pieces).sum();
        let wanted = match wish {
            Some("enable") => true,
            Some("disable") => false,
            _ => are_mixed(&parts) && total / pieces.max(1) < LONG_PIECE_BYTES,
        };
        if !wanted || parts.iter().any(|part| part.is_tangled) {
            return Ok(None);
        }
        let tasks = self.communicator.size();
        let number = self.number_of("cb_nodes").and_then(|nodes| u32::try_from(nodes).ok());
        let number = number.filter(|&nodes| nodes > 0).unwrap_or(AGGREGATORS_MAX).min(tasks);
        let window = self.number_of("cb_buffer_size").filter(|&bytes| bytes > 0).unwrap_or(WINDOW_BYTES);
        let unit = self.number_of("striping_unit").filter(|&bytes| bytes > 0).unwrap_or(UNIT_BYTES);
        let domains = Domains::new(parts.into_iter().map(|part| part.bytes), number, window, unit);
        Ok(domains.map(|domains| Aggregators { domains, part_bytes: window.max(unit), number, tasks }))
    }

    /// Gives each aggregator this task's list of pieces in its window; returns the selections of all tasks in this task's window. When the
    /// call returns, all tasks have called it.
    fn exchange(
        &self,
        aggregators: &Aggregators,
        wanted: &Wanted,
        window: &Range<u64>,
    ) -> Result<Vec<Selection>> {
        let words: Vec<u64> = wanted.lists.iter().flat_map(|list| first_words(list)).collect();
        let all = self.communicator.gather_words(&words)?;
        let own = (0..aggregators.number).position(|number| aggregators.rank(number) == self.rank());
        let own_words = |words: &[u64]| own.map_or([0; LIST_WORDS], |number| words_of(words, number));
        let is_long =
            |words: &Vec<u64>| words.chunks(LIST_WORDS).any(|words| words[0] > SHORT_LIST_BYTES as u64);
        let lists: Vec<Vec<u8>> = if all.iter().any(is_long) {
            let mut going = vec![0; aggregators.tasks as usize];
            for (list, number) in wanted.lists.iter().zip(0..) {
                going[aggregators.rank(number) as usize] = list.len();
            }
            let coming: Vec<_> = all.iter().map(|words| to_usize(own_words(words)[0])).collect();
            self.exchange_long(&wanted.lists.concat(), &going, &coming)?
        } else {
            all.iter().map(|words| short_list(own_words(words))).collect()
        };
        let read = |(rank, list): (usize, &Vec<u8>)| match Selection::decode(list, window) {
            _ if list.is_empty() => Ok(Selection::default()),
            Ok((selection, [])) => Ok(selection),
            _ => {
                let what = "a list of pieces that do not lie in the aggregator's part of the file";
                Err(Error::Protocol { peer: self.task_of(rank), what })
            }
        };
        lists.iter().enumerate().map(read).collect()
    }

    /// Sends each task its part of `out`, and receives one from each.
    fn exchange_long(&self, out: &[u8], going: &[usize], coming: &[usize]) -> Result<Vec<Vec<u8>>> {
        let mut into = vec![0; coming.iter().sum()];
        let (out_at, into_at) = (starts(going), starts(coming));
        let from = Placement { counts: going, displacements: &out_at };
        let to = Placement { counts: coming, displacements: &into_at };
        self.communicator.alltoallv((out, from), (&mut into, to))?;
        Ok(into_at.iter().zip(coming).map(|(&at, &len)| into[at..at + len].to_vec()).collect())
    }

    /// This task's parts of the windows of a round.
    fn wanted(&self, aggregators: &Aggregators, round: u64, span: Option<&Span>) -> Wanted {
        let lists = vec![Vec::new(); aggregators.number as usize];
        let mut wanted = Wanted { parts: Vec::new(), lists };
        let Some(span) = span else { return wanted };
        let stream = span.from..span.from + span.len;
        for (number, list) in (0..).zip(&mut wanted.lists) {
            let (rank, window) = (aggregators.rank(number), aggregators.domains.window(number, round));
            let (part, selection) = Selection::of_window(&span.view, &stream, &window);
            if !selection.is_empty() {
                selection.encode(list);
                wanted.parts.push(Part { rank, window, from: part.start - span.from, selection });
            }
        }
        wanted
    }

    /// The memory of the aggregators. Collective if the last access had other ones.
    fn staging(&self, aggregators: &Aggregators) -> Result<Arc<Staging<F, L>>> {
        let Aggregators { part_bytes, number, .. } = *aggregators;
        let last = self.staging.with(|last| last.take());
        let last = match last {
            Some(last) if last.serves(part_bytes, number) => Some(last),
            Some(last) => {
                Arc::into_inner(last).map_or(Ok(()), Staging::free)?;
                None
            }
            None => None,
        };
        let staging = match last {
            Some(last) => last,
            None => {
                let is_aggregator = (0..number).any(|number| aggregators.rank(number) == self.rank());
                Arc::new(Staging::new(&self.communicator, part_bytes, number, is_aggregator)?)
            }
        };
        self.staging.set(Some(Arc::clone(&staging)));
        Ok(staging)
    }

    fn task_of(&self, rank: usize) -> u32 {
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        self.communicator.task_of(rank).map_or(rank, |task| task.0)
    }

    fn write_by(&self, aggregators: &Aggregators, own: Option<&(Source, Span)>) -> Result<io::Result<()>> {
        let staging = self.staging(aggregators)?;
        let (mut written, mut scratch) = (Ok(()), Vec::new());
        for round in 0..aggregators.domains.rounds() {
            if round > 0 {
                // The aggregators have written what they got in the round before.
                self.communicator.barrier()?;
            }
            let wanted = self.wanted(aggregators, round, own.map(|(_, span)| span));
            if let Some((source, _)) = own {
                for Part { rank, window, from, selection } in &wanted.parts {
                    staging.store((*rank, window), selection, (source, *from), &mut scratch)?;
                }
                staging.finish()?;
            }
            let window = aggregators.own_window(self.rank(), round);
            // The lists come after the bytes of their pieces.
            let tasks = self.exchange(aggregators, &wanted, &window)?;
            // After an error, too, the other tasks go on with their rounds.
            written = written.and_then(|()| {
                staging.with_bytes(|bytes| write_together(&*self.opened.disk, &window, &tasks, bytes))
            });
        }
        Ok(written)
    }

    /// Returns the failure of an aggregator, and how many bytes of this task were in the file.
    fn read_by(
        &self,
        aggregators: &Aggregators,
        mut own: Option<&mut (Target, Span)>,
    ) -> Result<(Option<io::Error>, u64)> {
        let staging = self.staging(aggregators)?;
        let (mut failure, mut scratch, mut end) = (None, Vec::new(), u64::MAX);
        for round in 0..aggregators.domains.rounds() {
            let span = own.as_ref().map(|(_, span)| span);
            let wanted = self.wanted(aggregators, round, span);
            let window = aggregators.own_window(self.rank(), round);
            let tasks = self.exchange(aggregators, &wanted, &window)?;
            let found = staging.with_space(|space| read_together(&*self.opened.disk, &window, &tasks, space));
            // Each task hears from the aggregators that they have read, where they have met the end of the file, and what went wrong.
            let own_code = code_of(found.failure.as_ref());
            let told = self.communicator.gather_words(&[found.end.unwrap_or(u64::MAX), own_code])?;
            let code = told.iter().map(|words| words[1]).find(|&code| code != 0);
            failure = failure.or(found.failure).or(code.map(error_of));
            let Some((target, span)) = &mut own else { continue };
            for Part { rank, window, from, selection } in wanted.parts {
                let end_there = told[rank as usize][0];
                end = end.min(end_there);
                let start = span.from + from;
                let last = start + selection.len();
                let there = span.view.bytes_before(end_there).clamp(start, last);
                let selection = match there {
                    _ if there == last => selection,
                    there => Selection::of_window(&span.view, &(start..there), &window).1,
                };
                staging.load((rank, &window), &selection, (target, from), &mut scratch)?;
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

/// The first words of a list: its length in bytes, and the list itself if it has no more than one group.
fn first_words(list: &[u8]) -> [u64; LIST_WORDS] {
    let mut words = [0; LIST_WORDS];
    words[0] = list.len() as u64;
    for (word, bytes) in words[1..].iter_mut().zip(list.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// The list that [`first_words`] holds.
fn short_list(words: [u64; LIST_WORDS]) -> Vec<u8> {
    let len = to_usize(words[0]).min(SHORT_LIST_BYTES);
    words[1..].iter().flat_map(|word| word.to_le_bytes()).take(len).collect()
}

/// The words for an aggregator among those for all aggregators.
fn words_of(words: &[u64], number: usize) -> [u64; LIST_WORDS] {
    words.as_chunks().0.get(number).copied().unwrap_or_default()
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
