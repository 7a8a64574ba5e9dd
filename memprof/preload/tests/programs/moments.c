/* Buffers that live for less than any time between two samples. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SIZE ((size_t)40 << 20)

int main(void)
{
    for (int round = 0; round < 50; round++) {
        char *volatile block = malloc(SIZE);
        memset(block, 1, SIZE);
        free(block);
        char *mapping = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(mapping, 1, SIZE);
        munmap(mapping, SIZE);
    }
    return 0;
}
