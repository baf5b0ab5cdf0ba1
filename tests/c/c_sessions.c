/* Sessions before MPI_Init, between MPI_Init and MPI_Finalize, during MPI_Finalize, and afterwards (MPI 5.0 section 11.3); at the end the
 * tool interface. With LATE no session is open when MPI_Finalize is called: MPI ends then, and starts again. */
#include "check.h"

static MPI_Session begun(void) {
    MPI_Session session;
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    return session;
}

/* All tasks use a communicator of a session. */
static void used(MPI_Session session, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    int own, count, sum, from = -1;
    static char out[100000], in[100000];
    CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    MPI_Comm_rank(comm, &own), MPI_Comm_size(comm, &count);
    CHECK(MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == count * (count - 1) / 2);
    memset(out, own + 1, sizeof out);
    CHECK(MPI_Sendrecv(out, sizeof out, MPI_BYTE, (own + 1) % count, 3, in, sizeof in, MPI_BYTE, (own + count - 1) % count, 3, comm,
                       MPI_STATUS_IGNORE) == MPI_SUCCESS);
    from = (own + count - 1) % count;
    CHECK(in[0] == from + 1 && in[sizeof in - 1] == from + 1);
    MPI_Barrier(comm), MPI_Comm_free(&comm), MPI_Group_free(&group);
    rank = own, size = count;
}

static void ended(MPI_Session session) {
    CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS && session == MPI_SESSION_NULL);
}

static void is(int initialized, int finalized) {
    int flag;
    CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && flag == initialized);
    CHECK(MPI_Finalized(&flag) == MPI_SUCCESS && flag == finalized);
}

int main(int argc, char **argv) {
    int level, number;
    is(0, 0);
    MPI_Session first = begun(), second;
    used(first, "first"), is(0, 0);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &number), is(1, 0);
    CHECK(MPI_Query_thread(&level) == MPI_SUCCESS && level == number);
    second = begun(), used(second, "second"), used(first, "first again"), ended(second);
#ifdef LATE
    ended(first);
    MPI_Finalize(), is(1, 1);
#else
    MPI_Finalize(), is(1, 1);
    used(first, "after the end"), ended(first);
#endif
    first = begun(), used(first, "later"), is(1, 1);
    second = begun(), ended(first), used(second, "later still"), ended(second);
    for (int times = 0; times < 30; times++)
        ended(begun());
    /* One task alone, for which no other task waits. */
    if (rank == 0)
        ended(begun());
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level) == MPI_SUCCESS && MPI_T_pvar_get_num(&number) == MPI_SUCCESS && number > 0);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    if (rank == 0)
        printf("all good\n");
    return 0;
}
