/**
 * @file quo.hpp
 * C++ interface of quo, the node runtime for coupled MPI+X programs: header only, C++17 and later.
 *
 * This header is built on quo.h and quo-xpm.h: their terms (context, qid, binding, *local*,
 * *collective over the node*) and rules apply here too. C++ adds:
 * - Results are returned; errors are exceptions of type quo::Error, which carry the return code and
 *   what went wrong. A function that is collective throws on every rank that takes part.
 * - What must be undone is undone by destructors. Destructors never throw; where it matters whether
 *   the undoing succeeded there is a function for it (`free`, `pop`, `end`).
 * - Lists are values and ranges. Nothing has to be freed by hand.
 * - Names are the C interface's without `QUO_`. Programs written for the C++ classes of QUO compile
 *   with their old names (ObjectType::NODE, BindPushPolicy::OBJECT, NodeInfo::sockets()).
 *
 * Lifetimes: objects made from a context (guards, phases, barriers) keep its handle and no reference
 * to the Context, so a Context may be moved while they live. Declare them after the context: then
 * they are destroyed before it. One used after its context is refused with Errc::invalid_handle.
 *
 * Threads: as in C. Local functions may be called by any thread at the same time; an object is
 * moved, assigned and destroyed by one thread while no other uses it.
 *
 * Exceptions are needed; with -fno-exceptions use quo.h. This header defines no macros of the MPI
 * library. If its deprecated C++ bindings, which `mpi.h` may bring along, give warnings, define
 * OMPI_SKIP_MPICXX and MPICH_SKIP_MPICXX yourself before the first header that includes `mpi.h`.
 *
 * @code{.cpp}
 * #include <cstdio>
 * #include <quo.hpp>
 *
 * int main(int argc, char **argv) {
 *     MPI_Init(&argc, &argv);
 *     try {
 *         quo::Context ctx;
 *         quo::Phase solve(ctx, quo::PhaseSpec().over(quo::ObjectType::package));
 *         solve.run([](const quo::Worker &worker) {
 *             std::printf("a worker with %d threads\n", worker.threads());
 *         });
 *     } catch (const quo::Error &error) {
 *         std::fprintf(stderr, "%s\n", error.what());
 *         MPI_Abort(MPI_COMM_WORLD, 1);
 *     }
 *     return MPI_Finalize();
 * }
 * @endcode
 */

#ifndef QUO_HPP_INCLUDED
#define QUO_HPP_INCLUDED

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "quo.hpp needs C++17 or later; quo.h serves C and older C++"
#endif
#if !defined(__cpp_exceptions)
#error "quo.hpp reports errors by exceptions; use quo.h where they are switched off"
#endif

#include <algorithm>
#include <cassert>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#if __cplusplus >= 202002L && __has_include(<span>)
#include <span>
#endif

#include "quo-xpm.h"
#include "quo.h"

/* Exceptions and their category must be the same in every library of a program, also where its code
 * is compiled with hidden visibility. */
#define QUO_HPP_SHARED __attribute__((visibility("default")))

namespace quo {

/** @name Types of the interface. Values are equal to C's. */
/** @{ */

/** Kinds of hardware objects, as QUO_obj_type_t. Names in capitals are those of QUO's C++ classes. */
enum class ObjectType : int {
    machine = QUO_OBJ_MACHINE,
    numa_node = QUO_OBJ_NUMANODE,
    package = QUO_OBJ_PACKAGE,
    socket = QUO_OBJ_SOCKET,
    core = QUO_OBJ_CORE,
    pu = QUO_OBJ_PU,
    die = QUO_OBJ_DIE,
    l3_cache = QUO_OBJ_L3CACHE,
    l2_cache = QUO_OBJ_L2CACHE,
    l1_cache = QUO_OBJ_L1CACHE,

    MACHINE = machine,
    NODE = numa_node,
    SOCKET = socket,
    CORE = core,
    PROCESSING_UNIT = pu
};

/** Way in which a push finds the object to bind to, as QUO_bind_push_policy_t. */
enum class BindPushPolicy : int {
    provided = QUO_BIND_PUSH_PROVIDED,
    object = QUO_BIND_PUSH_OBJ,

    PROVIDED = provided,
    OBJECT = object
};

/** CPUs that a context shows, as QUO_create_flags_t; values can be combined with `|`. */
enum class CreateFlags : int {
    none = QUO_CREATE_NO_FLAGS,
    no_mt = QUO_CREATE_NO_MT,
    lend = QUO_CREATE_LEND,
    ignore_quota = QUO_CREATE_IGNORE_QUOTA
};

/** Combines flags. */
constexpr CreateFlags
operator|(CreateFlags one, CreateFlags other) noexcept
{
    return static_cast<CreateFlags>(static_cast<int>(one) | static_cast<int>(other));
}

/** Options of a new context; the same on every rank. */
struct CreateOptions {
    /** CPUs that the context shows. */
    CreateFlags flags = CreateFlags::none;
};

/** Policy of Context::auto_distrib(), as QUO_distrib_policy_t. */
enum class DistribPolicy : int {
    spread = QUO_DISTRIB_SPREAD,
    libquo_compat = QUO_DISTRIB_LIBQUO_COMPAT
};

/** NUMA nodes of pages that are first written, as QUO_memory_policy_t. */
enum class MemoryPolicy : int {
    keep = QUO_MEMORY_KEEP,
    follow = QUO_MEMORY_FOLLOW,
    bind = QUO_MEMORY_BIND,
    interleave = QUO_MEMORY_INTERLEAVE
};

/** Handling of thread counts in a phase, as QUO_threads_t; openmp is the default. */
enum class Threads : int {
    keep = QUO_THREADS_KEEP,
    openmp = QUO_THREADS_OPENMP
};

/** Which cores of a hybrid processor a phase uses, as QUO_cores_t; all is the default. */
enum class Cores : int {
    all = QUO_CORES_ALL,
    fastest = QUO_CORES_FASTEST
};

/** A kind of device, by its class on the PCI bus, as QUO_device_kind_t. */
enum class DeviceKind : int {
    gpu = QUO_DEVICE_GPU,
    network = QUO_DEVICE_NETWORK,
    storage = QUO_DEVICE_STORAGE
};

/** Conduct of a phase towards others on its CPUs, as QUO_sharing_t; overlap is the default. */
enum class Sharing : int {
    overlap = QUO_SHARING_OVERLAP,
    wait = QUO_SHARING_WAIT,
    left = QUO_SHARING_LEFT
};

/** CPUs of each OpenMP thread in a phase, as QUO_pinning_t; environment is the default. */
enum class Pinning : int {
    environment = QUO_PINNING_ENVIRONMENT,
    none = QUO_PINNING_NONE,
    close = QUO_PINNING_CLOSE,
    spread = QUO_PINNING_SPREAD
};

/** The name of a type, such as "package". */
inline const char *
to_string(ObjectType type) noexcept
{
    switch (type) {
    case ObjectType::machine: return "machine";
    case ObjectType::numa_node: return "NUMA node";
    case ObjectType::package: return "package";
    case ObjectType::socket: return "socket";
    case ObjectType::core: return "core";
    case ObjectType::pu: return "PU";
    case ObjectType::die: return "die";
    case ObjectType::l3_cache: return "L3 cache";
    case ObjectType::l2_cache: return "L2 cache";
    case ObjectType::l1_cache: return "L1 cache";
    }
    return "unknown type";
}

/** The name of a policy. */
inline const char *
to_string(BindPushPolicy policy) noexcept
{
    switch (policy) {
    case BindPushPolicy::provided: return "provided";
    case BindPushPolicy::object: return "object";
    }
    return "unknown policy";
}

/** Prints the name of a type. */
inline std::ostream &
operator<<(std::ostream &out, ObjectType type)
{
    return out << to_string(type);
}

/** Prints the name of a policy. */
inline std::ostream &
operator<<(std::ostream &out, BindPushPolicy policy)
{
    return out << to_string(policy);
}

/** @} */
/** @name Errors */
/** @{ */

/** Return codes as error codes; quo.h says what each means and whether it is fatal. */
enum class Errc : int {
    success = QUO_SUCCESS,
    already_done = QUO_SUCCESS_ALREADY_DONE,
    error = QUO_ERR,
    system = QUO_ERR_SYS,
    out_of_resources = QUO_ERR_OOR,
    invalid_argument = QUO_ERR_INVLD_ARG,
    call_before_init = QUO_ERR_CALL_BEFORE_INIT,
    topology = QUO_ERR_TOPO,
    mpi = QUO_ERR_MPI,
    not_supported = QUO_ERR_NOT_SUPPORTED,
    pop = QUO_ERR_POP,
    not_found = QUO_ERR_NOT_FOUND,
    timeout = QUO_ERR_TIMEOUT,
    dead_member = QUO_ERR_DEAD_MEMBER,
    disagree = QUO_ERR_DISAGREE,
    invalid_handle = QUO_ERR_INVLD_HANDLE,
    call_after_finalize = QUO_ERR_CALL_AFTER_FINALIZE,
    busy = QUO_ERR_BUSY,
    detached = QUO_ERR_DETACHED,
    internal = QUO_ERR_INTERNAL,
    invalid_state = QUO_ERR_STATE,
    refused = QUO_ERR_REFUSED,
    aborted = QUO_ERR_ABORTED,
    work_failed = QUO_ERR_WORK_FAILED,
    not_begun = QUO_ERR_NOT_BEGUN
};

/** The category of quo's error codes; its name is "quo", its messages are QUO_strerror()'s. */
class QUO_HPP_SHARED ErrorCategory final : public std::error_category {
public:
    const char *name() const noexcept override { return "quo"; }

    std::string message(int code) const override { return QUO_strerror(code); }

