//! Breadth-first search of the Graph500 benchmark, on a graph that is distributed over all tasks.
//!
//! What it teaches: irregular traffic. A task that reaches another task's vertex sends the vertex's number to its owner. The owner's
//! handler checks whether the vertex is new, and only that handler changes the vertex, so no lock and no remote atomic operation is needed.
//! Numbers are collected, and one message carries many. A level ends with a fence of all tasks, after which every handler has run, and a
//! sum.
//!
//! ```text
//! cargo amrun -n 4 --example bfs
//! cargo amrun -n 4 --example bfs -- --scale 18
//! ```
//!
//! You should see the size of the graph, the times and rates of the searches with the harmonic mean in TEPS (traversed edges a second), and
//! as the last line `verified`: each search was checked against the five rules of the benchmark.
//!
//! Follows the specification of Graph500: Kronecker graph (A, B, C = 0.57, 0.19, 0.19), edge factor 16, 64 random roots that have edges,
//! each search validated. The rules: (1) the tree has no cycle and one root; (2) levels along its edges differ by one; (3) levels along
//! edges of the graph differ by at most one, or neither end was reached; (4) the tree spans the root's component; (5) a vertex and its
//! parent are joined by an edge of the graph.

#![expect(clippy::cast_possible_truncation, reason = "numbers of tasks and vertices, which have 32 bits")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use am_core::Context;
use am_core::handler::{Answer, HandlerId};
use am_core::pgas::{self, Aggregator, Segment};
use am_examples::failure::agree;
use am_examples::graph500::{UNREACHED, Validator, edges_of, owner, pack, unpack};
use am_examples::kronecker::Kronecker;
use am_examples::progress::Progress;
use am_examples::{Failure, arguments, kernel, random};
use am_via::{ShmFabric, Task};
use clap::Parser;

/// Breadth-first search of the Graph500 benchmark, on a graph that is distributed over all tasks.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// Binary logarithm of the number of vertices.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=31))]
    scale: u32,
    /// Edges for each vertex.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    edge_factor: u64,
    /// Number of searches, each from a different root.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=64))]
    roots: u64,
    /// Seed of the graph.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const PROGRAM: &str = "bfs";
/// Maximum number of vertices in a message.
const BATCH: usize = 1024;
/// Number of vertices from which roots are chosen: in total, and in one exchange of bits.
const CANDIDATES: usize = 1 << 14;
const CANDIDATES_A_ROUND: usize = 256;

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    let mut context = task.context()?;
    let Arguments { scale, edge_factor, seed, .. } = *arguments;
    let graph = Kronecker { scale, edge_factor, seed };
    let places = graph.vertices().div_ceil(u64::from(context.num_tasks()));
    let reached = Segment::new(&mut context, places).map_err(Failure::from);
    let reached = Arc::new(agree(&mut context, PROGRAM, reached)?);
    let inbox = Arc::new(Inbox::default());
    let handlers = Handlers::register(&mut context, &reached, &inbox)?;
    let own = task.number();
    let (mut part, seconds) =
        kernel::timed(&mut context, |context| Part::build(context, graph, handlers, reached, inbox))?;
    if own == 0 {
        let (tasks, vertices, edges) = (context.num_tasks(), graph.vertices(), graph.edges());
        println!(
            "tasks: {tasks}, scale: {scale}, vertices: {vertices}, edges: {edges}, built in {seconds:.3} s"
        );
    }
    let mut validator = Validator::new(&mut context, PROGRAM, graph)?;
    let roots = part.roots(&mut context, arguments)?;
    let mut progress = Progress::count(roots.len() as u64, own == 0);
    let mut searches = Vec::new();
    for root in roots {
        part.forget(&mut context)?;
        let (levels, seconds) = kernel::timed(&mut context, |context| part.search(context, root))?;
        let edges = validator.check(&mut context, &part.reached, root)?;
        searches.push(Search { levels, seconds, edges });
        progress.advance(1);
    }
    drop(progress);
    if own == 0 {
        report(&mut searches)?;
        println!("verified");
    }
    Ok(())
}

/// The result of one search.
struct Search {
    levels: u32,
    seconds: f64,
    /// Number of listed edges inside the root's component, including loops and repetitions.
    edges: u64,
}

