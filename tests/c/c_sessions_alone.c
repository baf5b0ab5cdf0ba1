/* After MPI_Finalize one task has a session, and the other tasks have none and end: no task waits for another. */
#include "check.h"

int main(int argc, char **argv) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int sum = -1;
    begin(&argc, &argv);
    MPI_Finalize();
    if (rank != 0)
        return 0;
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    CHECK(MPI_Group_from_session_pset(session, "mpi://SELF", &group) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_from_group(group, "alone", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    CHECK(MPI_Allreduce(&size, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == size);
    MPI_Group_free(&group), MPI_Comm_free(&comm), MPI_Session_finalize(&session);
    printf("all good\n");
    return 0;
}
