/* QUO_nqids: the ranks of the context on the node, the caller included. */
#include "check.h"

int
main(int argc, char **argv)
{
    int out = -1, size = 0;
    MPI_Comm node;
    QUO_context alone = NULL;

    CHECK_BEGIN(argc, argv, q);
    node = check_ranks_of_host();
    MPI_Comm_size(node, &size);
    MPI_Comm_free(&node);
    CHECK_OK(QUO_nqids(q, &out));
    CHECK_INT(out, size);

    CHECK_OK(QUO_create(&alone, MPI_COMM_SELF));
    CHECK_OK(QUO_nqids(alone, &out));
    CHECK_INT(out, 1);
    CHECK_OK(QUO_barrier(alone));
    CHECK_OK(QUO_free(alone));

    out = 42;
    CHECK_CODE(QUO_nqids(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_nqids(bad, &out));
    CHECK_INT(out, 42);
    CHECK_END(q);
}
