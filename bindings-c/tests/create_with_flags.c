/* QUO_create_with_flags: NO_MT leaves one hardware thread per core; unknown flags are refused. */
#include "check.h"

CHECK_PROGRAM
{
    QUO_context plain = NULL, narrow = NULL;
    int cores = 0, inside = -1;

    CHECK_OK(QUO_create_with_flags(&plain, MPI_COMM_WORLD, QUO_CREATE_NO_FLAGS));
    CHECK_OK(QUO_create_with_flags(&narrow, MPI_COMM_WORLD, QUO_CREATE_NO_MT));

    CHECK_OK(QUO_ncores(narrow, &cores));
    CHECK_INT(cores, check_nobjs(plain, QUO_OBJ_CORE));
    CHECK_INT(check_nobjs(narrow, QUO_OBJ_PU), cores);
    CHECK_INT(check_nobjs(narrow, QUO_OBJ_PACKAGE), check_nobjs(plain, QUO_OBJ_PACKAGE));
    CHECK_INT(check_nobjs(narrow, QUO_OBJ_NUMANODE), check_nobjs(plain, QUO_OBJ_NUMANODE));
    for (int core = 0; core < cores; ++core) {
        CHECK_OK(QUO_nobjs_in_type_by_type(narrow, QUO_OBJ_CORE, core, QUO_OBJ_PU, &inside));
        CHECK_INT(inside, 1);
    }

    /* Pushing a core binds to that one thread. */
    if (cores > 0) {
        char *list = NULL;
        int core = check_usable(narrow).index[0];
        CHECK_OK(QUO_cpuset_of_type(narrow, QUO_OBJ_CORE, core, &list));
        CHECK(NULL != list && NULL == strpbrk(list, ",-"));
        CHECK_OK(QUO_bind_push(narrow, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_CORE, core));
        CHECK_STRING(check_binding(narrow), list);
        CHECK_OK(QUO_bind_pop(narrow));
        free(list);
    }
    CHECK_OK(QUO_free(narrow));
    CHECK_OK(QUO_free(plain));

    CHECK_CODE_EVERYWHERE(QUO_create_with_flags(&plain, MPI_COMM_WORLD, (QUO_create_flags_t)64),
                          QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("64");
    CHECK(NULL == plain);
    CHECK_CODE(QUO_create_with_flags(NULL, MPI_COMM_SELF, QUO_CREATE_NO_MT), QUO_ERR_INVLD_ARG);
}
