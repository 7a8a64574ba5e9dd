/* QUO_bound: whether there are CPUs the caller may not run on. */
#include "check.h"

int
main(int argc, char **argv)
{
    int out = -1;

    CHECK_BEGIN(argc, argv, q);
    CHECK_OK(QUO_bound(q, &out));
    CHECK(0 == out || 1 == out);

    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, check_usable(q).index[0]));
    CHECK_OK(QUO_bound(q, &out));
    CHECK_INT(out, check_usable(q).count > 1);
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
    CHECK_OK(QUO_bound(q, &out));
    CHECK_INT(out, 0);
    CHECK_OK(QUO_bind_pop(q));
    CHECK_OK(QUO_bind_pop(q));

    out = 42;
    CHECK_CODE(QUO_bound(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_bound(bad, &out));
    CHECK_INT(out, 42);
    CHECK_END(q);
}
