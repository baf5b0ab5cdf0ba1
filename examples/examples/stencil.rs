//! The star stencil of the Parallel Research Kernels, its halo exchanged by puts with target counters and by MPI.
//!
//! What it teaches: the same halo exchange in both models. By put, a task writes its edge directly into its neighbour's halo buffer, and
//! the neighbour waits only for a counter: there is no receive and no request. Two buffers for each side, used in turn, are the only flow
//! control: when a task has received the halo of iteration k from a neighbour, that neighbour has read this task's halo of iteration k - 1.
//! The buffer of that halo is then free for iteration k + 1. By MPI, the program posts receives, sends edges, and waits for all of them.
//!
//! ```text
//! cargo amrun -n 4 --example stencil
//! cargo amrun -n 4 --example stencil -- --by put --size 2000 --iterations 50
//! ```
//!
//! You should see a line for each way with its speed, and as the last line `verified`.
//!
//! Follows `ParRes/Kernels`, `MPI1/Stencil` (Van der Wijngaart and Mattson, "The Parallel Research Kernels", HPEC 2014): radius 2, double
//! precision, a square grid cut into tiles. The input at (i, j) is COEFX * i + COEFY * j, and grows by 1 in each iteration, so that stale
//! halos would be noticed. The operator is a discrete divergence with the weights 1 / (2 * k * radius) at distance k, so that each
//! iteration adds COEFX + COEFY to every inner point: the mean of the inner points is known exactly. The first iteration warms up and is
//! not timed.

use std::process::ExitCode;
use std::time::Instant;

use am_core::buffer::{Access, Exposed, RemoteAddress};
use am_core::counter::Counter;
use am_core::task::TaskId;
use am_core::{Context, PutOptions};
use am_examples::failure::agree;
use am_examples::{Failure, arguments};
use am_via::{ShmFabric, Task};
use clap::{Parser, ValueEnum};
use mpi_over_am::{Communicator, Environment, Settings, op};

/// The star stencil of the Parallel Research Kernels, its halo exchanged by puts with target counters and by MPI.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// How the halo is exchanged.
    #[arg(long, value_enum, default_value_t = By::Both)]
    by: By,
    /// Points along one side of the grid.
    #[arg(long, default_value_t = 1000)]
    size: usize,
    /// Iterations that are timed.
    #[arg(long, default_value_t = 100)]
    iterations: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// By put and target counters.
    Put,
    /// By MPI.
    Mpi,
    /// Both, one after the other.
    Both,
}

const PROGRAM: &str = "stencil";
const RADIUS: usize = 2;
const COEFX: f64 = 1.0;
const COEFY: f64 = 1.0;
/// Maximum rounding error of the mean.
const EPSILON: f64 = 1e-8;
/// Points of the star.
const STAR_POINTS: usize = 4 * RADIUS + 1;

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    let mut context = task.context()?;
    let tile = Tile::of(task.number() as usize, context.num_tasks() as usize, arguments.size);
    let tile = agree(&mut context, PROGRAM, tile)?;
    let is_first = task.number() == 0;
    if is_first {
        let (size, [across, down]) = (arguments.size, tile.tiles);
        println!("grid: {size} x {size}, tiles: {across} x {down}, iterations: {}", arguments.iterations);
    }
    if arguments.by != By::Mpi {
        let mut halo = PutHalo::new(&mut context, &tile)?;
        let outcome = iterate(&tile, arguments.iterations, &mut halo)?;
        report(is_first, "put", arguments, outcome)?;
        halo.close()?;
    }
    if arguments.by != By::Put {
        // MPI uses the second context of this task; the program uses the first.
        let environment = Environment::with_fabric(task.fabric(1)?, &Settings::default())?;
        let mut halo = MpiHalo::new(environment.world(), &tile);
        let outcome = iterate(&tile, arguments.iterations, &mut halo)?;
        report(is_first, "mpi", arguments, outcome)?;
        environment.finalize()?;
    }
    if is_first {
        println!("verified");
    }
    Ok(())
}

