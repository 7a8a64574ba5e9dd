/* Checks of test programs: each failed condition is printed with its place, and counted. */
#include <stdio.h>

static int failures;

#define CHECK(condition)                                                                      \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                            \
            failures++;                                                                       \
        }                                                                                     \
    } while (0)
