/* An elastic program that leaves all options to the launch, and adds up a vector of ones in each step
   until there is a file of the given name. */
#define _POSIX_C_SOURCE 200809L
#include <quo-elastic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ELEMENTS = 1000 };

static const char *stop;

static void
check(int code)
{
    if (QUO_SUCCESS == code) return;
    fprintf(stderr, "%s\n", QUO_last_error());
    exit(1);
}

static int
step(QUO_world world, void *data)
{
    const struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
    MPI_Comm ranks;
    void *part;
    size_t count;
    double own = 0, all = 0;
    int *done = data, rank, size, is_over;

    check(QUO_world_array(world, "ones", &part, NULL, &count));
    for (size_t i = 0; i < count; ++i) own += ((double *)part)[i];
    check(QUO_world_comm(world, &ranks));
    check(QUO_world_rank(world, &rank));
    check(QUO_world_size(world, &size));
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, ranks);
    if (ELEMENTS != all) {
        fprintf(stderr, "the sum on %d ranks is %.0f\n", size, all);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (0 == rank && 0 == (*done)++) {
        printf("ready\n");
        fflush(stdout);
    }
    // Sleeps: in place of a computation, which leaves the cores to other processes.
    nanosleep(&pause, NULL);
    is_over = 0 == access(stop, F_OK);
    MPI_Bcast(&is_over, 1, MPI_INT, 0, ranks);
    return !is_over;
}

int
main(int argc, char **argv)
{
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    QUO_world world;
    void *part;
    size_t count;
    int provided, status, done = 0;

    if (argc < 2) return 2;
    stop = argv[1];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check(QUO_world_create(&world, NULL));
    check(QUO_world_status(world, &status));
    if (QUO_WORLD_NEW == status) {
        spec.columns = ELEMENTS;
        check(QUO_world_array_add(world, "ones", &spec));
        check(QUO_world_array(world, "ones", &part, NULL, &count));
        for (size_t i = 0; i < count; ++i) ((double *)part)[i] = 1;
    }
    check(QUO_world_run(world, step, &done, &done, sizeof(done)));
    check(QUO_world_end(world));
    return MPI_Finalize();
}
