/* The other half of linked.cpp: uses the same templates and inline functions, and throws across. */
#include "quo.hpp"

int in_the_other_unit(const quo::Context &ctx, quo::View<int> view);
const std::error_category &category_of_the_other_unit();

int
in_the_other_unit(const quo::Context &ctx, quo::View<int> view)
{
    const quo::Phase phase(ctx);
    phase.run([](const quo::Worker &worker) { return worker.threads(); });
    if (view.empty()) ctx.bind_pop();
    view.at(1) = 77;
    const quo::Memory<int> memory(ctx, 1);
    ctx.barrier();
    return quo::NodeInfo(ctx).snapshot().pus;
}

const std::error_category &
category_of_the_other_unit()
{
    return quo::error_category();
}
