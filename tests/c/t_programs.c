/* One of several programs in a job: prints the program's number, a variable of the environment, and the sum of the first arguments of all
   tasks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, tasks, number, sum, flag, *program;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &tasks);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &program, &flag);
    number = argc > 1 ? atoi(argv[1]) : 0;
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("task %d of %d: program %d, %s, sum %d\n", rank, tasks, flag ? *program : -1,
        getenv("GIVEN") ? getenv("GIVEN") : "nothing", sum);
    MPI_Finalize();
    return 0;
}
