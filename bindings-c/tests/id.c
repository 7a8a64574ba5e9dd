/* QUO_id: from 0, without gaps, in the order of the communicator. */
#include "check.h"

int
main(int argc, char **argv)
{
    int out = -1, rank = 0;
    MPI_Comm node;

    CHECK_BEGIN(argc, argv, q);
    node = check_ranks_of_host();
    MPI_Comm_rank(node, &rank);
    MPI_Comm_free(&node);
    CHECK_OK(QUO_id(q, &out));
    CHECK_INT(out, rank);

    out = 42;
    CHECK_CODE(QUO_id(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_id(bad, &out));
    CHECK_INT(out, 42);
    CHECK_END(q);
}
