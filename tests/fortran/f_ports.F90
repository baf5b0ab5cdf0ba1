! Ports and published names: texts in both directions, and two tasks that connect. By the module mpi, or with BY_MPI_F08 by mpi_f08.
program f_ports
#ifdef BY_MPI_F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer :: rank, tasks, ierr, code, class, mine, theirs
#ifdef BY_MPI_F08
  type(MPI_Comm) :: inter
#else
  integer :: inter
#endif
  character(len=MPI_MAX_PORT_NAME) :: port, found

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, tasks, ierr)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierr)
  if (rank == 0) then
    call MPI_Open_port(MPI_INFO_NULL, port, ierr)
    call check(ierr == MPI_SUCCESS .and. port(1:8) == 'am-port:' .and. port(MPI_MAX_PORT_NAME:) == ' ', 1)
    call MPI_Publish_name('ocean  ', MPI_INFO_NULL, port, ierr)
    call check(ierr == MPI_SUCCESS, 2)
  end if
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  found = 'x'
  call MPI_Lookup_name('ocean', MPI_INFO_NULL, found, ierr)
  call check(ierr == MPI_SUCCESS .and. (rank /= 0 .or. found == port), 3)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (tasks > 1 .and. rank < 2) then
    if (rank == 0) call MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, inter, ierr)
    if (rank == 1) call MPI_Comm_connect(found, MPI_INFO_NULL, 0, MPI_COMM_SELF, inter, ierr)
    call check(ierr == MPI_SUCCESS, 4)
    mine = rank + 5
    call MPI_Sendrecv(mine, 1, MPI_INTEGER, 0, 2, theirs, 1, MPI_INTEGER, 0, 2, inter, MPI_STATUS_IGNORE, ierr)
    call check(theirs == 6 - rank, 5)
    call MPI_Comm_disconnect(inter, ierr)
  end if
  if (rank == 0) then
    call MPI_Unpublish_name('ocean', MPI_INFO_NULL, port, ierr)
    call check(ierr == MPI_SUCCESS, 6)
    call MPI_Close_port(port, ierr)
    call check(ierr == MPI_SUCCESS, 7)
    call MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, inter, code)
    call MPI_Error_class(code, class, ierr)
    call check(class == MPI_ERR_PORT, 8)
    call MPI_Lookup_name('ocean', MPI_INFO_NULL, found, code)
    call MPI_Error_class(code, class, ierr)
    call check(class == MPI_ERR_NAME, 9)
  end if
  call MPI_Comm_join(-1, inter, code)
  call MPI_Error_class(code, class, ierr)
  call check(class == MPI_ERR_ARG, 10)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a)', 'all good'
  call MPI_Finalize(ierr)

contains

  subroutine check(good, number)
    logical, intent(in) :: good
    integer, intent(in) :: number
    if (good) return
    print '(a, i0)', 'wrong: ', number
    call MPI_Abort(MPI_COMM_WORLD, number, ierr)
  end subroutine
end program