/// The results, the same in all tasks.
struct Outcome {
    /// The mean of the output over all inner points.
    norm: f64,
    /// Time of all timed iterations in the slowest task.
    seconds: f64,
}

/// Prints the result. Fails in all tasks if the norm, which is the same in all tasks, is wrong.
fn report(is_first: bool, by: &str, arguments: &Arguments, outcome: Outcome) -> Result<(), Failure> {
    let expected = f64::from(arguments.iterations + 1) * (COEFX + COEFY);
    if (outcome.norm - expected).abs() > EPSILON {
        let norm = outcome.norm;
        // Only the first task prints the error.
        return Err(match is_first {
            true => Failure::Wrong(format!("by {by}, the norm is {norm}, not {expected}")),
            false => Failure::Elsewhere { exit_code: 1 },
        });
    }
    if is_first {
        let inner = (arguments.size - 2 * RADIUS) as f64;
        let flops = (2 * STAR_POINTS + 1) as f64 * inner * inner;
        let average = outcome.seconds / f64::from(arguments.iterations);
        println!("by {by}: {:.1} MFlops/s, {average:.6} s an iteration", flops / average / 1e6);
    }
    Ok(())
}

/// Runs the kernel: an iteration to warm up, and those that are timed.
fn iterate(tile: &Tile, iterations: u32, halo: &mut impl Halo) -> Result<Outcome, Failure> {
    let mut grid = Grid::new(tile);
    let mut started = Instant::now();
    for iteration in 0..=iterations {
        if iteration == 1 {
            halo.barrier()?;
            started = Instant::now();
        }
        halo.exchange(&mut grid)?;
        grid.apply();
        grid.add_one();
    }
    let seconds = started.elapsed().as_secs_f64();
    let (sum, seconds) = halo.reduce(grid.norm(), seconds)?;
    let inner = (tile.size - 2 * RADIUS) as f64;
    Ok(Outcome { norm: sum / (inner * inner), seconds })
}

/// The sides of a tile, in an order in which opposite sides differ in the last bit.
const SIDES: [Side; 4] = [Side::Left, Side::Right, Side::Top, Side::Bottom];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left = 0,
    Right = 1,
    Top = 2,
    Bottom = 3,
}

impl Side {
    fn opposite(self) -> Self {
        SIDES[self as usize ^ 1]
    }
}

/// The part of the grid that a task has.
struct Tile {
    /// Points along one side of the whole grid.
    size: usize,
    /// Tiles across and down.
    tiles: [usize; 2],
    /// The first column and row.
    start: [usize; 2],
    /// Columns and rows.
    len: [usize; 2],
    /// The neighbour on each side.
    neighbours: [Option<u32>; 4],
}

impl Tile {
    /// The tile of a task. The tiles are as square as the number of tasks allows, which keeps the halo small.
    fn of(task: usize, tasks: usize, size: usize) -> Result<Self, Failure> {
        let across = (1..=tasks).take_while(|n| n * n <= tasks).filter(|n| tasks.is_multiple_of(*n)).last();
        let across = across.unwrap_or(1);
        let down = tasks / across;
        if size / down < RADIUS || size <= 2 * RADIUS {
            let least = (down * RADIUS).max(2 * RADIUS + 1);
            return Err(Failure::Input(format!(
                "a grid of {size} x {size} is too small for {across} x {down} tiles and a stencil of radius {RADIUS}: ask for --size {least} or more, or start fewer tasks"
            )));
        }
        let (column, row) = (task % across, task / across);
        let (x, width) = share(size, across, column);
        let (y, height) = share(size, down, row);
        let neighbour = |there: bool, task: usize| there.then_some(u32::try_from(task).ok()).flatten();
        let neighbours = [
            neighbour(column > 0, task.wrapping_sub(1)),
            neighbour(column + 1 < across, task + 1),
            neighbour(row > 0, task.wrapping_sub(across)),
            neighbour(row + 1 < down, task + across),
        ];
        Ok(Self { size, tiles: [across, down], start: [x, y], len: [width, height], neighbours })
    }

