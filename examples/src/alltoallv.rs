//! Everybody's lists for everybody, by MPI.

use bytemuck::Pod;
use mpi_over_am::Communicator;

use crate::Failure;

const COUNT_TAG: i32 = 1;
const DATA_TAG: i32 = 2;

/// Collective: `send[task]` goes to each task; what each task had for this one comes into `receive[task]`.
///
/// # Errors
/// What MPI reports.
pub fn alltoallv<T: Pod>(
    world: &Communicator,
    send: &[Vec<T>],
    receive: &mut [Vec<T>],
) -> Result<(), Failure> {
    let own = world.rank() as usize;
    let others = |rank: &usize| *rank != own;
    let counts: Vec<[u64; 1]> = send.iter().map(|list| [list.len() as u64]).collect();
    let mut coming = vec![[0_u64; 1]; send.len()];
    world.scope(|scope| {
        let mut requests = Vec::with_capacity(2 * counts.len());
        for ((rank, coming), count) in (0_u32..).zip(&mut coming).zip(&counts) {
            if others(&(rank as usize)) {
                requests.push(scope.irecv(coming, rank, COUNT_TAG)?);
                requests.push(scope.isend(count, rank, COUNT_TAG)?);
            }
        }
        scope.wait_all(requests)
    })?;
    for ((list, count), rank) in receive.iter_mut().zip(&coming).zip(0..) {
        if others(&rank) {
            list.resize(usize::try_from(count[0]).unwrap_or(usize::MAX), T::zeroed());
        } else {
            list.clear();
            list.extend_from_slice(&send[own]);
        }
    }
    world.scope(|scope| {
        let mut requests = Vec::with_capacity(2 * send.len());
        for ((rank, coming), going) in (0_u32..).zip(receive).zip(send) {
            if others(&(rank as usize)) {
                requests.push(scope.irecv(coming, rank, DATA_TAG)?);
                requests.push(scope.isend(going, rank, DATA_TAG)?);
            }
        }
        scope.wait_all(requests)
    })?;
    Ok(())
}
