/* Assertions for the C++ tests: each failure is printed with its location and counted, and the program
 * continues, so that ranks do not leave each other waiting. The count is the exit status. */

#ifndef QUO_TESTS_CXX_CHECK_HPP
#define QUO_TESTS_CXX_CHECK_HPP

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <typeinfo>

#include "quo.hpp"

namespace check {

inline int failures = 0;
inline int rank = -1;

inline void
fail(const char *file, int line, const std::string &what)
{
    ++failures;
    std::printf("FAILED [rank %d] %s:%d: %s\n", rank, file, line, what.c_str());
    std::fflush(stdout);
}

template <class Value>
std::string
shown(const Value &value)
{
    std::ostringstream out;
    if constexpr (std::is_enum_v<Value>) {
        out << static_cast<long long>(value);
    } else {
        out << value;
    }
    return out.str();
}

template <class Actual, class Expected>
void
equal(const char *file, int line, const char *what, const Actual &actual, const Expected &expected)
{
    if (actual == expected) return;
    fail(file, line, std::string(what) + "\n    is " + shown(actual) + ", should be " +
                         shown(expected));
}

/** The call throws exactly a Kind with the code, and a text that names the words. */
template <class Kind, class Call>
void
throws(const char *file, int line, const char *what, Call &&call, quo::Errc code, const char *words)
{
    try {
        call();
        fail(file, line, std::string(what) + " throws nothing");
    } catch (const quo::Error &error) {
        const std::string text = error.what();
        equal(file, line, what, error.errc(), code);
        if (typeid(error) != typeid(Kind)) {
            fail(file, line, std::string(what) + " throws a " + typeid(error).name());
        }
        if (text.find(words) == std::string::npos) {
            fail(file, line, std::string(what) + ": \"" + text + "\" does not name " + words);
        }
    } catch (const std::exception &error) {
        fail(file, line, std::string(what) + " throws another exception: " + error.what());
    }
}

/** The call throws a standard exception of a kind. */
template <class Kind, class Call>
void
throws_standard(const char *file, int line, const char *what, Call &&call)
{
    try {
        call();
    } catch (const Kind &) {
        return;
    } catch (const std::exception &error) {
        fail(file, line, std::string(what) + " throws another exception: " + error.what());
        return;
    }
    fail(file, line, std::string(what) + " throws nothing");
}

/** The number is the same on every rank of the world. Collective. */
inline bool
same_everywhere(int number)
{
    int low = 0, high = 0;
    MPI_Allreduce(&number, &low, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&number, &high, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return low == high;
}

/** The sum over the ranks of the world. Collective. */
inline int
sum(int number)
{
    int all = 0;
    MPI_Allreduce(&number, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

inline void
init(int &argc, char **&argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
}

/** Ends MPI and returns the exit status: if one rank failed, all fail. */
inline int
finish()
{
    const int all = sum(failures);
    MPI_Finalize();
    if (0 == rank && 0 == all) std::printf("ok\n");
    return 0 == all ? EXIT_SUCCESS : EXIT_FAILURE;
}

/** Runs a test between MPI_Init and MPI_Finalize; an exception that escapes ends the job. */
template <class Test>
int
main(int argc, char **argv, Test &&test)
{
    init(argc, argv);
    try {
        test();
    } catch (const std::exception &error) {
        fail(__FILE__, __LINE__, std::string("not caught: ") + error.what());
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
    return finish();
}

/** The PUs that the system lets the caller use, as indices. */
inline std::vector<int>
usable_pus(const quo::Context &ctx)
{
    const quo::BindGuard all(ctx, quo::BindPushPolicy::provided, quo::ObjectType::machine, 0);
    return quo::NodeInfo(ctx).processing_units();
}

inline const std::vector<quo::ObjectType> types = {
    quo::ObjectType::machine,  quo::ObjectType::numa_node, quo::ObjectType::package,
    quo::ObjectType::socket,   quo::ObjectType::core,      quo::ObjectType::pu,
    quo::ObjectType::die,      quo::ObjectType::l3_cache,  quo::ObjectType::l2_cache,
    quo::ObjectType::l1_cache};
inline constexpr auto no_type = static_cast<quo::ObjectType>(99);

} // namespace check

/** The condition holds. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) check::fail(__FILE__, __LINE__, #condition);                             \
    } while (false)

/** Two values are equal. */
#define CHECK_EQUAL(actual, expected)                                                              \
    check::equal(__FILE__, __LINE__, #actual, actual, expected)

/** The call throws a quo::Kind with a code, and a text that names the words. */
#define CHECK_THROWS(call, Kind, code, words)                                                      \
    check::throws<quo::Kind>(                                                                      \
        __FILE__, __LINE__, #call, [&] { (void)(call); }, quo::Errc::code, words)

/** The call throws a standard exception. */
#define CHECK_THROWS_STANDARD(call, Kind)                                                          \
    check::throws_standard<std::Kind>(__FILE__, __LINE__, #call, [&] { (void)(call); })

#endif
