/* Barriers with and without a limit, NamedBarrier, distribution, members that leave and rejoin. */
#include "check.hpp"

namespace {

using quo::NamedBarrier;
using quo::ObjectType;
using namespace std::chrono_literals;

void
limits_are_any_duration(const quo::Context &ctx)
{
    for (int round = 0; round < 20; ++round) ctx.barrier();
    ctx.barrier(60s);
    ctx.barrier(std::chrono::minutes(1));
    ctx.barrier(std::chrono::duration<double>(60.5));
    CHECK_THROWS(ctx.barrier(-1s), RecoverableError, invalid_argument, "QUO_barrier_timed");
    if (ctx.nqids() > 1) {
        /* Rank 0 stays away; the others time out at once, and all get the error. */
        if (0 != ctx.id()) {
            CHECK_THROWS(ctx.barrier(0s), TimeoutError, timeout, "QUO_barrier_timed");
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (0 == ctx.id()) CHECK_THROWS(ctx.barrier(), TimeoutError, timeout, "QUO_barrier");
    }
    ctx.barrier();
}

void
named_barriers_are_independent(const quo::Context &ctx)
{
    const int me = ctx.id();
    NamedBarrier all(ctx, "all");
    for (int round = 0; round < 20; ++round) all.wait();
    all.wait(60000ms);
    if (ctx.nqids() > 1 && me < 2) {
        NamedBarrier pair(ctx, "pair", {0, 1});
        for (int round = 0; round < 20; ++round) pair.wait();
        NamedBarrier moved(std::move(pair));
        CHECK(pair.handle() == nullptr);
        CHECK_THROWS(pair.wait(), RecoverableError, invalid_argument, "QUO_named_barrier_wait");
        moved.wait();
        moved.free();
        moved.free();
        CHECK(moved.handle() == nullptr);
    }
    const NamedBarrier alone(ctx, "alone " + std::to_string(me), {me});
    alone.wait(0s);
    all.wait();
    CHECK_THROWS(all.wait(-1s), RecoverableError, invalid_argument, "QUO_named_barrier_wait_timed");
    const auto refused = [&](const std::string &name, const std::vector<int> &qids) {
        CHECK_THROWS(NamedBarrier(ctx, name, qids), RecoverableError, invalid_argument,
                     "QUO_named_barrier_create");
    };
    refused("", {me});
    refused(std::string(64, 'x'), {me});
    refused("x", {});
    refused("x", {me, me});
    refused("x", {me, 9999});
    static_assert(!std::is_copy_constructible_v<NamedBarrier>);
}

void
distribution_keeps_to_the_number(const quo::Context &ctx)
{
    const int everyone = check::sum(1);
    CHECK_EQUAL(check::sum(ctx.auto_distrib(ObjectType::machine, 1) ? 1 : 0), ctx.nnodes());
    CHECK_EQUAL(check::sum(ctx.auto_distrib(ObjectType::machine, 1000) ? 1 : 0), everyone);
    CHECK_EQUAL(ctx.auto_distrib(ObjectType::pu, 1, quo::DistribPolicy::spread),
                ctx.auto_distrib(ObjectType::pu, 1));
    const bool literal = ctx.auto_distrib(ObjectType::machine, 1, quo::DistribPolicy::libquo_compat);
    CHECK(check::sum(literal ? 1 : 0) <= everyone);
    CHECK_THROWS(ctx.auto_distrib(ObjectType::pu, 0), RecoverableError, invalid_argument,
                 "QUO_auto_distrib");
    CHECK_THROWS(ctx.auto_distrib(ObjectType::pu, 1, static_cast<quo::DistribPolicy>(5)),
                 RecoverableError, invalid_argument, "QUO_auto_distrib_with_policy");
    if (ctx.nqids() > 1) {
        CHECK_THROWS(ctx.auto_distrib(ObjectType::pu, 1 + ctx.id()), RecoverableError, disagree,
                     "QUO_auto_distrib");
    }
}

void
members_come_and_go(const quo::Context &ctx)
{
    CHECK(!ctx.attach());
    ctx.barrier();
    if (ctx.id() == ctx.nqids() - 1 && ctx.nqids() > 1) {
        CHECK(ctx.detach());
        CHECK(!ctx.detach());
        CHECK_THROWS(ctx.barrier(), RecoverableError, detached, "QUO_barrier");
        CHECK(ctx.ncores() > 0);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(ctx.attach());
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        for (int round = 0; round < 20; ++round) ctx.barrier();
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    ctx.barrier();
    CHECK(ctx.dead_qids().empty());
    CHECK_THROWS(ctx.expel(ctx.nqids()), RecoverableError, invalid_argument, "QUO_expel");
    CHECK_THROWS(ctx.expel(ctx.id()), RecoverableError, invalid_argument, "QUO_expel");
    ctx.barrier();
}

} // namespace

int
main(int argc, char **argv)
{
    return check::main(argc, argv, [] {
        const quo::Context ctx;
        limits_are_any_duration(ctx);
        named_barriers_are_independent(ctx);
        distribution_keeps_to_the_number(ctx);
        members_come_and_go(ctx);
    });
}
