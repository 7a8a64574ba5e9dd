// Random programs: their steps, as numbers and as text.
#ifndef SCRIPT_H
#define SCRIPT_H

#include <cstddef>
#include <cstdint>

#include "orders.h"

enum Place {
    EXE,         // the program's own code
    PART,        // libpart.so
    BOTH,        // libboth.so, called by the program
    APP_PLUGIN,  // what the program has loaded at run time
    CORE,        // libfakempi.so
    DEP,         // libfakempi_dep.so
    PLUGIN,      // what the MPI has loaded at run time
    BOTH_IN_MPI, // libboth.so, called by the MPI
    HELPER,      // libfakempi.so, in the thread that it has started
    CALLBACK,    // the program's own code, called by the MPI
    PLACE_COUNT
};

enum What {
    GET,       // memory of a kind into an empty slot
    GIVE_BACK, // what is in the slot
    RESIZE,
    TOUCH,   // pages, or fill all that malloc_usable_size promises
    UNMAP,   // a part
    REPLACE, // a part, by a mapping at the same addresses
    FAIL,    // calls that cannot succeed
    GIVEN,   // MPI_Alloc_mem or MPI_Win_allocate
    SWAP,    // with the slot that all threads share: another thread frees it
    RELOAD,  // the MPI's plugin
    CHECK,   // owned, to the byte
    LOOK,    // resident, to the page
    WHAT_COUNT
};

// How the slot is left.
enum Leave { RETURN, THROW, JUMP, LEAVE_COUNT };

// Thread of the step.
enum Thread { SELF, WORKER, SHORT_LIVED, THREAD_COUNT };

struct Op {
    int what = CHECK, place = EXE, kind = KIND_MALLOC, slot = 0, leave = RETURN, thread = SELF;
    size_t size = 0, extra = 0;
};

constexpr int SLOTS = 24;
constexpr int LENGTH_LIMIT = 512;

struct Choice {
    bool threads = false; // several at once: no helper threads of single ones, no RELOAD, no checks
    bool child = false;   // after fork: threads are gone
    bool huge = false;    // there are hugetlb pages
    int look_one_in = 64; // programs of so many have a LOOK, or several
};

struct Script {
    Op ops[LENGTH_LIMIT];
    int length = 0;
};

// Generates the program of this seed.
void generate(Script &script, uint64_t seed, int length, const Choice &choice);
void print(const Script &script);
// Reads what `print` writes; returns false if a line is invalid.
bool parse(Script &script, char *text);

#endif
