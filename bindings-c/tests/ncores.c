/* QUO_ncores: the count of QUO_nobjs_by_type. */
#include "check.h"

int
main(int argc, char **argv)
{
    int out = -1;

    CHECK_BEGIN(argc, argv, q);
    CHECK_OK(QUO_ncores(q, &out));
    CHECK_INT(out, check_nobjs(q, QUO_OBJ_CORE));

    out = 42;
    CHECK_CODE(QUO_ncores(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("out_ncores");
    CHECK_REFUSES_BAD_HANDLES(QUO_ncores(bad, &out));
    CHECK_INT(out, 42);
    CHECK_END(q);
}
