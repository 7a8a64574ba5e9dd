/* Assertions for the C tests: each failure is printed with its location and values and counted, and
 * the program continues, so that ranks do not leave each other waiting. The count is the exit status.
 */

#ifndef QUO_TESTS_CHECK_H
#define QUO_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quo.h"

static int check_failures = 0;
static int check_rank = -1;

static inline void
check_fail(const char *file, int line, const char *what)
{
    ++check_failures;
    printf("FAILED [rank %d] %s:%d: %s\n", check_rank, file, line, what);
    fflush(stdout);
}

static inline void
check_int(const char *file, int line, const char *what, long long actual, long long expected)
{
    if (actual == expected) return;
    check_fail(file, line, what);
    printf("    is %lld, should be %lld\n", actual, expected);
}

static inline void
check_code(const char *file, int line, const char *call, int actual, const char *name, int expected)
{
    if (actual == expected) return;
    check_fail(file, line, call);
    printf("    returned %d (%s), should be %s; last error: %s\n", actual, QUO_strerror(actual),
           name, QUO_last_error());
}

static inline void
check_string(const char *file, int line, const char *what, const char *actual, const char *expected)
{
    if (NULL != actual && 0 == strcmp(actual, expected)) return;
    check_fail(file, line, what);
    printf("    is \"%s\", should be \"%s\"\n", NULL == actual ? "(null)" : actual, expected);
}

static inline void
check_error_names(const char *file, int line, const char *words)
{
    if (NULL != strstr(QUO_last_error(), words)) return;
    check_fail(file, line, "the last error says too little");
    printf("    \"%s\" does not name \"%s\"\n", QUO_last_error(), words);
}

/* The ranks of this host. MPI_COMM_TYPE_SHARED is not reliable: an MPI that shares no memory, such as
 * MPICH 5 over UCX, puts each rank of a host into a separate communicator. */
static inline MPI_Comm
check_ranks_of_host(void)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0, size = 0, rank = 0, first = 0;
    MPI_Comm host;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Get_processor_name(name, &length);
    char *names = malloc((size_t)size * sizeof name);
    MPI_Allgather(name, sizeof name, MPI_CHAR, names, sizeof name, MPI_CHAR, MPI_COMM_WORLD);
    while (0 != strcmp(names + (size_t)first * sizeof name, name)) ++first;
    free(names);
    MPI_Comm_split(MPI_COMM_WORLD, first, rank, &host);
    return host;
}

