/* QUO_last_error: names the call, the object and the cause; belongs to the thread; survives
 * successes. */
#include <pthread.h>

#include "check.h"

static void *
other_thread(void *data)
{
    int *empty = data;
    *empty = '\0' == QUO_last_error()[0];
    return NULL;
}

CHECK_CONTEXT(q)
{
    int out = 0, empty = 0;
    pthread_t thread;
    char kept[1024];

    CHECK_STRING(QUO_last_error(), "");

    CHECK_CODE(QUO_nobjs_in_type_by_type(q, QUO_OBJ_PACKAGE, 4321, QUO_OBJ_PU, &out),
               QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("QUO_nobjs_in_type_by_type");
    CHECK_ERROR_NAMES("package");
    CHECK_ERROR_NAMES("4321");
    snprintf(kept, sizeof(kept), "%s", QUO_last_error());
    CHECK_OK(QUO_ncores(q, &out));
    CHECK_STRING(QUO_last_error(), kept);

    CHECK_CODE(QUO_nobjs_by_type(q, (QUO_obj_type_t)77, &out), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("77");
    CHECK_CODE(QUO_ncores(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("QUO_ncores");
    CHECK_ERROR_NAMES("out_ncores");

    CHECK_INT(QUO_set_last_error(QUO_ERR_OOR, "a text of another library"), QUO_ERR_OOR);
    CHECK_STRING(QUO_last_error(), "a text of another library");
    CHECK_INT(QUO_set_last_error(QUO_ERR_SYS, NULL), QUO_ERR_SYS);
    CHECK_ERROR_NAMES("NULL");

    CHECK_INT(pthread_create(&thread, NULL, other_thread, &empty), 0);
    CHECK_INT(pthread_join(thread, NULL), 0);
    CHECK(empty);
}
