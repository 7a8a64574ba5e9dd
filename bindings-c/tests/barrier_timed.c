/* QUO_barrier_timed: within the time it is a barrier; after a timeout all ranks get the error, and it works again. */
#define _POSIX_C_SOURCE 200112L
#include <math.h>

#include "check.h"

CHECK_CONTEXT(q)
{
    int qid = check_qid(q), nqids = check_nqids(q);
    QUO_context naive = NULL;

    for (int round = 0; round < 20; ++round) CHECK_OK(QUO_barrier_timed(q, 60.0));

    /* The last rank arrives after the others have given up, and gets the same error. */
    if (nqids > 1) {
        for (int round = 0; round < 3; ++round) {
            if (qid == nqids - 1) {
                MPI_Barrier(MPI_COMM_WORLD);
                CHECK_CODE(QUO_barrier(q), QUO_ERR_TIMEOUT);
            } else {
                CHECK_CODE(QUO_barrier_timed(q, 0.02), QUO_ERR_TIMEOUT);
                CHECK_ERROR_NAMES("QUO_barrier_timed");
                MPI_Barrier(MPI_COMM_WORLD);
            }
            CHECK_OK(QUO_barrier(q));
        }
    } else {
        CHECK_OK(QUO_barrier_timed(q, 0.0));
    }

    CHECK_CODE(QUO_barrier_timed(q, -1.0), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_barrier_timed(q, (double)NAN), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_barrier_timed(bad, 1.0));
    CHECK_OK(QUO_barrier(q));
    CHECK_OK(QUO_barrier_timed(q, 1.0e300));
    CHECK_OK(QUO_barrier_timed(q, (double)INFINITY));

    CHECK(0 == setenv("QUO_WAIT", "pthread", 1));
    CHECK_OK(QUO_create(&naive, MPI_COMM_WORLD));
    CHECK(0 == unsetenv("QUO_WAIT"));
    CHECK_CODE(QUO_barrier_timed(naive, 1.0), QUO_ERR_NOT_SUPPORTED);
    CHECK_OK(QUO_barrier(naive));
    CHECK_OK(QUO_free(naive));
}