    /// Number of points of the halo on one side.
    fn halo_points(&self, side: Side) -> usize {
        RADIUS
            * match side {
                Side::Left | Side::Right => self.len[1],
                Side::Top | Side::Bottom => self.len[0],
            }
    }

    /// The sides that have a neighbour, with the neighbour's task.
    fn neighbours(&self) -> impl Iterator<Item = (Side, u32)> {
        SIDES.into_iter().filter_map(|side| Some((side, self.neighbours[side as usize]?)))
    }
}

/// Start and length of share `number`, if `size` points are cut into `of` shares. The first shares take the remainder.
fn share(size: usize, of: usize, number: usize) -> (usize, usize) {
    let (each, left) = (size / of, size % of);
    (number * each + number.min(left), each + usize::from(number < left))
}

/// Input with its halo, and output.
struct Grid<'a> {
    tile: &'a Tile,
    input: Vec<f64>,
    output: Vec<f64>,
}

/// A rectangle of the input, counted from the halo's corner.
#[derive(Clone, Copy)]
struct Area {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

impl<'a> Grid<'a> {
    fn new(tile: &'a Tile) -> Self {
        let [width, height] = tile.len;
        let mut grid = Self {
            tile,
            input: vec![0.0; (width + 2 * RADIUS) * (height + 2 * RADIUS)],
            output: vec![0.0; width * height],
        };
        let stride = grid.stride();
        for y in 0..height {
            for x in 0..width {
                let (i, j) = (tile.start[0] + x, tile.start[1] + y);
                grid.input[(y + RADIUS) * stride + x + RADIUS] = COEFX * i as f64 + COEFY * j as f64;
            }
        }
        grid
    }

    fn stride(&self) -> usize {
        self.tile.len[0] + 2 * RADIUS
    }

    /// The points next to a side: inside the tile (what the neighbour needs), or outside (the halo).
    fn strip(&self, side: Side, inside: bool) -> Area {
        let [width, height] = self.tile.len;
        let (r, inner) = (RADIUS, usize::from(inside) * RADIUS);
        match side {
            Side::Left => Area { x: inner, y: r, width: r, height },
            Side::Right => Area { x: r + width - inner, y: r, width: r, height },
            Side::Top => Area { x: r, y: inner, width, height: r },
            Side::Bottom => Area { x: r, y: r + height - inner, width, height: r },
        }
    }

    /// Copies the edge at `side` for the neighbour there.
    fn read_edge(&self, side: Side, to: &mut [f64]) {
        let Area { x, y, width, height } = self.strip(side, true);
        for (row, to) in (y..y + height).zip(to.chunks_exact_mut(width)) {
            let at = row * self.stride() + x;
            to.copy_from_slice(&self.input[at..at + width]);
        }
    }

    /// Puts the neighbour's edge into the halo at `side`.
    fn write_halo(&mut self, side: Side, from: &[f64]) {
        let (Area { x, y, width, height }, stride) = (self.strip(side, false), self.stride());
        for (row, from) in (y..y + height).zip(from.chunks_exact(width)) {
            let at = row * stride + x;
            self.input[at..at + width].copy_from_slice(from);
        }
    }

