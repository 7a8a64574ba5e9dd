/* Blocks whose sizes others count too: the C library (mallinfo2), heaptrack, and the kernel for
 * their resident part. Prints what it got and reads a character, then has itself sampled, prints
 * that it is ready and reads another character, so that it can be examined while it is idle. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <malloc.h>
#include <memprof.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL 200
#define LARGE 4

static char *blocks[SMALL + LARGE];

/* Larger than the blocks that the C library caches for each thread, which it counts as in use. */
static size_t size_of(int index)
{
    return index < SMALL ? 2000 + 300 * (size_t)index : (size_t)(index - SMALL + 1) * 3000000;
}

static size_t in_use(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Bytes that this file owns according to the profiler; 0 without it. */
static uint64_t owned(const memprof_hooks_t *hooks)
{
    memprof_component_t component;
    for (uint32_t index = 0; hooks && index < hooks->component_count(); ++index)
        if (!hooks->component(index, &component) && !strncmp(component.name, "app.exe", 7))
            return component.owned;
    return 0;
}

static void say_and_wait(const char *word)
{
    printf("%s\n", word);
    fflush(stdout);
    if (getchar() == EOF) {}
}

int main(void)
{
    const memprof_hooks_function_t give =
        (memprof_hooks_function_t)dlsym(RTLD_DEFAULT, "memprof_hooks");
    const memprof_hooks_t *hooks = give ? give(1) : NULL;
    static char out[4096];
    size_t asked = 0;
    setvbuf(stdout, out, _IOFBF, sizeof out);
    /* Everything that calls allocate first is allocated. */
    (void)owned(hooks);
    const size_t used_before = in_use();
    const uint64_t owned_before = owned(hooks);
    for (int index = 0; index < SMALL + LARGE; ++index) {
        blocks[index] = malloc(size_of(index));
        if (!blocks[index]) return 1;
        memset(blocks[index], 1, size_of(index));
        asked += size_of(index);
    }
    const size_t used = in_use() - used_before;
    const uint64_t more = owned(hooks) - owned_before;
    printf("asked %zu blocks %d mallinfo %zu owned %llu\n", asked, SMALL + LARGE, used,
           (unsigned long long)more);
    /* Everything after the last sample is done once before it: a call into a page of code that
     * is not mapped yet makes the kernel map the sixteen around it, which the sample could not
     * have seen. */
    say_and_wait("blocks");
    /* The first look maps and touches what looks need; the second finds nothing new. */
    for (int look = 0; hooks && look < 4; ++look) hooks->flush();
    say_and_wait("ready");
    for (int index = 0; index < SMALL + LARGE; index += 2) free(blocks[index]);
    return 0;
}
