/* Error classes that no single bad argument raises: those of several requests, of memory that is not to be had, of values that do
 * not fit, of windows. The others are raised call by call (bad_input.c). */
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
    CHECK(statuses[1].MPI_ERROR == MPI_SUCCESS || class_of(statuses[1].MPI_ERROR) == MPI_ERR_PENDING);
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
    /* A long has 4 bytes there. */
    long large = 1L << 40;
    position = 0;
    FAILS(MPI_Pack_external("external32", &large, 1, MPI_LONG, room, 64, &position), MPI_ERR_CONVERSION);
#ifdef MPI_ABI_VERSION
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_logical_size", "3");
    int told = class_of(MPI_Abi_set_fortran_info(info));
    CHECK(told == MPI_ERR_ABI);
    MPI_Info_free(&info);
    int yes = 1, no = 0, set;
    CHECK(MPI_Abi_set_fortran_booleans(sizeof yes, &yes, &no) == MPI_SUCCESS);
    told = class_of(MPI_Abi_set_fortran_booleans(sizeof yes, &no, &yes));
    CHECK(told == MPI_ERR_ABI);
    yes = no = -1;
    CHECK(MPI_Abi_get_fortran_booleans(sizeof yes, &yes, &no, &set) == MPI_SUCCESS && set && yes == 1 && no == 0);
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
    }
    return end();
}
