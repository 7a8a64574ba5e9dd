/* QUO_set_memory_policy, QUO_memory_place, QUO_memory_on_node: pages on the NUMA nodes of this machine, none on a
 * simulated one; what is refused. */
#include "check.h"

enum { BYTES = 1 << 20 };

/* All bytes are on nodes or have no page. */
static void
check_sum(QUO_context q, char *memory, int nodes, long long right_absent)
{
    long long sum = 0, found = -1;
    for (int node = 0; node < nodes; ++node) {
        CHECK_OK(QUO_memory_on_node(q, memory, BYTES, node, &found));
        CHECK(found >= 0);
        sum += found;
    }
    CHECK_OK(QUO_memory_on_node(q, memory, BYTES, QUO_MEMORY_ABSENT, &found));
    CHECK(found == right_absent && sum + found == BYTES);
}

CHECK_CONTEXT(q)
{
    static const QUO_memory_policy_t policies[] = {QUO_MEMORY_FOLLOW, QUO_MEMORY_BIND, QUO_MEMORY_INTERLEAVE};
    int nodes = 0, code = QUO_SUCCESS;
    long long found = -1;
    char *memory = NULL;

    CHECK_OK(QUO_nnumanodes(q, &nodes));
    memory = malloc(BYTES);
    memset(memory, 1, BYTES);
    CHECK_CODE(QUO_set_memory_policy(q, (QUO_memory_policy_t)9), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_memory_place(q, memory, BYTES, QUO_OBJ_MACHINE, 0, QUO_MEMORY_KEEP), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_memory_place(q, memory, BYTES, QUO_OBJ_MACHINE, 1, QUO_MEMORY_BIND), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_memory_place(q, NULL, BYTES, QUO_OBJ_MACHINE, 0, QUO_MEMORY_BIND), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_memory_on_node(q, memory, BYTES, nodes, &found), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_memory_on_node(q, memory, BYTES, 0, NULL), QUO_ERR_INVLD_ARG);
    code = QUO_set_memory_policy(q, QUO_MEMORY_INTERLEAVE);
    if (QUO_SUCCESS == code) {
        for (int policy = 0; policy < CHECK_COUNT(policies); ++policy) {
            CHECK_OK(QUO_set_memory_policy(q, policies[policy]));
            CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
            CHECK_OK(QUO_memory_place(q, memory, BYTES, QUO_OBJ_MACHINE, 0, policies[policy]));
            CHECK_OK(QUO_bind_pop(q));
        }
        CHECK_OK(QUO_memory_place(q, memory, 0, QUO_OBJ_MACHINE, 0, QUO_MEMORY_BIND));
        check_sum(q, memory, nodes, 0);
        CHECK_OK(QUO_set_memory_policy(q, QUO_MEMORY_KEEP));
    }
    else {
        /* Containers may forbid this for all programs. */
        CHECK(QUO_ERR_NOT_SUPPORTED == code || QUO_ERR_SYS == code);
    }
    free(memory);
}
