/* A wrong argument on one rank makes a redistribution fail on all, and the next one succeeds. Two
 * processes. */
#include "../check.h"
#include "quo-elastic.h"
#include "quo-reshape.h"

#define LENGTH 10

static double *data = NULL;
static size_t count = LENGTH / 2;

/* Rank 1's own error, and that of rank 0, which names rank 1. */
#define WRONG_ON_ONE(call)                                                                        \
    do {                                                                                          \
        if (1 == check_rank) {                                                                    \
            CHECK_CODE(call, QUO_ERR_INVLD_ARG);                                                  \
        } else {                                                                                  \
            CHECK_CODE(call, QUO_ERR_DISAGREE);                                                   \
            CHECK_ERROR_NAMES("rank 1");                                                          \
        }                                                                                         \
    } while (0)

int
main(int argc, char **argv)
{
    QUO_reshape_topology_t topology = QUO_RESHAPE_TOPOLOGY_INIT;
    void *nowhere = NULL;
    void **place;
    size_t *number;
    int wrong;

    check_init(&argc, &argv);
    topology.total = 2;
    REQUIRE_OK(QUO_reshape_init(&topology));
    data = malloc(count * sizeof(*data));
    for (size_t i = 0; i < count; ++i) data[i] = check_rank * 100 + (double)i;
    wrong = 1 == check_rank;
    place = (void **)&data;

    WRONG_ON_ONE(QUO_reshape_redistribute_1d(place, &count, wrong ? 3 : 8, LENGTH, 5));
    WRONG_ON_ONE(QUO_reshape_redistribute_1d(wrong ? NULL : place, &count, 8, LENGTH, 5));
    number = wrong ? NULL : &count;
    WRONG_ON_ONE(QUO_reshape_redistribute_uniform_block(place, number, 8, LENGTH));
    if (wrong) place = &nowhere;
    WRONG_ON_ONE(QUO_reshape_redistribute_uniform_block(place, &count, 8, LENGTH));
    place = (void **)&data;
    WRONG_ON_ONE(QUO_reshape_redistribute_2d(place, &count, 8, LENGTH, 1, 5, wrong ? 9 : 0));
    /* Detected only by comparison: all have the same code. */
    CHECK_CODE(QUO_reshape_redistribute_1d(place, &count, 8, LENGTH, wrong ? 1 : 5),
               QUO_ERR_DISAGREE);

    CHECK_OK(QUO_reshape_redistribute_1d(place, &count, 8, LENGTH, 5));
    CHECK(LENGTH / 2 == count);
    for (size_t i = 0; i < count; ++i) CHECK(data[i] == check_rank * 100 + (double)i);
    free(data);
    CHECK_OK(QUO_reshape_exit());
    return check_finish();
}
