/* QUO_create: on any communicator, any number of times; clear errors for bad ones. */
#include "check.h"

CHECK_PROGRAM
{
    QUO_context q = NULL, other = NULL, half = NULL;
    MPI_Comm reversed = MPI_COMM_NULL, parity = MPI_COMM_NULL;
    int size = 0, rank = 0, qid = -1, nqids = -1, nnodes = -1;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    CHECK_OK(QUO_create(&q, MPI_COMM_WORLD));
    CHECK(NULL != q);
    CHECK_OK(QUO_nqids(q, &nqids));
    CHECK_OK(QUO_nnodes(q, &nnodes));
    if (1 == nnodes) CHECK_INT(nqids, size);

    /* A second context coexists with the first; the order of its ranks is its communicator's. */
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
    CHECK_OK(QUO_create(&other, reversed));
    CHECK(other != q);
    CHECK_OK(QUO_id(other, &qid));
    if (1 == nnodes) CHECK_INT(qid, size - 1 - rank);
    MPI_Comm_free(&reversed);
    CHECK_OK(QUO_barrier(other));
    CHECK_OK(QUO_barrier(q));

    /* Over a part of the ranks. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &parity);
    CHECK_OK(QUO_create(&half, parity));
    CHECK_OK(QUO_nqids(half, &nqids));
    if (1 == nnodes) CHECK_INT(nqids, 0 == rank % 2 ? (size + 1) / 2 : size / 2);
    CHECK_OK(QUO_barrier(half));
    MPI_Comm_free(&parity);
    CHECK_OK(QUO_free(half));

    CHECK_OK(QUO_free(q));
    CHECK_OK(QUO_barrier(other));
    CHECK_OK(QUO_free(other));

    q = check_handle(1);
    CHECK_CODE(QUO_create(NULL, MPI_COMM_SELF), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("QUO_create");
    CHECK_CODE(QUO_create(&q, MPI_COMM_NULL), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("MPI_COMM_NULL");
    CHECK(NULL == q);
    if (size > 1) {
        MPI_Comm inter = MPI_COMM_NULL;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &parity);
        MPI_Intercomm_create(parity, 0, MPI_COMM_WORLD, 0 == rank % 2 ? 1 : 0, 7, &inter);
        CHECK_CODE(QUO_create(&q, inter), QUO_ERR_INVLD_ARG);
        CHECK_ERROR_NAMES("intercommunicator");
        CHECK(NULL == q);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&parity);
    }

    /* And the program continues. */
    CHECK_OK(QUO_create(&q, MPI_COMM_WORLD));
    CHECK_OK(QUO_barrier(q));
    CHECK_OK(QUO_free(q));
}
