/* Nanoseconds per malloc+free pair, best of several rounds: one size again and again, and random
 * sizes in a pool of live blocks. Prints one line per shape: name, nanoseconds. Compare two runs:
 *
 *   cc -O2 -pthread -o allocation allocation.c
 *   ./allocation; LD_PRELOAD=.../libmemprof_preload.so ./allocation */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAIRS = 1000000, ROUNDS = 9, POOL = 4096 };

struct shape {
    const char *name;
    size_t least, most;
    int pool;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static uint32_t next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static double run(const struct shape *shape)
{
    void **live = calloc(POOL, sizeof *live);
    double best = 1e30;
    uint32_t seed = 12345;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        for (int i = 0; i < PAIRS; i++) {
            size_t size = shape->least + next(&seed) % (shape->most - shape->least + 1);
            int slot = shape->pool ? (int) (next(&seed) % (uint32_t) shape->pool) : 0;
            free(live[slot]);
            char *block = malloc(size);
            *(volatile char *) block = 1;
            live[slot] = block;
        }
        double each = (now() - start) / PAIRS;
        if (each < best)
            best = each;
    }
    for (int i = 0; i < POOL; i++)
        free(live[i]);
    free(live);
    return best;
}

static void *thread(void *shape)
{
    double *result = malloc(sizeof *result);
    *result = run(shape);
    return result;
}

int main(void)
{
    static const struct shape shapes[] = {
        {"same size, hot", 64, 64, 0},
        {"1 to 1024 bytes, pool of 64", 1, 1024, 64},
        {"1 to 1024 bytes, pool of 4096", 1, 1024, POOL},
        {"1 to 16384 bytes, pool of 1024", 1, 16384, 1024},
        {"40 KiB to 100 KiB, pool of 64", 40960, 102400, 64},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        printf("%s\t%.2f\n", shapes[i].name, run(&shapes[i]));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        pthread_t threads[2];
        double worst = 0;
        for (int t = 0; t < 2; t++)
            pthread_create(&threads[t], NULL, thread, (void *) &shapes[i]);
        for (int t = 0; t < 2; t++) {
            void *result;
            pthread_join(threads[t], &result);
            if (*(double *) result > worst)
                worst = *(double *) result;
            free(result);
        }
        printf("%s, two threads\t%.2f\n", shapes[i].name, worst);
    }
    return 0;
}
