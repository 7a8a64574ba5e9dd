// A library like a BLAS with threads: before a fork it ends its worker, which allocates and maps to
// the last, and restarts it afterwards.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_t worker;
static atomic_int wanted;

static void work(size_t bytes) {
    char *block = malloc(bytes);
    char *mapped = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!block || mapped == MAP_FAILED)
        _exit(9);
    block[0] = mapped[0] = 1;
    munmap(mapped, bytes);
    free(block);
}

static void *run(void *unused) {
    size_t bytes = 5000;
    while (atomic_load(&wanted))
        work(bytes);
    // At this point, while the other thread forks: blocks of every kind.
    for (bytes = 16; bytes <= 32 << 20; bytes *= 4)
        work(bytes);
    return unused;
}

static void start(void) {
    atomic_store(&wanted, 1);
    if (pthread_create(&worker, 0, run, 0))
        _exit(8);
}

static void stop(void) {
    atomic_store(&wanted, 0);
    pthread_join(worker, 0);
    work(3 << 20);
}

__attribute__((constructor)) static void begin(void) {
    pthread_atfork(stop, start, start);
    start();
}
