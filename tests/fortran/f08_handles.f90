! The module mpi_f08: types of handles and statuses, optional error codes, generic names of the forms with large counts, keywords, strings,
! attributes, memory, files, and special arguments (MPI 5.0 sections 19.1 and 19.3).
program f08_handles
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer, c_loc, c_associated, c_null_ptr
  implicit none
  ! Constants are constants: also in initializers, and as components.
  type(MPI_Comm), parameter :: everyone = MPI_COMM_WORLD
  type(MPI_Datatype) :: types(2) = [MPI_INTEGER, MPI_DOUBLE_PRECISION]
  integer :: rank, tasks, i, code, length, count
  integer(MPI_COUNT_KIND) :: large
  logical :: flag
  type(MPI_Comm) :: comm, other
  type(MPI_Group) :: group
  type(MPI_Request) :: requests(3)
  type(MPI_Status) :: status, statuses(3)
  integer :: old(MPI_STATUS_SIZE)
  character(len=MPI_MAX_OBJECT_NAME) :: name
  integer, target :: numbers(8)

  call MPI_Init(ierror=code)
  call need(code == MPI_SUCCESS, 1)
  call MPI_Comm_rank(comm=everyone, rank=rank)
  call MPI_Comm_size(MPI_COMM_WORLD, tasks, code)
  call need(code == MPI_SUCCESS, 2)

  ! Handles are compared, element by element too, and have the numbers of C and of the older modules.
  call need(everyone == MPI_COMM_WORLD .and. everyone /= MPI_COMM_SELF .and. .not. everyone /= MPI_COMM_WORLD, 3)
  call need(MPI_COMM_WORLD%MPI_VAL == 257 .and. MPI_INTEGER%MPI_VAL == 537, 4)
  requests = MPI_REQUEST_NULL
  call need(all(requests == MPI_REQUEST_NULL), 5)
  comm%MPI_VAL = MPI_COMM_SELF%MPI_VAL
  call need(comm == MPI_COMM_SELF, 6)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call need(comm /= MPI_COMM_WORLD, 7)
  call MPI_Comm_compare(comm, MPI_COMM_WORLD, i)
  call need(i == MPI_CONGRUENT, 8)
  call MPI_Comm_set_name(comm, 'a duplicate  ')
  name = 'x'
  call MPI_Comm_get_name(comm, name, length)
  call need(length == 11 .and. name == 'a duplicate', 9)
  call MPI_Comm_group(comm, group)
  call MPI_Comm_create(comm, group, other)
  call MPI_Group_free(group)
  call need(group == MPI_GROUP_NULL .and. other /= MPI_COMM_NULL, 10)
  call MPI_Comm_free(other)
  call need(other == MPI_COMM_NULL, 11)
  call need(MPI_OP_NULL /= MPI_SUM .and. MPI_WIN_NULL == MPI_WIN_NULL .and. MPI_FILE_NULL == MPI_FILE_NULL, 12)
  call need(MPI_INFO_NULL == MPI_INFO_NULL .and. MPI_SESSION_NULL == MPI_SESSION_NULL, 13)
  call need(MPI_MESSAGE_NULL /= MPI_MESSAGE_NO_PROC .and. MPI_ERRORS_RETURN /= MPI_ERRORS_ARE_FATAL, 14)

  ! Statuses have components; those that programs do not want are ignored.
  numbers = rank
  do i = 1, 3
    call MPI_Irecv(numbers(i), 1, MPI_INTEGER, MPI_ANY_SOURCE, i, MPI_COMM_SELF, requests(i))
  end do
  do i = 3, 1, -1
    call MPI_Send(10 * i, 1, MPI_INTEGER, 0, i, MPI_COMM_SELF)
  end do
  call MPI_Waitall(3, requests, statuses)
  call need(all(statuses%MPI_TAG == [1, 2, 3]) .and. all(statuses%MPI_SOURCE == 0), 15)
  call need(all(numbers(1:3) == [10, 20, 30]) .and. all(requests == MPI_REQUEST_NULL), 16)
  call MPI_Sendrecv(7, 1, MPI_INTEGER, 0, 1, numbers(1), 1, MPI_INTEGER, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
  call MPI_Testall(3, requests, flag, MPI_STATUSES_IGNORE)
  call need(flag .and. numbers(1) == 7, 17)
  call MPI_Status_set_elements(status, MPI_INTEGER, 5)
  call MPI_Get_count(status, MPI_INTEGER, count)
  call MPI_Get_elements(status, MPI_INTEGER, large)
  call need(count == 5 .and. large == 5, 18)
  status%MPI_SOURCE = 3
  status%MPI_TAG = 4
  status%MPI_ERROR = 5
  call MPI_Status_f082f(status, old)
  call need(old(MPI_SOURCE) == 3 .and. old(MPI_TAG) == 4 .and. old(MPI_ERROR) == 5, 19)
  old(MPI_TAG) = 6
  call MPI_Status_f2f08(old, status, code)
  call MPI_Get_count(status, MPI_INTEGER, count)
  call need(status%MPI_TAG == 6 .and. count == 5 .and. code == MPI_SUCCESS, 20)
  call PMPI_Status_f2f08(old, status)

  call large_counts
  call strings
  call attributes
  call memory
  call a_file
  call graph

  ! The names of a profiling tool.
  call PMPI_Comm_rank(MPI_COMM_WORLD, i)
  call PMPI_Bcast(numbers(2:8:3), 3_MPI_COUNT_KIND, MPI_INTEGER, 0, MPI_COMM_WORLD, code)
  call need(i == rank .and. code == MPI_SUCCESS, 21)
  call need(PMPI_Wtime() <= MPI_Wtime() .and. MPI_Wtick() > 0, 22)
  call need(MPI_Aint_diff(MPI_Aint_add(5_MPI_ADDRESS_KIND, 7_MPI_ADDRESS_KIND), 2_MPI_ADDRESS_KIND) == 10, 23)
  call MPI_Pcontrol(1)
  call MPI_F_sync_reg(numbers)
  call MPI_Sizeof(numbers, i)
  call MPI_Sizeof((1d0, 2d0), count, code)
  call need(i == 4 .and. count == 16, 24)

  ! An error code is returned; without the argument, the handler alone decides.
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN)
  call MPI_Send(1, 1, MPI_INTEGER, 99999, 0, comm, code)
  call MPI_Error_class(code, i)
  call need(i == MPI_ERR_RANK, 25)
  call MPI_Send(1, 1, MPI_INTEGER, 99999, 0, comm)
  call MPI_Comm_size(MPI_COMM_NULL, i, code)
  call need(code /= MPI_SUCCESS, 26)
  call MPI_Comm_free(comm)
  call MPI_Barrier(MPI_COMM_WORLD)
  if (rank == 0) print '(a)', 'all good'
  call MPI_Finalize()
  call MPI_Finalized(flag, code)
  call need(flag .and. code == MPI_SUCCESS, 27)

