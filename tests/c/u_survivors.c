/* What survivors of a failure get (mpi-ext.h): 4 tasks under mpiexec --with-ft ulfm, of which task 3 is killed. */
#include "check.h"
#include <mpi-ext.h>
#include <signal.h>
#include <unistd.h>

/* Programs for Open MPI ask for these functions before they use them. */
#if !OMPI_HAVE_MPI_EXT_FTMPI || !OMPI_HAVE_MPIX_COMM_GET_FAILED || !OMPI_HAVE_MPIX_COMM_ACK_FAILED || !OMPI_HAVE_MPIX_COMM_ISHRINK
#error "a macro of mpi-ext.h is missing"
#endif

enum { VICTIM = 3, SURVIVORS = 3, LONG = 1 << 20 };

static char bytes[LONG];

static int size_of_group(MPI_Group group) {
    int members;
    MPI_Group_size(group, &members);
    return members;
}

/* Checks that a group has the victim and nobody else. */
static void only_victim(MPI_Group group) {
    MPI_Group world;
    int first = 0, found = -1;
    CHECK(size_of_group(group) == 1);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_translate_ranks(group, 1, &first, world, &found);
    CHECK(found == VICTIM);
    MPI_Group_free(&world);
}

/* All survivors are here. */
static void meet(void) {
    for (int other = 0; other < SURVIVORS; other++)
        if (other != rank)
            CHECK(MPI_Sendrecv(NULL, 0, MPI_INT, other, 99, NULL, 0, MPI_INT, other, 99, MPI_COMM_WORLD,
                               MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

static void before_failures(int goes_on) {
    const int classes[3] = {MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED};
    const char *names[3] = {"MPIX_ERR_PROC_FAILED:", "MPIX_ERR_PROC_FAILED_PENDING:", "MPIX_ERR_REVOKED:"};
    int added, code, bits, flag, compared, *attribute;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm shrunk;
    MPI_Group group;
    MPI_Request request;
    CHECK(MPI_Add_error_class(&added) == MPI_SUCCESS);
    for (int each = 0; each < 3; each++) {
        CHECK(classes[each] > MPI_ERR_ABI && classes[each] <= MPI_ERR_LASTCODE && classes[each] < added);
        CHECK(class_of(classes[each]) == classes[each]);
        CHECK(MPI_Error_string(classes[each], text, &flag) == MPI_SUCCESS);
        CHECK(strncmp(text, names[each], strlen(names[each])) == 0);
        CHECK(MPI_Add_error_code(classes[each], &code) == MPI_SUCCESS && class_of(code) == classes[each]);
    }
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_FT, &attribute, &flag) == MPI_SUCCESS);
    CHECK(flag && *attribute == goes_on);
    CHECK(MPIX_Comm_is_revoked(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && !flag);
    CHECK(MPIX_Comm_get_failed(MPI_COMM_WORLD, &group) == MPI_SUCCESS && size_of_group(group) == 0);
    MPI_Group_free(&group);
    bits = ~(1 << rank);
    CHECK(MPIX_Comm_agree(MPI_COMM_WORLD, &bits) == MPI_SUCCESS && bits == ~0xf);
    bits = 0xff & ~(1 << rank);
    CHECK(PMPIX_Comm_iagree(MPI_COMM_WORLD, &bits, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && bits == 0xf0);
    CHECK(MPIX_Comm_ishrink(MPI_COMM_WORLD, &shrunk, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Comm_compare(MPI_COMM_WORLD, shrunk, &compared) == MPI_SUCCESS && compared == MPI_CONGRUENT);
    CHECK(MPI_Barrier(shrunk) == MPI_SUCCESS);
    MPI_Comm_free(&shrunk);
}

/* The victim is dead. Operations that need it end with an error, also those that were posted before; others do not. */
static void messages(MPI_Request posted, MPI_Request any, MPI_Request exchange, int *from_any) {
    int number = rank, got = -1, from_next = -1, flag = 0, next = (rank + 1) % SURVIVORS, before = (rank + 2) % SURVIVORS;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Status status;
    MPI_Message message;
    FAILS(MPI_Wait(&posted, &status), MPIX_ERR_PROC_FAILED);
    CHECK(posted == MPI_REQUEST_NULL);
    int code = MPI_Recv(&got, 1, MPI_INT, VICTIM, 5, MPI_COMM_WORLD, &status);
    FAILS(code, MPIX_ERR_PROC_FAILED);
    CHECK(MPI_Error_string(code, text, &flag) == MPI_SUCCESS);
    CHECK(strstr(text, "task 3 ") != NULL && strstr(text, "rank 3 of MPI_COMM_WORLD") != NULL);
    FAILS(MPI_Send(&number, 1, MPI_INT, VICTIM, 5, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Ssend(&number, 1, MPI_INT, VICTIM, 5, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Send(bytes, LONG, MPI_CHAR, VICTIM, 5, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Probe(VICTIM, 5, MPI_COMM_WORLD, &status), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Iprobe(VICTIM, 5, MPI_COMM_WORLD, &flag, &status), MPIX_ERR_PROC_FAILED);
    CHECK(MPI_Sendrecv(&number, 1, MPI_INT, next, 6, &got, 1, MPI_INT, before, 6, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
    CHECK(got == before);
    CHECK(MPI_Sendrecv(&number, 1, MPI_INT, next, 6, &got, 1, MPI_INT, before, 6, MPI_COMM_WORLD, &status) == MPI_SUCCESS);

    /* From any source: a posted receive stays, until the failure is acknowledged. */
    FAILS(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &status), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Probe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &status), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Mprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &message, &status), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Wait(&any, &status), MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(any != MPI_REQUEST_NULL);
    FAILS(MPI_Test(&any, &flag, &status), MPIX_ERR_PROC_FAILED_PENDING);
    FAILS(MPI_Waitany(1, &any, &got, &status), MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(any != MPI_REQUEST_NULL);
    FAILS(MPI_Waitall(1, &any, &status), MPI_ERR_IN_STATUS);
    CHECK(class_of(status.MPI_ERROR) == MPIX_ERR_PROC_FAILED_PENDING && any != MPI_REQUEST_NULL);
    CHECK(MPI_Recv(&got, 1, MPI_INT, before, 17, MPI_COMM_WORLD, &status) == MPI_SUCCESS && got == before);
    FAILS(MPI_Wait(&exchange, &status), MPIX_ERR_PROC_FAILED_PENDING);
    FAILS(MPI_Test(&exchange, &flag, &status), MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(exchange != MPI_REQUEST_NULL);
    /* A complete operation comes before one in doubt. */
    MPI_Request several[2] = {any, MPI_REQUEST_NULL};
    CHECK(MPI_Isend(&number, 1, MPI_INT, next, 18, MPI_COMM_WORLD, &several[1]) == MPI_SUCCESS);
    CHECK(MPI_Recv(&got, 1, MPI_INT, before, 18, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
    CHECK(MPI_Waitany(2, several, &got, &status) == MPI_SUCCESS && got == 1 && several[1] == MPI_REQUEST_NULL);
    CHECK(MPI_Irecv(&from_next, 1, MPI_INT, next, 18, MPI_COMM_WORLD, &several[1]) == MPI_SUCCESS);
    CHECK(MPI_Send(&number, 1, MPI_INT, before, 18, MPI_COMM_WORLD) == MPI_SUCCESS);
    meet();
    CHECK(MPI_Testany(2, several, &got, &flag, &status) == MPI_SUCCESS && flag && got == 1 && from_next == next);
    FAILS(MPI_Testany(2, several, &got, &flag, &status), MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(several[0] == any);
    MPI_Group group;
    int acked = -1;
    CHECK(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &group) == MPI_SUCCESS && size_of_group(group) == 0);
    CHECK(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 0, &acked) == MPI_SUCCESS && acked == 0);
    CHECK(MPIX_Comm_get_failed(MPI_COMM_WORLD, &group) == MPI_SUCCESS);
    only_victim(group);
    MPI_Group_free(&group);
    FAILS(MPIX_Comm_ack_failed(MPI_COMM_WORLD, -1, &acked), MPI_ERR_ARG);
    CHECK(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 1, &acked) == MPI_SUCCESS && acked == 1);
    CHECK(MPIX_Comm_failure_ack(MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &group) == MPI_SUCCESS);
    only_victim(group);
    MPI_Group_free(&group);
    CHECK(MPI_Test(&any, &flag, &status) == MPI_SUCCESS && !flag);
    CHECK(MPI_Test(&exchange, &flag, &status) == MPI_SUCCESS && !flag);
    meet();
    CHECK(MPI_Send(&number, 1, MPI_INT, next, 16, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Wait(&exchange, &status) == MPI_SUCCESS && status.MPI_SOURCE == before);
    CHECK(MPI_Send(&number, 1, MPI_INT, next, 7, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Wait(&any, &status) == MPI_SUCCESS && *from_any == before && status.MPI_SOURCE == before);
}

/* Collectives end at all tasks. An agreement tells of the failure until all have acknowledged it. */
static void collectives(MPI_Comm comm) {
    int number = 1, sum = 0, bits;
    MPI_Request request;
    MPI_Comm copy;
    FAILS(MPI_Barrier(comm), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, comm), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Bcast(bytes, LONG, MPI_CHAR, 0, comm), MPIX_ERR_PROC_FAILED);
    int code = MPI_Iallreduce(&number, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
    FAILS(code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code, MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Comm_dup(comm, &copy), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Comm_split(comm, 0, rank, &copy), MPIX_ERR_PROC_FAILED);
    bits = ~(1 << rank);
    FAILS(MPIX_Comm_agree(comm, &bits), MPIX_ERR_PROC_FAILED);
    CHECK(bits == ~7);
    if (rank != 1)
        MPIX_Comm_failure_ack(comm);
    bits = 1;
    FAILS(MPIX_Comm_agree(comm, &bits), MPIX_ERR_PROC_FAILED);
    MPIX_Comm_failure_ack(comm);
    bits = 3;
    CHECK(MPIX_Comm_agree(comm, &bits) == MPI_SUCCESS && bits == 3);
    bits = 5;
    CHECK(MPIX_Comm_iagree(comm, &bits, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && bits == 5);
}

/* Task 0 revokes: operations under way end at all tasks, and only agree, shrink and the questions work afterwards. */
static void revoked(MPI_Comm comm) {
    int got, flag = 0, bits = 6, sum = 0, number = 1, members;
    MPI_Request receive, send, persistent;
    MPI_Comm shrunk, copy;
    MPI_Group group;
    char text[MPI_MAX_ERROR_STRING];
    CHECK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &receive) == MPI_SUCCESS);
    CHECK(MPI_Isend(bytes, LONG, MPI_CHAR, (rank + 1) % SURVIVORS, 2, comm, &send) == MPI_SUCCESS);
    CHECK(MPI_Recv_init(&got, 1, MPI_INT, (rank + 1) % SURVIVORS, 3, comm, &persistent) == MPI_SUCCESS);
    meet();
    if (rank == 0)
        CHECK(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
    else if (rank == 1)
        FAILS(MPI_Recv(&got, 1, MPI_INT, 0, 4, comm, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    else
        FAILS(MPI_Send(bytes, LONG, MPI_CHAR, 0, 4, comm), MPIX_ERR_REVOKED);
    FAILS(MPI_Wait(&receive, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Wait(&send, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Start(&persistent), MPIX_ERR_REVOKED);
    CHECK(MPI_Request_free(&persistent) == MPI_SUCCESS);
    FAILS(MPI_Barrier(comm), MPIX_ERR_REVOKED);
    FAILS(MPI_Comm_dup(comm, &copy), MPIX_ERR_REVOKED);
    FAILS(MPI_Irecv(&got, 1, MPI_INT, 0, 1, comm, &receive), MPIX_ERR_REVOKED);
    int code = MPI_Send(&number, 1, MPI_INT, 0, 1, comm);
    FAILS(code, MPIX_ERR_REVOKED);
    CHECK(MPI_Error_string(code, text, &flag) == MPI_SUCCESS && strstr(text, "shrink") != NULL);
    CHECK(MPIX_Comm_is_revoked(comm, &flag) == MPI_SUCCESS && flag);
    CHECK(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
    MPIX_Comm_failure_ack(comm);
    CHECK(MPIX_Comm_agree(comm, &bits) == MPI_SUCCESS && bits == 6);
    CHECK(MPIX_Comm_get_failed(comm, &group) == MPI_SUCCESS);
    only_victim(group);
    MPI_Group_free(&group);
    CHECK(MPIX_Comm_shrink(comm, &shrunk) == MPI_SUCCESS);
    CHECK(MPIX_Comm_is_revoked(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && !flag);
    MPI_Comm_size(shrunk, &members);
    CHECK(members == SURVIVORS);
    for (int round = 0; round < 20; round++) {
        CHECK(MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, shrunk) == MPI_SUCCESS && sum == SURVIVORS);
        CHECK(MPI_Bcast(bytes, LONG, MPI_CHAR, 0, shrunk) == MPI_SUCCESS);
    }
    CHECK(MPI_Comm_dup(shrunk, &copy) == MPI_SUCCESS && MPI_Barrier(copy) == MPI_SUCCESS);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&shrunk);
}

int main(int argc, char **argv) {
    MPI_Comm early, other;
    MPI_Request posted = MPI_REQUEST_NULL, any = MPI_REQUEST_NULL, exchange = MPI_REQUEST_NULL;
    int from_victim = -1, from_any = -1, from_exchange = -1, failed;
    begin(&argc, &argv);
    CHECK(size == SURVIVORS + 1);
    before_failures(argc == 1);
    MPI_Comm_dup(MPI_COMM_WORLD, &early);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    for (int round = 0; round < 20; round++)
        CHECK(MPI_Barrier(early) == MPI_SUCCESS);
    CHECK(MPI_Irecv(&from_any, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &any) == MPI_SUCCESS);
    CHECK(MPI_Irecv(&from_victim, 1, MPI_INT, VICTIM, 5, MPI_COMM_WORLD, &posted) == MPI_SUCCESS);
    if (rank != VICTIM)
        CHECK(MPI_Isendrecv(&rank, 1, MPI_INT, (rank + 1) % SURVIVORS, 17, &from_exchange, 1, MPI_INT, MPI_ANY_SOURCE, 16,
                            MPI_COMM_WORLD, &exchange) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == VICTIM)
        raise(SIGKILL);
    do {
        MPI_Group group;
        MPIX_Comm_get_failed(MPI_COMM_WORLD, &group);
        failed = size_of_group(group);
        MPI_Group_free(&group);
    } while (failed == 0);
    meet();
    messages(posted, any, exchange, &from_any);
    collectives(early);
    revoked(other);
    MPI_Comm_free(&early);
    MPI_Comm_free(&other);
    meet();
    if (rank == 0)
        printf("all good\n");
    CHECK(MPI_Finalize() == MPI_SUCCESS);
    return 0;
}
