#include "diffusion.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <omp.h>

/* Accumulators per row of a dot product: fixed, so that the order of additions
 * does not depend on how the compiler vectorises or how rows are shared out. */
enum { LANES = 8 };

typedef struct {
    MPI_Comm comm;
    int rank, size;      /* 0 and 1 when alone */
    int nx, rows;
    size_t outer;        /* from row to row in the caller's arrays */
    size_t stride;       /* in ours: nx and a ghost column on each side */
    size_t cells;        /* (rows + 2) * stride */
    double *kx, *ky;     /* face coefficients: left of and below each cell */
    double *diagonal, *inverse;
    double *x, *r, *p, *ap;
    double *partial;     /* two sums per row of this worker */
    double *gathered;    /* two sums per row of the mesh */
    int *counts, *offsets;
    int total_rows;
} solver;

static double *cell(const solver *s, double *field, int row)
{
    return field + (size_t)(row + 1) * s->stride + 1;
}

static void release(solver *s)
{
    free(s->kx);
    free(s->ky);
    free(s->diagonal);
    free(s->inverse);
    free(s->x);
    free(s->r);
    free(s->p);
    free(s->ap);
    free(s->partial);
    free(s->gathered);
    free(s->counts);
    free(s->offsets);
}

static int allocate(solver *s)
{
    double **fields[] = {&s->kx, &s->ky, &s->diagonal, &s->inverse,
                         &s->x,  &s->r,  &s->p,        &s->ap};
    int ok = 1;
    for (size_t k = 0; k < sizeof fields / sizeof fields[0]; ++k) {
        *fields[k] = malloc(s->cells * sizeof(double));
        ok = ok && *fields[k] != NULL;
    }
    s->partial = malloc(2 * (size_t)s->rows * sizeof(double));
    s->counts = malloc((size_t)s->size * sizeof(int));
    s->offsets = malloc((size_t)s->size * sizeof(int));
    return ok && s->partial != NULL && s->counts != NULL && s->offsets != NULL;
}

/* The largest code any worker has: all leave by the same door. */
static int agree(const solver *s, int code)
{
    int worst = code;
    if (s->size > 1)
        MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, s->comm);
    return worst;
}

/* Learns how the rows of the mesh are shared out. */
static int gather_layout(solver *s)
{
    int mine = 2 * s->rows, total = 0;
    if (s->size > 1)
        MPI_Allgather(&mine, 1, MPI_INT, s->counts, 1, MPI_INT, s->comm);
    else
        s->counts[0] = mine;
    for (int k = 0; k < s->size; ++k) {
        s->offsets[k] = total;
        total += s->counts[k];
    }
    s->total_rows = total / 2;
    s->gathered = malloc((size_t)total * sizeof(double));
    return s->gathered != NULL;
}

