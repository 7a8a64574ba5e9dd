// The heat library: L1 that uses threads well for any caller and launch.
//
//     heat::Library library(MPI_COMM_WORLD, problem);
//     library.step(dt, depth, heat); // on every rank, with its own rows
//
// It needs no thread numbers and no binding from its caller: that it has quo inside is its own
// business.
#ifndef HEAT_HPP
#define HEAT_HPP

#include <memory>
#include <stdexcept>
#include <string>

#include "heat.h"

namespace heat {

// A failure, which every rank throws.
class Error : public std::runtime_error {
public:
    // One of the DIFFUSION_ or HEAT_ codes, and what went wrong.
    Error(int code, const std::string& text) : std::runtime_error(text), code_(code) {}

    // One of the DIFFUSION_ or HEAT_ codes.
    int code() const { return code_; }

private:
    int code_;
};

// Implicit diffusion of heat over some ranks.
class Library {
public:
    // As heat_create(). Collective over `ranks`.
    Library(MPI_Comm ranks, const heat_problem& problem);
    // Collective over the ranks.
    ~Library();
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    // As heat_step(): moves the heat on by `dt` seconds. Collective over the ranks.
    heat_outcome step(double dt, const double* depth, double* heat);

    // What the calling rank did in all steps so far.
    const heat_usage& used() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace heat

#endif
