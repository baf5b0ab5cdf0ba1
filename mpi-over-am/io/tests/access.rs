//! Access to the pieces of a view, on a disk in memory that can be full, fail, and move fewer bytes than asked for.

#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unwrap_used, reason = "a test")]

use std::io;
use std::ops::Range;
use std::sync::Mutex;

use mpi_datatype::{Datatype, Predefined};
use mpi_io::{Disk, Domains, LockKind, Moved, Selection, Space, View, read_together, write, write_together};

/// A disk with room for some bytes.
#[derive(Debug)]
struct TestDisk {
    state: Mutex<State>,
    room: u64,
    /// The most bytes that a call moves.
    step: usize,
    /// Reads that touch this byte fail.
    broken: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// How often each byte was written.
    written: Vec<u32>,
    calls: u64,
}

impl TestDisk {
    fn new(bytes: Vec<u8>) -> Self {
        let state = State { written: vec![0; bytes.len()], bytes, calls: 0 };
        Self { state: Mutex::new(state), room: u64::MAX, step: usize::MAX, broken: None }
    }

    fn bytes(&self) -> Vec<u8> {
        self.state.lock().unwrap().bytes.clone()
    }

    fn calls(&self) -> u64 {
        self.state.lock().unwrap().calls
    }

    /// Every second call is interrupted by a signal, if calls are short.
    fn begin(&self, state: &mut State) -> io::Result<()> {
        state.calls += 1;
        let interrupted = self.step < usize::MAX && state.calls.is_multiple_of(2);
        if interrupted { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }
}

impl Disk for TestDisk {
    fn read_at(&self, to: &mut Space<'_>, at: u64) -> io::Result<usize> {
        let state = &mut *self.state.lock().unwrap();
        self.begin(state)?;
        let start = (at as usize).min(state.bytes.len());
        let end = (start + to.len().min(self.step)).min(state.bytes.len());
        if self.broken.is_some_and(|broken| (start..end).contains(&(broken as usize))) {
            return Err(io::Error::from_raw_os_error(5));
        }
        to.store(0, &state.bytes[start..end]);
        Ok(end - start)
    }

    fn write_at(&self, from: &[u8], at: u64) -> io::Result<usize> {
        let state = &mut *self.state.lock().unwrap();
        self.begin(state)?;
        let left = self.room.saturating_sub(at);
        if left == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let len = from.len().min(self.step).min(usize::try_from(left).unwrap_or(usize::MAX));
        let (start, end) = (at as usize, at as usize + len);
        if state.bytes.len() < end {
            state.bytes.resize(end, 0);
            state.written.resize(end, 0);
        }
        state.bytes[start..end].copy_from_slice(&from[..len]);
        state.written[start..end].iter_mut().for_each(|times| *times += 1);
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state.lock().unwrap().bytes.len() as u64)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &Range<u64>, _: LockKind) -> io::Result<()> {
        Ok(())
    }

    fn unlock(&self, _: &Range<u64>) -> io::Result<()> {
        Ok(())
    }
}

/// Blocks of `block` bytes, `step` bytes apart, from `displacement` on.
fn blocks(displacement: u64, block: i64, step: i64) -> View {
    let byte = Predefined::Byte.into();
    let filetype = Datatype::resized(&Datatype::contiguous(block as u64, &byte).unwrap(), 0, step).unwrap();
    View::new(displacement, &byte, &filetype, true).unwrap()
}

fn read(disk: &TestDisk, view: &View, from: u64, to: &mut [u8]) -> Moved {
    mpi_io::read(disk, view, from, &mut Space::from(to))
}

/// Stores a task's bytes where its pieces lie in a window's memory.
fn scatter(selection: &Selection, window: &Range<u64>, mut bytes: &[u8], memory: &mut [u8]) {
    for piece in selection.iter() {
        let (own, rest) = bytes.split_at(piece.len as usize);
        memory[(piece.at - window.start) as usize..][..own.len()].copy_from_slice(own);
        bytes = rest;
    }
    assert!(bytes.is_empty());
}

fn gather(selection: &Selection, window: &Range<u64>, memory: &[u8]) -> Vec<u8> {
    let pieces =
        selection.iter().map(|piece| &memory[(piece.at - window.start) as usize..][..piece.len as usize]);
    pieces.collect::<Vec<_>>().concat()
}

/// Numbers that tell every byte from its neighbours.
fn numbers(len: usize, from: usize) -> Vec<u8> {
    (from..from + len).map(|number| (number % 251) as u8).collect()
}

