/* An elastic job whose processes may be killed at any time: elastic_kills START MOST SEED STOP GUARD. Every step has a
 * collective call of MPI: without a limit where GUARD is 1 and the job has abort_on_death, otherwise with a limit of
 * 2 s. Rank 0 requests a random size every few steps (MOST where SEED is 0), until there is a file STOP.
 * Each process prints "process NUMBER begins" first, "process NUMBER has MPI", "process NUMBER is there: RANK",
 * "process NUMBER joins", and how it ends after an error. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "quo-elastic.h"

/* Ends a process that cannot continue: MPI would wait in MPI_Finalize for the missing processes. */
static void
gives_up(const char *call, int code)
{
    printf("process %ld ends with %d in %s: %s\n", (long)getpid(), code, call, QUO_last_error());
    fflush(stdout);
    _Exit(9);
}

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != QUO_SUCCESS) gives_up(#call, code_);                                          \
    } while (0)

static unsigned
draw(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* Returns the maximum over the ranks; waits without a limit only where the death of a rank ends the job. */
static int
agree(MPI_Comm all, int own, int guard)
{
    const struct timespec pause = {0, 100000};
    MPI_Request request;
    int result, done = 0;
    if (guard) {
        MPI_Allreduce(&own, &result, 1, MPI_INT, MPI_MAX, all);
        return result;
    }
    MPI_Iallreduce(&own, &result, 1, MPI_INT, MPI_MAX, all, &request);
    for (int begin = (int)time(NULL); (int)time(NULL) - begin <= 2;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done) return result;
        // Sleeps: MPI has no event on which to wait with a limit.
        nanosleep(&pause, NULL);
    }
    gives_up("MPI_Iallreduce", -1);
    return 1;
}

/* Does one step of the ranks; returns 0 at the end. */
static int
step(QUO_world world, unsigned *state, int most, const char *stop, int guard)
{
    static unsigned steps;
    const struct timespec pause = {0, 1000000};
    int rank, ends = 0;
    long long request;
    MPI_Comm all;
    CHECK(QUO_world_comm(world, &all));
    MPI_Comm_rank(all, &rank);
    if (rank == 0) {
        ends = access(stop, F_OK) == 0;
        if (++steps % 16 == 0) {
            const int size = *state ? 1 + (int)(draw(state) % (unsigned)most) : most;
            /* A refused request changes nothing. */
            (void)QUO_world_request(world, size, &request);
        }
    }
    ends = agree(all, ends, guard);
    // Sleeps: stands for an iteration.
    nanosleep(&pause, NULL);
    return !ends;
}

int
main(int argc, char **argv)
{
    int level, status, enters, rank, guard, goes_on = 1;
    QUO_world world;
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    unsigned state = argc == 6 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    if (argc != 6) return 2;
    printf("process %ld begins\n", (long)getpid());
    fflush(stdout);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    printf("process %ld has MPI\n", (long)getpid());
    fflush(stdout);
    options.initial_ranks = atoi(argv[1]);
    options.max_ranks = atoi(argv[2]);
    options.processes_per_spawn = 1;
    options.allow_oversubscribe = 1;
    options.start_timeout = 4;
    options.abort_on_death = guard = atoi(argv[5]);
    CHECK(QUO_world_create(&world, &options));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("process %ld is there: %d\n", (long)getpid(), rank);
    fflush(stdout);
    while (goes_on) {
        CHECK(QUO_world_status(world, &status));
        if (status == QUO_WORLD_ENDED) break;
        if (status == QUO_WORLD_PARKED) {
            CHECK(QUO_world_wait(world, &goes_on));
            if (!goes_on) break;
            status = QUO_WORLD_JOINING;
        }
        enters = status == QUO_WORLD_JOINING;
        if (!enters) CHECK(QUO_world_probe(world, &enters));
        if (enters) {
            int code;
            CHECK(QUO_world_begin(world));
            code = QUO_world_commit(world);
            /* A resize aborted by all ranks has changed nothing. */
            if (code != QUO_SUCCESS && code != QUO_ERR_ABORTED) gives_up("commit", code);
            if (status == QUO_WORLD_JOINING) {
                printf("process %ld joins\n", (long)getpid());
                fflush(stdout);
            }
            continue;
        }
        goes_on = step(world, &state, atoi(argv[2]), argv[4], guard);
    }
    CHECK(QUO_world_end(world));
    printf("process %ld ended its world\n", (long)getpid());
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
