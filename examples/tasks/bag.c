/* Master and workers with a bag of items, on changing ranks: `mpirun -n 4 bag finish 7` requests
 * random numbers of ranks, with 7 as the seed. A worker that leaves computes its item to the end
 * with `finish`, and returns it at once with `return`. Rank 0 is the master, and never leaves.
 * At the end each item has been done exactly once. */

#define _POSIX_C_SOURCE 200809L

#include <mpi.h>
#include <quo-elastic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ITEMS = 600, RESIZES = 6, REQUESTS = 30, LAST = 40 };

/* Messages: to a worker an item, a probe and the end; to the master a result, and an item that was not computed. */
enum { ITEM = 1, PROBE, STOP, RESULT, RETURNED };

struct answer {
    int item, value;
};

static QUO_world w;
static MPI_Comm ranks;
static int returns, size;

/* The bag is a stack, so that returned items are given out next. */
static int bag[ITEMS], in_bag, left = ITEMS, resizes, requests;
static int times_done[ITEMS], values[ITEMS];

static void
check(int code, const char *call)
{
    if (QUO_SUCCESS == code) return;
    fprintf(stderr, "%s: %s\n", call, QUO_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int value_of(int item) { return item * item + 1; }

/* Takes part in a resize. */
static void
resize(void)
{
    check(QUO_world_begin(w), "QUO_world_begin");
    check(QUO_world_commit(w), "QUO_world_commit");
}

/* Returns nonzero if a resize is pending. All ranks make the call at each message of the master. */
static int
probe(void)
{
    int enters;
    check(QUO_world_probe(w, &enters), "QUO_world_probe");
    return enters;
}

/* Computes an item for some time. Returns 1 if it was abandoned for a resize, which is next. */
static int
compute(int item, int *value)
{
    double end = MPI_Wtime() + 300e-6;
    while (MPI_Wtime() < end) {
        int came;
        if (!returns) continue;
        MPI_Iprobe(0, PROBE, ranks, &came, MPI_STATUS_IGNORE);
        if (!came) continue;
        MPI_Recv(NULL, 0, MPI_BYTE, 0, PROBE, ranks, MPI_STATUS_IGNORE);
        if (probe()) return 1;
    }
    *value = value_of(item);
    return 0;
}

/* Works until the end, or until the ranks have changed. Returns 0 at the end. */
static int
work(void)
{
    for (;;) {
        struct answer answer = {0, 0};
        MPI_Status status;
        int given_up;
        MPI_Recv(&answer.item, 1, MPI_INT, 0, MPI_ANY_TAG, ranks, &status);
        if (STOP == status.MPI_TAG) return 0;
        if (PROBE == status.MPI_TAG) {
            if (!probe()) continue;
            resize();
            return 1;
        }
        given_up = compute(answer.item, &answer.value);
        MPI_Send(&answer, 2, MPI_INT, 0, given_up ? RETURNED : RESULT, ranks);
        if (given_up) {
            resize();
            return 1;
        }
    }
}

static void
take(const struct answer *answer, int is_result)
{
    if (!is_result) {
        bag[in_bag++] = answer->item;
        return;
    }
    ++times_done[answer->item];
    values[answer->item] = answer->value;
    --left;
}

/* Receives the answer of a worker, and returns the worker's rank. */
static int
receive(void)
{
    struct answer answer;
    MPI_Status status;
    /* MPICH 5.0 may wait forever in a receive from any source between spawned processes. */
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, ranks, &status);
    MPI_Recv(&answer, 2, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, ranks, &status);
    take(&answer, RESULT == status.MPI_TAG);
    return status.MPI_SOURCE;
}

/* Returns nonzero while the ranks have not changed often enough, and may change. */
static int wants_more(int most) { return resizes < RESIZES && requests < REQUESTS && most > 1; }

/* Requests the next random number of ranks once the last request has ended. Returns nonzero while one is open. */
static int
ask(unsigned *random, int most)
{
    static long long request = -1;
    int state = QUO_REQUEST_DONE;
    if (request >= 0) check(QUO_world_request_state(w, request, &state, NULL), "QUO_world_request_state");
    if (QUO_REQUEST_OPEN == state) return 1;
    if (request >= 0 && QUO_REQUEST_DONE == state) ++resizes;
    request = -1;
    if (!wants_more(most)) return 0;
    *random = *random * 1664525u + 1013904223u;
    int next = 1 + (int)((*random >> 16) % (unsigned)most);
    if (next == size) next = next % most + 1;
    ++requests;
    check(QUO_world_request(w, next, &request), "QUO_world_request");
    return 1;
}

/* Gives out items until all are done, or until the ranks have changed. Returns 0 at the end. */
static int
give_out(unsigned *random, int most)
{
    int *is_busy = calloc((size_t)size, sizeof(int));
    int busy = 0, is_open = 1, came;
    double probed = 0;
    if (NULL == is_busy) MPI_Abort(MPI_COMM_WORLD, 1);
    while (left > 0 || is_open) {
        /* The last items wait until the ranks have changed often enough. */
        int kept = wants_more(most) ? LAST : 0;
        for (int worker = 1; worker < size && in_bag > kept; ++worker) {
            if (is_busy[worker]) continue;
            MPI_Send(&bag[--in_bag], 1, MPI_INT, worker, ITEM, ranks);
            is_busy[worker] = 1;
            ++busy;
        }
        if (1 == size && in_bag > kept) {
            struct answer own = {bag[--in_bag], 0};
            own.value = value_of(own.item);
            take(&own, 1);
        }
        is_open = ask(random, most);
        if (MPI_Wtime() - probed > 1e-3) {
            probed = MPI_Wtime();
            for (int worker = 1; worker < size; ++worker) MPI_Send(NULL, 0, MPI_BYTE, worker, PROBE, ranks);
            if (probe()) {
                /* The master waits only for answers: an item is done, or is returned. */
                for (; busy > 0; --busy) receive();
                free(is_busy);
                resize();
                return 1;
            }
        }
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, ranks, &came, MPI_STATUS_IGNORE);
        if (came) {
            is_busy[receive()] = 0;
            --busy;
        } else {
            nanosleep(&(struct timespec){0, 50000}, NULL);
        }
    }
    for (int worker = 1; worker < size; ++worker) MPI_Send(NULL, 0, MPI_BYTE, worker, STOP, ranks);
    free(is_busy);
    return 0;
}

