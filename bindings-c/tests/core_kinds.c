/* QUO_ncore_kinds, QUO_core_kind, and the cores of a phase. */
#include "check.h"

/* Checks that hold on every machine; returns the number of kinds. */
static int
check_kinds(QUO_context q)
{
    char *list = NULL;
    int nkinds = 0, speed = -1, slower = 0;

    CHECK_OK(QUO_ncore_kinds(q, &nkinds));
    CHECK(nkinds >= 1);
    for (int index = 0; index < nkinds; ++index) {
        CHECK_OK(QUO_core_kind(q, index, &speed, &list));
        CHECK(speed >= slower && '\0' != *list);
        slower = speed;
        CHECK_OK(QUO_ptr_free(list));
    }
    list = (char *)check_handle(1);
    CHECK_CODE(QUO_core_kind(q, nkinds, &speed, &list), QUO_ERR_INVLD_ARG);
    CHECK(NULL == list);
    CHECK_CODE(QUO_core_kind(q, -1, &speed, &list), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_core_kind(q, 0, NULL, &list), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_core_kind(q, 0, &speed, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_ncore_kinds(q, NULL), QUO_ERR_INVLD_ARG);
    return nkinds;
}

/* How many threads the first rank runs in a phase over the machine. */
static int
threads_of(QUO_context q, const QUO_phase_spec_t *spec)
{
    QUO_phase phase = NULL;
    int selected = -1, threads = -1;

    CHECK_OK(QUO_phase_create(q, spec, &phase));
    CHECK_OK(QUO_phase_begin(phase, &selected, &threads));
    CHECK_OK(QUO_phase_end(phase));
    CHECK_OK(QUO_phase_free(phase));
    return threads;
}

CHECK_CONTEXT(q)
{
    QUO_phase_spec_t spec = QUO_PHASE_SPEC_INIT;
    QUO_phase phase = NULL;
    char *list = NULL;
    int nkinds = 0, speed = 0, qid = check_qid(q), nqids = check_nqids(q);

    nkinds = check_kinds(q);
    spec.type = QUO_OBJ_MACHINE;
    /* The golden machine of six fast cores with two PUs and eight slow ones. */
    if (2 == nkinds) {
        CHECK_OK(QUO_core_kind(q, 1, &speed, &list));
        CHECK_STRING(list, "0-11");
        CHECK_INT(speed, 4700);
        CHECK_OK(QUO_ptr_free(list));
        CHECK_INT(threads_of(q, &spec), 0 == qid ? 20 : 0);
        spec.cores = QUO_CORES_FASTEST;
        CHECK_INT(threads_of(q, &spec), 0 == qid ? 12 : 0);
        spec.max_per_object = 2;
        CHECK_INT(threads_of(q, &spec), qid < 2 ? 6 : 0);
        spec.cores = QUO_CORES_ALL;
        CHECK_INT(threads_of(q, &spec), qid < 2 ? 10 : 0);
    }
    spec.cores = 7;
    CHECK_CODE_EVERYWHERE(QUO_phase_create(q, &spec, &phase), QUO_ERR_INVLD_ARG);
    if (nqids > 1) {
        spec.cores = 0 == qid ? QUO_CORES_ALL : QUO_CORES_FASTEST;
        CHECK_CODE(QUO_phase_create(q, &spec, &phase), QUO_ERR_DISAGREE);
        CHECK_ERROR_NAMES("the cores of the phase");
    }
    CHECK_REFUSES_BAD_HANDLES(QUO_ncore_kinds(bad, &nkinds));
    CHECK_REFUSES_BAD_HANDLES(QUO_core_kind(bad, 0, &speed, &list));
}
