/* Preloaded: rank 0 leaves no MPI barrier between the beginning of the world's event log, the file LATE_BARRIER_LOG, and
 * the event that a resize has been granted. So the program's first probe finds a resize. */

#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_TRIES = 30000 };

/* Returns 1 if there is no log yet, or one with the event. */
static int
may_go_on(const char *path)
{
    char line[4096];
    int found = 0;
    FILE *log = fopen(path, "r");
    if (NULL == log) return 1;
    while (!found && NULL != fgets(line, sizeof(line), log)) found = NULL != strstr(line, "\"event\":\"agreed\"");
    fclose(log);
    return found;
}

int
MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};
    const char *path = getenv("LATE_BARRIER_LOG");
    int rank, tries = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    // Sleeps: the event is a line in a file, without notification.
    while (0 == rank && NULL != path && !may_go_on(path) && ++tries < MOST_TRIES) nanosleep(&millisecond, NULL);
    return PMPI_Ibarrier(comm, request);
}
