// Refused: deleted
#include "quo.hpp"

void copy(const quo::Context &ctx);

void
copy(const quo::Context &ctx)
{
    quo::Context second(ctx);
}
