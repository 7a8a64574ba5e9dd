/* A program that holds 20 MiB for less than the time between two samples, before it ends as its
 * argument says. */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 20000

static char *blocks[BLOCKS];

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "break")) {
        char *memory = sbrk(20 << 20);
        memset(memory, 1, 20 << 20);
        return sbrk(-(20 << 20)) == (void *)-1;
    }
    for (int i = 0; i < BLOCKS; i++) blocks[i] = memset(malloc(1000), 1, 1000);
    if (!strcmp(how, "exec")) execlp("true", "true", (char *)NULL);
    if (!strcmp(how, "_exit")) _exit(0);
    for (int i = BLOCKS; i-- > 0;) free(blocks[i]);
    return 0;
}
