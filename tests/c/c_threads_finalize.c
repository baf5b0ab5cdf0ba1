/* MPI_Finalize in one thread while another thread of the task has a session: MPI_Finalize waits for the other tasks, and one of these tasks
   calls MPI_Finalize only after the other thread has sent it a message. */
#include "check.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20, SECONDS_MAX = 200 };

static MPI_Comm comm;

static void nap(void) {
    struct timespec time = {0, 50 * 1000000};
    nanosleep(&time, NULL);
}

/* The second thread. The nap gives the first thread the time to enter MPI_Finalize. */
static void *talk(void *nothing) {
    int number, got = -1;
    nap();
    for (number = 0; number < ROUNDS; number++) {
        MPI_Send(&number, 1, MPI_INT, 1, 7, comm);
        MPI_Recv(&got, 1, MPI_INT, 1, 8, comm, MPI_STATUS_IGNORE);
        CHECK(got == number + 100);
    }
    return nothing;
}

int main(int argc, char **argv) {
    int provided, number, got = -1;
    MPI_Session session;
    MPI_Group group;
    pthread_t thread;
    alarm(SECONDS_MAX);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_from_group(group, "all", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    if (size > 1 && rank == 0)
        CHECK(pthread_create(&thread, NULL, talk, NULL) == 0);
    if (size > 1 && rank == 1) {
        for (number = 0; number < ROUNDS; number++) {
            MPI_Recv(&got, 1, MPI_INT, 0, 7, comm, MPI_STATUS_IGNORE);
            got += 100;
            MPI_Send(&got, 1, MPI_INT, 0, 8, comm);
        }
    }
    MPI_Finalize();
    if (size > 1 && rank == 0)
        CHECK(pthread_join(thread, NULL) == 0);
    MPI_Group_free(&group), MPI_Comm_free(&comm), MPI_Session_finalize(&session);
    if (rank == 0)
        printf("all good\n");
    return 0;
}
