/* QUO_qids_in_type: ascending qids of the ranks whose binding shares a CPU with the object. */
#include "check.h"

CHECK_CONTEXT(q)
{
    int count = -1, *qids = NULL, qid = check_qid(q), nqids = check_nqids(q);
    struct check_pus pus;

    pus = check_usable(q);

    CHECK_OK(QUO_qids_in_type(q, QUO_OBJ_MACHINE, 0, &count, &qids));
    CHECK_INT(count, nqids);
    for (int i = 0; i < count; ++i) CHECK_INT(qids[i], i);
    free(qids);

    /* One rank per PU, round robin. */
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, pus.index[qid % pus.count]));
    CHECK_OK(QUO_barrier(q));
    for (int pu = 0; pu < pus.count; ++pu) {
        int expected = 0;
        CHECK_OK(QUO_qids_in_type(q, QUO_OBJ_PU, pus.index[pu], &count, &qids));
        for (int other = 0; other < nqids; ++other) {
            if (other % pus.count != pu) continue;
            if (expected < count) CHECK_INT(qids[expected], other);
            ++expected;
        }
        CHECK_INT(count, expected);
        CHECK((NULL == qids) == (0 == count));
        free(qids);
    }
    CHECK_OK(QUO_barrier(q));
    CHECK_OK(QUO_bind_pop(q));

    qids = (int *)check_handle(1);
    count = 42;
    CHECK_CODE(QUO_qids_in_type(q, QUO_OBJ_PU, check_nobjs(q, QUO_OBJ_PU), &count, &qids),
               QUO_ERR_INVLD_ARG);
    CHECK_INT(count, 0);
    CHECK(NULL == qids);
    CHECK_CODE(QUO_qids_in_type(q, QUO_OBJ_PU, -1, &count, &qids), QUO_ERR_INVLD_ARG);
    for (int i = 0; i < CHECK_COUNT(check_not_types); ++i) {
        CHECK_CODE(QUO_qids_in_type(q, (QUO_obj_type_t)check_not_types[i], 0, &count, &qids),
                   QUO_ERR_INVLD_ARG);
    }
    CHECK_CODE(QUO_qids_in_type(q, QUO_OBJ_PU, 0, NULL, &qids), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_qids_in_type(q, QUO_OBJ_PU, 0, &count, NULL), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_qids_in_type(bad, QUO_OBJ_PU, 0, &count, &qids));
}
