/* A large block that is in realloc most of the time, together with slow_realloc.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KIBI ((size_t)1 << 10)
enum { ROUNDS = 40 };

int main(void)
{
    size_t size = 8192 * KIBI;
    const struct timespec moment = {0, 3000000};
    char *block = malloc(size);
    if (!block) return 1;
    memset(block, 1, size);
    for (int round = 0; round < ROUNDS; round++) {
        size_t more = size + 64 * KIBI;
        block = realloc(block, more);
        if (!block) return 1;
        memset(block + size, 1, more - size);
        size = more;
        if (round % 2) continue;
        // Sleeps: samples must begin before it moves, and end after.
        nanosleep(&moment, NULL);
    }
    free(block);
    printf("moved\n");
    return 0;
}
