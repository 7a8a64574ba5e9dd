/* Context: creation in every way, moves, borrowed and adopted handles, bad input. */
#include "check.hpp"

namespace {

void
every_way_to_create()
{
    const quo::Context plain;
    const quo::Context over(MPI_COMM_SELF);
    CHECK_EQUAL(over.nqids(), 1);
    const quo::Context one_thread(MPI_COMM_WORLD, quo::CreateFlags::no_mt | quo::CreateFlags::none);
    CHECK_EQUAL(one_thread.npus(), one_thread.ncores());
    quo::CreateOptions options;
    options.flags = quo::CreateFlags::no_mt;
    const quo::Context with_options(MPI_COMM_WORLD, options);
    CHECK_EQUAL(with_options.npus(), one_thread.npus());
    with_options.barrier();
    const MPI_Fint world = MPI_Comm_c2f(MPI_COMM_WORLD);
    const quo::Context from_fortran = quo::Context::from_fortran(world);
    CHECK_EQUAL(from_fortran.nqids(), plain.nqids());
    const quo::Context flagged = quo::Context::from_fortran(world, quo::CreateFlags::no_mt);
    CHECK_EQUAL(flagged.npus(), one_thread.npus());
    const quo::Context optional = quo::Context::from_fortran(world, options);
    CHECK_EQUAL(optional.npus(), one_thread.npus());
    optional.barrier();
}

void
what_cannot_be_created_throws_everywhere()
{
    constexpr auto no_flag = static_cast<quo::CreateFlags>(64);
    quo::CreateOptions options;
    options.flags = no_flag;
    CHECK_THROWS(quo::Context(MPI_COMM_NULL), RecoverableError, invalid_argument, "QUO_create");
    CHECK_THROWS(quo::Context(MPI_COMM_WORLD, no_flag), RecoverableError, invalid_argument,
                 "QUO_create_with_flags");
    CHECK_THROWS(quo::Context(MPI_COMM_WORLD, options), RecoverableError, invalid_argument,
                 "QUO_create_with_options");
    CHECK_THROWS(quo::Context::from_fortran(MPI_Comm_c2f(MPI_COMM_NULL)), RecoverableError,
                 invalid_argument, "QUO_create_f2c");
    CHECK_THROWS(quo::Context::from_fortran(MPI_Comm_c2f(MPI_COMM_WORLD), no_flag),
                 RecoverableError, invalid_argument, "QUO_create_with_flags_f2c");
    CHECK_THROWS(quo::Context::from_fortran(MPI_Comm_c2f(MPI_COMM_WORLD), options),
                 RecoverableError, invalid_argument, "QUO_create_with_options_f2c");
    if (check::sum(1) > 1) {
        const auto flags = 0 == check::rank ? quo::CreateFlags::no_mt : quo::CreateFlags::none;
        CHECK_THROWS(quo::Context(MPI_COMM_WORLD, flags), RecoverableError, disagree,
                     "QUO_create_with_flags");
    }
}

void
moves_hand_over_and_leave_an_empty_one()
{
    static_assert(!std::is_copy_constructible_v<quo::Context>);
    static_assert(!std::is_copy_assignable_v<quo::Context>);
    static_assert(std::is_nothrow_move_constructible_v<quo::Context>);
    static_assert(std::is_nothrow_move_assignable_v<quo::Context>);

    quo::Context first;
    const QUO_context handle = first.handle();
    quo::Context second(std::move(first));
    CHECK(second.handle() == handle);
    CHECK(first.handle() == nullptr && !first.owned() && second.owned());
    CHECK_THROWS(first.ncores(), RecoverableError, invalid_argument, "QUO_ncores");
    first.free();

    quo::Context third(MPI_COMM_SELF);
    const QUO_context replaced = third.handle();
    third = std::move(second);
    CHECK(third.handle() == handle);
    int out = 0;
    CHECK_EQUAL(QUO_ncores(replaced, &out), static_cast<int>(QUO_ERR_INVLD_HANDLE));
    quo::Context &same = third;
    third = std::move(same);
    CHECK(third.handle() == handle);
    third.barrier();
    third.free();
    CHECK(third.handle() == nullptr);
    CHECK_EQUAL(QUO_ncores(handle, &out), static_cast<int>(QUO_ERR_INVLD_HANDLE));
}

void
handles_of_others_are_used_and_left()
{
    QUO_context handle = nullptr;
    CHECK_EQUAL(QUO_create(&handle, MPI_COMM_WORLD), QUO_SUCCESS);
    {
        quo::Context borrowed = quo::Context::borrow(handle);
        CHECK(!borrowed.owned());
        borrowed.barrier();
        quo::Context moved(std::move(borrowed));
        CHECK(!moved.owned());
        quo::Context(MPI_COMM_SELF) = quo::Context::borrow(handle);
    }
    int out = 0;
    CHECK_EQUAL(QUO_ncores(handle, &out), QUO_SUCCESS);
    quo::Context::borrow(handle).free();
    CHECK_EQUAL(QUO_ncores(handle, &out), QUO_SUCCESS);
    {
        const quo::Context adopted = quo::Context::adopt(handle);
        CHECK(adopted.owned());
    }
    CHECK_EQUAL(QUO_ncores(handle, &out), static_cast<int>(QUO_ERR_INVLD_HANDLE));

    quo::Context context;
    handle = context.release();
    CHECK(context.handle() == nullptr);
    CHECK_EQUAL(QUO_free(handle), QUO_SUCCESS);
    CHECK_THROWS(quo::Context::adopt(handle).barrier(), RecoverableError, invalid_handle,
                 "QUO_barrier");
}

void
what_lives_longer_keeps_the_context_busy()
{
    quo::Context context;
    const QUO_context handle = context.handle();
    std::optional<quo::Phase> phase(std::in_place, context);
    CHECK_THROWS(context.free(), RecoverableError, busy, "QUO_free");
    CHECK(context.handle() == handle);
    /* The wrong order of destruction: the context is leaked, and nothing breaks. */
    { const quo::Context dies_first(std::move(context)); }
    int out = 0;
    CHECK_EQUAL(QUO_ncores(handle, &out), QUO_SUCCESS);
    CHECK_EQUAL(phase->run([] {}), !phase->qids().empty());
    phase.reset();
    quo::Context::adopt(handle).free();
    CHECK_EQUAL(QUO_ncores(handle, &out), static_cast<int>(QUO_ERR_INVLD_HANDLE));
}

void
unwinding_one_rank_alone_does_not_wait_for_the_others()
{
    QUO_context handle = nullptr;
    const std::string before = quo::Context(MPI_COMM_SELF).stringify_cbind();
    quo::Context kept;
    try {
        quo::Context context(std::move(kept));
        handle = context.handle();
        context.bind_push(quo::BindPushPolicy::object, quo::ObjectType::pu);
        if (0 == check::rank) throw std::string("only here");
        context.bind_pop();
        kept = std::move(context);
    } catch (const std::string &) {
        /* The binding is restored, the rest is leaked: the others still have the context. */
        const quo::Context left = quo::Context::borrow(handle);
        CHECK_EQUAL(left.stringify_cbind(), before);
        CHECK_THROWS(left.bind_pop(), RecoverableError, pop, "");
        kept = quo::Context::adopt(handle);
    }
    kept.barrier();
    /* A context created while another exception propagates is freed as usual. */
    struct Late {
        ~Late() { quo::Context().barrier(); }
    };
    try {
        Late late;
        throw 1;
    } catch (int) {
    }
    kept.free();
}

void
scopes_are_contexts_of_a_part()
{
    const quo::Context context;
    const int pus = context.npus();
    if (pus < 2) return;
    const std::string before = context.stringify_cbind();
    const int part = check::rank % 2;
    {
        const quo::Context scope = context.split_by_weight(quo::ObjectType::pu, {1, 1}, part);
        CHECK(scope.owned() && scope.npus() < pus);
        quo::Phase(scope, quo::PhaseSpec().over(quo::ObjectType::machine)).run([] {});
        const auto alone = quo::PhaseSpec()
                               .over(quo::ObjectType::machine)
                               .sharing(quo::Sharing::wait)
                               .pinning(quo::Pinning::spread)
                               .sharing_limit(std::chrono::seconds(60));
        CHECK(quo::Sharing::wait == alone.sharing() && 60.0 == alone.sharing_limit());
        CHECK(quo::Pinning::spread == alone.pinning());
        const quo::Phase pinned(scope, alone);
        pinned.run([&pinned] { pinned.pin_thread(0, 1); });
        CHECK_THROWS(pinned.pin_thread(0, 1), RecoverableError, invalid_argument, "run");
        scope.barrier();
    }
    CHECK_EQUAL(context.stringify_cbind(), before);
    quo::Context one = context.split_by_count(quo::ObjectType::pu, {1}, 0);
    CHECK_EQUAL(one.npus(), 1);
    one.free();
    CHECK_THROWS(context.split_by_weight(quo::ObjectType::pu, {1, 0}, part),
                 RecoverableError, invalid_argument, "part 1");
}

void
waiting_ranks_lend_their_cpus()
{
    const quo::Context context(MPI_COMM_WORLD, quo::CreateFlags::lend);
    const std::string before = context.stringify_cbind();
    const bool borrows = 0 == context.id();
    if (!borrows) CHECK(context.lend() && !context.lend());
    context.barrier();
    quo::Context::Borrowed borrowed;
    if (borrows) borrowed = context.borrow_cpus();
    CHECK(borrowed.cpus < context.npus() && borrowed.threads > borrowed.cpus);
    CHECK(!context.borrow_wanted());
    if (borrows) CHECK_EQUAL(context.lenders(), context.nqids() - 1);
    context.barrier();
    if (!borrows) CHECK(context.reclaim() && !context.reclaim());
    context.barrier();
    CHECK_EQUAL(context.borrow_wanted(), borrowed.cpus > 0);
    CHECK_EQUAL(context.give_back(), borrowed.cpus > 0);
    CHECK_EQUAL(context.stringify_cbind(), before);
}

void
devices_are_shared_out()
{
    const quo::Context context;
    for (const auto kind :
         {quo::DeviceKind::gpu, quo::DeviceKind::network, quo::DeviceKind::storage}) {
        const int count = context.ndevices(kind), mine = context.assign_device(kind);
        CHECK(mine < count && (mine >= 0) == (count > 0));
        for (int index = 0; index < count; ++index) {
            const quo::Context::Device device = context.device(kind, index);
            CHECK(!device.bus.empty());
            CHECK(context.device_in_type(kind, index, quo::ObjectType::machine, 0));
            (void)context.device_is_near(kind, index);
        }
        if (count > 0) {
            const quo::Context scope =
                context.split_by_device(quo::ObjectType::core, kind, 0);
            CHECK(scope.npus() > 0 && scope.nqids() == context.nqids());
        }
        CHECK_THROWS(context.split_by_device(quo::ObjectType::core, kind, count),
                     RecoverableError, invalid_argument, "there is no");
        CHECK_THROWS(context.device(kind, count), RecoverableError, invalid_argument, "there is no");
    }
    CHECK_THROWS(context.visible_devices(-1), RecoverableError, invalid_argument, "gpu");
}

} // namespace

int
main(int argc, char **argv)
{
    CHECK_THROWS(quo::Context(), RecoverableError, call_before_init, "MPI_Init");
    return check::main(argc, argv, [] {
        every_way_to_create();
        what_cannot_be_created_throws_everywhere();
        moves_hand_over_and_leave_an_empty_one();
        handles_of_others_are_used_and_left();
        what_lives_longer_keeps_the_context_busy();
        unwinding_one_rank_alone_does_not_wait_for_the_others();
        scopes_are_contexts_of_a_part();
        waiting_ranks_lend_their_cpus();
        devices_are_shared_out();
    });
}
