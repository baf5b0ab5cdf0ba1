/* A tool that intercepts the library: it counts sends and receives, and prints the numbers. It is loaded before the library. */
#include <mpi.h>
#include <stdio.h>

static int begun, sends, receives;

int MPI_Init(int *argc, char ***argv)
{
    begun++;
    return PMPI_Init(argc, argv);
}

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    sends++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    receives++;
    return PMPI_Recv(buf, count, datatype, source, tag, comm, status);
}

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "task %d: init %d sends %d receives %d\n", rank, begun, sends, receives);
    return PMPI_Finalize();
}
