// Refused: T has no const or volatile
#include "quo.hpp"

void share(const quo::Context &ctx);

void
share(const quo::Context &ctx)
{
    quo::Memory<const double> values(ctx, 10);
}
