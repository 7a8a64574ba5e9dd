/* QUO_auto_distrib: at most m per object, everyone when there is room, same answer every time. */
#include "check.h"

static int
selected_in_all(QUO_context q, QUO_obj_type_t type, int most, int *mine)
{
    int total = 0;
    *mine = -1;
    CHECK_OK(QUO_auto_distrib(q, type, most, mine));
    CHECK(0 == *mine || 1 == *mine);
    MPI_Allreduce(mine, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return total;
}

CHECK_CONTEXT(q)
{
    int nqids = check_nqids(q), qid = check_qid(q), mine = 0, again = 0, out = 42, size = 0;
    struct check_pus pus;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pus = check_usable(q);

    /* No rank is bound: as many are selected as there are places. */
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
    for (int i = 0; i < CHECK_COUNT(check_types) && size == nqids; ++i) {
        int count = check_nobjs(q, check_types[i]);
        for (int most = 1; most <= 3; ++most) {
            int usable = 0, total = 0;
            if (0 == count) {
                CHECK_CODE_EVERYWHERE(QUO_auto_distrib(q, check_types[i], most, &out),
                                      QUO_ERR_NOT_FOUND);
                continue;
            }
            for (int index = 0; index < count; ++index) {
                int here = 0;
                CHECK_OK(QUO_cpuset_in_type(q, check_types[i], index, &here));
                usable += here;
            }
            total = selected_in_all(q, check_types[i], most, &mine);
            CHECK_INT(total, usable * most < nqids ? usable * most : nqids);
            CHECK_INT(selected_in_all(q, check_types[i], most, &again), total);
            CHECK_INT(again, mine);
        }
    }
    CHECK_OK(QUO_bind_pop(q));

    /* Each rank on a separate PU: the count per PU is kept. */
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU,
                           pus.index[qid % pus.count]));
    if (size == nqids) {
        int total = selected_in_all(q, QUO_OBJ_PU, 1, &mine);
        CHECK_INT(total, nqids < pus.count ? nqids : pus.count);
        total = selected_in_all(q, QUO_OBJ_MACHINE, 1, &mine);
        CHECK_INT(total, 1);
        total = selected_in_all(q, QUO_OBJ_MACHINE, 1000, &mine);
        CHECK_INT(total, nqids);
    }
    CHECK_OK(QUO_bind_pop(q));

    /* Bad arguments of all, then of one, fail everywhere, and the program continues. */
    out = 42;
    CHECK_CODE_EVERYWHERE(QUO_auto_distrib(q, QUO_OBJ_PU, 0, &out), QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(QUO_auto_distrib(q, QUO_OBJ_PU, -5, &out), QUO_ERR_INVLD_ARG);
    for (int i = 0; i < CHECK_COUNT(check_not_types); ++i) {
        QUO_obj_type_t unknown = (QUO_obj_type_t)check_not_types[i];
        CHECK_CODE_EVERYWHERE(QUO_auto_distrib(q, unknown, 1, &out), QUO_ERR_INVLD_ARG);
    }
    CHECK_CODE_EVERYWHERE(QUO_auto_distrib(q, QUO_OBJ_PU, 1, NULL), QUO_ERR_INVLD_ARG);
    CHECK_FAILS_EVERYWHERE(QUO_auto_distrib(q, QUO_OBJ_PU, 0 == qid ? 0 : 1, &out));
    CHECK_FAILS_EVERYWHERE(
        QUO_auto_distrib(q, 0 == qid ? (QUO_obj_type_t)99 : QUO_OBJ_PU, 1, &out));
    CHECK_FAILS_EVERYWHERE(QUO_auto_distrib(q, QUO_OBJ_PU, 1, 0 == qid ? NULL : &out));
    CHECK_INT(out, 42);
    if (size > 1) {
        CHECK_CODE_EVERYWHERE(QUO_auto_distrib(q, QUO_OBJ_PU, 1 + check_rank, &out),
                              QUO_ERR_DISAGREE);
        CHECK_CODE_EVERYWHERE(
            QUO_auto_distrib(q, 0 == qid ? QUO_OBJ_MACHINE : QUO_OBJ_PU, 1, &out),
            QUO_ERR_DISAGREE);
    }
    CHECK_REFUSES_BAD_HANDLES(QUO_auto_distrib(bad, QUO_OBJ_PU, 1, &out));
    CHECK_OK(QUO_auto_distrib(q, QUO_OBJ_MACHINE, 1, &out));
}