fn report(searches: &mut [Search]) -> Result<(), Failure> {
    let teps = |search: &Search| search.edges as f64 / search.seconds;
    searches.sort_by(|a, b| teps(a).total_cmp(&teps(b)));
    let (Some(slowest), Some(fastest)) = (searches.first(), searches.last()) else {
        return Err(Failure::Wrong("no search was made".to_owned()));
    };
    let median = &searches[searches.len() / 2];
    let seconds: f64 = searches.iter().map(|search| search.seconds).sum();
    let levels = searches.iter().map(|search| search.levels).max().unwrap_or(0);
    let harmonic = searches.len() as f64 / searches.iter().map(|search| 1.0 / teps(search)).sum::<f64>();
    println!("searches: {}, seconds: {seconds:.4}, levels: {levels} at most", searches.len());
    println!(
        "TEPS: slowest {:.4e}, median {:.4e}, fastest {:.4e}, harmonic mean {harmonic:.4e}",
        teps(slowest),
        teps(median),
        teps(fastest)
    );
    Ok(())
}

/// Values that handlers have stored for the program. The handlers run in the program's thread, inside its calls, so no lock is ever
/// contended.
#[derive(Default)]
struct Inbox {
    /// Ends of edges: the index of this task's vertex, and the number of the other vertex.
    edges: Mutex<Vec<u64>>,
    /// Indices of vertices reached in this level.
    reached: Mutex<Vec<u32>>,
    /// The level that is being reached.
    level: AtomicU32,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Copy)]
struct Handlers {
    edges: HandlerId,
    visit: HandlerId,
}

impl Handlers {
    fn register(
        context: &mut Context<ShmFabric>,
        reached: &Arc<Segment<u64>>,
        inbox: &Arc<Inbox>,
    ) -> Result<Self, Failure> {
        let into = Arc::clone(inbox);
        let edges = context.register_handler(move |message| {
            let mut edges = lock(&into.edges);
            pgas::items(message, |edge| edges.push(edge));
            Answer::discard()
        })?;
        let (reached, into) = (Arc::clone(reached), Arc::clone(inbox));
        let visit = context.register_handler(move |message| {
            let mut next = lock(&into.reached);
            let level = into.level.load(Ordering::Relaxed);
            pgas::items(message, |visit| {
                let (place, parent) = unpack(visit);
                if reach(&reached, place, parent, level) {
                    next.push(place);
                }
            });
            Answer::discard()
        })?;
        Ok(Self { edges, visit })
    }
}

/// Stores the level and parent of the vertex at index `place` if the vertex is new, and returns whether it is new. Ignores an invalid
/// index.
#[inline(always)]
fn reach(reached: &Segment<u64>, place: u32, parent: u32, level: u32) -> bool {
    match reached.get(u64::from(place)) {
        Ok(UNREACHED) => reached.set(u64::from(place), pack(level, parent)).is_ok(),
        _ => false,
    }
}

/// This task's vertices and their edges.
struct Part {
    graph: Kronecker,
    handlers: Handlers,
    /// Level and parent of each vertex, which other tasks read after the search.
    reached: Arc<Segment<u64>>,
    inbox: Arc<Inbox>,
    /// The index in `neighbours` at which each vertex's neighbours begin, and the end.
    starts: Vec<usize>,
    neighbours: Vec<u32>,
    /// Vertices that this task has tried to reach in this search: one bit each.
    seen: Vec<u64>,
}

impl Part {
    /// Draws this task's share of the edges, sends each edge to the owners of its two ends, and lists the neighbours of this task's
    /// vertices.
    fn build(
        context: &mut Context<ShmFabric>,
        graph: Kronecker,
        handlers: Handlers,
        reached: Arc<Segment<u64>>,
        inbox: Arc<Inbox>,
    ) -> Result<Self, Failure> {
        let tasks = context.num_tasks();
        let mut aggregator = Aggregator::new(context, handlers.edges, BATCH)?;
        for (from, to) in edges_of(context, graph, context.task().0 == 0) {
            if from == to {
                continue;
            }
            for (one, other) in [(from, to), (to, from)] {
                let (task, place) = owner(one, tasks);
                aggregator.push(context, task, pack(place, other))?;
            }
        }
        aggregator.flush(context)?;
        context.gfence()?;
        let edges = std::mem::take(&mut *lock(&inbox.edges));
        let mut starts = vec![0; reached.count() as usize + 1];
        for &edge in &edges {
            starts[unpack(edge).0 as usize + 1] += 1;
        }
        for place in 1..starts.len() {
            starts[place] += starts[place - 1];
        }
        let (mut ends, mut neighbours) = (starts.clone(), vec![0; edges.len()]);
        for edge in edges {
            let (place, other) = unpack(edge);
            neighbours[ends[place as usize]] = other;
            ends[place as usize] += 1;
        }
        let seen = vec![0; graph.vertices().div_ceil(64) as usize];
        Ok(Self { graph, handlers, reached, inbox, starts, neighbours, seen })
    }

