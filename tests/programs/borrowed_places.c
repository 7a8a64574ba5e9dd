/*
 * CPUs of threads that rank 0 has more than its own, while rank 1 waits in MPI_Barrier: an unmodified program for
 * `quo-run`.
 *
 * Rank 0 prints in how many regions of two threads both were on one CPU, and whether all of its threads have its own
 * mask again after rank 1 has returned and a further region.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { REGIONS = 300, LIMIT = 20000 };

/* Some hundred microseconds. */
static void work(void)
{
    for (volatile int i = 0; i < 100000; ++i) continue;
}

/* Returns the number of threads of a region, and whether the first two were on one CPU in its middle. */
static int region(int *shared)
{
    int cpus[2] = {-1, -2}, threads = 0;
#pragma omp parallel
    {
        work();
        if (omp_get_thread_num() < 2) cpus[omp_get_thread_num()] = sched_getcpu();
        work();
#pragma omp single
        threads = omp_get_num_threads();
    }
    *shared = cpus[0] == cpus[1];
    return threads;
}

static int all_have(const cpu_set_t *mask)
{
    int all = 1;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        cpu_set_t found;
        const int number = atoi(task->d_name);
        if (number > 0 && 0 == sched_getaffinity(number, sizeof found, &found)) all &= CPU_EQUAL(mask, &found);
    }
    if (tasks) closedir(tasks);
    return all && tasks;
}

int main(int argc, char **argv)
{
    int rank, shared = 0, regions = 0, together = 0;
    cpu_set_t own;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sched_getaffinity(0, sizeof own, &own);
    for (int i = 0; 0 == rank && i < LIMIT && regions < REGIONS; ++i) {
        if (region(&together) < 2) continue;
        ++regions;
        shared += together;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; 1 == rank && i < 1000; ++i) work();
    if (0 == rank) {
        const double began = MPI_Wtime();
        while (region(&together) > 1 && MPI_Wtime() - began < 10) continue;
        printf("%d regions on one CPU of %d regions of two threads, %s\n", shared, regions,
               all_have(&own) ? "all threads are back" : "threads have other masks");
    }
    return MPI_Finalize();
}
