! A program as a compiler makes it with mpif.h of another MPI library: that library's numbers and common blocks. MPICH's, or with
! -DOPEN_MPI Open MPI's.
program other_abi
    implicit none
#ifdef OPEN_MPI
    integer, parameter :: MPI_STATUS_SIZE = 6, MPI_SOURCE = 1, MPI_TAG = 2
    integer, parameter :: MPI_COMM_WORLD = 0, MPI_INTEGER = 7, MPI_DOUBLE_PRECISION = 17, MPI_SUM = 3, MPI_MAX = 1
    integer, parameter :: MPI_REQUEST_NULL = 0, MPI_COMM_NULL = 2, MPI_ANY_SOURCE = -1, MPI_ANY_TAG = -1, MPI_PROC_NULL = -2
    integer :: MPI_BOTTOM, MPI_IN_PLACE, MPI_STATUS_IGNORE(MPI_STATUS_SIZE), MPI_STATUSES_IGNORE(MPI_STATUS_SIZE, 1)
    common /mpi_fortran_bottom/ MPI_BOTTOM
    common /mpi_fortran_in_place/ MPI_IN_PLACE
    common /mpi_fortran_status_ignore/ MPI_STATUS_IGNORE
    common /mpi_fortran_statuses_ignore/ MPI_STATUSES_IGNORE
#else
    integer, parameter :: MPI_STATUS_SIZE = 5, MPI_SOURCE = 3, MPI_TAG = 4
    integer, parameter :: MPI_COMM_WORLD = 1140850688, MPI_INTEGER = 1275069467, MPI_DOUBLE_PRECISION = 1275070495
    integer, parameter :: MPI_SUM = 1476395011, MPI_MAX = 1476395009
    integer, parameter :: MPI_REQUEST_NULL = 738197504, MPI_COMM_NULL = 67108864
    integer, parameter :: MPI_ANY_SOURCE = -2, MPI_ANY_TAG = -1, MPI_PROC_NULL = -1
    integer :: MPI_BOTTOM, MPI_IN_PLACE, MPI_STATUS_IGNORE(MPI_STATUS_SIZE)
    integer :: MPI_STATUSES_IGNORE(MPI_STATUS_SIZE, 1), MPI_ERRCODES_IGNORE(1)
    common /mpipriv1/ MPI_BOTTOM, MPI_IN_PLACE, MPI_STATUS_IGNORE
    common /mpipriv2/ MPI_STATUSES_IGNORE, MPI_ERRCODES_IGNORE
#endif
    integer :: rank, tasks, next, before, code, made, kind, requests(2), numbers(6), found, i
    ! The status is not at the address of a longer number.
    integer :: first, status(MPI_STATUS_SIZE)
    common /place/ first, status
    double precision :: total(2)
    character(len=64) :: name
    integer :: length
    logical :: flag

    call mpi_init(code)
    call mpi_comm_rank(MPI_COMM_WORLD, rank, code)
    call mpi_comm_size(MPI_COMM_WORLD, tasks, code)
    next = mod(rank + 1, tasks)
    before = mod(rank + tasks - 1, tasks)

    total = [dble(rank), 1d0]
    call mpi_allreduce(MPI_IN_PLACE, total, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
    call check(code == 0 .and. total(1) == tasks * (tasks - 1) / 2d0 .and. total(2) == tasks, 1)

    call mpi_comm_dup(MPI_COMM_WORLD, made, code)
    call mpi_type_vector(3, 1, 2, MPI_INTEGER, kind, code)
    call mpi_type_commit(kind, code)
    numbers = [(100 * rank + i, i = 1, 6)]
    call mpi_sendrecv(numbers, 1, kind, next, 7, numbers(2), 1, kind, MPI_ANY_SOURCE, MPI_ANY_TAG, made, status, code)
    call check(code == 0 .and. status(MPI_SOURCE) == before .and. status(MPI_TAG) == 7, 2)
    call check(all(numbers(2:6:2) == [100 * before + 1, 100 * before + 3, 100 * before + 5]), 3)
    call mpi_get_count(status, MPI_INTEGER, found, code)
    call check(found == 3, 4)
    call mpi_type_free(kind, code)

    call mpi_irecv(found, 1, MPI_INTEGER, before, 8, made, requests(1), code)
    call mpi_isend(rank, 1, MPI_INTEGER, next, 8, made, requests(2), code)
    call mpi_waitall(2, requests, MPI_STATUSES_IGNORE, code)
    call check(code == 0 .and. found == before .and. all(requests == MPI_REQUEST_NULL), 5)
    call mpi_recv(found, 1, MPI_INTEGER, MPI_PROC_NULL, 9, made, MPI_STATUS_IGNORE, code)
    call check(code == 0, 6)
    call mpi_iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, made, flag, status, code)
    call check(.not. flag, 7)

    call mpi_comm_set_name(made, 'from Fortran', code)
    call mpi_comm_get_name(made, name, length, code)
    call check(length == 12 .and. name == 'from Fortran', 8)
    call mpi_comm_free(made, code)
    call check(made == MPI_COMM_NULL, 9)
    call mpi_reduce(rank, found, 1, MPI_INTEGER, MPI_MAX, 0, MPI_COMM_WORLD, code)
    call check(rank /= 0 .or. found == tasks - 1, 10)
    if (rank == 0) print '(a)', 'all good'
    call mpi_finalize(code)

contains

    subroutine check(is_right, place)
        logical, intent(in) :: is_right
        integer, intent(in) :: place
        if (is_right) return
        print '(a, i0, a, i0)', 'wrong at place ', place, ', rank ', rank
        call mpi_abort(MPI_COMM_WORLD, 1, code)
    end subroutine check
end program other_abi