contains
  subroutine need(is_right, number)
    logical, intent(in) :: is_right
    integer, intent(in) :: number
    if (.not. is_right) then
      print *, 'rank', rank, 'check', number, 'failed'
      call MPI_Abort(MPI_COMM_WORLD, number)
    end if
  end subroutine

  ! One generic name for both forms (MPI 5.0 section 19.1.5).
  subroutine large_counts
    integer(MPI_COUNT_KIND) :: counts(tasks), size, lower, extent
    integer(MPI_ADDRESS_KIND) :: places(tasks), small_lower, small_extent
    integer, asynchronous :: all_of(2 * tasks), own(2)
    integer :: k, integers, addresses, datatypes, combiner, sizes
    integer(MPI_COUNT_KIND) :: large_integers, large_addresses, large_counts_of, large_datatypes, large_list(2)
    integer(MPI_ADDRESS_KIND) :: address(1)
    type(MPI_Datatype) :: huge_type, vector, olds(1)
    type(MPI_Request) :: request
    call MPI_Type_contiguous(5000000000_MPI_COUNT_KIND, MPI_INTEGER, huge_type)
    call MPI_Type_size(huge_type, size)
    call MPI_Type_size(huge_type, sizes)
    call need(size == 20000000000_MPI_COUNT_KIND .and. sizes == MPI_UNDEFINED, 30)
    ! The kinds of addresses and of counts are the same, so there is one form.
    call MPI_Type_get_extent(huge_type, lower, extent)
    call MPI_Type_get_extent(huge_type, small_lower, small_extent)
    call need(extent == size .and. small_extent == size .and. lower == 0, 31)
    call MPI_Type_size_x(huge_type, size)
    call need(size == 20000000000_MPI_COUNT_KIND, 32)
    call MPI_Type_free(huge_type)
    call need(huge_type == MPI_DATATYPE_NULL, 33)
    call MPI_Type_vector(2_MPI_COUNT_KIND, 1_MPI_COUNT_KIND, 3_MPI_COUNT_KIND, MPI_INTEGER, vector)
    call MPI_Type_get_envelope(vector, large_integers, large_addresses, large_counts_of, large_datatypes, combiner)
    call need(combiner == MPI_COMBINER_VECTOR .and. large_counts_of == 3 .and. large_datatypes == 1, 34)
    call MPI_Type_free(vector)
    call MPI_Type_create_hvector(2, 1, 12_MPI_ADDRESS_KIND, MPI_INTEGER, vector)
    call MPI_Type_get_envelope(vector, integers, addresses, datatypes, combiner)
    call need(integers == 2 .and. addresses == 1 .and. datatypes == 1, 35)
    call MPI_Type_get_contents(vector, 2, 1, 1, all_of, address, olds)
    call need(address(1) == 12 .and. olds(1) == MPI_INTEGER, 36)
    call MPI_Type_free(vector)
    counts = 2
    places = [(2_MPI_ADDRESS_KIND * (k - 1), k = 1, tasks)]
    call MPI_Allgatherv([rank, -rank], 2_MPI_COUNT_KIND, MPI_INTEGER, all_of, counts, places, MPI_INTEGER, MPI_COMM_WORLD)
    call need(all(all_of == [(k, -k, k = 0, tasks - 1)]), 37)
    all_of = -1
    own = [rank, -rank]
    call MPI_Iallgatherv(own, 2_MPI_COUNT_KIND, MPI_INTEGER, all_of, counts, places, MPI_INTEGER, MPI_COMM_WORLD, &
      request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call need(all(all_of == [(k, -k, k = 0, tasks - 1)]), 38)
    call MPI_Type_create_struct(1_MPI_COUNT_KIND, [2_MPI_COUNT_KIND], [4_MPI_COUNT_KIND], [MPI_REAL], vector)
    call MPI_Type_get_envelope(vector, large_integers, large_addresses, large_counts_of, large_datatypes, combiner)
    call need(large_counts_of == 3 .and. large_integers == 0, 39)
    large_list = 0
    block
      integer(MPI_COUNT_KIND) :: list(3)
      call MPI_Type_get_contents(vector, 0_MPI_COUNT_KIND, 0_MPI_COUNT_KIND, 3_MPI_COUNT_KIND, 1_MPI_COUNT_KIND, &
        all_of, address, list, olds)
      call need(all(list == [1, 2, 4]) .and. olds(1) == MPI_REAL, 40)
    end block
    call MPI_Type_free(vector)
  end subroutine

  subroutine strings
    type(MPI_Info) :: info, copy
    character(len=20) :: value
    character(len=MPI_MAX_INFO_KEY) :: key
    character(len=MPI_MAX_ERROR_STRING) :: text
    integer :: len_of_value, keys
    logical :: is_set
    call MPI_Info_create(info)
    call MPI_Info_set(info, ' key ', ' some value ')
    call MPI_Info_dup(info, copy)
    len_of_value = len(value)
    call MPI_Info_get_string(copy, 'key', len_of_value, value, is_set)
    call need(is_set .and. value == 'some value' .and. len_of_value == 10, 50)
    call MPI_Info_get_nkeys(copy, keys)
    call MPI_Info_get_nthkey(copy, 0, key)
    call need(keys == 1 .and. key == 'key', 51)
    call MPI_Info_free(info)
    call MPI_Info_free(copy)
    call need(info == MPI_INFO_NULL, 52)
    call MPI_Error_string(MPI_ERR_TRUNCATE, text, len_of_value)
    call need(index(text, 'MPI_ERR_TRUNCATE') > 0 .and. len_trim(text) == len_of_value, 53)
  end subroutine

  subroutine attributes
    integer(MPI_ADDRESS_KIND) :: value
    integer :: keyval
    logical :: is_set
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, is_set)
    call need(is_set .and. value >= 32767, 60)
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, 0_MPI_ADDRESS_KIND)
    call MPI_Comm_set_attr(comm, keyval, 12345678901_MPI_ADDRESS_KIND)
    call MPI_Comm_dup(comm, other)
    call MPI_Comm_get_attr(other, keyval, value, is_set)
    call need(is_set .and. value == 12345678901_MPI_ADDRESS_KIND, 61)
    call MPI_Comm_free(other)
    call MPI_Comm_delete_attr(comm, keyval)
    call MPI_Comm_get_attr(comm, keyval, value, is_set)
    call need(.not. is_set, 62)
    call MPI_Comm_free_keyval(keyval)
    call need(keyval == MPI_KEYVAL_INVALID, 63)
  end subroutine

  subroutine memory
    type(c_ptr) :: at, buffer
    real, pointer :: values(:), theirs(:)
    integer, asynchronous, target :: space(1000)
    integer :: size, unit
    integer(MPI_ADDRESS_KIND) :: bytes, first, second
    integer(MPI_COUNT_KIND) :: large_size
    type(MPI_Win) :: win
    type(MPI_Comm) :: host
    integer :: host_rank, host_tasks
    call MPI_Alloc_mem(400_MPI_ADDRESS_KIND, MPI_INFO_NULL, at)
    call c_f_pointer(at, values, [100])
    values = 1.5
    call MPI_Bcast(values, 100, MPI_REAL, 0, MPI_COMM_SELF)
    call MPI_Free_mem(values)
    ! The address of the buffer comes back (MPI 5.0 section 3.6).
    call MPI_Buffer_attach(space, 4000)
    call MPI_Bsend(5, 1, MPI_INTEGER, 0, 9, MPI_COMM_SELF)
    call MPI_Recv(numbers, 1, MPI_INTEGER, 0, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    buffer = c_null_ptr
    call MPI_Buffer_detach(buffer, size)
    call need(size == 4000 .and. c_associated(buffer, c_loc(space)) .and. numbers(1) == 5, 70)
    call MPI_Buffer_attach(space, 4000_MPI_COUNT_KIND)
    call MPI_Buffer_detach(buffer, large_size)
    call need(large_size == 4000 .and. c_associated(buffer, c_loc(space)), 71)
    call MPI_Comm_attach_buffer(MPI_COMM_SELF, MPI_BUFFER_AUTOMATIC, 0)
    call MPI_Comm_detach_buffer(MPI_COMM_SELF, buffer, size)
    call MPI_Get_address(numbers(3), first)
    call MPI_Get_address(numbers(2:8:2), second)
    call need(MPI_Aint_diff(first, second) == 4, 72)
    ! Absolute addresses: MPI_BOTTOM.
    block
      type(MPI_Datatype) :: absolute
      call MPI_Type_create_hindexed(2, [1, 1], [first, second], MPI_INTEGER, absolute)
      call MPI_Type_commit(absolute)
      numbers(2:3) = [22, 33]
      call MPI_Sendrecv(MPI_BOTTOM, 1, absolute, 0, 3, numbers(7:8), 2, MPI_INTEGER, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE)
      call need(all(numbers(7:8) == [33, 22]), 73)
      numbers(5:8) = 0
      call MPI_Sendrecv(MPI_BOTTOM, 1, absolute, 0, 3, numbers(8:6:-2), 2, MPI_INTEGER, 0, 3, MPI_COMM_SELF, &
        MPI_STATUS_IGNORE)
      call need(all(numbers(5:8) == [0, 22, 0, 33]), 74)
      call MPI_Type_free(absolute)
    end block
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, host)
    call MPI_Comm_rank(host, host_rank)
    call MPI_Comm_size(host, host_tasks)
    call MPI_Win_allocate_shared(16_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, host, at, win)
    call c_f_pointer(at, values, [4])
    call MPI_Win_fence(0, win)
    values = real(host_rank)
    call MPI_Win_fence(0, win)
    call MPI_Win_shared_query(win, mod(host_rank + 1, host_tasks), bytes, unit, at)
    call c_f_pointer(at, theirs, [4])
    call need(bytes == 16 .and. unit == 4 .and. all(theirs == real(mod(host_rank + 1, host_tasks))), 75)
    call MPI_Win_fence(0, win)
    call MPI_Win_free(win)
    call MPI_Comm_free(host)
    call need(win == MPI_WIN_NULL, 76)
  end subroutine

  subroutine a_file
    type(MPI_File) :: file
    type(MPI_Status) :: done
    type(MPI_Request) :: request
    integer, asynchronous :: own(20), back(20)
    integer(MPI_OFFSET_KIND) :: place, size
    character(len=10) :: representation
    character(len=40) :: file_name
    type(MPI_Datatype) :: etype, filetype
    own = [(100 * rank + i, i = 1, 20)]
    ! A name of this job's own: others may run in the same folder.
    call system_clock(place)
    call MPI_Bcast(place, 1, MPI_OFFSET, 0, MPI_COMM_WORLD)
    write (file_name, '(a, i0)') 'f08_handles.', place
    call MPI_File_open(MPI_COMM_WORLD, file_name, MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, &
      MPI_INFO_NULL, file)
    place = 40 * rank
    call MPI_File_write_at_all(file, place, own(1:20:2), 10, MPI_INTEGER, done)
    call MPI_Get_count(done, MPI_INTEGER, count)
    call need(count == 10, 80)
    call MPI_File_sync(file)
    call MPI_Barrier(MPI_COMM_WORLD)
    back = -1
    place = 40 * mod(rank + 1, tasks)
    call MPI_File_iread_at(file, place, back(20:2:-2), 10_MPI_COUNT_KIND, MPI_INTEGER, request)
    call MPI_Wait(request, done)
    call need(all(back(20:2:-2) == [(100 * mod(rank + 1, tasks) + i, i = 1, 20, 2)]) .and. all(back(1:19:2) == -1), 81)
    back = -1
    call MPI_File_read_at_all_begin(file, place, back(1:20:2), 10, MPI_INTEGER)
    call MPI_File_read_at_all_end(file, back(1:20:2), done)
    call need(all(back(1:20:2) == [(100 * mod(rank + 1, tasks) + i, i = 1, 20, 2)]), 82)
    call MPI_File_get_size(file, size)
    call need(size == 40 * tasks, 83)
    call MPI_File_set_view(file, 4_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'external32', MPI_INFO_NULL)
    call MPI_File_get_view(file, place, etype, filetype, representation)
    call need(place == 4 .and. etype == MPI_INTEGER .and. representation == 'external32', 84)
    ! The first bytes of the file have the machine's order: external32 has the opposite one here, so write before reading.
    call MPI_Barrier(MPI_COMM_WORLD)
    if (rank == 0) call MPI_File_write_at(file, 0_MPI_OFFSET_KIND, own(5:1:-2), 3, MPI_INTEGER, MPI_STATUS_IGNORE)
    call MPI_File_sync(file)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_File_read_at(file, 0_MPI_OFFSET_KIND, back(2:20:4), 3, MPI_INTEGER, done)
    call need(all(back(2:10:4) == [5, 3, 1]), 85)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_File_close(file)
    call need(file == MPI_FILE_NULL, 86)
  end subroutine

  subroutine graph
    type(MPI_Comm) :: ring
    integer :: sources(2), destinations(2), weights_in(2), weights_out(2), before, next
    logical :: is_weighted
    before = mod(rank + tasks - 1, tasks)
    next = mod(rank + 1, tasks)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [before], MPI_UNWEIGHTED, 1, [next], MPI_UNWEIGHTED, &
      MPI_INFO_NULL, .false., ring)
    call MPI_Dist_graph_neighbors_count(ring, i, count, is_weighted)
    call need(i == 1 .and. count == 1 .and. .not. is_weighted, 90)
    call MPI_Dist_graph_neighbors(ring, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED)
    call need(sources(1) == before .and. destinations(1) == next, 91)
    call MPI_Comm_free(ring)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [before], [4], 1, [next], [5], MPI_INFO_NULL, .false., ring)
    call MPI_Dist_graph_neighbors(ring, 1, sources, weights_in, 1, destinations, weights_out)
    call need(weights_in(1) == 4 .and. weights_out(1) == 5, 92)
    call MPI_Comm_free(ring)
  end subroutine
end program
