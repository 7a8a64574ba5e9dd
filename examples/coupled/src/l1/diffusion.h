/*
 * Implicit diffusion of a tracer in water of varying depth.
 *
 * One backward Euler step of
 *
 *     d(h T)/dt = div(kappa h grad T),    no flux through the walls,
 *
 * on a structured mesh, solved by conjugate gradients with a diagonal
 * preconditioner. An ordinary MPI+OpenMP library: it works on the communicator
 * it is given, with as many threads as omp_get_max_threads() says.
 */
#ifndef DIFFUSION_H
#define DIFFUSION_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DIFFUSION_OK = 0,
    DIFFUSION_NO_MEMORY = 1,     /* on at least one worker */
    DIFFUSION_NOT_CONVERGED = 2, /* max_iterations was not enough */
    DIFFUSION_BREAKDOWN = 3,     /* the matrix is not positive definite: bad depth or NaN */
    DIFFUSION_BAD_ARGUMENT = 4   /* on at least one worker */
};

typedef struct {
    int nx;     /* cells in x, the whole width of the mesh */
    int rows;   /* rows of cells of this worker, at least 1 */
    int stride; /* from a value to the one above it in both arrays, at least nx */
    double dx;  /* metres */
    double dy;  /* metres */
} diffusion_block;

typedef struct {
    double dt;          /* seconds */
    double kappa;       /* square metres per second */
    double tolerance;   /* of the residual, relative to the right-hand side */
    int max_iterations;
} diffusion_options;

typedef struct {
    int iterations;
    int threads;        /* of this worker */
    double residual;    /* relative */
} diffusion_result;

/*
 * Solves for one step. Collective over `workers`, which hold consecutive blocks of rows from the
 * bottom of the mesh to its top; MPI_COMM_NULL stands for a mesh held by the caller alone, and then
 * no MPI function is called.
 *
 * depth: rows of nx depths h > 0, in metres.
 * heat: rows of nx values of h T; replaced by the values of the new time. The total
 *        over the mesh is conserved to rounding whatever the tolerance.
 *
 * Returns one of the DIFFUSION_ codes, the same on all workers; `heat` is
 * unchanged unless it is DIFFUSION_OK. All results are bitwise the same for
 * any number of threads and workers. Called by one thread of each process;
 * MPI_THREAD_FUNNELED suffices if that is the main one.
 */
int diffusion_step(MPI_Comm workers, const diffusion_block *block,
                   const diffusion_options *options, const double *depth,
                   double *heat, diffusion_result *result);

/* The same for Fortran, where communicators are integers. */
int diffusion_step_f2c(MPI_Fint workers, const diffusion_block *block,
                       const diffusion_options *options, const double *depth,
                       double *heat, diffusion_result *result);

#ifdef __cplusplus
}
#endif

#endif