    /** Codes that mean what one of std::errc means compare equal to it. */
    std::error_condition default_error_condition(int code) const noexcept override
    {
        switch (static_cast<Errc>(code)) {
        case Errc::out_of_resources: return std::errc::not_enough_memory;
        case Errc::invalid_argument: return std::errc::invalid_argument;
        case Errc::not_supported: return std::errc::not_supported;
        case Errc::timeout: return std::errc::timed_out;
        case Errc::dead_member: return std::errc::owner_dead;
        case Errc::invalid_handle: return std::errc::bad_file_descriptor;
        case Errc::busy: return std::errc::device_or_resource_busy;
        case Errc::detached: return std::errc::not_connected;
        case Errc::not_found: return std::errc::no_such_device;
        default: return std::error_condition(code, *this);
        }
    }
};

/** The one object of its kind. May be called at any time. */
QUO_HPP_SHARED inline const std::error_category &
error_category() noexcept
{
    static const ErrorCategory category;
    return category;
}

/** Makes `std::error_code code = quo::Errc::timeout` work. */
inline std::error_code
make_error_code(Errc code) noexcept
{
    return {static_cast<int>(code), error_category()};
}

} // namespace quo

template <>
struct std::is_error_code_enum<quo::Errc> : std::true_type {};

namespace quo {

/**
 * What every failure is thrown as. `what()` names the call, the object and the cause, as
 * QUO_last_error() does; `code()` compares with Errc and std::errc.
 *
 * @code{.cpp}
 * try {
 *     ctx.bind_push(quo::BindPushPolicy::provided, quo::ObjectType::package, 99);
 * } catch (const quo::Error &error) {
 *     if (error.code() != quo::Errc::invalid_argument) throw;
 *     std::fprintf(stderr, "%s\n", error.what());
 * }
 * @endcode
 */
class QUO_HPP_SHARED Error : public std::system_error {
public:
    /** An error with its own text. */
    Error(Errc code, const std::string &text)
        : std::system_error(make_error_code(code)), text_(text)
    {
    }

    const char *what() const noexcept override { return text_.what(); }

    /** The code as an enumerator. */
    Errc errc() const noexcept { return static_cast<Errc>(code().value()); }

    /** Returns true if the context is unreliable. */
    bool fatal() const noexcept
    {
        switch (errc()) {
        case Errc::error:
        case Errc::system:
        case Errc::out_of_resources:
        case Errc::topology:
        case Errc::mpi:
        case Errc::call_after_finalize:
        case Errc::internal: return true;
        default: return false;
        }
    }

private:
    /* Its text is shared by copies, so that copying cannot throw. */
    std::runtime_error text_;
};

/** An error that changed nothing: the context works as before. */
class QUO_HPP_SHARED RecoverableError : public Error {
public:
    using Error::Error;
};

/** A wait took longer than allowed. */
class QUO_HPP_SHARED TimeoutError : public RecoverableError {
public:
    using RecoverableError::RecoverableError;
};

/** A rank of the node ended without freeing the context. Local functions work on, and collective
    ones after Context::expel(). */
class QUO_HPP_SHARED DeadMemberError : public RecoverableError {
public:
    using RecoverableError::RecoverableError;
};

/** Returns the error of the last call that failed in this thread; empty when none has. */
inline std::string
last_error()
{
    return QUO_last_error();
}

/** Makes a text what last_error() and QUO_last_error() return in this thread: for a C++ library that
    reports failures to C callers by return codes. */
inline void
set_last_error(Errc code, const std::string &text)
{
    (void)QUO_set_last_error(static_cast<int>(code), text.c_str());
}

/** Version and revision of the library's binary interface. May be called at any time. */
inline std::pair<int, int>
version();

/** @} */

/** Not for users. */
namespace detail {

/** Throws what a return code means. */
[[noreturn]] inline void
raise(int code)
{
    const std::string said = QUO_last_error();
    const std::string text = said.empty() ? QUO_strerror(code) : said;
    const auto errc = static_cast<Errc>(code);
    if (Errc::timeout == errc) throw TimeoutError(errc, text);
    if (Errc::dead_member == errc) throw DeadMemberError(errc, text);
    const Error error(errc, text);
    if (!error.fatal()) throw RecoverableError(errc, text);
    throw error;
}

/** Throws an error of this header; last_error() returns it like errors of the library. */
[[noreturn]] inline void
raise(Errc code, const std::string &text)
{
    set_last_error(code, text);
    raise(static_cast<int>(code));
}

inline void
check(int code)
{
    if (QUO_SUCCESS != code) raise(code);
}

/** False when it had been done before. */
inline bool
check_new(int code)
{
    if (QUO_SUCCESS_ALREADY_DONE == code) return false;
    check(code);
    return true;
}

/** Returns what a C function writes through its last argument. */
template <class Out, class Function, class... Arguments>
Out
result(Function function, Arguments... arguments)
{
    Out out{};
    check(function(arguments..., &out));
    return out;
}

[[noreturn]] inline void
out_of_range(const char *what, std::size_t index, std::size_t size)
{
    throw std::out_of_range(std::string(what) + ": " + std::to_string(index) +
                            " is outside a length of " + std::to_string(size));
}

struct Free {
    void operator()(void *memory) const noexcept { (void)QUO_ptr_free(memory); }
};

inline std::string
taken(char *text)
{
    const std::unique_ptr<char, Free> owner(text);
    return nullptr == text ? std::string() : std::string(text);
}

inline std::vector<int>
taken(int *numbers, int count)
{
    const std::unique_ptr<int, Free> owner(numbers);
    return nullptr == numbers ? std::vector<int>() : std::vector<int>(numbers, numbers + count);
}

/** A length that C cannot hold becomes one that it refuses, since collective calls must be made. */
inline int
length(const std::vector<int> &list) noexcept
{
    return list.size() > static_cast<std::size_t>(INT_MAX) ? -1 : static_cast<int>(list.size());
}

/** Never NULL, which means all ranks to some functions. */
inline const int *
start(const std::vector<int> &list) noexcept
{
    static const int none = 0;
    return list.empty() ? &none : list.data();
}

template <class Rep, class Period>
double
seconds(std::chrono::duration<Rep, Period> time)
{
    return std::chrono::duration_cast<std::chrono::duration<double>>(time).count();
}

/** Owner of a handle that is freed locally. */
template <class Handle, int (*free_handle)(Handle)>
class Owned {
public:
    Owned() = default;
    explicit Owned(Handle handle) noexcept : handle_(handle) {}
    Owned(Owned &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Owned &operator=(Owned &&other) noexcept
    {
        Owned taken_over(std::move(other));
        std::swap(handle_, taken_over.handle_);
        return *this;
    }
    ~Owned() { if (nullptr != handle_) (void)free_handle(handle_); }

    Handle get() const noexcept { return handle_; }

    /** Keeps the handle when it cannot be freed yet. */
    void free()
    {
        check(free_handle(handle_));
        handle_ = nullptr;
    }

private:
    Handle handle_ = nullptr;
};

/** Counts up and makes a value of each number. */
template <class Make>
class Counting {
public:
    using value_type = decltype(std::declval<const Make &>()(0));
    using reference = value_type;
    using pointer = void;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    using iterator_concept = std::forward_iterator_tag;

    Counting() = default;
    Counting(Make make, int at) : make_(make), at_(at) {}

    reference operator*() const { return make_(at_); }
    Counting &operator++()
    {
        ++at_;
        return *this;
    }
    Counting operator++(int)
    {
        Counting before(*this);
        ++at_;
        return before;
    }
    friend bool operator==(const Counting &one, const Counting &other) noexcept
    {
        return one.at_ == other.at_;
    }
    friend bool operator!=(const Counting &one, const Counting &other) noexcept
    {
        return one.at_ != other.at_;
    }

private:
    Make make_{};
    int at_ = 0;
};

struct Itself {
    int operator()(int number) const noexcept { return number; }
};

} // namespace detail

inline std::pair<int, int>
version()
{
    int major = 0, minor = 0;
    detail::check(QUO_version(&major, &minor));
    return {major, minor};
}

/** @name Values */
/** @{ */

/**
 * Neighbouring ranks of a node: a range of qids.
 *
 * @code{.cpp}
 * quo::Phase phase(ctx);
 * for (int qid : phase.qids()) std::printf("works for %d\n", qid);
 * @endcode
 */
class Qids {
public:
    using value_type = int;
    using const_iterator = detail::Counting<detail::Itself>;
    using iterator = const_iterator;

    /** None. */
    Qids() = default;
    /** `count` qids from `first` on. */
    Qids(int first, int count) noexcept : first_(first), count_(count) {}

    iterator begin() const noexcept { return {{}, first_}; }
    iterator end() const noexcept { return {{}, first_ + count_}; }
    /** Number of qids. */
    int size() const noexcept { return count_; }
    bool empty() const noexcept { return 0 == count_; }
    /** The first; 0 when there is none. */
    int front() const noexcept { return first_; }
    /** The last; one less than the first when there is none. */
    int back() const noexcept { return first_ + count_ - 1; }
    bool contains(int qid) const noexcept { return qid >= first_ && qid < first_ + count_; }

private:
    int first_ = 0;
    int count_ = 0;
};

/**
 * A set of physical CPU numbers: a range of int, ascending, each once.
 *
 * @code{.cpp}
 * quo::CpuSet mine = ctx.binding();
 * for (int cpu : mine) std::printf("may run on CPU %d\n", cpu);
 * bool near = mine.intersects(quo::CpuSet::parse("0-3,8"));
 * @endcode
 */
class CpuSet {
public:
    using value_type = int;
    using const_iterator = std::vector<int>::const_iterator;
    using iterator = const_iterator;

