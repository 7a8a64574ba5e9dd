#include "solver.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>

#include "heat.h"

namespace heat {

namespace {

// Accumulators per row of a dot product: fixed, so that the order of additions does not depend on
// how the compiler vectorises or how rows are shared out.
constexpr int LANES = 8;

double fold(const double (&lane)[LANES])
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

double dot_row(int n, const double* a, const double* b)
{
    double lane[LANES] = {};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; ++l)
            lane[l] += a[i + l] * b[i + l];
    for (int l = 0; i < n; ++i, ++l)
        lane[l] += a[i] * b[i];
    return fold(lane);
}

struct Sums {
    double first, second;
};

// The workers, which hold consecutive blocks of rows from the bottom of the mesh to its top.
class Workers {
public:
    explicit Workers(MPI_Comm comm) : comm_(comm)
    {
        if (comm != MPI_COMM_NULL) {
            MPI_Comm_rank(comm, &rank_);
            MPI_Comm_size(comm, &size_);
        }
    }

    bool alone() const { return size_ == 1; }
    int size() const { return size_; }
    bool has_below() const { return rank_ > 0; }
    bool has_above() const { return rank_ + 1 < size_; }

    // The largest code any worker has: all leave by the same door.
    int agree(int code) const
    {
        int worst = code;
        if (!alone())
            MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, comm_);
        return worst;
    }

    void counts_of_all(int mine, int* counts) const
    {
        counts[0] = mine;
        if (!alone())
            MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, comm_);
    }

    // Sends a row down and receives the one from above, or the other way round.
    void send_down(double* from, double* into, int n) const { pass(from, below(), into, above(), 0, n); }
    void send_up(double* from, double* into, int n) const { pass(from, above(), into, below(), 1, n); }

    void gather(double* mine, int count, double* all, const int* counts, const int* offsets) const
    {
        MPI_Allgatherv(mine, count, MPI_DOUBLE, all, counts, offsets, MPI_DOUBLE, comm_);
    }

private:
    int below() const { return has_below() ? rank_ - 1 : MPI_PROC_NULL; }
    int above() const { return has_above() ? rank_ + 1 : MPI_PROC_NULL; }

    void pass(double* from, int to, double* into, int source, int tag, int n) const
    {
        MPI_Sendrecv(from, n, MPI_DOUBLE, to, tag, into, n, MPI_DOUBLE, source, tag, comm_,
                     MPI_STATUS_IGNORE);
    }

    MPI_Comm comm_;
    int rank_ = 0, size_ = 1;
};

class Solver {
public:
    Solver(const Workers& workers, const diffusion_block& block, Pool& pool)
        : workers_(workers), pool_(pool), nx_(block.nx), rows_(block.rows),
          outer_(static_cast<size_t>(block.stride)), stride_(static_cast<size_t>(block.nx) + 2)
    {
        for (auto* field : {&kx_, &ky_, &diagonal_, &inverse_, &x_, &r_, &p_, &ap_})
            field->values = uninitialised((static_cast<size_t>(rows_) + 2) * stride_);
        partial_ = uninitialised(2 * static_cast<size_t>(rows_));
        counts_.reset(new int[static_cast<size_t>(workers.size())]);
        offsets_.reset(new int[static_cast<size_t>(workers.size())]);
    }

    // Learns how the rows of the mesh are shared out. Collective.
    void gather_layout()
    {
        workers_.counts_of_all(2 * rows_, counts_.get());
        int total = 0;
        for (int k = 0; k < workers_.size(); ++k) {
            offsets_[k] = total;
            total += counts_[k];
        }
        total_rows_ = total / 2;
    }

    // The last of the memory; known only when the layout is.
    void allocate_gathered() { gathered_ = uninitialised(2 * static_cast<size_t>(total_rows_)); }

    void assemble(const diffusion_block& block, const diffusion_options& options, const double* depth,
                  const double* heat);
    int iterate(const diffusion_options& options, diffusion_result& result);
    void apply_fluxes(double* heat);

private:
    // Rows of cells with a ghost cell all around. Every page is first touched by the thread that
    // works on it, so nothing is written where it is allocated.
    struct Field {
        std::unique_ptr<double[]> values;
    };

    static std::unique_ptr<double[]> uninitialised(size_t n)
    {
        return std::unique_ptr<double[]>(new double[n]);
    }

    double* row(const Field& field, int j) const
    {
        return field.values.get() + static_cast<size_t>(j + 1) * stride_ + 1;
    }

    template <class Work> void each_row(const Work& work) { pool_.rows(0, rows_, work); }

    void exchange(Field& field) const;
    Sums combine() const;
    void apply_row(const Field& field, Field& out, int j) const;

    const Workers& workers_;
    Pool& pool_;
    int nx_, rows_, total_rows_ = 0;
    size_t outer_;  // from row to row in the caller's arrays
    size_t stride_; // in ours: nx and a ghost column on each side
    Field kx_, ky_; // face coefficients: left of and below each cell
    Field diagonal_, inverse_, x_, r_, p_, ap_;
    std::unique_ptr<double[]> partial_;  // two sums per row of this worker
    std::unique_ptr<double[]> gathered_; // two sums per row of the mesh
    std::unique_ptr<int[]> counts_, offsets_;
};

