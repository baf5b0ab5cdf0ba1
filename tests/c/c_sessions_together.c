/* Several threads make the first calls of MPI at the same time: MPI starts once, and all threads get a session. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 8 };
static pthread_barrier_t together;

static void *one(void *number) {
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Group group;
    int many = -1, *made = number;
    pthread_barrier_wait(&together);
    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS)
        return NULL;
    if (MPI_Group_from_session_pset(session, "mpi://SELF", &group) == MPI_SUCCESS)
        MPI_Group_size(group, &many), MPI_Group_free(&group);
    pthread_barrier_wait(&together);
    *made = MPI_Session_finalize(&session) == MPI_SUCCESS && many == 1;
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    int made[THREADS] = {0}, all = 0;
    pthread_barrier_init(&together, NULL, THREADS);
    for (int at = 0; at < THREADS; at++)
        pthread_create(&threads[at], NULL, one, &made[at]);
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL), all += made[at];
    /* The thread that calls MPI_Init is the main thread, although another one may have started MPI. */
    int is_main = 0;
    MPI_Init(NULL, NULL);
    MPI_Is_thread_main(&is_main);
    all += !is_main;
    MPI_Finalize();
    printf(all == THREADS ? "all good\n" : "%d sessions only\n", all);
    return all != THREADS;
}
