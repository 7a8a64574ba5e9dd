/* Touches known amounts of memory of every kind, takes a sample, prints that, and waits for the
 * end of its input. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

struct hooks {
    uint32_t version, size;
    void *unused[5];
    int (*flush)(void);
};

static pthread_barrier_t barrier;

static void touch(volatile char *memory, size_t length)
{
    for (size_t at = 0; at < length; at += 4096) {
        memory[at] = 1;
    }
}

static void deep(void)
{
    char room[2 * MIB];
    touch(room, sizeof room);
}

static void *thread(void *unused)
{
    char room[MIB];
    touch(room, sizeof room);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(void)
{
    deep();
    pthread_t other;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&other, NULL, thread, NULL);
    char *large = malloc(20 * MIB);
    touch(large, 20 * MIB);
    size_t left = 4 * MIB;
    while (left > 0) {
        char *small = malloc(1000);
        memset(small, 1, 1000);
        left -= left < 1000 ? left : 1000;
    }
    char *private = mmap(NULL, 10 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    touch(private, 5 * MIB);
    char *shared = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    touch(shared, 3 * MIB);
    int file = memfd_create("segment", 0);
    if (ftruncate(file, 4 * MIB) != 0) {
        return 1;
    }
    char *segment = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    touch(segment + MIB, 2 * MIB);
    char *swept = mmap(NULL, 6 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    touch(swept, 6 * MIB);
    munmap(swept, 6 * MIB);
    pthread_barrier_wait(&barrier);
    const struct hooks *(*hooks)(uint32_t) = dlsym(RTLD_DEFAULT, "memprof_hooks");
    if (hooks != NULL) {
        hooks(1)->flush();
    }
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    pthread_barrier_wait(&barrier);
    pthread_join(other, NULL);
    return 0;
}
