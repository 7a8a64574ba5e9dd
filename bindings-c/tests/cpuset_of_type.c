/* QUO_cpuset_of_type: the list of an object's CPUs. */
#include "check.h"

static int
listed(const char *list)
{
    int count = 0, first = 0, last = 0, used = 0;
    while ('\0' != *list) {
        if (1 != sscanf(list, "%d%n", &first, &used)) return -1;
        list += used;
        last = first;
        if ('-' == *list) {
            if (1 != sscanf(list + 1, "%d%n", &last, &used)) return -1;
            list += used + 1;
        }
        count += last - first + 1;
        if (',' == *list) ++list;
    }
    return count;
}

CHECK_CONTEXT(q)
{
    char *list = NULL;
    int pus = 0, all = 0;

    CHECK_OK(QUO_cpuset_of_type(q, QUO_OBJ_MACHINE, 0, &list));
    all = listed(list);
    CHECK(all >= check_nobjs(q, QUO_OBJ_PU));
    free(list);
    for (int i = 0; i < CHECK_COUNT(check_types); ++i) {
        for (int index = 0; index < check_nobjs(q, check_types[i]); ++index) {
            CHECK_OK(QUO_cpuset_of_type(q, check_types[i], index, &list));
            CHECK_OK(QUO_nobjs_in_type_by_type(q, check_types[i], index, QUO_OBJ_PU, &pus));
            CHECK(listed(list) >= 0 && listed(list) <= all);
            if (QUO_OBJ_MACHINE != check_types[i]) CHECK_INT(listed(list), pus);
            CHECK_OK(QUO_ptr_free(list));
        }
        list = (char *)check_handle(1);
        CHECK_CODE(QUO_cpuset_of_type(q, check_types[i], 100000, &list), QUO_ERR_INVLD_ARG);
        CHECK(NULL == list);
        CHECK_CODE(QUO_cpuset_of_type(q, check_types[i], -1, &list), QUO_ERR_INVLD_ARG);
    }
    CHECK_CODE(QUO_cpuset_of_type(q, (QUO_obj_type_t)55, 0, &list), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_cpuset_of_type(q, QUO_OBJ_MACHINE, 0, NULL), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_cpuset_of_type(bad, QUO_OBJ_MACHINE, 0, &list));
}
