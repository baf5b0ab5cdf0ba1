/* Sends that are open at once: nobody receives before all have been started. A valid program may start as many as there is memory for
   (MPI 5.0, 3.5: a lack of resources is the only limit), and buffers that are only read may be in several sends. The arguments
   are the numbers of short and of long sends. Prints the memory that a send takes at its sender and at its receiver. */
#include "check.h"

/* At most so many bytes a send at either end; counted from so many sends on, since the first ones fill the buffers between the tasks. */
enum { BYTES_MAX = 300, COUNTED_MIN = 500000 };
enum { DATA = 1, GO = 2, LONG = 5000 };

static int *values;
static MPI_Request *requests;
static long at_first;

typedef int start_call(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

/* Starts `sends` messages of `words` integers. Each overlaps the next, so that every message has other data. */
static void start_all(start_call *start, int sends, int words, int to) {
    for (int i = 0; i < sends; i++)
        CHECK(start(&values[i], words, MPI_INT, to, DATA, MPI_COMM_WORLD, &requests[i]) == MPI_SUCCESS);
}

static void receive_all(int sends, int words, int from) {
    static int got[LONG];
    for (int i = 0; i < sends; i++) {
        CHECK(MPI_Recv(got, words, MPI_INT, from, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(got[0] == i && got[words - 1] == i + words - 1);
    }
}

/* Each task, or only the first, sends to the next one. A task receives when the one before has started all of its sends. */
static void run(const char *name, start_call *start, int sends, int words, int only_first) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Request go;
    MPI_Barrier(MPI_COMM_WORLD);
    if (!only_first || rank == 0) {
        start_all(start, sends, words, next);
        MPI_Isend(NULL, 0, MPI_INT, next, GO, MPI_COMM_WORLD, &go);
    }
    if (!only_first || before == 0)
        CHECK(MPI_Recv(NULL, 0, MPI_INT, before, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    if (!only_first || rank == 0 || before == 0) {
        /* What earlier sends used is used again: all growth since the start counts. */
        long bytes = (resident() - at_first) / sends;
        printf("%s, %d from %s, rank %d: %ld bytes each\n", name, sends, only_first ? "one task" : "all tasks", rank, bytes);
        fflush(stdout);
        if (sends >= COUNTED_MIN)
            CHECK(bytes <= BYTES_MAX * (only_first && size > 1 ? 1 : 2));
    }
    if (!only_first || before == 0)
        receive_all(sends, words, before);
    if (!only_first || rank == 0) {
        CHECK(MPI_Wait(&go, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(MPI_Waitall(sends, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int shorts = argc > 1 ? atoi(argv[1]) : 1000, longs = argc > 2 ? atoi(argv[2]) : 1000;
    int count = shorts > longs ? shorts : longs;
    CHECK(shorts > 0 && longs > 0);
    values = malloc((count + LONG) * sizeof *values);
    requests = malloc(count * sizeof *requests);
    CHECK(values != NULL && requests != NULL);
    for (int i = 0; i < count + LONG; i++)
        values[i] = i;
    memset(requests, 0, count * sizeof *requests);
    MPI_Barrier(MPI_COMM_WORLD);
    at_first = resident();
    for (int only_first = 1; only_first >= 0; only_first--) {
        run("MPI_Isend of 4 B", MPI_Isend, shorts, 1, only_first);
        run("MPI_Issend of 4 B", MPI_Issend, shorts, 1, only_first);
        run("MPI_Isend of 20 kB", MPI_Isend, longs, LONG, only_first);
    }
    free(values);
    free(requests);
    return end();
}
