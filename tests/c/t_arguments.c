/* Intercepts the library's calls and checks Fortran's arguments as they arrive in C (fortran/t_arguments.f90): for functions that the
   library does not offer, and for arguments whose address matters. It prints all errors, and does not forward the calls. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define NEED(holds) (void)((holds) || printf("wrong: %s, line %d\n", #holds, __LINE__))

int MPI_Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
    MPI_Comm *intercomm, int array_of_errcodes[])
{
    NEED(!strcmp(command, "a program") && info == MPI_INFO_NULL && root == 0 && comm == MPI_COMM_SELF);
    if (maxprocs == 1) {
        NEED(argv == MPI_ARGV_NULL && array_of_errcodes == MPI_ERRCODES_IGNORE);
    } else {
        NEED(!strcmp(argv[0], "-a") && !strcmp(argv[1], "b c") && argv[2] == NULL);
        NEED(array_of_errcodes != NULL);
        array_of_errcodes[1] = 77;
    }
    *intercomm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

int MPI_Comm_spawn_multiple(int count, char *array_of_commands[], char **array_of_argv[], const int array_of_maxprocs[],
    const MPI_Info array_of_info[], int root, MPI_Comm comm, MPI_Comm *intercomm, int array_of_errcodes[])
{
    NEED(count == 2 && !strcmp(array_of_commands[0], "first") && !strcmp(array_of_commands[1], "second"));
    NEED(array_of_maxprocs[0] == 3 && array_of_maxprocs[1] == 4 && root == 0 && comm == MPI_COMM_WORLD);
    NEED(array_of_info[0] == MPI_INFO_NULL && array_of_info[1] == MPI_INFO_ENV && array_of_errcodes == NULL);
    if (array_of_argv != MPI_ARGVS_NULL) {
        NEED(!strcmp(array_of_argv[0][0], "1a") && !strcmp(array_of_argv[0][1], "1b") && array_of_argv[0][2] == NULL);
        NEED(!strcmp(array_of_argv[1][0], "2a") && array_of_argv[1][1] == NULL);
    }
    *intercomm = MPI_COMM_SELF;
    return array_of_argv == MPI_ARGVS_NULL ? MPI_ERR_SPAWN : MPI_SUCCESS;
}

int MPI_Register_datarep(const char *datarep, MPI_Datarep_conversion_function *read_conversion_fn,
    MPI_Datarep_conversion_function *write_conversion_fn, MPI_Datarep_extent_function *dtype_file_extent_fn,
    void *extra_state)
{
    int from = 5, to = 0;
    MPI_Aint extent = 0;
    NEED(!strcmp(datarep, "reversed") && write_conversion_fn == MPI_CONVERSION_FN_NULL);
    NEED(read_conversion_fn(&to, MPI_INTEGER, 3, &from, 100, extra_state) == MPI_SUCCESS);
    NEED(to == 5 + 3 + 100 + 9);
    NEED(dtype_file_extent_fn(MPI_REAL, &extent, extra_state) == MPI_ERR_OTHER && extent == 9 + 1);
    return MPI_SUCCESS;
}

int MPI_Grequest_start(MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
    MPI_Grequest_cancel_function *cancel_fn, void *extra_state, MPI_Request *request)
{
    MPI_Status status;
    NEED(query_fn(extra_state, &status) == MPI_SUCCESS && status.MPI_TAG == 9);
    NEED(cancel_fn(extra_state, 1) == MPI_SUCCESS && cancel_fn(extra_state, 0) == MPI_ERR_OTHER);
    NEED(free_fn(extra_state) == MPI_ERR_ARG);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int MPI_Buffer_attach(void *buffer, int size)
{
    NEED(buffer == MPI_BUFFER_AUTOMATIC && size == 0);
    return MPI_SUCCESS;
}

int MPI_Dist_graph_create(MPI_Comm comm_old, int n, const int sources[], const int degrees[], const int destinations[],
    const int weights[], MPI_Info info, int reorder, MPI_Comm *comm_dist_graph)
{
    NEED(comm_old == MPI_COMM_WORLD && n == 0 && sources && degrees && destinations && info == MPI_INFO_NULL);
    NEED(weights == (reorder == 1 ? MPI_UNWEIGHTED : MPI_WEIGHTS_EMPTY));
    *comm_dist_graph = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

int MPI_Gather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
    int root, MPI_Comm comm)
{
    NEED(sendbuf == MPI_IN_PLACE && sendcount == 1 && sendtype == MPI_DATATYPE_NULL && recvbuf == MPI_BOTTOM);
    NEED(recvcount == 2 && recvtype == MPI_REAL8 && root == MPI_ROOT && comm == MPI_COMM_NULL);
    return MPI_ERR_ROOT;
}

int MPI_Request_get_status_some(int incount, const MPI_Request array_of_requests[], int *outcount, int array_of_indices[],
    MPI_Status array_of_statuses[])
{
    NEED(incount == 3 && array_of_requests[2] == MPI_REQUEST_NULL && array_of_statuses == MPI_STATUSES_IGNORE);
    *outcount = 2;
    array_of_indices[0] = 0;
    array_of_indices[1] = 2;
    return MPI_SUCCESS;
}
