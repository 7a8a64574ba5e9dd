// Refused: deleted
#include "quo.hpp"

void copy(const quo::BindGuard &guard);

void
copy(const quo::BindGuard &guard)
{
    quo::BindGuard second(guard);
}
