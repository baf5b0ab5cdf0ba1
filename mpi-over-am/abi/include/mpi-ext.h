/* mpi-ext.h: functions beyond the MPI standard. The name of the file, of the macros that programs test, and of the functions are those of
 * Open MPI.
 *
 * User-level failure mitigation (ULFM): a program goes on after tasks have failed, if its job does: mpiexec --with-ft ulfm, amrun
 * --keep-going. Calls that need a failed task return MPIX_ERR_PROC_FAILED, through the error handler of their communicator.
 *
 * The build script reads the constants and the prototypes as those of mpi.h.
 */
#ifndef MPI_EXT_H_INCLUDED
#define MPI_EXT_H_INCLUDED

#include <mpi.h>

/* Programs test these macros. */
#define OMPI_HAVE_MPI_EXT 1
#define OMPI_HAVE_MPI_EXT_FTMPI 1
#define OMPI_HAVE_MPIX_COMM_GET_FAILED 1
#define OMPI_HAVE_MPIX_COMM_ACK_FAILED 1
#define OMPI_HAVE_MPIX_COMM_ISHRINK 1
#define MPIX_HAVE_FT 1

#ifdef __cplusplus
extern "C" {
#endif

/* Error classes, apart from those of the standard's binary interface and from those of MPI_Add_error_class. */
enum {
    MPIX_ERR_PROC_FAILED = 16300,
    MPIX_ERR_PROC_FAILED_PENDING = 16301,
    MPIX_ERR_REVOKED = 16302
};

/* An attribute of every communicator: 1 if the job goes on after failures, else 0. */
enum {
    MPIX_FT = 16310
};

/* extension prototypes begin */
int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int *num_acked);
int MPIX_Comm_agree(MPI_Comm comm, int *bits);
int MPIX_Comm_failure_ack(MPI_Comm comm);
int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *failedgrp);
int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group *failedgrp);
int MPIX_Comm_iagree(MPI_Comm comm, int *bits, MPI_Request *request);
int MPIX_Comm_is_revoked(MPI_Comm comm, int *flag);
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request);
int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);
/* extension prototypes end */

/* The build adds here: the same functions by the names that a profiling layer calls (PMPIX_). */

#ifdef __cplusplus
}
#endif

#endif
