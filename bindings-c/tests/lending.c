/* QUO_lend, QUO_reclaim, QUO_borrow, QUO_borrow_wanted, QUO_lenders, QUO_give_back: one rank lends its PU,
 * another borrows it; what is refused. */
#include "check.h"

CHECK_PROGRAM
{
    QUO_create_options_t options = QUO_CREATE_OPTIONS_INIT;
    QUO_context q = NULL, lending = NULL;
    struct check_pus pus;
    char before[4096];
    int rank = 0, size = 0, cpus = -1, threads = -1, wanted = -1, lenders = -1, own = 0, alone = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    REQUIRE_OK(QUO_create(&q, MPI_COMM_WORLD));
    pus = check_usable(q);
    /* Each rank on a separate PU, if there are enough. */
    own = pus.index[rank % pus.count];
    alone = size <= pus.count;
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, own));
    snprintf(before, sizeof(before), "%s", check_binding(q));
    CHECK_OK(QUO_barrier(q));

    /* No rank lends. */
    CHECK_OK(QUO_borrow(q, &cpus, &threads));
    CHECK_INT(cpus, 0);
    CHECK_INT(threads, 1);
    CHECK_OK(QUO_borrow_wanted(q, &wanted));
    CHECK_INT(wanted, 0);
    CHECK_OK(QUO_lenders(q, &lenders));
    CHECK_INT(lenders, 0);
    CHECK_CODE(QUO_give_back(q), QUO_SUCCESS_ALREADY_DONE);
    CHECK_CODE(QUO_reclaim(q), QUO_SUCCESS_ALREADY_DONE);
    CHECK_OK(QUO_barrier(q));

    /* All but rank 0 lend, and rank 0 borrows. */
    if (rank > 0) {
        CHECK_OK(QUO_lend(q));
        CHECK_CODE(QUO_lend(q), QUO_SUCCESS_ALREADY_DONE);
    }
    CHECK_OK(QUO_barrier(q));
    CHECK_OK(QUO_lenders(q, &lenders));
    CHECK_INT(lenders, 0 == rank ? size - 1 : size - 2);
    CHECK_OK(QUO_barrier(q));
    if (0 == rank) {
        CHECK_OK(QUO_borrow(q, &cpus, &threads));
        if (alone) CHECK_INT(cpus, size - 1);
        CHECK_INT(threads, 1 + cpus);
        if (cpus > 0) {
            CHECK_CODE(QUO_borrow(q, &cpus, &threads), QUO_ERR_BUSY);
            CHECK_OK(QUO_borrow_wanted(q, &wanted));
            CHECK_INT(wanted, 0);
            CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, own));
            CHECK_CODE(QUO_give_back(q), QUO_ERR_BUSY);
            CHECK_OK(QUO_bind_pop(q));
        }
    }
    CHECK_OK(QUO_barrier(q));

    /* They take back without waiting; rank 0 sees it and gives back. */
    if (rank > 0) CHECK_OK(QUO_reclaim(q));
    CHECK_OK(QUO_barrier(q));
    if (0 == rank && threads > 1) {
        CHECK_OK(QUO_borrow_wanted(q, &wanted));
        CHECK_INT(wanted, 1);
        CHECK_OK(QUO_give_back(q));
        CHECK_OK(QUO_borrow(q, &cpus, &threads));
        CHECK_INT(cpus, 0);
    }
    CHECK_STRING(check_binding(q), before);
    CHECK_OK(QUO_barrier(q));

    /* Borrowed CPUs are given back with the context. */
    if (rank > 0) CHECK_OK(QUO_lend(q));
    CHECK_OK(QUO_barrier(q));
    if (0 == rank) CHECK_OK(QUO_borrow(q, &cpus, &threads));
    CHECK_OK(QUO_barrier(q));

    options.flags = QUO_CREATE_LEND;
    CHECK_OK(QUO_create_with_options(&lending, MPI_COMM_WORLD, &options));
    for (int round = 0; round < 100; ++round) CHECK_OK(QUO_barrier(lending));
    CHECK_OK(QUO_free(lending));

    CHECK_OK(QUO_detach(q));
    CHECK_CODE(QUO_lend(q), QUO_ERR_DETACHED);
    cpus = threads = wanted = lenders = 42;
    CHECK_CODE(QUO_borrow(q, NULL, &threads), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_borrow(q, &cpus, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_borrow_wanted(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_lenders(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_lend(bad));
    CHECK_REFUSES_BAD_HANDLES(QUO_reclaim(bad));
    CHECK_REFUSES_BAD_HANDLES(QUO_borrow(bad, &cpus, &threads));
    CHECK_REFUSES_BAD_HANDLES(QUO_borrow_wanted(bad, &wanted));
    CHECK_REFUSES_BAD_HANDLES(QUO_lenders(bad, &lenders));
    CHECK_REFUSES_BAD_HANDLES(QUO_give_back(bad));
    CHECK_INT(cpus + threads + wanted + lenders, 4 * 42);
    CHECK_OK(QUO_free(q));
}
