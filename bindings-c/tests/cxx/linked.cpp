/* Two translation units that include the header make one program; linked_other.cpp is the other. */
#include "check.hpp"

int in_the_other_unit(const quo::Context &ctx, quo::View<int> view);
const std::error_category &category_of_the_other_unit();

int
main(int argc, char **argv)
{
    CHECK(&quo::error_category() == &category_of_the_other_unit());
    return check::main(argc, argv, [] {
        const quo::Context ctx;
        const quo::Memory<int> memory(ctx, 2);
        CHECK_EQUAL(in_the_other_unit(ctx, memory.local()), ctx.npus());
        CHECK_EQUAL(memory.local()[1], 77);
        CHECK_THROWS(in_the_other_unit(ctx, quo::View<int>()), RecoverableError, pop,
                     "QUO_bind_pop");
        ctx.barrier();
    });
}
