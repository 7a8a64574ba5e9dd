/* Ranks that ask for different things at creation: one clear error everywhere, and the program continues. */
#define _POSIX_C_SOURCE 200112L
#include "check.h"

CHECK_PROGRAM
{
    QUO_context q = NULL;
    int size = 0;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > 1) {
        QUO_create_flags_t flags = 0 == check_rank ? QUO_CREATE_NO_MT : QUO_CREATE_NO_FLAGS;
        CHECK_CODE_EVERYWHERE(QUO_create_with_flags(&q, MPI_COMM_WORLD, flags), QUO_ERR_DISAGREE);
        CHECK_ERROR_NAMES("QUO_create_with_flags");
        CHECK(NULL == q);

        CHECK(0 == setenv("QUO_WAIT", 0 == check_rank ? "futex" : "mpi", 1));
        CHECK_CODE_EVERYWHERE(QUO_create(&q, MPI_COMM_WORLD), QUO_ERR_DISAGREE);
        CHECK_ERROR_NAMES("the way to wait");
        CHECK(0 == unsetenv("QUO_WAIT"));

        /* One rank asks for what does not exist. */
        flags = size - 1 == check_rank ? (QUO_create_flags_t)64 : QUO_CREATE_NO_FLAGS;
        CHECK_FAILS_EVERYWHERE(QUO_create_with_flags(&q, MPI_COMM_WORLD, flags));
        CHECK(NULL == q);

        /* One rank has nowhere to put the result. */
        CHECK_FAILS_EVERYWHERE(QUO_create(0 == check_rank ? NULL : &q, MPI_COMM_WORLD));
        CHECK(NULL == q);
    }
    CHECK_OK(QUO_create(&q, MPI_COMM_WORLD));
    CHECK_OK(QUO_barrier(q));
    CHECK_OK(QUO_free(q));
}
