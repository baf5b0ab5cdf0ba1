/* A session whose progress thread cannot be started is refused, and leaves nothing of MPI behind: the next call tries to start MPI again. */
#include "check.h"

int main(void) {
    MPI_Session session = MPI_SESSION_NULL;
    /* More address space than there is. Rust reads this size of a thread's stack when it starts the first thread. */
    CHECK(setenv("RUST_MIN_STACK", "4611686018427387904", 1) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS);
        CHECK(session == MPI_SESSION_NULL);
    }
    printf("all good\n");
    return 0;
}
