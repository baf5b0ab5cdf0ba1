//! A program cannot take other views of memory that an operation uses.
#![forbid(unsafe_code)]

fn wrong(data: &mpi_over_am::SendData, room: &mpi_over_am::RecvData) {
    let _ = (data.part(1000, 5), room.part(1000, 5), room.as_send(), data.copy_to(room));
}

fn main() {
    let _ = wrong;
}
