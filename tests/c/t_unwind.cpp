// A function of the program throws inside the library: nothing unwinds through it, the process ends.
#include <mpi.h>
#include <cstdio>
#include <stdexcept>

static void thrower(void *, void *, int *, MPI_Datatype *)
{
    throw std::runtime_error("thrown by an operation");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Op op;
    MPI_Op_create(thrower, 1, &op);
    int given = 1, kept = 2;
    try {
        MPI_Reduce_local(&given, &kept, 1, MPI_INT, op);
    } catch (const std::exception &error) {
        std::printf("unwound through the library: %s\n", error.what());
        return 0;
    }
    std::printf("went on\n");
    return 0;
}
