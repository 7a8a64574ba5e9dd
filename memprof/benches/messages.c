/* Bandwidth and message rate of several pairs of ranks: the first half sends windows of messages to the
 * second, which answers each window with one byte. Prints one JSON object.
 *
 * messages [sides] [size:milliseconds...]
 *
 * Without sizes: from one byte to 4 MiB, each four times the one before. With `none`: none. With `sides`
 * each size is measured in short blocks by turns, calling MPI as programs do and past whoever has
 * taken the calls over: what drifts on a machine is the same for both. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 64
#define LARGEST (4 << 20)

static int rank, ranks;
static char *memory;
static MPI_Request requests[WINDOW];

/* The functions that are called while time is taken. */
struct mpi {
    int (*isend)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int (*irecv)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int (*waitall)(int, MPI_Request[], MPI_Status[]);
    int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
    int (*recv)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
};

enum { WITHOUT, WITH, SIDES };

/* As the program has them, whoever is between, and the functions themselves. */
static struct mpi sides[SIDES];

/* One byte into each function: a profiler changes the words that a program calls through, and this is none. */
static char *volatile inner[] = {
    (char *)MPI_Isend + 1, (char *)MPI_Irecv + 1, (char *)MPI_Waitall + 1,
    (char *)MPI_Send + 1,  (char *)MPI_Recv + 1,
};

enum { FUNCTIONS = sizeof inner / sizeof *inner };

static void find_sides(void)
{
    sides[WITH] = (struct mpi){MPI_Isend, MPI_Irecv, MPI_Waitall, MPI_Send, MPI_Recv};
    void *real[FUNCTIONS];
    for (size_t which = 0; which < FUNCTIONS; which++) real[which] = inner[which] - 1;
    memcpy(&sides[WITHOUT], real, sizeof real);
}

/* The file name of the object that a function of a side is in: whoever reads the rates sees who was called. */
static const char *object_of(int side, size_t which)
{
    Dl_info found;
    void *functions[FUNCTIONS];
    memcpy(functions, &sides[side], sizeof functions);
    if (!dladdr(functions[which], &found) || !found.dli_fname) return "";
    const char *slash = strrchr(found.dli_fname, '/');
    return slash ? slash + 1 : found.dli_fname;
}

