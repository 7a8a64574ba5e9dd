/* Ranks with 50 MiB each, one of which ends as requested: misfortune HOW RANK FOLDER
 * [MILLISECONDS]. With the last argument it first waits for the file FOLDER/go and idles for
 * this long, and requests no sample; without it the rank waits until it has been sampled. In the
 * meantime, and while the others wait to be ended, each rank keeps a log in FOLDER/RANK: the
 * time, for how long the profiler's thread has been ready to run without a processor, and for
 * how long the kernel has kept threads from running that needed memory where there was none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <mpi.h>

#include "memprof.h"
#include "profiler_thread.h"

enum { MEBI = 1 << 20, PATIENCE = 60, ENTRIES = 20000 };

struct entry {
    uint64_t time, waited, kept;
};

/* In memory that exists from the start: without free memory, a write to a file would wait or
 * fail. */
static struct log {
    uint64_t count;
    struct entry entries[ENTRIES];
} *told;

/* State of the profiler's thread: D while the kernel keeps it from running, and not because it
 * waits for a time or for a lock, R while it runs or is ready to run. */
static char state(void)
{
    const char *name_end = strrchr(said(state_file), ')');
    return name_end && name_end[1] ? name_end[2] : 0;
}

/* Time for which the profiler's thread has been ready and has not had a processor: the kernel
 * counts a wait when it is over. */
static uint64_t waits(uint64_t ran, uint64_t waited, char is, uint64_t time)
{
    static uint64_t ran_before, waited_before, since;
    if (is != 'R' || ran != ran_before || waited != waited_before) since = time;
    ran_before = ran, waited_before = waited;
    return time - since;
}

static void tell(void)
{
    static uint64_t before, kept;
    static int was_kept;
    uint64_t ran, waited;
    ran_and_waited(&ran, &waited);
    char now_in = state();
    int is_kept = now_in == 'D';
    uint64_t time = now();
    waited += waits(ran, waited, now_in, time);
    /* This thread runs every half a millisecond, unless it is blocked itself: then the other
     * thread was blocked as well, and may have been released together with it. */
    uint64_t since = before ? time - before : 0;
    if (was_kept || is_kept || since > UINT64_C(10000000)) kept += since;
    before = time, was_kept = is_kept;
    /* The last entry is of now, and stays once it is five milliseconds after the previous one. */
    uint64_t count = told->count;
    const struct entry *last = told->entries + count - 1;
    int stays = count < ENTRIES && (count < 2 || last->time - last[-1].time >= UINT64_C(5000000));
    uint64_t place = stays ? count : count - 1;
    /* Its own running time was, except for a few milliseconds, the kernel's search for memory. */
    told->entries[place] = (struct entry){ time, waited, kept + ran };
    told->count = place + 1;
}

/* Waits, and makes progress in MPI like a rank that waits for others. */
static void idle(void)
{
    int is_there;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
    tell();
    // Sleeps: ranks that share a processor must not block each other.
    usleep(500);
}

static char *more(size_t bytes)
{
    char *volatile block = malloc(bytes);
    memset(block, 1, bytes);
    return block;
}

/* Waits until the profiler has sampled this much, and recorded it. */
static void be_seen(uint64_t bytes)
{
    memprof_hooks_function_t find;
    *(void **)&find = dlsym(RTLD_DEFAULT, "memprof_hooks");
    const memprof_hooks_t *hooks = find ? find(1) : NULL;
    memprof_totals_t totals = { 0 };
    for (uint64_t end = now() + PATIENCE * UINT64_C(1000000000); totals.resident < bytes; idle())
        if (!hooks || hooks->totals(&totals) || now() > end) abort();
    /* The file may be behind the sampler; after this call it is not. */
    if (hooks->flush()) abort();
}

static void end(const char *how)
{
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "MPI_Abort")) MPI_Abort(MPI_COMM_WORLD, 3);
    if (!strcmp(how, "_exit")) _exit(0);
    if (!strcmp(how, "quick_exit")) quick_exit(0);
    if (!strcmp(how, "exit")) exit(0);
    if (!strcmp(how, "exec")) execlp("true", "true", (char *)NULL);
    if (!strcmp(how, "kill")) raise(SIGKILL);
    /* If it is not ended from outside, it ends itself. */
    for (int mebi = 0; !strcmp(how, "hoard") && mebi < 4096; mebi++) {
        more(MEBI);
        tell();
        /* Memory taken faster than samples are may never be seen: this much is seen before the
         * rest is taken. */
        if (mebi == 128) be_seen(150 * MEBI);
    }
    if (!strcmp(how, "fork")) {
        /* Not allowed, but done nevertheless. */
        pid_t child = fork();
        int rank, status = 1;
        if (!child) {
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            void *block;
            MPI_Alloc_mem(MEBI, MPI_INFO_NULL, &block);
            _exit(more(30 * MEBI) == NULL);
        }
        waitpid(child, &status, 0);
        printf("the child ended with %d\n", status);
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 3 ? argv[1] : "";
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", argc > 3 ? argv[3] : ".", rank);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *told)) abort();
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (told == MAP_FAILED) abort();
    find_profiler();
    tell();
    more(50 * MEBI);
    printf("rank %d is %d\n", rank, (int)getpid());
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 3 && atoi(argv[2]) == rank) {
        int milliseconds = argc > 4 ? atoi(argv[4]) : -1;
        if (milliseconds < 0) be_seen(50 * MEBI);
        snprintf(path, sizeof path, "%s/go", argv[3]);
        uint64_t last = now() + PATIENCE * UINT64_C(1000000000);
        while (milliseconds >= 0 && access(path, F_OK) && now() < last) idle();
        for (uint64_t end = now() + (uint64_t)milliseconds * 1000000u; now() < end;) idle();
        tell();
        end(how);
    }
    /* The other ranks know nothing of it, and are ended; otherwise they end here. */
    for (uint64_t end = now() + PATIENCE * UINT64_C(1000000000); strcmp(how, "fork") && now() < end;) idle();
    MPI_Finalize();
    return 0;
}
