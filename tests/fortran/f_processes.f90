! Starting processes: programs and arguments, which lose their blanks, the parents, and error codes. The children are this program.
program f_processes
  use mpi
  implicit none
  integer :: rank, tasks, ierr, parent, inter, merged, everyone, own, total, class, codes(3), numbers(2), infos(2)
  character(len=512) :: self
  character(len=16) :: words(3), table(2, 3), programs_word
  character(len=512) :: programs(2)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, tasks, ierr)
  call MPI_Comm_get_parent(parent, ierr)
  if (parent /= MPI_COMM_NULL) then
    call get_command_argument(2, programs_word)
    if (command_argument_count() /= 2 .or. programs_word /= 'two words') call stop_all(1)
    call talk(parent, .true.)
    call MPI_Finalize(ierr)
    stop
  end if
  call get_command_argument(0, self)
  words = [character(len=16) :: ' child', '  two words', ' ']
  codes = -1
  call MPI_Comm_spawn(' '//self, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, codes, ierr)
  if (ierr /= MPI_SUCCESS .or. any(codes(1:2) /= MPI_SUCCESS) .or. codes(3) /= -1) call stop_all(2)
  call talk(inter, .false.)
  programs = '  '//self
  table(1, :) = words
  table(2, :) = words
  numbers = [1, 2]
  infos = MPI_INFO_NULL
  call MPI_Comm_spawn_multiple(2, programs, table, numbers, infos, 0, MPI_COMM_WORLD, inter, MPI_ERRCODES_IGNORE, ierr)
  if (ierr /= MPI_SUCCESS) call stop_all(3)
  call talk(inter, .false.)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  call MPI_Comm_spawn('/no/such/program', MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, MPI_ERRCODES_IGNORE, ierr)
  call MPI_Error_class(ierr, class, ierr)
  if (class /= MPI_ERR_SPAWN .or. inter /= MPI_COMM_NULL) call stop_all(4)
  if (rank == 0) print '(a)', 'all good'
  call MPI_Finalize(ierr)

contains

  subroutine talk(comm, high)
    integer, intent(inout) :: comm
    logical, intent(in) :: high
    call MPI_Intercomm_merge(comm, high, merged, ierr)
    call MPI_Comm_size(merged, everyone, ierr)
    call MPI_Comm_rank(merged, own, ierr)
    call MPI_Allreduce(own, total, 1, MPI_INTEGER, MPI_SUM, merged, ierr)
    if (total /= everyone * (everyone - 1) / 2) call stop_all(5)
    call MPI_Comm_disconnect(merged, ierr)
    call MPI_Comm_disconnect(comm, ierr)
  end subroutine

  subroutine stop_all(code)
    integer, intent(in) :: code
    print '(a, i0)', 'wrong: ', code
    call MPI_Abort(MPI_COMM_WORLD, code, ierr)
  end subroutine
end program