    /** The empty set. */
    CpuSet() = default;
    /** The numbers given, in any order; a negative one is Errc::invalid_argument. */
    CpuSet(std::initializer_list<int> cpus) : CpuSet(cpus.begin(), cpus.end()) {}
    /** The numbers of a range, in any order; a negative one is Errc::invalid_argument. */
    template <class Iterator, class Sentinel,
              class = typename std::iterator_traits<Iterator>::iterator_category>
    CpuSet(Iterator first, Sentinel last)
    {
        for (; first != last; ++first) cpus_.push_back(static_cast<int>(*first));
        std::sort(cpus_.begin(), cpus_.end());
        cpus_.erase(std::unique(cpus_.begin(), cpus_.end()), cpus_.end());
        if (!cpus_.empty() && cpus_.front() < 0) {
            detail::raise(Errc::invalid_argument, "quo::CpuSet: " + std::to_string(cpus_.front()) +
                                                      " is not a CPU number");
        }
    }

    /**
     * Reads a list such as "0-3,8"; the empty text is the empty set.
     *
     * @throws RecoverableError with Errc::invalid_argument when it is not a list, or names a CPU
     *         beyond 1,048,575.
     */
    static CpuSet parse(std::string_view list)
    {
        CpuSet set;
        const char *at = list.data();
        const char *const end = at + list.size();
        while (at != end) {
            const int first = number(list, at, end);
            int last = first;
            if (at != end && '-' == *at) last = number(list, ++at, end);
            if (last < first) refuse(list);
            for (int cpu = first; cpu <= last; ++cpu) set.cpus_.push_back(cpu);
            if (at == end) break;
            if (',' != *at || ++at == end) refuse(list);
        }
        std::sort(set.cpus_.begin(), set.cpus_.end());
        set.cpus_.erase(std::unique(set.cpus_.begin(), set.cpus_.end()), set.cpus_.end());
        return set;
    }

    const_iterator begin() const noexcept { return cpus_.begin(); }
    const_iterator end() const noexcept { return cpus_.end(); }
    std::size_t size() const noexcept { return cpus_.size(); }
    bool empty() const noexcept { return cpus_.empty(); }
    bool contains(int cpu) const { return std::binary_search(begin(), end(), cpu); }
    /** Returns true if every CPU of the other set is in this one. */
    bool contains(const CpuSet &other) const
    {
        return std::includes(begin(), end(), other.begin(), other.end());
    }
    /** Returns true if a CPU is in both. */
    bool intersects(const CpuSet &other) const { return !(*this & other).empty(); }

    /** The list in its shortest form, such as "0-3,8". */
    std::string str() const
    {
        std::string list;
        for (auto at = begin(); at != end();) {
            auto next = at;
            int last = *at;
            while (++next != end() && *next == last + 1) last = *next;
            if (!list.empty()) list += ',';
            list += std::to_string(*at);
            if (last != *at) list += '-' + std::to_string(last);
            at = next;
        }
        return list;
    }

    friend CpuSet operator&(const CpuSet &one, const CpuSet &other)
    {
        CpuSet both;
        std::set_intersection(one.begin(), one.end(), other.begin(), other.end(),
                              std::back_inserter(both.cpus_));
        return both;
    }
    friend CpuSet operator|(const CpuSet &one, const CpuSet &other)
    {
        CpuSet either;
        std::set_union(one.begin(), one.end(), other.begin(), other.end(),
                       std::back_inserter(either.cpus_));
        return either;
    }
    friend CpuSet operator-(const CpuSet &one, const CpuSet &other)
    {
        CpuSet rest;
        std::set_difference(one.begin(), one.end(), other.begin(), other.end(),
                            std::back_inserter(rest.cpus_));
        return rest;
    }
    friend bool operator==(const CpuSet &one, const CpuSet &other) noexcept
    {
        return one.cpus_ == other.cpus_;
    }
    friend bool operator!=(const CpuSet &one, const CpuSet &other) noexcept
    {
        return !(one == other);
    }
    friend std::ostream &operator<<(std::ostream &out, const CpuSet &set)
    {
        return out << set.str();
    }

private:
    /* So that "0-2000000000" is an error and not a use of all memory. */
    static constexpr int highest = (1 << 20) - 1;

    [[noreturn]] static void refuse(std::string_view list)
    {
        detail::raise(Errc::invalid_argument, "quo::CpuSet::parse: \"" + std::string(list) +
                                                  "\" is not a list such as \"0-3,8\"");
    }

    static int number(std::string_view list, const char *&at, const char *end)
    {
        int value = -1;
        if (at == end || *at < '0' || *at > '9') refuse(list);
        const auto read = std::from_chars(at, end, value);
        if (std::errc() != read.ec || value > highest) refuse(list);
        at = read.ptr;
        return value;
    }

    std::vector<int> cpus_;
};

/**
 * A communicator that is freed when it goes out of scope: a wrapper and no MPI_Comm, since an
 * MPI_Comm that is not freed leaks. It converts to MPI_Comm where MPI needs one.
 *
 * Freeing is collective over the communicator. It is left to the end of the program when an
 * exception unwinds the stack, as the other ranks may not take part, and after MPI_Finalize.
 *
 * @code{.cpp}
 * quo::Comm node = ctx.get_mpi_comm_by_type(quo::ObjectType::machine);
 * MPI_Barrier(node);
 * MPI_Comm mine = node.release(); // from here on for MPI_Comm_free()
 * MPI_Comm_free(&mine);
 * @endcode
 */
class Comm {
public:
    /** Owns nothing. */
    Comm() = default;
    /** Takes over a communicator. */
    explicit Comm(MPI_Comm comm) noexcept : comm_(comm) {}
    Comm(Comm &&other) noexcept : comm_(other.release()) {}
    Comm &operator=(Comm &&other) noexcept
    {
        Comm taken_over(std::move(other));
        std::swap(comm_, taken_over.comm_);
        return *this;
    }
    ~Comm()
    {
        int finalized = 0;
        if (MPI_COMM_NULL == comm_ || std::uncaught_exceptions() > exceptions_) return;
        MPI_Finalized(&finalized);
        if (0 == finalized) MPI_Comm_free(&comm_);
    }

    /** The communicator, still owned by this; MPI_COMM_NULL when there is none. */
    MPI_Comm get() const noexcept { return comm_; }
    operator MPI_Comm() const & noexcept { return comm_; }
    /** It would be freed before it can be used: keep the Comm, or `release()` it. */
    operator MPI_Comm() && = delete;
    /** Hands the communicator over. */
    [[nodiscard]] MPI_Comm release() noexcept { return std::exchange(comm_, MPI_COMM_NULL); }

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
    int exceptions_ = std::uncaught_exceptions();
};

/** @} */

class Objects;

/** A kind of cores of a hybrid processor. */
struct CoreKind {
    /** Speed of a core relative to the other kinds; 0 where unknown. */
    int speed = 0;
    /** The CPUs of the kind. */
    CpuSet cpus;
};

/**
 * A context: what the ranks of a communicator know about their nodes and do together on them.
 *
 * Creation, free() and the destructor are collective over the communicator. The destructor never
 * throws and differs from free() in three cases:
 * - After MPI_Finalize it does nothing.
 * - When an exception unwinds the stack through it, the other ranks may be elsewhere, and waiting
 *   for them could last forever. It then only restores the caller's binding, and leaves the rest to
 *   the end of the process. End the job (MPI_Abort), or let the process end: ranks that wait for it
 *   in a barrier get an error that it is dead.
 * - While phases or named barriers made from it live it cannot free, and leaves the context to the
 *   end of the process. Declare them after the context.
 *
 * A moved-from context is empty: its functions throw Errc::invalid_argument.
 *
 * @code{.cpp}
 * quo::Context all(MPI_COMM_WORLD, quo::CreateFlags::no_mt);
 * std::printf("%d ranks on %d cores\n", all.nqids(), all.ncores());
 * all.barrier();
 * all.free();
 * @endcode
 */
class Context {
public:
    /** As QUO_create(). Collective over comm. */
    explicit Context(MPI_Comm comm = MPI_COMM_WORLD) { detail::check(QUO_create(&handle_, comm)); }

    /** As QUO_create_with_flags(). Collective over comm. */
    Context(MPI_Comm comm, CreateFlags flags)
    {
        const auto plain = static_cast<QUO_create_flags_t>(flags);
        detail::check(QUO_create_with_flags(&handle_, comm, plain));
    }

    /** As QUO_create_with_options(). Collective over comm. */
    Context(MPI_Comm comm, const CreateOptions &options)
    {
        const QUO_create_options_t all = plain(options);
        detail::check(QUO_create_with_options(&handle_, comm, &all));
    }

    Context(Context &&other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)), owned_(other.owned_)
    {
    }
    /** Destroys what was there, which is collective. */
    Context &operator=(Context &&other) noexcept
    {
        Context taken_over(std::move(other));
        std::swap(handle_, taken_over.handle_);
        std::swap(owned_, taken_over.owned_);
        return *this;
    }
    ~Context()
    {
        if (nullptr == handle_ || !owned_) return;
        if (std::uncaught_exceptions() > exceptions_) {
            while (QUO_SUCCESS == QUO_bind_pop(handle_)) continue;
            (void)QUO_last_error(); // the last pop has to fail
        } else {
            (void)QUO_free(handle_);
        }
    }

