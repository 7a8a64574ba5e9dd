/* Blocks of 40 MiB in total that one thread allocates and another frees, except one in forty, so
 * that the C library keeps the pages. Only then does the process reach its peak, by a mapping of
 * 4 MiB. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCKS 40000
#define MORE (4 << 20)

static char *blocks[BLOCKS];

static void *produce(void *unused)
{
    for (int i = 0; i < BLOCKS; i++) blocks[i] = memset(malloc(1000), 1, 1000);
    return unused;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, produce, NULL) || pthread_join(thread, NULL)) return 1;
    for (int i = 0; i < BLOCKS; i++)
        if (i % 40) free(blocks[i]);
    char *more = mmap(NULL, MORE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED) return 1;
    memset(more, 1, MORE);
    return munmap(more, MORE);
}
