// A minimal allocator, whose blocks have a unique layout.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static char pool[1 << 26];
static size_t used;

void *malloc(size_t size) {
    size_t *head = (size_t *)(pool + used);
    used += (size + 47) / 16 * 16;
    if (used > sizeof pool)
        return 0;
    head[0] = size;
    head[1] = ~(size_t)0;
    return head + 2;
}

void free(void *block) {
    if (block && ((char *)block < pool || (char *)block >= pool + sizeof pool))
        __builtin_trap();
}

void *calloc(size_t count, size_t each) {
    return malloc(count * each);
}

void *realloc(void *block, size_t size) {
    free(block);
    void *moved = malloc(size);
    size_t before = block ? ((size_t *)block)[-2] : 0;
    if (moved && before)
        memcpy(moved, block, before < size ? before : size);
    return moved;
}
