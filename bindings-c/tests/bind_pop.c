/* QUO_bind_pop: undoes pushes in order; an extra pop never changes anything. */
#include "check.h"

CHECK_CONTEXT(q)
{
    char before[4096], middle[4096];

    snprintf(before, sizeof(before), "%s", check_binding(q));

    CHECK_CODE(QUO_bind_pop(q), QUO_ERR_POP);
    CHECK_CODE(QUO_bind_pop(q), QUO_ERR_POP);
    CHECK_STRING(check_binding(q), before);

    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, check_usable(q).index[0]));
    snprintf(middle, sizeof(middle), "%s", check_binding(q));
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_OBJ, QUO_OBJ_MACHINE, -1));
    CHECK_OK(QUO_bind_pop(q));
    CHECK_STRING(check_binding(q), middle);
    CHECK_OK(QUO_bind_pop(q));
    CHECK_STRING(check_binding(q), before);

    /* The extra pop does not affect later calls. */
    CHECK_CODE(QUO_bind_pop(q), QUO_ERR_POP);
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, check_usable(q).index[0]));
    CHECK_OK(QUO_bind_pop(q));
    CHECK_STRING(check_binding(q), before);

    CHECK_REFUSES_BAD_HANDLES(QUO_bind_pop(bad));
}
