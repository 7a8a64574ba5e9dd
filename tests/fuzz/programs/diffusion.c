/* The solver of the coupled example: good meshes of many shapes, and bad arguments. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "diffusion.h"

static int failures = 0;

static void check(int good, const char *what)
{
    if (!good) {
        ++failures;
        printf("FAILED: %s\n", what);
    }
}

/* The block is exactly as large as necessary, so that an access beyond it is detected. */
static int step(MPI_Comm workers, int nx, int rows, int stride, double water, double kappa)
{
    const diffusion_block block = {nx, rows, stride, 10.0, 20.0};
    const diffusion_options options = {5.0, kappa, 1e-8, 500};
    diffusion_result result = {0, 0, 0.0};
    const size_t values = (size_t)(rows - 1) * (size_t)stride + (size_t)nx;
    double *depth = malloc(values * sizeof *depth), *heat = malloc(values * sizeof *heat);
    int code = DIFFUSION_NO_MEMORY;
    if (NULL != depth && NULL != heat) {
        for (size_t k = 0; k < values; ++k) {
            depth[k] = water + 0.01 * (double)(k % 7);
            heat[k] = (double)(k % 11);
        }
        code = diffusion_step(workers, &block, &options, depth, heat, &result);
    }
    if (DIFFUSION_OK == code) check(isfinite(heat[values - 1]), "a finite result");
    free(depth);
    free(heat);
    return code;
}

int main(int argc, char **argv)
{
    int rank = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const MPI_Comm worlds[] = {MPI_COMM_WORLD, MPI_COMM_NULL};
    for (int k = 0; k < 2; ++k) {
        check(DIFFUSION_OK == step(worlds[k], 1, 1, 1, 3.0, 0.1), "a column");
        check(DIFFUSION_OK == step(worlds[k], 17, 1 + rank, 17, 3.0, 0.1), "uneven rows");
        check(DIFFUSION_OK == step(worlds[k], 33, 20, 40, 3.0, 10.0), "a wide stride");
        check(DIFFUSION_OK != step(worlds[k], 8, 4, 8, NAN, 0.1), "depths that are no numbers");
        check(DIFFUSION_OK != step(worlds[k], 8, 4, 8, -3.0, 0.1), "negative depths");
        check(DIFFUSION_OK != step(worlds[k], 8, 4, 8, 3.0, NAN), "no diffusivity");
    }
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (0 == rank && 0 == all) printf("ok\n");
    MPI_Finalize();
    return 0 != all;
}
