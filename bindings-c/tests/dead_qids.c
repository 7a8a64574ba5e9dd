/* QUO_dead_qids and QUO_expel while all ranks are alive; deaths are staged by the crash suites. */
#include "check.h"

CHECK_CONTEXT(q)
{
    int count = 42, *qids = (int *)check_handle(1), nqids = 0;

    CHECK_OK(QUO_nqids(q, &nqids));
    CHECK_OK(QUO_barrier(q));
    CHECK_OK(QUO_dead_qids(q, &count, &qids));
    CHECK_INT(count, 0);
    CHECK(NULL == qids);
    CHECK_OK(QUO_barrier(q));

    CHECK_CODE(QUO_expel(q, 0), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_expel(q, -1), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_expel(q, nqids), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_dead_qids(q, NULL, &qids), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_dead_qids(q, &count, NULL), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_dead_qids(bad, &count, &qids));
    CHECK_REFUSES_BAD_HANDLES(QUO_expel(bad, 0));
    CHECK_OK(QUO_barrier(q));
}
