/* One operation COUNT times, in a separate function whose instructions can be counted: `malloc`, a
 * malloc and a free of 64 bytes; `live`, the same of up to 1 KiB among 64 live blocks; `large`, of
 * 1 to 16 KiB; `larger`, of 40 to 100 KiB; `call`, an MPI call that does nothing. SHIFT bytes are
 * allocated first, to change all addresses.
 *
 *   operations KIND COUNT SHIFT
 *
 * Linked with the fake MPI. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fakempi.h"

enum { LIVE = 64 };

static void pairs(long count, uint32_t least, uint32_t most)
{
    static void *live[LIVE];
    uint32_t state = 1;
    for (long pair = 0; pair < count; pair++) {
        state = state * 1664525u + 1013904223u;
        unsigned slot = (state >> 8) % LIVE;
        free(live[slot]);
        live[slot] = malloc(least + (state >> 12) % (most - least + 1));
    }
    for (int slot = 0; slot < LIVE; slot++) {
        free(live[slot]);
        live[slot] = NULL;
    }
}

/* Name by which the counting tool knows it. */
__attribute__((noipa)) int operations(const char *kind, long count)
{
    static int rank;
    if (!strcmp(kind, "malloc")) {
        for (long pair = 0; pair < count; pair++) {
            void *volatile block = malloc(64);
            free(block);
        }
    } else if (!strcmp(kind, "live")) {
        pairs(count, 1, 1024);
    } else if (!strcmp(kind, "large")) {
        pairs(count, 1024, 16384);
    } else if (!strcmp(kind, "larger")) {
        pairs(count, 40960, 102400);
    } else if (!strcmp(kind, "call")) {
        for (long call = 0; call < count; call++) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    } else {
        return 2;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    void *volatile shift = malloc((size_t)atol(argv[3]));
    MPI_Init(&argc, &argv);
    /* First-time costs are excluded. */
    pairs(2000, 1, 16384);
    operations(argv[1], 2000);
    int status = operations(argv[1], atol(argv[2]));
    MPI_Finalize();
    free(shift);
    return status;
}
