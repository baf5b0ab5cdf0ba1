/* The program o_types.c with the functions for large counts. */
#define LARGE
#include "o_types.c"