/* The condition holds. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) check_fail(__FILE__, __LINE__, #condition);                              \
    } while (0)

/* Two whole numbers are equal. */
#define CHECK_INT(actual, expected)                                                                \
    check_int(__FILE__, __LINE__, #actual, (long long)(actual), (long long)(expected))

/* Two strings are equal. */
#define CHECK_STRING(actual, expected) check_string(__FILE__, __LINE__, #actual, actual, expected)

/* The call returns the code. */
#define CHECK_CODE(call, code) check_code(__FILE__, __LINE__, #call, call, #code, code)

/* The call succeeds. */
#define CHECK_OK(call) CHECK_CODE(call, QUO_SUCCESS)

/* The call succeeds, or the test cannot continue and the whole job ends. */
#define REQUIRE_OK(call)                                                                           \
    do {                                                                                           \
        int required = (call);                                                                     \
        check_code(__FILE__, __LINE__, #call, required, "QUO_SUCCESS", QUO_SUCCESS);               \
        if (QUO_SUCCESS != required) MPI_Abort(MPI_COMM_WORLD, 99);                                \
    } while (0)

/* The last error text holds the words. */
#define CHECK_ERROR_NAMES(words) check_error_names(__FILE__, __LINE__, words)

/* The object types that exist, and some that do not. */
static const QUO_obj_type_t check_types[] = {QUO_OBJ_MACHINE, QUO_OBJ_NUMANODE, QUO_OBJ_PACKAGE,
                                             QUO_OBJ_SOCKET,  QUO_OBJ_CORE,     QUO_OBJ_PU,
                                             QUO_OBJ_DIE,     QUO_OBJ_L3CACHE,  QUO_OBJ_L2CACHE,
                                             QUO_OBJ_L1CACHE};
static const int check_not_types[] = {-1, 10, 1000, 2147483647, -2147483647 - 1};
#define CHECK_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static inline void
check_init(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
}

/* Ends MPI and returns the exit status: if one rank failed, all fail. */
static inline int
check_finish(void)
{
    int all = 0;
    MPI_Allreduce(&check_failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (0 == check_rank && 0 == all) printf("ok\n");
    return 0 == all ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Hides from the compiler that a handle is NULL or stale. */
static inline QUO_context
check_handle(unsigned long long bits)
{
    volatile unsigned long long hidden = bits;
    return (QUO_context)(size_t)hidden;
}

/* A handle that was valid once. Local. */
static inline QUO_context
check_freed(void)
{
    QUO_context q = NULL;
    REQUIRE_OK(QUO_create(&q, MPI_COMM_SELF));
    REQUIRE_OK(QUO_free(q));
    return q;
}

/* The call, written with the handle `bad`, refuses NULL, a freed handle, and numbers that were
 * never handles. */
#define CHECK_REFUSES_BAD_HANDLES(call)                                                            \
    do {                                                                                           \
        static const unsigned long long never[] = {1, 8, 0xdeadbeefULL, 0x7fff00000010ULL, ~0ULL}; \
        QUO_context bad = check_handle(0);                                                         \
        CHECK_CODE(call, QUO_ERR_INVLD_ARG);                                                       \
        bad = check_freed();                                                                       \
        CHECK_CODE(call, QUO_ERR_INVLD_HANDLE);                                                    \
        for (int each = 0; each < CHECK_COUNT(never); ++each) {                                    \
            bad = check_handle(never[each]);                                                       \
            CHECK_CODE(call, QUO_ERR_INVLD_HANDLE);                                                \
        }                                                                                          \
    } while (0)

/* Every rank of the world got the same code. Collective. */
static inline void
check_same_everywhere(const char *file, int line, const char *call, int code)
{
    int low = 0, high = 0;
    MPI_Allreduce(&code, &low, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&code, &high, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (low == high) return;
    check_fail(file, line, call);
    printf("    returned %d here, but %d to %d on the ranks\n", code, low, high);
}

/* The call fails with one code on every rank of the world. Collective. */
#define CHECK_FAILS_EVERYWHERE(call)                                                               \
    do {                                                                                           \
        int failed = (call);                                                                       \
        CHECK(QUO_SUCCESS != failed);                                                              \
        check_same_everywhere(__FILE__, __LINE__, #call, failed);                                  \
    } while (0)

/* The call returns the code on every rank of the world. Collective. */
#define CHECK_CODE_EVERYWHERE(call, code)                                                          \
    do {                                                                                           \
        int returned = (call);                                                                     \
        check_code(__FILE__, __LINE__, #call, returned, #code, code);                              \
        check_same_everywhere(__FILE__, __LINE__, #call, returned);                                \
    } while (0)

/* The number of objects of a type. */
static inline int
check_nobjs(QUO_context q, QUO_obj_type_t type)
{
    int count = -1;
    REQUIRE_OK(QUO_nobjs_by_type(q, type, &count));
    return count;
}

/* The caller's binding as a list, in one of four buffers used in turn. */
static inline const char *
check_binding(QUO_context q)
{
    static char texts[4][4096];
    static int next = 0;
    char *list = NULL;
    REQUIRE_OK(QUO_stringify_cbind(q, &list));
    next = (next + 1) % 4;
    snprintf(texts[next], sizeof(texts[next]), "%s", list);
    free(list);
    return texts[next];
}

/* The PUs that the system allows us to use, which may be fewer than the machine has. */
struct check_pus {
    int count;
    int index[4096];
};

static inline struct check_pus
check_usable(QUO_context q)
{
    struct check_pus pus = {0, {0}};
    int all = check_nobjs(q, QUO_OBJ_PU), out = 0;
    REQUIRE_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
    for (int pu = 0; pu < all && pu < CHECK_COUNT(pus.index); ++pu) {
        REQUIRE_OK(QUO_cpuset_in_type(q, QUO_OBJ_PU, pu, &out));
        if (out) pus.index[pus.count++] = pu;
    }
    REQUIRE_OK(QUO_bind_pop(q));
    if (0 == pus.count) check_fail(__FILE__, __LINE__, "no PU may be used");
    return pus;
}

/* Number of the caller among the context's ranks on its host, and their count. */
static inline int
check_qid(QUO_context q)
{
    int qid = -1;
    REQUIRE_OK(QUO_id(q, &qid));
    return qid;
}

static inline int
check_nqids(QUO_context q)
{
    int nqids = -1;
    REQUIRE_OK(QUO_nqids(q, &nqids));
    return nqids;
}

/* Begins the body of a test between MPI_Init and MPI_Finalize: `CHECK_PROGRAM { ... }`. */
#define CHECK_PROGRAM                                                                              \
    static void check_program(void);                                                               \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        check_init(&argc, &argv);                                                                  \
        check_program();                                                                           \
        return check_finish();                                                                     \
    }                                                                                              \
    static void check_program(void)

/* The same with a context over all ranks: `CHECK_CONTEXT(q) { ... }`. */
#define CHECK_CONTEXT(q)                                                                           \
    static void check_context(QUO_context q);                                                      \
    CHECK_PROGRAM                                                                                  \
    {                                                                                              \
        QUO_context world = NULL;                                                                  \
        REQUIRE_OK(QUO_create(&world, MPI_COMM_WORLD));                                            \
        check_context(world);                                                                      \
        CHECK_OK(QUO_free(world));                                                                 \
    }                                                                                              \
    static void check_context(QUO_context q)

#endif
