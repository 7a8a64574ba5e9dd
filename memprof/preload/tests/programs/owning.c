/* Owns memory that it never touches, too little to trigger a sample: some in a short phase, and
 * more until its input ends. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct table {
    uint32_t version, size;
    uint32_t (*begin)(const char *, size_t, uint32_t);
    void (*end)(uint32_t);
} table;

extern const table *memprof_hooks(uint32_t version) __attribute__((weak));

int main(void)
{
    const table *hooks = memprof_hooks ? memprof_hooks(1) : NULL;
    if (!hooks) return 1;
    uint32_t phase = hooks->begin("short", 5, 0);
    char *volatile block = malloc((size_t)5 << 20);
    hooks->end(phase);
    free(block);
    puts("done");
    fflush(stdout);
    getchar();
    char *volatile kept = malloc((size_t)7 << 20);
    while (getchar() != EOF) { }
    free(kept);
    return 0;
}
