//! Forwarding of the tasks' output: whole lines, in the order in which each output was written.
//!
//! One thread writes everything, so that output of another task never splits a line. If a task ends within a line, the unfinished line is
//! forwarded as it is, and the next output follows it: no byte is added, since the output may be no text. Only lines with a prefix (a tag,
//! a time) always begin on a new line.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{ChildStderr, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::LaunchError;
use super::end_request::EndRequest;
use super::report::EndedBy;
use am_via_os::poll;

/// Longest line that is forwarded whole, in bytes. A longer one is forwarded in pieces, so that a task that never ends its line does not
/// use up the launcher's memory.
const LINE_BYTES_MAX: usize = 16 << 20;
/// An order to the forwarding thread: forward these outputs, too; end when all outputs have ended; end at once.
const MORE: u8 = b'+';
const NO_MORE: u8 = b'-';
const STOP: u8 = b'x';
const CHUNK_BYTES: usize = 64 << 10;
/// The most that a pipe holds for a process without privileges (`fs.pipe-max-size`, its default), in bytes.
const PIPE_BYTES_MAX: usize = 1 << 20;
/// How often [`Forwarder::finish`] looks whether the thread waits for a task's output or for the reader of this process's output.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How the tasks' output is forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFormat {
    /// Whether each line begins with `[task] `.
    pub tag: bool,
    /// Whether each line begins, after the tag, with the time (UTC) at which the launcher received the line's end.
    pub time: bool,
    /// Whether the tasks' standard error is written to standard output.
    pub merged: bool,
}

impl OutputFormat {
    /// The prefix of a line of `task`. All prefixes of a task have the same length.
    fn prefix(self, task: u32) -> String {
        let tag = if self.tag { format!("[{task}] ") } else { String::new() };
        match self.time {
            true => tag + &text_of_time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
            false => tag,
        }
    }
}

/// A time since 1970 as `2026-11-23T09:29:47.012Z `.
fn text_of_time(since: Duration) -> String {
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // The calendar repeats every 400 years, which have 146097 days. Years begin in March, so that a leap day is the last day of its year;
    // 719468 is the number of days from 1 March of year 0 to 1970.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (year, milli) = (year + 400 * era + next, since.subsec_millis());
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z ")
}

/// An output of one task that is forwarded.
#[derive(Debug)]
pub(super) enum Source {
    Stdout(ChildStdout),
    Stderr(ChildStderr),
}

/// The destinations of all output.
pub(super) struct Sinks {
    pub(super) stdout: Box<dyn Write + Send>,
    pub(super) stderr: Box<dyn Write + Send>,
}

impl Sinks {
    /// This process's own output. `is_closed`: standard output was closed from the start.
    pub(super) fn of_this_process(is_closed: bool) -> Self {
        let stdout: Box<dyn Write + Send> = if is_closed { Box::new(Closed) } else { Box::new(Own::Stdout) };
        Self { stdout, stderr: Box::new(Own::Stderr) }
    }
}

/// An output of this process. No other thread's bytes come between those of one `write_all`.
enum Own {
    Stdout,
    Stderr,
}

