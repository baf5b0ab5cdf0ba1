//! Lent memory, which a detach returns, is not accessible: its lender may use it again.
use mpi_over_am::SendBuffer;

fn write(detached: SendBuffer) {
    if let SendBuffer::Lent(memory) = detached {
        memory.fill_from(&[7; 8]);
    }
}

fn main() {
    write(SendBuffer::Automatic);
}
