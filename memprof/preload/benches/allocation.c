/* What a malloc and a free cost through the profiler, beside the C library's own in the same process:
 * slices of both in turns, so that what drifts on a shared machine drifts for both. A third kind of slice
 * does only what no ledger of this design can do without: the C library's malloc of eight bytes more, a
 * word written at the block's end, read again and erased before it is freed. Times of the processor, medians
 * over all slices. Prints one JSON object: of each shape the nanoseconds without, with what must be, and
 * with the profiler.
 *
 *   cc -O2 -pthread -fno-builtin-malloc -fno-builtin-free -o allocation allocation.c -ldl
 *   LD_PRELOAD=.../libmemprof_preload.so ./allocation [slices]
 *
 * Without the profiler both are the same, which shows what the method itself is worth. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAIRS = 20000, POOL = 4096, MOST_SLICES = 1001, KINDS = 3 };

struct shape {
    const char *name;
    uint32_t least, most;
    /* Live blocks, a power of two; a new one takes the place of another. */
    uint32_t pool;
    int threads;
};

static const struct shape shapes[] = {
    {"64", 64, 64, 1, 1},
    {"64_threads", 64, 64, 1, 2},
    {"1024_pool_64", 1, 1024, 64, 1},
    {"1024_pool_4096", 1, 1024, 4096, 1},
    {"1024_threads", 1, 1024, 4096, 2},
    {"16384_pool_64", 1024, 16384, 64, 1},
    {"16384_pool_1024", 1024, 16384, 1024, 1},
    {"102400_pool_64", 40960, 102400, 64, 1},
    {"102400_threads", 40960, 102400, 64, 2},
    {"1048576_pool_64", 131072, 1000000, 64, 1},
    {"1048576_threads", 131072, 1000000, 64, 2},
};

static void *(*real_malloc)(size_t);
static void (*real_free)(void *);
static int slices = 101;

static void *marked_malloc(size_t size)
{
    char *block = real_malloc(size + 8);
    uint64_t usable = (((uint64_t *)block)[-1] & ~(uint64_t)7) - 8, mark = (uint64_t)block;
    memcpy(block + usable - 8, &mark, 8);
    return block;
}

static void marked_free(void *block)
{
    if (!block) return;
    uint64_t usable = (((uint64_t *)block)[-1] & ~(uint64_t)7) - 8, mark;
    char *place = (char *)block + usable - 8;
    memcpy(&mark, place, 8);
    if (mark == (uint64_t)block) memset(place, 0, 8);
    real_free(block);
}

struct work {
    const struct shape *shape;
    pthread_barrier_t *together;
    double *measured[KINDS];
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static inline uint32_t next(uint32_t *seed)
{
    return *seed = *seed * 1664525u + 1013904223u;
}

#define SLICE(name, allocate, release)                                                             \
    static __attribute__((noinline)) double name(const struct shape *shape, uint32_t seed)         \
    {                                                                                              \
        static __thread void *live[POOL];                                                          \
        uint32_t range = shape->most - shape->least + 1, mask = shape->pool - 1;                   \
        for (uint32_t slot = 0; slot <= mask; slot++)                                              \
            live[slot] = allocate(shape->least + (uint32_t)((uint64_t)next(&seed) * range >> 32)); \
        double start = now();                                                                      \
        for (int pair = 0; pair < PAIRS; pair++) {                                                 \
            uint32_t slot = next(&seed) >> 12 & mask;                                              \
            uint32_t size = shape->least + (uint32_t)((uint64_t)next(&seed) * range >> 32);        \
            release(live[slot]);                                                                   \
            char *block = allocate(size);                                                          \
            *(volatile char *)block = 1;                                                           \
            live[slot] = block;                                                                    \
        }                                                                                          \
        double each = (now() - start) / PAIRS;                                                     \
        for (uint32_t slot = 0; slot <= mask; slot++) release(live[slot]);                         \
        return each;                                                                               \
    }

SLICE(slice_real, real_malloc, real_free)
SLICE(slice_marked, marked_malloc, marked_free)
SLICE(slice_profiled, malloc, free)

static void *run(void *argument)
{
    struct work *work = argument;
    static double (*const kinds[])(const struct shape *, uint32_t) = {
        slice_real, slice_marked, slice_profiled};
    /* The first round warms up. */
    for (int slice = -2; slice < slices; slice++) {
        for (int turn = 0; turn < KINDS; turn++) {
            /* Each comes behind each of the others as often: what one leaves of the heap, the next finds. */
            int kind = ((slice & 1 ? turn : KINDS - turn) + slice + 2 * KINDS) % KINDS;
            if (work->together) pthread_barrier_wait(work->together);
            double each = kinds[kind](work->shape, (uint32_t)slice * 77 + 5);
            if (slice >= 0) work->measured[kind][slice] = each;
        }
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *measured)
{
    qsort(measured, (size_t)slices, sizeof *measured, compare);
    return measured[slices / 2];
}

int main(int argc, char **argv)
{
    static double room[2][KINDS][MOST_SLICES];
    /* Pointers to malloc itself lead to the profiler, wherever they come from. */
    void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    real_malloc = library ? (void *(*)(size_t))dlsym(library, "__libc_malloc") : NULL;
    real_free = library ? (void (*)(void *))dlsym(library, "__libc_free") : NULL;
    if (!real_malloc || !real_free) {
        fprintf(stderr, "allocation: no C library to compare with\n");
        return 1;
    }
    if (getenv("LD_PRELOAD") && real_malloc == malloc) {
        fprintf(stderr, "allocation: the C library's malloc leads to the profiler\n");
        return 1;
    }
    if (argc > 1) slices = atoi(argv[1]);
    if (slices < 1 || slices > MOST_SLICES) slices = 101;
    /* What is freed stays: its pages are no part of what is measured. */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 16 << 20);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    printf("{\"malloc_free\": {");
    for (size_t which = 0; which < sizeof shapes / sizeof *shapes; which++) {
        const struct shape *shape = &shapes[which];
        pthread_barrier_t together;
        struct work works[2];
        pthread_t threads[2];
        for (int thread = 0; thread < shape->threads; thread++) {
            works[thread] = (struct work){shape, shape->threads > 1 ? &together : NULL, {0}};
            for (int kind = 0; kind < KINDS; kind++)
                works[thread].measured[kind] = room[thread][kind];
        }
        if (shape->threads > 1) {
            pthread_barrier_init(&together, NULL, 2);
            for (int thread = 0; thread < 2; thread++)
                pthread_create(&threads[thread], NULL, run, &works[thread]);
            for (int thread = 0; thread < 2; thread++) pthread_join(threads[thread], NULL);
            pthread_barrier_destroy(&together);
        } else {
            run(&works[0]);
        }
        printf("%s\"%s\": {\"without\": %.2f, \"mark\": %.2f, \"with\": %.2f}", which ? ", " : "",
               shape->name, median(room[0][0]), median(room[0][1]), median(room[0][2]));
    }
    printf("}}\n");
    return 0;
}
