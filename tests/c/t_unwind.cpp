// A function of the program throws an exception inside the library: the exception does not unwind through the library; the process ends and
// prints the reason. The argument names the function.
#include <mpi.h>
#include <cstdio>
#include <cstring>
#include <stdexcept>

static void thrown() { throw std::runtime_error("thrown by the program"); }
static void operation(void *, void *, int *, MPI_Datatype *) { thrown(); }
static void wide_operation(void *, void *, MPI_Count *, MPI_Datatype *) { thrown(); }
static void on_error(MPI_Comm *, int *, ...) { thrown(); }
static int copied(MPI_Comm, int, void *, void *, void *, int *) { return thrown(), 0; }
static int deleted(MPI_Comm, int, void *, void *) { return thrown(), 0; }
static int query(void *, MPI_Status *) { return thrown(), 0; }
static int good_query(void *, MPI_Status *) { return 0; }
static int freed(void *) { return thrown(), 0; }
static int good_free(void *) { return 0; }
static int cancelled(void *, int) { return thrown(), 0; }

static void run(const char *which)
{
    int given = 1, kept = 2, key;
    MPI_Op op;
    MPI_Comm comm;
    MPI_Request request;
    MPI_Errhandler handler;
    auto is = [=](const char *name) { return std::strcmp(which, name) == 0; };
    if (is("operation")) {
        MPI_Op_create(operation, 1, &op);
        MPI_Reduce_local(&given, &kept, 1, MPI_INT, op);
    } else if (is("wide operation")) {
        MPI_Op_create_c(wide_operation, 1, &op);
        MPI_Allreduce(&given, &kept, 1, MPI_INT, op, MPI_COMM_WORLD);
        MPI_Reduce_local(&given, &kept, 1, MPI_INT, op);
    } else if (is("error handler")) {
        MPI_Comm_create_errhandler(on_error, &handler);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
        MPI_Send(&given, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
    } else if (is("copy function")) {
        MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &key, nullptr);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, &given);
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
    } else if (is("delete function")) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &key, nullptr);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, &given);
        MPI_Comm_delete_attr(MPI_COMM_SELF, key);
    } else {
        bool first = is("query function"), second = is("free function");
        MPI_Grequest_start(first ? query : good_query, second ? freed : good_free, cancelled, nullptr, &request);
        if (!first && !second)
            MPI_Cancel(&request);
        MPI_Grequest_complete(request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    try {
        run(argv[1]);
    } catch (const std::exception &error) {
        std::printf("unwound through the library: %s\n", error.what());
        return 0;
    }
    std::printf("went on\n");
    return 0;
}