    /** A context over a Fortran communicator. Collective over it. */
    static Context from_fortran(QUO_fint_t comm)
    {
        QUO_context handle = nullptr;
        detail::check(QUO_create_f2c(&handle, comm));
        return Context(handle, true);
    }
    /** A context over a Fortran communicator, with flags. Collective over it. */
    static Context from_fortran(QUO_fint_t comm, CreateFlags flags)
    {
        QUO_context handle = nullptr;
        detail::check(QUO_create_with_flags_f2c(&handle, comm, static_cast<int>(flags)));
        return Context(handle, true);
    }
    /** A context over a Fortran communicator, with all options. Collective over it. */
    static Context from_fortran(QUO_fint_t comm, const CreateOptions &options)
    {
        QUO_context handle = nullptr;
        const QUO_create_options_t all = plain(options);
        detail::check(QUO_create_with_options_f2c(&handle, comm, &all));
        return Context(handle, true);
    }
    /** As QUO_split_by_weight(): a context of the ranks that name the same part, confined to it.
        Collective over this context. */
    Context split_by_weight(ObjectType type, const std::vector<int> &weights, int part) const
    {
        return scope(QUO_split_by_weight, plain(type), static_cast<int>(weights.size()),
                     weights.data(), part);
    }
    /** As QUO_split_by_count(): the same, with a number of objects for each part. */
    Context split_by_count(ObjectType type, const std::vector<int> &counts, int part) const
    {
        return scope(QUO_split_by_count, plain(type), static_cast<int>(counts.size()),
                     counts.data(), part);
    }
    /** As QUO_split_by_device(): a context of the ranks that name the same device, confined to the
        objects near it. Collective over this context. */
    Context split_by_device(ObjectType type, DeviceKind kind, int index) const
    {
        return scope(QUO_split_by_device, plain(type), plain(kind), index);
    }
    /** Takes over a context that was made with the C interface. */
    static Context adopt(QUO_context handle) noexcept { return Context(handle, true); }
    /** Uses a context that other code frees, such as the C or Fortran caller of a library. */
    static Context borrow(QUO_context handle) noexcept { return Context(handle, false); }

    /** The handle, for the C interface; still owned by this. */
    QUO_context handle() const noexcept { return handle_; }
    /** Returns true if the destructor frees. */
    bool owned() const noexcept { return nullptr != handle_ && owned_; }
    /** Releases the handle to code that will call QUO_free(). */
    [[nodiscard]] QUO_context release() noexcept { return std::exchange(handle_, nullptr); }
    /** As QUO_free(); does nothing for a borrowed or empty one. Collective over the context. */
    void free()
    {
        if (owned_) detail::check(QUO_free(handle_));
        handle_ = nullptr;
    }

    /** @name What the machine has. Local. */
    /** @{ */

    /** Number of objects of a type. */
    int nobjs_by_type(ObjectType type) const { return number(QUO_nobjs_by_type, plain(type)); }
    /** Number of objects of a type inside another object. */
    int nobjs_in_type_by_type(ObjectType in_type, int in_type_index, ObjectType type) const
    {
        return number(QUO_nobjs_in_type_by_type, plain(in_type), in_type_index, plain(type));
    }
    /** The CPUs of an object. */
    CpuSet cpuset_of_type(ObjectType type, int index) const
    {
        return CpuSet::parse(text(QUO_cpuset_of_type, plain(type), index));
    }
    /** How many kinds of cores: more than 1 on a hybrid processor with fast and slow ones. */
    int ncore_kinds() const { return number(QUO_ncore_kinds); }
    /** A kind of cores; 0 is the slowest. */
    CoreKind core_kind(int index) const
    {
        CoreKind kind;
        char *list = nullptr;
        detail::check(QUO_core_kind(handle_, index, &kind.speed, &list));
        kind.cpus = CpuSet::parse(detail::taken(list));
        return kind;
    }
    /** The objects of a type, to go through. */
    Objects objects(ObjectType type) const;
    /** Number of NUMA nodes of the caller's node. */
    int nnumanodes() const { return number(QUO_nnumanodes); }
    /** Number of packages. */
    int nsockets() const { return number(QUO_nsockets); }
    /** Number of cores. */
    int ncores() const { return number(QUO_ncores); }
    /** Number of processing units (hardware threads). */
    int npus() const { return number(QUO_npus); }
    /** Number of nodes that the context spans: machines, not NUMA nodes. */
    int nnodes() const { return number(QUO_nnodes); }

    /** @} */
    /** @name Places and bindings of ranks. Local; the kernel is asked each time. */
    /** @{ */

    /** Number of the context's ranks on the caller's node. */
    int nqids() const { return number(QUO_nqids); }
    /** The caller's qid. */
    int id() const { return number(QUO_id); }
    /** Returns true if the caller's binding shares a CPU with an object. */
    bool cpuset_in_type(ObjectType type, int index) const
    {
        return 0 != number(QUO_cpuset_in_type, plain(type), index);
    }
    /** Ranks with a binding that shares a CPU with an object, ascending. */
    std::vector<int> qids_in_type(ObjectType type, int index) const
    {
        int count = 0, *qids = nullptr;
        detail::check(QUO_qids_in_type(handle_, plain(type), index, &count, &qids));
        return detail::taken(qids, count);
    }
    /** Returns true if the caller's binding leaves out CPUs that it might use. */
    bool bound() const { return 0 != number(QUO_bound); }
    /** The caller's binding as a list such as "0-3,8". */
    std::string stringify_cbind() const { return text(QUO_stringify_cbind); }
    /** The binding of a rank of the node as a list. */
    std::string stringify_cbind_of(int qid) const { return text(QUO_stringify_cbind_of, qid); }
    /** The caller's binding. */
    CpuSet binding() const { return CpuSet::parse(stringify_cbind()); }
    /** The binding of a rank of the node. */
    CpuSet binding_of(int qid) const { return CpuSet::parse(stringify_cbind_of(qid)); }
    /** Returns an explanation of the bindings as text: where, by what, and why. */
    std::string explain() const { return text(QUO_explain, 0); }
    /** The same as one JSON object. */
    std::string explain_json() const { return text(QUO_explain, 1); }

    /** @} */
    /** @name Changing the binding. Local. BindGuard also undoes it. */
    /** @{ */

    /** As QUO_bind_push(). The index counts with BindPushPolicy::provided only. */
    void bind_push(BindPushPolicy policy, ObjectType type, int index = -1) const
    {
        const auto plain_policy = static_cast<QUO_bind_push_policy_t>(policy);
        detail::check(QUO_bind_push(handle_, plain_policy, plain(type), index));
    }
    /** As QUO_bind_push_cpuset(): any CPUs, as a list such as "0-3,8". */
    void bind_push_cpuset(const std::string &list) const
    {
        detail::check(QUO_bind_push_cpuset(handle_, list.c_str()));
    }
    /** The same with a set. */
    void bind_push_cpuset(const CpuSet &cpus) const { bind_push_cpuset(cpus.str()); }
    /** As QUO_bind_pop(): undoes the last push. */
    void bind_pop() const { detail::check(QUO_bind_pop(handle_)); }

    /** @} */
    /** @name Devices of the node, without GPUs that the environment hides. Local. */
    /** @{ */

    /** A device. */
    struct Device {
        /** Its place on the bus. */
        std::string bus;
        /** The CPUs near it. */
        CpuSet cpus;
    };

    /** How many devices of a kind. */
    int ndevices(DeviceKind kind) const { return number(QUO_ndevices, plain(kind)); }
    /** A device of a kind, in the order of the bus. */
    Device device(DeviceKind kind, int index) const
    {
        Device device;
        char *bus = nullptr, *list = nullptr;
        detail::check(QUO_device(handle_, plain(kind), index, &bus, &list));
        device.bus = detail::taken(bus);
        device.cpus = CpuSet::parse(detail::taken(list));
        return device;
    }
    /** Whether a device is near the caller's binding. */
    bool device_is_near(DeviceKind kind, int index) const
    {
        return 0 != number(QUO_device_is_near, plain(kind), index);
    }
    /** Whether a device is near an object. */
    bool device_in_type(DeviceKind kind, int index, ObjectType type, int in_type_index) const
    {
        return 0 != number(QUO_device_in_type, plain(kind), index, plain(type), in_type_index);
    }
    /** As QUO_assign_device(): the caller's device, or -1. Collective over the node. */
    int assign_device(DeviceKind kind) const { return number(QUO_assign_device, plain(kind)); }
    /** The variables by which a program sees one GPU only. */
    std::string visible_devices(int gpu) const { return text(QUO_visible_devices, gpu); }

    /** @} */
    /** @name Memory on the NUMA nodes of bindings. Local. */
    /** @{ */

    /** As QUO_set_memory_policy(): goes with pushes and phases from now on. */
    void set_memory_policy(MemoryPolicy policy) const
    {
        detail::check(QUO_set_memory_policy(handle_, static_cast<QUO_memory_policy_t>(policy)));
    }
    /** As QUO_memory_place(): pages that there are move to the NUMA nodes of an object. */
    void memory_place(void *memory, std::size_t bytes, ObjectType type, int index, MemoryPolicy policy) const
    {
        detail::check(QUO_memory_place(handle_, memory, bytes, static_cast<QUO_obj_type_t>(type), index,
            static_cast<QUO_memory_policy_t>(policy)));
    }
    /** As QUO_memory_on_node(): the bytes on a NUMA node, or without a page for #QUO_MEMORY_ABSENT. */
    long long memory_on_node(const void *memory, std::size_t bytes, int numanode) const
    {
        return detail::result<long long>(QUO_memory_on_node, handle_, memory, bytes, numanode);
    }

    /** @} */
    /** @name CPUs of waiting ranks, lent to threaded ones. Local, and never waits. */
    /** @{ */

    /** CPUs and threads that borrow_cpus() got. */
    struct Borrowed {
        /** Number of CPUs that were borrowed. */
        int cpus = 0;
        /** Number of threads that fills the caller's own CPUs and these. */
        int threads = 1;
    };

