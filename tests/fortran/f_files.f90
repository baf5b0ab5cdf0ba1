! Files and a data representation of the program (MPI 5.0 sections 14.4 and 14.5.3): an integer has 8 bytes in the file, its number and the
! extra state.
module conversions
  use mpi
  implicit none
contains
  subroutine extent_of(datatype, extent, extra, ierror)
    integer :: datatype, ierror, bytes
    integer(MPI_ADDRESS_KIND) :: extent, extra
    call MPI_Type_size(datatype, bytes, ierror)
    extent = 2 * bytes
    if (extra /= 77) ierror = MPI_ERR_OTHER
  end subroutine
  subroutine read_them(user, datatype, count, file, position, extra, ierror)
    integer :: user(*), file(*), datatype, count, ierror, at
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra
    ierror = MPI_SUCCESS
    if (datatype /= MPI_INTEGER) ierror = MPI_ERR_TYPE
    do at = 1, count
      if (file(2 * at) /= extra) ierror = MPI_ERR_OTHER
      user(int(position) + at) = file(2 * at - 1)
    end do
  end subroutine
  subroutine write_them(user, datatype, count, file, position, extra, ierror)
    integer :: user(*), file(*), datatype, count, ierror, at
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra
    ierror = MPI_SUCCESS
    if (datatype /= MPI_INTEGER) ierror = MPI_ERR_TYPE
    do at = 1, count
      file(2 * at - 1) = user(int(position) + at)
      file(2 * at) = int(extra)
    end do
  end subroutine
end module

program files
  use mpi
  use conversions
  implicit none
  integer :: ierror, rank, size, file, mode, numbers(5), back(5), plain(2), request, status(MPI_STATUS_SIZE), count
  integer(MPI_OFFSET_KIND) :: offset, start
  integer(MPI_ADDRESS_KIND) :: extra, extent
  character(len=200) :: folder, name
  character(len=MPI_MAX_DATAREP_STRING) :: representation
  integer :: etype, filetype

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  extra = 77
  call MPI_Register_datarep('doubled', read_them, write_them, extent_of, extra, ierror)
  if (ierror /= MPI_SUCCESS) call wrong('registering')
  call MPI_Register_datarep('doubled', read_them, MPI_CONVERSION_FN_NULL, extent_of, extra, ierror)
  if (ierror /= MPI_ERR_DUP_DATAREP) call wrong('registering twice')
  call get_environment_variable('TMPDIR', folder)
  if (folder == '') folder = '/tmp'
  if (rank == 0) write (name, '(a,a,i0)') trim(folder), '/f_files-', getpid()
  call MPI_Bcast(name, 200, MPI_CHARACTER, 0, MPI_COMM_WORLD, ierror)
  mode = MPI_MODE_RDWR + MPI_MODE_CREATE + MPI_MODE_DELETE_ON_CLOSE
  call MPI_File_open(MPI_COMM_WORLD, trim(name), mode, MPI_INFO_NULL, file, ierror)
  if (ierror /= MPI_SUCCESS) call wrong('opening')
  start = 0
  call MPI_File_set_view(file, start, MPI_INTEGER, MPI_INTEGER, 'doubled', MPI_INFO_NULL, ierror)
  if (ierror /= MPI_SUCCESS) call wrong('the view')
  call MPI_File_get_view(file, offset, etype, filetype, representation, ierror)
  if (representation /= 'doubled') call wrong('the name of the representation')
  call MPI_File_get_type_extent(file, MPI_INTEGER, extent, ierror)
  if (extent /= 8) call wrong('the extent')
  numbers = [1, 2, 3, 4, 5] + 10 * rank
  offset = 5 * rank
  call MPI_File_iwrite_at(file, offset, numbers, 5, MPI_INTEGER, request, ierror)
  call MPI_Wait(request, status, ierror)
  call MPI_Get_count(status, MPI_INTEGER, count, ierror)
  if (count /= 5) call wrong('the count')
  back = 0
  call MPI_File_read_at(file, offset, back, 5, MPI_INTEGER, status, ierror)
  if (ierror /= MPI_SUCCESS .or. any(back /= numbers)) call wrong('the numbers')
  call MPI_File_set_view(file, start, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierror)
  offset = 10 * rank + 2
  call MPI_File_iread_at(file, offset, plain, 2, MPI_INTEGER, request, ierror)
  call MPI_Wait(request, status, ierror)
  if (any(plain /= [numbers(2), 77])) call wrong('the bytes')
  call MPI_File_close(file, ierror)
  if (ierror /= MPI_SUCCESS .or. file /= MPI_FILE_NULL) call wrong('closing')
  if (rank == 0) print '(a)', 'all good'
  call MPI_Finalize(ierror)
contains
  subroutine wrong(what)
    character(len=*), intent(in) :: what
    print *, 'wrong: ', what, rank
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine
end program
