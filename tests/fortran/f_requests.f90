! Generalized requests (MPI 5.0 section 13.2): the program's functions get the program's own variable as their extra state, and may change
! it. The extra state of a key is a value.
module callbacks
  use mpi
  implicit none
  integer :: queries = 0
contains
  subroutine query(state, status, ierror)
    integer(MPI_ADDRESS_KIND) :: state
    integer :: status(MPI_STATUS_SIZE), ierror
    queries = queries + 1
    state = state + 1
    call MPI_Status_set_elements(status, MPI_INTEGER, 5, ierror)
    call MPI_Status_set_cancelled(status, .false., ierror)
    status(MPI_SOURCE) = 3
    status(MPI_TAG) = 4
    ierror = MPI_SUCCESS
  end subroutine
  subroutine release(state, ierror)
    integer(MPI_ADDRESS_KIND) :: state
    integer :: ierror
    state = state + 10
    ierror = MPI_SUCCESS
  end subroutine
  subroutine cancel(state, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: state
    logical :: complete
    integer :: ierror
    state = state + 100
    if (complete) state = state + 1000
    ierror = MPI_SUCCESS
  end subroutine
  subroutine copy(comm, keyval, state, from, to, flag, ierror)
    integer :: comm, keyval, ierror
    integer(MPI_ADDRESS_KIND) :: state, from, to
    logical :: flag
    to = from + state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine
  subroutine delete(comm, keyval, value, state, ierror)
    integer :: comm, keyval, ierror
    integer(MPI_ADDRESS_KIND) :: value, state
    ierror = MPI_SUCCESS
  end subroutine
end module

program requests
  use mpi
  use callbacks
  implicit none
  integer :: ierror, request, rank, count, keyval, other, round, small
  integer :: status(MPI_STATUS_SIZE)
  integer(MPI_ADDRESS_KIND) :: state, value
  logical :: flag
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)

  state = 0
  call MPI_Grequest_start(query, release, cancel, state, request, ierror)
  call MPI_Cancel(request, ierror)
  if (state /= 100) call fail('the cancel function')
  call MPI_Grequest_complete(request, ierror)
  call MPI_Cancel(request, ierror)
  if (state /= 1200) call fail('the cancel function of a complete operation')
  call MPI_Wait(request, status, ierror)
  if (state /= 1211 .or. queries /= 1) call fail('the query and free functions')
  call MPI_Get_count(status, MPI_INTEGER, count, ierror)
  if (count /= 5 .or. status(MPI_SOURCE) /= 3 .or. status(MPI_TAG) /= 4) call fail('the status')

  ! Freed before it is complete: only the free function runs.
  state = 0
  call MPI_Grequest_start(query, release, cancel, state, request, ierror)
  other = request
  call MPI_Request_free(request, ierror)
  if (state /= 0) call fail('a free function that runs too early')
  call MPI_Grequest_complete(other, ierror)
  if (state /= 10) call fail('the free function')

  state = 7
  do round = 1, 3
    call MPI_Comm_create_keyval(copy, delete, keyval, state, ierror)
    state = 0
    call MPI_Comm_set_attr(MPI_COMM_SELF, keyval, 5_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_dup(MPI_COMM_SELF, other, ierror)
    call MPI_Comm_get_attr(other, keyval, value, flag, ierror)
    if (.not. flag .or. value /= 12) call fail('the copy function')
    call MPI_Comm_free_keyval(keyval, ierror)
    call MPI_Comm_free(other, ierror)
    state = 7
  end do

  ! The newer names of the predefined functions, in a call of MPI-1 (MPI 5.0 section 16.1).
  call MPI_Keyval_create(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, 0, ierror)
  call MPI_Attr_put(MPI_COMM_SELF, keyval, 9, ierror)
  call MPI_Comm_dup(MPI_COMM_SELF, other, ierror)
  call MPI_Attr_get(other, keyval, small, flag, ierror)
  if (.not. flag .or. small /= 9) call fail('MPI_COMM_DUP_FN in MPI_Keyval_create')
  call MPI_Attr_delete(other, keyval, ierror)
  call MPI_Comm_free(other, ierror)
  call MPI_Attr_delete(MPI_COMM_SELF, keyval, ierror)
  call MPI_Keyval_free(keyval, ierror)
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  if (rank == 0) print *, 'all good'
  call MPI_Finalize(ierror)
contains
  subroutine fail(what)
    character(len=*), intent(in) :: what
    print *, 'wrong: ', what, state
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine
end program
