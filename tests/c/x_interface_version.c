/* A library with another binary interface than the standard's says so by -1, before MPI_Init, too (MPI 5.0, chapter 20). */
#include "check.h"

int main(int argc, char **argv) {
    int major = 0, minor = 0;
    MPI_Abi_get_version(&major, &minor);
    int before = major == -1 && minor == -1;
    begin(&argc, &argv);
    CHECK(before);
    CHECK(MPI_Abi_get_version(&major, &minor) == MPI_SUCCESS && major == -1 && minor == -1);
    return end();
}