#[test]
fn what_was_written_is_read_and_nothing_between_has_changed() {
    for (block, step) in [(1, 2), (3, 3), (5, 64), (1000, 1001), (100, 100_000), (4096, 8192)] {
        for (moved, from) in [(usize::MAX, 0), (7, 13), (3000, 999)] {
            let view = blocks(11, block, step);
            let disk = TestDisk { step: moved, ..TestDisk::new(vec![255; 30_000]) };
            let out = numbers(9000, 5);
            let written = write(&disk, &view, from, &out);
            assert!(written.failure.is_none());
            assert_eq!(written.bytes, 9000);
            let (mut expected, mut bytes) = (vec![255; 30_000], disk.bytes());
            for (index, &byte) in out.iter().enumerate() {
                let position = from + index as u64;
                let at = 11 + position / block as u64 * step as u64 + position % block as u64;
                expected.resize(expected.len().max(at as usize + 1), 0);
                expected[at as usize] = byte;
            }
            bytes.resize(bytes.len().max(expected.len()), 0);
            expected.resize(bytes.len(), 0);
            assert!(bytes == expected, "blocks of {block}, {step} apart, {moved} bytes a call");
            let mut back = vec![0; 9000];
            let read = read(&disk, &view, from, &mut back);
            assert!(read.failure.is_none());
            assert_eq!(read.bytes, 9000);
            assert!(back == out);
        }
    }
}

#[test]
fn a_read_ends_where_the_file_ends() {
    for len in [0, 1, 63, 64, 70, 200] {
        let view = blocks(0, 10, 64);
        let disk = TestDisk::new(numbers(len, 0));
        let mut back = vec![9; 100];
        let read = read(&disk, &view, 0, &mut back);
        let expected = len / 64 * 10 + (len % 64).min(10);
        assert_eq!((read.bytes as usize, read.failure.is_none()), (expected.min(100), true));
        assert!(back[expected..].iter().all(|&byte| byte == 9), "bytes behind the end are left alone");
    }
}

#[test]
fn few_calls_read_many_small_pieces() {
    let disk = TestDisk::new(numbers(1 << 20, 0));
    let mut back = vec![0; 1 << 16];
    assert_eq!(read(&disk, &blocks(0, 16, 256), 0, &mut back).bytes, 1 << 16);
    assert!(disk.calls() <= 4, "{} calls", disk.calls());
    // Of bytes that lie far apart, only those are read that are wanted.
    let disk = TestDisk::new(numbers(1 << 20, 0));
    assert_eq!(read(&disk, &blocks(0, 16, 1 << 14), 0, &mut back[..160]).bytes, 160);
    assert_eq!(disk.calls(), 10);
}

#[test]
fn a_full_disk_is_an_error_and_says_what_was_written() {
    let disk = TestDisk { room: 130, ..TestDisk::new(Vec::new()) };
    let written = write(&disk, &blocks(0, 10, 64), 0, &numbers(100, 0));
    assert_eq!(written.failure.unwrap().kind(), io::ErrorKind::StorageFull);
    // Two blocks, and two bytes of the third.
    assert_eq!(written.bytes, 22);
    assert_eq!(disk.bytes().len(), 130);
}

#[test]
fn a_broken_sector_is_an_error_behind_the_bytes_before_it() {
    let disk = TestDisk { broken: Some(500), step: 100, ..TestDisk::new(numbers(1000, 0)) };
    let mut back = vec![0; 400];
    let read = read(&disk, &blocks(0, 10, 20), 0, &mut back);
    assert_eq!(read.failure.unwrap().raw_os_error(), Some(5));
    assert!(
        back[..read.bytes as usize]
            == disk.bytes().chunks(20).flat_map(|block| block[..10].to_vec()).collect::<Vec<_>>()
                [..read.bytes as usize]
    );
}

