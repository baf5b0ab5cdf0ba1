! Messages by the module mpi: blocking and non-blocking; statuses; waits for some of several requests, whose indices count from 1; and
! characters.
program f_point
  use mpi
  implicit none
  integer :: rank, tasks, next, before, ierr, count, place, found, many, i, code
  integer :: requests(4), indices(4), statuses(MPI_STATUS_SIZE, 4), status(MPI_STATUS_SIZE), values(4), incoming(4)
  double precision :: sent(10), received(10), begun
  character(len=20) :: text
  logical :: flag

  call MPI_Init(ierr)
  call need(ierr == MPI_SUCCESS, 1)
  begun = MPI_Wtime()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, tasks, ierr)
  next = mod(rank + 1, tasks)
  before = mod(rank + tasks - 1, tasks)

  sent = [(dble(rank) + i / 16d0, i = 1, 10)]
  call MPI_Sendrecv(sent, 10, MPI_DOUBLE_PRECISION, next, 7, received, 10, MPI_DOUBLE_PRECISION, before, 7, &
    MPI_COMM_WORLD, status, ierr)
  call need(all(received == [(dble(before) + i / 16d0, i = 1, 10)]), 2)
  call need(status(MPI_SOURCE) == before .and. status(MPI_TAG) == 7, 3)
  call MPI_Get_count(status, MPI_DOUBLE_PRECISION, count, ierr)
  call need(count == 10, 4)

  ! The same routine takes a scalar, a character and an array.
  text = 'from ' // char(iachar('a') + rank)
  call MPI_Isend(text, len(text), MPI_CHARACTER, next, 8, MPI_COMM_WORLD, requests(1), ierr)
  text = ' '
  call MPI_Probe(before, 8, MPI_COMM_WORLD, status, ierr)
  call MPI_Recv(text, len(text), MPI_CHARACTER, before, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
  call need(requests(1) == MPI_REQUEST_NULL, 5)

  ! Requests that complete in any order: their indices count from 1.
  do i = 1, 4
    call MPI_Irecv(incoming(i), 1, MPI_INTEGER, before, 10 + i, MPI_COMM_WORLD, requests(i), ierr)
  end do
  values = [(100 * rank + i, i = 1, 4)]
  call MPI_Send(values(3), 1, MPI_INTEGER, next, 13, MPI_COMM_WORLD, ierr)
  call MPI_Waitany(4, requests, place, status, ierr)
  call need(place == 3 .and. incoming(3) == 100 * before + 3 .and. status(MPI_TAG) == 13, 6)
  call MPI_Testany(4, requests, place, flag, status, ierr)
  call need(.not. flag .and. place == MPI_UNDEFINED, 7)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  do i = 1, 4
    if (i /= 3) call MPI_Send(values(i), 1, MPI_INTEGER, next, 10 + i, MPI_COMM_WORLD, ierr)
  end do
  found = 0
  do while (found < 3)
    call MPI_Waitsome(4, requests, many, indices, statuses, ierr)
    do i = 1, many
      call need(statuses(MPI_TAG, i) == 10 + indices(i), 8)
      call need(incoming(indices(i)) == 100 * before + indices(i), 9)
    end do
    found = found + many
  end do
  call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierr)
  call MPI_Waitany(4, requests, place, MPI_STATUS_IGNORE, ierr)
  call need(place == MPI_UNDEFINED, 10)

  ! Persistent requests, and a null process.
  call MPI_Send_init(values, 4, MPI_INTEGER, next, 20, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Recv_init(incoming, 4, MPI_INTEGER, before, 20, MPI_COMM_WORLD, requests(2), ierr)
  call MPI_Startall(2, requests, ierr)
  call MPI_Waitall(2, requests, statuses, ierr)
  call need(all(incoming == [(100 * before + i, i = 1, 4)]), 11)
  call MPI_Request_free(requests(1), ierr)
  call MPI_Request_free(requests(2), ierr)
  call MPI_Recv(incoming, 4, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, status, ierr)
  call need(status(MPI_SOURCE) == MPI_PROC_NULL, 12)

  ! A wait that fails changes no index, or returns that of the operation that has failed.
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierr)
  call MPI_Irecv(incoming, 1, MPI_INTEGER, 0, 30, MPI_COMM_SELF, requests(1), ierr)
  call MPI_Send(values, 2, MPI_INTEGER, 0, 30, MPI_COMM_SELF, ierr)
  call MPI_Waitany(1, requests, place, MPI_STATUS_IGNORE, ierr)
  call MPI_Error_class(ierr, i, code)
  call need(i == MPI_ERR_TRUNCATE .and. place == 1, 14)
  requests(1) = 12345
  indices = 5
  many = 4
  call MPI_Waitsome(1, requests, many, indices, MPI_STATUSES_IGNORE, ierr)
  call need(ierr /= MPI_SUCCESS .and. all(indices == 5), 15)

  call need(MPI_Wtime() >= begun .and. MPI_Wtick() > 0, 13)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a)', 'all good'
  call MPI_Finalize(ierr)
contains
  subroutine need(holds, number)
    logical, intent(in) :: holds
    integer, intent(in) :: number
    integer :: code
    if (.not. holds) then
      print *, 'check', number, 'fails'
      call MPI_Abort(MPI_COMM_WORLD, number, code)
    end if
  end subroutine
end program