/* Fills the ghost rows of a field from the neighbouring workers. */
static void exchange(const solver *s, double *field)
{
    if (s->size == 1)
        return;
    int below = s->rank > 0 ? s->rank - 1 : MPI_PROC_NULL;
    int above = s->rank + 1 < s->size ? s->rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(cell(s, field, 0), s->nx, MPI_DOUBLE, below, 0,
                 cell(s, field, s->rows), s->nx, MPI_DOUBLE, above, 0, s->comm,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(cell(s, field, s->rows - 1), s->nx, MPI_DOUBLE, above, 1,
                 cell(s, field, -1), s->nx, MPI_DOUBLE, below, 1, s->comm,
                 MPI_STATUS_IGNORE);
}

/* Adds up the partial sums of all rows of the mesh, from the bottom to the top. */
static void combine(const solver *s, double sums[2])
{
    const double *rows = s->partial;
    if (s->size > 1) {
        MPI_Allgatherv(s->partial, 2 * s->rows, MPI_DOUBLE, s->gathered,
                       s->counts, s->offsets, MPI_DOUBLE, s->comm);
        rows = s->gathered;
    }
    sums[0] = sums[1] = 0.0;
    for (int j = 0; j < s->total_rows; ++j) {
        sums[0] += rows[2 * j];
        sums[1] += rows[2 * j + 1];
    }
}

static double fold(const double lane[LANES])
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static double dot_row(int n, const double *a, const double *b)
{
    double lane[LANES] = {0.0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; ++l)
            lane[l] += a[i + l] * b[i + l];
    for (int l = 0; i < n; ++i, ++l)
        lane[l] += a[i] * b[i];
    return fold(lane);
}

/* Row `j` of A x, where A = diag(h) - dt div(kappa h grad). */
static void apply_row(const solver *s, const double *restrict field,
                      double *restrict out, int j)
{
    size_t at = (size_t)(j + 1) * s->stride + 1, up = at + s->stride;
    const double *c = field + at, *south = c - s->stride, *north = c + s->stride;
    const double *kx = s->kx + at, *ky = s->ky + at, *kn = s->ky + up;
    const double *d = s->diagonal + at;
    double *o = out + at;
    for (int i = 0; i < s->nx; ++i)
        o[i] = d[i] * c[i] - ((kx[i] * c[i - 1] + kx[i + 1] * c[i + 1]) +
                              (ky[i] * south[i] + kn[i] * north[i]));
}

/* Sets up the matrix, the first guess T = heat / depth, and, in `r`, the
 * right-hand side. Every page is first touched by the thread that works on it. */
static void assemble(solver *s, const diffusion_block *block,
                     const diffusion_options *options, const double *depth,
                     const double *heat)
{
    double cx = options->dt * options->kappa / (block->dx * block->dx);
    double cy = options->dt * options->kappa / (block->dy * block->dy);
    int nx = s->nx, rows = s->rows;
    double *h = s->ap; /* depth with ghost rows, until the first product */

#pragma omp parallel for schedule(static)
    for (int j = -1; j <= rows; ++j) {
        size_t row = (size_t)(j + 1) * s->stride, bytes = s->stride * sizeof(double);
        memset(s->kx + row, 0, bytes);
        memset(s->ky + row, 0, bytes);
        memset(s->diagonal + row, 0, bytes);
        memset(s->inverse + row, 0, bytes);
        memset(s->x + row, 0, bytes);
        memset(s->r + row, 0, bytes);
        memset(s->p + row, 0, bytes);
        memset(h + row, 0, bytes);
        if (j >= 0 && j < rows)
            memcpy(h + row + 1, depth + (size_t)j * s->outer, (size_t)nx * sizeof(double));
    }
    exchange(s, h);

    int has_below = s->rank > 0, has_above = s->rank + 1 < s->size;
#pragma omp parallel for schedule(static)
    for (int j = 0; j <= rows; ++j) {
        const double *c = cell(s, h, j), *south = c - s->stride;
        double *ky = cell(s, s->ky, j);
        if ((j > 0 || has_below) && (j < rows || has_above))
            for (int i = 0; i < nx; ++i)
                ky[i] = cy * 0.5 * (south[i] + c[i]);
        if (j < rows) {
            double *kx = cell(s, s->kx, j);
            for (int i = 1; i < nx; ++i)
                kx[i] = cx * 0.5 * (c[i - 1] + c[i]);
        }
    }
#pragma omp parallel for schedule(static)
    for (int j = 0; j < rows; ++j) {
        const double *c = cell(s, h, j), *q = heat + (size_t)j * s->outer;
        const double *kx = cell(s, s->kx, j), *ky = cell(s, s->ky, j);
        const double *kn = ky + s->stride;
        double *d = cell(s, s->diagonal, j), *inv = cell(s, s->inverse, j);
        double *x = cell(s, s->x, j), *r = cell(s, s->r, j);
        for (int i = 0; i < nx; ++i) {
            d[i] = c[i] + ((kx[i] + kx[i + 1]) + (ky[i] + kn[i]));
            inv[i] = 1.0 / d[i];
            x[i] = q[i] / c[i];
            r[i] = q[i];
        }
    }
    exchange(s, s->x);
}

/* Conjugate gradients; the solution is left in `x`. */
static int iterate(solver *s, const diffusion_options *options, diffusion_result *result)
{
    int nx = s->nx, rows = s->rows;
    double sums[2], rz, scale;

    /* r = b - A x, z = r / diagonal, p = z; and the norm of b */
#pragma omp parallel for schedule(static)
    for (int j = 0; j < rows; ++j) {
        double *r = cell(s, s->r, j), *p = cell(s, s->p, j), *ap = cell(s, s->ap, j);
        const double *inv = cell(s, s->inverse, j);
        s->partial[2 * j] = dot_row(nx, r, r);
        apply_row(s, s->x, s->ap, j);
        for (int i = 0; i < nx; ++i) {
            r[i] -= ap[i];
            p[i] = inv[i] * r[i];
        }
        s->partial[2 * j + 1] = dot_row(nx, r, p);
    }
    combine(s, sums);
    scale = sums[0];
    rz = sums[1];
    if (!isfinite(scale) || !isfinite(rz))
        return DIFFUSION_BREAKDOWN;
    result->iterations = 0;
    result->residual = 0.0;
    if (scale == 0.0 || rz == 0.0)
        return DIFFUSION_OK;

    for (int iteration = 1; iteration <= options->max_iterations; ++iteration) {
        exchange(s, s->p);
#pragma omp parallel for schedule(static)
        for (int j = 0; j < rows; ++j) {
            apply_row(s, s->p, s->ap, j);
            s->partial[2 * j] = dot_row(nx, cell(s, s->p, j), cell(s, s->ap, j));
            s->partial[2 * j + 1] = 0.0;
        }
        combine(s, sums);
        if (!(sums[0] > 0.0) || !isfinite(sums[0]))
            return DIFFUSION_BREAKDOWN;
        double alpha = rz / sums[0];
#pragma omp parallel for schedule(static)
        for (int j = 0; j < rows; ++j) {
            double *restrict x = cell(s, s->x, j), *restrict r = cell(s, s->r, j);
            double *restrict z = cell(s, s->ap, j);
            const double *p = cell(s, s->p, j), *inv = cell(s, s->inverse, j);
            for (int i = 0; i < nx; ++i) {
                x[i] += alpha * p[i];
                r[i] -= alpha * z[i];
                z[i] = inv[i] * r[i];
            }
            s->partial[2 * j] = dot_row(nx, r, z);
            s->partial[2 * j + 1] = dot_row(nx, r, r);
        }
        combine(s, sums);
        result->iterations = iteration;
        result->residual = sqrt(sums[1] / scale);
        if (!isfinite(result->residual))
            return DIFFUSION_BREAKDOWN;
        if (result->residual <= options->tolerance)
            return DIFFUSION_OK;
        double beta = sums[0] / rz;
        rz = sums[0];
#pragma omp parallel for schedule(static)
        for (int j = 0; j < rows; ++j) {
            double *restrict p = cell(s, s->p, j);
            const double *restrict z = cell(s, s->ap, j);
            for (int i = 0; i < nx; ++i)
                p[i] = z[i] + beta * p[i];
        }
    }
    return DIFFUSION_NOT_CONVERGED;
}

/* heat += dt * (net flux of the new T): what leaves one cell enters its neighbour,
 * so the total is kept even where T was solved to a tolerance only. */
static void apply_fluxes(solver *s, double *heat)
{
    int nx = s->nx, rows = s->rows;
    exchange(s, s->x);
#pragma omp parallel for schedule(static)
    for (int j = 0; j < rows; ++j) {
        const double *c = cell(s, s->x, j), *south = c - s->stride, *north = c + s->stride;
        const double *kx = cell(s, s->kx, j), *ky = cell(s, s->ky, j);
        const double *kn = ky + s->stride;
        double *q = heat + (size_t)j * s->outer;
        for (int i = 0; i < nx; ++i) {
            double west = kx[i] * (c[i] - c[i - 1]);
            double east = kx[i + 1] * (c[i + 1] - c[i]);
            double below = ky[i] * (c[i] - south[i]);
            double above = kn[i] * (north[i] - c[i]);
            q[i] += (east - west) + (above - below);
        }
    }
}

int diffusion_step(MPI_Comm workers, const diffusion_block *block,
                   const diffusion_options *options, const double *depth,
                   double *heat, diffusion_result *result)
{
    solver s = {0};
    s.comm = workers;
    s.size = 1;
    if (workers != MPI_COMM_NULL) {
        MPI_Comm_rank(workers, &s.rank);
        MPI_Comm_size(workers, &s.size);
    }
    s.nx = block->nx;
    s.rows = block->rows;
    s.outer = (size_t)block->stride;
    result->iterations = 0;
    result->residual = 0.0;
    result->threads = omp_get_max_threads();

    int bad = s.nx < 1 || s.rows < 1 || block->stride < s.nx || !(block->dx > 0.0) ||
              !(block->dy > 0.0) || !(options->dt >= 0.0) || !(options->kappa >= 0.0);
    int code = agree(&s, bad ? DIFFUSION_BAD_ARGUMENT : DIFFUSION_OK);
    if (code != DIFFUSION_OK)
        return code;

    s.stride = (size_t)s.nx + 2;
    s.cells = ((size_t)s.rows + 2) * s.stride;
    code = agree(&s, allocate(&s) ? DIFFUSION_OK : DIFFUSION_NO_MEMORY);
    if (code == DIFFUSION_OK)
        code = agree(&s, gather_layout(&s) ? DIFFUSION_OK : DIFFUSION_NO_MEMORY);
    if (code == DIFFUSION_OK) {
        assemble(&s, block, options, depth, heat);
        code = iterate(&s, options, result);
    }
    if (code == DIFFUSION_OK)
        apply_fluxes(&s, heat);
    release(&s);
    return code;
}

int diffusion_step_f2c(MPI_Fint workers, const diffusion_block *block,
                       const diffusion_options *options, const double *depth,
                       double *heat, diffusion_result *result)
{
    return diffusion_step(MPI_Comm_f2c(workers), block, options, depth, heat, result);
}
