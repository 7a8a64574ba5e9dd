/* Another preloaded tool that replaces malloc. It counts, and passes calls on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

static unsigned long calls;
static void *(*next_malloc)(size_t);
static void (*next_free)(void *);

/* Both at once: dlsym itself may free something. */
static void find(void)
{
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
}

void *malloc(size_t size)
{
    if (!next_malloc) find();
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    return next_malloc(size);
}

void free(void *block)
{
    if (!next_free && block) find();
    if (next_free) next_free(block);
}

unsigned long other_preload_calls(void) { return calls; }
