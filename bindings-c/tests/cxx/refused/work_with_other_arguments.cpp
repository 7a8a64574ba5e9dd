// Refused: the work of a phase is called as work(const quo::Worker &) or work()
#include "quo.hpp"

void run(const quo::Phase &phase);

void
run(const quo::Phase &phase)
{
    phase.run([](int, double) {});
}
