// Expected contents of the ledgers: maintained by the program itself, from its actions.
#ifndef MODEL_H
#define MODEL_H

#include <cstddef>
#include <cstdint>

#include "profiler.h"
#include "script.h"

struct Range {
    char *start;
    size_t length;
    int owner;
};

// What a slot holds. Heap blocks have a size and an owner, mappings have ranges.
struct Slot {
    static constexpr int EMPTY = -1, GIVEN_BY_MALLOC = KIND_COUNT, GIVEN_BY_MAP = KIND_COUNT + 1;
    static constexpr int RANGES = 4;

    int kind = EMPTY;
    char *pointer = nullptr;
    size_t size = 0, alignment = 0;
    int owner = OWNER_NONE;
    Range ranges[RANGES];
    int range_count = 0;
    bool window = false;
    unsigned char mark = 0;

    bool is_empty() const { return kind == EMPTY; }
    bool is_given() const { return kind >= GIVEN_BY_MALLOC; }
    bool is_heap() const { return kind != EMPTY && (kind == GIVEN_BY_MALLOC || KIND_IS_HEAP(kind)); }
    // Writes the first and the last byte, so that a write by other code is noticed.
    void set_marks(unsigned char with);
    bool marks_are_there(size_t up_to) const;
};

// Returns the owner of the memory that a place gets. OWNER_NONE: the ledger does not see it.
int owner_of(int place, int kind);

// Bytes that one thread's actions have added to each component, and the slots that hold them.
struct Model {
    Slot slots[SLOTS];
    int64_t owned[OWNER_COUNT] = {};

    void add(int owner, size_t bytes) { if (owner != OWNER_NONE) owned[owner] += static_cast<int64_t>(bytes); }
    void remove(int owner, size_t bytes) { if (owner != OWNER_NONE) owned[owner] -= static_cast<int64_t>(bytes); }
};

// Bounds of the resident bytes of all slots, as the kernel sees them now.
struct Bounds {
    int64_t low[OWNER_COUNT] = {}, high[OWNER_COUNT] = {};
    // Part of it that the kernel does not count in the process.
    int64_t huge = 0;
};

constexpr size_t PAGE = 4096;
inline size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

// Adds the bounds of some slots. Returns false if the kernel does not report residency.
bool resident_bounds(const Slot *slots, int count, Bounds &bounds);

#endif
