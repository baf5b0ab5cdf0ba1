/* Prints the results of one-sided operations, in each kind of window and with each kind of synchronization. For tasks of one host, because
   one kind of window is shared memory. */
#include "say.h"

enum { ROOM = 24 };

#ifdef LARGE
typedef MPI_Aint unit_of;
#else
typedef int unit_of;
#endif

static int left, right, got[ROOM];
static const MPI_Comm world = MPI_COMM_WORLD;

static void fill(int *memory) {
    for (int at = 0; at < ROOM; at++)
        memory[at] = rank * 100 + at, got[at] = -at;
}

static void say(const char *what, const int *memory) {
    SAY("%s: %lx, got %lx", what, digest(memory, sizeof(int) * ROOM), digest(got, sizeof got));
}

/* Every operation, under MPI_Win_lock_all. */
static void operations(MPI_Win win, int *memory) {
    int numbers[4] = {rank, rank + 1, 7, 9}, before = -1, zero = 0;
    MPI_Request request;
#define FINISH (MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_Win_flush(right, win))
    MPI_Barrier(world), MPI_Win_lock_all(0, win), fill(memory), MPI_Win_sync(win), MPI_Barrier(world);
    F(MPI_Put)(numbers, 4, MPI_INT, right, 0, 4, MPI_INT, win), MPI_Win_flush_local(right, win);
    F(MPI_Rput)(numbers, 2, MPI_INT, right, 4, 2, MPI_INT, win, &request), FINISH;
    F(MPI_Accumulate)(numbers, 3, MPI_INT, right, 6, 3, MPI_INT, MPI_SUM, win), MPI_Win_flush_all(win);
    F(MPI_Raccumulate)(numbers, 3, MPI_INT, right, 9, 3, MPI_INT, MPI_MAX, win, &request), FINISH;
    F(MPI_Get_accumulate)(numbers, 2, MPI_INT, got, 2, MPI_INT, right, 12, 2, MPI_INT, MPI_BXOR, win), MPI_Win_flush(right, win);
    F(MPI_Rget_accumulate)(numbers, 2, MPI_INT, got + 2, 2, MPI_INT, right, 14, 2, MPI_INT, MPI_REPLACE, win, &request), FINISH;
    MPI_Fetch_and_op(numbers + 3, &before, MPI_INT, right, 16, MPI_PROD, win), MPI_Win_flush(right, win);
    MPI_Compare_and_swap(numbers + 2, &zero, got + 5, MPI_INT, right, 17, win), MPI_Win_flush_local_all(win);
    MPI_Win_flush_all(win), MPI_Barrier(world);
    F(MPI_Get)(got + 6, 4, MPI_INT, right, 0, 4, MPI_INT, win), MPI_Win_flush(right, win);
    F(MPI_Rget)(got + 10, 4, MPI_INT, right, 8, 4, MPI_INT, win, &request), FINISH;
    MPI_Barrier(world), MPI_Win_unlock_all(win), MPI_Barrier(world);
    got[4] = before, say("under a lock of all", memory);
}

/* Each kind of synchronization. */
static void epochs(MPI_Win win, int *memory) {
    MPI_Group all, to, from;
    int value = rank + 50, flag = 0;
    MPI_Comm_group(world, &all), MPI_Group_incl(all, 1, &right, &to), MPI_Group_incl(all, 1, &left, &from);
    MPI_Barrier(world), fill(memory), MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    F(MPI_Put)(&value, 1, MPI_INT, right, 3, 1, MPI_INT, win), MPI_Win_fence(0, win);
    F(MPI_Get)(got, 1, MPI_INT, right, 3, 1, MPI_INT, win), MPI_Win_fence(MPI_MODE_NOSUCCEED, win), say("fence", memory);
    MPI_Win_post(from, 0, win), MPI_Win_start(to, 0, win);
    F(MPI_Put)(&value, 1, MPI_INT, right, 5, 1, MPI_INT, win), MPI_Win_complete(win), MPI_Win_wait(win), say("wait", memory);
    MPI_Win_post(from, 0, win), MPI_Win_start(to, 0, win);
    F(MPI_Accumulate)(&value, 1, MPI_INT, right, 6, 1, MPI_INT, MPI_SUM, win), MPI_Win_complete(win);
    while (!flag)
        MPI_Win_test(win, &flag);
    say("test", memory), MPI_Barrier(world);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win), F(MPI_Put)(&value, 1, MPI_INT, right, 9, 1, MPI_INT, win), MPI_Win_unlock(right, win);
    MPI_Barrier(world), MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win), say("lock", memory), MPI_Win_unlock(rank, win);
    MPI_Group_free(&all), MPI_Group_free(&to), MPI_Group_free(&from);
}

