/* Hints: an inquiry returns those that the library knows, with their defaults, and never those that it ignores (MPI 5.0 sections 7.4.4,
   11.4.3 and 12.2.7). */
#include "check.h"

/* Whether an info object has this value for a key; a null value: whether it does not have the key. Frees the object. */
static int has(MPI_Info info, const char *key, const char *value) {
    char found[MPI_MAX_INFO_VAL] = "";
    int flag, length = sizeof found;
    MPI_Info_get_string(info, key, &length, found, &flag);
    MPI_Info_free(&info);
    return value ? flag && !strcmp(found, value) : !flag;
}

static MPI_Info of_comm(MPI_Comm comm) {
    MPI_Info info;
    MPI_Comm_get_info(comm, &info);
    return info;
}

static MPI_Info of_win(MPI_Win win) {
    MPI_Info info;
    MPI_Win_get_info(win, &info);
    return info;
}

static MPI_Info of_session(MPI_Session session) {
    MPI_Info info;
    MPI_Session_get_info(session, &info);
    return info;
}

static MPI_Info hint(const char *key, const char *value) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    return info;
}

static const char kinds[] = "mpi_memory_alloc_kinds", there[] = "mpi,system", tag[] = "mpi_assert_no_any_tag";

static void check_communicators(void) {
    MPI_Comm comm, same;
    MPI_Info bogus = hint("bogus", "1"), no_tag = hint(tag, "true"), wrong = hint(tag, "perhaps"), gpu = hint(kinds, "cuda:device");
    CHECK(has(of_comm(MPI_COMM_WORLD), kinds, there) && has(of_comm(MPI_COMM_SELF), kinds, there));
    CHECK(has(of_comm(MPI_COMM_WORLD), tag, "false"));
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, bogus, &comm);
    CHECK(has(of_comm(comm), "bogus", NULL));
    MPI_Comm_set_info(comm, bogus), MPI_Comm_set_info(comm, wrong), MPI_Comm_set_info(comm, gpu);
    CHECK(has(of_comm(comm), "bogus", NULL) && has(of_comm(comm), tag, "false") && has(of_comm(comm), kinds, there));
    MPI_Comm_set_info(comm, no_tag);
    CHECK(has(of_comm(comm), tag, "true") && has(of_comm(comm), "mpi_assert_exact_length", "false"));
    /* A duplicate does not inherit hints. */
    MPI_Comm_dup(comm, &same);
    CHECK(has(of_comm(same), tag, "false") && has(of_comm(same), kinds, there));
    MPI_Comm_free(&same);
    MPI_Comm_free(&comm);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, bogus, &comm);
    CHECK(has(of_comm(comm), "bogus", NULL));
    MPI_Comm_free(&comm);
    MPI_Info_free(&bogus), MPI_Info_free(&no_tag), MPI_Info_free(&wrong), MPI_Info_free(&gpu);
}

static void check_windows(void) {
    MPI_Win win;
    char *base;
    MPI_Info bogus = hint("bogus", "1"), no_locks = hint("no_locks", "true"), order = hint("accumulate_ordering", " waw,rar");
    MPI_Win_allocate(8, 1, bogus, MPI_COMM_WORLD, &base, &win);
    CHECK(has(of_win(win), "bogus", NULL) && has(of_win(win), "no_locks", "false"));
    CHECK(has(of_win(win), "accumulate_ordering", "rar,raw,war,waw"));
    CHECK(has(of_win(win), kinds, there));
    MPI_Win_set_info(win, bogus), MPI_Win_set_info(win, order);
    CHECK(has(of_win(win), "bogus", NULL) && has(of_win(win), "accumulate_ordering", "rar,waw"));
    MPI_Win_free(&win);
    MPI_Win_allocate(8, 1, no_locks, MPI_COMM_WORLD, &base, &win);
    CHECK(has(of_win(win), "no_locks", "true") && has(of_win(win), "same_size", "false"));
    MPI_Win_free(&win);
    MPI_Info_free(&bogus), MPI_Info_free(&no_locks), MPI_Info_free(&order);
}

static void check_sessions(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Info gpu = hint(kinds, "system,cuda:device");
    MPI_Info_set(gpu, "bogus", "1");
    MPI_Session_init(gpu, MPI_ERRORS_RETURN, &session);
    CHECK(has(of_session(session), kinds, there) && has(of_session(session), "bogus", NULL));
    CHECK(has(of_session(session), "thread_level", "MPI_THREAD_MULTIPLE"));
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "hints", gpu, MPI_ERRORS_RETURN, &comm);
    CHECK(has(of_comm(comm), kinds, there) && has(of_comm(comm), "bogus", NULL));
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    MPI_Info_free(&gpu);
}

int main(int argc, char **argv) {
    MPI_Info empty;
    begin(&argc, &argv);
    check_communicators();
    check_windows();
    check_sessions();
    /* A value may be empty (MPI 5.0 chapter 10 limits only its length). */
    MPI_Info_create(&empty);
    CHECK(MPI_Info_set(empty, "key", "") == MPI_SUCCESS);
    char value[8] = "old";
    int flag, length = 8;
    MPI_Info_get_valuelen(empty, "key", &length, &flag);
    CHECK(flag && length == 0);
    length = 8;
    MPI_Info_get_string(empty, "key", &length, value, &flag);
    CHECK(flag && length == 1 && value[0] == '\0');
    MPI_Info_free(&empty);
    return end();
}
