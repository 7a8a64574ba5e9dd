// Refused: T must be trivially copyable, since other processes see its bytes
#include "quo.hpp"

void share(const quo::Context &ctx);

void
share(const quo::Context &ctx)
{
    quo::Memory<std::string> names(ctx, 10);
}
