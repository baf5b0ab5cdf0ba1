! Sections of arrays as buffers of the module mpi_f08 (MPI 5.0 section 19.1.12): MPI_SUBARRAYS_SUPPORTED is true, so each call takes a section
! whose elements lie apart as if it were contiguous, and count and datatype describe that contiguous buffer.
program f08_sections
  use mpi_f08
  implicit none
  integer :: rank, tasks, next, before, i, j, root, count
  type(MPI_Request) :: requests(4), request
  type(MPI_Status) :: status
  type(MPI_Datatype) :: pair, every_other
  type(MPI_Message) :: message
  integer, asynchronous :: a(60), b(60), m(6, 8), n(6, 8), cube(4, 5, 6), other(4, 5, 6)
  double precision, asynchronous :: d(40), e(40)
  complex :: z(10)
  real :: parts(10)
  character(len=3) :: words(6), others(6)
  type point
    sequence
    integer :: x, y, z
  end type
  type(point), asynchronous :: points(10)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, tasks)
  next = mod(rank + 1, tasks)
  before = mod(rank + tasks - 1, tasks)
  call need(MPI_SUBARRAYS_SUPPORTED .and. MPI_ASYNC_PROTECTS_NONBLOCKING, 1)

  ! Blocking, both sides, with different strides; the elements between stay.
  a = [(1000 * rank + i, i = 1, 60)]
  b = -1
  call MPI_Sendrecv(a(2:60:3), 20, MPI_INTEGER, next, 1, b(1:40:2), 20, MPI_INTEGER, before, 1, MPI_COMM_WORLD, status)
  call need(all(b(1:40:2) == [(1000 * before + i, i = 2, 60, 3)]), 2)
  call need(all(b(2:60:2) == -1) .and. all(b(41:) == -1), 3)
  call MPI_Get_count(status, MPI_INTEGER, count)
  call need(count == 20 .and. status%MPI_SOURCE == before .and. status%MPI_TAG == 1, 4)

  ! Backwards, and a part of what the section has.
  b = -1
  call MPI_Irecv(b(60:1:-4), 15, MPI_INTEGER, before, 2, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(a(50:1:-5), 7, MPI_INTEGER, next, 2, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call need(all(b(60:36:-4) == [(1000 * before + i, i = 50, 20, -5)]), 5)
  call need(count_of(b, -1) == 53, 6)

  ! Two dimensions, non-blocking; the section is a temporary descriptor that ends with the statement.
  do j = 1, 8
    m(:, j) = [(1000 * rank + 10 * i + j, i = 1, 6)]
  end do
  n = -1
  call MPI_Irecv(n(2:5, 1:7:3), 12, MPI_INTEGER, before, 3, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(m(1:6:2, 2:8:2), 12, MPI_INTEGER, next, 3, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call need(all(reshape(n(2:5, 1:7:3), [12]) == reshape(m(1:6:2, 2:8:2), [12]) - 1000 * rank + 1000 * before), 7)
  call need(count_of(reshape(n, [48]), -1) == 36, 8)

  ! Three dimensions, a long message: its sender and its receiver copy it in pieces.
  do i = 1, 6
    cube(:, :, i) = reshape([(10000 * rank + 100 * i + j, j = 1, 20)], [4, 5])
  end do
  other = -1
  call MPI_Isend(cube(1:4:3, :, 6:1:-2), 30, MPI_INTEGER, next, 4, MPI_COMM_WORLD, requests(1))
  call MPI_Mprobe(before, 4, MPI_COMM_WORLD, message, status)
  call MPI_Mrecv(other(2:3, 5:1:-1, 1:6:2), 30, MPI_INTEGER, message, status)
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
  call need(all(other(2:3, 5:1:-1, 1:6:2) == cube(1:4:3, :, 6:1:-2) - 10000 * rank + 10000 * before), 9)
  call need(count_of(reshape(other, [120]), -1) == 90, 10)
  call long_messages

  ! A datatype describes the contiguous buffer that the section stands for: pairs, and every other element of it.
  call MPI_Type_contiguous(2, MPI_INTEGER, pair)
  call MPI_Type_commit(pair)
  call MPI_Type_vector(5, 1, 2, MPI_INTEGER, every_other)
  call MPI_Type_commit(every_other)
  b = -1
  call MPI_Sendrecv(a(1:60:4), 1, every_other, next, 5, b(3:60:3), 3, pair, before, 5, MPI_COMM_WORLD, status)
  call MPI_Get_elements(status, pair, count)
  call need(count == 5, 11)
  b = -1
  call MPI_Sendrecv(a(1:60:4), 2, pair, next, 5, b(3:60:3), 2, pair, before, 5, MPI_COMM_WORLD, status)
  call need(all(b(3:12:3) == 1000 * before + [1, 5, 9, 13]) .and. count_of(b, -1) == 56, 12)
  b = -1
  call MPI_Sendrecv(a(1:60:4), 1, every_other, next, 5, b(1:10:2), 5, MPI_INTEGER, before, 5, MPI_COMM_WORLD, status)
  call need(all(b(1:10:2) == 1000 * before + [1, 9, 17, 25, 33]), 13)

  ! A part of each element of a derived type, a part of complex numbers, and characters.
  points = point(rank, -1, -1)
  call MPI_Sendrecv(points%x, 10, MPI_INTEGER, next, 6, points%z, 10, MPI_INTEGER, before, 6, MPI_COMM_WORLD, status)
  call need(all(points%z == before) .and. all(points%y == -1) .and. all(points%x == rank), 14)
  z = cmplx(1., real(rank))
  call MPI_Sendrecv(z%im, 10, MPI_REAL, next, 7, parts, 10, MPI_REAL, before, 7, MPI_COMM_WORLD, status)
  call need(all(parts == real(before)), 15)
  words = [character(len=3) :: 'abc', 'def', 'ghi', 'jkl', 'mno', 'pqr']
  others = '---'
  call MPI_Sendrecv(words(1:6:2), 9, MPI_CHARACTER, next, 8, others(6:2:-2), 9, MPI_CHARACTER, before, 8, &
    MPI_COMM_WORLD, status)
  call need(all(others == [character(len=3) :: '---', 'mno', '---', 'ghi', '---', 'abc']), 16)
  others = '---'
  call MPI_Sendrecv(words(:)(2:2), 6, MPI_CHARACTER, next, 8, others(:)(3:3), 6, MPI_CHARACTER, before, 8, &
    MPI_COMM_WORLD, status)
  call need(all(others == [character(len=3) :: '--b', '--e', '--h', '--k', '--n', '--q']), 17)

  ! Persistent, partitioned and buffered messages; one buffer for both directions.
  call MPI_Recv_init(b(1:60:6), 10, MPI_INTEGER, before, 9, MPI_COMM_WORLD, requests(1))
  call MPI_Send_init(a(1:60:6), 10, MPI_INTEGER, next, 9, MPI_COMM_WORLD, requests(2))
  do i = 1, 3
    b = -1
    a(1) = i
    call MPI_Startall(2, requests)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call need(b(1) == i .and. b(7) == 1000 * before + 7 .and. count_of(b, -1) == 50, 18)
  end do
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))
  b = -1
  call MPI_Psend_init(a(2:60:2), 3, 5_MPI_COUNT_KIND, MPI_INTEGER, next, 9, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
  call MPI_Precv_init(b(1:60:3), 1, 15_MPI_COUNT_KIND, MPI_INTEGER, before, 9, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
  call MPI_Startall(2, requests)
  call MPI_Pready_range(1, 2, requests(1))
  call MPI_Pready(0, requests(1))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))
  call need(all(b(1:45:3) == 1000 * before + [(i, i = 2, 30, 2)]) .and. count_of(b, -1) == 45, 19)
  b = [(1000 * rank + i, i = 1, 60)]
  call MPI_Sendrecv_replace(b(1:60:2), 30, MPI_INTEGER, next, 9, before, 9, MPI_COMM_WORLD, status)
  call need(all(b(1:60:2) == 1000 * before + [(i, i = 1, 60, 2)]), 20)
  call need(all(b(2:60:2) == 1000 * rank + [(i, i = 2, 60, 2)]), 21)
  call packed

  ! Collectives: buffers of equal parts, of which each begins where the one before ends in the contiguous buffer.
  root = tasks - 1
  d = -1
  if (rank == root) d(1:40:2) = [(dble(i), i = 1, 20)]
  call MPI_Bcast(d(1:40:2), 20, MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD)
  call need(all(d(1:40:2) == [(dble(i), i = 1, 20)]) .and. all(d(2:40:2) == -1), 22)
  d = -1
  if (rank == root) d(40:1:-3) = [(dble(i), i = 1, 14)]
  call MPI_Ibcast(d(40:1:-3), 14, MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call need(all(d(40:1:-3) == [(dble(i), i = 1, 14)]), 23)
  call gathers
  call reductions
  call neighbours
  call windows
  call refused
  call MPI_Type_free(pair)
  call MPI_Type_free(every_other)
  call MPI_Finalize()
  if (rank == 0) print *, 'all good'

contains
  subroutine need(is_right, number)
    logical, intent(in) :: is_right
    integer, intent(in) :: number
    if (.not. is_right) then
      print *, 'rank', rank, 'check', number, 'failed'
      call MPI_Abort(MPI_COMM_WORLD, number)
    end if
  end subroutine

  integer function count_of(list, value)
    integer, intent(in) :: list(:), value
    count_of = count_true(list == value)
  end function

  integer function count_true(list)
    logical, intent(in) :: list(:)
    integer :: place
    count_true = 0
    do place = 1, size(list)
      if (list(place)) count_true = count_true + 1
    end do
  end function

  subroutine long_messages
    integer, allocatable, asynchronous :: long(:, :), back(:, :)
    integer :: column
    type(MPI_Request) :: both(2)
    allocate (long(500, 400), back(500, 400))
    do column = 1, 400
      long(:, column) = [(rank + 1000 * i + column, i = 1, 500)]
    end do
    back = -1
    call MPI_Irecv(back(2:500:2, 400:1:-1), 100000, MPI_INTEGER, before, 11, MPI_COMM_WORLD, both(1))
    call MPI_Isend(long(1:500:2, :), 100000, MPI_INTEGER, next, 11, MPI_COMM_WORLD, both(2))
    call MPI_Waitall(2, both, MPI_STATUSES_IGNORE)
    call need(all(back(2:500:2, 400:1:-1) == long(1:500:2, :) - rank + before), 30)
    call need(all(back(1:500:2, :) == -1), 31)
    ! To a contiguous buffer, with a large count.
    back = -1
    call MPI_Sendrecv(long(:, 2:400:2), 100000_MPI_COUNT_KIND, MPI_INTEGER, next, 12, back, &
      100000_MPI_COUNT_KIND, MPI_INTEGER, before, 12, MPI_COMM_WORLD, status)
    call need(all(reshape(back(:, 1:200), [100000]) == reshape(long(:, 2:400:2), [100000]) - rank + before), 32)
  end subroutine

  subroutine packed
    character(len=1) :: bytes(200)
    integer :: position, size, x(10)
    integer(MPI_ADDRESS_KIND) :: place, len
    call MPI_Pack_size(10, MPI_INTEGER, MPI_COMM_SELF, size)
    call need(size <= 200, 40)
    position = 0
    call MPI_Pack(a(5:60:5), 5, MPI_INTEGER, bytes, 200, position, MPI_COMM_SELF)
    call MPI_Pack(a(9), 1, MPI_INTEGER, bytes, 200, position, MPI_COMM_SELF)
    call need(position == 24, 41)
    position = 0
    x = -1
    call MPI_Unpack(bytes, 200, position, x(10:1:-2), 5, MPI_INTEGER, MPI_COMM_SELF)
    call MPI_Unpack(bytes, 200, position, x(1), 1, MPI_INTEGER, MPI_COMM_SELF)
    call need(all(x(10:1:-2) == a(5:25:5)) .and. x(1) == a(9), 42)
    place = 0
    len = 200
    call MPI_Pack_external('external32', a(1:60:7), 9, MPI_INTEGER, bytes, len, place)
    call need(place == 36 .and. iachar(bytes(8)) == mod(a(8), 256), 43)
    place = 0
    x = -1
    call MPI_Unpack_external('external32', bytes, len, place, x(1:9), 9, MPI_INTEGER)
    call need(all(x(1:9) == a(1:60:7)), 44)
  end subroutine

  subroutine gathers
    integer :: own(8), all_of(8 * tasks * 2), grid(4, 2 * tasks, 2), counts(tasks), places(tasks), k
    integer :: sendtypes(0)
    type(MPI_Datatype) :: types(tasks)
    type(MPI_Request) :: one
    own = [(100 * rank + i, i = 1, 8)]
    all_of = -1
    call MPI_Gather(own(1:8:2), 4, MPI_INTEGER, all_of(1:8 * tasks:2), 4, MPI_INTEGER, root, MPI_COMM_WORLD)
    if (rank == root) then
      call need(all(all_of(1:8 * tasks:2) == [((100 * k + i, i = 1, 8, 2), k = 0, tasks - 1)]), 50)
    end if
    ! Parts that end in the middle of a row of the section: 3 elements each, of rows of 2.
    grid = -1
    call MPI_Allgather(own(8:1:-3), 3, MPI_INTEGER, grid(2:4:2, :, 1), 3, MPI_INTEGER, MPI_COMM_WORLD)
    call need(all(reshape(grid(2:4:2, :, 1), [4 * tasks]) == &
      [((100 * k + i, i = 8, 1, -3), k = 0, tasks - 1), (-1, k = 1, tasks)]), 51)
    ! Only this task's receiving side is a section.
    grid = -1
    call MPI_Iallgather(own, 3, MPI_INTEGER, grid(2:4:2, :, 2), 3, MPI_INTEGER, MPI_COMM_WORLD, one)
    call MPI_Wait(one, MPI_STATUS_IGNORE)
    call need(all(reshape(grid(2:4:2, :, 2), [4 * tasks]) == &
      [((100 * k + i, i = 1, 3), k = 0, tasks - 1), (-1, k = 1, tasks)]), 52)
    ! In place, in a section.
    all_of = -1
    all_of(1 + 4 * rank:4 * rank + 3:2) = own(1:2)
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all_of(1:4 * tasks:2), 2, MPI_INTEGER, MPI_COMM_WORLD)
    call need(all(all_of(1:4 * tasks:2) == [((100 * k + i, i = 1, 2), k = 0, tasks - 1)]), 53)
    ! Counts and displacements are those of the contiguous buffer; the parts come in reverse order.
    counts = [(k, k = 1, tasks)]
    places = [(sum(counts(k + 1:tasks)), k = 1, tasks)]
    grid = -1
    call MPI_Gatherv(own(1:8:2), rank + 1, MPI_INTEGER, grid(1:4:3, :, 2), counts, places, MPI_INTEGER, root, MPI_COMM_WORLD)
    if (rank == root) call need(all(reshape(grid(1:4:3, :, 2), [4 * tasks]) == &
      [((100 * (k - 1) + 2 * i - 1, i = 1, k), k = tasks, 1, -1), (-1, k = 1, 4 * tasks - sum(counts))]), 54)
    grid = -1
    call MPI_Iallgatherv(own, rank + 1, MPI_INTEGER, grid(1:4:3, :, 2), counts, places, MPI_INTEGER, MPI_COMM_WORLD, one)
    call MPI_Wait(one, MPI_STATUS_IGNORE)
    call need(all(reshape(grid(1:4:3, :, 2), [4 * tasks]) == &
      [((100 * (k - 1) + i, i = 1, k), k = tasks, 1, -1), (-1, k = 1, 4 * tasks - sum(counts))]), 55)
    call MPI_Scatterv(grid(1:4:3, :, 2), counts, places, MPI_INTEGER, own(8:1:-1), rank + 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
    call need(all(own(8:8 - rank:-1) == [(100 * rank + i, i = 1, rank + 1)]), 56)
    ! All to all, also with a datatype for each rank.
    grid = -1
    all_of(1:8 * tasks:4) = [((10 * rank + k, i = 1, 2), k = 0, tasks - 1)]
    call MPI_Alltoall(all_of(1:8 * tasks:4), 2, MPI_INTEGER, grid(3:4, :, 1), 2, MPI_INTEGER, MPI_COMM_WORLD)
    call need(all(reshape(grid(3:4, 1:tasks, 1), [2 * tasks]) == [((10 * k + rank, i = 1, 2), k = 0, tasks - 1)]), 57)
    counts = 2
    places = [(8 * (k - 1), k = 1, tasks)]
    types = MPI_INTEGER
    grid = -1
    call MPI_Ialltoallw(all_of(1:8 * tasks:4), counts, places, types, grid(3:4, :, 2), counts, places, types, &
      MPI_COMM_WORLD, one)
    call MPI_Wait(one, MPI_STATUS_IGNORE)
    call need(all(reshape(grid(3:4, 1:tasks, 2), [2 * tasks]) == [((10 * k + rank, i = 1, 2), k = 0, tasks - 1)]), 58)
    grid = 10 * rank
    call MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, grid(1:3:2, 1:tasks, 1), 2, MPI_INTEGER, MPI_COMM_WORLD)
    call need(all(reshape(grid(1:3:2, 1:tasks, 1), [2 * tasks]) == [((10 * k, i = 1, 2), k = 0, tasks - 1)]), 59)
    call need(size(sendtypes) == 0, 60)
  end subroutine

  ! Predefined operations, and one of the program, whose function gets contiguous elements.
  subroutine reductions
    type(MPI_Op) :: own
    type(MPI_Request) :: one
    integer :: k
    d = [(dble(i + rank), i = 1, 40)]
    e = -1
    call MPI_Allreduce(d(1:40:4), e(2:40:4), 10, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    call need(all(e(2:40:4) == [(dble(tasks * i + sum([(k, k = 0, tasks - 1)])), i = 1, 40, 4)]), 70)
    call need(all(e(1:40:4) == -1) .and. all(e(3:40:4) == -1), 71)
    e = d
    call MPI_Allreduce(MPI_IN_PLACE, e(1:40:3), 14, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
    call need(all(e(1:40:3) == [(dble(i + tasks - 1), i = 1, 40, 3)]) .and. e(2) == 2 + rank, 72)
    ! Only one side is a section, and the datatype is that of both.
    e = -1
    call MPI_Reduce(d(40:1:-2), e, 20, MPI_DOUBLE_PRECISION, MPI_MIN, root, MPI_COMM_WORLD)
    if (rank == root) call need(all(e(1:20) == [(dble(i), i = 40, 1, -2)]) .and. all(e(21:) == -1), 73)
    e = -1
    call MPI_Ireduce(d, e(40:21:-1), 20, MPI_DOUBLE_PRECISION, MPI_MIN, root, MPI_COMM_WORLD, one)
    call MPI_Wait(one, MPI_STATUS_IGNORE)
    if (rank == root) call need(all(e(40:21:-1) == [(dble(i), i = 1, 20)]) .and. all(e(1:20) == -1), 74)
    call MPI_Op_create(first, .false., own)
    a = [(rank + i, i = 1, 60)]
    b = -1
    call MPI_Scan(a(1:60:5), b(60:5:-5), 12, MPI_INTEGER, own, MPI_COMM_WORLD)
    call need(all(b(60:5:-5) == [(i, i = 1, 60, 5)]), 75)
    b = -1
    call MPI_Iscan(a(1:60:5), b(60:5:-5), 12, MPI_INTEGER, own, MPI_COMM_WORLD, one)
    call MPI_Wait(one, MPI_STATUS_IGNORE)
    call need(all(b(60:5:-5) == [(i, i = 1, 60, 5)]), 76)
    b = 100
    call MPI_Reduce_local(a(1:60:6), b(1:60:6), 10, MPI_INTEGER, own)
    call need(all(b(1:60:6) == [(rank + i, i = 1, 60, 6)]) .and. b(2) == 100, 77)
    call MPI_Op_free(own)
    b = -1
    call MPI_Reduce_scatter_block(a(1:2 * tasks:2), b(3:3), 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call need(b(3) == sum([(k + 2 * rank + 1, k = 0, tasks - 1)]), 78)
    ! Long ones, which are divided and combined in parts.
    block
      integer, allocatable :: long(:, :), total(:, :)
      allocate (long(3, 100000), total(100000, 2))
      long = reshape([(mod(i, 1000) + rank, i = 1, 300000)], [3, 100000])
      total = -1
      call MPI_Allreduce(long(2, :), total(:, 2), 100000, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
      call need(all(total(:, 2) == tasks * (long(2, :) - rank) + sum([(k, k = 0, tasks - 1)])), 79)
      call MPI_Bcast(long(3:1:-2, :), 200000, MPI_INTEGER, root, MPI_COMM_WORLD)
      call need(all(long(1, :) == [(mod(i, 1000) + root, i = 1, 300000, 3)]), 80)
    end block
  end subroutine

  ! The operation that `reductions` makes: not commutative, the earlier value.
  subroutine first(earlier, later, len, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr), value :: earlier, later
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: x(:), y(:)
    call need(datatype == MPI_INTEGER, 81)
    call c_f_pointer(earlier, x, [len])
    call c_f_pointer(later, y, [len])
    y = x
  end subroutine

  subroutine neighbours
    type(MPI_Comm) :: ring
    integer :: left, right
    integer(MPI_ADDRESS_KIND) :: places(2)
    type(MPI_Datatype) :: types(2)
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [tasks], [.true.], .false., ring)
    call MPI_Cart_shift(ring, 0, 1, left, right)
    b = -1
    a = 100 * rank + [(i, i = 1, 60)]
    call MPI_Neighbor_allgather(a(3:9:3), 3, MPI_INTEGER, b(1:12:2), 3, MPI_INTEGER, ring)
    call need(all(b(1:5:2) == 100 * left + [3, 6, 9]) .and. all(b(7:11:2) == 100 * right + [3, 6, 9]), 90)
    places = [0_MPI_ADDRESS_KIND, 8_MPI_ADDRESS_KIND]
    types = MPI_INTEGER
    b = -1
    call MPI_Neighbor_alltoallw(a(4:10:2), [2, 2], places, types, b(1:10:3), [2, 2], places, types, ring)
    ! What a task sends to its left neighbour arrives there from the right.
    call need(all(b(1:4:3) == 100 * left + [8, 10]) .and. all(b(7:10:3) == 100 * right + [4, 6]), 91)
    call MPI_Comm_free(ring)
  end subroutine

  subroutine windows
    integer, asynchronous :: memory(40)
    integer(MPI_ADDRESS_KIND) :: zero
    type(MPI_Win) :: win
    type(MPI_Request) :: one
    zero = 0
    memory = -1
    call MPI_Win_create(memory, 160_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
    call MPI_Win_fence(0, win)
    a = 100 * rank + [(i, i = 1, 60)]
    call MPI_Put(a(1:60:10), 6, MPI_INTEGER, next, zero, 6, MPI_INTEGER, win)
    call MPI_Win_fence(0, win)
    call need(all(memory(1:6) == 100 * before + [(i, i = 1, 60, 10)]), 92)
    b = -1
    call MPI_Get(b(30:5:-5), 6, MPI_INTEGER, next, zero, 6, MPI_INTEGER, win)
    call MPI_Win_fence(0, win)
    call need(all(b(30:5:-5) == 100 * rank + [(i, i = 1, 60, 10)]), 93)
    call MPI_Accumulate(a(2:60:10), 6, MPI_INTEGER, next, zero, 6, MPI_INTEGER, MPI_SUM, win)
    call MPI_Win_fence(0, win)
    call need(all(memory(1:6) == 200 * before + [(2 * i + 1, i = 1, 60, 10)]), 94)
    call MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win)
    b = -1
    call MPI_Rget_accumulate(a(1:2), 2, MPI_INTEGER, b(7:1:-6), 2, MPI_INTEGER, next, zero, 2, MPI_INTEGER, MPI_NO_OP, win, one)
    call MPI_Wait(one, MPI_STATUS_IGNORE)
    call need(b(7) == 200 * rank + 3 .and. b(1) == 200 * rank + 23, 95)
    call MPI_Win_unlock(next, win)
    call MPI_Win_free(win)
  end subroutine

  ! A section that has fewer elements than the call needs; memory that must be contiguous.
  subroutine refused
    integer :: code, class
    type(MPI_Win) :: win
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
    call MPI_Send(a(1:60:2), 31, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, code)
    call MPI_Error_class(code, class)
    call need(class == MPI_ERR_BUFFER, 100)
    call MPI_Send(a(1:60:2), 30, MPI_DATATYPE_NULL, rank, 0, MPI_COMM_WORLD, code)
    call MPI_Error_class(code, class)
    call need(class == MPI_ERR_TYPE, 101)
    call MPI_Win_create(a(1:60:2), 120_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_SELF, win, code)
    call need(code /= MPI_SUCCESS, 102)
    call MPI_Buffer_attach(a(1:60:2), 120, code)
    call need(code /= MPI_SUCCESS, 103)
  end subroutine
end program
