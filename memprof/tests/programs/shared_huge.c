/* Two ranks of one node that share huge pages: the first makes them and starts the second.
 *
 *   shared_huge memfd | sysv | FILE [what the second finds them by]
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fakempi.h"

#define BYTES ((size_t)16 << 20)

static int fail(const char *what)
{
    perror(what);
    return 1;
}

/* How the pages are found: a descriptor, or a segment's number. */
static int make(const char *kind)
{
    if (strcmp(kind, "sysv") == 0) return shmget(IPC_PRIVATE, BYTES, IPC_CREAT | SHM_HUGETLB | 0600);
    int file = strcmp(kind, "memfd") == 0 ? memfd_create("shared", MFD_HUGETLB)
                                          : open(kind, O_RDWR | O_CREAT, 0600);
    return file < 0 || ftruncate(file, (off_t)BYTES) != 0 ? -1 : file;
}

static void *map(const char *kind, int found_by)
{
    if (strcmp(kind, "sysv") == 0) return shmat(found_by, NULL, 0);
    return mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, found_by, 0);
}

int main(int argc, char **argv)
{
    char number[16];
    int status, is_first = argc == 2;
    MPI_Init(&argc, &argv);
    /* The second rank has them from the first; what both have mapped exists until each ends. */
    int found_by = is_first ? make(argv[1]) : atoi(argv[2]);
    char *shared = found_by < 0 ? MAP_FAILED : map(argv[1], found_by);
    if (shared == MAP_FAILED) return fail(argv[1]);
    memset(shared, 1, BYTES);
    if (is_first) {
        pid_t second = fork();
        if (second == 0) {
            snprintf(number, sizeof number, "%d", found_by);
            setenv("PMI_RANK", "1", 1);
            execl(argv[0], argv[0], argv[1], number, (char *)NULL);
            _exit(fail(argv[0]));
        }
        int ended = waitpid(second, &status, 0) == second && status == 0;
        if (strcmp(argv[1], "sysv") == 0) shmctl(found_by, IPC_RMID, NULL);
        if (!ended) return fail("the second");
    }
    MPI_Finalize();
    return 0;
}
