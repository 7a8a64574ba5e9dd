/* Objects of the machine and bindings of ranks: queries, Objects, NodeInfo, CpuSet, Qids, Comm. */
#include "check.hpp"

#include <cstring>

namespace {

using quo::ObjectType;

void
counts_are_those_of_c(const quo::Context &ctx)
{
    const QUO_context q = ctx.handle();
    int out = -1;
    const auto asks = [&](int (*ask)(QUO_context, int *), int answer) {
        CHECK_EQUAL(ask(q, &out), QUO_SUCCESS);
        CHECK_EQUAL(answer, out);
    };
    asks(QUO_nnumanodes, ctx.nnumanodes());
    asks(QUO_nsockets, ctx.nsockets());
    asks(QUO_ncores, ctx.ncores());
    asks(QUO_npus, ctx.npus());
    asks(QUO_nnodes, ctx.nnodes());
    asks(QUO_nqids, ctx.nqids());
    asks(QUO_id, ctx.id());
    asks(QUO_bound, ctx.bound() ? 1 : 0);
    for (ObjectType type : check::types) {
        CHECK_EQUAL(QUO_nobjs_by_type(q, static_cast<QUO_obj_type_t>(type), &out), QUO_SUCCESS);
        CHECK_EQUAL(ctx.nobjs_by_type(type), out);
        for (int index = 0; index < out; ++index) {
            int inner = -1;
            CHECK_EQUAL(QUO_nobjs_in_type_by_type(q, static_cast<QUO_obj_type_t>(type), index,
                                                  QUO_OBJ_PU, &inner),
                        QUO_SUCCESS);
            CHECK_EQUAL(ctx.nobjs_in_type_by_type(type, index, ObjectType::pu), inner);
            CHECK_EQUAL(static_cast<int>(ctx.cpuset_of_type(type, index).size()), inner);
        }
    }
    CHECK_THROWS(ctx.nobjs_by_type(check::no_type), RecoverableError, invalid_argument, "99");
    CHECK_THROWS(ctx.cpuset_in_type(ObjectType::pu, ctx.npus()), RecoverableError,
                 invalid_argument, "QUO_cpuset_in_type");
    const quo::CoreKind fastest = ctx.core_kind(ctx.ncore_kinds() - 1);
    CHECK(fastest.speed >= 0 && !fastest.cpus.empty());
    CHECK_THROWS(ctx.core_kind(ctx.ncore_kinds()), RecoverableError, invalid_argument,
                 "QUO_core_kind");
    CHECK_THROWS(ctx.cpuset_of_type(ObjectType::pu, -1), RecoverableError, invalid_argument,
                 "QUO_cpuset_of_type");
    CHECK_THROWS(ctx.qids_in_type(ObjectType::pu, -1), RecoverableError, invalid_argument,
                 "QUO_qids_in_type");
}

void
objects_are_a_range(const quo::Context &ctx)
{
    for (ObjectType type : check::types) {
        const quo::Objects objects = ctx.objects(type);
        int index = 0;
        quo::CpuSet all;
        for (quo::Object object : objects) {
            CHECK_EQUAL(object.index(), index);
            CHECK_EQUAL(object.type(), type);
            CHECK(object == objects[index] && object == objects.at(index));
            CHECK_EQUAL(object.cpus(), ctx.cpuset_of_type(type, index));
            CHECK(object.qids() == ctx.qids_in_type(type, index));
            CHECK_EQUAL(object.contains_me(), ctx.cpuset_in_type(type, index));
            CHECK_EQUAL(object.nobjs(ObjectType::pu), static_cast<int>(object.cpus().size()));
            all = all | object.cpus();
            ++index;
        }
        CHECK_EQUAL(index, objects.size());
        CHECK_EQUAL(index, ctx.nobjs_by_type(type));
        CHECK_EQUAL(objects.empty(), 0 == index);
        if (ObjectType::pu == type) CHECK_EQUAL(all, ctx.cpuset_of_type(ObjectType::machine, 0));
        CHECK_THROWS_STANDARD(objects.at(index), out_of_range);
        CHECK_THROWS_STANDARD(objects.at(-1), out_of_range);
        CHECK_THROWS(objects[index].cpus(), RecoverableError, invalid_argument, "");
    }
    const auto packages = ctx.objects(ObjectType::package);
    CHECK_EQUAL(static_cast<int>(std::distance(packages.begin(), packages.end())), packages.size());
    const auto found = std::find_if(packages.begin(), packages.end(),
                                    [](const quo::Object &object) { return object.contains_me(); });
    CHECK(found != packages.end());
    CHECK(packages[0] != ctx.objects(ObjectType::core)[0]);
    CHECK_EQUAL(check::shown(packages[0]), "package 0");
    CHECK_EQUAL(check::shown(quo::BindPushPolicy::PROVIDED == quo::BindPushPolicy::provided), "1");
    CHECK_THROWS(ctx.objects(check::no_type), RecoverableError, invalid_argument, "99");
#if __cplusplus >= 202002L
    static_assert(std::forward_iterator<quo::Objects::iterator>);
    static_assert(std::forward_iterator<quo::Qids::iterator>);
#endif
}

void
bindings_are_told_in_every_form(const quo::Context &ctx)
{
    const int me = ctx.id();
    CHECK_EQUAL(ctx.binding().str(), ctx.stringify_cbind());
    CHECK_EQUAL(ctx.stringify_cbind_of(me), ctx.stringify_cbind());
    CHECK_EQUAL(ctx.binding_of(me), ctx.binding());
    CHECK_THROWS(ctx.binding_of(ctx.nqids()), RecoverableError, invalid_argument,
                 "QUO_stringify_cbind_of");
    CHECK(ctx.explain().size() > 20);
    const std::string json = ctx.explain_json();
    CHECK(!json.empty() && '{' == json.front() && '}' == json.back());
}

void
node_info_follows_the_binding(const quo::Context &ctx)
{
    const quo::NodeInfo info(ctx);
    const std::vector<int> usable = check::usable_pus(ctx);
    CHECK(info.machines() == std::vector<int>{0});
    {
        const int pu = usable[static_cast<std::size_t>(ctx.id()) % usable.size()];
        const quo::BindGuard narrow(ctx, quo::BindPushPolicy::PROVIDED, ObjectType::PROCESSING_UNIT,
                                    pu);
        CHECK(info.processing_units() == std::vector<int>{pu});
        CHECK_EQUAL(info.cores().size(), 1U);
        CHECK_EQUAL(info.numa_nodes().size(), 1U);
        CHECK(info.sockets() == info.packages());
        CHECK(info.sockets() == info.objects_by_type(ObjectType::SOCKET));
        const quo::NodeSnapshot now = info.snapshot();
        CHECK_EQUAL(now.ranks.at(static_cast<std::size_t>(now.id)).binding, ctx.binding());
        CHECK_EQUAL(now.bound, usable.size() > 1);
    }
    const quo::NodeSnapshot now = info.snapshot();
    CHECK_EQUAL(now.nodes, ctx.nnodes());
    CHECK_EQUAL(now.id, ctx.id());
    CHECK_EQUAL(now.packages, ctx.nsockets());
    CHECK_EQUAL(now.numa_nodes, ctx.nnumanodes());
    CHECK_EQUAL(now.cores, ctx.ncores());
    CHECK_EQUAL(now.pus, ctx.npus());
    CHECK_EQUAL(static_cast<int>(now.ranks.size()), ctx.nqids());
    CHECK_EQUAL(static_cast<int>(now.places.size()), now.packages + now.numa_nodes);
    for (const auto &place : now.places) {
        CHECK_EQUAL(place.cpus, ctx.cpuset_of_type(place.type, place.index));
    }
    for (const auto &rank : now.ranks) CHECK(rank.alive);
    const std::string text = check::shown(info);
    CHECK(text.find("package 0: CPUs") != std::string::npos);
    CHECK(text.find("rank " + std::to_string(ctx.id()) + " (me): CPUs") != std::string::npos);
    quo::NodeSnapshot lost;
    lost.ranks.push_back({3, false, {}});
    lost.places.push_back({ObjectType::package, 0, {0, 1}, {}});
    CHECK(check::shown(lost).find("rank 3: dead") != std::string::npos);
    CHECK(check::shown(lost).find("CPUs 0-1, ranks none") != std::string::npos);
}

void
cpu_sets_are_sets_and_ranges()
{
    const quo::CpuSet set = quo::CpuSet::parse("8,0-3,2-4");
    CHECK_EQUAL(set.str(), "0-4,8");
    CHECK_EQUAL(check::shown(set), "0-4,8");
    CHECK(set == (quo::CpuSet{8, 4, 3, 2, 1, 0, 0}));
    CHECK_EQUAL(set.size(), 6U);
    CHECK(std::vector<int>(set.begin(), set.end()) == (std::vector<int>{0, 1, 2, 3, 4, 8}));
    CHECK(set.contains(8) && !set.contains(7) && set.contains(quo::CpuSet{0, 8}));
    CHECK(!set.contains(quo::CpuSet{0, 9}) && set.intersects({9, 4}) && !set.intersects({9}));
    const std::vector<int> numbers = {5, 1};
    const quo::CpuSet from_range(numbers.begin(), numbers.end());
    CHECK_EQUAL(from_range.str(), "1,5");
    CHECK_EQUAL((set & from_range).str(), "1");
    CHECK_EQUAL((set | from_range).str(), "0-5,8");
    CHECK_EQUAL((set - from_range).str(), "0,2-4,8");
    CHECK(set != from_range);
    CHECK(quo::CpuSet().empty() && quo::CpuSet::parse("").empty());
    CHECK_EQUAL(quo::CpuSet().str(), "");
    CHECK_EQUAL(quo::CpuSet::parse("1048575").size(), 1U);
    for (const char *wrong : {" ", "a", "3-1", "1,,2", "-", "1-", ",", "1,", "-1", "99999999999",
                              "1048576", "0-2000000000", "0x3", "0 1", "1-2-3", "+1"}) {
        CHECK_THROWS(quo::CpuSet::parse(wrong), RecoverableError, invalid_argument, wrong);
    }
    CHECK_THROWS((quo::CpuSet{3, -2}), RecoverableError, invalid_argument, "-2");

    const quo::Qids qids(3, 2);
    CHECK(std::vector<int>(qids.begin(), qids.end()) == (std::vector<int>{3, 4}));
    CHECK(qids.contains(4) && !qids.contains(5) && !qids.contains(2) && !qids.empty());
    CHECK_EQUAL(qids.front() + 10 * qids.back() + 100 * qids.size(), 243);
    CHECK(quo::Qids().empty() && quo::Qids().begin() == quo::Qids().end());
}

void
types_have_names()
{
    std::vector<std::string> names;
    for (ObjectType type : check::types) names.emplace_back(quo::to_string(type));
    std::sort(names.begin(), names.end());
    CHECK(std::unique(names.begin(), names.end()) == names.end());
    CHECK_EQUAL(std::string(quo::to_string(check::no_type)), "unknown type");
    std::ostringstream out;
    out << ObjectType::NODE << ' ' << quo::BindPushPolicy::OBJECT;
    CHECK_EQUAL(out.str(), "NUMA node object");
}

void
communicators_are_owned(const quo::Context &ctx)
{
    quo::Comm node = ctx.get_mpi_comm_by_type(ObjectType::machine);
    int size = 0, rank = -1;
    MPI_Comm_size(node, &size);
    MPI_Comm_rank(node, &rank);
    CHECK_EQUAL(size, ctx.nqids());
    CHECK_EQUAL(rank, ctx.id());
    quo::Comm moved(std::move(node));
    CHECK(MPI_COMM_NULL == node.get());
    MPI_Barrier(moved);
    node = std::move(moved);
    CHECK(MPI_COMM_NULL == moved.get() && MPI_COMM_NULL != node.get());
    MPI_Comm plain = node.release();
    MPI_Comm_size(plain, &size);
    CHECK_EQUAL(size, ctx.nqids());
    MPI_Comm_free(&plain);
    CHECK_THROWS(ctx.get_mpi_comm_by_type(check::no_type), RecoverableError, invalid_argument,
                 "QUO_get_mpi_comm_by_type");
    plain = MPI_Comm_f2c(ctx.get_mpi_comm_by_type_f2c(ObjectType::machine));
    MPI_Comm_size(plain, &size);
    CHECK_EQUAL(size, ctx.nqids());
    quo::Comm taken_over(plain);
    static_assert(!std::is_copy_constructible_v<quo::Comm>);
    static_assert(!std::is_convertible_v<quo::Comm &&, MPI_Comm>);
}

} // namespace

int
main(int argc, char **argv)
{
    cpu_sets_are_sets_and_ranges();
    types_have_names();
    return check::main(argc, argv, [] {
        const quo::Context ctx;
        counts_are_those_of_c(ctx);
        objects_are_a_range(ctx);
        bindings_are_told_in_every_form(ctx);
        /* From here on bindings change, which other ranks would see while they compare. */
        ctx.barrier();
        node_info_follows_the_binding(ctx);
        communicators_are_owned(ctx);
    });
}