    /** As QUO_lend(): lends until reclaim(). False when the caller lends already. */
    bool lend() const { return detail::check_new(QUO_lend(handle_)); }
    /** As QUO_reclaim(): takes back. False when the caller lends nothing. */
    bool reclaim() const { return detail::check_new(QUO_reclaim(handle_)); }
    /** As QUO_borrow(): borrows what others lend, and binds the caller to it too. */
    Borrowed borrow_cpus() const
    {
        Borrowed borrowed;
        detail::check(QUO_borrow(handle_, &borrowed.cpus, &borrowed.threads));
        return borrowed;
    }
    /** As QUO_borrow_wanted(): whether the caller should give back. */
    bool borrow_wanted() const { return 0 != number(QUO_borrow_wanted); }
    /** As QUO_lenders(): the number of other ranks of the node that lend now. */
    int lenders() const { return number(QUO_lenders); }
    /** As QUO_give_back(). False when the caller has borrowed nothing. */
    bool give_back() const { return detail::check_new(QUO_give_back(handle_)); }

    /** @} */
    /** @name Working together. Collective over the node, but for the communicators. */
    /** @{ */

    /** As QUO_barrier(): waits, asleep, until every rank of the node has called. */
    void barrier() const { detail::check(QUO_barrier(handle_)); }
    /** As QUO_barrier_timed(): throws TimeoutError on all when the time of one runs out. */
    template <class Rep, class Period>
    void barrier(std::chrono::duration<Rep, Period> timeout) const
    {
        detail::check(QUO_barrier_timed(handle_, detail::seconds(timeout)));
    }
    /** As QUO_auto_distrib(): whether the caller is chosen. */
    bool auto_distrib(ObjectType distrib_over_this, int max_qids_per_res_type) const
    {
        return 0 != number(QUO_auto_distrib, plain(distrib_over_this), max_qids_per_res_type);
    }
    /** As QUO_auto_distrib_with_policy(). */
    bool auto_distrib(ObjectType distrib_over_this, int max_qids_per_res_type,
                      DistribPolicy policy) const
    {
        return 0 != number(QUO_auto_distrib_with_policy, plain(distrib_over_this),
                           max_qids_per_res_type, static_cast<QUO_distrib_policy_t>(policy));
    }
    /** The ranks of the node that share an object with the caller. Collective over the context. */
    Comm get_mpi_comm_by_type(ObjectType type) const
    {
        return Comm(detail::result<MPI_Comm>(QUO_get_mpi_comm_by_type, handle_, plain(type)));
    }
    /** The same as a Fortran communicator, for MPI_COMM_FREE. Collective over the context. */
    QUO_fint_t get_mpi_comm_by_type_f2c(ObjectType type) const
    {
        return detail::result<QUO_fint_t>(QUO_get_mpi_comm_by_type_f2c, handle_, plain(type));
    }

    /** @} */
    /** @name Members that leave and return. Local. */
    /** @{ */

    /** As QUO_detach(): leaves the barriers of the node. False when it had done so before. */
    bool detach() const { return detail::check_new(QUO_detach(handle_)); }
    /** Returns to the barriers, as QUO_attach(). False when the caller is attached. */
    bool attach() const { return detail::check_new(QUO_attach(handle_)); }
    /** The ranks of the node that ended without freeing the context, ascending. */
    std::vector<int> dead_qids() const
    {
        int count = 0, *qids = nullptr;
        detail::check(QUO_dead_qids(handle_, &count, &qids));
        return detail::taken(qids, count);
    }
    /** As QUO_expel(): removes a dead rank. False when another rank has removed it. */
    bool expel(int qid) const { return detail::check_new(QUO_expel(handle_, qid)); }
    /** As QUO_adapt(): goes over to the ranks of a communicator. */
    void adapt(MPI_Comm comm) const { detail::check(QUO_adapt(handle_, comm)); }
    /** As QUO_retire(): leaves the ranks of the context. False when it had done so before. */
    bool retire() const { return detail::check_new(QUO_retire(handle_)); }

    /** @} */

private:
    Context(QUO_context handle, bool owned) noexcept : handle_(handle), owned_(owned) {}

    static QUO_obj_type_t plain(ObjectType type) noexcept
    {
        return static_cast<QUO_obj_type_t>(type);
    }
    static QUO_device_kind_t plain(DeviceKind kind) noexcept
    {
        return static_cast<QUO_device_kind_t>(kind);
    }
    static QUO_create_options_t plain(const CreateOptions &options) noexcept
    {
        QUO_create_options_t all = QUO_CREATE_OPTIONS_INIT;
        all.flags = static_cast<int>(options.flags);
        return all;
    }
    template <class Function, class... Arguments>
    int number(Function function, Arguments... arguments) const
    {
        return detail::result<int>(function, handle_, arguments...);
    }
    template <class Function, class... Arguments>
    std::string text(Function function, Arguments... arguments) const
    {
        return detail::taken(detail::result<char *>(function, handle_, arguments...));
    }
    template <class Function, class... Arguments>
    Context scope(Function function, Arguments... arguments) const
    {
        return Context(detail::result<QUO_context>(function, handle_, arguments...), true);
    }

    QUO_context handle_ = nullptr;
    bool owned_ = true;
    int exceptions_ = std::uncaught_exceptions();
};

/**
 * One object of the machine. A value that stays usable while the context lives. All local.
 *
 * @code{.cpp}
 * for (quo::Object package : ctx.objects(quo::ObjectType::package)) {
 *     std::printf("package %d: CPUs %s, %zu ranks%s\n", package.index(),
 *                 package.cpus().str().c_str(), package.qids().size(),
 *                 package.contains_me() ? ", me among them" : "");
 * }
 * @endcode
 */
class Object {
public:
    /** The object of a type with an index; functions throw when there is none. */
    Object(const Context &context, ObjectType type, int index) noexcept
        : handle_(context.handle()), type_(type), index_(index)
    {
    }

    ObjectType type() const noexcept { return type_; }
    /** Its logical index, from 0. */
    int index() const noexcept { return index_; }
    /** Its CPUs. */
    CpuSet cpus() const { return context().cpuset_of_type(type_, index_); }
    /** Ranks with a binding that shares a CPU with it, ascending. */
    std::vector<int> qids() const { return context().qids_in_type(type_, index_); }
    /** Returns true if the caller's binding shares a CPU with it. */
    bool contains_me() const { return context().cpuset_in_type(type_, index_); }
    /** Number of objects of a type inside it. */
    int nobjs(ObjectType inner) const
    {
        return context().nobjs_in_type_by_type(type_, index_, inner);
    }

    friend bool operator==(const Object &one, const Object &other) noexcept
    {
        return one.handle_ == other.handle_ && one.type_ == other.type_ &&
               one.index_ == other.index_;
    }
    friend bool operator!=(const Object &one, const Object &other) noexcept
    {
        return !(one == other);
    }
    friend std::ostream &operator<<(std::ostream &out, const Object &object)
    {
        return out << object.type_ << ' ' << object.index_;
    }

private:
    Context context() const noexcept { return Context::borrow(handle_); }

    QUO_context handle_;
    ObjectType type_;
    int index_;
};

/** The objects of one type, as a range of Object. Made by Context::objects(). */
class Objects {
    struct Make {
        QUO_context handle = nullptr;
        ObjectType type = ObjectType::machine;
        Object operator()(int index) const noexcept
        {
            return Object(Context::borrow(handle), type, index);
        }
    };

public:
    using value_type = Object;
    using const_iterator = detail::Counting<Make>;
    using iterator = const_iterator;

    /** The objects of a type; none when the machine has none. */
    Objects(const Context &context, ObjectType type)
        : make_{context.handle(), type}, count_(context.nobjs_by_type(type))
    {
    }

    iterator begin() const noexcept { return {make_, 0}; }
    iterator end() const noexcept { return {make_, count_}; }
    int size() const noexcept { return count_; }
    bool empty() const noexcept { return 0 == count_; }
    /** An object by its index; one that does not exist throws when it is asked. */
    Object operator[](int index) const noexcept { return make_(index); }
    /** An object by its index. Throws std::out_of_range. */
    Object at(int index) const
    {
        if (index < 0 || index >= count_) {
            detail::out_of_range("quo::Objects::at", static_cast<std::size_t>(index),
                                 static_cast<std::size_t>(count_));
        }
        return make_(index);
    }

private:
    Make make_;
    int count_;
};

inline Objects
Context::objects(ObjectType type) const
{
    return Objects(*this, type);
}

/**
 * A binding that ends with its scope: pushes when made, pops when destroyed. All local.
 *
 * A pop undoes the last push of the context, so guards of one context must end in reverse order,
 * which scopes see to.
 *
 * @code{.cpp}
 * {
 *     quo::BindGuard wide(ctx, quo::BindPushPolicy::object, quo::ObjectType::package);
 *     // ... threads started here run on the whole package ...
 * } // and here every thread is back where it was
 * quo::BindGuard two(ctx, ctx.binding());
 * two.pop(); // throws if it fails, which the destructor cannot
 * @endcode
 */
class BindGuard {
public:
    /** Pushes an object. The index counts with BindPushPolicy::provided only. */
    [[nodiscard]] BindGuard(const Context &context, BindPushPolicy policy, ObjectType type,
                            int index = -1)
    {
        context.bind_push(policy, type, index);
        handle_ = context.handle();
    }
    /** Pushes an object. */
    [[nodiscard]] BindGuard(const Context &context, const Object &object)
        : BindGuard(context, BindPushPolicy::provided, object.type(), object.index())
    {
    }
    /** Pushes any CPUs, as a list such as "0-3,8". */
    [[nodiscard]] BindGuard(const Context &context, const std::string &list)
    {
        context.bind_push_cpuset(list);
        handle_ = context.handle();
    }
    /** The same from a text in the program. */
    [[nodiscard]] BindGuard(const Context &context, const char *list)
        : BindGuard(context, std::string(list))
    {
    }
    /** Pushes any CPUs. */
    [[nodiscard]] BindGuard(const Context &context, const CpuSet &cpus)
        : BindGuard(context, cpus.str())
    {
    }