impl Write for Own {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => write_patiently(&mut io::stdout().lock(), bytes),
            Self::Stderr => write_patiently(&mut io::stderr().lock(), bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes all bytes and flushes. If the file does not block, waits until it can take more: that it blocks is a property of the open file,
/// which every process that shares the file can change.
fn write_patiently(to: &mut (impl Write + AsFd), mut bytes: &[u8]) -> io::Result<()> {
    loop {
        let done = if bytes.is_empty() { to.flush().map(|()| 0) } else { to.write(bytes) };
        match done {
            Ok(0) if bytes.is_empty() => return Ok(()),
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => poll::wait_to_write(to.as_fd())?,
            Err(error) => return Err(error),
        }
    }
}

/// An output that is closed.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(libc::EBADF))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The forwarding thread.
#[derive(Debug)]
pub(super) struct Forwarder {
    /// Wakes the thread: [`MORE`] for more outputs, [`NO_MORE`] before the end, [`STOP`] to end at once.
    tell: PipeWriter,
    more: Sender<(u32, Source)>,
    finished: Receiver<()>,
    is_writing: Arc<AtomicBool>,
    last_lines: Arc<Mutex<BTreeMap<u32, String>>>,
}

impl Forwarder {
    /// Forwards `sources`, pairs of task and output. If standard output can no longer be written, requests the end of the job through
    /// `end`.
    pub(super) fn start(
        sources: Vec<(u32, Source)>,
        format: OutputFormat,
        sinks: Sinks,
        end: Arc<EndRequest>,
    ) -> Result<Self, LaunchError> {
        let (told, tell) = io::pipe().map_err(LaunchError::system("making a pipe"))?;
        let (done, finished) = mpsc::channel();
        let (more, new) = mpsc::channel();
        let last_lines = Arc::default();
        let is_writing = Arc::new(AtomicBool::new(false));
        let work = Work {
            streams: sources.into_iter().map(|(task, source)| Stream::new(task, source, format)).collect(),
            stdout: Sink::new(sinks.stdout, format),
            stderr: Sink::new(sinks.stderr, format),
            merged: format.merged,
            is_writing: Arc::clone(&is_writing),
            last_lines: Arc::clone(&last_lines),
            end,
            new,
            format,
        };
        thread::Builder::new()
            .name("am-output".to_owned())
            .spawn(move || work.run(told, &done))
            .map_err(LaunchError::system("starting a thread"))?;
        Ok(Self { tell, more, finished, is_writing, last_lines })
    }

    /// Also forwards these outputs.
    pub(super) fn add(&mut self, sources: Vec<(u32, Source)>) {
        for source in sources {
            // If the thread has ended, because its output cannot be written, the job is about to end.
            let _ = self.more.send(source);
        }
        let _ = self.tell.write_all(&[MORE]);
    }

    /// Waits until all output is forwarded, however long the reader of this process's output takes. If only a process outside the job
    /// holds an output open, that process has `patience` to write more; then what has been written by then is forwarded. If `must_end`
    /// returns true, the wait lasts at most twice `patience`, and the rest of the output may be lost. Returns the last informative line of
    /// each task's standard error.
    pub(super) fn finish(
        mut self,
        patience: Duration,
        mut must_end: impl FnMut() -> bool,
    ) -> BTreeMap<u32, String> {
        // If this fails, the thread has ended already.
        let _ = self.tell.write_all(&[NO_MORE]);
        if !self.wait(patience, &mut must_end) {
            let _ = self.tell.write_all(&[STOP]);
            while !self.wait(patience, &mut must_end) && !must_end() {}
        }
        self.last_lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the thread has ended; the result is false if it has waited for output for `patience`, or has had that time since
    /// `must_end` returned true.
    fn wait(&self, patience: Duration, must_end: &mut impl FnMut() -> bool) -> bool {
        let mut waited = Duration::ZERO;
        while waited < patience {
            match self.finished.recv_timeout(LOOK_EVERY) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return true,
            }
            if must_end() || !self.is_writing.load(Ordering::Relaxed) {
                waited += LOOK_EVERY;
            }
        }
        false
    }
}

struct Work {
    streams: Vec<Stream>,
    stdout: Sink,
    stderr: Sink,
    merged: bool,
    /// Whether the thread is in a write, perhaps because the reader of this process's output does not read. No other data depend on it.
    is_writing: Arc<AtomicBool>,
    last_lines: Arc<Mutex<BTreeMap<u32, String>>>,
    end: Arc<EndRequest>,
    /// Outputs to be forwarded, too.
    new: Receiver<(u32, Source)>,
    format: OutputFormat,
}

impl Work {
    fn run(mut self, mut told: PipeReader, done: &Sender<()>) {
        let (mut patient, mut may_get_more) = (true, true);
        // Once the thread is to stop, each output is read this often: what was written before, and a little more.
        let mut rounds_left = PIPE_BYTES_MAX / CHUNK_BYTES + 1;
        while (may_get_more || !self.streams.is_empty()) && rounds_left > 0 {
            let mut files: Vec<BorrowedFd<'_>> = self.streams.iter().map(Stream::file).collect();
            files.push(told.as_fd());
            let timeout = (!patient).then_some(Duration::ZERO);
            let Ok(ready) = poll::poll(&files, timeout) else { break };
            let (ready, is_told) = (&ready[..self.streams.len()], ready[self.streams.len()]);
            if !patient && !ready.contains(&true) {
                break;
            }
            let mut words = [0; 64];
            let count = if is_told { told.read(&mut words).unwrap_or(0) } else { 0 };
            may_get_more &= !(words[..count].contains(&NO_MORE) || is_told && count == 0);
            patient &= !words[..count].contains(&STOP);
            if !patient {
                rounds_left -= 1;
            }
            let ready = ready.to_vec();
            self.forward(&ready);
            let Self { new, streams, format, .. } = &mut self;
            streams.extend(new.try_iter().map(|(task, source)| Stream::new(task, source, *format)));
        }
        for mut stream in std::mem::take(&mut self.streams) {
            self.end_stream(&mut stream);
        }
        // If the launcher has stopped waiting, there is no receiver.
        let _ = done.send(());
    }

    fn forward(&mut self, ready: &[bool]) {
        let mut streams = std::mem::take(&mut self.streams);
        let mut at = 0;
        streams.retain_mut(|stream| {
            let is_ready = ready[at];
            at += 1;
            !is_ready || self.forward_one(stream)
        });
        self.streams = streams;
    }

    /// Reads from an output once, and forwards the lines that are now complete. Returns whether there may be more output.
    fn forward_one(&mut self, stream: &mut Stream) -> bool {
        let mut chunk = [0; CHUNK_BYTES];
        match stream.read(&mut chunk) {
            Ok(0) => {
                self.end_stream(stream);
                false
            }
            Ok(count) => {
                let mut lines = Vec::new();
                stream.line.push(&chunk[..count], &mut lines);
                self.write(stream, &lines);
                true
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            Err(_) => {
                self.end_stream(stream);
                false
            }
        }
    }

    fn end_stream(&mut self, stream: &mut Stream) {
        let mut rest = Vec::new();
        stream.line.finish(&mut rest);
        self.write(stream, &rest);
    }

    fn write(&mut self, stream: &Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let is_error = matches!(stream.source, Source::Stderr(_));
        if is_error {
            self.keep_last_line(stream, bytes);
        }
        self.is_writing.store(true, Ordering::Relaxed);
        let from = (stream.task, is_error);
        if is_error && !self.merged {
            // If standard error is closed, that can't be reported anywhere.
            let _ = self.stderr.write(from, bytes);
        } else if let Err(error) = self.stdout.write(from, bytes) {
            self.end.ask(EndedBy::OutputClosed(error.raw_os_error().unwrap_or(libc::EIO)));
        }
        self.is_writing.store(false, Ordering::Relaxed);
    }

    fn keep_last_line(&self, stream: &Stream, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        if let Some(line) = last_telling_line(&text, stream.line.prefix().len()) {
            let mut last_lines = self.last_lines.lock().unwrap_or_else(PoisonError::into_inner);
            last_lines.insert(stream.task, line.to_owned());
        }
    }
}

/// The last informative line of a text whose lines begin with a prefix of `prefix_len` bytes; the line without its prefix. Hints on
/// backtraces are skipped, and so are the lines that valgrind and the sanitizers print for any program.
pub(super) fn last_telling_line(text: &str, prefix_len: usize) -> Option<&str> {
    text.lines()
        .map(|line| line.get(prefix_len..).unwrap_or_default().trim_end())
        .rfind(|line| !line.trim().is_empty() && !line.starts_with("note: ") && !is_of_a_checker(line))
}

/// Whether a line begins like `==4711==`: valgrind and the sanitizers mark their lines with the process number.
fn is_of_a_checker(line: &str) -> bool {
    ["==", "--", "**"].iter().any(|mark| {
        line.strip_prefix(mark).is_some_and(|rest| {
            let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            number.len() < rest.len() && number.starts_with(mark)
        })
    })
}

#[derive(Debug)]
struct Stream {
    task: u32,
    source: Source,
    line: LineBuffer,
}

impl Stream {
    fn new(task: u32, source: Source, format: OutputFormat) -> Self {
        Self { task, source, line: LineBuffer::new(task, format) }
    }

    fn file(&self) -> BorrowedFd<'_> {
        match &self.source {
            Source::Stdout(pipe) => pipe.as_fd(),
            Source::Stderr(pipe) => pipe.as_fd(),
        }
    }

    fn read(&mut self, chunk: &mut [u8]) -> io::Result<usize> {
        match &mut self.source {
            Source::Stdout(pipe) => pipe.read(chunk),
            Source::Stderr(pipe) => pipe.read(chunk),
        }
    }
}

/// Stores a line until it is complete.
#[derive(Debug)]
struct LineBuffer {
    begun: Vec<u8>,
    /// Whether a part of the unfinished line was written.
    is_inside: bool,
    task: u32,
    format: OutputFormat,
}

impl LineBuffer {
    fn new(task: u32, format: OutputFormat) -> Self {
        Self { begun: Vec::new(), is_inside: false, task, format }
    }

    fn prefix(&self) -> String {
        self.format.prefix(self.task)
    }

    /// Adds a chunk, and writes the lines that are now complete to `out`. An unfinished line longer than [`LINE_BYTES_MAX`] is
    /// written, too.
    fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        let Some(end) = chunk.iter().rposition(|&byte| byte == b'\n') else {
            self.begun.extend_from_slice(chunk);
            if self.begun.len() > LINE_BYTES_MAX {
                self.finish(out);
            }
            return;
        };
        let (whole, begun) = chunk.split_at(end + 1);
        let prefix = self.prefix();
        if prefix.is_empty() {
            out.append(&mut self.begun);
            out.extend_from_slice(whole);
            self.is_inside = false;
        } else {
            for line in whole.split_inclusive(|&byte| byte == b'\n') {
                if !std::mem::take(&mut self.is_inside) {
                    out.extend_from_slice(prefix.as_bytes());
                }
                out.append(&mut self.begun);
                out.extend_from_slice(line);
            }
        }
        self.begun.extend_from_slice(begun);
    }

    /// Writes the unfinished line as it is.
    fn finish(&mut self, out: &mut Vec<u8>) {
        if self.begun.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.is_inside, true) {
            out.extend_from_slice(self.prefix().as_bytes());
        }
        out.append(&mut self.begun);
    }
}

