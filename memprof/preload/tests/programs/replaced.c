// Loads two libraries alternately, each at the address of the other, and asks the profiler who owns
// which blocks.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 100, ROUNDS = 8 };

struct component { char name[96]; uint64_t owned, peak, resident, resident_peak, time; };
struct hooks {
    uint32_t version, size;
    uint32_t (*region_begin)(const char *, size_t, uint32_t);
    void (*region_end)(uint32_t);
    uint32_t (*count)(void);
    int (*component)(uint32_t, struct component *);
};

static uint64_t owned(const struct hooks *hooks, const char *name) {
    struct component one;
    uint64_t sum = 0;
    for (uint32_t at = 0; at < hooks->count(); at++)
        if (hooks->component(at, &one) == 0 && strstr(one.name, name))
            sum += one.owned;
    return sum;
}

int main(int count, char **arguments) {
    const struct hooks *(*find)(uint32_t) =
        (const struct hooks *(*)(uint32_t))dlsym(RTLD_DEFAULT, "memprof_hooks");
    if (count < 3 || !find)
        return 2;
    const struct hooks *hooks = find(1);
    void *(*before)(size_t) = NULL;
    int replaced = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const char *path = arguments[1 + round % 2], *name = strrchr(path, '/') + 1;
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        void *(*make)(size_t) = library ? (void *(*)(size_t))dlsym(library, "make") : NULL;
        if (!make)
            return 3;
        replaced += make == before;
        before = make;
        void *volatile theirs[BLOCKS], *volatile ours[BLOCKS];
        uint64_t held = owned(hooks, name), more = 0;
        // Alternating with the program's own, so that no caller is the last one's.
        for (int block = 0; block < BLOCKS; block++) {
            theirs[block] = make(100 + block);
            ours[block] = malloc(50);
            more += 100 + block;
        }
        uint64_t has = owned(hooks, name) - held;
        if (has != more) {
            printf("round %d: %s has %ju of %ju\n", round, name, (uintmax_t)has, (uintmax_t)more);
            return 4;
        }
        for (int block = 0; block < BLOCKS; block++) {
            free(theirs[block]);
            free(ours[block]);
        }
        dlclose(library);
    }
    puts(replaced ? "replaced" : "elsewhere");
    return 0;
}
