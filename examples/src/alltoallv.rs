//! Lists from each task to each task, by MPI.

use mpi_over_am::{Communicator, Equivalence, Placement};

use crate::Failure;

/// Collective: sends the list `send[task]` to each task, and stores the list from each task in `receive[task]`.
///
/// # Errors
/// An error of MPI.
pub fn alltoallv<T: Equivalence + Clone + Default>(
    world: &Communicator,
    send: &[Vec<T>],
    receive: &mut [Vec<T>],
) -> Result<(), Failure> {
    let going: Vec<usize> = send.iter().map(Vec::len).collect();
    let mut coming = vec![0; going.len()];
    world.alltoall(&going, &mut coming)?;
    let mut all = vec![T::default(); coming.iter().sum()];
    let from = Placement { counts: &going, displacements: &displacements(&going) };
    let to = Placement { counts: &coming, displacements: &displacements(&coming) };
    world.alltoallv((&send.concat(), from), (&mut all, to))?;
    for ((list, count), start) in receive.iter_mut().zip(&coming).zip(displacements(&coming)) {
        list.clear();
        list.extend_from_slice(&all[start..start + count]);
    }
    Ok(())
}

/// Offsets of lists of these lengths, stored one after the other.
fn displacements(counts: &[usize]) -> Vec<usize> {
    counts.iter().scan(0, |next, count| Some(std::mem::replace(next, *next + count))).collect()
}
