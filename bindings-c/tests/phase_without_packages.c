/* A machine without packages: the default phases run over the machine as a whole. */
#define _POSIX_C_SOURCE 200112L
#include "check.h"

static void
check_phase(QUO_context q, const QUO_phase_spec_t *spec, int qid)
{
    QUO_phase phase = NULL;
    int selected = -1, threads = -1;

    CHECK_OK(QUO_phase_create(q, spec, &phase));
    CHECK_OK(QUO_phase_begin(phase, &selected, &threads));
    CHECK_INT(selected, 0 == qid);
    CHECK_INT(threads, 0 == qid ? 8 : 0);
    CHECK_OK(QUO_phase_end(phase));
    CHECK_OK(QUO_phase_free(phase));
}

CHECK_PROGRAM
{
    QUO_phase_spec_t spec = QUO_PHASE_SPEC_INIT;
    QUO_context q = NULL;
    QUO_phase phase = NULL;
    int qid = -1;

    setenv("QUO_TOPOLOGY", "numa:2 core:4 pu:1", 1);
    CHECK_OK(QUO_create(&q, MPI_COMM_WORLD));
    CHECK_OK(QUO_id(q, &qid));
    CHECK_INT(check_nobjs(q, QUO_OBJ_PACKAGE), 0);
    check_phase(q, NULL, qid);
    check_phase(q, &spec, qid);
    /* A type that this machine does not have is still refused. */
    spec.type = QUO_OBJ_DIE;
    CHECK_CODE_EVERYWHERE(QUO_phase_create(q, &spec, &phase), QUO_ERR_NOT_FOUND);
    CHECK_OK(QUO_free(q));
}