    /// Adds the operator's result to the output at every point of the tile that is an inner point of the whole grid.
    fn apply(&mut self) {
        let (stride, [width, height]) = (self.stride(), self.tile.len);
        let (columns, rows) = (self.inner(0), self.inner(1));
        let weight: [f64; RADIUS] = std::array::from_fn(|k| 1.0 / (2.0 * (k + 1) as f64 * RADIUS as f64));
        let input = &self.input;
        for y in rows.clone().filter(|y| *y < height) {
            // A row of the input, shifted down and to the right. It is as long as a row of the output, so the compiler can merge the bounds
            // checks of the loop over the points.
            let row = |down: usize, right: usize| {
                let at = (y + down) * stride + right;
                &input[at..at + width]
            };
            let output = &mut self.output[y * width..(y + 1) * width];
            for (k, weight) in (1..).zip(weight) {
                let (left, right) = (row(RADIUS, RADIUS - k), row(RADIUS, RADIUS + k));
                let (above, below) = (row(RADIUS - k, RADIUS), row(RADIUS + k, RADIUS));
                for x in columns.clone() {
                    output[x] += weight * (right[x] - left[x] + below[x] - above[x]);
                }
            }
        }
    }

    /// The columns (`axis` 0) or rows (`axis` 1) of the tile for whose points the whole star is inside the grid.
    fn inner(&self, axis: usize) -> std::ops::Range<usize> {
        let (start, len) = (self.tile.start[axis], self.tile.len[axis]);
        let last = (self.tile.size - RADIUS).saturating_sub(start).min(len);
        RADIUS.saturating_sub(start).min(last)..last
    }

    /// Adds 1 to each point of the input, so that the next iteration needs new halos.
    fn add_one(&mut self) {
        let (stride, [width, height]) = (self.stride(), self.tile.len);
        for y in RADIUS..RADIUS + height {
            self.input[y * stride + RADIUS..][..width].iter_mut().for_each(|value| *value += 1.0);
        }
    }

    /// The sum of the absolute values at the inner points.
    fn norm(&self) -> f64 {
        let (columns, width) = (self.inner(0), self.tile.len[0]);
        let rows = self.inner(1).map(|y| &self.output[y * width..][columns.clone()]);
        rows.flatten().map(|value| value.abs()).sum()
    }
}

/// Exchanges edges with neighbours, and combines results.
trait Halo {
    /// Fills the halo with the neighbours' edges.
    fn exchange(&mut self, grid: &mut Grid<'_>) -> Result<(), Failure>;

    fn barrier(&mut self) -> Result<(), Failure>;

    /// The sum of all norms, and the longest time.
    fn reduce(&mut self, norm: f64, seconds: f64) -> Result<(f64, f64), Failure>;
}

/// By put and target counters.
struct PutHalo<'a> {
    context: &'a mut Context<ShmFabric>,
    ways: Vec<PutWay>,
    round: u64,
    bytes: Vec<u8>,
    points: Vec<f64>,
}

/// Messages to and from one neighbour.
struct PutWay {
    side: Side,
    points: usize,
    /// Where the neighbour writes: two halos, used in turn.
    own: Exposed,
    /// Counts the halos that have arrived in `own`.
    arrived: Counter,
    /// The neighbour's buffers for this task's edges.
    theirs: RemoteAddress,
    their_counter: Counter,
}

const POINT_BYTES: usize = size_of::<f64>();

impl<'a> PutHalo<'a> {
    fn new(context: &'a mut Context<ShmFabric>, tile: &Tile) -> Result<Self, Failure> {
        // Every task makes its counters in the same order, so the counters have the same names in all tasks.
        let mut counters = Vec::new();
        let mut regions = Vec::new();
        for side in SIDES {
            counters.push(context.counter()?);
            let buffer = context.alloc(2 * tile.halo_points(side) * POINT_BYTES)?;
            regions.push(context.expose(buffer, Access::WRITE)?);
        }
        let mut addresses = Vec::new();
        for region in &regions {
            addresses.push(context.address_init(region.address(0))?);
        }
        let mut ways = Vec::new();
        for (own, side) in regions.into_iter().zip(SIDES) {
            let Some(neighbour) = tile.neighbours[side as usize] else { continue };
            // This task is the left neighbour of its right neighbour, and so on.
            let there = side.opposite() as usize;
            ways.push(PutWay {
                side,
                points: tile.halo_points(side),
                own,
                arrived: counters[side as usize],
                theirs: addresses[there][TaskId(neighbour).index()],
                their_counter: counters[there],
            });
        }
        Ok(Self { context, ways, round: 0, bytes: Vec::new(), points: Vec::new() })
    }

