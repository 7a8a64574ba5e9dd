/* Before MPI_Init and after MPI_Finalize: clear errors, no crash. */
#include "check.h"
#include "quo-xpm.h"

int
main(int argc, char **argv)
{
    QUO_context q = check_handle(1), left = NULL;
    QUO_xpm_context xpm = NULL;
    int out = 0, *qids = NULL;
    char *text = NULL;

    CHECK_CODE(QUO_create(&q, MPI_COMM_WORLD), QUO_ERR_CALL_BEFORE_INIT);
    CHECK_ERROR_NAMES("MPI_Init");
    CHECK(NULL == q);
    CHECK_CODE(QUO_create_with_flags(&q, MPI_COMM_WORLD, QUO_CREATE_NO_MT),
               QUO_ERR_CALL_BEFORE_INIT);
    CHECK_CODE(QUO_create_with_options(&q, MPI_COMM_WORLD, NULL), QUO_ERR_CALL_BEFORE_INIT);
    CHECK_CODE(QUO_create_f2c(&q, 0), QUO_ERR_CALL_BEFORE_INIT);
    CHECK_CODE(QUO_create_with_flags_f2c(&q, 0, 0), QUO_ERR_CALL_BEFORE_INIT);
    CHECK(QUO_SUCCESS != QUO_ncores(check_handle(0x1234), &out));
    CHECK_OK(QUO_free(NULL));

    check_init(&argc, &argv);
    REQUIRE_OK(QUO_create(&left, MPI_COMM_WORLD));
    REQUIRE_OK(QUO_xpm_allocate(left, 8, &xpm));
    MPI_Finalize();

    CHECK_CODE(QUO_create(&q, MPI_COMM_WORLD), QUO_ERR_CALL_AFTER_FINALIZE);
    CHECK_ERROR_NAMES("MPI_Finalize");
    CHECK_CODE(QUO_ncores(left, &out), QUO_ERR_CALL_AFTER_FINALIZE);
    CHECK_CODE(QUO_bound(left, &out), QUO_ERR_CALL_AFTER_FINALIZE);
    CHECK_CODE(QUO_stringify_cbind(left, &text), QUO_ERR_CALL_AFTER_FINALIZE);
    CHECK_CODE(QUO_qids_in_type(left, QUO_OBJ_MACHINE, 0, &out, &qids),
               QUO_ERR_CALL_AFTER_FINALIZE);
    CHECK_CODE(QUO_bind_push(left, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, 0),
               QUO_ERR_CALL_AFTER_FINALIZE);
    CHECK_CODE(QUO_bind_pop(left), QUO_ERR_CALL_AFTER_FINALIZE);
    CHECK_CODE(QUO_barrier(left), QUO_ERR_CALL_AFTER_FINALIZE);
    CHECK_CODE(QUO_auto_distrib(left, QUO_OBJ_PU, 1, &out), QUO_ERR_CALL_AFTER_FINALIZE);
    CHECK_CODE(QUO_free(left), QUO_ERR_CALL_AFTER_FINALIZE);
    CHECK_OK(QUO_free(NULL));
    CHECK_OK(QUO_version(&out, &out));
    CHECK(strlen(QUO_strerror(QUO_ERR_MPI)) > 0);
    if (0 == check_rank && 0 == check_failures) printf("ok\n");
    return 0 == check_failures ? EXIT_SUCCESS : EXIT_FAILURE;
}
