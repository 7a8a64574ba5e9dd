/* The first thread and two others allocate, map, free what any of them allocated, and begin and
 * end regions, one action at a time in random order, each for a while: the program knows what it
 * held at every moment. Queries the profiler after each while, and prints the largest error of
 * its peak, and the most held in each region. With `alone` the first thread does everything;
 * with `fork` one of them forks in the end, and the child continues alone and is compared. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "own_component.h"

#define OTHERS 2
#define BLOCKS 48
#define REGIONS 40
#define WHILES 40

static struct {
    char *start;
    size_t size;
    int mapped;
} blocks[BLOCKS];
static uint64_t chance = 1;
static size_t held, most, most_in_region;
static sem_t asked[OTHERS], done;
/* Request to a thread: to do a number of actions, or to begin a region, or to end it. */
static int steps, forks;
static size_t grows;
/* No large blocks are allocated. */
static int little;
static const char *begins;
static uint32_t region;
static const memprof_hooks_t *hooks;
static int is_alone, chosen = -1;
static long long before;

static uint64_t next(uint64_t below)
{
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return (chance >> 33) % below;
}

static void count(size_t more, size_t less)
{
    held += more;
    held -= less;
    if (held > most) most = held;
    if (held > most_in_region) most_in_region = held;
}

static void release(int block)
{
    if (blocks[block].mapped) {
        munmap(blocks[block].start, blocks[block].size);
    } else {
        free(blocks[block].start);
    }
    count(0, blocks[block].size);
    blocks[block].start = NULL;
    blocks[block].size = 0;
    blocks[block].mapped = 0;
}

static size_t size_of_next(void)
{
    static const size_t larger[] = { 4000, 100000, 1000000, 3000000, 40000000 };
    size_t kind = next(40);
    kind = kind < 24 || little ? 0 : kind < 32 ? 1 : kind < 37 ? 2 : kind < 39 ? 3 : 4;
    return 1 + next(larger[kind]);
}

static void make(int block, size_t size, int mapped)
{
    if (mapped) {
        size = (size + 4095) / 4096 * 4096;
        blocks[block].start =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (blocks[block].start == MAP_FAILED) exit(3);
    } else {
        blocks[block].start = malloc(size);
    }
    blocks[block].mapped = mapped;
    blocks[block].size = size;
    count(size, 0);
}

static void change(int how_many)
{
    for (int step = 0; step < how_many; step++) {
        const int block = (int)next(BLOCKS);
        release(block);
        if (next(8) >= 3) make(block, size_of_next(), next(16) == 0);
    }
}

/* Compares the profiler with the program: its peak, and what is owned now. */
static void compare(long long *low, long long *high, long long *wrong)
{
    const memprof_component_t now = own(hooks);
    const long long off = (long long)now.owned_peak - before - (long long)most;
    if (off < *low) *low = off;
    if (off > *high) *high = off;
    *wrong += (long long)now.owned - before != (long long)held;
}

/* A child has one thread, whose peaks are exact once they are higher than all earlier ones. */
static void go_on_as_child(void)
{
    long long low = 0, high = 0, wrong = 0;
    /* The peak of the parent's threads is known, within their error. */
    compare(&low, &high, &wrong);
    if (low < -3 * 262144 || high > 3 * 262144) _exit(1);
    low = high = 0;
    release(0);
    make(0, most - held + 5000000, 0);
    for (int turn = 0; turn < 60; turn++) {
        change(20);
        compare(&low, &high, &wrong);
        if (turn % 20 == 19) {
            release(0);
            make(0, most - held + 700000, turn == 39);
        }
    }
    dprintf(1, "low %lld high %lld wrong %lld\n", low, high, wrong);
    _exit(0);
}

static void work(void)
{
    if (begins) {
        region = hooks->region_begin(begins, strlen(begins), 0);
        most_in_region = held;
    }
    change(steps);
    if (grows) {
        release(2);
        make(2, grows, 0);
    }
    if (forks) {
        const pid_t child = fork();
        int status;
        if (child == 0) go_on_as_child();
        if (waitpid(child, &status, 0) != child || status != 0) exit(4);
    }
}

static void *other(void *number)
{
    const int own = (int)(intptr_t)number;
    for (;;) {
        sem_wait(&asked[own]);
        if (steps < 0) return NULL;
        work();
        sem_post(&done);
    }
}

/* One of the threads does it. */
static void by_one(int how_many, const char *name)
{
    const int who = is_alone ? OTHERS : chosen < 0 ? (int)next(OTHERS + 1) : chosen;
    steps = how_many;
    begins = name;
    if (who == OTHERS) {
        work();
    } else {
        sem_post(&asked[who]);
        sem_wait(&done);
    }
}

int main(int argc, char **argv)
{
    static char names[REGIONS][8];
    static size_t in_regions[REGIONS];
    const memprof_hooks_function_t give =
        (memprof_hooks_function_t)dlsym(RTLD_DEFAULT, "memprof_hooks");
    pthread_t threads[OTHERS];
    long long low = 0, high = 0, wrong = 0;
    hooks = give ? give(1) : NULL;
    if (!hooks) return 1;
    is_alone = argc > 2 && !strcmp(argv[2], "alone");
    chance = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    sem_init(&done, 0, 0);
    for (intptr_t number = 0; number < OTHERS; number++) {
        sem_init(&asked[number], 0, 0);
        if (pthread_create(&threads[number], NULL, other, (void *)number)) return 1;
    }
    /* What threads themselves need exists all the time. */
    by_one(0, NULL);
    before = (long long)own(hooks).owned;
    for (int number = 0; number < REGIONS; number++) {
        /* The region begins with nothing, and what was held before would show in it. */
        little = number % 3 == 1;
        snprintf(names[number], sizeof names[number], "r%d", number);
        by_one(0, names[number]);
        for (int turn = 0; turn < WHILES; turn++) {
            by_one(1 + (int)next(30), NULL);
            compare(&low, &high, &wrong);
        }
        for (int block = 0; number % 3 == 0 && block < BLOCKS; block++) release(block);
        hooks->region_end(region);
        in_regions[number] = most_in_region;
        /* Outside any region. */
        char *volatile large = malloc(9000000), *volatile smaller = malloc(900000);
        count(9900000, 0);
        free(large);
        free(smaller);
        count(0, 9900000);
    }
    forks = argc > 2 && !strcmp(argv[2], "fork");
    if (forks) {
        /* The first thread's peak was before another had allocated what it has now. */
        forks = 0;
        release(1);
        make(1, most - held + 30000000, 0);
        release(1);
        chosen = 0;
        grows = 20000000;
        by_one(0, NULL);
        grows = 0;
        chosen = strtoull(argv[1], NULL, 10) % 2 ? OTHERS : -1;
        forks = 1;
        by_one(0, NULL);
        return 0;
    }
    printf("low %lld high %lld wrong %lld\n", low, high, wrong);
    for (int number = 0; number < REGIONS; number++)
        printf("%s %lld\n", names[number], before + (long long)in_regions[number]);
    steps = -1;
    for (int number = 0; number < OTHERS; number++) {
        sem_post(&asked[number]);
        pthread_join(threads[number], NULL);
    }
    return 0;
}
