// Journal of a program that may be killed at any time: when it rested, and what a sample taken
// during the rest must contain.
#ifndef RESTS_H
#define RESTS_H

#include <cstdint>

#include "profiler.h"

// Absolute amounts, by owner. Times are of the monotonic clock; `until` is 0 until the end of the rest.
struct Rest {
    uint64_t from, until;
    int64_t owned[OWNER_UNATTRIBUTED], low[OWNER_UNATTRIBUTED], high[OWNER_UNATTRIBUTED];
};

// Returns false if the file cannot be created.
bool open_rests(const char *path);
// Records a rest, and rests for some of the sampler's intervals.
void take_rest(const Rest &rest);

#endif
