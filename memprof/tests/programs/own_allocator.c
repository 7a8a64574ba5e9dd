/* A program with a simple, correct allocator linked in, as with jemalloc in an archive. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static char *pool;
static size_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned calls;
#define POOL (64u << 20)

static void *get(size_t alignment, size_t size)
{
    pthread_mutex_lock(&lock);
    calls++;
    if (!pool) pool = mmap(NULL, POOL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t start = (used + 16 + alignment - 1) / alignment * alignment;
    void *block = NULL;
    if (size < POOL && start + size < POOL) {
        block = pool + start;
        ((size_t *)block)[-1] = size;
        used = start + size;
    } else {
        errno = ENOMEM;
    }
    pthread_mutex_unlock(&lock);
    return block;
}

void *malloc(size_t size) { return get(16, size); }
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) { return get(16, count * size); }
void *memalign(size_t alignment, size_t size) { return get(alignment < 16 ? 16 : alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
size_t malloc_usable_size(void *block) { return block ? ((size_t *)block)[-1] : 0; }

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

void *realloc(void *block, size_t size)
{
    void *moved = get(16, size);
    size_t kept = malloc_usable_size(block);
    if (block && moved) memcpy(moved, block, kept < size ? kept : size);
    return moved;
}

int main(void)
{
    char *volatile copy = strdup("copied");
    char *volatile large = malloc(1 << 20);
    memset(large, 1, 1 << 20);
    int inside = copy >= pool && copy < pool + POOL && large >= pool && large < pool + POOL;
    printf("%s\n", inside ? "own allocator" : "another allocator");
    return !inside || calls < 2;
}
