! Datatypes: a structure by addresses, rows of a matrix, a part of an array, contents, packing, external32, kinds of Fortran.
program f_datatypes
  use mpi
  implicit none
  type particle
    sequence
    double precision :: x(3)
    integer :: kind
    logical :: charged
  end type
  type(particle) :: sent, received
  integer :: rank, tasks, next, before, ierr, struct, row, part, kind, i, j, size, many, addresses, types, combiner, place
  integer :: integers(3), contents(1), matrix(4, 5), other(4, 5), count, status(MPI_STATUS_SIZE), lengths(3), kinds(3)
  integer(MPI_ADDRESS_KIND) :: places(3), lower, extent, base, external
  character(len=64) :: bytes
  character(len=MPI_MAX_OBJECT_NAME) :: name
  integer(selected_int_kind(12)) :: wide

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, tasks, ierr)
  next = mod(rank + 1, tasks)
  before = mod(rank + tasks - 1, tasks)

  call MPI_Get_address(sent%x, places(1), ierr)
  call MPI_Get_address(sent%kind, places(2), ierr)
  call MPI_Get_address(sent%charged, places(3), ierr)
  base = places(1)
  places = places - base
  lengths = [3, 1, 1]
  kinds = [MPI_DOUBLE_PRECISION, MPI_INTEGER, MPI_LOGICAL]
  call MPI_Type_create_struct(3, lengths, places, kinds, struct, ierr)
  call MPI_Type_commit(struct, ierr)
  call MPI_Type_get_extent(struct, lower, extent, ierr)
  call need(lower == 0 .and. extent == 32, 1)
  sent = particle([rank + 0.5d0, 2d0, 3d0], rank, mod(rank, 2) == 0)
  call MPI_Sendrecv(sent, 1, struct, next, 1, received, 1, struct, before, 1, MPI_COMM_WORLD, status, ierr)
  call need(received%x(1) == before + 0.5d0 .and. received%x(3) == 3d0 .and. received%kind == before, 2)
  call need(received%charged .eqv. mod(before, 2) == 0, 3)
  call MPI_Get_elements(status, struct, count, ierr)
  call need(count == 5, 4)

  ! The elements of a row of a matrix are as far apart as a column is long.
  matrix = reshape([(100 * rank + i, i = 1, 20)], [4, 5])
  other = 0
  call MPI_Type_vector(5, 1, 4, MPI_INTEGER, row, ierr)
  call MPI_Type_commit(row, ierr)
  call MPI_Sendrecv(matrix(3, 1), 1, row, next, 2, other(2, 1), 1, row, before, 2, MPI_COMM_WORLD, status, ierr)
  call need(all(other(2, :) == [(100 * before + 3 + 4 * i, i = 0, 4)]) .and. all(other(1, :) == 0), 5)
  call MPI_Type_get_envelope(row, many, addresses, types, combiner, ierr)
  call need(many == 3 .and. addresses == 0 .and. types == 1 .and. combiner == MPI_COMBINER_VECTOR, 6)
  call MPI_Type_get_contents(row, many, addresses, types, integers, places, contents, ierr)
  call need(all(integers == [5, 1, 4]) .and. contents(1) == MPI_INTEGER, 7)
  call MPI_Type_set_name(row, 'a row', ierr)
  call MPI_Type_get_name(row, name, size, ierr)
  call need(name == 'a row' .and. size == 5, 8)

  ! A part of an array, in Fortran's order, with indices from 0.
  call MPI_Type_create_subarray(2, [4, 5], [2, 2], [1, 3], MPI_ORDER_FORTRAN, MPI_INTEGER, part, ierr)
  call MPI_Type_commit(part, ierr)
  other = 0
  call MPI_Sendrecv(matrix, 1, part, next, 3, other, 1, part, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  do j = 1, 5
    do i = 1, 4
      count = 0
      if (i >= 2 .and. i <= 3 .and. j >= 4) count = 100 * before + i + 4 * (j - 1)
      call need(other(i, j) == count, 9)
    end do
  end do

  ! Displacements from MPI_BOTTOM.
  call MPI_Get_address(matrix, places(1), ierr)
  call MPI_Type_create_hindexed(1, [20], places, MPI_INTEGER, kind, ierr)
  call MPI_Type_commit(kind, ierr)
  call MPI_Sendrecv(MPI_BOTTOM, 1, kind, next, 4, other, 20, MPI_INTEGER, before, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call need(all(other == matrix + 100 * (before - rank)), 10)
  call MPI_Type_free(kind, ierr)
  call need(kind == MPI_DATATYPE_NULL, 11)

  ! Packing.
  place = 0
  call MPI_Pack(rank, 1, MPI_INTEGER, bytes, len(bytes), place, MPI_COMM_WORLD, ierr)
  call MPI_Pack(sent, 1, struct, bytes, len(bytes), place, MPI_COMM_WORLD, ierr)
  call MPI_Pack_size(1, struct, MPI_COMM_WORLD, size, ierr)
  call need(place <= 4 + size, 12)
  call MPI_Sendrecv_replace(bytes, place, MPI_PACKED, next, 5, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  count = place
  place = 0
  call MPI_Unpack(bytes, count, place, i, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call MPI_Unpack(bytes, count, place, received, 1, struct, MPI_COMM_WORLD, ierr)
  call need(i == before .and. received%kind == before .and. place == count, 13)
  external = 0
  lower = len(bytes)
  call MPI_Pack_external('external32', 258, 1, MPI_INTEGER, bytes, lower, external, ierr)
  call need(external == 4 .and. iachar(bytes(3:3)) == 1 .and. iachar(bytes(4:4)) == 2, 14)

  ! Types by their range and precision.
  call MPI_Type_create_f90_integer(12, kind, ierr)
  wide = 10_8**11 * (rank + 1)
  call MPI_Bcast(wide, 1, kind, tasks - 1, MPI_COMM_WORLD, ierr)
  call need(wide == 10_8**11 * tasks, 15)
  call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, kind, ierr)
  call MPI_Type_size(kind, size, ierr)
  call need(size == 8, 16)
  do i = 1, 3
    call MPI_Type_size(kinds(i), size, ierr)
    call need(size == merge(8, 4, i == 1), 17)
  end do

  call MPI_Type_free(struct, ierr)
  call MPI_Type_free(row, ierr)
  call MPI_Type_free(part, ierr)
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
