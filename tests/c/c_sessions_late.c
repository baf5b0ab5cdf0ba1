/* The same where MPI has ended before. */
#define LATE
#include "c_sessions.c"
