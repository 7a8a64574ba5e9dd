/* Cross-process memory: blocks in the order of the qids, without gaps, visible to all at once. */
#include "check.h"
#include "quo-xpm.h"

CHECK_PROGRAM
{
    QUO_context q = NULL;
    QUO_xpm_context xpm = NULL, one = NULL, none = NULL;
    QUO_xpm_view_t view, mine;
    int qid = 0, nqids = 0, *all = NULL, total = 0, odd[] = {0, 0};

    REQUIRE_OK(QUO_create(&q, MPI_COMM_WORLD));
    qid = check_qid(q);
    nqids = check_nqids(q);

    /* qid r owns r integers, so qid 0 owns none. */
    REQUIRE_OK(QUO_xpm_allocate(q, (size_t)qid * sizeof(int), &xpm));
    CHECK_OK(QUO_xpm_view_local(xpm, &mine));
    CHECK_INT(mine.extent, (size_t)qid * sizeof(int));
    for (int i = 0; i < qid; ++i) {
        CHECK_INT(((int *)mine.base)[i], 0);
        ((int *)mine.base)[i] = 100 * qid + i;
    }
    CHECK_OK(QUO_barrier(q));
    CHECK_OK(QUO_xpm_view_by_qid_range(xpm, 0, nqids - 1, &view));
    CHECK_INT(view.extent, (size_t)(nqids * (nqids - 1) / 2) * sizeof(int));
    all = view.base;
    for (int other = 0; other < nqids; ++other) {
        CHECK_OK(QUO_xpm_view_by_qid(xpm, other, &view));
        CHECK_INT(view.extent, (size_t)other * sizeof(int));
        if (other > 0) CHECK((int *)view.base == all + total);
        for (int i = 0; i < other; ++i) CHECK_INT(all[total++], 100 * other + i);
    }
    for (int first = 0; first < nqids; ++first) {
        CHECK_OK(QUO_xpm_view_by_qid_range(xpm, first, nqids - 1, &view));
        CHECK_INT(view.extent,
                  (size_t)((nqids * (nqids - 1) - first * (first - 1)) / 2) * sizeof(int));
    }

    CHECK_CODE(QUO_xpm_view_by_qid(xpm, nqids, &view), QUO_ERR_INVLD_ARG);
    CHECK(NULL == view.base && 0 == view.extent);
    CHECK_CODE(QUO_xpm_view_by_qid(xpm, -1, &view), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_xpm_view_by_qid_range(xpm, 0, nqids, &view), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_xpm_view_by_qid_range(xpm, -1, 0, &view), QUO_ERR_INVLD_ARG);
    if (nqids > 1) {
        CHECK_CODE(QUO_xpm_view_by_qid_range(xpm, 1, 0, &view), QUO_ERR_INVLD_ARG);
    }
    CHECK_CODE(QUO_xpm_view_by_qid_range(xpm, 0, 0, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_xpm_view_by_qid(xpm, 0, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_xpm_view_local(xpm, NULL), QUO_ERR_INVLD_ARG);

    /* Among some ranks: the even ones, and separately the odd ones. */
    {
        int count = 0, *members = calloc((size_t)nqids, sizeof(*members));
        QUO_xpm_context half = NULL;
        for (int other = qid % 2; other < nqids; other += 2) members[count++] = other;
        REQUIRE_OK(QUO_xpm_allocate_by_qids(q, members, count, sizeof(int), &half));
        CHECK_OK(QUO_xpm_view_local(half, &view));
        *(int *)view.base = qid;
        CHECK_OK(QUO_barrier(q));
        CHECK_OK(QUO_xpm_view_by_qid_range(half, members[0], members[count - 1], &view));
        CHECK_INT(view.extent, (size_t)count * sizeof(int));
        for (int i = 0; i < count; ++i) CHECK_INT(((int *)view.base)[i], members[i]);
        if (nqids > 1) {
            CHECK_CODE(QUO_xpm_view_by_qid(half, 1 - qid % 2, &view), QUO_ERR_INVLD_ARG);
        }
        CHECK_OK(QUO_barrier(q));
        CHECK_OK(QUO_xpm_free(half));
        free(members);
    }

    /* One rank alone. */
    odd[0] = qid;
    REQUIRE_OK(QUO_xpm_allocate_by_qids(q, odd, 1, 64, &one));
    CHECK_OK(QUO_xpm_view_by_qid(one, qid, &view));
    CHECK_INT(view.extent, 64);
    CHECK_OK(QUO_xpm_free(one));

    odd[1] = odd[0];
    CHECK_CODE(QUO_xpm_allocate_by_qids(q, odd, 2, 64, &none), QUO_ERR_INVLD_ARG);
    odd[1] = 9999;
    CHECK_CODE(QUO_xpm_allocate_by_qids(q, odd, 2, 64, &none), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_xpm_allocate_by_qids(q, odd, 0, 64, &none), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_xpm_allocate_by_qids(q, odd, -1, 64, &none), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_xpm_allocate_by_qids(q, NULL, 1, 64, &none), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_xpm_allocate_by_qids(q, odd, 1, 64, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(QUO_xpm_allocate(q, 64, NULL), QUO_ERR_INVLD_ARG);
    CHECK(NULL == none);

    /* More than there can be, on one rank: an error everywhere, never a crash on first touch. */
    CHECK_FAILS_EVERYWHERE(QUO_xpm_allocate(q, 0 == qid ? (size_t)1 << 62 : 64, &none));
    CHECK(NULL == none);

    CHECK_REFUSES_BAD_HANDLES(QUO_xpm_allocate(bad, 64, &none));
    CHECK_REFUSES_BAD_HANDLES(QUO_xpm_view_local((QUO_xpm_context)bad, &view));
    CHECK_CODE(QUO_xpm_view_local((QUO_xpm_context)q, &view), QUO_ERR_INVLD_HANDLE);
    CHECK_CODE(QUO_xpm_free((QUO_xpm_context)q), QUO_ERR_INVLD_HANDLE);

    /* The memory may outlive the context. */
    CHECK_OK(QUO_free(q));
    CHECK_OK(QUO_xpm_view_local(xpm, &mine));
    for (int i = 0; i < qid; ++i) CHECK_INT(((int *)mine.base)[i], 100 * qid + i);
    CHECK_OK(QUO_xpm_free(xpm));
    CHECK_CODE(QUO_xpm_free(xpm), QUO_ERR_INVLD_HANDLE);
    CHECK_CODE(QUO_xpm_view_local(xpm, &view), QUO_ERR_INVLD_HANDLE);
    CHECK_OK(QUO_xpm_free(NULL));
}
