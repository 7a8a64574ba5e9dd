/* QUO_bind_push_cpuset: any CPU list; nonsense is refused and changes nothing. */
#include "check.h"

CHECK_CONTEXT(q)
{
    static const char *const nonsense[] = {"", " ", "a", "3-1", "1,,2", "-", "1-", "99999999999",
                                           "0x3", "0 1"};
    char before[4096];
    struct check_pus pus;

    snprintf(before, sizeof(before), "%s", check_binding(q));
    pus = check_usable(q);
    for (int pu = 0; pu < pus.count; ++pu) {
        char *list = NULL;
        CHECK_OK(QUO_cpuset_of_type(q, QUO_OBJ_PU, pus.index[pu], &list));
        CHECK_OK(QUO_bind_push_cpuset(q, list));
        CHECK_STRING(check_binding(q), list);
        CHECK_OK(QUO_bind_pop(q));
        CHECK_STRING(check_binding(q), before);
        free(list);
    }
    for (int i = 0; i < CHECK_COUNT(nonsense); ++i) {
        CHECK_CODE(QUO_bind_push_cpuset(q, nonsense[i]), QUO_ERR_INVLD_ARG);
        CHECK_ERROR_NAMES("QUO_bind_push_cpuset");
    }
    CHECK_CODE(QUO_bind_push_cpuset(q, "900000"), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_bind_push_cpuset(q, NULL), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_bind_push_cpuset(bad, "0"));
    CHECK_STRING(check_binding(q), before);
    CHECK_CODE(QUO_bind_pop(q), QUO_ERR_POP);
}
