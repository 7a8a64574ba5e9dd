/* Two ranks of one node that share huge pages: the first makes them and starts the second. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fakempi.h"

#define BYTES ((size_t)16 << 20)

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static int share(int file)
{
    char *shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) return fail("mmap");
    memset(shared, 1, BYTES);
    return 0;
}

int main(int argc, char **argv)
{
    char number[16];
    int status;
    MPI_Init(&argc, &argv);
    /* The second has them from the first; what both have mapped is there until each ends. */
    int file = argc > 1 ? atoi(argv[1]) : memfd_create("shared", MFD_HUGETLB);
    if (file < 0 || (argc == 1 && ftruncate(file, (off_t)BYTES) != 0)) return fail("huge pages");
    if (share(file) != 0) return 1;
    if (argc == 1) {
        pid_t second = fork();
        if (second == 0) {
            snprintf(number, sizeof number, "%d", file);
            setenv("PMI_RANK", "1", 1);
            execl(argv[0], argv[0], number, (char *)NULL);
            _exit(fail(argv[0]));
        }
        if (waitpid(second, &status, 0) != second || status != 0) return fail("the second");
    }
    MPI_Finalize();
    return 0;
}
