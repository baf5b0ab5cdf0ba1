//! A scope waits only for its own requests: a request of an outer scope cannot be waited for in an inner one.
#![forbid(unsafe_code)]

fn wrong(world: &mpi_over_am::Communicator) -> mpi_over_am::Result<()> {
    let mut bytes = [0u8; 8];
    world.scope(|outer| {
        let arriving = outer.irecv(&mut bytes, 0, 0)?;
        world.scope(|inner| inner.wait(arriving).map(|_| ()))
    })
}

fn main() {
    let _ = wrong;
}
