/* QUO_split_by_weight, QUO_split_by_count, QUO_split_by_device: parts, phases inside them, what is refused. */
#include "check.h"

/* The CPUs of a scope as a list. */
static char *
cpus_of(QUO_context scope)
{
    char *list = NULL;
    CHECK_OK(QUO_cpuset_of_type(scope, QUO_OBJ_MACHINE, 0, &list));
    return list;
}

/* A phase over a scope: its first rank works, with all PUs of the scope that are allowed. */
static void
check_phase(QUO_context scope, int runs)
{
    QUO_phase_spec_t spec = QUO_PHASE_SPEC_INIT;
    QUO_phase phase = NULL;
    int selected = -1, threads = -1, qid = -1;

    spec.type = QUO_OBJ_MACHINE;
    CHECK_OK(QUO_id(scope, &qid));
    CHECK_OK(QUO_phase_create(scope, &spec, &phase));
    for (int run = 0; run < runs; ++run) {
        CHECK_OK(QUO_phase_begin(phase, &selected, &threads));
        CHECK(threads <= check_nobjs(scope, QUO_OBJ_PU));
        CHECK(0 == qid || !selected);
        CHECK_OK(QUO_phase_end(phase));
    }
    CHECK_OK(QUO_phase_free(phase));
}

/* On the golden machine with two GPUs each has a package; what is refused on any machine. */
static void
check_devices(QUO_context q, int rank, int size)
{
    QUO_context scope = NULL;
    char *list = NULL, *before = NULL, *after = NULL;
    int count = 0, gpu = -1, nqids = 0;

    CHECK_OK(QUO_ndevices(q, QUO_DEVICE_GPU, &count));
    if (2 == count && 8 == check_nobjs(q, QUO_OBJ_PU)) {
        CHECK_OK(QUO_stringify_cbind(q, &before));
        gpu = rank % 2;
        CHECK_OK(QUO_split_by_device(q, QUO_OBJ_CORE, QUO_DEVICE_GPU, gpu, &scope));
        list = cpus_of(scope);
        CHECK_STRING(list, gpu ? "4-7" : "0-3");
        CHECK_OK(QUO_ptr_free(list));
        CHECK_OK(QUO_nqids(scope, &nqids));
        CHECK_INT(nqids, (size + 1 - gpu) / 2);
        check_phase(scope, 2);
        CHECK_OK(QUO_free(scope));
        CHECK_OK(QUO_stringify_cbind(q, &after));
        CHECK_STRING(after, before);
        CHECK_OK(QUO_ptr_free(before));
        CHECK_OK(QUO_ptr_free(after));
        /* Every rank at one GPU: the cores near the other one belong to no part. */
        CHECK_OK(QUO_split_by_device(q, QUO_OBJ_PACKAGE, QUO_DEVICE_GPU, 1, &scope));
        CHECK_INT(check_nobjs(scope, QUO_OBJ_CORE), 4);
        CHECK_OK(QUO_free(scope));
        if (size > 1) {
            CHECK_CODE_EVERYWHERE(QUO_split_by_device(q, QUO_OBJ_CORE,
                                                      rank ? QUO_DEVICE_GPU : QUO_DEVICE_NETWORK,
                                                      0, &scope),
                                  QUO_ERR_DISAGREE);
        }
    }
    scope = (QUO_context)check_handle(1);
    CHECK_CODE_EVERYWHERE(QUO_split_by_device(q, QUO_OBJ_CORE, QUO_DEVICE_GPU, count, &scope),
                          QUO_ERR_INVLD_ARG);
    CHECK(NULL == scope);
    CHECK_ERROR_NAMES("no gpu device");
    CHECK_CODE_EVERYWHERE(QUO_split_by_device(q, QUO_OBJ_CORE, QUO_DEVICE_GPU, -1, &scope),
                          QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(QUO_split_by_device(q, QUO_OBJ_CORE, (QUO_device_kind_t)3, 0, &scope),
                          QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(QUO_split_by_device(q, (QUO_obj_type_t)44, QUO_DEVICE_GPU, 0, &scope),
                          QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(QUO_split_by_device(q, QUO_OBJ_CORE, QUO_DEVICE_GPU, 0,
                                              rank ? &scope : NULL),
                          QUO_ERR_INVLD_ARG);
}

CHECK_CONTEXT(q)
{
    const int weights[] = {1, 1}, wrong[] = {1, 0}, negative[] = {1, -1}, one[] = {1};
    QUO_context scope = NULL;
    char *before = NULL, *after = NULL, *list = NULL;
    int rank = 0, size = 0, pus = 0, nqids = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK_OK(QUO_stringify_cbind(q, &before));
    pus = check_nobjs(q, QUO_OBJ_PU);

    /* Two components; with one rank there is only the first. */
    if (pus >= 2) {
        const int part = rank % 2;
        CHECK_OK(QUO_split_by_weight(q, QUO_OBJ_PU, 2, NULL, part, &scope));
        CHECK_OK(QUO_nqids(scope, &nqids));
        CHECK_INT(nqids, (size + 1 - part) / 2);
        list = cpus_of(scope);
        CHECK(check_nobjs(scope, QUO_OBJ_PU) < pus);
        CHECK_OK(QUO_ptr_free(list));
        /* Another number of runs in each part: no part waits for the other. */
        check_phase(scope, 1 + 9 * part);
        CHECK_CODE(QUO_bind_pop(scope), QUO_ERR_POP);
        CHECK_CODE(QUO_retire(scope), QUO_ERR_NOT_SUPPORTED);
        CHECK_OK(QUO_barrier(q));
        CHECK_OK(QUO_free(scope));
        CHECK_OK(QUO_stringify_cbind(q, &after));
        CHECK_STRING(after, before);
        CHECK_OK(QUO_ptr_free(after));

        CHECK_OK(QUO_split_by_count(q, QUO_OBJ_PU, 1, one, 0, &scope));
        CHECK_INT(check_nobjs(scope, QUO_OBJ_PU), 1);
        CHECK_OK(QUO_free(scope));
    }

    scope = (QUO_context)check_handle(1);
    CHECK_CODE_EVERYWHERE(QUO_split_by_weight(q, QUO_OBJ_PU, 2, wrong, 0, &scope),
                          QUO_ERR_INVLD_ARG);
    CHECK(NULL == scope);
    CHECK_CODE_EVERYWHERE(QUO_split_by_weight(q, QUO_OBJ_PU, 2, negative, 0, &scope),
                          QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(QUO_split_by_weight(q, QUO_OBJ_PU, 1, NULL, 1, &scope),
                          QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(QUO_split_by_weight(q, QUO_OBJ_PU, 0, NULL, 0, &scope),
                          QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(QUO_split_by_weight(q, (QUO_obj_type_t)44, 1, NULL, 0, &scope),
                          QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(QUO_split_by_weight(q, QUO_OBJ_PU, 16384, NULL, 0, &scope),
                          QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(QUO_split_by_count(q, QUO_OBJ_PU, 1, NULL, 0, &scope),
                          QUO_ERR_INVLD_ARG);
    /* One rank is wrong: it fails everywhere, and no rank waits. */
    CHECK_CODE_EVERYWHERE(QUO_split_by_weight(q, QUO_OBJ_PU, 1, NULL, 0, rank ? &scope : NULL),
                          QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(QUO_split_by_weight(q, QUO_OBJ_PU, 1, NULL, rank ? 0 : -1, &scope),
                          QUO_ERR_INVLD_ARG);
    if (size > 1 && pus >= 2) {
        CHECK_CODE_EVERYWHERE(QUO_split_by_weight(q, QUO_OBJ_PU, 1 + rank % 2, weights, 0, &scope),
                              QUO_ERR_DISAGREE);
        CHECK_ERROR_NAMES("weights 1,1 over pu");
    }
    check_devices(q, rank, size);
    CHECK_REFUSES_BAD_HANDLES(QUO_split_by_device(bad, QUO_OBJ_PU, QUO_DEVICE_GPU, 0, &scope));
    CHECK_REFUSES_BAD_HANDLES(QUO_split_by_weight(bad, QUO_OBJ_PU, 1, NULL, 0, &scope));
    CHECK_REFUSES_BAD_HANDLES(QUO_split_by_count(bad, QUO_OBJ_PU, 1, one, 0, &scope));
    CHECK_OK(QUO_ptr_free(before));
}
