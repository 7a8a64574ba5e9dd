/* A program as written for the C++ classes of QUO: every one of their classes, methods and names. */
#include "check.hpp"

namespace {

int
objects_of_mine(quo::Context const &ctx)
{
    const quo::NodeInfo info(ctx);
    const std::vector<int> machines = info.machines(), nodes = info.numa_nodes(),
                           sockets = info.sockets(), cores = info.cores(),
                           pus = info.processing_units();
    CHECK(info.objects_by_type(quo::ObjectType::CORE) == cores);
    return static_cast<int>(machines.size() + nodes.size() + sockets.size() + cores.size() +
                            pus.size());
}

void
use(quo::Context const &ctx)
{
    const std::pair<int, int> version = quo::version();
    CHECK(version.first >= 0 && version.second >= 0);
    for (quo::ObjectType type : {quo::ObjectType::MACHINE, quo::ObjectType::NODE,
                                 quo::ObjectType::SOCKET, quo::ObjectType::CORE,
                                 quo::ObjectType::PROCESSING_UNIT}) {
        const int count = ctx.nobjs_by_type(type);
        CHECK(count > 0);
        for (int index = 0; index < count; ++index) {
            const bool inside = ctx.cpuset_in_type(type, index);
            const std::vector<int> qids = ctx.qids_in_type(type, index);
            CHECK_EQUAL(inside, std::find(qids.begin(), qids.end(), ctx.id()) != qids.end());
            CHECK(ctx.nobjs_in_type_by_type(type, index, quo::ObjectType::PROCESSING_UNIT) > 0);
        }
        CHECK(!check::shown(quo::to_string(type)).empty());
    }
    CHECK(ctx.nnumanodes() > 0 && ctx.nsockets() > 0 && ctx.ncores() > 0 && ctx.nnodes() > 0);
    CHECK(ctx.nqids() > ctx.id());
    const std::string before = ctx.stringify_cbind();
    const bool bound = ctx.bound();
    const int mine = objects_of_mine(ctx);
    {
        quo::BindGuard guard(ctx, quo::BindPushPolicy::PROVIDED, quo::ObjectType::MACHINE, 0);
        CHECK(!ctx.bound());
        CHECK(objects_of_mine(ctx) >= mine);
    }
    ctx.bind_push(quo::BindPushPolicy::OBJECT, quo::ObjectType::MACHINE, -1);
    ctx.bind_pop();
    CHECK_EQUAL(ctx.stringify_cbind(), before);
    CHECK_EQUAL(ctx.bound(), bound);
    CHECK_EQUAL(check::sum(ctx.auto_distrib(quo::ObjectType::MACHINE, 1) ? 1 : 0), ctx.nnodes());
    ctx.barrier();
    /* Errors were std::runtime_error. */
    CHECK_THROWS_STANDARD(ctx.bind_pop(), runtime_error);
}

} // namespace

int
main(int argc, char **argv)
{
    return check::main(argc, argv, [] {
        quo::Context const ctx;
        use(ctx);
        use(quo::Context(MPI_COMM_WORLD));
    });
}
