// Refused: cannot convert|cannot initialize
#include "quo.hpp"

int count(const quo::Context &ctx);

int
count(const quo::Context &ctx)
{
    return ctx.nobjs_by_type(2);
}
