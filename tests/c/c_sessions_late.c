/* The same after MPI has ended. */
#define LATE
#include "c_sessions.c"
