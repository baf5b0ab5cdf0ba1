//! The graphs of the Graph500 benchmark: Kronecker graphs, of which any task can draw any edge.

use crate::random;

/// The probabilities of three quarters of the adjacency matrix, as shares of 2^32: 0.57, 0.19, 0.19. The fourth has the rest, 0.05.
const QUARTERS: [u64; 3] = [2_448_131_359, 816_043_786, 816_043_786];

/// A graph of 2^`scale` vertices and `edge_factor` edges for each of them.
#[derive(Clone, Copy, Debug)]
pub struct Kronecker {
    /// Logarithm of the number of vertices; at most 31.
    pub scale: u32,
    /// Average number of edges for each vertex.
    pub edge_factor: u64,
    /// Seed of the graph.
    pub seed: u64,
}

impl Kronecker {
    /// Number of vertices, including those without an edge.
    #[must_use]
    pub fn vertices(self) -> u64 {
        1 << self.scale
    }

    /// Number of edges in the list, including loops and repetitions.
    #[must_use]
    pub fn edges(self) -> u64 {
        self.edge_factor << self.scale
    }

    /// Edge `number` of the list.
    #[must_use]
    pub fn edge(self, number: u64) -> (u32, u32) {
        let stream = random::stream(self.seed, number);
        let (mut from, mut to) = (0, 0);
        for level in 0..u64::from(self.scale) {
            let chance = random::at(stream, level) >> 32;
            let [a, b, c] = QUARTERS;
            let (down, right) = match chance {
                _ if chance < a => (0, 0),
                _ if chance < a + b => (0, 1),
                _ if chance < a + b + c => (1, 0),
                _ => (1, 1),
            };
            from = from << 1 | down;
            to = to << 1 | right;
        }
        (self.scrambled(from), self.scrambled(to))
    }

    /// The vertex's number after a permutation, so that numbers do not reveal degrees.
    fn scrambled(self, vertex: u64) -> u32 {
        let mask = self.vertices() - 1;
        let half = self.scale / 2 + 1;
        let mut name = vertex;
        for round in 0..3 {
            // Each step is invertible: a product with an odd number, and a shifted exclusive or.
            let factor = random::stream(self.seed, u64::MAX - round) | 1;
            name = name.wrapping_mul(factor) & mask;
            name ^= name >> half;
        }
        u32::try_from(name).unwrap_or(0)
    }
}

/// The connected components of a graph, as a forest of vertices.
#[derive(Debug)]
pub struct Components {
    parents: Vec<u32>,
}

impl Components {
    /// The components of the whole graph, drawn in this process alone.
    #[must_use]
    pub fn of(graph: Kronecker) -> Self {
        let mut components = Self { parents: (0..1 << graph.scale).collect() };
        for number in 0..graph.edges() {
            let (from, to) = graph.edge(number);
            let (from, to) = (components.find(from), components.find(to));
            components.parents[from.max(to) as usize] = from.min(to);
        }
        components
    }

    /// The vertex that stands for the component of `vertex`.
    pub fn find(&mut self, mut vertex: u32) -> u32 {
        loop {
            let parent = self.parents[vertex as usize];
            if parent == vertex {
                return vertex;
            }
            // Path halving: every second vertex is linked to its grandparent.
            self.parents[vertex as usize] = self.parents[parent as usize];
            vertex = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: Kronecker = Kronecker { scale: 10, edge_factor: 16, seed: 5 };

    #[test]
    fn names_are_a_permutation() {
        for scale in [1, 2, 5, 10, 11] {
            let graph = Kronecker { scale, ..GRAPH };
            let mut names: Vec<u32> = (0..graph.vertices()).map(|vertex| graph.scrambled(vertex)).collect();
            names.sort_unstable();
            assert!(names.into_iter().eq(0..1 << scale), "scale {scale}");
        }
    }

    #[test]
    fn degrees_are_as_uneven_as_they_should_be() {
        let mut degrees = vec![0_u32; 1 << GRAPH.scale];
        for number in 0..GRAPH.edges() {
            let (from, to) = GRAPH.edge(number);
            degrees[from as usize] += 1;
            degrees[to as usize] += 1;
        }
        let (largest, none) = (degrees.iter().max(), degrees.iter().filter(|degree| **degree == 0).count());
        // At each end, 0.76^10 of all edges have the vertex that had number 0 before the permutation: its degree is about 2 * 1050.
        assert!(largest.is_some_and(|largest| (1700..2500).contains(largest)), "{largest:?}");
        assert!((50..500).contains(&none), "{none} vertices without an edge");
    }

    #[test]
    fn edges_stay_inside_their_component() {
        let mut components = Components::of(GRAPH);
        for number in 0..GRAPH.edges() {
            let (from, to) = GRAPH.edge(number);
            assert_eq!(components.find(from), components.find(to));
        }
    }
}
