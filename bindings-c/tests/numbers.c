/* QUO_nnumanodes, QUO_nsockets, QUO_ncores, QUO_npus, QUO_nnodes, QUO_nqids, QUO_id, QUO_bound: one number
 * of a context each. */
#include "check.h"

/* The function gives the number, names a missing place for it, and refuses bad handles. */
static void
check_number(QUO_context q, int (*ask)(QUO_context, int *), const char *place, int expected)
{
    int out = -1;
    CHECK_OK(ask(q, &out));
    if (out != expected) printf("    %s:\n", place);
    CHECK_INT(out, expected);

    out = 42;
    CHECK_CODE(ask(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES(place);
    CHECK_REFUSES_BAD_HANDLES(ask(bad, &out));
    CHECK_INT(out, 42);
}

CHECK_CONTEXT(q)
{
    int size = 0, rank = 0, first = 0, nodes = 0, out = -1, usable = check_usable(q).count;
    MPI_Comm host = check_ranks_of_host();
    QUO_context alone = NULL;

    check_number(q, QUO_nnumanodes, "out_nnumanodes", check_nobjs(q, QUO_OBJ_NUMANODE));
    check_number(q, QUO_nsockets, "out_nsockets", check_nobjs(q, QUO_OBJ_PACKAGE));
    check_number(q, QUO_ncores, "out_ncores", check_nobjs(q, QUO_OBJ_CORE));
    check_number(q, QUO_npus, "out_npus", check_nobjs(q, QUO_OBJ_PU));

    /* Ranks are numbered from 0, without gaps, in the order of the communicator. */
    MPI_Comm_size(host, &size);
    MPI_Comm_rank(host, &rank);
    MPI_Comm_free(&host);
    first = 0 == rank;
    MPI_Allreduce(&first, &nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check_number(q, QUO_nnodes, "out_nodes", nodes);
    check_number(q, QUO_nqids, "out_nqids", size);
    check_number(q, QUO_id, "out_qid", rank);
    CHECK_OK(QUO_create(&alone, MPI_COMM_SELF));
    check_number(alone, QUO_nqids, "out_nqids", 1);
    CHECK_OK(QUO_barrier(alone));
    CHECK_OK(QUO_free(alone));

    /* Bound is a rank with CPUs that it may not run on. */
    CHECK_OK(QUO_bound(q, &out));
    CHECK(0 == out || 1 == out);
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, check_usable(q).index[0]));
    check_number(q, QUO_bound, "bound", usable > 1);
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
    check_number(q, QUO_bound, "bound", 0);
    CHECK_OK(QUO_bind_pop(q));
    CHECK_OK(QUO_bind_pop(q));
}
