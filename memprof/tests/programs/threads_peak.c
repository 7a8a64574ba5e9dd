/* Threads that allocate and free blocks of all sizes, one at a time, so that the program knows
 * its peak. Prints that and the profiler's figure. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "own_component.h"

#define THREADS 8
#define BLOCKS 64
#define STEPS 6000

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
/* Passed before the first block, after the last, and when the numbers are known: what threads
 * themselves need exists all the time. */
static pthread_barrier_t gate;
/* Where all begin to grow, or to shrink. */
static pthread_barrier_t together;
static size_t held, most;

static void *work(void *number)
{
    char *blocks[BLOCKS] = { NULL };
    size_t sizes[BLOCKS] = { 0 };
    uint64_t random = (uint64_t)(uintptr_t)number * 0x9e3779b97f4a7c15u + 1;
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    for (int step = 0; step < STEPS; step++) {
        if (step % 1000 == 0) pthread_barrier_wait(&together);
        random = random * 6364136223846793005u + 1442695040888963407u;
        const int block = (int)(random >> 33) % BLOCKS;
        /* Growing and shrinking for a while each, together. */
        const size_t less = step / 1000 % 2 ? 300 : 9000, large = step / 1000 % 2 ? 40000 : 300000;
        const size_t size = 1 + (random >> 40) % (block % 4 ? less : large);
        pthread_mutex_lock(&turn);
        free(blocks[block]);
        held -= sizes[block];
        blocks[block] = malloc(size);
        sizes[block] = blocks[block] ? size : 0;
        held += sizes[block];
        if (held > most) most = held;
        pthread_mutex_unlock(&turn);
    }
    pthread_mutex_lock(&turn);
    for (int block = 0; block < BLOCKS; block++) {
        free(blocks[block]);
        held -= sizes[block];
    }
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    return NULL;
}

int main(void)
{
    const memprof_hooks_function_t give =
        (memprof_hooks_function_t)dlsym(RTLD_DEFAULT, "memprof_hooks");
    const memprof_hooks_t *hooks = give ? give(1) : NULL;
    pthread_t threads[THREADS];
    if (!hooks) return 1;
    pthread_barrier_init(&gate, NULL, THREADS + 1);
    pthread_barrier_init(&together, NULL, THREADS);
    for (uintptr_t number = 0; number < THREADS; number++)
        if (pthread_create(&threads[number], NULL, work, (void *)(number + 1))) return 1;
    pthread_barrier_wait(&gate);
    const uint64_t before = own(hooks).owned;
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    const memprof_component_t after = own(hooks);
    pthread_barrier_wait(&gate);
    for (int number = 0; number < THREADS; number++) pthread_join(threads[number], NULL);
    printf("most %lld told %lld left %lld\n", (long long)most,
           (long long)(after.owned_peak - before), (long long)(after.owned - before));
    return 0;
}
