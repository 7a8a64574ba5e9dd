// Refused: read-only|cannot assign
#include "quo.hpp"

void write(quo::View<const int> view);

void
write(quo::View<const int> view)
{
    view[0] = 1;
}
