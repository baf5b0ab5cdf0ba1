/* Raises each error class that this library's calls can raise and that no other program of this folder raises. error_classes.rs checks that
   none is missing, and has the reasons why no call raises the other classes. bad_input.c tests the classes of each call. */
#include "check.h"
#include <stdint.h>

static char room[4096];

static void of_requests(void) {
    int small = 0, big[4] = { 1, 2, 3, 4 };
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(&small, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[0]);
    MPI_Irecv(big, 4, MPI_INT, 0, 2, MPI_COMM_SELF, &requests[1]);
    MPI_Send(big, 4, MPI_INT, 0, 1, MPI_COMM_SELF);
    MPI_Send(big, 4, MPI_INT, 0, 2, MPI_COMM_SELF);
    FAILS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    CHECK(class_of(statuses[0].MPI_ERROR) == MPI_ERR_TRUNCATE);
    /* Other libraries may leave the second request pending; this library waits for all requests. */
    if (OWN)
        CHECK(statuses[1].MPI_ERROR == MPI_SUCCESS && requests[1] == MPI_REQUEST_NULL);
    if (requests[1] != MPI_REQUEST_NULL) MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
}

static void of_memory(void) {
    void *at;
    MPI_Win win;
    FAILS(MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &at), MPI_ERR_NO_MEM);
    FAILS(MPI_Win_allocate_shared((MPI_Aint)1 << 60, 1, MPI_INFO_NULL, MPI_COMM_SELF, &at, &win), MPI_ERR_RMA_SHARED);
}

static void of_values(void) {
    MPI_Datatype type;
    MPI_Count count = (MPI_Count)INT32_MAX + 1;
    int integers[4];
    MPI_Aint addresses[1];
    MPI_Datatype types[1];
    MPI_Type_contiguous_c(count, MPI_BYTE, &type);
    FAILS(MPI_Type_get_contents(type, 1, 0, 1, integers, addresses, types), MPI_ERR_TYPE);
    MPI_Type_free(&type);
    MPI_Aint position = 0;
    FAILS(MPI_Pack_external("native", room, 4, MPI_BYTE, room + 64, 64, &position), MPI_ERR_UNSUPPORTED_DATAREP);
    /* A long has 4 bytes in external32. */
    long large = 1L << 40;
    position = 0;
    FAILS(MPI_Pack_external("external32", &large, 1, MPI_LONG, room, 64, &position), MPI_ERR_CONVERSION);
#ifdef MPI_ABI_VERSION
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_logical_size", "3");
    FAILS(MPI_Abi_set_fortran_info(info), MPI_ERR_ABI);
    MPI_Info_free(&info);
    int yes = 1, no = 0, set;
    CHECK(MPI_Abi_set_fortran_booleans(sizeof yes, &yes, &no) == MPI_SUCCESS);
    FAILS(MPI_Abi_set_fortran_booleans(sizeof yes, &no, &yes), MPI_ERR_ABI);
    yes = no = -1;
    CHECK(MPI_Abi_get_fortran_booleans(sizeof yes, &yes, &no, &set) == MPI_SUCCESS && set && yes == 1 && no == 0);
#endif
}

/* One call for each class that an argument raises. */
static void of_arguments(void) {
#ifdef MPI_ABI_VERSION
    int value = 1, out = 0, dims[2] = { 0, -1 };
    char long_value[MPI_MAX_INFO_VAL + 2];
    FAILS(MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_BUFFER);
    FAILS(MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_COUNT);
    FAILS(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE);
    FAILS(MPI_Send(&value, 1, MPI_INT, 0, -5, MPI_COMM_SELF), MPI_ERR_TAG);
    FAILS(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    FAILS(MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_SELF), MPI_ERR_RANK);
    FAILS(MPI_Bcast(&value, 1, MPI_INT, 1, MPI_COMM_SELF), MPI_ERR_ROOT);
    FAILS(MPI_Allreduce(&value, &out, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_SELF), MPI_ERR_OP);
    FAILS(MPI_Group_size(MPI_GROUP_NULL, &out), MPI_ERR_GROUP);
    FAILS(MPI_Dims_create(4, 2, dims), MPI_ERR_DIMS);
    FAILS(MPI_Cartdim_get(MPI_COMM_SELF, &out), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    FAILS(MPI_Session_get_num_psets(MPI_SESSION_NULL, MPI_INFO_NULL, &out), MPI_ERR_SESSION);
    /* A message in ready mode that arrives before its receive: both sides get an error, the sender in one of its next calls. */
    MPI_Rsend(&value, 1, MPI_INT, 0, 7, MPI_COMM_SELF);
    for (int call = 0; call < 3; call++) MPI_Iprobe(0, 8, MPI_COMM_SELF, &out, MPI_STATUS_IGNORE);
    FAILS(MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_SELF, MPI_STATUS_IGNORE), MPI_ERR_OTHER);

    MPI_Info info;
    FAILS(MPI_Info_get_nkeys(MPI_INFO_NULL, &out), MPI_ERR_INFO);
    MPI_Info_create(&info);
    memset(long_value, 'v', sizeof long_value - 1);
    long_value[sizeof long_value - 1] = 0;
    FAILS(MPI_Info_set(info, "", "value"), MPI_ERR_INFO_KEY);
    FAILS(MPI_Info_set(info, "key", long_value), MPI_ERR_INFO_VALUE);
    FAILS(MPI_Info_delete(info, "key"), MPI_ERR_INFO_NOKEY);
    MPI_Info_free(&info);

    MPI_Win win;
    FAILS(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
    FAILS(MPI_Win_create(NULL, 8, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win), MPI_ERR_BASE);
    FAILS(MPI_Win_create(room, -1, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win), MPI_ERR_SIZE);
    FAILS(MPI_Win_create(room, 8, 0, MPI_INFO_NULL, MPI_COMM_SELF, &win), MPI_ERR_DISP);
    MPI_Win_create(room, 8, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    FAILS(MPI_Win_lock(12345, 0, 0, win), MPI_ERR_LOCKTYPE);
    MPI_Win_free(&win);

    char port[MPI_MAX_PORT_NAME];
    FAILS(MPI_Close_port("no port"), MPI_ERR_PORT);
    FAILS(MPI_Lookup_name("nobody's", MPI_INFO_NULL, port), MPI_ERR_NAME);
    FAILS(MPI_Unpublish_name("nobody's", MPI_INFO_NULL, "no port"), MPI_ERR_SERVICE);
    FAILS(MPI_File_set_errhandler((MPI_File)MPI_INT, MPI_ERRORS_RETURN), MPI_ERR_FILE);
#endif
}

static void of_windows(void) {
    MPI_Win win;
    int *base, value = 1;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &base, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    FAILS(MPI_Win_attach(win, room, 8), MPI_ERR_RMA_FLAVOR);
    FAILS(MPI_Win_fence(1 << 20, win), MPI_ERR_ASSERT);
    FAILS(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    FAILS(MPI_Put(&value, 1, MPI_INT, 0, 1, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    MPI_Win_unlock(0, win);
    MPI_Win_free(&win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    FAILS(MPI_Win_detach(win, room), MPI_ERR_RMA_ATTACH);
    MPI_Win_free(&win);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    of_requests();
    if (OWN) {
        of_memory();
        of_values();
        of_windows();
        of_arguments();
    }
    return end();
}
