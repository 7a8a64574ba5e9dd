/* QUO_nnodes: counts the hosts that MPI names. */
#include "check.h"

int
main(int argc, char **argv)
{
    int out = -1, first = 0, nodes = 0, rank = 0;
    MPI_Comm node;

    CHECK_BEGIN(argc, argv, q);
    node = check_ranks_of_host();
    MPI_Comm_rank(node, &rank);
    first = 0 == rank;
    MPI_Allreduce(&first, &nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_free(&node);
    CHECK_OK(QUO_nnodes(q, &out));
    CHECK_INT(out, nodes);

    out = 42;
    CHECK_CODE(QUO_nnodes(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_nnodes(bad, &out));
    CHECK_INT(out, 42);
    CHECK_END(q);
}
