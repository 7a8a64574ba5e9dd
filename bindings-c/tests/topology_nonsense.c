/* QUO_TOPOLOGY without a valid topology: a clear error on every rank; then a good one works. */
#define _POSIX_C_SOURCE 200112L
#include "check.h"

CHECK_PROGRAM
{
    static const char *const nonsense[] = {"nonsense",     "pack:",       "/no/such/file.xml",
                                           "pack:2 zz:3", "pack:-1 pu:1", "/etc/passwd", "/tmp"};
    QUO_context q = NULL;

    for (int i = 0; i < CHECK_COUNT(nonsense); ++i) {
        setenv("QUO_TOPOLOGY", nonsense[i], 1);
        CHECK_CODE_EVERYWHERE(QUO_create(&q, MPI_COMM_WORLD), QUO_ERR_TOPO);
        CHECK_ERROR_NAMES("QUO_create");
        CHECK(NULL == q);
    }
    setenv("QUO_TOPOLOGY", "pack:2 core:4 pu:2", 1);
    CHECK_OK(QUO_create(&q, MPI_COMM_WORLD));
    CHECK_INT(check_nobjs(q, QUO_OBJ_PACKAGE), 2);
    CHECK_INT(check_nobjs(q, QUO_OBJ_CORE), 8);
    CHECK_INT(check_nobjs(q, QUO_OBJ_PU), 16);
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PACKAGE, 1));
    CHECK_OK(QUO_bind_pop(q));
    CHECK_OK(QUO_free(q));
}