// Fills the ghost rows of a field from the neighbouring workers.
void Solver::exchange(Field& field) const
{
    if (workers_.alone())
        return;
    workers_.send_down(row(field, 0), row(field, rows_), nx_);
    workers_.send_up(row(field, rows_ - 1), row(field, -1), nx_);
}

// Adds up the partial sums of all rows of the mesh, from the bottom to the top.
Sums Solver::combine() const
{
    const double* rows = partial_.get();
    if (!workers_.alone()) {
        workers_.gather(partial_.get(), 2 * rows_, gathered_.get(), counts_.get(), offsets_.get());
        rows = gathered_.get();
    }
    Sums sums{0.0, 0.0};
    for (int j = 0; j < total_rows_; ++j) {
        sums.first += rows[2 * j];
        sums.second += rows[2 * j + 1];
    }
    return sums;
}

// Row `j` of A x, where A = diag(h) - dt div(kappa h grad).
void Solver::apply_row(const Field& field, Field& out, int j) const
{
    const double *c = row(field, j), *south = c - stride_, *north = c + stride_;
    const double *kx = row(kx_, j), *ky = row(ky_, j), *kn = ky + stride_;
    const double* d = row(diagonal_, j);
    double* __restrict o = row(out, j);
    for (int i = 0; i < nx_; ++i)
        o[i] = d[i] * c[i]
               - ((kx[i] * c[i - 1] + kx[i + 1] * c[i + 1]) + (ky[i] * south[i] + kn[i] * north[i]));
}

// Sets up the matrix, the first guess T = heat / depth, and, in `r`, the right-hand side.
void Solver::assemble(const diffusion_block& block, const diffusion_options& options,
                      const double* depth, const double* heat)
{
    const double cx = options.dt * options.kappa / (block.dx * block.dx);
    const double cy = options.dt * options.kappa / (block.dy * block.dy);
    Field& h = ap_; // depth with ghost rows, until the first product

    pool_.rows(-1, rows_ + 1, [&](int j) {
        for (const auto* field : {&kx_, &ky_, &diagonal_, &inverse_, &x_, &r_, &p_, &ap_})
            std::fill_n(row(*field, j) - 1, stride_, 0.0);
        if (j >= 0 && j < rows_)
            std::copy_n(depth + static_cast<size_t>(j) * outer_, nx_, row(h, j));
    });
    exchange(h);

    pool_.rows(0, rows_ + 1, [&](int j) {
        const double *c = row(h, j), *south = c - stride_;
        double* ky = row(ky_, j);
        if ((j > 0 || workers_.has_below()) && (j < rows_ || workers_.has_above()))
            for (int i = 0; i < nx_; ++i)
                ky[i] = cy * 0.5 * (south[i] + c[i]);
        if (j < rows_) {
            double* kx = row(kx_, j);
            for (int i = 1; i < nx_; ++i)
                kx[i] = cx * 0.5 * (c[i - 1] + c[i]);
        }
    });
    each_row([&](int j) {
        const double *c = row(h, j), *q = heat + static_cast<size_t>(j) * outer_;
        const double *kx = row(kx_, j), *ky = row(ky_, j), *kn = ky + stride_;
        double *d = row(diagonal_, j), *inv = row(inverse_, j), *x = row(x_, j), *r = row(r_, j);
        for (int i = 0; i < nx_; ++i) {
            d[i] = c[i] + ((kx[i] + kx[i + 1]) + (ky[i] + kn[i]));
            inv[i] = 1.0 / d[i];
            x[i] = q[i] / c[i];
            r[i] = q[i];
        }
    });
    exchange(x_);
}

