/* QUO_free: restores bindings; free twice, use after free and nonsense are errors. */
#include "check.h"

CHECK_PROGRAM
{
    QUO_context q = NULL;
    char before[4096];
    int out = 0;
    QUO_context second = NULL;

    REQUIRE_OK(QUO_create(&q, MPI_COMM_WORLD));
    snprintf(before, sizeof(before), "%s", check_binding(q));
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, check_usable(q).index[0]));
    CHECK_OK(QUO_free(q));

    CHECK_CODE(QUO_free(q), QUO_ERR_INVLD_HANDLE);
    CHECK_ERROR_NAMES("QUO_free");
    CHECK_CODE(QUO_ncores(q, &out), QUO_ERR_INVLD_HANDLE);
    CHECK_CODE(QUO_barrier(q), QUO_ERR_INVLD_HANDLE);
    CHECK_OK(QUO_free(NULL));

    /* A new context is not reached through the old handle. */
    CHECK_OK(QUO_create(&second, MPI_COMM_WORLD));
    CHECK_STRING(check_binding(second), before);
    CHECK(second != q);
    CHECK_CODE(QUO_ncores(q, &out), QUO_ERR_INVLD_HANDLE);
    CHECK_CODE(QUO_free(q), QUO_ERR_INVLD_HANDLE);
    CHECK_OK(QUO_ncores(second, &out));
    CHECK_OK(QUO_free(second));

    CHECK_CODE(QUO_free(check_handle(8)), QUO_ERR_INVLD_HANDLE);
    CHECK_CODE(QUO_free(check_handle(~0ULL)), QUO_ERR_INVLD_HANDLE);
}
