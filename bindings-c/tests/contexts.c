/* Several contexts at once, many in a row, and from several threads. */
#include <pthread.h>

#include "check.h"

enum { LIVE = 20, ROUNDS = 100, THREADS = 4, CALLS = 2000 };

static void *
ask(void *data)
{
    QUO_context *contexts = data;
    int wrong = 0;
    for (int call = 0; call < CALLS; ++call) {
        int cores = -1, in = -1;
        char *list = NULL;
        QUO_context q = contexts[call % LIVE];
        wrong += QUO_SUCCESS != QUO_ncores(q, &cores) || cores < 0;
        wrong += QUO_SUCCESS != QUO_cpuset_in_type(q, QUO_OBJ_MACHINE, 0, &in) || 1 != in;
        wrong += QUO_SUCCESS != QUO_stringify_cbind(q, &list);
        wrong += QUO_ERR_INVLD_ARG != QUO_ncores(q, NULL);
        free(list);
    }
    return (void *)(size_t)wrong;
}

CHECK_PROGRAM
{
    QUO_context contexts[LIVE];
    pthread_t threads[THREADS];

    for (int i = 0; i < LIVE; ++i) REQUIRE_OK(QUO_create(&contexts[i], MPI_COMM_WORLD));
    for (int i = 0; i < THREADS; ++i) {
        CHECK_INT(pthread_create(&threads[i], NULL, ask, contexts), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        void *wrong = NULL;
        CHECK_INT(pthread_join(threads[i], &wrong), 0);
        CHECK_INT((size_t)wrong, 0);
    }
    for (int i = 0; i < LIVE; ++i) CHECK_OK(QUO_barrier(contexts[LIVE - 1 - i]));
    for (int i = 0; i < LIVE; ++i) CHECK_OK(QUO_free(contexts[i]));

    for (int round = 0; round < ROUNDS; ++round) {
        QUO_context q = NULL;
        REQUIRE_OK(QUO_create(&q, MPI_COMM_WORLD));
        CHECK_OK(QUO_barrier(q));
        CHECK_OK(QUO_free(q));
    }
}
