/* Ranks that ask for different things at creation: one clear error everywhere, and life goes on. */
#include "check.h"

int
main(int argc, char **argv)
{
    QUO_create_options_t options = QUO_CREATE_OPTIONS_INIT;
    QUO_context q = NULL;
    int size = 0;

    check_init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > 1) {
        QUO_create_flags_t flags = 0 == check_rank ? QUO_CREATE_NO_MT : QUO_CREATE_NO_FLAGS;
        CHECK_CODE_EVERYWHERE(QUO_create_with_flags(&q, MPI_COMM_WORLD, flags), QUO_ERR_DISAGREE);
        CHECK_ERROR_NAMES("QUO_create_with_flags");
        CHECK(NULL == q);

        options.wait = 0 == check_rank ? QUO_WAIT_FUTEX : QUO_WAIT_MPI;
        CHECK_CODE_EVERYWHERE(QUO_create_with_options(&q, MPI_COMM_WORLD, &options),
                              QUO_ERR_DISAGREE);
        options.wait = QUO_WAIT_DEFAULT;

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
    return check_finish();
}
