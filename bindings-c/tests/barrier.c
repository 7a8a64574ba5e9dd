/* QUO_barrier: no rank leaves before all have arrived. */
#include "check.h"
#include "quo-xpm.h"

CHECK_CONTEXT(q)
{
    QUO_xpm_context xpm = NULL;
    QUO_xpm_view_t all, mine;
    int nqids = check_nqids(q);

    REQUIRE_OK(QUO_xpm_allocate(q, sizeof(int), &xpm));
    REQUIRE_OK(QUO_xpm_view_local(xpm, &mine));
    REQUIRE_OK(QUO_xpm_view_by_qid_range(xpm, 0, nqids - 1, &all));

    for (int round = 1; round <= 300; ++round) {
        *(volatile int *)mine.base = round;
        CHECK_OK(QUO_barrier(q));
        for (int other = 0; other < nqids; ++other) {
            CHECK_INT(((volatile int *)all.base)[other], round);
        }
        CHECK_OK(QUO_barrier(q));
    }
    CHECK_OK(QUO_xpm_free(xpm));
    CHECK_REFUSES_BAD_HANDLES(QUO_barrier(bad));
}
