// The C interface: exceptions become codes, and their texts are kept for heat_last_error().
#include <new>
#include <string>

#include "heat.hpp"

struct heat_library {
    heat::Library library;
};

namespace {

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
