/* Phase, PhaseGuard, PhaseSpec, Worker, PhaseMetrics; exceptions inside the work. */
#include "check.hpp"

#include <memory>

namespace {

using quo::ObjectType;
using quo::Phase;
using quo::PhaseSpec;
using quo::Worker;

struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
};

PhaseSpec
one_worker()
{
    return PhaseSpec().over(ObjectType::machine).name("solve");
}

void
run_calls_the_work_on_workers(const quo::Context &ctx)
{
    const Phase phase(ctx, one_worker());
    const std::string before = ctx.stringify_cbind();
    const int all = static_cast<int>(check::usable_pus(ctx).size());
    const bool selected = !phase.qids().empty();
    CHECK_EQUAL(check::sum(selected ? 1 : 0), ctx.nnodes());
    CHECK_EQUAL(phase.metrics().threads, 0);
    for (int round = 1; round <= 10; ++round) {
        int calls = 0;
        const bool worked = phase.run([&](const Worker &worker) {
            ++calls;
            CHECK_EQUAL(worker.threads(), all);
            CHECK_EQUAL(worker.cpus(), ctx.binding());
            CHECK_EQUAL(worker.qids().size(), ctx.nqids());
            CHECK(worker.qids().contains(ctx.id()));
            CHECK_THROWS(quo::Context::borrow(ctx.handle()).barrier(std::chrono::seconds(-1)),
                         RecoverableError, invalid_argument, "");
        });
        CHECK_EQUAL(calls, selected ? 1 : 0);
        CHECK_EQUAL(worked, selected);
        CHECK_EQUAL(ctx.stringify_cbind(), before);
    }
    const quo::PhaseMetrics metrics = phase.metrics();
    CHECK_EQUAL(metrics.selected, selected);
    CHECK_EQUAL(metrics.threads, selected ? all : 0);
    CHECK(metrics.run.count() >= 0 && metrics.quiesced.count() >= 0 && metrics.remap.count() >= 0);
    CHECK((selected ? metrics.run : metrics.quiesced) > quo::PhaseMetrics::Seconds(0));
}

void
run_returns_what_the_work_returns(const quo::Context &ctx)
{
    const Phase phase(ctx, one_worker());
    const bool selected = !phase.qids().empty();
    const std::optional<int> number = phase.run([] { return 42; });
    CHECK_EQUAL(number.has_value(), selected);
    CHECK_EQUAL(number.value_or(42), 42);
    const auto truth = phase.run([](const Worker &) { return false; });
    static_assert(std::is_same_v<decltype(truth), const std::optional<bool>>);
    CHECK(truth.has_value() == selected && !truth.value_or(false));
    /* A move-only result, from work that can only be called if not const. */
    auto owner = std::make_unique<int>(7);
    auto work = [owner = std::move(owner)](const Worker &) mutable { return std::move(owner); };
    const std::optional<std::unique_ptr<int>> moved = phase.run(work);
    CHECK_EQUAL(moved.has_value(), selected);
    if (moved) CHECK_EQUAL(**moved, 7);
    const auto constant = [](const Worker &worker) -> const Worker & { return worker; };
    const std::optional<Worker> copy = phase.run(constant);
    if (copy) CHECK(copy->threads() > 0 && !copy->cpus().empty());
    struct Plain {
        static void work() {}
    };
    CHECK_EQUAL(phase.run(&Plain::work), selected);
}

void
what_the_work_throws_comes_out_after_all_are_awake(const quo::Context &ctx)
{
    const Phase phase(ctx, one_worker());
    const std::string before = ctx.stringify_cbind();
    const bool selected = !phase.qids().empty();
    const auto told = [](const quo::RecoverableError &error, const char *reason) {
        CHECK(error.errc() == quo::Errc::work_failed);
        CHECK(std::string(error.what()).find(reason) != std::string::npos);
    };
    for (int round = 0; round < 5; ++round) {
        int caught = 0;
        try {
            phase.run([] { throw Broken("in the work"); });
        } catch (const Broken &broken) {
            CHECK_EQUAL(std::string(broken.what()), "in the work");
            caught = 1;
        } catch (const quo::RecoverableError &error) {
            told(error, "in the work");
            caught = 2;
        }
        CHECK_EQUAL(caught, selected ? 1 : 2);
        CHECK_EQUAL(ctx.stringify_cbind(), before);
        /* No rank was left behind. */
        ctx.barrier();
    }
    int odd = 0;
    try {
        phase.run([](const Worker &) -> int { throw 5; });
    } catch (int number) {
        odd = number;
    } catch (const quo::RecoverableError &error) {
        told(error, "an exception");
        odd = 6;
    }
    CHECK_EQUAL(odd, selected ? 5 : 6);
    /* Work that fails without an exception. */
    CHECK_THROWS(phase.run([&] { phase.fail("it diverged"); }), RecoverableError, work_failed,
                 "it diverged");
    {
        quo::PhaseGuard run = phase.begin();
        if (run) run.fail("it diverged again");
        CHECK_THROWS(run.end(), RecoverableError, work_failed, "it diverged again");
    }
    CHECK_THROWS(phase.fail("nothing has begun"), RecoverableError, not_begun,
                 "QUO_phase_fail");
    /* An error of the library inside the work is treated like any other exception. */
    bool named = false;
    try {
        phase.run([&] { ctx.bind_push(quo::BindPushPolicy::provided, ObjectType::pu, -1); });
    } catch (const quo::RecoverableError &error) {
        named = error.code() == quo::Errc::invalid_argument;
        if (!named) told(error, "QUO_bind_push");
    }
    CHECK_EQUAL(named, selected);
    ctx.barrier();
}

