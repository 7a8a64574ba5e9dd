// Refused: pointers mean nothing in other processes
#include "quo.hpp"

void share(const quo::Context &ctx);

void
share(const quo::Context &ctx)
{
    quo::Memory<double *> rows(ctx, 10);
}
