/* One rank is killed. The others get an error from every collective call, find the dead rank, expel it
 * and continue. Ends without MPI_Finalize, which would wait for the dead rank. */
#define _POSIX_C_SOURCE 200112L
#include <signal.h>
#include <unistd.h>

#include "../check.h"
#include "quo-xpm.h"

int
main(int argc, char **argv)
{
    enum { VICTIM = 1 };
    int qid = 0, nqids = 0, count = 0, *qids = NULL, out = 42, code = 0;
    char *text = NULL;
    QUO_named_barrier named = NULL;
    QUO_xpm_context xpm = NULL, more = NULL;
    QUO_xpm_view_t all;
    QUO_context q = NULL;

    check_init(&argc, &argv);
    REQUIRE_OK(QUO_create(&q, MPI_COMM_WORLD));
    qid = check_qid(q);
    nqids = check_nqids(q);
    REQUIRE_OK(QUO_named_barrier_create(q, "survivors", NULL, 0, &named));
    REQUIRE_OK(QUO_xpm_allocate(q, sizeof(int), &xpm));
    REQUIRE_OK(QUO_xpm_view_by_qid_range(xpm, 0, nqids - 1, &all));
    REQUIRE_OK(QUO_barrier(q));
    if (VICTIM == qid) raise(SIGKILL);

    CHECK_CODE(QUO_barrier(q), QUO_ERR_DEAD_MEMBER);
    CHECK_ERROR_NAMES("rank 1");
    CHECK_CODE(QUO_barrier(q), QUO_ERR_DEAD_MEMBER);
    CHECK_CODE(QUO_barrier_timed(q, 60.0), QUO_ERR_DEAD_MEMBER);
    CHECK_CODE(QUO_auto_distrib(q, QUO_OBJ_MACHINE, 1, &out), QUO_ERR_DEAD_MEMBER);
    CHECK_INT(out, 42);
    CHECK_CODE(QUO_named_barrier_wait(named), QUO_ERR_DEAD_MEMBER);
    CHECK_CODE(QUO_xpm_allocate(q, 8, &more), QUO_ERR_DEAD_MEMBER);
    CHECK(NULL == more);
    CHECK_CODE(QUO_stringify_cbind_of(q, VICTIM, &text), QUO_ERR_DEAD_MEMBER);

    /* Local calls still work, and memory of the dead rank still exists. */
    CHECK_OK(QUO_bound(q, &out));
    CHECK_OK(QUO_explain(q, 0, &text));
    CHECK(NULL != text && NULL != strstr(text, "has ended"));
    free(text);
    ((volatile int *)all.base)[qid] = qid;
    ((volatile int *)all.base)[VICTIM] = VICTIM;

    /* A late rank finds that another one has expelled the victim. */
    CHECK_OK(QUO_dead_qids(q, &count, &qids));
    CHECK(count <= 1);
    if (1 == count) CHECK_INT(qids[0], VICTIM);
    free(qids);
    code = QUO_expel(q, VICTIM);
    CHECK(QUO_SUCCESS == code || QUO_SUCCESS_ALREADY_DONE == code);
    CHECK_CODE(QUO_expel(q, VICTIM), QUO_SUCCESS_ALREADY_DONE);

    for (int round = 0; round < 20; ++round) CHECK_OK(QUO_barrier(q));
    CHECK_OK(QUO_named_barrier_wait(named));
    CHECK_OK(QUO_dead_qids(q, &count, &qids));
    CHECK_INT(count, 0);
    CHECK_OK(QUO_qids_in_type(q, QUO_OBJ_MACHINE, 0, &count, &qids));
    CHECK_INT(count, nqids - 1);
    for (int i = 0; i < count; ++i) CHECK(VICTIM != qids[i]);
    free(qids);
    CHECK_OK(QUO_auto_distrib(q, QUO_OBJ_MACHINE, 1000, &out));
    CHECK_INT(out, 1);
    CHECK_OK(QUO_barrier(q));
    for (int other = 0; other < nqids; ++other) CHECK_INT(((int *)all.base)[other], other);
    REQUIRE_OK(QUO_xpm_allocate(q, 8, &more));
    CHECK_OK(QUO_xpm_free(more));
    CHECK_OK(QUO_barrier(q));

    if (0 == check_failures) printf("survived\n");
    fflush(stdout);
    _exit(0 == check_failures ? EXIT_SUCCESS : EXIT_FAILURE);
}
