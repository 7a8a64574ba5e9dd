// Journal of a program that may be killed at any time: when it rested, and what a sample that was taken
// meanwhile must contain.
#ifndef RESTS_H
#define RESTS_H

#include <cstdint>

#include "profiler.h"

// Absolute amounts, by owner. Times are of the monotonic clock; `until` is 0 until the end of the rest.
struct Rest {
    uint64_t from, until;
    int64_t owned[OWNER_UNATTRIBUTED], low[OWNER_UNATTRIBUTED], high[OWNER_UNATTRIBUTED];
};

// False if the file cannot be made.
bool open_rests(const char *path);
// Writes it down and rests for some of the sampler's intervals.
void take_rest(const Rest &rest);

#endif
