/*
 * L1 in C++ for callers in C, Fortran and Rust.
 *
 * heat_diffusion_step() is a solver without quo, like the one in diffusion.h. The heat library
 * below it selects workers and thread counts by itself; its caller needs no quo.
 */
#ifndef HEAT_H
#define HEAT_H

#include "diffusion.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Codes in addition to the DIFFUSION_ ones. */
enum {
    HEAT_RUNTIME = 5 /* the runtime below failed: heat_last_error() says how */
};

/*
 * As diffusion_step(), to the same bits, on threads that belong to the calling thread: as many as
 * heat_set_threads() said, else one for each CPU that it may run on at the time of the call.
 */
int heat_diffusion_step(MPI_Comm workers, const diffusion_block *block,
                        const diffusion_options *options, const double *depth,
                        double *heat, diffusion_result *result);

/* Threads of the calling thread's heat_diffusion_step(); 0, as at the start, for one per CPU. */
void heat_set_threads(int threads);

/* What the library is asked to solve, the same at every step but for the time. */
typedef struct {
    diffusion_block block; /* the rows of the calling rank, as its arrays hold them */
    double kappa;          /* square metres per second */
    double tolerance;      /* of the residual, relative to the right-hand side */
    int max_iterations;
    int over;              /* a HEAT_ kind of object; the same on every rank */
    int max_per_object;    /* at most so many ranks work for each such object of a node */
} heat_problem;

/* Over what the work is spread. */
enum { HEAT_MACHINE = 0, HEAT_NUMA = 1, HEAT_PACKAGE = 2, HEAT_CORE = 3 };

/* What a step came to, the same on every rank. */
typedef struct {
    int iterations;
    int workers;     /* ranks that worked, over all nodes */
    double residual; /* relative */
} heat_outcome;

/* What the calling rank did in all steps so far. */
typedef struct {
    int worker;      /* 1 if it worked, 0 if it slept */
    int threads;     /* while it worked; 0 if it slept */
    double working;  /* seconds */
    double asleep;   /* seconds */
    char cpus[256];  /* where it worked, as a list such as 0-3,8; else empty */
} heat_usage;

/* The library's state; its contents are private. */
typedef struct heat_library heat_library;

/*
 * Sets the library up. Collective over `ranks`, which hold consecutive blocks of rows from the
 * bottom of the mesh to its top, the ranks of each node one after the other. The communicator is
 * duplicated. Returns 0, or a code, the same on every rank; then *library is NULL.
 */
int heat_create(MPI_Comm ranks, const heat_problem *problem, heat_library **library);

/*
 * Moves the heat on by dt seconds. Collective over the ranks. `depth` and `heat` are the calling
 * rank's own rows, as for diffusion_step(). Returns 0, or a code, the same on every rank; `heat` is
 * unchanged unless it is 0.
 */
int heat_step(heat_library *library, double dt, const double *depth, double *heat,
              heat_outcome *outcome);

/* Returns what the calling rank did. Local. */
void heat_used(const heat_library *library, heat_usage *usage);

/* Gives everything back. Collective over the ranks; NULL is allowed and does nothing. */
int heat_free(heat_library *library);

/* What went wrong in the last call of this thread that failed; never NULL. */
const char *heat_last_error(void);

/* The same for Fortran, where communicators are integers. */
int heat_create_f2c(MPI_Fint ranks, const heat_problem *problem, heat_library **library);
int heat_diffusion_step_f2c(MPI_Fint workers, const diffusion_block *block,
                            const diffusion_options *options, const double *depth,
                            double *heat, diffusion_result *result);

#ifdef __cplusplus
}
#endif

#endif
