/* Windows: results of calls with assertions, attributes and attached memory. */
#include "check.h"
#include <stdint.h>

static MPI_Win win;

/* Each assertion is accepted in the calls for which the standard allows it, and refused in all others. */
static void assertions(void) {
    int *memory, right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Group world, to, from;
    MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK(MPI_Win_fence(MPI_MODE_NOPRECEDE | MPI_MODE_NOSTORE | MPI_MODE_NOPUT, win) == MPI_SUCCESS);
    CHECK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win) == MPI_SUCCESS);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &right, &to);
    MPI_Group_incl(world, 1, &left, &from);
    FAILS(MPI_Win_post(from, MPI_MODE_NOPRECEDE, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_post(from, MPI_MODE_NOSUCCEED, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_start(to, MPI_MODE_NOSTORE, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, right, MPI_MODE_NOPUT, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_lock_all(1, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_fence(-1, win), MPI_ERR_ASSERT);
    CHECK(MPI_Win_post(from, MPI_MODE_NOSTORE | MPI_MODE_NOPUT, win) == MPI_SUCCESS);
    CHECK(MPI_Win_start(to, 0, win) == MPI_SUCCESS);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_Win_lock(MPI_LOCK_SHARED, right, MPI_MODE_NOCHECK, win) == MPI_SUCCESS);
    MPI_Win_unlock(right, win);
    CHECK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win) == MPI_SUCCESS);
    MPI_Win_unlock_all(win);
    MPI_Group_free(&world), MPI_Group_free(&to), MPI_Group_free(&from);
    MPI_Win_free(&win);
}

static void *base_of(MPI_Win of) {
    void *base = &base;
    int flag;
    MPI_Win_get_attr(of, MPI_WIN_BASE, &base, &flag);
    CHECK(flag);
    return base;
}

