/* QUO_create_with_options: every wait kind works, bad structures are refused. */
#include "check.h"

int
main(int argc, char **argv)
{
    QUO_create_options_t options = QUO_CREATE_OPTIONS_INIT;
    QUO_context q = NULL;
    struct {
        QUO_create_options_t options;
        long long later;
    } longer;

    check_init(&argc, &argv);
    for (int wait = QUO_WAIT_DEFAULT; wait <= QUO_WAIT_MPI; ++wait) {
        options.wait = wait;
        CHECK_OK(QUO_create_with_options(&q, MPI_COMM_WORLD, &options));
        for (int round = 0; round < 5; ++round) CHECK_OK(QUO_barrier(q));
        CHECK_OK(QUO_free(q));
    }
    CHECK_OK(QUO_create_with_options(&q, MPI_COMM_WORLD, NULL));
    CHECK_OK(QUO_free(q));

    options.wait = QUO_WAIT_DEFAULT;
    options.flags = QUO_CREATE_NO_MT;
    CHECK_OK(QUO_create_with_options(&q, MPI_COMM_WORLD, &options));
    CHECK_INT(check_nobjs(q, QUO_OBJ_PU), check_nobjs(q, QUO_OBJ_CORE));
    CHECK_OK(QUO_free(q));

    options.flags = 128;
    CHECK_CODE_EVERYWHERE(QUO_create_with_options(&q, MPI_COMM_WORLD, &options),
                          QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("128");
    options.flags = QUO_CREATE_NO_FLAGS;
    options.wait = 9;
    CHECK_CODE_EVERYWHERE(QUO_create_with_options(&q, MPI_COMM_WORLD, &options),
                          QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("9");
    options.wait = QUO_WAIT_DEFAULT;
    options.size = 3;
    CHECK_CODE(QUO_create_with_options(&q, MPI_COMM_SELF, &options), QUO_ERR_INVLD_ARG);
    options.size = 0;
    CHECK_CODE(QUO_create_with_options(&q, MPI_COMM_SELF, &options), QUO_ERR_INVLD_ARG);
    options.size = sizeof(options);
    CHECK_CODE(QUO_create_with_options(NULL, MPI_COMM_SELF, &options), QUO_ERR_INVLD_ARG);
    CHECK(NULL == q);

    /* A program of a later version: fine while it asks for nothing new. */
    memset(&longer, 0, sizeof(longer));
    longer.options.size = sizeof(longer);
    CHECK_OK(QUO_create_with_options(&q, MPI_COMM_SELF, &longer.options));
    CHECK_OK(QUO_free(q));
    longer.later = 1;
    CHECK_CODE(QUO_create_with_options(&q, MPI_COMM_SELF, &longer.options), QUO_ERR_INVLD_ARG);
    return check_finish();
}
