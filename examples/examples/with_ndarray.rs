//! Heat in a square plate, as arrays of the crate `ndarray` whose rows belong to the tasks.
//!
//! What it teaches: rows of an array are sent and received as slices, without a copy; a column is sent as a `View`; a whole array is
//! reduced.
//!
//! ```text
//! cargo amrun -n 4 --example with_ndarray --features other-crates
//! ```
//!
//! You should see the heat in the middle column, the total of the plate, and `verified` as the last line. For this check, each task
//! computes the whole plate alone, and compares its own rows with that result.

#![expect(clippy::reversed_empty_ranges, reason = "for ndarray, a negative index counts from the end")]

use std::process::ExitCode;

use am_examples::Failure;
use am_examples::failure::exit_code;
use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::{Environment, View, op};
use ndarray::{Array1, Array2, ArrayViewMut1, Axis, s};

/// Points of an edge of the plate.
const POINTS: usize = 64;
const STEPS: usize = 100;

fn main() -> ExitCode {
    exit_code("with_ndarray", &warm())
}

fn warm() -> Result<(), Failure> {
    let environment = Environment::init()?;
    let world = environment.world();
    let (rank, size) = (world.rank(), world.size());
    // This task's rows, with a row of each neighbour above and below them.
    let first_row = |rank: u32| 1 + rank as usize * (POINTS - 2) / size as usize;
    let (from, to) = (first_row(rank), first_row(rank + 1));
    let mut plate = beginning().slice(s![from - 1..=to, ..]).to_owned();
    // The rows at the edges of the plate do not change: the first rank has no rank above it, and the last one has none below.
    let (above, below) = (rank.checked_sub(1), Some(rank + 1).filter(|&next| next < size));
    for _ in 0..STEPS {
        let last = to - from;
        let (mut out, mut into) = plate.multi_slice_mut((s![1, ..], s![last + 1, ..]));
        world.sendrecv(row(&mut out), above, 0, row(&mut into), below, 0)?;
        let (mut out, mut into) = plate.multi_slice_mut((s![last, ..], s![0, ..]));
        world.sendrecv(row(&mut out), below, 1, row(&mut into), above, 1)?;
        plate = step(&plate);
    }

    // The middle column of this task's rows, whose points are `POINTS` elements apart in memory.
    let own = plate.slice(s![1..=to - from, ..]);
    let column =
        Datatype::vector((to - from) as u64, 1, POINTS as i64, &Datatype::predefined(Predefined::Double))?;
    let points = own.to_slice().expect("the rows of a standard layout are contiguous");
    let column = View::new(&points[POINTS / 2..], 1, &column)?;
    if rank == 0 {
        let mut middle = Array1::<f64>::zeros(POINTS);
        for source in 0..size {
            let mut into = middle.slice_mut(s![first_row(source)..first_row(source + 1)]);
            if source == 0 {
                world.sendrecv(&column, 0, 2, row(&mut into), 0, 2)?;
            } else {
                world.recv(row(&mut into), source, 2)?;
            }
        }
        println!("heat in the middle column: {:.2} at row 1, {:.4} at row 8", middle[1], middle[8]);
    } else {
        world.send(&column, 0, 2)?;
    }

    // The sums of the columns, over the rows of all tasks.
    let mut sums = own.sum_axis(Axis(0));
    world.allreduce_in_place(row(&mut sums.view_mut()), op::Sum)?;

    let whole = (0..STEPS).fold(beginning(), |plate, _| step(&plate));
    if own != whole.slice(s![from..to, ..]) {
        return Err(Failure::Wrong(format!(
            "rows {from} to {} differ from those of the whole plate",
            to - 1
        )));
    }
    if rank == 0 {
        println!("heat of the whole plate: {:.4}", sums.sum());
        println!("verified");
    }
    Ok(environment.finalize()?)
}

/// The elements of a row, as the slice that MPI sends or receives.
fn row<'a>(row: &'a mut ArrayViewMut1<'_, f64>) -> &'a mut [f64] {
    row.as_slice_mut().expect("the elements of a row are contiguous")
}

/// A cold plate whose upper edge is hot.
fn beginning() -> Array2<f64> {
    let mut plate = Array2::zeros((POINTS, POINTS));
    plate.row_mut(0).fill(100.0);
    plate
}

/// Each inner point becomes the mean of its four neighbours.
fn step(plate: &Array2<f64>) -> Array2<f64> {
    let mut next = plate.clone();
    let mean = (&plate.slice(s![..-2, 1..-1])
        + &plate.slice(s![2.., 1..-1])
        + plate.slice(s![1..-1, ..-2])
        + plate.slice(s![1..-1, 2..]))
        / 4.0;
    next.slice_mut(s![1..-1, 1..-1]).assign(&mean);
    next
}