/* The base of a window without memory is the address that the program passed, or NULL. */
static void bases(void) {
    char *own = malloc(16), *given = own;
    MPI_Win_create(own, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    CHECK(base_of(win) == own);
    MPI_Win_free(&win);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    CHECK(base_of(win) == NULL);
    MPI_Win_free(&win);
    free(own);
    MPI_Win_allocate(0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &given, &win);
    CHECK(given == NULL && base_of(win) == NULL);
    MPI_Win_free(&win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    CHECK(base_of(win) == MPI_BOTTOM);
    MPI_Win_free(&win);
}

static void shared_bases(void) {
    char *given = (char *)&win, *asked = given;
    MPI_Aint bytes = -1;
    int unit = -1;
    MPI_Win_allocate_shared(0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &given, &win);
    CHECK(given == NULL && base_of(win) == NULL);
    MPI_Win_shared_query(win, 0, &bytes, &unit, &asked);
    CHECK(bytes == 0 && asked == NULL);
    MPI_Win_free(&win);
}

/* An access may extend over several attached pieces that are adjacent. */
static void pieces(void) {
    enum { EACH = 1000 };
    int *memory = malloc(3 * EACH * sizeof(int)), out[2 * EACH], got[2 * EACH];
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int at = 0; at < 3 * EACH; at++)
        memory[at] = -1;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    /* Attaches the middle piece last, so that the pieces are neither in order nor adjacent at first. */
    MPI_Win_attach(win, memory, EACH * sizeof(int));
    MPI_Win_attach(win, memory + 2 * EACH, EACH * sizeof(int));
    MPI_Win_attach(win, memory + EACH, EACH * sizeof(int));
    MPI_Aint own, theirs, far;
    MPI_Get_address(memory, &own);
    MPI_Sendrecv(&own, 1, MPI_AINT, left, 0, &theirs, 1, MPI_AINT, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    far = theirs + EACH / 2 * (MPI_Aint)sizeof(int);
    for (int at = 0; at < 2 * EACH; at++)
        out[at] = 10000 * rank + at;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win);
    CHECK(MPI_Put(out, 2 * EACH, MPI_INT, right, far, 2 * EACH, MPI_INT, win) == MPI_SUCCESS);
    CHECK(MPI_Win_flush(right, win) == MPI_SUCCESS);
    CHECK(MPI_Get(got, 2 * EACH, MPI_INT, right, far, 2 * EACH, MPI_INT, win) == MPI_SUCCESS);
    CHECK(MPI_Win_flush(right, win) == MPI_SUCCESS);
    CHECK(memcmp(out, got, sizeof out) == 0);
    CHECK(MPI_Accumulate(out, 2 * EACH, MPI_INT, right, far, 2 * EACH, MPI_INT, MPI_SUM, win) == MPI_SUCCESS);
    CHECK(MPI_Win_flush(right, win) == MPI_SUCCESS);
    CHECK(MPI_Get_accumulate(out, 2 * EACH, MPI_INT, got, 2 * EACH, MPI_INT, right, far, 2 * EACH, MPI_INT, MPI_BXOR, win) ==
        MPI_SUCCESS);
    CHECK(MPI_Win_flush(right, win) == MPI_SUCCESS);
    for (int at = 0; at < 2 * EACH; at++)
        CHECK(got[at] == 2 * out[at]);
    /* A strided target, elements of which lie in all three pieces. */
    MPI_Datatype every;
    MPI_Type_vector(30, 50, 100, MPI_INT, &every);
    MPI_Type_commit(&every);
    CHECK(MPI_Get(got, 1500, MPI_INT, right, theirs, 1, every, win) == MPI_SUCCESS);
    CHECK(MPI_Win_flush(right, win) == MPI_SUCCESS);
    CHECK(got[0] == -1 && got[250] == ((10000 * rank) * 2 ^ (10000 * rank)));
    /* There is no memory beyond the last piece. */
    FAILS(MPI_Put(out, 2 * EACH, MPI_INT, right, far + EACH * (MPI_Aint)sizeof(int), 2 * EACH, MPI_INT, win), MPI_ERR_RMA_RANGE);
    MPI_Win_unlock(right, win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(memory[0] == -1 && memory[EACH / 2 - 1] == -1 && memory[5 * EACH / 2] == -1);
    for (int at = 0; at < 2 * EACH; at++)
        CHECK(memory[EACH / 2 + at] == ((10000 * left + at) * 2 ^ (10000 * left + at)));
    /* Without the middle piece, the first and the last piece are not adjacent. */
    MPI_Win_detach(win, memory + EACH);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
    FAILS(MPI_Get(got, 2 * EACH, MPI_INT, right, far, 2 * EACH, MPI_INT, win), MPI_ERR_RMA_RANGE);
    MPI_Win_unlock(right, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_detach(win, memory), MPI_Win_detach(win, memory + 2 * EACH);
    MPI_Win_free(&win);
    MPI_Type_free(&every);
    free(memory);
}

/* Elements that are partly in one piece and partly in the next. */
static void straddling(void) {
    long memory[4] = {1, 2, 3, 4}, add[4] = {10, 20, 30, 40}, was[4], now[4];
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Aint own, theirs;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, memory, 12);
    MPI_Win_attach(win, (char *)memory + 12, 4);
    MPI_Win_attach(win, (char *)memory + 16, 16);
    MPI_Get_address(memory, &own);
    MPI_Sendrecv(&own, 1, MPI_AINT, left, 0, &theirs, 1, MPI_AINT, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_fence(0, win);
    MPI_Accumulate(add, 4, MPI_LONG, right, theirs, 4, MPI_LONG, MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Get_accumulate(add, 4, MPI_LONG, was, 4, MPI_LONG, right, theirs, 4, MPI_LONG, MPI_BXOR, win);
    MPI_Win_fence(0, win);
    MPI_Get(now, 4, MPI_LONG, right, theirs, 4, MPI_LONG, win);
    MPI_Win_fence(0, win);
    for (int at = 0; at < 4; at++)
        CHECK(was[at] == 11 * (at + 1) && now[at] == (was[at] ^ add[at]));
    MPI_Win_detach(win, memory), MPI_Win_detach(win, (char *)memory + 12), MPI_Win_detach(win, (char *)memory + 16);
    MPI_Win_free(&win);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    assertions();
    bases();
    shared_bases();
    pieces();
    straddling();
    return end();
}
