/* Ranks that wait for each other as MPI_Init does at its end: in a PMIx fence without data. Each prints when it arrived
 * and when it continued. Usage: fence LATE
 *        the rank LATE arrives after a write to /run/tmp/release */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include <pmix.h>

#include "../../programs/clock.h"

int
main(int argc, char **argv)
{
    pmix_proc_t self, all;
    unsigned late = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    double came;

    if (PMIX_SUCCESS != PMIx_Init(&self, NULL, 0)) return 2;
    if (late == self.rank) {
        if (0 > open("/run/tmp/release", O_RDONLY)) return 3;
    }
    else {
        printf("rank %u comes\n", self.rank);
        fflush(stdout);
    }
    PMIX_LOAD_PROCID(&all, self.nspace, PMIX_RANK_WILDCARD);
    came = seconds();
    if (PMIX_SUCCESS != PMIx_Fence(&all, 1, NULL, 0)) return 4;
    printf("rank %u: %.9f %.9f\n", self.rank, came, seconds());
    fflush(stdout);
    return PMIX_SUCCESS == PMIx_Finalize(NULL, 0) ? 0 : 5;
}
