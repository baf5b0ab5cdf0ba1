/* Functions beyond the standard ABI: conversions of handles for Fortran, and ten functions of MPI-1 that old programs call. */
#include "check.h"

static int heard;
static void hear(MPI_Comm *comm, int *code, ...) { (void)comm, heard = class_of(*code); }

/* Converts a handle to a number that fits into Fortran's integers, and back. */
#define BACK(kind, handle)                                                                        \
    do {                                                                                          \
        MPI_Fint number = MPI_##kind##_c2f(handle);                                               \
        CHECK(number == (MPI_Fint)(MPI_Aint)(handle) && MPI_##kind##_f2c(number) == (handle));    \
        /* The names for profiling layers are there, too (MPI 5.0 section 15.2). */               \
        CHECK(PMPI_##kind##_c2f(handle) == number && PMPI_##kind##_f2c(number) == (handle));      \
    } while (0)

static void numbers(void) {
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Group group;
    MPI_Info info;
    MPI_Op op = MPI_MAX;
    MPI_Win win;
    MPI_Request request;
    MPI_Session session;
    MPI_Errhandler handler;
    MPI_Message message;
    int value = 0;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    BACK(Comm, comm);
    BACK(Comm, MPI_COMM_WORLD);
    BACK(Comm, MPI_COMM_NULL);
    MPI_Comm_group(comm, &group);
    BACK(Group, group);
    MPI_Group_free(&group);
    MPI_Type_contiguous(2, MPI_INT, &type);
    BACK(Type, type);
    BACK(Type, MPI_DOUBLE_PRECISION);
    MPI_Type_free(&type);
    MPI_Info_create(&info);
    BACK(Info, info);
    MPI_Info_free(&info);
    MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, comm, &win);
    BACK(Win, win);
    MPI_Win_free(&win);
    MPI_Comm_create_errhandler(hear, &handler);
    BACK(Errhandler, handler);
    MPI_Errhandler_free(&handler);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    BACK(Session, session);
    MPI_Session_finalize(&session);
    MPI_Isend(&value, 1, MPI_INT, 0, 0, comm, &request);
    BACK(Request, request);
    MPI_Mprobe(0, 0, comm, &message, MPI_STATUS_IGNORE);
    BACK(Message, message);
    MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_Wait(&request, MPI_STATUS_IGNORE);
    BACK(Op, op);
    BACK(File, MPI_FILE_NULL);
    MPI_Comm_free(&comm);
}

static void names(void) {
    struct { char letter; double number; } pair[2], got[2];
    int lengths[2] = {1, 1};
    MPI_Aint places[2], start, bound, extent;
    MPI_Datatype type, list, types[2] = {MPI_CHAR, MPI_DOUBLE};
    MPI_Handler_function *function = hear;
    MPI_Errhandler handler, found;
    MPI_Comm comm;
    memset(got, 0, sizeof got), memset(pair, 0, sizeof pair);
    for (int at = 0; at < 2; at++)
        pair[at].letter = (char)('a' + at), pair[at].number = 1.5 + at;
    MPI_Address(pair, &start), MPI_Address(&pair[0].letter, &places[0]), MPI_Address(&pair[0].number, &places[1]);
    places[0] -= start, places[1] -= start;
    MPI_Type_struct(2, lengths, places, types, &type), MPI_Type_commit(&type);
    MPI_Type_extent(type, &extent);
    CHECK(extent == sizeof *pair);
    MPI_Type_lb(type, &bound);
    CHECK(bound == 0);
    MPI_Type_ub(type, &bound);
    CHECK(bound == extent);
    MPI_Sendrecv(pair, 2, type, 0, 0, got, 2, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    CHECK(got[1].letter == 'b' && got[1].number == 2.5);
    MPI_Type_hvector(2, 1, sizeof *pair, MPI_CHAR, &list), MPI_Type_extent(list, &extent);
    CHECK(extent == sizeof *pair + 1);
    MPI_Type_free(&list);
    MPI_Type_hindexed(2, lengths, places, MPI_CHAR, &list), MPI_Type_ub(list, &bound);
    CHECK(bound == places[1] + 1);
    MPI_Type_free(&list), MPI_Type_free(&type);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Errhandler_create(function, &handler), MPI_Errhandler_set(comm, handler), MPI_Errhandler_get(comm, &found);
    CHECK(found == handler);
    MPI_Send(pair, -1, MPI_CHAR, 0, 0, comm);
    CHECK(heard == MPI_ERR_COUNT);
    MPI_Errhandler_free(&handler), MPI_Errhandler_free(&found), MPI_Comm_free(&comm);
}

/* The names are functions, whose address a program can take and which a tool can intercept. */
static void functions(void) {
    int (*extent_of)(MPI_Datatype, MPI_Aint *) = MPI_Type_extent, (*make)(MPI_Handler_function *, MPI_Errhandler *) = PMPI_Errhandler_create;
    int (*set)(MPI_Comm, MPI_Errhandler) = MPI_Errhandler_set, lengths[1] = {1};
    MPI_Aint extent, start, places[1] = {0};
    MPI_Datatype type = MPI_INT, made;
    MPI_Errhandler handler, found;
    CHECK(extent_of(MPI_DOUBLE, &extent) == MPI_SUCCESS && extent == sizeof(double));
    CHECK(PMPI_Type_lb(MPI_INT, &extent) == MPI_SUCCESS && extent == 0);
    CHECK(PMPI_Type_ub(MPI_INT, &extent) == MPI_SUCCESS && extent == sizeof(int));
    CHECK(PMPI_Address(&start, &start) == MPI_SUCCESS && start == (MPI_Aint)&start);
    CHECK(PMPI_Type_struct(1, lengths, places, &type, &made) == MPI_SUCCESS);
    MPI_Type_free(&made);
    CHECK(PMPI_Type_hindexed(1, lengths, places, type, &made) == MPI_SUCCESS);
    MPI_Type_free(&made);
    CHECK(PMPI_Type_hvector(1, 1, 4, type, &made) == MPI_SUCCESS);
    MPI_Type_free(&made);
    CHECK(make(hear, &handler) == MPI_SUCCESS && set(MPI_COMM_SELF, handler) == MPI_SUCCESS);
    CHECK(PMPI_Errhandler_get(MPI_COMM_SELF, &found) == MPI_SUCCESS && found == handler);
    PMPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&found), MPI_Errhandler_free(&handler);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    numbers(), names(), functions();
    return end();
}
