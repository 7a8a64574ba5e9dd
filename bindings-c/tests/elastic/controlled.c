/* Iterates until it is stopped, and is resized from outside, in a Slurm job also onto nodes
 * of another one: `controlled NAME START FOLDER MOST`. It ends if there is a file `stop` in the folder, which also
 * contains its events and its control socket. In Fortran: tests/programs/elastic_controlled.F90; in Rust,
 * with additional features: elastic/examples/controlled.rs. */
#define _DEFAULT_SOURCE
#include <sched.h>
#include <unistd.h>

#include "../check.h"
#include "quo-elastic.h"

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_slurm_options_t slurm = QUO_SLURM_OPTIONS_INIT;
    char events[4096], sockets[4096], stop[4096];
    QUO_world w = NULL;
    int provided, status = 0, enters, rank = -1, over = 0, is_ready = 0;
    long long iteration = 0;
    MPI_Comm comm = MPI_COMM_NULL;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    snprintf(events, sizeof(events), "%s/events", argv[3]);
    snprintf(sockets, sizeof(sockets), "%s/sockets", argv[3]);
    snprintf(stop, sizeof(stop), "%s/stop", argv[3]);
    options.name = argv[1];
    options.initial_ranks = atoi(argv[2]);
    options.max_ranks = atoi(argv[4]);
    options.allow_oversubscribe = 1;
    options.log = events;
    options.control = 1;
    options.control_folder = sockets;
    slurm.wait = 5;
    slurm.command_limit = 3;
    slurm.linger = 1;
    slurm.watch = 1;
    options.slurm = &slurm;
    REQUIRE_OK(QUO_world_create(&w, &options));
    for (;;) {
        REQUIRE_OK(QUO_world_status(w, &status));
        if (QUO_WORLD_ENDED == status) break;
        enters = QUO_WORLD_JOINING == status;
        if (QUO_WORLD_PARKED == status) {
            REQUIRE_OK(QUO_world_wait(w, &enters));
            if (!enters) break;
        } else if (!enters) {
            REQUIRE_OK(QUO_world_probe(w, &enters));
        }
        if (enters) {
            REQUIRE_OK(QUO_world_begin(w));
            REQUIRE_OK(QUO_window_broadcast(w, &iteration, sizeof(iteration)));
            REQUIRE_OK(QUO_world_commit(w));
            continue;
        }
        REQUIRE_OK(QUO_world_report_iteration(w, iteration++));
        REQUIRE_OK(QUO_world_comm(w, &comm));
        MPI_Comm_rank(comm, &rank);
        if (0 == rank && !is_ready) {
            is_ready = 1;
            printf("ready\n");
            fflush(stdout);
        }
        /* Stand-in for the computation of an iteration, which leaves the cores to others here. */
        sched_yield();
        if (0 == rank) over = 0 == access(stop, F_OK);
        MPI_Bcast(&over, 1, MPI_INT, 0, comm);
        if (over) break;
    }
    REQUIRE_OK(QUO_world_end(w));
    MPI_Finalize();
    return EXIT_SUCCESS;
}
