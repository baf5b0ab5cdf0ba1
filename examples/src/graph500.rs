//! The result of a search of the Graph500 benchmark, and the five rules by which it is checked.

#![expect(clippy::cast_possible_truncation, reason = "numbers of tasks and vertices, which have 32 bits")]

use am_core::fabric::Fabric;
use am_core::handler::HandlerSet;
use am_core::pgas::Segment;
use am_core::task::TaskId;
use am_core::{Context, GetOptions};

use crate::failure::agree;
use crate::kronecker::{Components, Kronecker};
use crate::progress::Progress;
use crate::{Failure, kernel};

/// The result for a vertex that was not reached. The result for any other vertex is its level and parent ([`pack`]).
pub const UNREACHED: u64 = u64::MAX;
/// Number of edges between two updates of the progress bar.
const SHOWN_EVERY: u64 = 4096;

/// A vertex's task and its index there.
#[inline(always)]
#[must_use]
pub fn owner(vertex: u32, tasks: u32) -> (TaskId, u32) {
    (TaskId(vertex % tasks), vertex / tasks)
}

/// Packs two 32-bit numbers into one word.
#[inline(always)]
#[must_use]
pub fn pack(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The two numbers of [`pack`].
#[inline(always)]
#[must_use]
pub fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// This task's share of the edge list, with a progress bar if it is `shown`.
pub fn edges_of<F: Fabric, H: HandlerSet>(
    context: &Context<F, H>,
    graph: Kronecker,
    shown: bool,
) -> impl Iterator<Item = (u32, u32)> + use<F, H> {
    let (tasks, own) = (u64::from(context.num_tasks()), u64::from(context.task().0));
    let (start, count) = kernel::share(graph.edges(), tasks, own);
    let mut progress = Progress::count(count, shown);
    (start..start + count).map(move |number| {
        if (number - start) % SHOWN_EVERY == SHOWN_EVERY - 1 {
            progress.advance(SHOWN_EVERY);
        }
        graph.edge(number)
    })
}

/// Checks searches against the edge list, of which each task has a share, and against the components, which each task computes for itself.
#[derive(Debug)]
pub struct Validator {
    graph: Kronecker,
    edges: Vec<(u32, u32)>,
    components: Components,
    /// One bit for each vertex, set if this task has seen an edge from the vertex to its parent.
    joined: Segment<u64>,
}

impl Validator {
    /// Collective: draws the edges, and finds the components. `program` prefixes the message about too little memory.
    ///
    /// # Errors
    /// Too little memory in a task; a failed exchange.
    pub fn new<F: Fabric, H: HandlerSet>(
        context: &mut Context<F, H>,
        program: &str,
        graph: Kronecker,
    ) -> Result<Self, Failure> {
        let joined = Segment::new(context, graph.vertices().div_ceil(64)).map_err(Failure::from);
        let joined = agree(context, program, joined)?;
        Ok(Self {
            graph,
            edges: edges_of(context, graph, false).collect(),
            components: Components::of(graph),
            joined,
        })
    }

    /// Collective: checks the result of a search from `root` for each vertex. Returns the number of listed edges inside the root's
    /// component.
    ///
    /// # Errors
    /// [`Failure::Wrong`] with the rule that is broken, in the first task, and [`Failure::Elsewhere`] in the others; a failed get or
    /// exchange.
    pub fn check<F: Fabric, H: HandlerSet>(
        &mut self,
        context: &mut Context<F, H>,
        found: &Segment<u64>,
        root: u32,
    ) -> Result<u64, Failure> {
        let tasks = context.num_tasks();
        let mut reached = vec![UNREACHED; (found.count() * u64::from(tasks)) as usize];
        let mut theirs = vec![0; found.count() as usize];
        for task in 0..tasks {
            found.at(TaskId(task), 0)?.get(context, &mut theirs, GetOptions::default())?;
            for (place, &word) in theirs.iter().enumerate() {
                reached[place * tasks as usize + task as usize] = word;
            }
        }
        reached.truncate(1 << self.graph.scale);
        let level = |vertex: u32| match reached[vertex as usize] {
            UNREACHED => None,
            word => Some(unpack(word).0),
        };
        let parent = |vertex: u32| unpack(reached[vertex as usize]).1;
        let own: Vec<u32> =
            (0..1 << self.graph.scale).filter(|vertex| vertex % tasks == context.task().0).collect();
        let tree = || own.iter().copied().filter(|&vertex| level(vertex).is_some());

        // From every vertex reached, the path upwards must come to the root in fewer steps than there are vertices. The path is short,
        // because levels decrease along it (rule 2).
        let ends_at_root = |vertex: u32| {
            let mut at = vertex;
            for _ in 0..reached.len() {
                if at == root {
                    return parent(root) == root;
                }
                if at as usize >= reached.len() || level(at).is_none() {
                    return false;
                }
                at = parent(at);
            }
            false
        };
        let wrong = tree().filter(|&vertex| !ends_at_root(vertex)).count();
        self.rule(context, 1, wrong, "vertices from which no path leads to the root")?;

        let is_below = |vertex: u32| match level(vertex) {
            Some(0) => vertex == root,
            own => own == level(parent(vertex)).map(|above| above + 1),
        };
        let wrong = tree().filter(|&vertex| !is_below(vertex)).count();
        self.rule(context, 2, wrong, "vertices that are not one level below their parent")?;

        let is_short = |(from, to): &(u32, u32)| match (level(*from), level(*to)) {
            (Some(from), Some(to)) => from.abs_diff(to) <= 1,
            (None, None) => true,
            _ => false,
        };
        let wrong = self.edges.iter().filter(|edge| !is_short(edge)).count();
        self.rule(context, 3, wrong, "edges between vertices whose levels are not next to each other")?;

        let component = self.components.find(root);
        let mut wrong = 0;
        for &vertex in &own {
            wrong += usize::from((self.components.find(vertex) == component) != level(vertex).is_some());
        }
        self.rule(
            context,
            4,
            wrong,
            "vertices that were reached but are not in the root's component, or are in it but were not reached",
        )?;

        let mut joined = vec![0_u64; self.joined.count() as usize];
        for &(from, to) in &self.edges {
            for (vertex, other) in [(from, to), (to, from)] {
                if level(vertex).is_some() && parent(vertex) == other {
                    joined[(vertex / 64) as usize] |= 1 << (vertex % 64);
                }
            }
        }
        self.joined.write(0, &joined)?;
        context.gfence()?;
        let mut theirs = vec![0; joined.len()];
        for task in 0..tasks {
            self.joined.at(TaskId(task), 0)?.get(context, &mut theirs, GetOptions::default())?;
            joined.iter_mut().zip(&theirs).for_each(|(word, more)| *word |= more);
        }
        let is_joined =
            |vertex: u32| vertex == root || joined[(vertex / 64) as usize] >> (vertex % 64) & 1 == 1;
        let wrong = tree().filter(|&vertex| !is_joined(vertex)).count();
        self.rule(context, 5, wrong, "vertices without an edge to their parent")?;

        let inside = self.edges.iter().filter(|edge| level(edge.0).is_some()).count();
        kernel::sum(context, inside as u64)
    }

    fn rule<F: Fabric, H: HandlerSet>(
        &self,
        context: &mut Context<F, H>,
        rule: u32,
        wrong: usize,
        what: &str,
    ) -> Result<(), Failure> {
        kernel::no_errors(context, wrong as u64, &format!("{what} (rule {rule} of Graph500)"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use am_via::Task;

    use super::*;

    const GRAPH: Kronecker = Kronecker { scale: 8, edge_factor: 4, seed: 2 };

    /// A breadth-first search in one process.
    fn search(root: u32) -> Vec<u64> {
        let mut found = vec![UNREACHED; 1 << GRAPH.scale];
        found[root as usize] = pack(0, root);
        let edges: Vec<(u32, u32)> = (0..GRAPH.edges()).map(|number| GRAPH.edge(number)).collect();
        let mut queue = VecDeque::from([root]);
        while let Some(at) = queue.pop_front() {
            let level = unpack(found[at as usize]).0;
            let ends = edges.iter().flat_map(|&(from, to)| [(from, to), (to, from)]);
            for (_, next) in ends.filter(|(from, _)| *from == at) {
                if found[next as usize] == UNREACHED {
                    found[next as usize] = pack(level + 1, at);
                    queue.push_back(next);
                }
            }
        }
        found
    }

    #[test]
    fn each_rule_finds_what_breaks_it() {
        let mut context = Task::join().unwrap().context().unwrap();
        let mut validator = Validator::new(&mut context, "test", GRAPH).unwrap();
        let segment = Segment::new(&mut context, GRAPH.vertices()).unwrap();
        // The vertex with the most edges, so that it has many neighbours.
        let edges = || (0..GRAPH.edges()).map(|number| GRAPH.edge(number));
        let degree = |vertex: u32| edges().filter(|edge| edge.0 == vertex || edge.1 == vertex).count();
        let root = (0..1 << GRAPH.scale).max_by_key(|vertex| degree(*vertex)).unwrap();
        let right = search(root);
        let mut check = |found: &[u64]| {
            segment.write(0, found).unwrap();
            validator.check(&mut context, &segment, root).map_err(|failure| failure.to_string())
        };
        let inside = check(&right).unwrap();
        assert!(inside > GRAPH.edges() / 2 && inside <= GRAPH.edges());

        let at_level =
            |level| right.iter().position(|word| *word != UNREACHED && unpack(*word).0 == level).unwrap();
        let alone = right.iter().position(|word| *word == UNREACHED).unwrap();
        let mut broken = |rule: &str, change: &dyn Fn(&mut [u64])| {
            let mut found = right.clone();
            change(&mut found);
            let error = check(&found).unwrap_err();
            assert!(error.contains(rule), "{error}, and not {rule}");
        };
        let (one, two) = (at_level(1), at_level(2));
        // Two vertices that are each other's parents; a parent that does not exist; a root with a parent.
        broken("rule 1", &|found| {
            found[two] = pack(2, one as u32);
            found[one] = pack(1, two as u32);
        });
        broken("rule 1", &|found| found[two] = pack(2, u32::MAX - 1));
        broken("rule 1", &|found| found[root as usize] = pack(0, one as u32));
        broken("rule 2", &|found| found[two] = pack(3, unpack(found[two]).1));
        // A leaf is left out: its edges lead from reached vertices to a vertex that was not reached.
        let leaf = (0..right.len())
            .find(|&at| {
                right[at] != UNREACHED
                    && !right.iter().any(|word| *word != UNREACHED && unpack(*word).1 == at as u32)
            })
            .unwrap();
        broken("rule 3", &|found| found[leaf] = UNREACHED);
        // A vertex outside the root's component is said to be reached.
        broken("rule 4", &|found| found[alone] = pack(1, root));
        // A parent at the right level, but without an edge to the vertex.
        let neighbours: Vec<u32> = edges()
            .flat_map(|(from, to)| [(from, to), (to, from)])
            .filter(|(from, _)| *from == two as u32)
            .map(|(_, to)| to)
            .collect();
        let stranger = (0..right.len() as u32)
            .find(|at| {
                right[*at as usize] != UNREACHED
                    && unpack(right[*at as usize]).0 == 1
                    && !neighbours.contains(at)
            })
            .unwrap();
        broken("rule 5", &|found| found[two] = pack(2, stranger));
    }
}
