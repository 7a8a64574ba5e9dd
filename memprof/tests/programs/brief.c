/* Has much memory only for a moment: brief stacks|paused|freed|lent MIB.
 * stacks: two threads touch this much of their stacks each, meet, and end at once.
 * paused: allocates, touches and frees this much while recording is off.
 * freed: allocates, touches and frees this much.
 * lent: gets it from MPI_Alloc_mem. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakempi.h"

static size_t bytes;
static pthread_barrier_t both;

static void *touch_stack(void *unused)
{
    (void)unused;
    volatile char *block = __builtin_alloca(bytes);
    for (size_t at = 0; at < bytes; at += 4096) block[at] = 1;
    pthread_barrier_wait(&both);
    return NULL;
}

static int stacks(void)
{
    pthread_t threads[2];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, bytes + (1 << 20));
    pthread_barrier_init(&both, NULL, 2);
    for (int number = 0; number < 2; number++)
        if (pthread_create(&threads[number], &attributes, touch_stack, NULL)) return 1;
    for (int number = 0; number < 2; number++) pthread_join(threads[number], NULL);
    return 0;
}

static int paused(void)
{
    MPI_Pcontrol(0);
    char *volatile block = malloc(bytes);
    memset(block, 1, bytes);
    free(block);
    MPI_Pcontrol(1);
    return 0;
}

static int freed(void)
{
    char *volatile block = malloc(bytes);
    memset(block, 1, bytes);
    free(block);
    return 0;
}

static int lent(void)
{
    char *block;
    if (MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &block)) return 1;
    memset(block, 1, bytes);
    return MPI_Free_mem(block);
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    bytes = (size_t)atoi(argv[2]) << 20;
    MPI_Init(&argc, &argv);
    int failed = !strcmp(argv[1], "stacks") ? stacks()
                 : !strcmp(argv[1], "lent") ? lent()
                 : !strcmp(argv[1], "freed") ? freed()
                                             : paused();
    MPI_Finalize();
    printf("done\n");
    return failed;
}
