/* The program o_point_to_point.c with the functions for large counts. */
#define LARGE
#include "o_point_to_point.c"
