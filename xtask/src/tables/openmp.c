/* Usage: openmp alone|phase [child|RUNTIME]. Started on one CPU. Prints the threads of parallel regions and the CPUs
   that they may use together. `alone` widens the mask of the process itself and runs a region without a number of
   threads and one with two; `phase` runs one without a number in a phase over the machine. `child` does so in a child
   process; RUNTIME is another OpenMP runtime, whose team follows. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <quo.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    int threads, pinned;
    cpu_set_t cpus;
} team;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int last; /* threads of the last team */

static void note(void *unused)
{
    cpu_set_t mine;
    sched_getaffinity(0, sizeof mine, &mine);
    pthread_mutex_lock(&lock);
    ++team.threads;
    team.pinned += 1 == CPU_COUNT(&mine);
    CPU_OR(&team.cpus, &team.cpus, &mine);
    pthread_mutex_unlock(&lock);
    (void)unused;
}

/* A number, or "all" for that of the machine's CPUs, unless it was asked for. */
static void print_number(int number, int is_asked)
{
    if (!is_asked && number == sysconf(_SC_NPROCESSORS_ONLN)) printf("all");
    else printf("%d", number);
}

static void print_team(int is_asked)
{
    print_number(team.threads, is_asked);
    printf(" on ");
    print_number(CPU_COUNT(&team.cpus), 0);
    if (team.threads > 1 && team.pinned) printf(", %spinned", team.pinned < team.threads ? "some " : "");
    last = team.threads;
    memset(&team, 0, sizeof team);
}

static void regions(int is_alone)
{
#pragma omp parallel
    note(NULL);
    print_team(0);
    if (!is_alone) return;
    printf(" / ");
#pragma omp parallel num_threads(2)
    note(NULL);
    print_team(1);
}

static void second_region(const char *path)
{
    void *runtime = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    *(void **)&parallel = dlsym(runtime, "GOMP_parallel");
    parallel(note, NULL, 0, 0);
    printf(" + ");
    print_team(0);
}

static void work(int is_alone, const char *what)
{
    int status;
    if (!what) return regions(is_alone);
    if (0 != strcmp(what, "child")) {
        regions(0);
        return second_region(what);
    }
    fflush(stdout);
    if (0 == fork()) {
        regions(is_alone);
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
}

int main(int argc, char **argv)
{
    int is_alone = 0 == strcmp(argv[1], "alone");
    const char *what = argc > 2 ? argv[2] : NULL;
    int is_child = what && 0 == strcmp(what, "child");
    cpu_set_t before, after;
    QUO_context quo;
    QUO_phase phase;
    QUO_phase_spec_t spec = QUO_PHASE_SPEC_INIT;
    int works, threads, count = 0;

    if (!is_alone) MPI_Init(&argc, &argv); /* may fork, which OpenMP need not bear later */
    if (!is_child) count = omp_get_max_threads(); /* the first use, on one CPU */
    if (what && !is_child && !dlopen(what, RTLD_NOW | RTLD_LOCAL)) return 77;
    if (is_alone) {
        memset(&after, 0xff, sizeof after);
        sched_setaffinity(0, sizeof after, &after);
        work(is_alone, what);
        return 0;
    }
    spec.type = QUO_OBJ_MACHINE;
    sched_getaffinity(0, sizeof before, &before);
    if (QUO_create(&quo, MPI_COMM_WORLD) || QUO_phase_create(quo, &spec, &phase)) return 1;
    QUO_phase_begin(phase, &works, &threads);
    work(is_alone, what);
    if (!is_child && threads != last) printf(", REPORTED %d", threads);
    if (QUO_phase_end(phase)) return 1;
    sched_getaffinity(0, sizeof after, &after);
    if (!CPU_EQUAL(&before, &after) || (!is_child && count != omp_get_max_threads())) printf(", NOT RESTORED");
    QUO_phase_free(phase);
    QUO_free(quo);
    return MPI_Finalize();
}
