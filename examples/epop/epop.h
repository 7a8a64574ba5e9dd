/* Common to both programs: the sizes that they request, and their progress. */

#ifndef EPOP_H
#define EPOP_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <quo-program.h>

enum { N = 24, SIZES = 16 };

/* Progress of a process, which joiners receive. */
struct progress {
    int step;
    /* Index of the next size, and nonzero if it has been requested. */
    int next, asked;
};

struct work {
    struct progress now;
    int count;
    struct {
        int step, size;
    } sizes[SIZES];
};

/* Reads words such as 3:4, four ranks at step 3. */
static int
read_sizes(struct work *work, int argc, char **argv)
{
    for (int word = 1; word < argc && work->count < SIZES; ++word, ++work->count) {
        int read = sscanf(argv[word], "%d:%d", &work->sizes[work->count].step, &work->sizes[work->count].size);
        if (2 != read) return 1;
    }
    return 0;
}

/* Requests the size of this step; sets waits until there are that many ranks. */
static int
wait_for_size(QUO_world w, struct work *work, int *waits)
{
    struct progress *now = &work->now;
    MPI_Comm ranks;
    int size, rank;
    *waits = 0;
    if (QUO_world_comm(w, &ranks) || QUO_world_size(w, &size) || QUO_world_rank(w, &rank)) return 1;
    if (MPI_COMM_NULL == ranks || now->next == work->count) return 0;
    if (work->sizes[now->next].step > now->step) return 0;
    if (work->sizes[now->next].size == size) {
        if (0 == rank) printf("step %d: %d ranks\n", now->step, size);
        ++now->next;
        now->asked = 0;
        return 0;
    }
    if (!now->asked && 0 == rank && QUO_world_request(w, work->sizes[now->next].size, NULL)) return 1;
    now->asked = *waits = 1;
    sched_yield();
    return 0;
}

/* Redistribution callback: the matrices move automatically. */
static int
tell_progress(QUO_world w, void *data)
{
    struct work *work = data;
    return QUO_window_broadcast(w, &work->now, sizeof(work->now));
}

/* This rank's part of a matrix. */
static double *
part_of(QUO_world w, const char *name)
{
    void *part = NULL;
    QUO_world_array(w, name, &part, NULL, NULL);
    return part;
}

#endif