/// A task, and whether the output is its standard error.
type Origin = (u32, bool);

struct Sink {
    file: Box<dyn Write + Send>,
    /// Whether lines have prefixes, so that each must begin on a new line.
    has_prefixes: bool,
    /// The output whose unfinished line was written last.
    inside_line_of: Option<Origin>,
    is_broken: bool,
}

impl Sink {
    fn new(file: Box<dyn Write + Send>, format: OutputFormat) -> Self {
        Self { file, has_prefixes: format.tag || format.time, inside_line_of: None, is_broken: false }
    }

    fn write(&mut self, from: Origin, bytes: &[u8]) -> io::Result<()> {
        if self.is_broken {
            return Ok(());
        }
        let result = self.try_write(from, bytes);
        self.is_broken = result.is_err();
        result
    }

    fn try_write(&mut self, from: Origin, bytes: &[u8]) -> io::Result<()> {
        if self.has_prefixes && self.inside_line_of.is_some_and(|of| of != from) {
            self.file.write_all(b"\n")?;
        }
        self.inside_line_of = (bytes.last() != Some(&b'\n')).then_some(from);
        self.file.write_all(bytes)?;
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn lines(tag: bool, chunks: &[&str]) -> String {
        let format = OutputFormat { tag, ..OutputFormat::default() };
        let mut buffer = LineBuffer::new(1, format);
        let mut out = Vec::new();
        for chunk in chunks {
            buffer.push(chunk.as_bytes(), &mut out);
        }
        out.push(b'|');
        buffer.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_come_out_whole_whatever_pieces_they_come_in() {
        assert_eq!(lines(false, &["ab", "c\nde", "f", "\n"]), "abc\ndef\n|");
        assert_eq!(lines(false, &["a\nb\nc"]), "a\nb\n|c");
        assert_eq!(lines(true, &["a\nb", "c\n\nd"]), "[1] a\n[1] bc\n[1] \n|[1] d");
        assert_eq!(lines(true, &[]), "|");
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.007Z "),
            (951_782_399, "2000-02-28T23:59:59.007Z "),
            (951_782_400, "2000-02-29T00:00:00.007Z "),
            (1_795_426_187, "2026-11-23T09:29:47.007Z "),
            (4_107_542_400, "2100-03-01T00:00:00.007Z "),
        ] {
            assert_eq!(text_of_time(Duration::from_millis(seconds * 1000 + 7)), text);
        }
    }

    #[test]
    fn a_line_without_end_does_not_grow_for_ever_and_is_one_line_to_its_end() {
        let format = OutputFormat { tag: true, ..OutputFormat::default() };
        let mut buffer = LineBuffer::new(0, format);
        let mut out = Vec::new();
        for _ in 0..LINE_BYTES_MAX / CHUNK_BYTES + 1 {
            buffer.push(&[b'x'; CHUNK_BYTES], &mut out);
        }
        assert!(out.len() > LINE_BYTES_MAX && buffer.begun.is_empty());
        out.clear();
        buffer.push(b"xy\nz", &mut out);
        assert_eq!(out, b"xy\n");
        buffer.finish(&mut out);
        assert_eq!(out, b"xy\n[0] z");
    }

    #[test]
    fn what_follows_an_unfinished_line_of_another_output_begins_on_its_own_if_lines_have_prefixes() {
        struct To(Arc<Mutex<Vec<u8>>>);
        impl Write for To {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let plain = OutputFormat::default();
        let formats = [OutputFormat { tag: true, ..plain }, OutputFormat { time: true, ..plain }, plain];
        for (format, expected) in
            formats.into_iter().zip(["a\nb\nc\ndd\ne\nf", "a\nb\nc\ndd\ne\nf", "a\nbc\ndd\nef"])
        {
            let shared = Arc::new(Mutex::new(Vec::new()));
            let mut sink = Sink::new(Box::new(To(Arc::clone(&shared))), format);
            let (first, errors, second) = ((0, false), (0, true), (1, false));
            for (from, bytes) in [
                (first, "a\n"),
                (first, "b"),
                (second, "c\n"),
                (second, "d"),
                (second, "d\n"),
                (first, "e"),
                (errors, "f"),
            ] {
                sink.write(from, bytes.as_bytes()).unwrap();
            }
            assert_eq!(String::from_utf8_lossy(&shared.lock().unwrap()), expected);
        }
    }

    /// Forwards 10000 lines, which a pipe holds, to a reader that first reads after `pause`. Returns how many bytes it got within this
    /// wait.
    fn forward_to_a_slow_reader(pause: Duration, must_end: bool) -> usize {
        struct Slow(Arc<Mutex<usize>>, Duration);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                thread::sleep(std::mem::take(&mut self.1));
                let taken = bytes.len().min(4096);
                *self.0.lock().unwrap() += taken;
                Ok(taken)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let count = Arc::new(Mutex::new(0));
        let mut task = Command::new("seq").arg("10000").stdout(Stdio::piped()).spawn().unwrap();
        let source = Source::Stdout(task.stdout.take().unwrap());
        let sinks = Sinks { stdout: Box::new(Slow(Arc::clone(&count), pause)), stderr: Box::new(io::sink()) };
        let (end, _bell) = EndRequest::new().unwrap();
        let format = OutputFormat::default();
        let forwarder = Forwarder::start(vec![(0, source)], format, sinks, Arc::new(end)).unwrap();
        // The launcher finishes its output when the tasks have ended.
        task.wait().unwrap();
        forwarder.finish(Duration::from_millis(20), || must_end);
        *count.lock().unwrap()
    }

    #[test]
    fn a_reader_that_pauses_gets_everything_unless_the_launcher_must_end() {
        let all: usize = (1..=10_000).map(|number: u32| number.to_string().len() + 1).sum();
        assert_eq!(forward_to_a_slow_reader(Duration::from_millis(500), false), all);
        assert!(forward_to_a_slow_reader(Duration::from_secs(5), true) < all);
    }

    #[test]
    fn the_telling_line_is_the_last_that_is_no_hint() {
        let text = "Traceback\nValueError: x\n\nnote: run with RUST_BACKTRACE=1\n";
        assert_eq!(last_telling_line(text, 0), Some("ValueError: x"));
        assert_eq!(last_telling_line("\n\n", 0), None);
        let text = "MPI_Init: no\n==12== ERROR SUMMARY: 0 errors\n--12-- x\n**12** y\n";
        assert_eq!(last_telling_line(text, 0), Some("MPI_Init: no"));
        assert_eq!(last_telling_line("== the end ==\n", 0), Some("== the end =="));
        let text = "[0] no such file\n[0] note: run with RUST_BACKTRACE=1\n[0] ==12== x\n[0] \n";
        assert_eq!(last_telling_line(text, 4), Some("no such file"));
    }
}
