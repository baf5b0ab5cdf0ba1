/* The program c_sessions.c, but MPI has ended before the last sessions. */
#define LATE
#include "c_sessions.c"
