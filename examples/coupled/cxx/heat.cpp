#include "heat.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "quo.hpp"
#include "solver.hpp"

namespace heat {

namespace {

// A private communicator.
class Ranks {
public:
    explicit Ranks(MPI_Comm of_caller) { MPI_Comm_dup(of_caller, &comm_); }
    // The ranks of `all` with `member` set, in the same order; none on the others. Collective.
    Ranks(const Ranks& all, bool member)
    {
        MPI_Comm_split(all.comm_, member ? 0 : MPI_UNDEFINED, all.rank(), &comm_);
    }
    Ranks(const Ranks&) = delete;
    Ranks& operator=(const Ranks&) = delete;
    ~Ranks()
    {
        if (comm_ != MPI_COMM_NULL)
            MPI_Comm_free(&comm_);
    }

    MPI_Comm comm() const { return comm_; }

    int rank() const
    {
        int rank = 0;
        MPI_Comm_rank(comm_, &rank);
        return rank;
    }

    int reduce(int mine, MPI_Op operation) const
    {
        int all = 0;
        MPI_Allreduce(&mine, &all, 1, MPI_INT, operation, comm_);
        return all;
    }

    // Does `attempt`, which returns a code, and throws on all ranks if it failed on any. Collective.
    template <class Attempt> void together(const Attempt& attempt) const
    {
        int code = DIFFUSION_OK;
        std::string text;
        try {
            code = attempt();
        } catch (const quo::Error& error) {
            code = HEAT_RUNTIME;
            text = error.what();
        } catch (const std::bad_alloc&) {
            code = DIFFUSION_NO_MEMORY;
        }
        const int worst = reduce(code, MPI_MAX);
        if (worst == DIFFUSION_OK)
            return;
        if (text.empty())
            text = words(worst);
        throw Error(worst, text);
    }

private:
    static const char* words(int code)
    {
        switch (code) {
        case DIFFUSION_NO_MEMORY: return "no memory for the heat library on at least one rank";
        case DIFFUSION_NOT_CONVERGED: return "the diffusion solver did not converge in max_iterations";
        case DIFFUSION_BREAKDOWN: return "the diffusion matrix is not positive definite (NaN or a dry cell)";
        case DIFFUSION_BAD_ARGUMENT: return "the heat library was given bad rows, or a bad time step";
        default: return "the runtime below the heat library failed on another rank";
        }
    }

    MPI_Comm comm_ = MPI_COMM_NULL;
};

quo::ObjectType object_type(int over)
{
    switch (over) {
    case HEAT_MACHINE: return quo::ObjectType::machine;
    case HEAT_NUMA: return quo::ObjectType::numa_node;
    case HEAT_PACKAGE: return quo::ObjectType::package;
    default: return quo::ObjectType::core;
    }
}

bool sensible(const heat_problem& problem)
{
    const auto& block = problem.block;
    return block.nx >= 1 && block.rows >= 1 && block.stride >= block.nx && problem.over >= HEAT_MACHINE
           && problem.over <= HEAT_CORE && problem.max_per_object >= 1;
}

} // namespace

struct Library::State {
    State(MPI_Comm comm, const heat_problem& wanted);

    heat_outcome step(double dt, const double* depth, double* heat);

