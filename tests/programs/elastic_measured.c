/* Reports its iterations and leaves the ratio of MPI to computing to the profiler: `elastic_measured FOLDER`. Rank 0
 * computes for 20 ms, the others three times as long, then all meet. Every ten iterations rank 0 reports, and prints what
 * it has read from the clock since the report before: nanoseconds in MPI and outside. After the third report it
 * waits for a file `stop` in the folder, where its control socket is. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "quo-elastic.h"

enum { ITERATIONS = 30, REPORTED = 10 };

static void require(int code, const char *call)
{
    if (QUO_SUCCESS == code) return;
    fprintf(stderr, "%s: %s\n", call, QUO_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_progress_t progress = QUO_PROGRESS_INIT;
    QUO_world world = NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    char sockets[4096], stop[4096];
    int rank;
    uint64_t since, in_mpi = 0;
    MPI_Init(&argc, &argv);
    if (argc != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    snprintf(sockets, sizeof(sockets), "%s/sockets", argv[1]);
    snprintf(stop, sizeof(stop), "%s/stop", argv[1]);
    options.name = "test";
    options.control = 1;
    options.control_folder = sockets;
    require(QUO_world_create(&world, &options), "QUO_world_create");
    since = now();
    require(QUO_world_comm(world, &comm), "QUO_world_comm");
    MPI_Comm_rank(comm, &rank);
    for (int iteration = 1; iteration <= ITERATIONS; ++iteration) {
        uint64_t from;
        compute(rank == 0 ? 20000000u : 60000000u);
        from = now();
        MPI_Barrier(comm);
        in_mpi += now() - from;
        if (iteration % REPORTED != 0) continue;
        progress.iteration = iteration;
        progress.iteration_seconds = 0.06;
        require(QUO_world_report_progress(world, &progress), "QUO_world_report_progress");
        if (rank == 0) {
            printf("truth %d %llu %llu\n", iteration, (unsigned long long)in_mpi,
                   (unsigned long long)(now() - since - in_mpi));
            fflush(stdout);
        }
        since = now();
        in_mpi = 0;
    }
    while (rank == 0 && 0 != access(stop, F_OK)) compute(1000000u);
    MPI_Barrier(comm);
    require(QUO_world_end(world), "QUO_world_end");
    MPI_Finalize();
    return EXIT_SUCCESS;
}
