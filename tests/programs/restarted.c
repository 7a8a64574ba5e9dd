/* A job of a hundred steps that writes a checkpoint after each, and continues from the last one. */
#define _POSIX_C_SOURCE 200809L
#include <quo-elastic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 100, ELEMENTS = 1000 };

static const char *folder;

static void
check(int code)
{
    if (QUO_SUCCESS == code) return;
    fprintf(stderr, "%s\n", QUO_last_error());
    exit(1);
}

/* Adds 1 to each element. */
static int
step(QUO_world world, void *data)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    int *done = data;
    int rank;
    void *part;
    size_t count;

    check(QUO_world_array(world, "vector", &part, NULL, &count));
    for (size_t i = 0; i < count; ++i) ((double *)part)[i] += 1;
    ++*done;
    check(QUO_world_checkpoint(world, folder, done, sizeof(*done)));
    check(QUO_world_rank(world, &rank));
    if (0 == rank) {
        printf("step %d\n", *done);
        fflush(stdout);
    }
    // Sleeps: the steps take time, in which the test ends a rank or a host.
    nanosleep(&pause, NULL);
    return *done < STEPS;
}

int
main(int argc, char **argv)
{
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    QUO_world world;
    MPI_Comm ranks;
    void *part;
    size_t count;
    double own = 0, all = 0;
    int provided, status, rank, size, restored = 0, done = 0;

    if (argc < 2) return 2;
    folder = argv[1];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check(QUO_world_create(&world, NULL));
    check(QUO_world_status(world, &status));
    if (QUO_WORLD_NEW == status) {
        check(QUO_world_restore(world, folder, &done, sizeof(done), &restored));
        spec.columns = ELEMENTS;
        if (!restored) check(QUO_world_array_add(world, "vector", &spec));
    }
    check(QUO_world_rank(world, &rank));
    check(QUO_world_size(world, &size));
    if (0 == rank) {
        printf("rank 0 is process %ld\n", (long)getpid());
        printf("begins after step %d on %d ranks\n", done, size);
        fflush(stdout);
    }
    check(QUO_world_run(world, step, &done, &done, sizeof(done)));
    check(QUO_world_array(world, "vector", &part, NULL, &count));
    for (size_t i = 0; i < count; ++i) own += ((double *)part)[i];
    check(QUO_world_comm(world, &ranks));
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, ranks);
    if (0 == rank) printf("ends with %.0f on %d ranks\n", all, size);
    check(QUO_world_end(world));
    return MPI_Finalize();
}
