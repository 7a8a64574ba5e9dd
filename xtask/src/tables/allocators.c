/* Usage: allocators hold|grow|zero|found|free|trim. One of the uses of an allocator; LIBRARY makes the library that the program
   calls, another component to the profiler. */
#include <stdlib.h>
#include <string.h>

#define MIB (1 << 20)

void *library_block(size_t size);

#ifdef LIBRARY
void *library_block(size_t size)
{
    return memset(malloc(size), 1, size);
}
#else
#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    enum { SMALL = 1 << 14, BLOCKS = 64 * MIB / SMALL };
    static char *volatile blocks[BLOCKS];
    const char *use = argc > 1 ? argv[1] : "";

    if (0 == strcmp(use, "hold")) {
        for (int i = 0; i < 24; ++i) blocks[i] = memset(malloc(MIB), 1, MIB);
        for (int i = 24; i < 72; ++i) blocks[i] = library_block(MIB);
    } else if (0 == strcmp(use, "grow")) {
        blocks[0] = library_block(MIB);
        blocks[0] = realloc(blocks[0], 32 * MIB);
        memset(blocks[0], 2, 32 * MIB);
    } else if (0 == strcmp(use, "zero")) {
        for (int i = 0; i < 4; ++i) blocks[i] = calloc(1, 16 * MIB);
    } else if (0 == strcmp(use, "found")) {
        void *(*found)(size_t);
        *(void **)&found = dlsym(dlopen("libc.so.6", RTLD_NOW), "malloc");
        blocks[0] = memset(found(64 * MIB), 1, 64 * MIB);
    } else {
        for (int i = 0; i < BLOCKS; ++i) blocks[i] = memset(malloc(SMALL), 1, SMALL);
        for (int i = 0; i < BLOCKS - 1; ++i) free(blocks[i]);
        if (0 == strcmp(use, "trim")) malloc_trim(0);
    }
    usleep(500000);
    return 0;
}
#endif
