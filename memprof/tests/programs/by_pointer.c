/* Usage: by_pointer handle|plain|table. Takes and keeps 40 blocks of half a MiB each through pointers
   to malloc: one from the C library's own handle, with realloc (handle) or without it (plain), or
   one that it gives to a library in a table. LIBRARY makes that library. */
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 40, SIZE = 1 << 19 };

struct functions {
    void *(*allocate)(size_t);
    void *(*resize)(void *, size_t);
    void (*release)(void *);
};

static inline void take(const struct functions *functions, char **blocks)
{
    for (int i = 0; i < BLOCKS; ++i) {
        char *spare = functions->allocate(SIZE);
        blocks[i] = functions->allocate(functions->resize ? SIZE / 2 : SIZE);
        if (functions->resize) blocks[i] = functions->resize(blocks[i], SIZE);
        memset(blocks[i], 1, SIZE);
        functions->release(spare);
    }
}

void take_in_library(const struct functions *functions, char **blocks);

#ifdef LIBRARY
void take_in_library(const struct functions *functions, char **blocks)
{
    take(functions, blocks);
}
#else
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    static char *blocks[BLOCKS];
    const char *use = argc > 1 ? argv[1] : "";

    if (0 == strcmp(use, "table")) {
        take_in_library(&(struct functions){malloc, realloc, free}, blocks);
    } else {
        void *handle = dlopen("libc.so.6", RTLD_NOW);
        struct functions found = {0};
        *(void **)&found.allocate = dlsym(handle, "malloc");
        *(void **)&found.release = dlsym(handle, "free");
        if (0 == strcmp(use, "handle")) *(void **)&found.resize = dlsym(handle, "realloc");
        take(&found, blocks);
    }
    /* A block of either way can be freed by the other. */
    free(blocks[0]);
    blocks[0] = memset(malloc(SIZE), 1, SIZE);
    printf("%d bytes kept\n", BLOCKS * SIZE);
    return 0;
}
#endif
