/* QUO_npus: the count of QUO_nobjs_by_type. */
#include "check.h"

int
main(int argc, char **argv)
{
    int out = -1;

    CHECK_BEGIN(argc, argv, q);
    CHECK_OK(QUO_npus(q, &out));
    CHECK_INT(out, check_nobjs(q, QUO_OBJ_PU));

    out = 42;
    CHECK_CODE(QUO_npus(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("out_npus");
    CHECK_REFUSES_BAD_HANDLES(QUO_npus(bad, &out));
    CHECK_INT(out, 42);
    CHECK_END(q);
}
