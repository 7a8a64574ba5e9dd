// Transforms a cube of numbers with FFTW on all ranks, forward and back, and checks the result.

#include <fftw3-mpi.h>
#include <math.h>
#include <stdio.h>

#define EDGE 64
#define ROUNDS 10

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    fftw_mpi_init();
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ptrdiff_t planes, first;
    ptrdiff_t size = fftw_mpi_local_size_3d(EDGE, EDGE, EDGE, MPI_COMM_WORLD, &planes, &first);
    fftw_complex *cube = fftw_alloc_complex(size);
    // Measured plans: FFTW allocates and frees buffers as it tries.
    fftw_plan forward = fftw_mpi_plan_dft_3d(EDGE, EDGE, EDGE, cube, cube, MPI_COMM_WORLD,
                                             FFTW_FORWARD, FFTW_MEASURE);
    fftw_plan back = fftw_mpi_plan_dft_3d(EDGE, EDGE, EDGE, cube, cube, MPI_COMM_WORLD,
                                          FFTW_BACKWARD, FFTW_MEASURE);
    const ptrdiff_t own = planes * EDGE * EDGE;
    const double all = (double)EDGE * EDGE * EDGE;
    for (ptrdiff_t at = 0; at < own; at++) {
        cube[at][0] = (double)(at + first);
        cube[at][1] = 0.0;
    }
    for (int round = 0; round < ROUNDS; round++) {
        fftw_execute(forward);
        fftw_execute(back);
        for (ptrdiff_t at = 0; at < own; at++) {
            cube[at][0] /= all;
            cube[at][1] /= all;
        }
    }
    double off = 0.0, most;
    for (ptrdiff_t at = 0; at < own; at++)
        off = fmax(off, fabs(cube[at][0] - (double)(at + first)));
    MPI_Allreduce(&off, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s\n", most < 1e-6 ? "transformed" : "off");
    fftw_destroy_plan(forward);
    fftw_destroy_plan(back);
    fftw_free(cube);
    fftw_mpi_cleanup();
    MPI_Finalize();
    return most < 1e-6 ? 0 : 1;
}
