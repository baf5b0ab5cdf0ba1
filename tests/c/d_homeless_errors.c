/* Errors that belong to no communicator, window or session (MPI 5.0 section 9.3): the error handler of MPI_COMM_SELF runs if the program
   has set it. If the program has set only that of MPI_COMM_WORLD, that one runs, as in other libraries. */
#include "check.h"

static int calls;
static MPI_Comm called_for;

static void count_call(MPI_Comm *comm, int *code, ...) {
    (void)code;
    calls++, called_for = *comm;
}

static void check_all(void) {
    MPI_Datatype none = MPI_DATATYPE_NULL;
    MPI_Request bad = MPI_Request_fromint(0x7fffffff);
    MPI_Info info = MPI_INFO_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Op op = MPI_OP_NULL;
    MPI_Win win = MPI_WIN_NULL;
    MPI_Session session = MPI_SESSION_NULL;
    int value, keyval = MPI_KEYVAL_INVALID;
    FAILS(MPI_Type_commit(&none), MPI_ERR_TYPE);
    FAILS(MPI_Type_size(none, &value), MPI_ERR_TYPE);
    FAILS(MPI_Comm_size(MPI_COMM_NULL, &value), MPI_ERR_COMM);
    FAILS(MPI_Comm_call_errhandler(MPI_COMM_NULL, MPI_ERR_OTHER), MPI_ERR_COMM);
    FAILS(MPI_Wait(&bad, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    FAILS(MPI_Info_free(&info), MPI_ERR_INFO);
    FAILS(MPI_Group_size(group, &value), MPI_ERR_GROUP);
    FAILS(MPI_Op_free(&op), MPI_ERR_OP);
    FAILS(MPI_Win_free(&win), MPI_ERR_WIN);
    FAILS(MPI_Session_finalize(&session), MPI_ERR_SESSION);
    FAILS(MPI_Comm_free_keyval(&keyval), MPI_ERR_KEYVAL);
}

/* The text of the error has the rank in MPI_COMM_WORLD. */
static void check_text(int code) {
    char text[MPI_MAX_ERROR_STRING], words[64];
    int length;
    MPI_Error_string(code, text, &length);
    snprintf(words, sizeof words, "called by rank %d of MPI_COMM_WORLD", rank);
    CHECK(strstr(text, words));
}

int main(int argc, char **argv) {
    MPI_Errhandler counting;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_create_errhandler(count_call, &counting);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check_all();
    check_text(MPI_Comm_size(MPI_COMM_NULL, &calls));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, counting);
    calls = 0;
    check_all();
    CHECK(calls == 11 && called_for == MPI_COMM_WORLD);
    /* From now on that of MPI_COMM_SELF. */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, counting);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    calls = 0;
    check_all();
    CHECK(calls == 11 && called_for == MPI_COMM_SELF);
    /* An error of MPI_COMM_SELF itself names both ranks. */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int code = MPI_Send(&calls, 1, MPI_INT, 7, 0, MPI_COMM_SELF), length;
    char text[MPI_MAX_ERROR_STRING], words[64];
    MPI_Error_string(code, text, &length);
    snprintf(words, sizeof words, "called by rank 0 of MPI_COMM_SELF (rank %d of MPI_COMM_WORLD)", rank);
    CHECK(strstr(text, words));
    MPI_Errhandler_free(&counting);
    return end();
}
