#include "profiler.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>

const char *const owner_names[OWNER_COUNT] = {
    "app.exe:interpreter",        "app.lib:libpart.so",
    "app.lib:libboth.so",         "app.lib:libapp_plugin.so",
    "mpi.core:libfakempi.so",     "mpi.dep:libfakempi_dep.so",
    "mpi.dep:libfakempi_plugin.so", "app.shm",
    "mpi.shm",                    "mpi.for_user",
    "unattributed",
};

namespace {

// As documented for programs that link with no library.
struct Component {
    char name[96];
    uint64_t owned, owned_peak, resident, resident_peak, sample_time_ns;
};

struct Totals {
    uint64_t resident, resident_peak, unattributed, owned, sample_time_ns;
};

struct Hooks {
    uint32_t version, size;
    uint32_t (*region_begin)(const char *name, size_t length, uint32_t kind);
    void (*region_end)(uint32_t id);
    uint32_t (*component_count)();
    int (*component)(uint32_t index, Component *out);
    int (*totals)(Totals *out);
    int (*flush)();
};

const Hooks *hooks;
// Components keep their places; new ones are appended. Some places stay empty.
uint32_t known;
int places[OWNER_COUNT];

int owner_named(const char *name)
{
    for (int owner = 0; owner < OWNER_COUNT; owner++) {
        if (strcmp(name, owner_names[owner]) == 0) return owner;
    }
    return OWNER_NONE;
}

bool learn_components()
{
    uint32_t count = hooks->component_count();
    for (; known < count; known++) {
        Component component;
        if (hooks->component(known, &component)) continue;
        int owner = owner_named(component.name);
        if (owner != OWNER_NONE) places[owner] = static_cast<int>(known);
    }
    return true;
}

} // namespace

bool find_profiler()
{
    auto find = reinterpret_cast<const Hooks *(*)(uint32_t)>(dlsym(RTLD_DEFAULT, "memprof_hooks"));
    hooks = find ? find(1) : nullptr;
    for (int &place : places) place = OWNER_NONE;
    return hooks && hooks->size >= sizeof(Hooks);
}

bool ask(Amounts &amounts)
{
    if (!learn_components()) return false;
    for (int owner = 0; owner < OWNER_COUNT; owner++) {
        Component component = {};
        if (places[owner] != OWNER_NONE &&
            hooks->component(static_cast<uint32_t>(places[owner]), &component))
            return false;
        amounts.owned[owner] = component.owned;
        amounts.resident[owner] = component.resident;
    }
    return true;
}

bool look(Amounts &amounts, uint64_t *total, uint64_t *unattributed)
{
    Totals before, after;
    // A child of a fork has no sample yet.
    if (hooks->totals(&before)) before.sample_time_ns = 0;
    if (hooks->flush() || hooks->totals(&after)) return false;
    if (after.sample_time_ns == before.sample_time_ns) return false;
    *total = after.resident;
    *unattributed = after.unattributed;
    return ask(amounts);
}

void show_components()
{
    uint32_t count = hooks->component_count();
    for (uint32_t index = 0; index < count; index++) {
        Component component;
        if (hooks->component(index, &component)) continue;
        if (component.owned || component.resident)
            printf("component %u %s: owned %lu, resident %lu\n", index, component.name,
                   component.owned, component.resident);
    }
    fflush(stdout);
}
