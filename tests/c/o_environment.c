/* Prints what the library reports about itself, also before and after MPI runs. */
#include "say.h"

int main(int argc, char **argv) {
    int flag, provided, level, version, subversion, length;
    char text[MPI_MAX_LIBRARY_VERSION_STRING], name[MPI_MAX_PROCESSOR_NAME];
    char logical[2][4] = {{1, 0, 0, 0}, {0, 0, 0, 0}};
    MPI_Info info;
    void *memory;
    MPI_Initialized(&flag), SAY("initialized %d", flag), MPI_Finalized(&flag), SAY("finalized %d", flag);
    MPI_Get_version(&version, &subversion), SAY("MPI %d.%d", version, subversion);
    MPI_Abi_get_version(&version, &subversion), SAY("binary interface %d.%d", version, subversion);
    MPI_Get_library_version(text, &length), SAY("its name is as long as said %d", (int)strlen(text) == length);
    MPI_Info_create_env(argc, argv, &info), SAY("environment %d", info != MPI_INFO_NULL), MPI_Info_free(&info);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Query_thread(&level), SAY("level %d %d", provided == MPI_THREAD_MULTIPLE, level == provided);
    MPI_Is_thread_main(&flag), SAY("main thread %d", flag);
    MPI_Initialized(&flag), SAY("initialized %d", flag);
    MPI_Get_processor_name(name, &length), SAY("on a machine %d", length > 0 && (int)strlen(name) == length);
    double before = MPI_Wtime(), tick = MPI_Wtick();
    SAY("time goes on %d, ticks %d", MPI_Wtime() >= before, tick > 0 && tick < 1);
    SAY("profiling %d", MPI_Pcontrol(1));
    MPI_Alloc_mem(1000, MPI_INFO_NULL, &memory), memset(memory, 1, 1000), SAY("memory %d, freed %d", memory != NULL, MPI_Free_mem(memory));
    MPI_Get_hw_resource_info(&info), SAY("hardware %d", info != MPI_INFO_NULL), MPI_Info_free(&info);
    MPI_Abi_get_info(&info);
    for (int at = 0; at < 3; at++) {
        const char *keys[3] = {"mpi_aint_size", "mpi_count_size", "mpi_offset_size"};
        length = 32, MPI_Info_get_string(info, keys[at], &length, text, &flag), SAY("%s: %d %s", keys[at], flag, flag ? text : "");
    }
    MPI_Info_free(&info);
    /* Whether the values for Fortran are set at the beginning depends on how the library was built. */
    SAY("of Fortran %d", MPI_Abi_get_fortran_info(&info)), SAY("booleans %d", MPI_Abi_get_fortran_booleans(4, logical[0], logical[1], &flag));
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("all good\n");
    MPI_Finalize();
    MPI_Initialized(&flag), SAY("initialized %d", flag), MPI_Finalized(&flag), SAY("finalized %d", flag);
    return 0;
}
