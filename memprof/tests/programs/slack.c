/* Free memory of the C library's heaps, in one of several situations. The process reaches its peak
 * then, by a mapping; afterwards malloc_trim(0) returns what it can, and the program prints by how
 * many bytes its resident memory has become less. Before, it prints the C library's own figures of
 * each arena on standard error. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define THREADS 6
#define MORE (8 << 20)
#define FEW 64

static char *volatile last;

static void *filled(size_t size)
{
    void *block = malloc(size);
    if (!block) exit(3);
    return memset(block, 1, size);
}

__attribute__((noinline)) static void *keep(size_t size)
{
    return filled(size);
}

/* Allocates blocks of this size, then smaller ones, of which the first fill gaps, and frees the first ones
 * but each `kept`-th. */
static void blocks(size_t bytes, size_t size, size_t kept)
{
    size_t count = bytes / size;
    char **all = filled(count * sizeof *all);
    for (size_t i = 0; i < count; i++) all[i] = filled(size);
    for (int i = 0; i < FEW; i++) last = keep(1200);
    for (size_t i = 0; i < count; i++)
        if (!kept || i % kept) free(all[i]);
    free(all);
}

static pthread_t threads[THREADS];
static pthread_barrier_t barrier;
static int shares;

/* Leaves free memory in the arena of this thread: of a size that depends on the thread, at its end,
 * or the same in each. */
static void *in_thread(void *end)
{
    if (shares) {
        blocks((size_t)(1 + (pthread_t *)end - threads) * 3 << 20, 3000, 0);
    } else if (end) {
        char *all[4000];
        for (int i = 0; i < 4000; i++) all[i] = filled(4000);
        for (int i = 0; i < 4000; i++) free(all[i]);
    } else {
        blocks(6 << 20, 3000, 0);
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static long resident(void)
{
    long kib = 0;
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (!file) exit(4);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Rss: %ld", &kib) == 1) break;
    fclose(file);
    return kib << 10;
}

static void run(const char *how)
{
    shares = !strcmp(how, "shares");
    int in_threads = !strcmp(how, "arenas") || !strcmp(how, "ends") || shares;
    if (!strcmp(how, "held")) blocks(48 << 20, 16000, 0);
    if (!strcmp(how, "fragments")) blocks(24 << 20, 1500, 2);
    if (shares) blocks(10 << 20, 3000, 2);
    if (!strcmp(how, "cached")) {
        static char *all[600], *few[FEW];
        for (int i = 0; i < 600; i++) all[i] = filled(64 << 10);
        for (int i = 0; i < FEW; i++) few[i] = filled(1000);
        /* The first ones to be freed, which are the last of the heap, go into the thread's cache. */
        for (int i = FEW; i-- > 0;) free(few[i]);
        for (int i = 0; i < 600; i++) free(all[i]);
    }
    /* The C library raises its thresholds to the size of the largest mapped block that was freed. */
    if (!strcmp(how, "ends")) free(filled(20 << 20));
    if (!in_threads) return;
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, in_thread, strcmp(how, "arenas") ? &threads[i] : NULL)) exit(5);
    pthread_barrier_wait(&barrier);
}

int main(int count, char **arguments)
{
    if (count != 2) return 2;
    long first = resident();
    run(arguments[1]);
    char *more = mmap(NULL, MORE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED) return 1;
    memset(more, 1, MORE);
    munmap(more, MORE);
    malloc_info(0, stderr);
    long before = resident();
    malloc_trim(0);
    printf("%ld of %ld\n", before - resident(), before - first);
    return 0;
}
