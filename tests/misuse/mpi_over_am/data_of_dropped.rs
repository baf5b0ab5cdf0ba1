//! A message cannot be received into a buffer that has been dropped.
use am_core::buffer::{JobBuffer, Owned};
use mpi_over_am::{Environment, RecvData};

fn main() {
    let environment = Environment::init().unwrap();
    let buffer = JobBuffer::zeroed(64);
    let data = RecvData::from_buffer(buffer.raw_of_owned().unwrap());
    drop(buffer);
    environment.world().irecv_data(&data, 0, 0).unwrap();
}
