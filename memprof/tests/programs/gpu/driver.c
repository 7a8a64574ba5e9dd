// Stands for the driver of a GPU: memory of the device is a number that nobody may follow.

#include "stub.h"

#define LARGEST (1ull << 40)

static unsigned long long next = 0x700000000000ull;

int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
    if (bytes > LARGEST)
        return 2;
    unsigned long long place = __atomic_fetch_add(&next, (bytes + 511) & ~511ull, __ATOMIC_RELAXED);
    *pointer = place;
    return 0;
}

int cuMemFree_v2(unsigned long long pointer) {
    return pointer >= 0x700000000000ull && pointer < next ? 0 : 1;
}

// Without the further arguments of the real one.
int cuGetProcAddress_v2(const char *name, void **found) {
    if (__builtin_strcmp(name, "cuMemAlloc"))
        return 1;
    *found = (void *)cuMemAlloc_v2;
    return 0;
}
