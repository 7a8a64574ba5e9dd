/* Error, its subclasses, ErrorCategory, Errc, version(), last_error(). */
#include "check.hpp"

namespace {

void
codes_compare_with_ours_and_the_standard_ones()
{
    const std::error_code code = quo::Errc::timeout;
    CHECK(code == quo::Errc::timeout);
    CHECK(code != quo::Errc::busy);
    CHECK(code == std::errc::timed_out);
    CHECK(code != std::errc::invalid_argument);
    CHECK_EQUAL(code.value(), static_cast<int>(QUO_ERR_TIMEOUT));
    CHECK_EQUAL(std::string(code.category().name()), "quo");
    CHECK_EQUAL(code.message(), std::string(QUO_strerror(QUO_ERR_TIMEOUT)));
    CHECK(!std::error_code(quo::Errc::success));
    CHECK(&code.category() == &quo::error_category());

    CHECK(std::error_code(quo::Errc::out_of_resources) == std::errc::not_enough_memory);
    CHECK(std::error_code(quo::Errc::invalid_argument) == std::errc::invalid_argument);
    CHECK(std::error_code(quo::Errc::not_supported) == std::errc::not_supported);
    CHECK(std::error_code(quo::Errc::dead_member) == std::errc::owner_dead);
    CHECK(std::error_code(quo::Errc::invalid_handle) == std::errc::bad_file_descriptor);
    CHECK(std::error_code(quo::Errc::busy) == std::errc::device_or_resource_busy);
    CHECK(std::error_code(quo::Errc::detached) == std::errc::not_connected);
    CHECK(std::error_code(quo::Errc::not_found) == std::errc::no_such_device);
    /* A code without a counterpart is equal to itself alone. */
    CHECK(std::error_code(quo::Errc::pop).default_error_condition().category() ==
          quo::error_category());
    CHECK(!(std::error_code(quo::Errc::pop) == std::errc::invalid_argument));
}

void
fatal_is_what_the_c_manual_calls_so()
{
    int fatal = 0;
    for (int code = QUO_ERR; code <= QUO_ERR_NOT_BEGUN; ++code) {
        fatal += quo::Error(static_cast<quo::Errc>(code), "").fatal() ? 1 : 0;
    }
    CHECK_EQUAL(fatal, 7);
    CHECK(quo::Error(quo::Errc::call_after_finalize, "").fatal());
    CHECK(!quo::Error(quo::Errc::not_supported, "").fatal());
}

void
errors_are_caught_as_what_they_are(const quo::Context &ctx)
{
    CHECK_EQUAL(quo::last_error(), "");
    try {
        (void)ctx.nobjs_in_type_by_type(quo::ObjectType::package, 4321, quo::ObjectType::pu);
        CHECK(false);
    } catch (const quo::Error &error) {
        CHECK(error.code() == quo::Errc::invalid_argument);
        CHECK(error.code() == std::errc::invalid_argument);
        for (const char *word : {"QUO_nobjs_in_type_by_type", "package", "4321"}) {
            CHECK(std::string(error.what()).find(word) != std::string::npos);
        }
        CHECK_EQUAL(quo::last_error(), error.what());
        /* A copy keeps kind, code and text. */
        const quo::Error copy(error);
        CHECK_EQUAL(std::string(copy.what()), error.what());
        CHECK(copy.code() == error.code());
        static_assert(std::is_nothrow_copy_constructible_v<quo::Error>);
    }
    CHECK_THROWS_STANDARD(ctx.bind_pop(), runtime_error);
    CHECK_THROWS_STANDARD(ctx.bind_pop(), system_error);
    CHECK_THROWS(ctx.bind_pop(), RecoverableError, pop, "QUO_bind_pop");
    CHECK_THROWS(quo::CpuSet::parse("x"), RecoverableError, invalid_argument, "\"x\"");
    CHECK(quo::last_error().find("quo::CpuSet::parse") != std::string::npos);
    quo::set_last_error(quo::Errc::not_found, "mylib: no such mesh");
    CHECK_EQUAL(std::string(QUO_last_error()), "mylib: no such mesh");
    CHECK_THROWS(quo::detail::raise(QUO_ERR_TIMEOUT), TimeoutError, timeout, "");
    CHECK_THROWS(quo::detail::raise(QUO_ERR_DEAD_MEMBER), DeadMemberError, dead_member, "");
    CHECK_THROWS(quo::detail::raise(QUO_ERR_MPI), Error, mpi, "");
    CHECK_THROWS(quo::detail::raise(QUO_ERR_BUSY), RecoverableError, busy, "");
}

} // namespace

int
main(int argc, char **argv)
{
    int version = 0, subversion = 0;
    CHECK_EQUAL(QUO_version(&version, &subversion), QUO_SUCCESS);
    CHECK(quo::version() == std::make_pair(version, subversion));
    codes_compare_with_ours_and_the_standard_ones();
    fatal_is_what_the_c_manual_calls_so();
    return check::main(argc, argv, [] { errors_are_caught_as_what_they_are(quo::Context()); });
}
