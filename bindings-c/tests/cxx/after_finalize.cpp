/* Objects that live longer than MPI: their functions throw, their destructors do nothing. */
#include "check.hpp"

namespace {

/* Destroyed after main, in the order opposite to this. */
std::optional<quo::Context> of_the_program;
std::optional<quo::Phase> phase_of_the_program;

} // namespace

int
main(int argc, char **argv)
{
    check::init(argc, argv);
    std::optional<quo::Context> context(std::in_place);
    std::optional<quo::Phase> phase(std::in_place, *context);
    std::optional<quo::NamedBarrier> barrier(std::in_place, *context, "late");
    std::optional<quo::Memory<int>> memory(std::in_place, *context, 8U);
    std::optional<quo::BindGuard> guard(std::in_place, *context, quo::BindPushPolicy::object,
                                        quo::ObjectType::machine);
    std::optional<quo::Comm> comm(context->get_mpi_comm_by_type(quo::ObjectType::machine));
    of_the_program.emplace();
    phase_of_the_program.emplace(*of_the_program);
    MPI_Finalize();

    CHECK_THROWS(quo::Context(), Error, call_after_finalize, "MPI_Finalize");
    CHECK_THROWS(context->ncores(), Error, call_after_finalize, "QUO_ncores");
    CHECK_THROWS(context->barrier(), Error, call_after_finalize, "QUO_barrier");
    CHECK_THROWS(context->free(), Error, call_after_finalize, "QUO_free");
    CHECK(context->handle() != nullptr);
    CHECK_THROWS(phase->run([] {}), Error, call_after_finalize, "QUO_phase_run");
    CHECK_THROWS(barrier->wait(), Error, call_after_finalize, "QUO_named_barrier_wait");
    comm.reset();
    guard.reset();
    memory.reset();
    barrier.reset();
    phase.reset();
    context.reset();
    CHECK(quo::version().first > 0);
    if (0 == check::rank && 0 == check::failures) std::printf("ok\n");
    return 0 == check::failures ? EXIT_SUCCESS : EXIT_FAILURE;
}
