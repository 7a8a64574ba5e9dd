/* Two million small blocks of all sizes, half of which are replaced by others; most live to the
 * end. Prints their bytes and their number. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 2000000 };

static uint64_t state = 1;

static size_t draw(size_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(state >> 33) % below;
}

int main(void)
{
    char **blocks = malloc(BLOCKS * sizeof *blocks);
    uint32_t *sizes = malloc(BLOCKS * sizeof *sizes);
    size_t bytes = BLOCKS * (sizeof *blocks + sizeof *sizes);
    if (!blocks || !sizes) return 1;
    for (size_t step = 0; step < BLOCKS + BLOCKS / 2; step++) {
        size_t at = step < BLOCKS ? step : draw(BLOCKS);
        if (step >= BLOCKS) {
            bytes -= sizes[at];
            free(blocks[at]);
        }
        sizes[at] = (uint32_t)(1 + draw(200));
        blocks[at] = malloc(sizes[at]);
        if (!blocks[at]) return 1;
        memset(blocks[at], 1, sizes[at]);
        bytes += sizes[at];
    }
    printf("holds %zu bytes in %d blocks\n", bytes, BLOCKS + 2);
    fflush(stdout);
    return 0;
}
