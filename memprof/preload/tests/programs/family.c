// Uses functions that its allocator has and functions that it lacks.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef OWN
#include "allocator.c"
#endif

int main(void) {
    char *text = malloc(10);
    strcpy(text, "hello");
    text = reallocarray(text, 100, 10);
    puts(text);
    text = realloc(text, 100000);
    puts(text);
    for (size_t size = 1; size < 100000; size *= 3) {
        char *block = malloc(size), *other = reallocarray(0, size, 2);
        memset(block, 1, size);
        memset(other, 2, 2 * size);
        free(block);
        free(other);
    }
    puts(text);
    void *aligned = aligned_alloc(64, 640);
    puts(aligned && (size_t)aligned % 64 == 0 ? "aligned" : "not aligned");
    return 0;
}
