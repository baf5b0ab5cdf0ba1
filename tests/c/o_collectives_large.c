/* The program o_collectives.c with the functions for large counts. */
#define LARGE
#include "o_collectives.c"
