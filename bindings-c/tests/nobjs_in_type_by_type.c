/* QUO_nobjs_in_type_by_type: parts add up, bad types and indices are refused. */
#include "check.h"

CHECK_CONTEXT(q)
{
    int out = -1, packages = 0, pus = 0, cores = 0;

    packages = check_nobjs(q, QUO_OBJ_PACKAGE);
    for (int i = 0; i < CHECK_COUNT(check_types); ++i) {
        int count = check_nobjs(q, check_types[i]);
        CHECK_OK(QUO_nobjs_in_type_by_type(q, QUO_OBJ_MACHINE, 0, check_types[i], &out));
        CHECK_INT(out, count);
        for (int index = 0; index < count; ++index) {
            CHECK_OK(QUO_nobjs_in_type_by_type(q, check_types[i], index, check_types[i], &out));
            CHECK_INT(out, 1);
        }
        CHECK_CODE(QUO_nobjs_in_type_by_type(q, check_types[i], count, QUO_OBJ_PU, &out),
                   QUO_ERR_INVLD_ARG);
        CHECK_CODE(QUO_nobjs_in_type_by_type(q, check_types[i], -1, QUO_OBJ_PU, &out),
                   QUO_ERR_INVLD_ARG);
        CHECK_CODE(QUO_nobjs_in_type_by_type(q, check_types[i], 2147483647, QUO_OBJ_PU, &out),
                   QUO_ERR_INVLD_ARG);
    }
    for (int package = 0; package < packages; ++package) {
        CHECK_OK(QUO_nobjs_in_type_by_type(q, QUO_OBJ_PACKAGE, package, QUO_OBJ_PU, &out));
        pus += out;
        CHECK_OK(QUO_nobjs_in_type_by_type(q, QUO_OBJ_SOCKET, package, QUO_OBJ_CORE, &out));
        cores += out;
    }
    if (packages > 0) {
        CHECK_INT(pus, check_nobjs(q, QUO_OBJ_PU));
        CHECK_INT(cores, check_nobjs(q, QUO_OBJ_CORE));
    }
    if (check_nobjs(q, QUO_OBJ_CORE) > 1) {
        CHECK_OK(QUO_nobjs_in_type_by_type(q, QUO_OBJ_CORE, 0, QUO_OBJ_MACHINE, &out));
        CHECK_INT(out, 0);
    }

    for (int i = 0; i < CHECK_COUNT(check_not_types); ++i) {
        QUO_obj_type_t unknown = (QUO_obj_type_t)check_not_types[i];
        CHECK_CODE(QUO_nobjs_in_type_by_type(q, unknown, 0, QUO_OBJ_PU, &out), QUO_ERR_INVLD_ARG);
        CHECK_CODE(QUO_nobjs_in_type_by_type(q, QUO_OBJ_MACHINE, 0, unknown, &out),
                   QUO_ERR_INVLD_ARG);
    }
    CHECK_CODE(QUO_nobjs_in_type_by_type(q, QUO_OBJ_MACHINE, 0, QUO_OBJ_PU, NULL),
               QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(
        QUO_nobjs_in_type_by_type(bad, QUO_OBJ_MACHINE, 0, QUO_OBJ_PU, &out));
}
