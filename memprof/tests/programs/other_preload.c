/* Another tool that is preloaded and wants malloc for itself. It counts, and passes on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

static unsigned long calls;

void *malloc(size_t size)
{
    static void *(*next)(size_t);
    if (!next) next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    return next(size);
}

void free(void *block)
{
    static void (*next)(void *);
    if (!next) next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next(block);
}

unsigned long other_preload_calls(void) { return calls; }
