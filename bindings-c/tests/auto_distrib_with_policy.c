/* QUO_auto_distrib_with_policy: `spread` fills with unbound ranks, `libquo` does not. */
#include "check.h"

CHECK_CONTEXT(q)
{
    int nqids = check_nqids(q), qid = check_qid(q), size = 0, mine = 0, other = 0, total = 0;
    struct check_pus pus;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pus = check_usable(q);

    CHECK_OK(QUO_auto_distrib(q, QUO_OBJ_CORE, 1, &mine));
    CHECK_OK(QUO_auto_distrib_with_policy(q, QUO_OBJ_CORE, 1, QUO_DISTRIB_SPREAD, &other));
    CHECK_INT(other, mine);

    /* qid 0 may run anywhere, the others sit on one PU. With `libquo` qid 0 shares every object and
     * is left out; with `spread` it fills a free PU. */
    if (size == nqids && nqids > 1 && pus.count > 1) {
        if (0 == qid) {
            CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
        } else {
            CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, pus.index[0]));
        }
        CHECK_OK(QUO_auto_distrib_with_policy(q, QUO_OBJ_PU, 1, QUO_DISTRIB_SPREAD, &mine));
        MPI_Allreduce(&mine, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK_INT(total, 2);
        if (0 == qid) CHECK_INT(mine, 1);
        CHECK_OK(QUO_auto_distrib_with_policy(q, QUO_OBJ_PU, 1, QUO_DISTRIB_LIBQUO_COMPAT, &mine));
        /* Where some PUs may not be used, qid 0 does not share every object. */
        if (0 == qid && check_nobjs(q, QUO_OBJ_PU) == pus.count) CHECK_INT(mine, 0);
        CHECK_OK(QUO_bind_pop(q));
    }

    CHECK_CODE_EVERYWHERE(
        QUO_auto_distrib_with_policy(q, QUO_OBJ_PU, 1, (QUO_distrib_policy_t)2, &mine),
        QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(
        QUO_auto_distrib_with_policy(q, QUO_OBJ_PU, 0, QUO_DISTRIB_LIBQUO_COMPAT, &mine),
        QUO_ERR_INVLD_ARG);
    if (size > 1) {
        CHECK_CODE_EVERYWHERE(
            QUO_auto_distrib_with_policy(
                q, QUO_OBJ_PU, 1, 0 == qid ? QUO_DISTRIB_SPREAD : QUO_DISTRIB_LIBQUO_COMPAT,
                &mine),
            QUO_ERR_DISAGREE);
    }
    CHECK_REFUSES_BAD_HANDLES(
        QUO_auto_distrib_with_policy(bad, QUO_OBJ_PU, 1, QUO_DISTRIB_SPREAD, &mine));
}
