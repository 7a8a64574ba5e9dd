/* Two hundred concurrent threads that allocate from thousands of places in dozens of phases:
 * everything for which the profiler has tables. Prints the process's peak according to the
 * kernel. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memprof.h"

enum { THREADS = 200, BLOCKS = 100, DEPTH = 12, PHASES = 100 };

static pthread_barrier_t gate;

/* As many stacks as numbers have bits: each bit selects one of two functions. */
static void *way(unsigned bits, int depth);

#define WAY(name)                                          \
    static void *name(unsigned bits, int depth)            \
    {                                                      \
        void *block = way(bits >> 1, depth - 1);           \
        /* Prevents a tail call. */                        \
        __asm__ volatile("" : : "r"(block) : "memory");    \
        return block;                                      \
    }

WAY(way_of_zero)
WAY(way_of_one)

static void *way(unsigned bits, int depth)
{
    if (!depth) return malloc(1000);
    void *block = bits & 1 ? way_of_one(bits, depth) : way_of_zero(bits, depth);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

static void *work(void *number)
{
    void *blocks[BLOCKS];
    uint64_t random = (uint64_t)(uintptr_t)number * 0x9e3779b97f4a7c15u;
    for (int block = 0; block < BLOCKS; block++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        blocks[block] = way((unsigned)(random >> 33), DEPTH);
        if (blocks[block]) memset(blocks[block], 1, 1000);
    }
    /* All threads have theirs. */
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    for (int block = 0; block < BLOCKS; block++) free(blocks[block]);
    return NULL;
}

static long most(void)
{
    char line[256];
    long kibibytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld", &kibibytes);
    if (status) fclose(status);
    return kibibytes << 10;
}

int main(void)
{
    memprof_hooks_function_t find;
    *(void **)&find = dlsym(RTLD_DEFAULT, "memprof_hooks");
    const memprof_hooks_t *hooks = find ? find(1) : NULL;
    pthread_t threads[THREADS];
    pthread_barrier_init(&gate, NULL, THREADS + 1);
    for (uintptr_t number = 0; number < THREADS; number++)
        if (pthread_create(&threads[number], NULL, work, (void *)(number + 1))) return 1;
    pthread_barrier_wait(&gate);
    for (int phase = 0; hooks && phase < PHASES; phase++) {
        char name[32];
        const int length = snprintf(name, sizeof name, "phase %d", phase);
        const uint32_t id = hooks->region_begin(name, (size_t)length, 0);
        hooks->region_end(id);
    }
    if (hooks && hooks->flush()) return 2;
    pthread_barrier_wait(&gate);
    for (int number = 0; number < THREADS; number++) pthread_join(threads[number], NULL);
    printf("most %ld\n", most());
    return 0;
}