static void window(const struct mpi *mpi, int bytes, int peer, int sender)
{
    char answer = 0;
    /* Large messages share a buffer, as the field's benchmarks do. */
    for (int number = 0; number < WINDOW; number++) {
        char *buffer = bytes <= 8192 ? memory + number * 8192 : memory;
        if (sender)
            mpi->isend(buffer, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[number]);
        else
            mpi->irecv(buffer, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[number]);
    }
    mpi->waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    if (sender) mpi->recv(&answer, 1, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else mpi->send(&answer, 1, MPI_BYTE, peer, 2, MPI_COMM_WORLD);
}

/* What so many windows take this rank. */
static double own_seconds(int side, int bytes, long windows, int peer, int sender)
{
    const struct mpi *mpi = &sides[side];
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (long number = 0; number < windows; number++) window(mpi, bytes, peer, sender);
    return MPI_Wtime() - start;
}

static double seconds_for(int bytes, long windows, int peer, int sender)
{
    double mine = own_seconds(WITH, bytes, windows, peer, sender), slowest;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* How many windows fill so many seconds when nobody disturbs; finding that warms up. */
static long windows_in(double wanted, int bytes, int peer, int sender)
{
    long windows = 2;
    double took = 0;
    while (took < wanted / 4) {
        windows *= 2;
        took = seconds_for(bytes, windows, peer, sender);
        for (int again = 0; again < 4 && took < 4 * wanted; again++) {
            double next = seconds_for(bytes, windows, peer, sender);
            if (next < took) took = next;
        }
    }
    windows = (long)((double)windows * wanted / took) + 1;
    MPI_Bcast(&windows, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    return windows;
}

enum { BLOCKS = 16, MOST_SIZES = 32 };

/* What was measured, for the bandwidths. */
static struct told {
    int bytes;
    double rate;
} told[MOST_SIZES];

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The rate is that of the block which a quarter of them are faster than: others on the machine slow some
 * down, by times. */
static void measure(int bytes, double wanted, int pairs, int peer, int sender)
{
    static int sizes;
    double all[BLOCKS];
    long windows = windows_in(wanted / BLOCKS, bytes, peer, sender);
    for (int number = 0; number < BLOCKS; number++)
        all[number] = seconds_for(bytes, windows, peer, sender);
    qsort(all, BLOCKS, sizeof *all, compare);
    double rate = (double)windows * WINDOW * pairs / all[BLOCKS / 4];
    if (rank == 0) printf("%s\"%d\": %.0f", sizes ? ", " : "", bytes, rate);
    if (sizes < MOST_SIZES) told[sizes] = (struct told){bytes, rate};
    sizes++;
}

/* The same in bytes. */
static void bandwidths(void)
{
    printf("}, \"megabytes_per_second\": {");
    for (int size = 0; size < MOST_SIZES && told[size].bytes; size++)
        printf("%s\"%d\": %.1f", size ? ", " : "", told[size].bytes,
               told[size].rate * told[size].bytes / 1e6);
}

enum { ROUNDS = 4096 };
/* So short that most blocks pass before the kernel lets another program run. */
static const double BLOCK = 0.00025;

/* Rounds of four blocks, of which the outer two are of one side and the inner two of the other. Prints
 * both rates of each round. */
static void measure_sides(int bytes, double wanted, int pairs, int peer, int sender)
{
    static int sizes;
    static double mine[ROUNDS][SIDES], slowest[ROUNDS][SIDES];
    long windows = windows_in(BLOCK, bytes, peer, sender);
    int rounds = 0;
    unsigned order = 1;
    for (double end = MPI_Wtime() + wanted; rounds < ROUNDS; rounds++) {
        int more = MPI_Wtime() < end;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!more) break;
        order = order * 1664525u + 1013904223u;
        int outer = order >> 16 & 1;
        double *of = mine[rounds];
        of[outer] = own_seconds(outer, bytes, windows, peer, sender);
        of[!outer] = own_seconds(!outer, bytes, windows, peer, sender);
        of[!outer] += own_seconds(!outer, bytes, windows, peer, sender);
        of[outer] += own_seconds(outer, bytes, windows, peer, sender);
    }
    MPI_Reduce(mine, slowest, rounds * SIDES, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank != 0) return;
    printf("%s\"%d\": [", sizes++ ? ", " : "", bytes);
    double messages = 2.0 * (double)windows * WINDOW * pairs;
    for (int round = 0; round < rounds; round++)
        printf("%s[%.0f, %.0f]", round ? ", " : "", messages / slowest[round][WITHOUT],
               messages / slowest[round][WITH]);
    printf("]");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int pairs = ranks / 2, sender = rank < pairs, peer = sender ? rank + pairs : rank - pairs;
    if (ranks % 2) {
        if (rank == 0) fprintf(stderr, "messages: wants pairs of ranks\n");
        MPI_Finalize();
        return 2;
    }
    find_sides();
    memory = malloc(LARGEST);
    memset(memory, 1, LARGEST);
    int both = argc > 1 && !strcmp(argv[1], "sides");
    void (*of)(int, double, int, int, int) = both ? measure_sides : measure;
    if (rank == 0)
        printf("{\"pairs\": %d, \"%s\": {", pairs, both ? "sides" : "messages_per_second");
    if (argc > 1 + both) {
        for (int number = 1 + both; number < argc; number++) {
            int bytes, milliseconds;
            if (sscanf(argv[number], "%d:%d", &bytes, &milliseconds) == 2 && bytes <= LARGEST)
                of(bytes, milliseconds / 1e3, pairs, peer, sender);
        }
    } else {
        for (int bytes = 1; bytes <= LARGEST; bytes *= 4) of(bytes, 0.3, pairs, peer, sender);
    }
    if (rank == 0) {
        if (!both) bandwidths();
        printf("}, \"objects\": [");
        for (int side = 0; side < SIDES; side++)
            for (size_t which = 0; which < FUNCTIONS; which++)
                printf("%s\"%s\"", side + which ? ", " : "", object_of(side, which));
        printf("]}\n");
    }
    free(memory);
    MPI_Finalize();
    return 0;
}
