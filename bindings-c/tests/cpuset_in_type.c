/* QUO_cpuset_in_type: true if the current binding shares a CPU with the object. */
#include "check.h"

CHECK_CONTEXT(q)
{
    int out = -1, pus = 0;
    struct check_pus usable;

    CHECK_OK(QUO_cpuset_in_type(q, QUO_OBJ_MACHINE, 0, &out));
    CHECK_INT(out, 1);

    pus = check_nobjs(q, QUO_OBJ_PU);
    usable = check_usable(q);
    for (int i = 0; i < usable.count; ++i) {
        int pu = usable.index[i];
        CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, pu));
        for (int other = 0; other < pus; ++other) {
            CHECK_OK(QUO_cpuset_in_type(q, QUO_OBJ_PU, other, &out));
            CHECK_INT(out, other == pu);
        }
        for (int t = 0; t < CHECK_COUNT(check_types); ++t) {
            int inside = 0, count = check_nobjs(q, check_types[t]);
            for (int index = 0; index < count; ++index) {
                CHECK_OK(QUO_cpuset_in_type(q, check_types[t], index, &out));
                inside += out;
            }
            /* One PU is in one object of a kind at most. */
            CHECK(inside <= 1);
            if (QUO_OBJ_MACHINE == check_types[t]) CHECK_INT(inside, 1);
        }
        CHECK_OK(QUO_bind_pop(q));
    }

    /* Sharing one CPU is enough: a rank that may run anywhere is on every PU. */
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
    for (int i = 0; i < usable.count; ++i) {
        CHECK_OK(QUO_cpuset_in_type(q, QUO_OBJ_PU, usable.index[i], &out));
        CHECK_INT(out, 1);
    }
    CHECK_OK(QUO_bind_pop(q));

    out = 42;
    CHECK_CODE(QUO_cpuset_in_type(q, QUO_OBJ_PU, pus, &out), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_cpuset_in_type(q, QUO_OBJ_PU, -1, &out), QUO_ERR_INVLD_ARG);
    for (int i = 0; i < CHECK_COUNT(check_not_types); ++i) {
        CHECK_CODE(QUO_cpuset_in_type(q, (QUO_obj_type_t)check_not_types[i], 0, &out),
                   QUO_ERR_INVLD_ARG);
    }
    CHECK_CODE(QUO_cpuset_in_type(q, QUO_OBJ_PU, 0, NULL), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_cpuset_in_type(bad, QUO_OBJ_PU, 0, &out));
    CHECK_INT(out, 42);
}