    Ranks ranks;
    heat_problem problem;
    heat_usage usage{};
    // Made in this order, by all ranks, and unmade in the other.
    std::optional<quo::Context> context;
    std::optional<quo::Memory<double>> shared;
    std::optional<quo::Phase> phase;
    std::optional<Ranks> workers;
    int worker_count = 0;
    Pool pool;

private:
    bool works() const { return workers->comm() != MPI_COMM_NULL; }
    size_t width() const { return static_cast<size_t>(problem.block.nx); }
    bool in_order() const;
    int work(const quo::PhaseGuard& run, double dt, diffusion_result& result);
    void copy_out(const double* depth, const double* heat) const;
    void copy_in(double* heat) const;
};

Library::State::State(MPI_Comm comm, const heat_problem& wanted) : ranks(comm), problem(wanted)
{
    ranks.together([&] { return sensible(problem) ? DIFFUSION_OK : DIFFUSION_BAD_ARGUMENT; });
    ranks.together([&] {
        context.emplace(ranks.comm());
        return in_order() ? DIFFUSION_OK : DIFFUSION_BAD_ARGUMENT;
    });
    ranks.together([&] {
        shared.emplace(*context, 2 * width() * static_cast<size_t>(problem.block.rows));
        phase.emplace(*context, quo::PhaseSpec()
                                    .over(object_type(problem.over))
                                    .max_per_object(problem.max_per_object)
                                    .name("diffusion"));
        return DIFFUSION_OK;
    });
    workers.emplace(ranks, !phase->qids().empty());
    worker_count = ranks.reduce(works() ? 1 : 0, MPI_SUM);
    usage.worker = works() ? 1 : 0;
}

// Whether the rows of the node's ranks are one stretch of the mesh, in the order of the qids: then
// what lies behind each other in shared memory does so in the mesh.
bool Library::State::in_order() const
{
    const quo::Comm node = context->get_mpi_comm_by_type(quo::ObjectType::machine);
    const int start = ranks.rank() - context->id();
    int starts[2] = {start, -start}, largest[2];
    MPI_Allreduce(starts, largest, 2, MPI_INT, MPI_MAX, node);
    return largest[0] == -largest[1];
}

void Library::State::copy_out(const double* depth, const double* heat) const
{
    double* to = shared->local().data();
    for (int j = 0; j < problem.block.rows; ++j) {
        const size_t row = static_cast<size_t>(j) * static_cast<size_t>(problem.block.stride);
        to = std::copy_n(depth + row, width(), to);
        to = std::copy_n(heat + row, width(), to);
    }
}

void Library::State::copy_in(double* heat) const
{
    const double* from = shared->local().data() + width();
    for (int j = 0; j < problem.block.rows; ++j, from += 2 * width())
        std::copy_n(from, width(),
                    heat + static_cast<size_t>(j) * static_cast<size_t>(problem.block.stride));
}

heat_outcome Library::State::step(double dt, const double* depth, double* heat)
{
    diffusion_result result{};
    ranks.together([&] {
        copy_out(depth, heat);
        // Every rank has written its rows.
        context->barrier();
        quo::PhaseGuard run = phase->begin();
        const int code = works() ? work(run, dt, result) : DIFFUSION_OK;
        // Ranks that do not work sleep here until the others are done.
        run.end();
        const quo::PhaseMetrics metrics = phase->metrics();
        usage.working += metrics.run.count();
        usage.asleep += metrics.quiesced.count();
        return code;
    });
    copy_in(heat);
    heat_outcome outcome{result.iterations, worker_count, result.residual};
    // A worker's numbers, for the ranks that slept; they are the same on all workers.
    outcome.iterations = ranks.reduce(result.iterations, MPI_MAX);
    MPI_Allreduce(&result.residual, &outcome.residual, 1, MPI_DOUBLE, MPI_MAX, ranks.comm());
    return outcome;
}

// Solves for the rows of all ranks that this worker works for, which are one array. Collective over
// the workers.
int Library::State::work(const quo::PhaseGuard& run, double dt, diffusion_result& result)
{
    // All workers solve or none: the solver would wait for the one that could not be bound.
    if (workers->reduce(run.selected() ? 1 : 0, MPI_MIN) == 0)
        return HEAT_RUNTIME;
    const quo::View<double> rows = shared->range(run.qids());
    pool.widen(run.threads());
    if (usage.threads == 0) {
        usage.threads = pool.width();
        const std::string cpus = context->stringify_cbind();
        std::strncpy(usage.cpus, cpus.c_str(), sizeof usage.cpus - 1);
    }
    const int nx = problem.block.nx, height = static_cast<int>(rows.size() / (2 * width()));
    const diffusion_block block{nx, height, 2 * nx, problem.block.dx, problem.block.dy};
    const diffusion_options options{dt, problem.kappa, problem.tolerance, problem.max_iterations};
    return diffuse(workers->comm(), block, options, rows.data(), rows.data() + nx, result, pool);
}

Library::Library(MPI_Comm ranks, const heat_problem& problem)
    : state_(std::make_unique<State>(ranks, problem))
{
}

Library::~Library() = default;

heat_outcome Library::step(double dt, const double* depth, double* heat)
{
    return state_->step(dt, depth, heat);
}

const heat_usage& Library::used() const { return state_->usage; }

} // namespace heat
