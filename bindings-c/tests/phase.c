/* Phases: begin and end, the callback form, metrics, and every misuse. */
#include "check.h"

struct tally {
    QUO_context q;
    int calls;
    int threads;
    int first;
    int count;
    char cpuset[4096];
    char binding[4096];
};

struct trouble {
    QUO_phase phase;
    const char *reason;
};

static void
fail(const QUO_worker_t *worker, void *data)
{
    const struct trouble *trouble = data;
    (void)worker;
    CHECK_OK(QUO_phase_fail(trouble->phase, trouble->reason));
    /* The first reason counts. */
    CHECK_OK(QUO_phase_fail(trouble->phase, "a later reason"));
}

/* The failure of one rank is the failure of all on its node; the next run is a good one. */
static void
check_failures_reach_all(QUO_context q, QUO_phase phase, int qid, int nqids, int selected)
{
    const char *before = check_binding(q), *not_text = "\xff";
    char expected[64], kept[4096];
    int chosen = 0;
    struct trouble trouble = {phase, "the solver diverged"};

    snprintf(kept, sizeof(kept), "%s", before);
    CHECK_CODE(QUO_phase_fail(phase, "nothing has begun"), QUO_ERR_NOT_BEGUN);
    CHECK_CODE(QUO_phase_run(phase, fail, &trouble), QUO_ERR_WORK_FAILED);
    CHECK_ERROR_NAMES("the solver diverged");
    CHECK_STRING(check_binding(q), kept);
    /* Any rank may fail, selected or not. */
    for (int who = 0; who < nqids; ++who) {
        CHECK_OK(QUO_phase_begin(phase, &chosen, NULL));
        CHECK_INT(chosen, selected);
        snprintf(expected, sizeof(expected), "qid %d is out of memory", who);
        if (qid == who) CHECK_OK(QUO_phase_fail(phase, expected));
        CHECK_CODE(QUO_phase_end(phase), QUO_ERR_WORK_FAILED);
        CHECK_ERROR_NAMES(expected);
    }
    trouble.reason = NULL;
    CHECK_CODE(QUO_phase_run(phase, fail, &trouble), QUO_ERR_WORK_FAILED);
    CHECK_ERROR_NAMES("no reason");
    /* A reason that is not text is an error, and the others still get the failure. */
    CHECK_OK(QUO_phase_begin(phase, &chosen, NULL));
    if (chosen) CHECK_CODE(QUO_phase_fail(phase, not_text), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_phase_end(phase), QUO_ERR_WORK_FAILED);
    CHECK_OK(QUO_phase_begin(phase, &chosen, NULL));
    CHECK_OK(QUO_phase_end(phase));
    CHECK_OK(QUO_barrier(q));
}

static void
work(const QUO_worker_t *worker, void *data)
{
    struct tally *tally = data;
    ++tally->calls;
    tally->threads = worker->threads;
    tally->first = worker->first_qid;
    tally->count = worker->nqids;
    snprintf(tally->cpuset, sizeof(tally->cpuset), "%s", worker->cpuset);
    snprintf(tally->binding, sizeof(tally->binding), "%s", check_binding(tally->q));
    /* The context stays while its phase runs. */
    CHECK_CODE(QUO_free(tally->q), QUO_ERR_BUSY);
}

