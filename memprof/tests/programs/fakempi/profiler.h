// The profiler's figures, queried through its hooks as by any program.
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

// Name of a component.
extern const char *const owner_names[OWNER_COUNT];

struct Amounts {
    uint64_t owned[OWNER_COUNT] = {};
    uint64_t resident[OWNER_COUNT] = {};
};

// Finds the hooks; returns false if there is no profiler in this process.
bool find_profiler();
// Reads what is owned now. Returns false if a query failed.
bool ask(Amounts &amounts);
// Takes a sample and reads its figures. Returns false if none was taken.
bool look(Amounts &amounts, uint64_t *total, uint64_t *unattributed);
// Prints all components that hold memory, on stdout.
void show_components();

#endif
