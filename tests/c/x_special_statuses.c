/* The variables that mpi.h of MPICH and Open MPI declares: the addresses of Fortran's special statuses (MPI 5.0, 19.3.5). */
#include "check.h"

extern MPI_Fint *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE;
extern void *MPI_F08_STATUS_IGNORE, *MPI_F08_STATUSES_IGNORE;

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(MPI_F_STATUS_IGNORE != NULL && MPI_F_STATUSES_IGNORE != NULL && MPI_F_STATUS_IGNORE != MPI_F_STATUSES_IGNORE);
    CHECK(MPI_F08_STATUS_IGNORE != NULL && MPI_F08_STATUSES_IGNORE != NULL && MPI_F08_STATUS_IGNORE != MPI_F08_STATUSES_IGNORE);
    return end();
}
