/* QUO_stringify_cbind and QUO_stringify_cbind_of: a CPU list that the caller frees. */
#include "check.h"

CHECK_CONTEXT(q)
{
    char *list = NULL, *object = NULL;
    int qid = check_qid(q), nqids = check_nqids(q);
    struct check_pus pus;

    pus = check_usable(q);

    CHECK_OK(QUO_stringify_cbind(q, &list));
    CHECK(NULL != list && strlen(list) > 0);
    CHECK(NULL != list && strlen(list) == strspn(list, "0123456789,-"));
    free(list);

    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, pus.index[qid % pus.count]));
    CHECK_OK(QUO_barrier(q));
    for (int other = 0; other < nqids; ++other) {
        CHECK_OK(QUO_cpuset_of_type(q, QUO_OBJ_PU, pus.index[other % pus.count], &object));
        CHECK_OK(QUO_stringify_cbind_of(q, other, &list));
        CHECK_STRING(list, object);
        free(list);
        if (other == qid) {
            CHECK_OK(QUO_stringify_cbind(q, &list));
            CHECK_STRING(list, object);
            free(list);
        }
        free(object);
    }
    CHECK_OK(QUO_barrier(q));
    CHECK_OK(QUO_bind_pop(q));

    list = (char *)check_handle(1);
    CHECK_CODE(QUO_stringify_cbind(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_stringify_cbind_of(q, qid, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_stringify_cbind_of(q, nqids, &list), QUO_ERR_INVLD_ARG);
    CHECK(NULL == list);
    CHECK_CODE(QUO_stringify_cbind_of(q, -1, &list), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_stringify_cbind(bad, &list));
    CHECK_REFUSES_BAD_HANDLES(QUO_stringify_cbind_of(bad, 0, &list));
    CHECK(NULL == list);
}