/* Runs as a rank or parked, until the end. */
static void
run(unsigned random)
{
    int status, joins, rank = 1, most, goes_on = 1;
    check(QUO_world_capacity(w, &most), "QUO_world_capacity");
    while (goes_on) {
        check(QUO_world_status(w, &status), "QUO_world_status");
        if (QUO_WORLD_ENDED == status) return;
        if (QUO_WORLD_PARKED == status) {
            check(QUO_world_wait(w, &joins), "QUO_world_wait");
            if (!joins) return;
            resize();
            continue;
        }
        if (QUO_WORLD_JOINING == status) {
            resize();
            continue;
        }
        check(QUO_world_rank(w, &rank), "QUO_world_rank");
        check(QUO_world_size(w, &size), "QUO_world_size");
        check(QUO_world_comm(w, &ranks), "QUO_world_comm");
        goes_on = 0 == rank ? give_out(&random, most) : work();
    }
    if (0 != rank) return;
    for (int item = 0; item < ITEMS; ++item) {
        if (1 == times_done[item] && value_of(item) == values[item]) continue;
        fprintf(stderr, "item %d was done %d times\n", item, times_done[item]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    printf("%d items, each done once, with %d resizes\n", ITEMS, resizes);
}

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    int level;
    if (argc < 3) {
        fprintf(stderr, "bag finish|return SEED [MOST]\n");
        return 2;
    }
    returns = 0 == strcmp(argv[1], "return");
    options.initial_ranks = 1;
    if (argc > 3) { /* more processes are started */
        options.max_ranks = atoi(argv[3]);
        options.allow_oversubscribe = 1;
        options.processes_per_spawn = 1;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    for (int item = 0; item < ITEMS; ++item) bag[in_bag++] = item;
    check(QUO_world_create(&w, &options), "QUO_world_create");
    run((unsigned)atoi(argv[2]));
    check(QUO_world_end(w), "QUO_world_end");
    MPI_Finalize();
    return 0;
}
