//! Counts the words of text files in a hash table that is distributed over all tasks.
//!
//! What it teaches: an active message whose header handler returns the destination of its data. The handler of a word's owner finds the
//! word's slot, or allocates a new one, and returns the sender's cell in the slot; the layer below copies the count directly into that
//! cell. It also shows how a counting task makes progress for the others (`probe`), how all tasks learn that all is done (`gfence`), and
//! how one task reads the tables of the others (`get`).
//!
//! ```text
//! cargo amrun -n 4 --example word_count                  # the text of this repository
//! cargo amrun -n 4 --example word_count -- --verify
//! cargo amrun -n 4 --example word_count -- a.txt b.txt
//! ```
//!
//! You should see the 20 most frequent words, the number of words and the words per second; with `--verify` the last line is `verified`,
//! after one process has counted everything again for comparison. On a terminal there is a progress bar if the program runs longer than a
//! second.
//!
//! A word is a run of alphanumeric characters, in lower case. Of a run longer than 63 bytes only the beginning is used.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use am_core::buffer::RemoteAddress;
use am_core::handler::{Answer, Completion, HandlerId};
use am_core::{AmOptions, Context, GetOptions};
use am_examples::failure::agree;
use am_examples::progress::Progress;
use am_examples::text::{self, Chunk};
use am_examples::word_table::{Claims, Entry, Layout, WordTable, owner};
use am_examples::{Failure, arguments};
use am_via::{ShmFabric, Task};
use clap::Parser;

/// Counts the words of text files in a hash table that is distributed over all tasks.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// Text files; without any, the text of this repository (.rs, .md and .toml files).
    files: Vec<PathBuf>,
    /// Compare with a count made in one process.
    #[arg(long)]
    verify: bool,
}

const PROGRAM: &str = "word_count";
/// Approximate size in bytes of a chunk of a file. One task counts the words of a chunk.
const CHUNK_BYTES: u64 = 1 << 20;
/// How many bytes a task counts before it sends: enough that a frequent word is sent once for many occurrences.
const SEND_AFTER_BYTES: u64 = 1 << 20;
/// How many of the most frequent words are shown.
const SHOWN: usize = 20;
/// Approximate length of a get, in bytes.
const GET_BYTES: usize = 1 << 20;

/// The report of each task to the first task at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    /// Words counted by this task.
    words: u64,
    /// Messages that this task has sent.
    messages: u64,
    /// Different words that this task owns.
    slots: u64,
    /// Time from the task's start until all counts were in place.
    nanoseconds: u64,
}

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    let mut context = task.context()?;
    let input = agree(&mut context, PROGRAM, Input::find(&arguments.files))?;
    let chunks = input.chunks();

    // A word takes at least two bytes, itself and a separator, which bounds the number of words.
    let words_max = input.sizes.iter().map(|bytes| bytes / 2 + 1).sum();
    let table = Arc::new(WordTable::new(&mut context, words_max)?);
    let place_count = register_handler(&mut context, &table)?;
    // Collective: after this, every task has its handler and its table.
    let addresses = context.address_init(table.address())?;

    let started = Instant::now();
    let share = count_share(&mut context, &input, &chunks, place_count);
    let share = agree(&mut context, PROGRAM, share)?;
    // After this, the counts of all tasks are in place.
    context.gfence()?;
    let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);

    let own = Share { slots: table.used(), nanoseconds, ..share };
    let shares = exchange(&mut context, own)?;
    let result = if task.number() == 0 {
        collect(&mut context, &addresses, &shares).and_then(|mut entries| {
            report(&mut entries, &shares);
            check_sum(&entries, &shares)?;
            if arguments.verify { verify(&entries, &input) } else { Ok(()) }
        })
    } else {
        Ok(())
    };
    // The tables stay until the first task has read them.
    context.gfence()?;
    result
}

/// Registers the handler of count messages. In such a message the user header is a word, and the data are how often the sender has seen the
/// word so far.
fn register_handler(context: &mut Context<ShmFabric>, table: &Arc<WordTable>) -> Result<HandlerId, Failure> {
    let mut claims = Claims::new(Arc::clone(table));
    let handler = move |message: &am_core::handler::Message<'_>| match claims
        .place(message.uhdr, message.source.task)
    {
        Some(cell) => Answer::exposed(cell, Completion::None),
        // This cannot happen between correct tasks; the comparison of the sums would detect it.
        None => Answer::discard(),
    };
    Ok(context.register_handler(handler)?)
}

