// L1 in C++: implicit diffusion by conjugate gradients, on its own threads.
#ifndef HEAT_SOLVER_HPP
#define HEAT_SOLVER_HPP

#include "diffusion.h"
#include "pool.hpp"

namespace heat {

// One step, as diffusion_step() of diffusion.h promises it and to the same bits, on the threads of
// `pool`. Collective over `workers`. Returns one of the DIFFUSION_ codes.
int diffuse(MPI_Comm workers, const diffusion_block& block, const diffusion_options& options,
            const double* depth, double* heat, diffusion_result& result, Pool& pool);

} // namespace heat

#endif
