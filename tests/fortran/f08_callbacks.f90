! The program's functions in the module mpi_f08, with the abstract interfaces of the standard: operations, attributes, error handlers and
! generalized requests (MPI 5.0 sections 6.9.5, 7.7, 9.3, 13.2 and 19.1.16).
module functions
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer :: copies = 0, deletions = 0, errors = 0, queries = 0, releases = 0, cancellations = 0, last_error = 0
  type(MPI_Comm) :: last_comm
  type(MPI_Win) :: last_win
contains
  ! A data representation in which an integer has 8 bytes: its number and the extra state.
  subroutine twice_as_long(datatype, extent, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer(MPI_ADDRESS_KIND) :: extent, extra_state
    integer :: ierror, bytes
    call MPI_Type_size(datatype, bytes, ierror)
    extent = 2 * bytes
    if (extra_state /= 5) ierror = MPI_ERR_OTHER
  end subroutine
  subroutine to_file(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer, pointer :: numbers(:), bytes(:, :)
    call c_f_pointer(userbuf, numbers, [int(position) + count])
    call c_f_pointer(filebuf, bytes, [2, count])
    bytes(1, :) = numbers(int(position) + 1:)
    bytes(2, :) = int(extra_state)
    ierror = MPI_SUCCESS
    if (datatype /= MPI_INTEGER) ierror = MPI_ERR_TYPE
  end subroutine
  subroutine from_file(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer, pointer :: numbers(:), bytes(:, :)
    call c_f_pointer(userbuf, numbers, [int(position) + count])
    call c_f_pointer(filebuf, bytes, [2, count])
    numbers(int(position) + 1:) = bytes(1, :)
    ierror = MPI_SUCCESS
    if (datatype /= MPI_INTEGER .or. any(bytes(2, :) /= extra_state)) ierror = MPI_ERR_OTHER
  end subroutine
  ! Affine maps, as pairs of a factor and an addend: associative, and not commutative.
  subroutine compose(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: earlier(:, :), later(:, :)
    integer :: size
    call MPI_Type_size(datatype, size)
    if (size /= 8) call MPI_Abort(MPI_COMM_WORLD, 99)
    call c_f_pointer(invec, earlier, [2, len])
    call c_f_pointer(inoutvec, later, [2, len])
    later(2, :) = later(1, :) * earlier(2, :) + later(2, :)
    later(1, :) = later(1, :) * earlier(1, :)
  end subroutine
  subroutine total(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer(MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    double precision, pointer :: earlier(:), later(:)
    if (datatype /= MPI_DOUBLE_PRECISION) call MPI_Abort(MPI_COMM_WORLD, 98)
    call c_f_pointer(invec, earlier, [len])
    call c_f_pointer(inoutvec, later, [len])
    later = later + earlier
  end subroutine
  subroutine copy_of_comm(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
    type(MPI_Comm) :: oldcomm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    copies = copies + 1
    last_comm = oldcomm
    flag = attribute_val_in > 0
    attribute_val_out = attribute_val_in + extra_state
    ierror = MPI_SUCCESS
  end subroutine
  subroutine delete_of_comm(comm, comm_keyval, attribute_val, extra_state, ierror)
    type(MPI_Comm) :: comm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    deletions = deletions + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine copy_of_type(oldtype, type_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
    type(MPI_Datatype) :: oldtype
    integer :: type_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    copies = copies + 1
    flag = .true.
    attribute_val_out = 2 * attribute_val_in
    ierror = MPI_SUCCESS
  end subroutine
  subroutine delete_of_type(datatype, type_keyval, attribute_val, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer :: type_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    deletions = deletions + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine delete_of_win(win, win_keyval, attribute_val, extra_state, ierror)
    type(MPI_Win) :: win
    integer :: win_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    deletions = deletions + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine error_of_comm(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    errors = errors + 1
    last_comm = comm
    last_error = error_code
  end subroutine
  subroutine error_of_win(win, error_code)
    type(MPI_Win) :: win
    integer :: error_code
    errors = errors + 1
    last_win = win
    last_error = error_code
  end subroutine
  subroutine error_of_file(file, error_code)
    type(MPI_File) :: file
    integer :: error_code
    errors = errors + 1
    last_error = error_code
  end subroutine
  subroutine query(extra_state, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    queries = queries + 1
    call MPI_Status_set_elements(status, MPI_INTEGER, 7)
    call MPI_Status_set_cancelled(status, .false.)
    status%MPI_SOURCE = 11
    status%MPI_TAG = int(extra_state)
    ierror = MPI_SUCCESS
  end subroutine
  subroutine release(extra_state, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    releases = releases + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine cancel(extra_state, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    if (.not. complete) cancellations = cancellations + 1
    ierror = MPI_SUCCESS
  end subroutine
end module

program f08_callbacks
  use functions
  implicit none
  integer :: rank, tasks, i, keyval, class, code, map(2, 3), result(2, 3), count
  double precision :: x(4), y(8)
  integer(MPI_ADDRESS_KIND) :: value
  integer(MPI_ADDRESS_KIND), target :: state
  logical :: flag
  type(MPI_Op) :: op
  type(MPI_Comm) :: comm, other
  type(MPI_Datatype) :: pair, duplicate
  type(MPI_Errhandler) :: handler, found
  type(MPI_Win) :: win
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  procedure(MPI_Comm_errhandler_function), pointer :: pointer_to_function
  procedure(MPI_User_function) :: outside_of_any_module

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, tasks)

  call MPI_Type_contiguous(2, MPI_INTEGER, pair)
  call MPI_Type_commit(pair)
  call MPI_Op_create(compose, .false., op)
  map = reshape([2, rank, 3, 1, 1, rank], [2, 3])
  call MPI_Allreduce(map, result, 3, pair, op, MPI_COMM_WORLD)
  ! Rank 0 first: x -> 2x, then x -> 2x + 1, and so on.
  code = 0
  do i = 1, tasks - 1
    code = 2 * code + i
  end do
  call need(result(1, 1) == 2**tasks .and. result(2, 1) == code .and. result(1, 2) == 3**tasks, 1)
  call need(result(2, 3) == tasks * (tasks - 1) / 2, 2)
  call MPI_Op_commutative(op, flag)
  call need(.not. flag, 3)
  call MPI_Op_free(op)
  call need(op == MPI_OP_NULL, 4)
  ! The form with large counts has its own name, because only the function differs.
  call MPI_Op_create_c(total, .true., op)
  x = rank
  y = -1
  call MPI_Allreduce(x(1:4:2), y(2:8:4), 2_MPI_COUNT_KIND, MPI_DOUBLE_PRECISION, op, MPI_COMM_WORLD)
  call need(all(y(2:8:4) == tasks * (tasks - 1) / 2) .and. y(1) == -1, 5)
  call MPI_Op_free(op)
  call MPI_Op_create(outside_of_any_module, .true., op)
  call MPI_Allreduce(rank, i, 1, MPI_INTEGER, op, MPI_COMM_WORLD)
  call need(i == tasks * (tasks - 1) / 2, 6)
  call MPI_Op_free(op)

  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_create_keyval(copy_of_comm, delete_of_comm, keyval, 100_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(comm, keyval, 5_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(comm, other)
  call need(copies == 1 .and. last_comm == comm, 10)
  call MPI_Comm_get_attr(other, keyval, value, flag)
  call need(flag .and. value == 105, 11)
  call MPI_Comm_free(other)
  call need(deletions == 1, 12)
  call MPI_Comm_set_attr(comm, keyval, -5_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(comm, other)
  call MPI_Comm_get_attr(other, keyval, value, flag)
  call need(.not. flag .and. deletions == 2, 13)
  call MPI_Comm_free(other)
  call MPI_Comm_free_keyval(keyval)
  call MPI_Type_create_keyval(copy_of_type, delete_of_type, keyval, 0_MPI_ADDRESS_KIND)
  call MPI_Type_set_attr(pair, keyval, 21_MPI_ADDRESS_KIND)
  call MPI_Type_dup(pair, duplicate)
  call MPI_Type_get_attr(duplicate, keyval, value, flag)
  call need(flag .and. value == 42, 14)
  call MPI_Type_free(duplicate)
  call MPI_Type_free(pair)
  call need(deletions == 4, 15)

  pointer_to_function => error_of_comm
  call MPI_Comm_create_errhandler(pointer_to_function, handler)
  call MPI_Comm_set_errhandler(comm, handler)
  call MPI_Comm_get_errhandler(comm, found)
  call need(found == handler, 20)
  call MPI_Send(1, 1, MPI_INTEGER, tasks + 5, 0, comm, code)
  call MPI_Error_class(last_error, class)
  call need(errors == 1 .and. last_comm == comm .and. class == MPI_ERR_RANK .and. code == last_error, 21)
  call MPI_Errhandler_free(handler)
  call MPI_Errhandler_free(found)
  call MPI_Win_create(x, 32_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, comm, win)
  call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_of_win, keyval, 0_MPI_ADDRESS_KIND)
  call MPI_Win_set_attr(win, keyval, 1_MPI_ADDRESS_KIND)
  call MPI_Win_create_errhandler(error_of_win, handler)
  call MPI_Win_set_errhandler(win, handler)
  call MPI_Win_call_errhandler(win, MPI_ERR_OTHER)
  call need(errors == 2 .and. last_win == win .and. last_error == MPI_ERR_OTHER, 22)
  call MPI_Win_free(win)
  call need(deletions == 5, 23)
  call MPI_File_create_errhandler(error_of_file, handler)
  call MPI_File_set_errhandler(MPI_FILE_NULL, handler)
  call MPI_File_delete('a file that is not there', MPI_INFO_NULL)
  call MPI_Error_class(last_error, class)
  call need(errors == 3 .and. class == MPI_ERR_NO_SUCH_FILE, 24)
  call MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN)
  call MPI_Errhandler_free(handler)

  state = 42
  call MPI_Grequest_start(query, release, cancel, state, request)
  call MPI_Test(request, flag, status)
  call need(.not. flag, 30)
  call MPI_Cancel(request)
  call MPI_Grequest_complete(request)
  call MPI_Wait(request, status)
  call MPI_Get_count(status, MPI_INTEGER, count)
  call need(count == 7 .and. status%MPI_SOURCE == 11 .and. status%MPI_TAG == 42, 31)
  call need(queries == 1 .and. releases == 1 .and. cancellations == 1 .and. request == MPI_REQUEST_NULL, 32)

  call MPI_Comm_free(comm)
  call need(deletions == 6, 33)
  call representations
  call MPI_Barrier(MPI_COMM_WORLD)
  if (rank == 0) print '(a)', 'all good'
  call MPI_Finalize()
contains
  ! The program's functions get sections of arrays as contiguous elements. What is not read stays as it was.
  subroutine representations
    type(MPI_File) :: file
    type(MPI_Status) :: status
    integer :: values(12), mode, code, i
    integer(MPI_ADDRESS_KIND) :: extra
    character(len=200) :: folder, name
    extra = 5
    call MPI_Register_datarep('twice as long', from_file, to_file, twice_as_long, extra)
    call get_environment_variable('TMPDIR', folder)
    if (folder == '') folder = '/tmp'
    call system_clock(i)
    write (name, '(a,a,i0,a,i0)') trim(folder), '/f08_callbacks-', i, '-', rank
    mode = MPI_MODE_RDWR + MPI_MODE_CREATE + MPI_MODE_DELETE_ON_CLOSE
    call MPI_File_open(MPI_COMM_SELF, trim(name), mode, MPI_INFO_NULL, file)
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'twice as long', MPI_INFO_NULL)
    values = [(i, i = 1, 12)]
    call MPI_File_write_at(file, 0_MPI_OFFSET_KIND, values(1:12:3), 4, MPI_INTEGER, status, code)
    call need(code == MPI_SUCCESS, 40)
    values = -1
    call MPI_File_read_at(file, 1_MPI_OFFSET_KIND, values(12:1:-2), 6, MPI_INTEGER, status, code)
    call need(code == MPI_SUCCESS .and. all(values == [-1, -1, -1, -1, -1, -1, -1, 10, -1, 7, -1, 4]), 41)
    call MPI_Get_count(status, MPI_INTEGER, code)
    call need(code == 3, 42)
    call MPI_File_close(file)
  end subroutine
  subroutine need(is_right, number)
    logical, intent(in) :: is_right
    integer, intent(in) :: number
    if (.not. is_right) then
      print *, 'rank', rank, 'check', number, 'failed'
      call MPI_Abort(MPI_COMM_WORLD, number)
    end if
  end subroutine
end program

subroutine outside_of_any_module(invec, inoutvec, len, datatype)
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  type(c_ptr), value :: invec, inoutvec
  integer :: len
  type(MPI_Datatype) :: datatype
  integer, pointer :: earlier(:), later(:)
  if (datatype /= MPI_INTEGER) call MPI_Abort(MPI_COMM_WORLD, 97)
  call c_f_pointer(invec, earlier, [len])
  call c_f_pointer(inoutvec, later, [len])
  later = later + earlier
end subroutine
