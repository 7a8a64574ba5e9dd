/* QUO_bind_push: both policies over every object, deep stacks, bad arguments change nothing. */
#include "check.h"

/* How many of an object's PUs may be used. */
static int
usable_inside(QUO_context q, const struct check_pus *usable, QUO_obj_type_t type, int index)
{
    int inside = 0, out = 0;
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
    for (int i = 0; i < usable->count; ++i) {
        CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, usable->index[i]));
        CHECK_OK(QUO_cpuset_in_type(q, type, index, &out));
        inside += out;
        CHECK_OK(QUO_bind_pop(q));
    }
    CHECK_OK(QUO_bind_pop(q));
    return inside;
}

/* The pushed CPUs are the allowed ones of the object. */
static void
pushed_is(QUO_context q, const struct check_pus *usable, QUO_obj_type_t type, int index)
{
    int out = 0, pus = check_nobjs(q, QUO_OBJ_PU), all = 0, matched = 0;
    char *object = NULL;

    CHECK_OK(QUO_cpuset_in_type(q, type, index, &out));
    CHECK_INT(out, 1);
    for (int pu = 0; pu < pus; ++pu) {
        CHECK_OK(QUO_cpuset_in_type(q, QUO_OBJ_PU, pu, &out));
        matched += out;
    }
    CHECK_INT(matched, usable_inside(q, usable, type, index));
    CHECK_OK(QUO_nobjs_in_type_by_type(q, type, index, QUO_OBJ_PU, &all));
    CHECK_OK(QUO_cpuset_of_type(q, type, index, &object));
    if (matched == all && QUO_OBJ_MACHINE != type) CHECK_STRING(check_binding(q), object);
    free(object);
}

CHECK_CONTEXT(q)
{
    char before[4096];
    int pus = 0, depth = 0;
    struct check_pus usable;

    pus = check_nobjs(q, QUO_OBJ_PU);
    usable = check_usable(q);
    snprintf(before, sizeof(before), "%s", check_binding(q));

    for (int i = 0; i < CHECK_COUNT(check_types); ++i) {
        for (int index = 0; index < check_nobjs(q, check_types[i]); ++index) {
            if (0 == usable_inside(q, &usable, check_types[i], index)) {
                /* A NUMA node with memory only, or a part of the machine that we may not use. */
                CHECK_CODE(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, check_types[i], index),
                           QUO_ERR_NOT_SUPPORTED);
                continue;
            }
            CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, check_types[i], index));
            pushed_is(q, &usable, check_types[i], index);
            CHECK_OK(QUO_bind_pop(q));
            CHECK_STRING(check_binding(q), before);
        }
    }

    /* From every usable PU to the object around it; the index does not matter. */
    for (int pu = 0; pu < usable.count; ++pu) {
        CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, usable.index[pu]));
        for (int i = 0; i < CHECK_COUNT(check_types); ++i) {
            int found = -1, out = 0;
            for (int index = 0; index < check_nobjs(q, check_types[i]); ++index) {
                CHECK_OK(QUO_cpuset_in_type(q, check_types[i], index, &out));
                if (out) found = index;
            }
            if (found < 0) {
                CHECK_CODE(QUO_bind_push(q, QUO_BIND_PUSH_OBJ, check_types[i], -1),
                           QUO_ERR_NOT_FOUND);
                continue;
            }
            CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_OBJ, check_types[i], pu % 2 ? -1 : 12345));
            pushed_is(q, &usable, check_types[i], found);
            CHECK_OK(QUO_bind_pop(q));
        }
        CHECK_OK(QUO_bind_pop(q));
    }

    /* No PU encloses the whole machine: the first usable one is taken. */
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_OBJ, QUO_OBJ_PU, -1));
    pushed_is(q, &usable, QUO_OBJ_PU, usable.index[0]);
    CHECK_OK(QUO_bind_pop(q));
    CHECK_OK(QUO_bind_pop(q));

    /* Deeper than any program. */
    for (depth = 0; depth < 1000; ++depth) {
        CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU,
                               usable.index[depth % usable.count]));
    }
    while (depth-- > 0) {
        int out = 0;
        CHECK_OK(QUO_cpuset_in_type(q, QUO_OBJ_PU, usable.index[depth % usable.count], &out));
        CHECK_INT(out, 1);
        CHECK_OK(QUO_bind_pop(q));
    }
    CHECK_STRING(check_binding(q), before);

    for (int i = 0; i < CHECK_COUNT(check_not_types); ++i) {
        QUO_obj_type_t unknown = (QUO_obj_type_t)check_not_types[i];
        CHECK_CODE(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, unknown, 0), QUO_ERR_INVLD_ARG);
        CHECK_CODE(QUO_bind_push(q, QUO_BIND_PUSH_OBJ, unknown, -1), QUO_ERR_INVLD_ARG);
    }
    CHECK_CODE(QUO_bind_push(q, (QUO_bind_push_policy_t)2, QUO_OBJ_PU, 0), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_bind_push(q, (QUO_bind_push_policy_t)-1, QUO_OBJ_PU, 0), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, pus), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, -1), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_bind_push(bad, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, 0));
    CHECK_STRING(check_binding(q), before);
    CHECK_CODE(QUO_bind_pop(q), QUO_ERR_POP);
}