    fn neighbours(&self, place: u32) -> &[u32] {
        &self.neighbours[self.starts[place as usize]..self.starts[place as usize + 1]]
    }

    /// Distinct random vertices that have edges, the same in every task: as many as `--roots` asks for, or as were found.
    fn roots(&self, context: &mut Context<ShmFabric>, arguments: &Arguments) -> Result<Vec<u32>, Failure> {
        let seed = random::stream(arguments.seed, u64::from(u32::MAX));
        let candidate =
            |number: usize| random::below(random::at(seed, number as u64), self.graph.vertices()) as u32;
        let wanted = usize::try_from(arguments.roots).unwrap_or(usize::MAX);
        let mut roots = Vec::new();
        for first in (0..CANDIDATES).step_by(CANDIDATES_A_ROUND) {
            // A bit for each of this task's candidates that has an edge.
            let mut fit = [0_u8; CANDIDATES_A_ROUND / 8];
            for number in 0..CANDIDATES_A_ROUND {
                let (task, place) = owner(candidate(first + number), context.num_tasks());
                if task == context.task() && !self.neighbours(place).is_empty() {
                    fit[number / 8] |= 1 << (number % 8);
                }
            }
            let all = context.exchange(&fit)?;
            for number in 0..CANDIDATES_A_ROUND {
                let vertex = candidate(first + number);
                let is_fit = all.iter().any(|fit| fit[number / 8] >> (number % 8) & 1 == 1);
                if is_fit && roots.len() < wanted && !roots.contains(&vertex) {
                    roots.push(vertex);
                }
            }
            if roots.len() == wanted {
                break;
            }
        }
        let none = "none of the tested vertices has an edge: use another --seed or a larger --edge-factor";
        let found = if roots.is_empty() { Err(Failure::Input(none.to_owned())) } else { Ok(roots) };
        agree(context, PROGRAM, found)
    }

    /// Marks all vertices as not reached.
    fn forget(&mut self, context: &mut Context<ShmFabric>) -> Result<(), Failure> {
        // Other tasks may still be reading the results of the last search.
        context.gfence()?;
        self.reached.write(0, &vec![UNREACHED; self.reached.count() as usize])?;
        self.seen.fill(0);
        Ok(())
    }

    /// Searches from `root` and returns the number of levels.
    fn search(&mut self, context: &mut Context<ShmFabric>, root: u32) -> Result<u32, Failure> {
        let tasks = context.num_tasks();
        let mut aggregator = Aggregator::new(context, self.handlers.visit, BATCH)?;
        let mut frontier = Vec::new();
        let (task, place) = owner(root, tasks);
        if task == context.task() && reach(&self.reached, place, root, 0) {
            frontier.push(place);
        }
        let mut level = 1;
        loop {
            self.inbox.level.store(level, Ordering::Relaxed);
            // No task sends for this level before every task knows the number of the level.
            context.gfence()?;
            let mut next = Vec::new();
            for place in frontier {
                let parent = place * tasks + context.task().0;
                let neighbours = self.starts[place as usize]..self.starts[place as usize + 1];
                for &vertex in &self.neighbours[neighbours] {
                    // Most neighbours have been seen before: a test of one bit skips them, whichever task owns them.
                    let (word, bit) = (&mut self.seen[(vertex / 64) as usize], 1 << (vertex % 64));
                    if *word & bit != 0 {
                        continue;
                    }
                    *word |= bit;
                    let (task, place) = owner(vertex, tasks);
                    if task != context.task() {
                        aggregator.push(context, task, pack(place, parent))?;
                    } else if reach(&self.reached, place, parent, level) {
                        next.push(place);
                    }
                }
            }
            aggregator.flush(context)?;
            // After the fence, the inbox has all of this task's vertices that other tasks have reached.
            context.gfence()?;
            next.append(&mut lock(&self.inbox.reached));
            if kernel::sum(context, next.len() as u64)? == 0 {
                return Ok(level);
            }
            frontier = next;
            level += 1;
        }
    }
}
