//! A scope of threads waits only for its own requests.
#![forbid(unsafe_code)]

fn wrong(world: &mpi_over_am::Communicator<mpi_over_am::JobFabric, mpi_over_am::Threads>) -> mpi_over_am::Result<()> {
    let mut bytes = [0u8; 8];
    world.scope(|outer| {
        let mut open = vec![outer.irecv(&mut bytes, 0, 0)?];
        world.scope(|inner| inner.wait_any(&mut open).map(|_| ()))
    })
}

fn main() {
    let _ = wrong;
}