CHECK_CONTEXT(q)
{
    QUO_phase_spec_t spec = QUO_PHASE_SPEC_INIT;
    QUO_phase phase = NULL;
    QUO_phase_metrics_t metrics;
    char before[4096];
    int selected = -1, threads = -1, first = -1, count = -1, size = 0;
    int nqids = check_nqids(q), qid = check_qid(q), total = 0, all_threads = 0, served = 0, pus = 0;
    struct tally tally;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pus = check_usable(q).count;
    snprintf(before, sizeof(before), "%s", check_binding(q));
    memset(&metrics, 0, sizeof(metrics));
    metrics.size = sizeof(metrics);

    spec.type = QUO_OBJ_MACHINE;
    spec.name = "solve";
    CHECK_OK(QUO_phase_create(q, &spec, &phase));
    CHECK_OK(QUO_phase_metrics(phase, &metrics));
    CHECK_INT(metrics.threads, 0);
    for (int round = 0; round < 10; ++round) {
        CHECK_OK(QUO_phase_begin(phase, &selected, &threads));
        CHECK(0 == selected || 1 == selected);
        CHECK_INT(threads > 0, selected);
        CHECK_CODE(QUO_phase_begin(phase, &selected, &threads), QUO_ERR_BUSY);
        CHECK_CODE(QUO_phase_free(phase), QUO_ERR_BUSY);
        CHECK_OK(QUO_phase_qids(phase, &first, &count));
        CHECK_INT(count > 0, selected);
        MPI_Allreduce(&selected, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(&threads, &all_threads, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(&count, &served, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (size == nqids) {
            CHECK_INT(total, 1);
            CHECK_INT(all_threads, pus);
            CHECK_INT(served, nqids);
        }
        CHECK_OK(QUO_phase_end(phase));
        CHECK_STRING(check_binding(q), before);
        CHECK_CODE(QUO_phase_end(phase), QUO_ERR_NOT_BEGUN);
    }
    CHECK_OK(QUO_phase_begin(phase, &selected, NULL));
    CHECK_OK(QUO_phase_end(phase));
    CHECK_OK(QUO_phase_metrics(phase, &metrics));
    CHECK_INT(metrics.selected, selected);
    CHECK_INT(metrics.threads > 0, selected);
    CHECK(metrics.run_seconds >= 0 && metrics.quiesced_seconds >= 0 && metrics.remap_seconds >= 0);

    memset(&tally, 0, sizeof(tally));
    tally.q = q;
    for (int round = 1; round <= 10; ++round) {
        CHECK_OK(QUO_phase_run(phase, work, &tally));
        CHECK_INT(tally.calls, selected ? round : 0);
        CHECK_STRING(check_binding(q), before);
    }
    if (selected) {
        CHECK_STRING(tally.cpuset, tally.binding);
        CHECK(tally.threads >= 1);
        CHECK(tally.first >= 0 && tally.count >= 1 && tally.first + tally.count <= nqids);
    }
    check_failures_reach_all(q, phase, qid, nqids, selected);
    CHECK_CODE_EVERYWHERE(QUO_phase_run(phase, NULL, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_phase_begin(phase, NULL, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_phase_qids(phase, NULL, &count), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_phase_qids(phase, &first, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_phase_metrics(phase, NULL), QUO_ERR_INVLD_ARG);
    metrics.size = 2;
    CHECK_CODE(QUO_phase_metrics(phase, &metrics), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_free(q), QUO_ERR_BUSY);
    CHECK_OK(QUO_phase_free(phase));
    CHECK_CODE(QUO_phase_free(phase), QUO_ERR_INVLD_HANDLE);
    CHECK_CODE(QUO_phase_begin(phase, &selected, &threads), QUO_ERR_INVLD_HANDLE);
    CHECK_CODE(QUO_phase_run(phase, work, &tally), QUO_ERR_INVLD_HANDLE);
    CHECK_CODE(QUO_phase_fail(phase, "late"), QUO_ERR_INVLD_HANDLE);
    CHECK_OK(QUO_phase_free(NULL));

    /* One worker per PU, thread counts set. */
    spec.type = QUO_OBJ_PU;
    spec.threads = QUO_THREADS_OPENMP;
    spec.name = NULL;
    CHECK_OK(QUO_phase_create(q, &spec, &phase));
    CHECK_OK(QUO_phase_begin(phase, &selected, &threads));
    CHECK_INT(threads, selected);
    CHECK_OK(QUO_phase_end(phase));
    CHECK_OK(QUO_phase_free(phase));
    CHECK_OK(QUO_phase_create(q, NULL, &phase));
    CHECK_OK(QUO_phase_free(phase));

    /* With exclusive hardware, one worker for the node. */
    spec.type = QUO_OBJ_MACHINE;
    spec.sharing_limit = 60;
    for (int sharing = QUO_SHARING_OVERLAP; sharing <= QUO_SHARING_LEFT; ++sharing) {
        spec.sharing = sharing;
        CHECK_OK(QUO_phase_create(q, &spec, &phase));
        CHECK_OK(QUO_phase_begin(phase, &selected, &threads));
        CHECK(!selected || threads > 0);
        CHECK_OK(QUO_phase_end(phase));
        CHECK_OK(QUO_phase_free(phase));
    }
    spec.sharing = 3;
    CHECK_CODE_EVERYWHERE(QUO_phase_create(q, &spec, &phase), QUO_ERR_INVLD_ARG);
    spec.sharing = QUO_SHARING_OVERLAP;
    spec.sharing_limit = -1;
    CHECK_CODE_EVERYWHERE(QUO_phase_create(q, &spec, &phase), QUO_ERR_INVLD_ARG);
    spec.sharing_limit = 0;
    spec.type = QUO_OBJ_MACHINE;

    /* One CPU per thread. */
    for (int pinning = QUO_PINNING_ENVIRONMENT; pinning <= QUO_PINNING_SPREAD; ++pinning) {
        spec.pinning = pinning;
        CHECK_OK(QUO_phase_create(q, &spec, &phase));
        CHECK_CODE(QUO_phase_pin_thread(phase, 0, 1), QUO_ERR_INVLD_ARG);
        CHECK_OK(QUO_phase_begin(phase, &selected, &threads));
        CHECK_CODE(QUO_phase_pin_thread(phase, 0, threads), selected ? QUO_SUCCESS : QUO_ERR_INVLD_ARG);
        CHECK_CODE(QUO_phase_pin_thread(phase, 2, 2), QUO_ERR_INVLD_ARG);
        CHECK_CODE(QUO_phase_pin_thread(phase, -1, 2), QUO_ERR_INVLD_ARG);
        CHECK_OK(QUO_phase_end(phase));
        CHECK_CODE(QUO_phase_pin_thread(phase, 0, 1), QUO_ERR_INVLD_ARG);
        CHECK_OK(QUO_phase_free(phase));
    }
    CHECK_CODE(QUO_phase_pin_thread(phase, 0, 1), QUO_ERR_INVLD_HANDLE);
    spec.pinning = QUO_PINNING_SPREAD + 1;
    CHECK_CODE_EVERYWHERE(QUO_phase_create(q, &spec, &phase), QUO_ERR_INVLD_ARG);
    spec.pinning = QUO_PINNING_ENVIRONMENT;
    spec.type = QUO_OBJ_PU;

    spec.threads = 9;
    CHECK_CODE_EVERYWHERE(QUO_phase_create(q, &spec, &phase), QUO_ERR_INVLD_ARG);
    spec.threads = QUO_THREADS_KEEP;
    spec.max_per_object = 0;
    CHECK_CODE_EVERYWHERE(QUO_phase_create(q, &spec, &phase), QUO_ERR_INVLD_ARG);
    CHECK(NULL == phase);
    spec.max_per_object = 1;
    spec.type = (QUO_obj_type_t)44;
    CHECK_CODE_EVERYWHERE(QUO_phase_create(q, &spec, &phase), QUO_ERR_INVLD_ARG);
    spec.type = QUO_OBJ_PU;
    spec.size = 1;
    CHECK_CODE_EVERYWHERE(QUO_phase_create(q, &spec, &phase), QUO_ERR_INVLD_ARG);
    spec.size = sizeof(spec);
    if (size > 1) {
        spec.max_per_object = 1 + check_rank;
        CHECK_CODE_EVERYWHERE(QUO_phase_create(q, &spec, &phase), QUO_ERR_DISAGREE);
        spec.max_per_object = 0 == qid ? 0 : 1;
        CHECK_FAILS_EVERYWHERE(QUO_phase_create(q, &spec, &phase));
    }
    CHECK_REFUSES_BAD_HANDLES(QUO_phase_create(bad, NULL, &phase));
    CHECK_REFUSES_BAD_HANDLES(QUO_phase_end((QUO_phase)bad));
}
