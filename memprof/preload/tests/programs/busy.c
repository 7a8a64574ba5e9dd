/* Allocates and frees on several threads until it is killed. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *work(void *seed)
{
    unsigned state = (unsigned)(size_t)seed;
    char *blocks[64] = {0};
    for (;;) {
        state = state * 1103515245u + 12345u;
        unsigned place = state >> 8 & 63;
        size_t size = (state >> 16 & 255) == 0 ? 2u << 20 : state >> 20;
        free(blocks[place]);
        blocks[place] = malloc(size);
        memset(blocks[place], 1, size);
    }
    return NULL;
}

int main(void)
{
    pthread_t other;
    pthread_create(&other, NULL, work, (void *)1);
    work((void *)2);
    return 0;
}