    BindGuard(BindGuard &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    /** Pops what was pushed before. */
    BindGuard &operator=(BindGuard &&other) noexcept
    {
        BindGuard taken_over(std::move(other));
        std::swap(handle_, taken_over.handle_);
        return *this;
    }
    ~BindGuard()
    {
        if (nullptr != handle_) (void)QUO_bind_pop(handle_);
    }

    /** Pops now; does nothing when that was done. The guard is empty then, also on failure. */
    void pop()
    {
        const QUO_context handle = release();
        if (nullptr != handle) detail::check(QUO_bind_pop(handle));
    }
    /** Returns true if the destructor will pop. */
    bool active() const noexcept { return nullptr != handle_; }
    /** Leaves the binding pushed, for a later Context::bind_pop(). */
    QUO_context release() noexcept { return std::exchange(handle_, nullptr); }

private:
    QUO_context handle_ = nullptr;
};

/**
 * A node at one moment, as plain data. Made by NodeInfo::snapshot(); printed by `<<`.
 */
struct NodeSnapshot {
    /** One rank of the node. */
    struct Rank {
        int qid = 0;
        /** False when it ended without freeing the context; its binding is empty then. */
        bool alive = true;
        CpuSet binding;
    };
    /** One package or NUMA node. */
    struct Place {
        ObjectType type = ObjectType::machine;
        /** Logical index. */
        int index = 0;
        CpuSet cpus;
        /** Ranks with a binding that shares a CPU with it, ascending. */
        std::vector<int> qids;
    };

    /** Nodes of the context. */
    int nodes = 0;
    /** The caller's qid. */
    int id = 0;
    int packages = 0;
    int numa_nodes = 0;
    int cores = 0;
    int pus = 0;
    /** Returns true if the caller is bound. */
    bool bound = false;
    /** Every rank of the node, in the order of the qids. */
    std::vector<Rank> ranks;
    /** Every package, then every NUMA node. */
    std::vector<Place> places;

    /** Prints a few lines for people. */
    friend std::ostream &operator<<(std::ostream &out, const NodeSnapshot &node)
    {
        out << node.packages << " packages, " << node.numa_nodes << " NUMA nodes, " << node.cores
            << " cores, " << node.pus << " PUs; " << node.ranks.size() << " ranks here, "
            << node.nodes << " nodes\n";
        for (const Place &place : node.places) {
            out << place.type << ' ' << place.index << ": CPUs " << place.cpus << ", ranks";
            for (int qid : place.qids) out << ' ' << qid;
            out << (place.qids.empty() ? " none\n" : "\n");
        }
        for (const Rank &rank : node.ranks) {
            out << "rank " << rank.qid << (rank.qid == node.id ? " (me): " : ": ");
            if (rank.alive) {
                out << "CPUs " << rank.binding << '\n';
            } else {
                out << "dead\n";
            }
        }
        return out;
    }
};

/**
 * Where the caller is on its node. Each query asks again, so that answers follow pushes and pops;
 * snapshot() keeps everything known at one moment. All local.
 *
 * @code{.cpp}
 * quo::NodeInfo here(ctx);
 * for (int socket : here.sockets()) std::printf("on socket %d\n", socket);
 * quo::NodeSnapshot now = here.snapshot();
 * std::printf("%d cores, %zu ranks\n", now.cores, now.ranks.size());
 * @endcode
 */
class NodeInfo {
public:
    explicit NodeInfo(const Context &context) noexcept : handle_(context.handle()) {}

    /** The objects of a type that the caller's binding shares a CPU with, as indices. */
    std::vector<int> objects_by_type(ObjectType type) const
    {
        std::vector<int> mine;
        for (const Object object : Objects(Context::borrow(handle_), type)) {
            if (object.contains_me()) mine.push_back(object.index());
        }
        return mine;
    }
    /** The machine, as index 0. */
    std::vector<int> machines() const { return objects_by_type(ObjectType::machine); }
    /** The caller's NUMA nodes. */
    std::vector<int> numa_nodes() const { return objects_by_type(ObjectType::numa_node); }
    /** The caller's packages. */
    std::vector<int> packages() const { return objects_by_type(ObjectType::package); }
    /** The caller's packages, by their other name. */
    std::vector<int> sockets() const { return objects_by_type(ObjectType::socket); }
    /** The caller's cores. */
    std::vector<int> cores() const { return objects_by_type(ObjectType::core); }
    /** The caller's processing units. */
    std::vector<int> processing_units() const { return objects_by_type(ObjectType::pu); }

    /** Everything at this moment. */
    NodeSnapshot snapshot() const
    {
        const Context context = Context::borrow(handle_);
        NodeSnapshot node;
        node.nodes = context.nnodes();
        node.id = context.id();
        node.packages = context.nsockets();
        node.numa_nodes = context.nnumanodes();
        node.cores = context.ncores();
        node.pus = context.npus();
        node.bound = context.bound();
        for (int qid = 0, count = context.nqids(); qid < count; ++qid) {
            node.ranks.push_back(rank(context, qid));
        }
        for (ObjectType type : {ObjectType::package, ObjectType::numa_node}) {
            for (const Object object : Objects(context, type)) {
                NodeSnapshot::Place place;
                place.type = type;
                place.index = object.index();
                place.cpus = object.cpus();
                for (const NodeSnapshot::Rank &each : node.ranks) {
                    if (each.binding.intersects(place.cpus)) place.qids.push_back(each.qid);
                }
                node.places.push_back(std::move(place));
            }
        }
        return node;
    }

    /** Prints the snapshot of this moment. */
    friend std::ostream &operator<<(std::ostream &out, const NodeInfo &info)
    {
        return out << info.snapshot();
    }

private:
    static NodeSnapshot::Rank rank(const Context &context, int qid)
    {
        NodeSnapshot::Rank rank;
        rank.qid = qid;
        try {
            rank.binding = context.binding_of(qid);
        } catch (const DeadMemberError &) {
            rank.alive = false;
        }
        return rank;
    }

    QUO_context handle_;
};

/**
 * A barrier among some ranks of a node; several are independent of each other.
 *
 * Making one and waiting are collective over the members; the rest is local.
 *
 * @code{.cpp}
 * quo::NamedBarrier all(ctx, "all");
 * all.wait();
 * all.wait(std::chrono::seconds(60));
 * if (ctx.id() == 0) quo::NamedBarrier(ctx, "alone", {0}).wait();
 * @endcode
 */
class NamedBarrier {
public:
    /** Among all ranks of the node. The name has 1 to 63 bytes. */
    NamedBarrier(const Context &context, const std::string &name)
        : barrier_(make(context, name, nullptr, 0))
    {
    }
    /** Among some ranks, the caller among them. */
    NamedBarrier(const Context &context, const std::string &name, const std::vector<int> &qids)
        : barrier_(make(context, name, detail::start(qids), detail::length(qids)))
    {
    }

    /** As QUO_named_barrier_wait(). */
    void wait() const { detail::check(QUO_named_barrier_wait(barrier_.get())); }
    /** As QUO_named_barrier_wait_timed(): throws TimeoutError on all members. */
    template <class Rep, class Period>
    void wait(std::chrono::duration<Rep, Period> timeout) const
    {
        const double seconds = detail::seconds(timeout);
        detail::check(QUO_named_barrier_wait_timed(barrier_.get(), seconds));
    }
    /** Frees it now. */
    void free() { barrier_.free(); }
    /** The handle, for the C interface; still owned by this. */
    QUO_named_barrier handle() const noexcept { return barrier_.get(); }

private:
    static QUO_named_barrier make(const Context &context, const std::string &name, const int *qids,
                                  int count)
    {
        return detail::result<QUO_named_barrier>(QUO_named_barrier_create, context.handle(),
                                                 name.c_str(), qids, count);
    }

    detail::Owned<QUO_named_barrier, QUO_named_barrier_free> barrier_;
};

/** @name Phases */
/** @{ */

/**
 * Specification of a phase; by default one worker per package with thread counts that follow its
 * binding. The same on every rank.
 *
 * @code{.cpp}
 * auto spec = quo::PhaseSpec()
 *                 .over(quo::ObjectType::numa_node)
 *                 .max_per_object(2)
 *                 .threads(quo::Threads::keep)
 *                 .name("radiation");
 * quo::Phase radiation(ctx, spec);
 * @endcode
 */
class PhaseSpec {
public:
    /** Type of object to spread workers over. On a machine that shows no packages,
        ObjectType::package stands for the machine as a whole. */
    PhaseSpec &over(ObjectType type) { return set(type_, type); }
    /** Most workers per object, at least 1. */
    PhaseSpec &max_per_object(int most) { return set(max_per_object_, most); }
    /** Handling of thread counts. */
    PhaseSpec &threads(Threads threads) { return set(threads_, threads); }
    /** Which cores of a hybrid processor to use. */
    PhaseSpec &cores(Cores cores) { return set(cores_, cores); }
    /** Conduct towards other phases; entering is then collective over the node. */
    PhaseSpec &sharing(Sharing sharing) { return set(sharing_, sharing); }
    /** Time to wait for the CPUs, after which the phase fails on every rank. */
    template <class Rep, class Period>
    PhaseSpec &sharing_limit(std::chrono::duration<Rep, Period> limit)
    {
        return set(sharing_limit_, detail::seconds(limit));
    }
    /** The CPUs that each OpenMP thread of a worker may use. */
    PhaseSpec &pinning(Pinning pinning) { return set(pinning_, pinning); }
    /** A name for traces (the variable QUO_TRACE). */
    PhaseSpec &name(std::string name) { return set(name_, std::move(name)); }

