/* A loop in an elastic world, which the profiler looks for: `elastic_loops FOLDER common|apart`. Rank 0 computes for 2 ms
 * and the others for 6, then all meet: at one place in the program, or rank 0 at a different place, so that no loop is
 * common to all. They continue until there is a file `stop` in the folder, where the control socket is, too. Each rank
 * prints the nanoseconds from the first meeting to the last, and those in meetings. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "quo-elastic.h"

static void require(int code, const char *call)
{
    if (QUO_SUCCESS == code) return;
    fprintf(stderr, "%s: %s\n", call, QUO_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A separate place even where the compiler would merge equal calls. */
static __attribute__((noinline)) void meet_elsewhere(const int *own, int *all, MPI_Comm comm)
{
    MPI_Allreduce(own, all, 1, MPI_INT, MPI_MAX, comm);
}

int main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_world world = NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    char sockets[4096], path[4096];
    int rank, stop = 0, all = 0;
    uint64_t first = 0, last = 0, in_mpi = 0, measured = 0;
    MPI_Init(&argc, &argv);
    if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
    const int apart = 0 == strcmp(argv[2], "apart");
    snprintf(sockets, sizeof(sockets), "%s/sockets", argv[1]);
    snprintf(path, sizeof(path), "%s/stop", argv[1]);
    options.name = "test";
    options.control = 1;
    options.control_folder = sockets;
    require(QUO_world_create(&world, &options), "QUO_world_create");
    require(QUO_world_comm(world, &comm), "QUO_world_comm");
    MPI_Comm_rank(comm, &rank);
    while (!all) {
        int pending = 0;
        require(QUO_world_probe(world, &pending), "QUO_world_probe");
        stop = rank == 0 && 0 == access(path, F_OK);
        compute(rank == 0 ? 2000000u : 6000000u);
        last = now();
        if (first == 0) first = last;
        measured = in_mpi;
        if (apart && rank == 0) {
            meet_elsewhere(&stop, &all, comm);
        } else {
            MPI_Allreduce(&stop, &all, 1, MPI_INT, MPI_MAX, comm);
        }
        in_mpi += now() - last;
    }
    printf("truth %d %llu %llu\n", rank, (unsigned long long)(last - first), (unsigned long long)measured);
    fflush(stdout);
    require(QUO_world_end(world), "QUO_world_end");
    MPI_Finalize();
    return EXIT_SUCCESS;
}