void
guards_begin_and_end(const quo::Context &ctx)
{
    Phase phase(ctx, one_worker());
    const std::string before = ctx.stringify_cbind();
    static_assert(!std::is_copy_constructible_v<quo::PhaseGuard>);
    static_assert(!std::is_copy_constructible_v<Phase>);
    for (int round = 0; round < 5; ++round) {
        const quo::PhaseGuard run = phase.begin();
        CHECK_EQUAL(run.selected(), !phase.qids().empty());
        CHECK_EQUAL(static_cast<bool>(run), run.threads() > 0);
        CHECK_EQUAL(run.qids().size(), run ? ctx.nqids() : 0);
        CHECK_THROWS(phase.begin(), RecoverableError, busy, "QUO_phase_begin");
        CHECK_THROWS(phase.free(), RecoverableError, busy, "QUO_phase_free");
    }
    CHECK_EQUAL(ctx.stringify_cbind(), before);

    quo::PhaseGuard run(phase);
    quo::PhaseGuard moved(std::move(run));
    CHECK(!run.active() && !run.selected() && run.qids().empty());
    CHECK(moved.active());
    run.end();
    moved.end();
    CHECK(!moved.active());
    CHECK_THROWS(quo::detail::check(QUO_phase_end(phase.handle())), RecoverableError, not_begun,
                 "QUO_phase_end");
    run = quo::PhaseGuard(phase);
    CHECK(run.active());
    quo::PhaseGuard &same = run;
    run = std::move(same);
    CHECK(run.active());
    run.end();
    moved.end();

    /* An exception on a worker ends its run, so that the others wake. */
    int unwound_as = 0;
    try {
        quo::PhaseGuard unwound = phase.begin();
        if (unwound) throw Broken("while the others sleep");
        unwound.end();
    } catch (const Broken &) {
        unwound_as = 1;
    } catch (const quo::RecoverableError &error) {
        CHECK(error.errc() == quo::Errc::work_failed);
        unwound_as = 2;
    }
    CHECK_EQUAL(unwound_as, phase.qids().empty() ? 2 : 1);
    CHECK_EQUAL(phase.run([] {}), !phase.qids().empty());
    CHECK_EQUAL(ctx.stringify_cbind(), before);
    ctx.barrier();
    phase.free();
    phase.free();
    CHECK_THROWS(phase.run([] {}), RecoverableError, invalid_argument, "QUO_phase_run");
}

void
specifications_are_built_and_checked(const quo::Context &ctx)
{
    const PhaseSpec plain;
    CHECK(ObjectType::package == plain.over() && 1 == plain.max_per_object());
    CHECK(quo::Threads::openmp == plain.threads() && plain.name().empty());
    {
        const Phase usual(ctx);
        const Phase one_per_pu(
            ctx, PhaseSpec().over(ObjectType::pu).max_per_object(1).threads(quo::Threads::openmp));
        const quo::PhaseGuard run = one_per_pu.begin();
        CHECK_EQUAL(run.threads(), run ? 1 : 0);
    }
    const auto refused = [&](const PhaseSpec &spec, const char *word) {
        CHECK_THROWS(Phase(ctx, spec), RecoverableError, invalid_argument, word);
        ctx.barrier();
    };
    refused(PhaseSpec().max_per_object(0), "max_per_object");
    refused(PhaseSpec().over(check::no_type), "99");
    refused(PhaseSpec().threads(static_cast<quo::Threads>(9)), "threads");
    if (ctx.nqids() > 1) {
        CHECK_THROWS(Phase(ctx, PhaseSpec().max_per_object(1 + ctx.id())), RecoverableError,
                     disagree, "QUO_phase_create");
    }
    Phase first(ctx), second(ctx, one_worker());
    const QUO_phase kept = second.handle();
    first = std::move(second);
    CHECK(first.handle() == kept && second.handle() == nullptr);
}

} // namespace

int
main(int argc, char **argv)
{
    return check::main(argc, argv, [] {
        const quo::Context ctx;
        run_calls_the_work_on_workers(ctx);
        run_returns_what_the_work_returns(ctx);
        what_the_work_throws_comes_out_after_all_are_awake(ctx);
        guards_begin_and_end(ctx);
        specifications_are_built_and_checked(ctx);
    });
}
