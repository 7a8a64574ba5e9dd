/* QUO_nsockets: the count of QUO_nobjs_by_type. */
#include "check.h"

int
main(int argc, char **argv)
{
    int out = -1;

    CHECK_BEGIN(argc, argv, q);
    CHECK_OK(QUO_nsockets(q, &out));
    CHECK_INT(out, check_nobjs(q, QUO_OBJ_PACKAGE));

    out = 42;
    CHECK_CODE(QUO_nsockets(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("out_nsockets");
    CHECK_REFUSES_BAD_HANDLES(QUO_nsockets(bad, &out));
    CHECK_INT(out, 42);
    CHECK_END(q);
}