/// Counts this task's share of the chunks, and sends the counts to the words' owners.
fn count_share(
    context: &mut Context<ShmFabric>,
    input: &Input,
    chunks: &[Chunk],
    place_count: HandlerId,
) -> Result<Share, Failure> {
    let (task, tasks) = (context.task().index(), context.num_tasks() as usize);
    let own: Vec<&Chunk> = chunks.iter().skip(task).step_by(tasks).collect();
    let mut progress = Progress::new(own.iter().map(|chunk| chunk.len()).sum(), task == 0);
    let mut counts = Counts::default();
    let mut share = Share::default();
    let mut unsent_bytes = 0;
    for chunk in own {
        let text = input.read(chunk)?;
        for line in text.split_inclusive('\n') {
            text::for_each_word(line, |word| counts.add(word));
            // Other tasks send while this task counts: handles their messages.
            while context.probe()? {}
        }
        unsent_bytes += chunk.len();
        if unsent_bytes >= SEND_AFTER_BYTES {
            share.messages += counts.send(context, place_count)?;
            unsent_bytes = 0;
        }
        progress.advance(chunk.len());
    }
    share.messages += counts.send(context, place_count)?;
    Ok(Share { words: counts.words, ..share })
}

/// What one task has counted.
#[derive(Default)]
struct Counts {
    /// All words.
    words: u64,
    /// How often this task has seen each word so far.
    totals: HashMap<String, Total>,
    /// The words whose owners do not know the current totals.
    unsent: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Total {
    count: u64,
    is_unsent: bool,
}

impl Counts {
    fn add(&mut self, word: &str) {
        self.words += 1;
        // Looks up first, so that only a new word is copied (and looked up twice).
        if !self.totals.contains_key(word) {
            self.totals.insert(word.to_owned(), Total::default());
        }
        if let Some(total) = self.totals.get_mut(word) {
            total.count += 1;
            if !total.is_unsent {
                total.is_unsent = true;
                self.unsent.push(word.to_owned());
            }
        }
    }

    /// Sends each new total to the word's owner, and returns how many were sent.
    fn send(&mut self, context: &mut Context<ShmFabric>, place_count: HandlerId) -> Result<u64, Failure> {
        let tasks = context.num_tasks();
        let options = AmOptions::default();
        let messages = self.unsent.len() as u64;
        for word in self.unsent.drain(..) {
            let Some(total) = self.totals.get_mut(&word) else { continue };
            total.is_unsent = false;
            let (word, count) = (word.as_bytes(), total.count.to_le_bytes());
            context.amsend(owner(word, tasks), place_count, word, &count, options)?;
        }
        Ok(messages)
    }
}

fn exchange(context: &mut Context<ShmFabric>, own: Share) -> Result<Vec<Share>, Failure> {
    let bytes = [own.words, own.messages, own.slots, own.nanoseconds].map(u64::to_le_bytes).concat();
    let all = context.exchange(&bytes)?;
    let share = |bytes: &Vec<u8>| {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
        Share { words: word(0), messages: word(1), slots: word(2), nanoseconds: word(3) }
    };
    Ok(all.iter().map(share).collect())
}

/// Reads the entries of all tasks' tables.
fn collect(
    context: &mut Context<ShmFabric>,
    addresses: &[RemoteAddress],
    shares: &[Share],
) -> Result<Vec<Entry>, Failure> {
    let layout = Layout::new(context.num_tasks());
    let slots_a_get = (GET_BYTES / layout.slot_bytes()).max(1);
    let mut bytes = vec![0; slots_a_get * layout.slot_bytes()];
    let mut entries = Vec::new();
    for (address, share) in addresses.iter().zip(shares) {
        for slot in (0..share.slots).step_by(slots_a_get) {
            let slots = usize::try_from(share.slots - slot).unwrap_or(usize::MAX).min(slots_a_get);
            let bytes = &mut bytes[..slots * layout.slot_bytes()];
            context.get(address.plus(layout.slot_offset(slot)), bytes, GetOptions::default())?;
            entries.extend(layout.entries(bytes));
        }
    }
    Ok(entries)
}

fn report(entries: &mut [Entry], shares: &[Share]) {
    entries.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.word.cmp(&b.word)));
    for entry in entries.iter().take(SHOWN) {
        println!("{:>10}  {}", entry.count, entry.word);
    }
    let words: u64 = shares.iter().map(|share| share.words).sum();
    let messages: u64 = shares.iter().map(|share| share.messages).sum();
    let slowest = shares.iter().map(|share| share.nanoseconds).max().unwrap_or_default();
    let seconds = Duration::from_nanos(slowest).as_secs_f64();
    println!(
        "tasks: {}, words: {words}, different: {}, messages: {messages}, seconds: {seconds:.3}, words/s: {:.0}",
        shares.len(),
        entries.len(),
        words as f64 / seconds,
    );
}

