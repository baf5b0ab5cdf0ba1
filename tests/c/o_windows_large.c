/* The program o_windows.c with the functions for large counts. */
#define LARGE
#include "o_windows.c"
