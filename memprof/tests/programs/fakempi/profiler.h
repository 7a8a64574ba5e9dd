// What the profiler says, asked through its hooks as any program may.
#ifndef PROFILER_H
#define PROFILER_H

#include <cstdint>

enum Owner {
    OWNER_EXE,
    OWNER_PART,
    OWNER_BOTH,
    OWNER_APP_PLUGIN,
    OWNER_CORE,
    OWNER_DEP,
    OWNER_PLUGIN,
    OWNER_APP_SHARED,
    OWNER_MPI_SHARED,
    OWNER_FOR_USER,
    OWNER_UNATTRIBUTED,
    OWNER_COUNT,
    OWNER_NONE = -1
};

// What a component is called.
extern const char *const owner_names[OWNER_COUNT];

struct Amounts {
    uint64_t owned[OWNER_COUNT] = {};
    uint64_t resident[OWNER_COUNT] = {};
};

// Finds the hooks; false if there is no profiler in this process.
bool find_profiler();
// Reads what is owned now. False if a question was not answered.
bool ask(Amounts &amounts);
// Takes a sample, and reads what it found. False if none was taken.
bool look(Amounts &amounts, uint64_t *total, uint64_t *unattributed);
// All components with something in them, on stdout.
void show_components();

#endif
