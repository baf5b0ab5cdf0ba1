! The program t_profiled.c in Fortran: a tool that intercepts the C functions sees these calls, too.
program t_profiled
  use mpi
  implicit none
  integer :: rank, tasks, number, i, ierr
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, tasks, ierr)
  do i = 1, 3
    if (mod(rank, 2) == 0) call MPI_Send(rank, 1, MPI_INTEGER, mod(rank + 1, tasks), i, MPI_COMM_WORLD, ierr)
    call MPI_Recv(number, 1, MPI_INTEGER, mod(rank + tasks - 1, tasks), i, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    if (mod(rank, 2) /= 0) call MPI_Send(rank, 1, MPI_INTEGER, mod(rank + 1, tasks), i, MPI_COMM_WORLD, ierr)
    call PMPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  call MPI_Finalize(ierr)
end program