/// Checks that the tables contain as many words as were counted.
fn check_sum(entries: &[Entry], shares: &[Share]) -> Result<(), Failure> {
    let counted: u64 = shares.iter().map(|share| share.words).sum();
    let placed: u64 = entries.iter().map(|entry| entry.count).sum();
    if counted == placed {
        return Ok(());
    }
    Err(Failure::Wrong(format!("{counted} words were counted, and the tables hold {placed}")))
}

/// Counts everything again, in this process alone, and compares the counts with `entries`. Prints `verified` if they are equal; otherwise
/// the error names a word.
fn verify(entries: &[Entry], input: &Input) -> Result<(), Failure> {
    let mut expected: HashMap<String, u64> = HashMap::new();
    for (path, &size) in input.files.iter().zip(&input.sizes) {
        let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
        if bytes.len() as u64 != size {
            let (path, now) = (path.display(), bytes.len());
            return Err(Failure::Input(format!("{path} had {size} bytes at first and now gives {now}")));
        }
        text::for_each_word(&String::from_utf8_lossy(&bytes), |word| match expected.get_mut(word) {
            Some(count) => *count += 1,
            None => {
                expected.insert(word.to_owned(), 1);
            }
        });
    }
    for Entry { word, count } in entries {
        match expected.remove(word) {
            Some(expected) if expected == *count => {}
            Some(expected) => {
                return Err(Failure::Wrong(format!(
                    "{word:?} was found {count} times, not {expected} times"
                )));
            }
            None => {
                return Err(Failure::Wrong(format!(
                    "{word:?} was counted {count} times, but is not in the texts"
                )));
            }
        }
    }
    match expected.into_iter().next() {
        Some((word, count)) => {
            Err(Failure::Wrong(format!("{word:?} is {count} times in the texts, but was not counted")))
        }
        None => {
            println!("verified");
            Ok(())
        }
    }
}

/// The files, the same list in every task.
struct Input {
    files: Vec<PathBuf>,
    sizes: Vec<u64>,
}

impl Input {
    /// The files that the user named, or those of this repository. Each file must be readable.
    fn find(asked: &[PathBuf]) -> Result<Self, Failure> {
        let files = if asked.is_empty() { own_text()? } else { asked.to_vec() };
        let size = |path: &PathBuf| {
            let metadata = File::open(path).and_then(|file| file.metadata());
            let metadata = metadata.map_err(|error| unreadable(path, &error))?;
            if !metadata.is_file() {
                let kind = if metadata.is_dir() { "a folder" } else { "not a regular file" };
                return Err(Failure::Input(format!("{} is {kind}: name text files", path.display())));
            }
            Ok(metadata.len())
        };
        let sizes = files.iter().map(size).collect::<Result<_, _>>()?;
        Ok(Self { files, sizes })
    }

    fn chunks(&self) -> Vec<Chunk> {
        text::chunks(&self.sizes, CHUNK_BYTES)
    }

    fn read(&self, chunk: &Chunk) -> Result<String, Failure> {
        let path = &self.files[chunk.file];
        let read = File::open(path).and_then(|mut file| chunk.read(&mut file));
        read.map_err(|error| unreadable(path, &error))
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Input(format!(
        "cannot read {}: {error}; name text files that this user may read",
        path.display()
    ))
}

/// The text files of this repository, or of the folder that the program runs in.
fn own_text() -> Result<Vec<PathBuf>, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().filter(|root| root.is_dir());
    let root = root.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        let entries = folder.read_dir().map_err(|error| unreadable(&folder, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&folder, &error))?;
            let (path, name) = (entry.path(), entry.file_name());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let hidden = name.to_string_lossy().starts_with('.');
            if is_folder && !hidden && name != "target" {
                folders.push(path);
            } else if path.is_file() && path.extension().is_some_and(is_text) {
                files.push(path);
            }
        }
    }
    if files.is_empty() {
        let what = format!("there is no .rs, .md or .toml file in {}: name text files", root.display());
        return Err(Failure::Input(what));
    }
    // All tasks divide the same list.
    files.sort();
    Ok(files)
}

fn is_text(extension: &std::ffi::OsStr) -> bool {
    ["rs", "md", "toml"].iter().any(|known| extension == *known)
}
