/* Named barriers: independent of each other and of QUO_barrier. */
#include "check.h"

CHECK_CONTEXT(q)
{
    QUO_named_barrier all = NULL, pair = NULL, none = NULL;
    int qid = check_qid(q), nqids = check_nqids(q);
    int members[] = {0, 1}, twice[] = {0, 0}, unknown[] = {0, 9999};
    char long_name[200];

    CHECK_OK(QUO_named_barrier_create(q, "all", NULL, 0, &all));
    for (int round = 0; round < 20; ++round) CHECK_OK(QUO_named_barrier_wait(all));
    CHECK_OK(QUO_named_barrier_wait_timed(all, 60.0));

    if (nqids > 1 && qid < 2) {
        CHECK_OK(QUO_named_barrier_create(q, "pair", members, 2, &pair));
        for (int round = 0; round < 20; ++round) CHECK_OK(QUO_named_barrier_wait(pair));
        CHECK_CODE(QUO_free(q), QUO_ERR_BUSY);
        CHECK_OK(QUO_named_barrier_free(pair));
        CHECK_CODE(QUO_named_barrier_wait(pair), QUO_ERR_INVLD_HANDLE);
        CHECK_CODE(QUO_named_barrier_free(pair), QUO_ERR_INVLD_HANDLE);
    }
    CHECK_OK(QUO_barrier(q));
    CHECK_OK(QUO_named_barrier_wait(all));
    CHECK_CODE(QUO_named_barrier_wait_timed(all, -1.0), QUO_ERR_INVLD_ARG);
    CHECK_OK(QUO_named_barrier_free(all));
    CHECK_OK(QUO_named_barrier_free(NULL));

    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    CHECK_CODE(QUO_named_barrier_create(q, "", NULL, 0, &none), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_named_barrier_create(q, NULL, NULL, 0, &none), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_named_barrier_create(q, long_name, NULL, 0, &none), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_named_barrier_create(q, "x", NULL, 0, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_named_barrier_create(q, "x", twice, 2, &none), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_named_barrier_create(q, "x", unknown, 2, &none), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_named_barrier_create(q, "x", members, 0, &none), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_named_barrier_create(q, "x", members, -1, &none), QUO_ERR_INVLD_ARG);
    if (nqids > 2 && qid > 1) {
        CHECK_CODE(QUO_named_barrier_create(q, "x", members, 2, &none), QUO_ERR_INVLD_ARG);
    }
    CHECK(NULL == none);
    CHECK_REFUSES_BAD_HANDLES(QUO_named_barrier_create(bad, "x", NULL, 0, &none));
    CHECK_REFUSES_BAD_HANDLES(QUO_named_barrier_wait((QUO_named_barrier)bad));
    CHECK_CODE(QUO_named_barrier_wait((QUO_named_barrier)q), QUO_ERR_INVLD_HANDLE);
}
