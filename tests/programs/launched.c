/* An elastic program that leaves its sizes to the launch: it asks for all ranks that the launch
   allows, says how many there are, and ends. */
#include <quo-elastic.h>
#include <stdio.h>
#include <stdlib.h>

static void
check(int code)
{
    if (QUO_SUCCESS == code) return;
    fprintf(stderr, "%s\n", QUO_last_error());
    exit(1);
}

int
main(int argc, char **argv)
{
    QUO_world world;
    const int wanted = argc > 1 ? atoi(argv[1]) : 3;
    int provided, status, enters, rank, size, asked = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check(QUO_world_create(&world, NULL));
    for (;;) {
        check(QUO_world_status(world, &status));
        if (QUO_WORLD_ENDED == status) break;
        enters = QUO_WORLD_JOINING == status;
        if (QUO_WORLD_PARKED == status) {
            check(QUO_world_wait(world, &enters));
            if (!enters) break;
        } else if (!enters) {
            check(QUO_world_probe(world, &enters));
        }
        if (enters) {
            check(QUO_world_begin(world));
            check(QUO_world_commit(world));
            continue;
        }
        check(QUO_world_rank(world, &rank));
        check(QUO_world_size(world, &size));
        if (wanted == size) break;
        if (0 == rank && !asked) {
            printf("begins with %d\n", size);
            fflush(stdout);
            check(QUO_world_request(world, wanted, NULL));
            asked = 1;
        }
    }
    if (QUO_WORLD_ENDED != status && QUO_WORLD_PARKED != status && 0 == rank) {
        printf("ends with %d\n", size);
    }
    check(QUO_world_end(world));
    return MPI_Finalize();
}
