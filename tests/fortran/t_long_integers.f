C     Compiled with integers of 8 bytes, of which mpif.h cannot know.
      program longintegers
      include 'mpif.h'
      integer ierror
      call MPI_Init(ierror)
      call MPI_Finalize(ierror)
      end
