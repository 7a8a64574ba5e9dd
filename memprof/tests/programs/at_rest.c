/* Ranks of one node that have private memory and share some in every possible way, have it
 * sampled, and then wait at a FIFO until they may end, so that their memory can be counted while
 * they are idle. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEBI ((size_t)1 << 20)

static int rank, size;

static void fail(const char *what)
{
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Half of the mapped memory is touched. */
static void own_memory(void)
{
    char *blocks = malloc(20 * MEBI), *half = malloc(8 * MEBI);
    char *mapped = mmap(NULL, 6 * MEBI, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!blocks || !half || mapped == MAP_FAILED) fail("memory");
    memset(blocks, 1, 20 * MEBI);
    memset(half, 2, 4 * MEBI);
    memset(mapped + MEBI, 3, 3 * MEBI);
    for (int block = 0; block < 3000; block++) {
        char *small = malloc(200);
        if (small) memset(small, 4, 200);
    }
}

/* Every rank has touched the first half, and a page in the second half of every rank's part. */
static void of_the_application(void)
{
    char name[64];
    int file;
    snprintf(name, sizeof name, "/memprof-at-rest-%ld", (long)getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
        if (file < 0 || ftruncate(file, 6 * MEBI) != 0) fail(name);
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        file = shm_open(name, O_RDWR, 0600);
        if (file < 0) fail(name);
    }
    char *shared = mmap(NULL, 6 * MEBI, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    /* Some of it a second time. */
    char *again = mmap(NULL, 2 * MEBI, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED || again == MAP_FAILED) fail("mmap");
    close(file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) shm_unlink(name);
    for (size_t at = 0; at < 3 * MEBI; at += 4096) ((volatile char *)shared)[at] = 1;
    for (size_t at = 0; at < MEBI; at += 4096) ((volatile char *)again)[at] = 1;
    ((volatile char *)shared)[3 * MEBI + (size_t)rank * 4096] = 1;
}

/* Each rank has touched its own part of a window and its neighbour's, if MPI says that they
 * share memory, and MPI has sent messages of all sizes. */
static void of_mpi(void)
{
    MPI_Comm node;
    MPI_Win window;
    MPI_Aint length;
    int unit, right = (rank + 1) % size, left = (rank + size - 1) % size, here, sharing;
    char *mine, *theirs;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &here);
    MPI_Comm_size(node, &sharing);
    MPI_Win_allocate_shared(2 * MEBI, 1, MPI_INFO_NULL, node, &mine, &window);
    memset(mine, 1, 2 * MEBI);
    MPI_Barrier(node);
    MPI_Win_shared_query(window, (here + 1) % sharing, &length, &unit, &theirs);
    for (MPI_Aint at = 0; at < length; at += 4096) (void)((volatile char *)theirs)[at];
    for (int bytes = 1; bytes <= 1 << 20; bytes *= 8) {
        char *out = calloc((size_t)bytes, 1), *in = malloc((size_t)bytes);
        MPI_Sendrecv(out, bytes, MPI_BYTE, right, 1, in, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        free(out);
        free(in);
    }
}

int main(int argc, char **argv)
{
    char answer;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int gate = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    if (gate < 0) fail("the FIFO");
    own_memory();
    of_the_application();
    of_mpi();
    MPI_Barrier(MPI_COMM_WORLD);
    /* What a sample itself touches while it is recorded, and what the calls below touch, the
     * next sample has seen: the kernel maps sixteen pages of code where one is touched. */
    for (int sample = 0; sample < 2; sample++) {
        MPI_Pcontrol(2);
        if (write(1, "", 0) != 0 || read(gate, &answer, 0) != 0) fail("the FIFO");
    }
    if (write(1, "at rest\n", 8) != 8 || read(gate, &answer, 1) != 1) fail("the FIFO");
    MPI_Finalize();
    return 0;
}