/// Writes and reads the whole streams of four tasks by two aggregators.
#[test]
fn aggregators_write_and_read_what_all_tasks_have_selected() {
    for (block, window, bytes) in [(1, 64, 500), (10, 100, 1000), (1000, 1 << 16, 20_000), (7, 1 << 20, 9999)]
    {
        // The blocks of four tasks follow each other, and between all of them there is a gap.
        let step = 4 * block + 3;
        let views: Vec<_> = (0..4).map(|task| blocks(50 + task * block as u64, block, step)).collect();
        let streams: Vec<_> = (0..4).map(|task| numbers(bytes, task * 1000)).collect();
        let disk = TestDisk { step: 5000, ..TestDisk::new(vec![255; 60]) };
        let extents = views.iter().map(|view| view.offset_of(0)..view.offset_of(bytes as u64 - 1) + 1);
        let domains = Domains::new(extents, 2, window, 16).unwrap();
        let stream = 0..bytes as u64;
        let windows =
            (0..domains.rounds()).flat_map(|round| [domains.window(0, round), domains.window(1, round)]);
        let windows: Vec<_> = windows.filter(|window| !window.is_empty()).collect();
        for window in &windows {
            let (mut tasks, mut memory) = (Vec::new(), vec![77; (window.end - window.start) as usize]);
            for (view, bytes) in views.iter().zip(&streams) {
                let (part, selection) = Selection::of_window(view, &stream, window);
                scatter(&selection, window, &bytes[part.start as usize..part.end as usize], &mut memory);
                tasks.push(selection);
            }
            write_together(&disk, window, &tasks, &memory).unwrap();
        }
        let written = disk.state.lock().unwrap().written.clone();
        assert_eq!(
            written.iter().sum::<u32>() as usize,
            4 * bytes,
            "each byte is written once, no other one"
        );
        assert!(written.iter().all(|&times| times <= 1));
        for (view, stream) in views.iter().zip(&streams) {
            let mut back = vec![0; bytes];
            assert_eq!(read(&disk, view, 0, &mut back).bytes, bytes as u64);
            assert!(back == *stream);
        }
        let mut got = vec![Vec::new(); 4];
        for window in &windows {
            let mut memory = vec![77; (window.end - window.start) as usize];
            let tasks: Vec<_> =
                views.iter().map(|view| Selection::of_window(view, &stream, window).1).collect();
            let found = read_together(&disk, window, &tasks, &mut Space::from(&mut memory[..]));
            assert!(found.end.is_none() && found.failure.is_none());
            got.iter_mut().zip(&tasks).for_each(|(got, task)| got.extend(gather(task, window, &memory)));
        }
        // The windows of one aggregator do not follow those of the other, so the parts are in the order of the rounds.
        let mut in_order = vec![Vec::new(); 4];
        for window in &windows {
            for (task, view) in views.iter().enumerate() {
                let part = Selection::of_window(view, &stream, window).0;
                in_order[task].extend_from_slice(&streams[task][part.start as usize..part.end as usize]);
            }
        }
        assert!(got == in_order);
    }
}

#[test]
fn aggregators_find_the_end_of_the_file_and_the_fault_of_the_disk() {
    let view = blocks(0, 10, 20);
    let window = 0..1000;
    let (_, selection) = Selection::of_window(&view, &(0..500), &window);
    let disk = TestDisk::new(numbers(333, 0));
    let (tasks, mut memory) = ([selection], vec![77; 1000]);
    let found = read_together(&disk, &window, &tasks, &mut Space::from(&mut memory[..]));
    assert_eq!((found.end, found.failure.is_none()), (Some(333), true));
    let got = gather(&tasks[0], &window, &memory);
    assert_eq!((got.len(), got[165], got[170]), (500, numbers(1, 325)[0], 77));
    let broken = TestDisk { broken: Some(100), step: 30, ..TestDisk::new(numbers(1000, 0)) };
    let found = read_together(&broken, &window, &tasks, &mut Space::from(&mut memory[..]));
    assert_eq!(found.failure.unwrap().raw_os_error(), Some(5));
    assert!(found.end.unwrap() <= 100);
    let full = TestDisk { room: 500, ..TestDisk::new(Vec::new()) };
    let error = write_together(&full, &window, &tasks, &numbers(1000, 0)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

/// Pieces of 1 KiB of four tasks that follow each other: the aggregators write each window by one call, and nothing between the pieces of a
/// view with gaps.
#[test]
fn few_calls_write_many_small_pieces() {
    for (gap, calls) in [(0, 4), (1, 256)] {
        let disk = TestDisk::new(vec![255; 2 << 20]);
        let step = 4096 + gap;
        let views: Vec<_> = (0..4).map(|task| blocks(task * 1024, 1024, step)).collect();
        let stream = 0..256 << 10;
        let domains = Domains::new(Some(0..256 * step as u64), 4, 1 << 20, 4096).unwrap();
        for window in (0..4).map(|aggregator| domains.window(aggregator, 0)) {
            let tasks: Vec<_> =
                views.iter().map(|view| Selection::of_window(view, &stream, &window).1).collect();
            write_together(&disk, &window, &tasks, &numbers(1 << 20, 0)).unwrap();
        }
        // A run that ends at the bound of two domains is written by two calls.
        assert!(disk.calls() <= calls + 3 * gap as u64, "{} calls", disk.calls());
        assert_eq!(disk.state.lock().unwrap().written.iter().sum::<u32>(), 1 << 20);
    }
}
