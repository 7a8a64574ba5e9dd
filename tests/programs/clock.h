/* Time of the monotonic clock for the programs of the suites, and work and death at a known time. */
#ifndef QUO_TESTS_CLOCK_H
#define QUO_TESTS_CLOCK_H

#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

/* Nanoseconds. */
static inline uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline double seconds(void)
{
    return 1e-9 * (double)now();
}

/* Computes until the time has passed. */
static inline double compute(uint64_t nanoseconds)
{
    const uint64_t end = now() + nanoseconds;
    volatile double sum = 0;
    while (now() < end) {
        for (int step = 0; step < 1000; ++step) sum += step;
    }
    return sum;
}

/* Thread that kills the process after the given microseconds. */
static inline void *kill_later(void *microseconds)
{
    // Sleeps: the moment is what differs between runs.
    usleep(*(useconds_t *)microseconds);
    kill(getpid(), SIGKILL);
    return NULL;
}

#endif
