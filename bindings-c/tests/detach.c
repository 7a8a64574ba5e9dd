/* QUO_detach and QUO_attach: the others continue without the caller until it has attached again. */
#include "check.h"

CHECK_CONTEXT(q)
{
    int qid = check_qid(q), nqids = check_nqids(q), out = 0;

    CHECK_CODE(QUO_attach(q), QUO_SUCCESS_ALREADY_DONE);
    CHECK_OK(QUO_barrier(q));
    if (qid == nqids - 1 && nqids > 1) {
        CHECK_OK(QUO_detach(q));
        CHECK_CODE(QUO_detach(q), QUO_SUCCESS_ALREADY_DONE);
        CHECK_CODE(QUO_barrier(q), QUO_ERR_DETACHED);
        CHECK_CODE(QUO_auto_distrib(q, QUO_OBJ_PU, 1, &out), QUO_ERR_DETACHED);
        CHECK_OK(QUO_ncores(q, &out));
        CHECK_OK(QUO_bound(q, &out));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_OK(QUO_attach(q));
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        for (int round = 0; round < 20; ++round) CHECK_OK(QUO_barrier(q));
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int round = 0; round < 20; ++round) CHECK_OK(QUO_barrier(q));
    CHECK_OK(QUO_auto_distrib(q, QUO_OBJ_PU, 1, &out));

    CHECK_REFUSES_BAD_HANDLES(QUO_detach(bad));
    CHECK_REFUSES_BAD_HANDLES(QUO_attach(bad));
}