// Conjugate gradients; the solution is left in `x`.
int Solver::iterate(const diffusion_options& options, diffusion_result& result)
{
    // r = b - A x, z = r / diagonal, p = z; and the norm of b
    each_row([&](int j) {
        double *r = row(r_, j), *p = row(p_, j);
        const double *ap = row(ap_, j), *inv = row(inverse_, j);
        partial_[2 * j] = dot_row(nx_, r, r);
        apply_row(x_, ap_, j);
        for (int i = 0; i < nx_; ++i) {
            r[i] -= ap[i];
            p[i] = inv[i] * r[i];
        }
        partial_[2 * j + 1] = dot_row(nx_, r, p);
    });
    Sums sums = combine();
    const double scale = sums.first;
    double rz = sums.second;
    if (!std::isfinite(scale) || !std::isfinite(rz))
        return DIFFUSION_BREAKDOWN;
    if (scale == 0.0 || rz == 0.0)
        return DIFFUSION_OK;

    for (int iteration = 1; iteration <= options.max_iterations; ++iteration) {
        exchange(p_);
        each_row([&](int j) {
            apply_row(p_, ap_, j);
            partial_[2 * j] = dot_row(nx_, row(p_, j), row(ap_, j));
            partial_[2 * j + 1] = 0.0;
        });
        sums = combine();
        if (!(sums.first > 0.0) || !std::isfinite(sums.first))
            return DIFFUSION_BREAKDOWN;
        const double alpha = rz / sums.first;
        each_row([&](int j) {
            double *__restrict x = row(x_, j), *__restrict r = row(r_, j), *__restrict z = row(ap_, j);
            const double *p = row(p_, j), *inv = row(inverse_, j);
            for (int i = 0; i < nx_; ++i) {
                x[i] += alpha * p[i];
                r[i] -= alpha * z[i];
                z[i] = inv[i] * r[i];
            }
            partial_[2 * j] = dot_row(nx_, r, z);
            partial_[2 * j + 1] = dot_row(nx_, r, r);
        });
        sums = combine();
        result.iterations = iteration;
        result.residual = std::sqrt(sums.second / scale);
        if (!std::isfinite(result.residual))
            return DIFFUSION_BREAKDOWN;
        if (result.residual <= options.tolerance)
            return DIFFUSION_OK;
        const double beta = sums.first / rz;
        rz = sums.first;
        each_row([&](int j) {
            double* __restrict p = row(p_, j);
            const double* __restrict z = row(ap_, j);
            for (int i = 0; i < nx_; ++i)
                p[i] = z[i] + beta * p[i];
        });
    }
    return DIFFUSION_NOT_CONVERGED;
}

// heat += dt * (net flux of the new T): what leaves one cell enters its neighbour, so the total is
// kept even where T was solved to a tolerance only.
void Solver::apply_fluxes(double* heat)
{
    exchange(x_);
    each_row([&](int j) {
        const double *c = row(x_, j), *south = c - stride_, *north = c + stride_;
        const double *kx = row(kx_, j), *ky = row(ky_, j), *kn = ky + stride_;
        double* q = heat + static_cast<size_t>(j) * outer_;
        for (int i = 0; i < nx_; ++i) {
            const double west = kx[i] * (c[i] - c[i - 1]);
            const double east = kx[i + 1] * (c[i + 1] - c[i]);
            const double below = ky[i] * (c[i] - south[i]);
            const double above = kn[i] * (north[i] - c[i]);
            q[i] += (east - west) + (above - below);
        }
    });
}

// What `attempt` returns, or null where there is no memory for it.
template <class Attempt> int code_of(const Attempt& attempt)
{
    try {
        attempt();
        return DIFFUSION_OK;
    } catch (const std::bad_alloc&) {
        return DIFFUSION_NO_MEMORY;
    }
}

} // namespace

int diffuse(MPI_Comm comm, const diffusion_block& block, const diffusion_options& options,
            const double* depth, double* heat, diffusion_result& result, Pool& pool)
{
    const Workers workers(comm);
    result = diffusion_result{0, pool.width(), 0.0};

    const bool bad = block.nx < 1 || block.rows < 1 || block.stride < block.nx || !(block.dx > 0.0)
                     || !(block.dy > 0.0) || !(options.dt >= 0.0) || !(options.kappa >= 0.0);
    int code = workers.agree(bad ? DIFFUSION_BAD_ARGUMENT : DIFFUSION_OK);
    if (code != DIFFUSION_OK)
        return code;

    std::unique_ptr<Solver> solver;
    code = workers.agree(code_of([&] { solver = std::make_unique<Solver>(workers, block, pool); }));
    if (code != DIFFUSION_OK)
        return code;
    solver->gather_layout();
    code = workers.agree(code_of([&] { solver->allocate_gathered(); }));
    if (code != DIFFUSION_OK)
        return code;
    solver->assemble(block, options, depth, heat);
    code = solver->iterate(options, result);
    if (code == DIFFUSION_OK)
        solver->apply_fluxes(heat);
    return code;
}

} // namespace heat

namespace {

// What the solver without quo runs on.
struct Plain {
    heat::Pool pool;
    int threads = 0;
};

Plain& plain()
{
    thread_local Plain plain;
    return plain;
}

} // namespace

void heat_set_threads(int threads) { plain().threads = threads; }

int heat_diffusion_step(MPI_Comm workers, const diffusion_block* block,
                        const diffusion_options* options, const double* depth, double* heat,
                        diffusion_result* result)
{
    // Looked up at every call: the binding may be another than last time.
    const int threads = plain().threads;
    plain().pool.widen(threads > 0 ? threads : heat::cpus_of_this_thread());
    return heat::diffuse(workers, *block, *options, depth, heat, *result, plain().pool);
}

int heat_diffusion_step_f2c(MPI_Fint workers, const diffusion_block* block,
                            const diffusion_options* options, const double* depth, double* heat,
                            diffusion_result* result)
{
    return heat_diffusion_step(MPI_Comm_f2c(workers), block, options, depth, heat, result);
}
