// The C interface: exceptions become codes, and their texts are kept for heat_last_error().
#include <new>
#include <string>

#include "heat.hpp"
#include "solver.hpp"

struct heat_library {
    heat::Library library;
};

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

std::string& last_error()
{
    thread_local std::string text;
    return text;
}

template <class Attempt> int code_of(const Attempt& attempt)
{
    try {
        attempt();
        return DIFFUSION_OK;
    } catch (const heat::Error& error) {
        last_error() = error.what();
        return error.code();
    } catch (const std::exception& error) {
        last_error() = error.what();
        return HEAT_RUNTIME;
    }
}

} // namespace

int heat_create(MPI_Comm ranks, const heat_problem* problem, heat_library** library)
{
    *library = nullptr;
    return code_of([&] { *library = new heat_library{heat::Library(ranks, *problem)}; });
}

int heat_create_f2c(MPI_Fint ranks, const heat_problem* problem, heat_library** library)
{
    return heat_create(MPI_Comm_f2c(ranks), problem, library);
}

int heat_step(heat_library* library, double dt, const double* depth, double* heat,
              heat_outcome* outcome)
{
    return code_of([&] { *outcome = library->library.step(dt, depth, heat); });
}

void heat_used(const heat_library* library, heat_usage* usage) { *usage = library->library.used(); }

int heat_free(heat_library* library)
{
    delete library;
    return DIFFUSION_OK;
}

const char* heat_last_error(void) { return last_error().c_str(); }

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