    ObjectType over() const noexcept { return type_; }
    int max_per_object() const noexcept { return max_per_object_; }
    Threads threads() const noexcept { return threads_; }
    Cores cores() const noexcept { return cores_; }
    Sharing sharing() const noexcept { return sharing_; }
    /** In seconds; 0 for the limit of the context's creation. */
    double sharing_limit() const noexcept { return sharing_limit_; }
    Pinning pinning() const noexcept { return pinning_; }
    const std::string &name() const noexcept { return name_; }

private:
    template <class Value>
    PhaseSpec &set(Value &field, Value value)
    {
        field = std::move(value);
        return *this;
    }

    ObjectType type_ = ObjectType::package;
    int max_per_object_ = 1;
    Threads threads_ = Threads::openmp;
    Cores cores_ = Cores::all;
    Sharing sharing_ = Sharing::overlap;
    double sharing_limit_ = 0;
    Pinning pinning_ = Pinning::environment;
    std::string name_;
};

/** Assignment of a worker of a phase; handed to the work of Phase::run(). */
class Worker {
public:
    explicit Worker(const QUO_worker_t &worker)
        : threads_(worker.threads), qids_(worker.first_qid, worker.nqids),
          cpus_(CpuSet::parse(nullptr == worker.cpuset ? "" : worker.cpuset))
    {
    }

    /** Threads to run: the worker's share of the CPUs. */
    int threads() const noexcept { return threads_; }
    /** Ranks that this worker does the work of, its own included. */
    Qids qids() const noexcept { return qids_; }
    /** The CPUs the worker is bound to. */
    const CpuSet &cpus() const noexcept { return cpus_; }

private:
    int threads_;
    Qids qids_;
    CpuSet cpus_;
};

/** Cost of the last run of a phase for this rank. All zero before the first run. */
struct PhaseMetrics {
    using Seconds = std::chrono::duration<double>;

    /** True if this rank was selected. */
    bool selected = false;
    /** Threads this rank ran; 0 when it was not selected. */
    int threads = 0;
    /** At work, changes of binding and thread counts included. */
    Seconds run{0};
    /** Asleep. */
    Seconds quiesced{0};
    /** Moving data between ranks; 0 unless the library moves it. */
    Seconds remap{0};
};

class PhaseGuard;

/**
 * A phase: workers are selected once, then it runs any number of times. In a run the workers get
 * their wider bindings, and the other ranks of the node sleep until they are done.
 *
 * Making one, run(), and the end of a PhaseGuard are collective over the node; the rest is local. A
 * run is begun and ended by one thread.
 *
 * When the work throws, its worker is first restored as after any run and wakes the others; then
 * run() rethrows the exception on that rank. On the other ranks run() throws a RecoverableError of
 * Errc::work_failed that names the rank and includes the text of a std::exception. Work that fails
 * without an exception calls fail().
 *
 * @code{.cpp}
 * quo::Phase solve(ctx, quo::PhaseSpec().name("solve"));
 * for (int step = 0; step < 100; ++step) {
 *     // ... all ranks, one thread each ...
 *     solve.run([](const quo::Worker &worker) {
 *         std::printf("%d threads, working for %d ranks\n", worker.threads(),
 *                     worker.qids().size());
 *     });
 * }
 * @endcode
 */
class Phase {
public:
    /** As QUO_phase_create(). */
    explicit Phase(const Context &context, const PhaseSpec &spec = PhaseSpec())
        : phase_(make(context, spec))
    {
    }

    /**
     * Runs the phase once. The work is called on selected ranks as `work(const Worker &)` or
     * `work()`, on the calling thread. It must not end the thread or jump out.
     *
     * @return When the work returns nothing: whether the caller worked. Else what the work
     *         returned, as a std::optional that is empty on ranks that slept.
     * @throws Error as QUO_phase_run(), on every rank; what the work throws, on its rank. Of both,
     *         what the work threw.
     */
    template <class Work>
    auto run(Work &&work) const
    {
        using Plain = std::remove_reference_t<Work>;
        constexpr bool takes_worker = std::is_invocable_v<Plain &, const Worker &>;
        static_assert(takes_worker || std::is_invocable_v<Plain &>,
                      "the work of a phase is called as work(const quo::Worker &) or work()");
        if constexpr (takes_worker) {
            return called(work);
        } else {
            auto without_worker = [&work](const Worker &) -> decltype(auto) { return work(); };
            return called(without_worker);
        }
    }

    /** Starts a run that ends with the guard; an alternative to run(). */
    [[nodiscard]] PhaseGuard begin() const;

    /** Makes the run under way fail on all ranks of the node, at its end; as QUO_phase_fail(). By any
        thread, inside the work of run() or while a PhaseGuard is active. */
    void fail(const std::string &reason) const
    {
        detail::check(QUO_phase_fail(phase_.get(), reason.c_str()));
    }

    /** Binds the calling thread, number `number` of `count`, to one CPU until the run ends; as
        QUO_phase_pin_thread(). By any thread, inside the work of run() or while a PhaseGuard is active. */
    void pin_thread(int number, int count) const
    {
        detail::check(QUO_phase_pin_thread(phase_.get(), number, count));
    }

    /** The caller's assignment; empty when it is not selected. */
    Qids qids() const
    {
        int first = 0, count = 0;
        detail::check(QUO_phase_qids(phase_.get(), &first, &count));
        return {first, count};
    }
    /** Cost of the last run for the caller. */
    PhaseMetrics metrics() const
    {
        QUO_phase_metrics_t plain = {};
        plain.size = sizeof(plain);
        detail::check(QUO_phase_metrics(phase_.get(), &plain));
        PhaseMetrics metrics;
        metrics.selected = 0 != plain.selected;
        metrics.threads = plain.threads;
        metrics.run = PhaseMetrics::Seconds(plain.run_seconds);
        metrics.quiesced = PhaseMetrics::Seconds(plain.quiesced_seconds);
        metrics.remap = PhaseMetrics::Seconds(plain.remap_seconds);
        return metrics;
    }
    /** Frees it now; Errc::busy while a run has begun and not ended. */
    void free() { phase_.free(); }
    /** The handle, for the C interface; still owned by this. */
    QUO_phase handle() const noexcept { return phase_.get(); }

private:
    static QUO_phase make(const Context &context, const PhaseSpec &spec)
    {
        QUO_phase_spec_t plain = QUO_PHASE_SPEC_INIT;
        QUO_phase handle = nullptr;
        plain.type = static_cast<QUO_obj_type_t>(spec.over());
        plain.max_per_object = spec.max_per_object();
        plain.threads = static_cast<int>(spec.threads());
        plain.cores = static_cast<int>(spec.cores());
        plain.sharing = static_cast<int>(spec.sharing());
        plain.sharing_limit = spec.sharing_limit();
        plain.pinning = static_cast<int>(spec.pinning());
        plain.name = spec.name().empty() ? nullptr : spec.name().c_str();
        detail::check(QUO_phase_create(context.handle(), &plain, &handle));
        return handle;
    }

    /** Data passed through C to the work, and its results. */
    template <class Work, class Kept>
    struct Call {
        QUO_phase phase;
        Work *work;
        std::exception_ptr thrown;
        Kept kept;
    };

    /** Function that C calls: no exception may leave it. */
    template <class Work, class Kept>
    static void enter(const QUO_worker_t *worker, void *data) noexcept
    {
        auto &call = *static_cast<Call<Work, Kept> *>(data);
        try {
            if constexpr (std::is_same_v<Kept, bool>) {
                call.kept = true;
                (*call.work)(Worker(*worker));
            } else {
                call.kept.emplace((*call.work)(Worker(*worker)));
            }
        } catch (const std::exception &error) {
            call.thrown = std::current_exception();
            (void)QUO_phase_fail(call.phase, error.what());
        } catch (...) {
            call.thrown = std::current_exception();
            (void)QUO_phase_fail(call.phase, "the work threw an exception");
        }
    }

    template <class Work>
    auto called(Work &work) const
    {
        using Result = std::invoke_result_t<Work &, const Worker &>;
        if constexpr (std::is_void_v<Result>) {
            return finished(Call<Work, bool>{phase_.get(), &work, nullptr, false});
        } else {
            using Kept = std::optional<std::decay_t<Result>>;
            return finished(Call<Work, Kept>{phase_.get(), &work, nullptr, Kept()});
        }
    }

    template <class Work, class Kept>
    Kept finished(Call<Work, Kept> call) const
    {
        const int code = QUO_phase_run(phase_.get(), &Phase::enter<Work, Kept>, &call);
        if (call.thrown) {
            (void)QUO_last_error(); // the exception says more
            std::rethrow_exception(std::move(call.thrown));
        }
        detail::check(code);
        return std::move(call.kept);
    }

    detail::Owned<QUO_phase, QUO_phase_free> phase_;
};

/**
 * One run of a phase: begins when made, ends when destroyed, on the same thread. Ranks that are not
 * selected sleep at its end.
 *
 * The end is collective over the node and also runs when an exception unwinds the stack: the other
 * ranks are woken, and their end() throws Errc::work_failed. What fails at the end is known only
 * from end().
 *
 * @code{.cpp}
 * quo::Phase solve(ctx);
 * quo::PhaseGuard run = solve.begin();
 * if (run) std::printf("works with %d threads\n", run.threads());
 * run.end(); // throws if, for example, a worker could not be bound
 * @endcode
 */
class PhaseGuard {
public:
    /** As QUO_phase_begin(). Local. */
    [[nodiscard]] explicit PhaseGuard(const Phase &phase)
    {
        int selected = 0;
        detail::check(QUO_phase_begin(phase.handle(), &selected, &threads_));
        phase_ = phase.handle();
        unwinding_ = std::uncaught_exceptions();
        int first = 0, count = 0;
        if (0 != selected && QUO_SUCCESS == QUO_phase_qids(phase_, &first, &count)) {
            qids_ = Qids(first, count);
        }
    }
    PhaseGuard(PhaseGuard &&other) noexcept
        : phase_(std::exchange(other.phase_, nullptr)), threads_(std::exchange(other.threads_, 0)),
          qids_(std::exchange(other.qids_, Qids())), unwinding_(other.unwinding_)
    {
    }
    /** Ends the run that was there. */
    PhaseGuard &operator=(PhaseGuard &&other) noexcept
    {
        PhaseGuard taken_over(std::move(other));
        std::swap(phase_, taken_over.phase_);
        std::swap(threads_, taken_over.threads_);
        std::swap(qids_, taken_over.qids_);
        std::swap(unwinding_, taken_over.unwinding_);
        return *this;
    }
    ~PhaseGuard()
    {
        if (nullptr == phase_) return;
        if (std::uncaught_exceptions() > unwinding_) {
            (void)QUO_phase_fail(phase_, "an exception ended the run");
            (void)QUO_phase_end(phase_);
            (void)QUO_last_error(); // the exception says more
            return;
        }
        (void)QUO_phase_end(phase_);
    }

