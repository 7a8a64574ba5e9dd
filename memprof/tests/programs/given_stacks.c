/* A thread on a stack that the program has mapped for it: while it runs the pages are its stack,
 * then they are the program's again. Prints the profiler's figures, in KiB. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <memprof.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define LENGTH ((size_t)8 << 20)
#define DEEP ((size_t)4 << 20)

static const memprof_hooks_t *hooks;

static void look(const char *when)
{
    memprof_component_t component;
    uint64_t stack = 0, own = 0, owned = 0;
    if (hooks->flush()) return;
    for (uint32_t index = 0; index < hooks->component_count(); ++index) {
        if (hooks->component(index, &component)) continue;
        if (!strncmp(component.name, "stack:asking", 12)) stack += component.resident;
        if (!strncmp(component.name, "app.exe", 7)) {
            own += component.resident;
            owned += component.owned;
        }
    }
    printf("%s stack %d own %d owned %d\n", when, (int)(stack >> 10), (int)(own >> 10),
           (int)(owned >> 10));
}

static void *deep(void *how)
{
    volatile char room[DEEP];
    for (size_t at = 0; at < DEEP; at += 1024) room[at] = 1;
    look("living");
    if (room[DEEP - 1024] != 1) return how;
    if (how) pthread_exit(NULL);
    return NULL;
}

int main(void)
{
    const memprof_hooks_function_t give =
        (memprof_hooks_function_t)dlsym(RTLD_DEFAULT, "memprof_hooks");
    hooks = give ? give(1) : NULL;
    void *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!hooks || memory == MAP_FAILED) return 1;
    look("before");
    for (int round = 0; round < 2; round++) {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, memory, LENGTH);
        if (pthread_create(&thread, &attributes, deep, round ? memory : NULL)) return 1;
        pthread_join(thread, NULL);
        pthread_attr_destroy(&attributes);
        look("ended");
    }
    return 0;
}
