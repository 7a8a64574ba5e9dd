// Refused: nodiscard|ignoring temporary
#include "quo.hpp"

void push(const quo::Context &ctx);

void
push(const quo::Context &ctx)
{
    // Undone at the end of the statement: warnings that are errors catch it.
    quo::BindGuard(ctx, quo::BindPushPolicy::object, quo::ObjectType::package);
}
