// Prints which blocks are separate mappings, by the bit in their header: the C library raises the
// limit when one is freed.
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    for (size_t size = 100000; size < 3000000; size += 100000) {
        size_t *block = malloc(size);
        printf("%zu %s\n", size, block && block[-1] & 2 ? "mapped" : "in the heap");
    }
    return 0;
}
