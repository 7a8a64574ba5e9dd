/* Clock, medians and small helpers shared by the C benchmarks. */

#ifndef QUO_BENCHES_BENCH_H
#define QUO_BENCHES_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Microseconds; one clock for all processes of a node. */
static inline double
bench_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static inline int
bench_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the samples and gives the middle one; 0 when there is none. */
static inline double
bench_median(double *samples, int count)
{
    if (count <= 0) return 0.0;
    qsort(samples, (size_t)count, sizeof(*samples), bench_order);
    return samples[count / 2];
}

/* Keeps this core busy for some microseconds. */
static inline void
bench_spin(double microseconds)
{
    double end = bench_now() + microseconds;
    while (bench_now() < end) {}
}

/* The median over 201 samples of the time of one call of `statement`, each sample a batch of about
 * `batch_us` microseconds. */
#define BENCH_CALLS(result, batch_us, statement)                                                   \
    do {                                                                                           \
        double samples[201];                                                                       \
        int calls = 1;                                                                             \
        for (;;) {                                                                                 \
            double start = bench_now();                                                            \
            for (int call = 0; call < calls; ++call) statement;                                    \
            if (bench_now() - start > (batch_us) || calls >= (1 << 20)) break;                     \
            calls *= 2;                                                                            \
        }                                                                                          \
        for (int sample = 0; sample < 201; ++sample) {                                             \
            double start = bench_now();                                                            \
            for (int call = 0; call < calls; ++call) statement;                                    \
            samples[sample] = (bench_now() - start) / calls;                                       \
        }                                                                                          \
        (result) = bench_median(samples, 201);                                                     \
    } while (0)

/* Two populations of waits: of waiters that are awake, and above 5 microseconds, where a waiter
 * slept. A median over both would hide one of them. */
struct bench_waits {
    double median;
    double awake_median;
    double slept_fraction;
    double slept_median;
};

static inline struct bench_waits
bench_waits(double *samples, int count)
{
    struct bench_waits waits = {0, 0, 0, 0};
    int awake = 0;
    waits.median = bench_median(samples, count);
    while (awake < count && samples[awake] <= 5.0) ++awake;
    waits.awake_median = bench_median(samples, awake);
    waits.slept_fraction = count > 0 ? (double)(count - awake) / count : 0.0;
    waits.slept_median = bench_median(samples + awake, count - awake);
    return waits;
}

/* How long the sleeper of a wake-up measurement has slept, in microseconds. */
static const double bench_sleeps[] = {50, 500, 5000, 50000};
static const char *const bench_sleep_names[] = {"0.05_ms", "0.5_ms", "5_ms", "50_ms"};
static const int bench_sleep_rounds[] = {400, 400, 200, 40};
enum { BENCH_SLEEPS = 4, BENCH_MOST_ROUNDS = 400 };

#endif
