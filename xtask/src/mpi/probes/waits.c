/* Tells what a rank does while it waits for a message for a second. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long yields, naps;

/* In place of the C library's, for the MPI library too. */
int sched_yield(void)
{
    ++yields;
    return (int)syscall(SYS_sched_yield);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    ++naps;
    return (int)syscall(SYS_nanosleep, time, left);
}

int usleep(useconds_t time)
{
    struct timespec span = {time / 1000000, 1000 * (time % 1000000)};
    return nanosleep(&span, NULL);
}

static double processor(void)
{
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    int rank, ranks, number = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == rank) {
        sleep(1);
        for (int other = 1; other < ranks; ++other) MPI_Send(&number, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
    } else {
        double before = processor();
        yields = naps = 0;
        MPI_Recv(&number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double used = processor() - before;
        if (1 == rank)
            printf("result: %s\n", naps > 10      ? "sleeps for moments"
                                   : used < 0.05  ? "sleeps"
                                   : yields > 100 ? "yields"
                                                  : "spins");
    }
    return MPI_Finalize();
}