    /** Returns true if the caller works. */
    bool selected() const noexcept { return threads_ > 0; }
    explicit operator bool() const noexcept { return selected(); }
    /** Threads to run; 0 when the caller is not selected. */
    int threads() const noexcept { return threads_; }
    /** The caller's assignment; empty when it is not selected. */
    Qids qids() const noexcept { return qids_; }
    /** Returns true if the run continues. */
    bool active() const noexcept { return nullptr != phase_; }
    /** Makes the run fail on all ranks of the node, at its end; as QUO_phase_fail(). */
    void fail(const std::string &reason) const
    {
        detail::check(QUO_phase_fail(phase_, reason.c_str()));
    }
    /** Ends the run now; does nothing when it has ended. Collective over the node. */
    void end()
    {
        const QUO_phase phase = std::exchange(phase_, nullptr);
        if (nullptr != phase) detail::check(QUO_phase_end(phase));
    }

private:
    QUO_phase phase_ = nullptr;
    int threads_ = 0;
    Qids qids_;
    /* Exceptions under way when the run began. */
    int unwinding_ = 0;
};

inline PhaseGuard
Phase::begin() const
{
    return PhaseGuard(*this);
}

/** @} */
/** @name Cross-process memory */
/** @{ */

/**
 * Contiguous elements that other code owns: std::span for C++17. Converts to std::span where
 * available, and from View<T> to View<const T>.
 *
 * `at`, `front`, `back`, `first`, `last` and `subview` throw std::out_of_range; `[]` is as fast as
 * that of an array and checked by assert() only.
 *
 * @code{.cpp}
 * quo::Memory<double> memory(ctx, 100);
 * quo::View<double> mine = memory.local();
 * for (double &value : mine) value = 1.0;
 * quo::View<const double> ends = mine.last(10);
 * std::printf("%g\n", ends.at(9));
 * @endcode
 */
template <class T>
class View {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using pointer = T *;
    using reference = T &;
    using iterator = T *;

    /** Up to the end, for subview(). */
    static constexpr size_type npos = static_cast<size_type>(-1);

    /** No elements. */
    constexpr View() noexcept = default;
    /** `size` elements from `data` on. */
    constexpr View(T *data, size_type size) noexcept : data_(data), size_(size) {}
    /** A view to read from one to write. */
    template <class Other, class = std::enable_if_t<std::is_convertible_v<Other (*)[], T (*)[]> &&
                                                    !std::is_same_v<Other, T>>>
    constexpr View(const View<Other> &other) noexcept : data_(other.data()), size_(other.size())
    {
    }

    constexpr iterator begin() const noexcept { return data_; }
    constexpr iterator end() const noexcept { return data_ + size_; }
    constexpr pointer data() const noexcept { return data_; }
    constexpr size_type size() const noexcept { return size_; }
    constexpr size_type size_bytes() const noexcept { return size_ * sizeof(T); }
    constexpr bool empty() const noexcept { return 0 == size_; }

    constexpr reference operator[](size_type index) const noexcept
    {
        assert(index < size_);
        return data_[index];
    }
    constexpr reference at(size_type index) const
    {
        if (index >= size_) detail::out_of_range("quo::View::at", index, size_);
        return data_[index];
    }
    constexpr reference front() const { return at(0); }
    constexpr reference back() const { return at(size_ - 1); }

    /** The first `count` elements. */
    constexpr View first(size_type count) const { return subview(0, count); }
    /** The last `count` elements. */
    constexpr View last(size_type count) const
    {
        if (count > size_) detail::out_of_range("quo::View::last", count, size_);
        return subview(size_ - count, count);
    }
    /** `count` elements from `offset` on. */
    constexpr View subview(size_type offset, size_type count = npos) const
    {
        if (offset > size_) detail::out_of_range("quo::View::subview", offset, size_);
        if (npos == count) count = size_ - offset;
        if (count > size_ - offset) {
            detail::out_of_range("quo::View::subview", count, size_ - offset);
        }
        return View(data_ + offset, count);
    }

private:
    T *data_ = nullptr;
    size_type size_ = 0;
};

/**
 * Memory that ranks of a node share: one block of T per rank, behind each other in the order of the
 * qids, without gaps. It starts as zeros. Every rank gives the same T.
 *
 * T is copied by its bytes and seen by other processes: it must be trivially copyable, and pointers
 * in it mean nothing elsewhere. Reads and writes of different ranks are ordered by barriers or by
 * atomics, as between threads.
 *
 * Making it is collective over the ranks that share it; the rest is local. Views are valid while
 * the Memory lives; it may outlive its context.
 *
 * @code{.cpp}
 * quo::Memory<double> memory(ctx, 1000);
 * for (double &value : memory.local()) value = ctx.id();
 * ctx.barrier();
 * double sum = 0;
 * for (double value : memory.all()) sum += value;
 * quo::View<double> of_the_first = memory.of(0);
 * std::printf("%g %zu\n", sum, of_the_first.size());
 * @endcode
 */
template <class T>
class Memory {
    static_assert(std::is_trivially_copyable_v<T>,
                  "quo::Memory: T must be trivially copyable, since other processes see its bytes");
    static_assert(!std::is_pointer_v<T>,
                  "quo::Memory: pointers mean nothing in other processes; share indices");
    static_assert(!std::is_const_v<T> && !std::is_volatile_v<T>,
                  "quo::Memory: T has no const or volatile; take a View<const T> to read");

public:
    using value_type = T;

    /** Among all ranks of the node; `count` elements for the caller, 0 is allowed. */
    Memory(const Context &context, std::size_t count) : memory_(make(context, count))
    {
        last_ = context.nqids() - 1;
    }
    /** Among some ranks of the node, the caller among them; `qids` is the same on each of them. */
    Memory(const Context &context, const std::vector<int> &qids, std::size_t count)
        : memory_(make(context, qids, count))
    {
        const auto ends = std::minmax_element(qids.begin(), qids.end());
        first_ = *ends.first;
        last_ = *ends.second;
    }

    /** The caller's block. */
    View<T> local() const
    {
        QUO_xpm_view_t view = {nullptr, 0};
        detail::check(QUO_xpm_view_local(memory_.get(), &view));
        return typed(view);
    }
    /** The block of one rank. */
    View<T> of(int qid) const
    {
        QUO_xpm_view_t view = {nullptr, 0};
        detail::check(QUO_xpm_view_by_qid(memory_.get(), qid, &view));
        return typed(view);
    }
    /** The blocks of the ranks from `first` to `last`, both included, as one. */
    View<T> range(int first, int last) const
    {
        QUO_xpm_view_t view = {nullptr, 0};
        detail::check(QUO_xpm_view_by_qid_range(memory_.get(), first, last, &view));
        return typed(view);
    }
    /** The blocks of the ranks that a worker works for, as one; none for no ranks. */
    View<T> range(Qids qids) const
    {
        return qids.empty() ? View<T>() : range(qids.front(), qids.back());
    }
    /** All blocks as one. */
    View<T> all() const { return range(first_, last_); }

    /** Unmaps it from the calling process now. */
    void free() { memory_.free(); }
    /** The handle, for the C interface; still owned by this. */
    QUO_xpm_context handle() const noexcept { return memory_.get(); }

private:
    /** A size that no machine has where the true one is not a number: all ranks fail together. */
    static std::size_t bytes(std::size_t count) noexcept
    {
        return count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
    }
    static QUO_xpm_context make(const Context &context, std::size_t count)
    {
        return detail::result<QUO_xpm_context>(QUO_xpm_allocate, context.handle(), bytes(count));
    }
    static QUO_xpm_context make(const Context &context, const std::vector<int> &qids,
                                std::size_t count)
    {
        QUO_xpm_context handle = nullptr;
        /* The C interface of old leaves out a const here. */
        int *const start = const_cast<int *>(detail::start(qids));
        detail::check(QUO_xpm_allocate_by_qids(context.handle(), start, detail::length(qids),
                                               bytes(count), &handle));
        return handle;
    }
    static View<T> typed(const QUO_xpm_view_t &view)
    {
        const auto address = reinterpret_cast<std::uintptr_t>(view.base);
        if (0 != view.extent % sizeof(T) || (0 != view.extent && 0 != address % alignof(T))) {
            detail::raise(Errc::invalid_argument,
                          "quo::Memory: the ranks gave elements of different sizes");
        }
        return View<T>(static_cast<T *>(view.base), view.extent / sizeof(T));
    }

    detail::Owned<QUO_xpm_context, QUO_xpm_free> memory_;
    int first_ = 0;
    int last_ = 0;
};

/** @} */

} // namespace quo

#if defined(__cpp_lib_span)
/* A View does not own its elements, so one from a temporary may become a std::span. */
template <class T>
inline constexpr bool std::ranges::enable_borrowed_range<quo::View<T>> = true;
#endif

#undef QUO_HPP_SHARED

#endif
