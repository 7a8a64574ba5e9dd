/* BindGuard and the pushes beneath it: every form, nesting, moves, early ends, exceptions. */
#include "check.hpp"

namespace {

using quo::BindGuard;
using quo::BindPushPolicy;
using quo::ObjectType;

void
every_form_pushes_and_pops(const quo::Context &ctx, const std::vector<int> &usable)
{
    const std::string before = ctx.stringify_cbind();
    for (int pu : usable) {
        const quo::Object object = ctx.objects(ObjectType::pu)[pu];
        const quo::CpuSet cpus = object.cpus();
        {
            const BindGuard provided(ctx, BindPushPolicy::provided, ObjectType::pu, pu);
            CHECK_EQUAL(ctx.binding(), cpus);
            const BindGuard around(ctx, BindPushPolicy::object, ObjectType::machine);
            CHECK(ctx.binding().contains(cpus));
            const BindGuard by_object(ctx, object);
            CHECK_EQUAL(ctx.binding(), cpus);
            const BindGuard wide(ctx, BindPushPolicy::OBJECT, ObjectType::MACHINE, -1);
            const BindGuard by_list(ctx, cpus.str());
            CHECK_EQUAL(ctx.stringify_cbind(), cpus.str());
            const BindGuard by_text(ctx, cpus.str().c_str());
            const BindGuard wide_again(ctx, BindPushPolicy::provided, ObjectType::machine, 0);
            const BindGuard by_set(ctx, cpus);
            CHECK_EQUAL(ctx.binding(), cpus);
        }
        CHECK_EQUAL(ctx.stringify_cbind(), before);
        ctx.bind_push_cpuset(cpus);
        ctx.bind_push(BindPushPolicy::object, ObjectType::machine);
        ctx.bind_pop();
        CHECK_EQUAL(ctx.binding(), cpus);
        ctx.bind_pop();
    }
    CHECK_EQUAL(ctx.stringify_cbind(), before);
}

void
guards_move_and_end_early(const quo::Context &ctx, const std::vector<int> &usable)
{
    static_assert(!std::is_copy_constructible_v<BindGuard>);
    static_assert(std::is_nothrow_move_constructible_v<BindGuard>);
    const std::string before = ctx.stringify_cbind();
    const quo::Object first = ctx.objects(ObjectType::pu)[usable.front()];

    BindGuard outer(ctx, first);
    BindGuard moved(std::move(outer));
    CHECK(!outer.active() && moved.active());
    outer.pop();
    CHECK_EQUAL(ctx.binding(), first.cpus());
    moved.pop();
    CHECK(!moved.active());
    CHECK_EQUAL(ctx.stringify_cbind(), before);
    moved.pop();

    /* Assignment pops the previous push: here the one on top. */
    BindGuard below(ctx, first);
    BindGuard above(ctx, BindPushPolicy::object, ObjectType::machine);
    above = std::move(below);
    CHECK(above.active() && !below.active());
    CHECK_EQUAL(ctx.binding(), first.cpus());
    BindGuard &same = above;
    above = std::move(same);
    CHECK(above.active());
    CHECK(above.release() == ctx.handle());
    CHECK(!above.active());
    CHECK_EQUAL(ctx.binding(), first.cpus());
    ctx.bind_pop();

    BindGuard alone(ctx, first);
    ctx.bind_pop();
    CHECK_THROWS(alone.pop(), RecoverableError, pop, "QUO_bind_pop");
    CHECK(!alone.active());
    CHECK_EQUAL(ctx.stringify_cbind(), before);
}

void
an_exception_ends_guards(const quo::Context &ctx, const std::vector<int> &usable)
{
    const std::string before = ctx.stringify_cbind();
    try {
        const BindGuard narrow(ctx, ctx.objects(ObjectType::pu)[usable.back()]);
        const BindGuard wide(ctx, BindPushPolicy::object, ObjectType::machine);
        throw std::logic_error("in between");
    } catch (const std::logic_error &) {
    }
    CHECK_EQUAL(ctx.stringify_cbind(), before);
    CHECK_THROWS(ctx.bind_pop(), RecoverableError, pop, "");
}

void
what_cannot_be_pushed_leaves_no_guard(const quo::Context &ctx)
{
    const std::string before = ctx.stringify_cbind();
    CHECK_THROWS(BindGuard(ctx, BindPushPolicy::provided, ObjectType::pu), RecoverableError,
                 invalid_argument, "QUO_bind_push");
    CHECK_THROWS(BindGuard(ctx, BindPushPolicy::provided, check::no_type, 0), RecoverableError,
                 invalid_argument, "99");
    CHECK_THROWS(BindGuard(ctx, static_cast<BindPushPolicy>(7), ObjectType::pu, 0),
                 RecoverableError, invalid_argument, "7");
    CHECK_THROWS(BindGuard(ctx, "0,"), RecoverableError, invalid_argument, "QUO_bind_push_cpuset");
    CHECK_THROWS(BindGuard(ctx, quo::CpuSet()), RecoverableError, invalid_argument,
                 "QUO_bind_push_cpuset");
    CHECK_THROWS(BindGuard(ctx, ctx.objects(ObjectType::pu)[-3]), RecoverableError,
                 invalid_argument, "");
    CHECK_EQUAL(ctx.stringify_cbind(), before);
    CHECK_THROWS(ctx.bind_pop(), RecoverableError, pop, "");
}

void
a_guard_may_outlive_its_context(const std::vector<int> &usable)
{
    quo::Context ctx;
    const std::string before = ctx.stringify_cbind();
    quo::Context moved;
    {
        const BindGuard guard(ctx, ctx.objects(ObjectType::pu)[usable.front()]);
        moved = std::move(ctx);
        CHECK_EQUAL(moved.binding(), moved.objects(ObjectType::pu)[usable.front()].cpus());
    }
    CHECK_EQUAL(moved.stringify_cbind(), before);
    BindGuard late(moved, moved.objects(ObjectType::pu)[usable.front()]);
    moved.free();
    CHECK_EQUAL(quo::Context().stringify_cbind(), before);
    CHECK_THROWS(late.pop(), RecoverableError, invalid_handle, "QUO_bind_pop");
}

} // namespace

int
main(int argc, char **argv)
{
    return check::main(argc, argv, [] {
        const quo::Context ctx;
        const std::vector<int> usable = check::usable_pus(ctx);
        every_form_pushes_and_pops(ctx, usable);
        guards_move_and_end_early(ctx, usable);
        an_exception_ends_guards(ctx, usable);
        what_cannot_be_pushed_leaves_no_guard(ctx);
        a_guard_may_outlive_its_context(usable);
    });
}
