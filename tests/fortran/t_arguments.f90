! Calls whose arguments c/t_arguments.c checks.
module functions
  use mpi
  implicit none
contains
  subroutine read_conversion(user, datatype, count, file, position, extra, ierror)
    integer :: user, datatype, count, file, ierror
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra
    if (datatype == MPI_INTEGER) user = file + count + int(position) + int(extra)
    ierror = MPI_SUCCESS
  end subroutine
  subroutine extent_of(datatype, extent, extra, ierror)
    integer :: datatype, ierror
    integer(MPI_ADDRESS_KIND) :: extent, extra
    extent = extra
    if (datatype == MPI_REAL) extent = extent + 1
    ierror = MPI_ERR_OTHER
  end subroutine
  subroutine query(extra, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: status(MPI_STATUS_SIZE), ierror
    status(MPI_TAG) = int(extra)
    ierror = MPI_SUCCESS
  end subroutine
  subroutine let_go(extra, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: ierror
    ierror = MPI_SUCCESS
    if (extra == 9) ierror = MPI_ERR_ARG
  end subroutine
  subroutine cancel(extra, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierror
    ierror = MPI_ERR_OTHER
    if (complete .and. extra == 9) ierror = MPI_SUCCESS
  end subroutine
end module

program t_arguments
  use mpi
  use functions
  implicit none
  integer :: ierr, comm, codes(2), request, count, places(3), nothing(1)
  integer(MPI_ADDRESS_KIND) :: extra
  character(len=5) :: arguments(3), table(2, 3)
  character(len=8) :: commands(2)

  call MPI_Init(ierr)
  arguments = ['-a   ', 'b c  ', '     ']
  codes = 0
  comm = MPI_COMM_WORLD
  call MPI_Comm_spawn('a program  ', arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, comm, codes, ierr)
  if (comm /= MPI_COMM_NULL .or. codes(2) /= 77) print *, 'wrong: what a spawn gives back'
  call MPI_Comm_spawn('a program', MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, comm, MPI_ERRCODES_IGNORE, ierr)
  commands = ['first   ', 'second  ']
  table(1, :) = ['1a   ', '1b   ', '     ']
  table(2, :) = ['2a   ', '     ', 'never']
  call MPI_Comm_spawn_multiple(2, commands, table, [3, 4], [MPI_INFO_NULL, MPI_INFO_ENV], 0, MPI_COMM_WORLD, comm, &
    MPI_ERRCODES_IGNORE, ierr)
  if (comm /= MPI_COMM_SELF .or. ierr /= MPI_SUCCESS) print *, 'wrong: what several spawns give back'
  call MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, [3, 4], [MPI_INFO_NULL, MPI_INFO_ENV], 0, MPI_COMM_WORLD, &
    comm, MPI_ERRCODES_IGNORE, ierr)
  if (ierr /= MPI_ERR_SPAWN) print *, 'wrong: the code of a spawn'

  extra = 9
  call MPI_Register_datarep('reversed', read_conversion, MPI_CONVERSION_FN_NULL, extent_of, extra, ierr)
  if (ierr /= MPI_SUCCESS) print *, 'wrong: the code of a data representation'
  request = 5
  call MPI_Grequest_start(query, let_go, cancel, extra, request, ierr)
  if (request /= MPI_REQUEST_NULL) print *, 'wrong: a request'

  call MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0, ierr)
  nothing = 0
  call MPI_Dist_graph_create(MPI_COMM_WORLD, 0, nothing, nothing, nothing, MPI_UNWEIGHTED, MPI_INFO_NULL, .true., comm, ierr)
  call MPI_Dist_graph_create(MPI_COMM_WORLD, 0, nothing, nothing, nothing, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, .false., comm, &
    ierr)
  call MPI_Gather(MPI_IN_PLACE, 1, MPI_DATATYPE_NULL, MPI_BOTTOM, 2, MPI_REAL8, MPI_ROOT, MPI_COMM_NULL, ierr)
  if (ierr /= MPI_ERR_ROOT) print *, 'wrong: the code of a gather'
  places = 7
  call MPI_Request_get_status_some(3, [MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL], count, places, &
    MPI_STATUSES_IGNORE, ierr)
  if (count /= 2 .or. any(places /= [1, 3, 7])) print *, 'wrong: places count from 1'
  print '(a)', 'all said'
  call MPI_Finalize(ierr)
end program
