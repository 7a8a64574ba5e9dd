/* QUO_nobjs_by_type. QUO_TEST_EXPECT="0=1,2=2,4=8" gives the counts of a simulated machine by type
 * number. */
#include "check.h"

CHECK_CONTEXT(q)
{
    const char *expected = getenv("QUO_TEST_EXPECT");
    int out = -1;

    for (int i = 0; i < CHECK_COUNT(check_types); ++i) {
        CHECK_OK(QUO_nobjs_by_type(q, check_types[i], &out));
        CHECK(out >= 0);
    }
    CHECK_INT(check_nobjs(q, QUO_OBJ_MACHINE), 1);
    CHECK_INT(check_nobjs(q, QUO_OBJ_SOCKET), check_nobjs(q, QUO_OBJ_PACKAGE));
    CHECK(check_nobjs(q, QUO_OBJ_NUMANODE) >= 1);
    CHECK(check_nobjs(q, QUO_OBJ_PU) >= 1);
    CHECK(check_nobjs(q, QUO_OBJ_PU) >= check_nobjs(q, QUO_OBJ_CORE));

    while (NULL != expected && '\0' != *expected) {
        int type = 0, count = 0, used = 0;
        if (2 != sscanf(expected, "%d=%d%n", &type, &count, &used)) {
            check_fail(__FILE__, __LINE__, "QUO_TEST_EXPECT is not readable");
            break;
        }
        CHECK_INT(check_nobjs(q, (QUO_obj_type_t)type), count);
        expected += used;
        if (',' == *expected) ++expected;
    }

    out = 42;
    for (int i = 0; i < CHECK_COUNT(check_not_types); ++i) {
        CHECK_CODE(QUO_nobjs_by_type(q, (QUO_obj_type_t)check_not_types[i], &out),
                   QUO_ERR_INVLD_ARG);
    }
    CHECK_CODE(QUO_nobjs_by_type(q, QUO_OBJ_PU, NULL), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_nobjs_by_type(bad, QUO_OBJ_PU, &out));
    CHECK_INT(out, 42);
}