static int copied, deleted;
static int copy(MPI_Win win, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)win, (void)keyval, (void)extra, (void)in, (void)out, copied++, *flag = 0;
    return MPI_SUCCESS;
}
static int forget(MPI_Win win, int keyval, void *value, void *extra) {
    (void)win, (void)keyval, (void)extra, deleted += (int)(MPI_Aint)value;
    return MPI_SUCCESS;
}
static int heard;
static void hear(MPI_Win *win, int *code, ...) { (void)win, heard = class_of(*code); }

static void objects(MPI_Win win) {
    MPI_Group group;
    MPI_Info info;
    MPI_Errhandler handler, found;
    char name[MPI_MAX_OBJECT_NAME];
    int members, length, keyval, flag, *model, *flavor;
    void *value;
    MPI_Win_get_group(win, &group), MPI_Group_size(group, &members), SAY("of %d", members), MPI_Group_free(&group);
    MPI_Win_get_name(win, name, &length), SAY("no name %d", length);
    MPI_Win_set_name(win, "a window"), MPI_Win_get_name(win, name, &length), SAY("now %s, %d", name, length);
    MPI_Info_create(&info), MPI_Info_set(info, "no_locks", "false"), SAY("info set %d", MPI_Win_set_info(win, info)), MPI_Info_free(&info);
    MPI_Win_get_info(win, &info), MPI_Info_get_nkeys(info, &length), SAY("info is one %d", length >= 0), MPI_Info_free(&info);
    MPI_Win_create_keyval(copy, forget, &keyval, NULL), MPI_Win_set_attr(win, keyval, (void *)5), MPI_Win_get_attr(win, keyval, &value, &flag);
    SAY("attribute %d %d", flag, (int)(MPI_Aint)value), MPI_Win_set_attr(win, keyval, (void *)6), MPI_Win_delete_attr(win, keyval);
    MPI_Win_get_attr(win, keyval, &value, &flag), SAY("deleted %d, there %d, copied %d", deleted, flag, copied), MPI_Win_free_keyval(&keyval);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag), SAY("model %d %d", flag, *model == MPI_WIN_UNIFIED);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag), SAY("flavor %d %d", flag, *flavor);
    MPI_Win_create_errhandler(hear, &handler), MPI_Win_set_errhandler(win, handler), MPI_Win_call_errhandler(win, MPI_ERR_ARG);
    MPI_Win_get_errhandler(win, &found), SAY("heard %d, same %d", heard, found == handler), MPI_Errhandler_free(&found);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN), MPI_Errhandler_free(&handler);
    SAY("as an integer %d", MPI_Win_fromint(MPI_Win_toint(win)) == win);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    int own[ROOM], *memory, *next;
    MPI_Aint bytes, start, starts[16];
    unit_of unit;
    left = (rank + size - 1) % size, right = (rank + 1) % size;
    F(MPI_Win_create)(own, sizeof own, sizeof(int), MPI_INFO_NULL, world, &win), operations(win, own), epochs(win, own), objects(win);
    MPI_Win_free(&win), SAY("freed %d", win == MPI_WIN_NULL);
    F(MPI_Win_allocate)(sizeof own, sizeof(int), MPI_INFO_NULL, world, &memory, &win), operations(win, memory), epochs(win, memory), objects(win);
    MPI_Win_free(&win);
    F(MPI_Win_allocate_shared)(sizeof own, sizeof(int), MPI_INFO_NULL, world, &memory, &win), operations(win, memory), epochs(win, memory), objects(win);
    F(MPI_Win_shared_query)(win, right, &bytes, &unit, &next), SAY("shared: %ld bytes by %d, %lx", (long)bytes, (int)unit, digest(next, sizeof own));
    MPI_Barrier(world), MPI_Win_free(&win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, world, &win), MPI_Win_attach(win, own, sizeof own), fill(own);
    MPI_Get_address(own, &start), MPI_Allgather(&start, 1, MPI_AINT, starts, 1, MPI_AINT, world);
    MPI_Win_fence(0, win), F(MPI_Put)(&rank, 1, MPI_INT, right, MPI_Aint_add(starts[right], 8), 1, MPI_INT, win), MPI_Win_fence(0, win);
    say("dynamic", own), objects(win), MPI_Win_detach(win, own), MPI_Win_free(&win);
    fflush(stdout);
    return end();
}