    /// Ends the exposure after all tasks have written.
    fn close(self) -> Result<(), Failure> {
        self.context.gfence()?;
        for way in self.ways {
            self.context.unexpose(way.own)?;
        }
        Ok(())
    }
}

impl Halo for PutHalo<'_> {
    fn exchange(&mut self, grid: &mut Grid<'_>) -> Result<(), Failure> {
        let turn = self.round % 2;
        for way in &self.ways {
            self.points.resize(way.points, 0.0);
            grid.read_edge(way.side, &mut self.points);
            let to = way.theirs.plus(turn * (way.points * POINT_BYTES) as u64);
            let options = PutOptions { target: Some(way.their_counter.name()), ..PutOptions::default() };
            self.context.put(to, bytemuck::cast_slice(&self.points), options)?;
        }
        for way in &self.ways {
            self.context.wait_counter(way.arrived, 1)?;
            self.bytes.resize(way.points * POINT_BYTES, 0);
            way.own.read(turn * (way.points * POINT_BYTES) as u64, &mut self.bytes)?;
            self.points.clear();
            self.points.extend(self.bytes.as_chunks().0.iter().map(|bytes| f64::from_ne_bytes(*bytes)));
            grid.write_halo(way.side, &self.points);
        }
        self.round += 1;
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), Failure> {
        Ok(self.context.gfence()?)
    }

    fn reduce(&mut self, norm: f64, seconds: f64) -> Result<(f64, f64), Failure> {
        let all = self.context.exchange(bytemuck::cast_slice(&[norm, seconds]))?;
        let mut result = (0.0, 0.0_f64);
        for bytes in &all {
            if let [norm, seconds] = bytes.as_chunks().0 {
                result.0 += f64::from_ne_bytes(*norm);
                result.1 = result.1.max(f64::from_ne_bytes(*seconds));
            }
        }
        Ok(result)
    }
}

/// By MPI.
struct MpiHalo {
    world: Communicator,
    ways: Vec<MpiWay>,
}

/// Messages to and from one neighbour.
struct MpiWay {
    side: Side,
    neighbour: u32,
    edge: Vec<f64>,
    halo: Vec<f64>,
}

impl MpiHalo {
    fn new(world: Communicator, tile: &Tile) -> Self {
        let way = |(side, neighbour)| {
            let points = vec![0.0; tile.halo_points(side)];
            MpiWay { side, neighbour, edge: points.clone(), halo: points }
        };
        Self { world, ways: tile.neighbours().map(way).collect() }
    }
}

impl Halo for MpiHalo {
    fn exchange(&mut self, grid: &mut Grid<'_>) -> Result<(), Failure> {
        for way in &mut self.ways {
            grid.read_edge(way.side, &mut way.edge);
        }
        self.world.scope(|scope| {
            let mut requests = Vec::with_capacity(2 * self.ways.len());
            for MpiWay { side, neighbour, edge, halo } in &mut self.ways {
                // The tag of a message is the receiver's side.
                requests.push(scope.irecv(halo, *neighbour, *side as i32)?);
                requests.push(scope.isend(edge, *neighbour, side.opposite() as i32)?);
            }
            scope.wait_all(requests)
        })?;
        for way in &self.ways {
            grid.write_halo(way.side, &way.halo);
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), Failure> {
        Ok(self.world.barrier()?)
    }

    fn reduce(&mut self, norm: f64, seconds: f64) -> Result<(f64, f64), Failure> {
        let (mut sum, mut longest) = ([0.0], [0.0]);
        self.world.allreduce(&[norm], &mut sum, op::Sum)?;
        self.world.allreduce(&[seconds], &mut longest, op::Max)?;
        Ok((sum[0], longest[0]))
    }
}
