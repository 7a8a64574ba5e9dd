/* Memory and View: blocks in the order of the qids, views within bounds, types that fit. */
#include "check.hpp"

#include <array>
#include <numeric>

namespace {

using quo::Memory;
using quo::View;

void
blocks_lie_in_order_and_are_shared(const quo::Context &ctx)
{
    const int me = ctx.id(), ranks = ctx.nqids();
    /* qid r owns r elements, so qid 0 owns none. */
    Memory<int> memory(ctx, static_cast<std::size_t>(me));
    CHECK_EQUAL(memory.local().size(), static_cast<std::size_t>(me));
    for (int &value : memory.local()) {
        CHECK_EQUAL(value, 0);
        value = 100 + me;
    }
    ctx.barrier();
    const View<int> all = memory.all();
    CHECK_EQUAL(all.size(), static_cast<std::size_t>(ranks * (ranks - 1) / 2));
    std::size_t at = 0;
    for (int other = 0; other < ranks; ++other) {
        const View<int> block = memory.of(other);
        CHECK_EQUAL(block.size(), static_cast<std::size_t>(other));
        for (int value : block) {
            CHECK_EQUAL(value, 100 + other);
            CHECK_EQUAL(all[at++], value);
        }
    }
    CHECK(memory.range(0, ranks - 1).size() == all.size());
    CHECK_EQUAL(memory.range(quo::Qids(0, ranks)).size(), all.size());
    CHECK(memory.range(quo::Qids()).empty());
    CHECK_THROWS(memory.of(ranks), RecoverableError, invalid_argument, "QUO_xpm_view_by_qid");
    CHECK_THROWS(memory.of(-1), RecoverableError, invalid_argument, "");
    CHECK_THROWS(memory.range(0, ranks), RecoverableError, invalid_argument,
                 "QUO_xpm_view_by_qid_range");
    ctx.barrier();

    static_assert(!std::is_copy_constructible_v<Memory<int>>);
    Memory<int> moved(std::move(memory));
    CHECK(memory.handle() == nullptr);
    CHECK_THROWS(memory.local(), RecoverableError, invalid_argument, "QUO_xpm_view_local");
    CHECK_EQUAL(moved.all().size(), all.size());
    moved.free();
    moved.free();
    CHECK(moved.handle() == nullptr);
}

void
some_ranks_share_among_themselves(const quo::Context &ctx)
{
    const int me = ctx.id();
    std::vector<int> members;
    for (int other = me % 2; other < ctx.nqids(); other += 2) members.push_back(other);
    const Memory<double> memory(ctx, members, 1);
    memory.local().front() = me;
    ctx.barrier();
    CHECK_EQUAL(memory.all().size(), members.size());
    for (std::size_t i = 0; i < members.size(); ++i) CHECK(memory.all().at(i) == members[i]);
    if (ctx.nqids() > 1) {
        CHECK_THROWS(memory.of(1 - me % 2), RecoverableError, invalid_argument, "");
    }
    const Memory<char> alone(ctx, {me}, 3);
    CHECK_EQUAL(alone.all().size(), 3U);
    ctx.barrier();
    CHECK_THROWS(Memory<char>(ctx, std::vector<int>(), 3), RecoverableError, invalid_argument,
                 "QUO_xpm_allocate_by_qids");
    CHECK_THROWS(Memory<char>(ctx, {me, me}, 3), RecoverableError, invalid_argument, "");
    CHECK_THROWS(Memory<char>(ctx, {me, 9999}, 3), RecoverableError, invalid_argument, "");
}

void
too_much_fails_everywhere(const quo::Context &ctx)
{
    const std::size_t count = 0 == ctx.id() ? SIZE_MAX / 4 : 1;
    int code = 0;
    try {
        const Memory<double> memory(ctx, count);
    } catch (const quo::Error &error) {
        code = error.code().value();
    }
    CHECK(QUO_SUCCESS != code);
    CHECK(check::same_everywhere(code));
    ctx.barrier();
}

void
elements_must_fit(const quo::Context &ctx)
{
    struct Cell {
        std::array<double, 3> speed;
        int kind;
    };
    Memory<Cell> cells(ctx, 4);
    cells.local()[3].kind = 5;
    CHECK_EQUAL(cells.local().back().kind, 5);
    CHECK_EQUAL(cells.local().size_bytes(), 4 * sizeof(Cell));
    if (ctx.nqids() > 1) {
        /* Rank 0 gives bytes, the others wider elements: a block whose size is not a multiple of theirs. */
        const int me = ctx.id();
        QUO_xpm_context handle = nullptr;
        if (0 == me) {
            const Memory<char> bytes(ctx, 3);
            CHECK_EQUAL(bytes.of(0).size(), 3U);
            CHECK_EQUAL(bytes.of(1).size(), sizeof(double));
            ctx.barrier();
        } else {
            const Memory<double> wide(ctx, 1);
            handle = wide.handle();
            CHECK(nullptr != handle);
            CHECK_THROWS(wide.of(0), RecoverableError, invalid_argument, "quo::Memory");
            CHECK_THROWS(wide.local(), RecoverableError, invalid_argument, "quo::Memory");
            ctx.barrier();
        }
    }
}

void
memory_may_outlive_its_context()
{
    std::optional<Memory<int>> memory;
    {
        const quo::Context ctx;
        memory.emplace(ctx, 2U);
        memory->local()[1] = 9;
    }
    CHECK_EQUAL(memory->local().at(1), 9);
}

void
views_stay_inside()
{
    std::array<int, 5> numbers{};
    std::iota(numbers.begin(), numbers.end(), 0);
    const View<int> view(numbers.data(), numbers.size());
    CHECK_EQUAL(std::accumulate(view.begin(), view.end(), 0), 10);
    CHECK_EQUAL(view[4] + view.at(1) + view.front() + view.back(), 9);
    CHECK_EQUAL(view.first(2).back(), 1);
    CHECK_EQUAL(view.last(2).front(), 3);
    CHECK_EQUAL(view.subview(1, 2).size(), 2U);
    CHECK_EQUAL(view.subview(1).size(), 4U);
    CHECK(view.subview(5).empty() && view.first(0).empty() && View<int>().empty());
    CHECK_EQUAL(view.size_bytes(), sizeof(numbers));
    CHECK_THROWS_STANDARD(view.at(5), out_of_range);
    CHECK_THROWS_STANDARD(view.first(6), out_of_range);
    CHECK_THROWS_STANDARD(view.last(6), out_of_range);
    CHECK_THROWS_STANDARD(view.subview(6), out_of_range);
    CHECK_THROWS_STANDARD(view.subview(2, 4), out_of_range);
    CHECK_THROWS_STANDARD(view.subview(1, SIZE_MAX - 1), out_of_range);
    CHECK_THROWS_STANDARD(View<int>().front(), out_of_range);
    CHECK_THROWS_STANDARD(View<int>().back(), out_of_range);

    const View<const int> reading = view;
    CHECK(reading.data() == view.data() && reading.size() == view.size());
    static_assert(!std::is_convertible_v<View<const int>, View<int>>);
    struct Base {};
    struct Derived : Base {};
    static_assert(!std::is_convertible_v<View<Derived>, View<Base>>);
    static_assert(std::is_trivially_copyable_v<View<int>>);
#if defined(__cpp_lib_span)
    const std::span<int> span = view;
    const std::span<const int> reading_span = view;
    const std::span<const int> from_temporary = View<const int>(view);
    CHECK(span.data() == view.data() && span.size() == view.size());
    CHECK(reading_span.size() + from_temporary.size() == 10);
#endif
}

} // namespace

int
main(int argc, char **argv)
{
    views_stay_inside();
    return check::main(argc, argv, [] {
        {
            const quo::Context ctx;
            blocks_lie_in_order_and_are_shared(ctx);
            some_ranks_share_among_themselves(ctx);
            too_much_fails_everywhere(ctx);
            elements_must_fit(ctx);
        }
        memory_may_outlive_its_context();
    });
}
