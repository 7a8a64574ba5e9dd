// A library that maps and unmaps five times.
#define _GNU_SOURCE
#include <sys/mman.h>

void map_five_times(void) {
    for (int i = 0; i < 5; i++)
        munmap(mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
}
