/* QUO_create_with_options: every way to wait that the environment names works, bad structures are
 * refused. */
#define _POSIX_C_SOURCE 200112L
#include "check.h"

CHECK_PROGRAM
{
    QUO_create_options_t options = QUO_CREATE_OPTIONS_INIT;
    static const char *const waits[] = {"futex", "pthread", "mpi"};
    QUO_context q = NULL;
    struct {
        QUO_create_options_t options;
        long long later;
    } longer;

    for (int wait = 0; wait < CHECK_COUNT(waits); ++wait) {
        CHECK(0 == setenv("QUO_WAIT", waits[wait], 1));
        CHECK_OK(QUO_create_with_options(&q, MPI_COMM_WORLD, &options));
        for (int round = 0; round < 5; ++round) CHECK_OK(QUO_barrier(q));
        CHECK_CODE(QUO_barrier_timed(q, 60.0), wait ? QUO_ERR_NOT_SUPPORTED : QUO_SUCCESS);
        CHECK_OK(QUO_free(q));
    }
    CHECK(0 == setenv("QUO_WAIT", "9", 1));
    CHECK_CODE_EVERYWHERE(QUO_create_with_options(&q, MPI_COMM_WORLD, &options),
                          QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("QUO_WAIT=9");
    CHECK(0 == unsetenv("QUO_WAIT"));
    CHECK_OK(QUO_create_with_options(&q, MPI_COMM_WORLD, NULL));
    CHECK_OK(QUO_free(q));

    options.flags = QUO_CREATE_NO_MT;
    CHECK_OK(QUO_create_with_options(&q, MPI_COMM_WORLD, &options));
    CHECK_INT(check_nobjs(q, QUO_OBJ_PU), check_nobjs(q, QUO_OBJ_CORE));
    CHECK_OK(QUO_free(q));

    options.flags = 128;
    CHECK_CODE_EVERYWHERE(QUO_create_with_options(&q, MPI_COMM_WORLD, &options),
                          QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("128");
    options.flags = QUO_CREATE_NO_FLAGS;
    options.size = 3;
    CHECK_CODE(QUO_create_with_options(&q, MPI_COMM_SELF, &options), QUO_ERR_INVLD_ARG);
    options.size = 0;
    CHECK_CODE(QUO_create_with_options(&q, MPI_COMM_SELF, &options), QUO_ERR_INVLD_ARG);
    options.size = sizeof(options);
    CHECK_CODE(QUO_create_with_options(NULL, MPI_COMM_SELF, &options), QUO_ERR_INVLD_ARG);
    CHECK(NULL == q);

    /* A program of a later version: accepted while it uses nothing new. */
    memset(&longer, 0, sizeof(longer));
    longer.options.size = sizeof(longer);
    CHECK_OK(QUO_create_with_options(&q, MPI_COMM_SELF, &longer.options));
    CHECK_OK(QUO_free(q));
    longer.later = 1;
    CHECK_CODE(QUO_create_with_options(&q, MPI_COMM_SELF, &longer.options), QUO_ERR_INVLD_ARG);
}
