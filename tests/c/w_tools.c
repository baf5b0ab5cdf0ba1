/* The tool interface before MPI_Init, error codes of the program, buffers, and the error handler of MPI_FILE_NULL. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);          \
            exit(2);                                                         \
        }                                                                    \
    } while (0)

int main(int argc, char **argv) {
    int level, number = -1, rank, size, class, code, len;
    MPI_T_pvar_session session;
    CHECK(MPI_T_cvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level) == MPI_SUCCESS && level == MPI_THREAD_SINGLE);
    CHECK(MPI_T_cvar_get_num(&number) == MPI_SUCCESS && number > 0);
    CHECK(MPI_T_event_get_num(&number) == MPI_SUCCESS && number > 0);
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_get_index("nothing", &number) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_category_get_cvars(99, 1, &number) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_HANDLE_NULL) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS && session == MPI_T_PVAR_SESSION_NULL);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char text[MPI_MAX_ERROR_STRING];
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, "of our own");
    MPI_Error_string(code, text, &len);
    CHECK(!strcmp(text, "of our own") && len == 10);
    MPI_Error_class(code, &number);
    CHECK(number == class && class > MPI_ERR_LASTCODE);
    CHECK(MPI_Remove_error_string(code) == MPI_SUCCESS && MPI_Remove_error_code(code) == MPI_SUCCESS);
    CHECK(MPI_Remove_error_class(class) == MPI_SUCCESS);

    MPI_File file;
    code = MPI_File_open(MPI_COMM_SELF, "/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_NO_SUCH_FILE);

    int room = 1000 + MPI_BSEND_OVERHEAD, got = -1, value = rank, right = (rank + 1) % size;
    char *memory = malloc(room), *back;
    MPI_Buffer_attach(memory, room);
    MPI_Bsend(&value, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
    MPI_Recv(&got, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == (rank + size - 1) % size);
    MPI_Buffer_flush();
    MPI_Buffer_detach(&back, &len);
    CHECK(back == memory && len == room);
    free(memory);
    MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
    MPI_Buffer_detach(&back, &len);
    CHECK((void *)back == MPI_BUFFER_AUTOMATIC && len == 0);
    MPI_Finalize();
    CHECK(MPI_T_finalize() == MPI_SUCCESS && MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    if (rank == 0) puts("all good");
    return 0;
}
