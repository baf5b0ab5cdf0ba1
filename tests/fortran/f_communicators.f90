! Communicators, groups, attributes with functions of the program, topologies, info objects, and alltoallw.
module events
  implicit none
  integer :: copied = 0, deleted = 0
contains
  subroutine copy(comm, keyval, extra, value, new, flag, ierror)
    use mpi
    integer :: comm, keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra, value, new
    logical :: flag
    new = value + extra
    flag = .true.
    copied = copied + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine remove(comm, keyval, value, extra, ierror)
    use mpi
    integer :: comm, keyval, ierror
    integer(MPI_ADDRESS_KIND) :: value, extra
    deleted = deleted + 1
    ierror = MPI_SUCCESS
  end subroutine
end module

program f_communicators
  use mpi
  use events
  implicit none
  integer :: rank, tasks, ierr, comm, half, group, other, keyval, info, length, dims(1), rows(1), i, result
  integer :: sources(1), destinations(1), before, next, key, wanted, request
  integer :: types(64), counts(64), bytes(64), given(64), taken(64)
  integer(MPI_ADDRESS_KIND) :: extra, value, places(2)
  logical :: flag, circular(1), weighted
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=12) :: text
  character(len=MPI_MAX_INFO_KEY) :: word

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, tasks, ierr)
  next = mod(rank + 1, tasks)
  before = mod(rank + tasks - 1, tasks)

  ! Attributes are copied and deleted by the program's functions.
  extra = 5
  call MPI_Comm_create_keyval(copy, remove, keyval, extra, ierr)
  value = 37
  call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, value, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  value = 0
  call MPI_Comm_get_attr(comm, keyval, value, flag, ierr)
  call need(flag .and. value == 42 .and. copied == 1, 1)
  call MPI_Comm_delete_attr(comm, keyval, ierr)
  call need(deleted == 1, 2)
  call MPI_Comm_get_attr(comm, keyval, value, flag, ierr)
  call need(.not. flag, 3)
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierr)
  call need(flag .and. value >= 32767, 4)
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, extra, ierr)
  value = 11
  call MPI_Comm_set_attr(comm, key, value, ierr)
  call MPI_Comm_dup(comm, half, ierr)
  value = 0
  call MPI_Comm_get_attr(half, key, value, flag, ierr)
  call need(flag .and. value == 11, 5)
  call MPI_Comm_free(half, ierr)
  call need(half == MPI_COMM_NULL, 6)
  call MPI_Comm_free_keyval(key, ierr)
  call need(key == MPI_KEYVAL_INVALID, 7)

  ! Names: blanks at the end are ignored.
  call MPI_Comm_set_name(comm, 'my own   ', ierr)
  call MPI_Comm_get_name(comm, name, length, ierr)
  call need(name == 'my own' .and. length == 6, 8)
  call MPI_Comm_compare(comm, MPI_COMM_WORLD, result, ierr)
  call need(result == MPI_CONGRUENT, 9)

  call MPI_Comm_split(comm, mod(rank, 2), -rank, half, ierr)
  call MPI_Comm_size(half, length, ierr)
  call need(length == (tasks + 1 - mod(rank, 2)) / 2, 10)
  call MPI_Comm_free(half, ierr)
  call MPI_Comm_group(comm, group, ierr)
  call MPI_Group_incl(group, 1, [rank], other, ierr)
  call MPI_Group_translate_ranks(other, 1, [0], group, rows, ierr)
  call need(rows(1) == rank, 11)
  call MPI_Group_range_incl(group, 1, reshape([0, tasks - 1, 1], [3, 1]), half, ierr)
  call MPI_Group_compare(half, group, result, ierr)
  call need(result == MPI_IDENT, 12)
  call MPI_Comm_idup(comm, half, request, ierr)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  call MPI_Barrier(half, ierr)
  call MPI_Comm_free(half, ierr)

  ! Sizes of elements, and arrays that are ignored.
  call MPI_Sizeof(places, length, ierr)
  call need(length == 8, 29)
  call MPI_Sizeof((1d0, 2d0), length, ierr)
  call need(length == 16, 30)
  counts(1:tasks) = 1
  bytes(1:tasks) = [(i, i = 0, tasks - 1)]
  taken(1:tasks) = 100 * rank + bytes(1:tasks)
  call MPI_Alltoallv(MPI_IN_PLACE, 0, 0, MPI_DATATYPE_NULL, taken, counts, bytes, MPI_INTEGER, comm, ierr)
  call need(all(taken(1:tasks) == [(100 * i + rank, i = 0, tasks - 1)]), 31)

  ! A ring, and a graph without weights.
  dims = 0
  call MPI_Dims_create(tasks, 1, dims, ierr)
  call need(dims(1) == tasks, 13)
  call MPI_Cart_create(comm, 1, dims, [.true.], .false., half, ierr)
  call MPI_Cart_get(half, 1, dims, circular, rows, ierr)
  call need(circular(1) .and. rows(1) == rank, 14)
  call MPI_Cart_shift(half, 0, 1, sources(1), destinations(1), ierr)
  call need(sources(1) == before .and. destinations(1) == next, 15)
  call MPI_Comm_free(half, ierr)
  call MPI_Dist_graph_create_adjacent(comm, 1, [before], MPI_UNWEIGHTED, 1, [next], MPI_UNWEIGHTED, MPI_INFO_NULL, &
    .false., half, ierr)
  call MPI_Dist_graph_neighbors_count(half, i, length, weighted, ierr)
  call need(i == 1 .and. length == 1 .and. .not. weighted, 16)
  call MPI_Dist_graph_neighbors(half, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED, ierr)
  call need(sources(1) == before .and. destinations(1) == next, 17)
  places = 0
  call MPI_Neighbor_alltoallw([rank], [1], places, [MPI_INTEGER], rows, [1], places, [MPI_INTEGER], half, ierr)
  call need(rows(1) == before, 18)

  ! A datatype for each task.
  do i = 1, tasks
    counts(i) = 1
    bytes(i) = 4 * (i - 1)
    types(i) = MPI_INTEGER
    given(i) = 10 * rank + i - 1
  end do
  call MPI_Alltoallw(given, counts, bytes, types, taken, counts, bytes, types, comm, ierr)
  call need(all(taken(1:tasks) == [(10 * (i - 1) + rank, i = 1, tasks)]), 19)

  ! Blanks around keys and values are ignored; lengths do not include a final zero.
  call MPI_Info_create(info, ierr)
  call MPI_Info_set(info, ' colour ', ' blue green ', ierr)
  call MPI_Info_get_valuelen(info, 'colour', length, flag, ierr)
  call need(flag .and. length == 10, 20)
  length = len(text)
  call MPI_Info_get_string(info, 'colour', length, text, flag, ierr)
  call need(flag .and. length == 10 .and. text == 'blue green', 21)
  call MPI_Info_get(info, 'colour', 4, text, flag, ierr)
  call need(flag .and. text == 'blue', 22)
  text = 'untouched'
  length = 0
  call MPI_Info_get_string(info, 'colour', length, text, flag, ierr)
  call need(flag .and. length == 10 .and. text == 'untouched', 32)
  call MPI_Info_get(info, 'none', 4, text, flag, ierr)
  call need(.not. flag .and. text == 'untouched', 23)
  call MPI_Info_get_nthkey(info, 0, word, ierr)
  call need(word == 'colour', 24)
  call MPI_Info_free(info, ierr)
  call need(info == MPI_INFO_NULL, 25)

  ! Errors are returned if the program chooses that.
  call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierr)
  call MPI_Comm_get_errhandler(comm, wanted, ierr)
  call need(wanted == MPI_ERRORS_RETURN, 26)
  call MPI_Send(rank, 1, MPI_INTEGER, tasks, 0, comm, ierr)
  call need(ierr /= MPI_SUCCESS, 27)
  call MPI_Comm_free(comm, ierr)
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval, ierr)
  call need(deleted == 2, 28)

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
