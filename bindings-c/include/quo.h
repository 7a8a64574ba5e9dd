/**
 * @file quo.h
 * C interface of quo, the node runtime for coupled MPI+X programs.
 *
 * Compatible by source with QUO 1.4.1: every name, value and argument order of that interface is
 * here. What quo adds is marked "since quo 0.1" and always appended, never inserted.
 *
 * Words used below:
 * - *context*: what QUO_create() returns; it is created over a communicator and has a part on
 *   every node of it.
 * - *qid*: a rank's number among the context's ranks on the same node, from 0.
 * - *binding*: the set of CPUs the kernel lets a thread run on.
 * - *collective over the context*: every rank of the communicator given at creation must call.
 * - *collective over the node*: every rank of the context on the caller's node must call.
 * - *local*: any rank may call at any time, without the others.
 *
 * Rules that hold for every function unless its text says otherwise:
 * - The result is a return code; #QUO_SUCCESS is 0. After any other code QUO_last_error() returns
 *   what failed, on which object, and why. The library prints nothing and never aborts.
 * - An output is written on success only. Functions that return memory set the pointer to NULL and
 *   its length to 0 when they fail.
 * - A collective function that fails fails on every rank that takes part, also when the arguments
 *   of one rank only are wrong. A rank with a refused handle cannot take part.
 * - Local functions may be called by any thread, at the same time. A collective function may be
 *   called by any thread, by one thread per rank and context at a time.
 * - A handle that was freed, or was never returned by the library, is refused with
 *   #QUO_ERR_INVLD_HANDLE; NULL is refused with #QUO_ERR_INVLD_ARG. Neither is ever followed.
 * - Between MPI_Init and MPI_Finalize only: before, #QUO_ERR_CALL_BEFORE_INIT is returned; after,
 *   #QUO_ERR_CALL_AFTER_FINALIZE. QUO_version(), QUO_strerror(), QUO_last_error() and
 *   QUO_ptr_free() may be called at any time.
 */

#ifndef QUO_H_INCLUDED
#define QUO_H_INCLUDED

#include <stddef.h>

/* MPI_Comm. */
#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Defined when this header was included. */
#define LIBQUO 1

/** Defined when #QUO_API_VERSION is. */
#define QUO_HAS_API_VERSIONING 1

/** The version of the QUO interface that is offered: (major << 16) + (minor << 8) + patch. */
#define QUO_API_VERSION 0x00010401

/** The version of quo's own additions, counted the same way. Since quo 0.1. */
#define QUO_EXTENSION_VERSION 0x00000100

/**
 * An integer of Fortran, which a communicator is there: MPI_Fint, but for MPI 5's standard binary interface, which
 * has no such type and takes an int. Since quo 0.1.
 */
#if defined(MPI_ABI_VERSION) && MPI_ABI_VERSION > 0
typedef int QUO_fint_t;
#else
typedef MPI_Fint QUO_fint_t;
#endif

/** A context; its contents are private. */
struct QUO_t;
/** Short for struct QUO_t. */
typedef struct QUO_t QUO_t;
/** Handle of a context. */
typedef QUO_t *QUO_context;

/**
 * Return codes.
 *
 * *Fatal* means that the context is unreliable: free it, or end. *Not fatal* means that the call
 * changed nothing and the context works as before.
 *
 * The environment variable QUO_ERRORS says what a failed call does in addition to returning its
 * code: `return` (the default) nothing, `print` writes a line with rank, call and cause to stderr,
 * `abort` writes it and ends the job by MPI_Abort with the code as status (by abort() where MPI
 * does not run), but for #QUO_ERR_TIMEOUT, #QUO_ERR_REFUSED, #QUO_ERR_ABORTED, #QUO_ERR_POP and a
 * free after MPI_Finalize. QUO_create() refuses any other value. With `return`, one line on stderr
 * at MPI_Finalize, or at the process's exit, names phases that have begun and not ended, and
 * failures for which the program called neither QUO_last_error() before the thread's next failure
 * nor QUO_strerror() with the code; on each node only the first process of a job with such a line
 * prints it.
 */
enum {
    /** Done. */
    QUO_SUCCESS = 0,
    /** Done, and it had been done before. */
    QUO_SUCCESS_ALREADY_DONE,
    /** An error without a specific code. Fatal. */
    QUO_ERR,
    /** The operating system refused a call. Fatal. */
    QUO_ERR_SYS,
    /** No memory, shared memory or handle is left. Fatal. */
    QUO_ERR_OOR,
    /** An argument is NULL, unknown or out of range. Not fatal. */
    QUO_ERR_INVLD_ARG,
    /** Called before MPI_Init. Not fatal: call again afterwards. */
    QUO_ERR_CALL_BEFORE_INIT,
    /** The machine's topology cannot be read, or QUO_TOPOLOGY does not hold one. Fatal. */
    QUO_ERR_TOPO,
    /** MPI returned an error. Fatal. */
    QUO_ERR_MPI,
    /** The machine or the MPI library cannot do this. Not fatal. */
    QUO_ERR_NOT_SUPPORTED,
    /** More pops than pushes; nothing was changed. Not fatal. */
    QUO_ERR_POP,
    /** The machine has no such object. Not fatal. */
    QUO_ERR_NOT_FOUND,
    /** A wait took longer than allowed; everyone in it gets this code. Not fatal. Since quo 0.1. */
    QUO_ERR_TIMEOUT,
    /** A rank of the node ended without freeing the context; QUO_last_error() names it.
        Not fatal: local functions work on, and collective ones after QUO_expel(). Since quo 0.1. */
    QUO_ERR_DEAD_MEMBER,
    /** The ranks gave different arguments to one collective call. Not fatal. Since quo 0.1. */
    QUO_ERR_DISAGREE,
    /** The handle is not one that is in use: freed, of another kind, or never returned.
        Not fatal. Since quo 0.1. */
    QUO_ERR_INVLD_HANDLE,
    /** Called after MPI_Finalize. Fatal. Since quo 0.1. */
    QUO_ERR_CALL_AFTER_FINALIZE,
    /** Another thread is inside a call on the object, or objects made from it are not freed yet;
        QUO_last_error() names them and their number. Not fatal. Since quo 0.1. */
    QUO_ERR_BUSY,
    /** The caller detached from the node (QUO_detach()) and cannot take part. Not fatal.
        Since quo 0.1. */
    QUO_ERR_DETACHED,
    /** A defect of the library, kept from spreading into the program. Fatal. Since quo 0.1. */
    QUO_ERR_INTERNAL,
    /** The world is in a state in which the call is not allowed (quo-elastic.h). Not fatal. Since quo 0.1. */
    QUO_ERR_STATE,
    /** A request to resize the world, or a change of process sets, was refused (quo-elastic.h). Not
        fatal. Since quo 0.1. */
    QUO_ERR_REFUSED,
    /** A resize of the world was aborted on all ranks (quo-elastic.h). Not fatal. Since quo 0.1. */
    QUO_ERR_ABORTED,
    /** The work of a phase failed on a rank (QUO_phase_fail()). Not fatal. Since quo 0.1. */
    QUO_ERR_WORK_FAILED,
    /** No run of the phase has begun on this thread: an end without a begin. Not fatal. Since quo 0.1. */
    QUO_ERR_NOT_BEGUN
};

/** Kinds of hardware objects. Indices of objects are logical: 0 is the first of its kind. */
typedef enum {
    /** The whole machine; there is exactly one. */
    QUO_OBJ_MACHINE = 0,
    /** NUMA node. */
    QUO_OBJ_NUMANODE,
    /** Package: what is plugged into one socket. */
    QUO_OBJ_PACKAGE,
    /** Another value with the meaning of #QUO_OBJ_PACKAGE. */
    QUO_OBJ_SOCKET,
    /** Core. */
    QUO_OBJ_CORE,
    /** Processing unit: a hardware thread, what the kernel calls a CPU. */
    QUO_OBJ_PU,
    /** Die inside a package. Since quo 0.1. */
    QUO_OBJ_DIE,
    /** Level-3 cache. Since quo 0.1. */
    QUO_OBJ_L3CACHE,
    /** Level-2 cache. Since quo 0.1. */
    QUO_OBJ_L2CACHE,
    /** Level-1 data cache. Since quo 0.1. */
    QUO_OBJ_L1CACHE
} QUO_obj_type_t;

/** Way in which QUO_bind_push() finds the object to bind to. */
typedef enum {
    /** The object given by type and index, wherever the caller is bound now. */
    QUO_BIND_PUSH_PROVIDED = 0,
    /** The smallest object of the type that encloses the caller's binding; when none does, the
        first that shares a CPU with it. */
    QUO_BIND_PUSH_OBJ
} QUO_bind_push_policy_t;

/** Flags of QUO_create_with_flags(). */
typedef enum {
    /** As QUO_create(). */
    QUO_CREATE_NO_FLAGS = 0,
    /** Hide all but one hardware thread of each core. */
    QUO_CREATE_NO_MT = 1,
    /** Lend the caller's CPUs while it waits in QUO_barrier() or QUO_phase_end(), see QUO_borrow().
        Ranks may differ in this. Since quo 0.1. */
    QUO_CREATE_LEND = 2,
    /** Plan phases without regard to the CPU quotas of control groups (containers), which otherwise
        cap the threads of workers. Ranks may differ in this. Since quo 0.1. */
    QUO_CREATE_IGNORE_QUOTA = 4
} QUO_create_flags_t;

/** Options of QUO_create_with_options(). Start from #QUO_CREATE_OPTIONS_INIT. Since quo 0.1. */
typedef struct QUO_create_options_t {
    /** sizeof(QUO_create_options_t), so that fields can be appended. */
    size_t size;
    /** A combination of #QUO_create_flags_t. */
    int flags;
} QUO_create_options_t;

/** Initialiser: no flags. */
#define QUO_CREATE_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(QUO_create_options_t), QUO_CREATE_NO_FLAGS                                          \
    }

/** Policy of QUO_auto_distrib_with_policy(). Since quo 0.1. */
typedef enum {
    /** At most the given number per object; bound ranks before unbound ones, each on an object it
        is bound to; unbound ranks fill what is left, spread over the objects. */
    QUO_DISTRIB_SPREAD = 0,
    /** The algorithm QUO was published with, to the letter: a rank that spans two objects counts
        on both, and ranks that share every object are never used to fill. */
    QUO_DISTRIB_LIBQUO_COMPAT
} QUO_distrib_policy_t;

/** @name Version and errors */
/** @{ */

/**
 * Returns the version of the library's binary interface: the number in libquo.so.8, and its revision.
 *
 * Local. May be called at any time, by any thread.
 *
 * @param[out] version    Binary interface number.
 * @param[out] subversion Revision of it.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG An output is NULL; nothing is written.
 *
 * @code{.c}
 * int version, subversion;
 * QUO_version(&version, &subversion);
 * @endcode
 */
int
QUO_version(int *version,
            int *subversion);

/**
 * One sentence for a return code. Since quo 0.1.
 *
 * Local. May be called at any time, by any thread.
 *
 * @param[in] code A return code; any other number gets a sentence that says so.
 * @return A constant string, never NULL; not to be freed.
 */
const char *
QUO_strerror(int code);

/**
 * What went wrong in the last call that failed in this thread: the function, the object and the
 * cause. Since quo 0.1.
 *
 * Local to the thread. May be called at any time.
 *
 * @return Never NULL; empty when no call has failed. Valid until the thread's next call that fails;
 *         not to be freed.
 *
 * @code{.c}
 * if (QUO_SUCCESS != QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PACKAGE, 9)) {
 *     fprintf(stderr, "%s\n", QUO_last_error());
 * }
 * @endcode
 */
const char *
QUO_last_error(void);

/** @} */
/** @name Contexts */
/** @{ */

/**
 * Creates a context over a communicator, which is duplicated.
 *
 * Collective over comm. Call between MPI_Init and MPI_Finalize. The first context of a process
 * discovers the machine (milliseconds, once per node); later ones reuse what is known.
 *
 * @param[out] q    The context, to be freed with QUO_free(); NULL on failure.
 * @param[in]  comm An intracommunicator.
 * @retval QUO_SUCCESS                 Done.
 * @retval QUO_ERR_INVLD_ARG           q is NULL, or comm is MPI_COMM_NULL or an intercommunicator.
 * @retval QUO_ERR_CALL_BEFORE_INIT    MPI_Init was not called.
 * @retval QUO_ERR_CALL_AFTER_FINALIZE MPI_Finalize was called.
 * @retval QUO_ERR_TOPO                The machine cannot be read or QUO_TOPOLOGY holds no topology.
 * @retval QUO_ERR_DISAGREE            The ranks asked for different things.
 * @retval QUO_ERR_OOR                 Shared memory or handles ran out.
 * @retval QUO_ERR_SYS                 The operating system refused something.
 * @retval QUO_ERR_MPI                 MPI failed.
 * @retval QUO_ERR_NOT_SUPPORTED       The process runs another MPI than the one this library was built
 *                                     for; QUO_last_error() names both.
 *
 * @code{.c}
 * QUO_context q = NULL;
 * MPI_Init(&argc, &argv);
 * if (QUO_SUCCESS != QUO_create(&q, MPI_COMM_WORLD)) {
 *     fprintf(stderr, "%s\n", QUO_last_error());
 *     MPI_Abort(MPI_COMM_WORLD, 1);
 * }
 * @endcode
 */
int
QUO_create(QUO_context *q,
           MPI_Comm comm);

/**
 * As QUO_create(), with flags that change what the context shows.
 *
 * @param[out] q     As for QUO_create().
 * @param[in]  comm  As for QUO_create().
 * @param[in]  flags A combination of #QUO_create_flags_t, the same on every rank.
 * @retval QUO_ERR_INVLD_ARG A flag is unknown; otherwise as QUO_create().
 *
 * @code{.c}
 * QUO_create_with_flags(&q, MPI_COMM_WORLD, QUO_CREATE_NO_MT);
 * @endcode
 */
int
QUO_create_with_flags(QUO_context *q,
                      MPI_Comm comm,
                      QUO_create_flags_t flags);

/**
 * As QUO_create(), with all options. Since quo 0.1.
 *
 * @param[out] q       As for QUO_create().
 * @param[in]  comm    As for QUO_create().
 * @param[in]  options The same on every rank; NULL means #QUO_CREATE_OPTIONS_INIT.
 * @retval QUO_ERR_INVLD_ARG A field is out of range, size is too small, or a field is set that a
 *                           later version of the library appended; otherwise as QUO_create().
 *
 * @code{.c}
 * QUO_create_options_t options = QUO_CREATE_OPTIONS_INIT;
 * options.flags = QUO_CREATE_NO_MT | QUO_CREATE_LEND;
 * QUO_create_with_options(&q, MPI_COMM_WORLD, &options);
 * @endcode
 */
int
QUO_create_with_options(QUO_context *q,
                        MPI_Comm comm,
                        const QUO_create_options_t *options);

/**
 * Frees a context. Bindings that are still pushed are restored first.
 *
 * Collective over the context. Call before MPI_Finalize, by one thread, while no other thread is
 * inside a call on the context. Phases and named barriers made from it must be freed first;
 * cross-process memory may outlive it.
 *
 * @param[in] q A context. NULL is allowed and does nothing.
 * @retval QUO_SUCCESS                 Done; the handle is no longer valid.
 * @retval QUO_ERR_INVLD_HANDLE        q was freed before or is not a context.
 * @retval QUO_ERR_BUSY                Another thread uses it, or phases or barriers of it are left.
 * @retval QUO_ERR_CALL_AFTER_FINALIZE MPI_Finalize was called.
 *
 * @code{.c}
 * QUO_free(q);
 * MPI_Finalize();
 * @endcode
 */
int
QUO_free(QUO_context q);

/** @} */
/** @name What the machine has */
/** @{ */

/**
 * Counts the objects of a type on the caller's node.
 *
 * Local.
 *
 * @param[in]  q           A context.
 * @param[in]  target_type Type of object.
 * @param[out] out_nobjs   How many there are; 0 when the machine has none.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The type is unknown, or a pointer is NULL.
 *
 * @code{.c}
 * int packages = 0;
 * QUO_nobjs_by_type(q, QUO_OBJ_PACKAGE, &packages);
 * @endcode
 */
int
QUO_nobjs_by_type(QUO_context q,
                  QUO_obj_type_t target_type,
                  int *out_nobjs);

/**
 * Counts the objects of one type inside an object of another, for example the cores of a package.
 *
 * Local. An object is inside another when all of its CPUs are.
 *
 * @param[in]  q             A context.
 * @param[in]  in_type       Type of the outer object.
 * @param[in]  in_type_index Index of the outer object, from 0.
 * @param[in]  type          Type of the objects to count.
 * @param[out] out_result    How many there are.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A type is unknown, there is no object with that index, or a pointer is
 *                           NULL.
 *
 * @code{.c}
 * int cores = 0;
 * QUO_nobjs_in_type_by_type(q, QUO_OBJ_PACKAGE, 0, QUO_OBJ_CORE, &cores);
 * @endcode
 */
int
QUO_nobjs_in_type_by_type(QUO_context q,
                          QUO_obj_type_t in_type,
                          int in_type_index,
                          QUO_obj_type_t type,
                          int *out_result);

/**
 * Returns the CPUs of an object. Since quo 0.1.
 *
 * Local.
 *
 * @param[in]  q          A context.
 * @param[in]  type       Type of the object.
 * @param[in]  type_index Index of the object, from 0.
 * @param[out] out_list   Physical CPU numbers as a list such as "0-3,8"; empty for a NUMA node
 *                        without CPUs. Free with free().
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The type is unknown, there is no object with that index, or a pointer
 *                           is NULL.
 * @retval QUO_ERR_OOR       No memory.
 *
 * @code{.c}
 * char *list = NULL;
 * if (QUO_SUCCESS == QUO_cpuset_of_type(q, QUO_OBJ_NUMANODE, 0, &list)) puts(list);
 * free(list);
 * @endcode
 */
int
QUO_cpuset_of_type(QUO_context q,
                   QUO_obj_type_t type,
                   int type_index,
                   char **out_list);

/**
 * Counts the kinds of cores: more than 1 on a hybrid processor with fast and slow ones. Since quo 0.1.
 *
 * Local.
 *
 * @param[in]  q          A context.
 * @param[out] out_nkinds How many there are, at least 1.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A pointer is NULL.
 *
 * @code{.c}
 * int nkinds = 0;
 * QUO_ncore_kinds(q, &nkinds);
 * @endcode
 */
int
QUO_ncore_kinds(QUO_context q,
                int *out_nkinds);

/**
 * Returns the CPUs and the speed of a kind of cores. Since quo 0.1.
 *
 * Local.
 *
 * @param[in]  q         A context.
 * @param[in]  index     Index of the kind, from 0, the slowest.
 * @param[out] out_speed Speed of a core relative to the other kinds: the kernel's capacity of a CPU,
 *                       or the highest frequency in MHz; 0 where unknown.
 * @param[out] out_list  Physical CPU numbers as a list such as "0-3,8". Free with free().
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG There is no kind with that index, or a pointer is NULL.
 * @retval QUO_ERR_OOR       No memory.
 *
 * @code{.c}
 * char *list = NULL;
 * int nkinds = 0, speed = 0;
 * QUO_ncore_kinds(q, &nkinds);
 * if (QUO_SUCCESS == QUO_core_kind(q, nkinds - 1, &speed, &list)) printf("fast: %s\n", list);
 * free(list);
 * @endcode
 */
int
QUO_core_kind(QUO_context q,
              int index,
              int *out_speed,
              char **out_list);

/**
 * Counts the NUMA nodes of the caller's node. Local.
 *
 * @param[in]  q              A context.
 * @param[out] out_nnumanodes How many there are.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A pointer is NULL.
 *
 * @code{.c}
 * int numa_nodes = 0;
 * QUO_nnumanodes(q, &numa_nodes);
 * @endcode
 */
int
QUO_nnumanodes(QUO_context q,
               int *out_nnumanodes);

/** As QUO_nnumanodes(), for packages. Local. */
int
QUO_nsockets(QUO_context q,
             int *out_nsockets);

/** As QUO_nnumanodes(), for cores. Local. */
int
QUO_ncores(QUO_context q,
           int *out_ncores);

/** As QUO_nnumanodes(), for processing units (hardware threads). Local. */
int
QUO_npus(QUO_context q,
         int *out_npus);

/** As QUO_nnumanodes(), for the nodes of the context: machines, not NUMA nodes. Local. */
int
QUO_nnodes(QUO_context q,
           int *out_nodes);

/** @} */
/** @name Places and bindings of ranks */
/** @{ */

/** As QUO_nnumanodes(), for the context's ranks on the caller's node, with the caller. Local. */
int
QUO_nqids(QUO_context q,
          int *out_nqids);

/**
 * Returns the caller's qid.
 *
 * Local.
 *
 * @param[in]  q       A context.
 * @param[out] out_qid 0 to QUO_nqids() - 1, in the order of the ranks in the communicator.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A pointer is NULL.
 *
 * @code{.c}
 * int qid = 0;
 * QUO_id(q, &qid);
 * if (0 == qid) printf("once per node\n");
 * @endcode
 */
int
QUO_id(QUO_context q,
       int *out_qid);

/**
 * Returns whether the caller's binding shares a CPU with an object. A rank that may run anywhere is
 * in every object.
 *
 * Local; asks the kernel each time, so the answer is true now.
 *
 * @param[in]  q             A context.
 * @param[in]  type          Type of the object.
 * @param[in]  in_type_index Index of the object, from 0.
 * @param[out] out_result    1 or 0.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The type is unknown, there is no object with that index, or a pointer
 *                           is NULL.
 * @retval QUO_ERR_SYS       The kernel refused to return the binding.
 *
 * @code{.c}
 * int here = 0;
 * QUO_cpuset_in_type(q, QUO_OBJ_PACKAGE, 1, &here);
 * @endcode
 */
int
QUO_cpuset_in_type(QUO_context q,
                   QUO_obj_type_t type,
                   int in_type_index,
                   int *out_result);

/**
 * Lists the ranks of the node whose bindings share a CPU with an object.
 *
 * Local; asks the kernel about each rank, so the answer is true now.
 *
 * @param[in]  q             A context.
 * @param[in]  type          Type of the object.
 * @param[in]  in_type_index Index of the object, from 0.
 * @param[out] out_nqids     How many ranks there are.
 * @param[out] out_qids      Their qids, ascending; NULL when there is none. Free with free().
 * @retval QUO_SUCCESS         Done.
 * @retval QUO_ERR_INVLD_ARG   The type is unknown, there is no object with that index, or a pointer
 *                             is NULL.
 * @retval QUO_ERR_DEAD_MEMBER A rank of the node has ended.
 * @retval QUO_ERR_OOR         No memory.
 *
 * @code{.c}
 * int count = 0, *qids = NULL;
 * if (QUO_SUCCESS == QUO_qids_in_type(q, QUO_OBJ_PACKAGE, 0, &count, &qids)) {
 *     for (int i = 0; i < count; ++i) printf("%d\n", qids[i]);
 * }
 * free(qids);
 * @endcode
 */
int
QUO_qids_in_type(QUO_context q,
                 QUO_obj_type_t type,
                 int in_type_index,
                 int *out_nqids,
                 int **out_qids);

/**
 * Returns whether the caller is bound, which means that its binding leaves out CPUs that its
 * control group (container, job step) lets it use now.
 *
 * Local. A process that may use one CPU only is never bound.
 *
 * @param[in]  q     A context.
 * @param[out] bound 1 or 0.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A pointer is NULL.
 * @retval QUO_ERR_SYS       The kernel refused to return the binding.
 *
 * @code{.c}
 * int bound = 0;
 * QUO_bound(q, &bound);
 * @endcode
 */
int
QUO_bound(QUO_context q,
          int *bound);

/**
 * Returns the caller's binding as text.
 *
 * Local.
 *
 * @param[in]  q         A context.
 * @param[out] cbind_str Physical CPU numbers as a list such as "0-3,8". Free with free().
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A pointer is NULL.
 * @retval QUO_ERR_SYS       The kernel refused to return the binding.
 * @retval QUO_ERR_OOR       No memory.
 *
 * @code{.c}
 * char *list = NULL;
 * if (QUO_SUCCESS == QUO_stringify_cbind(q, &list)) puts(list);
 * free(list);
 * @endcode
 */
int
QUO_stringify_cbind(QUO_context q,
                    char **cbind_str);

/**
 * Returns the binding of a rank of the caller's node as text. Since quo 0.1.
 *
 * Local.
 *
 * @param[in]  q         A context.
 * @param[in]  qid       0 to QUO_nqids() - 1.
 * @param[out] cbind_str As for QUO_stringify_cbind().
 * @retval QUO_ERR_INVLD_ARG   There is no such qid, or a pointer is NULL.
 * @retval QUO_ERR_DEAD_MEMBER That rank has ended; otherwise as QUO_stringify_cbind().
 */
int
QUO_stringify_cbind_of(QUO_context q,
                       int qid,
                       char **cbind_str);

/**
 * Explains the bindings of the node: what is bound where, by what, and why, read back from the
 * kernel, with logical and physical numbers. The text says so when the machine is simulated. Since
 * quo 0.1.
 *
 * Local.
 *
 * @param[in]  q    A context.
 * @param[in]  json 0: text for people; anything else: one JSON object.
 * @param[out] text Free with free().
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A pointer is NULL.
 * @retval QUO_ERR_OOR       No memory.
 *
 * @code{.c}
 * char *text = NULL;
 * if (QUO_SUCCESS == QUO_explain(q, 0, &text)) fputs(text, stdout);
 * free(text);
 * @endcode
 */
int
QUO_explain(QUO_context q,
            int json,
            char **text);

/** @} */
/** @name Changing the binding */
/** @{ */

/**
 * Binds the process to an object and remembers the binding it had.
 *
 * Local. Threads of the process whose binding equals the one being replaced move along; a thread
 * with another binding (an MPI progress thread, a pinned pool thread) is left alone. Only CPUs that
 * the system lets the process use are taken. The stack may be of any depth.
 *
 * @param[in] q         A context.
 * @param[in] policy    How to find the object.
 * @param[in] type      Type of the object.
 * @param[in] obj_index Index of the object, from 0; ignored with #QUO_BIND_PUSH_OBJ (-1 is
 *                      customary).
 * @retval QUO_SUCCESS           Done; the binding was read back from the kernel.
 * @retval QUO_ERR_INVLD_ARG     The policy or type is unknown, there is no object with that index,
 *                               or q is NULL.
 * @retval QUO_ERR_NOT_FOUND     No object of the type shares a CPU with the binding.
 * @retval QUO_ERR_NOT_SUPPORTED The object has no CPU that may be used.
 * @retval QUO_ERR_SYS           The kernel refused.
 *
 * @code{.c}
 * QUO_bind_push(q, QUO_BIND_PUSH_OBJ, QUO_OBJ_PACKAGE, -1);
 * threaded_solver();
 * QUO_bind_pop(q);
 * @endcode
 */
int
QUO_bind_push(QUO_context q,
              QUO_bind_push_policy_t policy,
              QUO_obj_type_t type,
              int obj_index);

/**
 * As QUO_bind_push(), for any set of CPUs. Since quo 0.1.
 *
 * @param[in] q    A context.
 * @param[in] list Physical CPU numbers such as "0-3,8".
 * @retval QUO_ERR_INVLD_ARG     The list is not one, is empty, names a CPU the machine does not
 *                               have, or a pointer is NULL.
 * @retval QUO_ERR_NOT_SUPPORTED None of the CPUs may be used; otherwise as QUO_bind_push().
 *
 * @code{.c}
 * QUO_bind_push_cpuset(q, "0-3,8");
 * @endcode
 */
int
QUO_bind_push_cpuset(QUO_context q,
                     const char *list);

/**
 * Undoes the caller's last push in this context, or the last one of any thread where the caller has
 * none: every thread that the push moved gets back the binding it had then.
 *
 * Several contexts, and several threads, may pop in any order. A thread that a later push has moved
 * keeps the binding of that push until it is popped too. Where CPUs of a binding are no longer
 * allowed, the pop restores the rest of it, and QUO_explain() says so; the whole binding is
 * restored by the next push, pop or phase after its CPUs are allowed again.
 *
 * Local.
 *
 * @param[in] q A context.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_POP       Nothing is pushed; nothing was changed.
 * @retval QUO_ERR_INVLD_ARG q is NULL.
 * @retval QUO_ERR_SYS       The kernel refused.
 */
int
QUO_bind_pop(QUO_context q);

/** @} */
/** @name Working together on a node */
/** @{ */

/**
 * Waits until every rank of the node has called. Waiting ranks sleep and leave their cores to the
 * others, which is what makes it different from MPI_Barrier.
 *
 * Collective over the node.
 *
 * @param[in] q A context.
 * @retval QUO_SUCCESS         All ranks have entered.
 * @retval QUO_ERR_INVLD_ARG   q is NULL.
 * @retval QUO_ERR_DEAD_MEMBER A rank has ended and can never enter; every waiting rank gets this
 * code.
 * @retval QUO_ERR_TIMEOUT     A rank entered with QUO_barrier_timed() and its time ran out.
 * @retval QUO_ERR_DETACHED    The caller has detached.
 *
 * @code{.c}
 * if (selected) {
 *     QUO_bind_push(q, QUO_BIND_PUSH_OBJ, QUO_OBJ_PACKAGE, -1);
 *     threaded_solver();
 *     QUO_bind_pop(q);
 * }
 * QUO_barrier(q);
 * @endcode
 */
int
QUO_barrier(QUO_context q);

/**
 * As QUO_barrier(), but waits no longer than given. Since quo 0.1.
 *
 * When the time of one rank runs out, the barrier fails for every rank that is in it or enters it
 * later; the next barrier works again.
 *
 * @param[in] q       A context.
 * @param[in] seconds How long to wait; 0 only looks whether everyone else is there.
 * @retval QUO_ERR_TIMEOUT       The time ran out before everyone came.
 * @retval QUO_ERR_INVLD_ARG     seconds is negative or not a number, or q is NULL.
 * @retval QUO_ERR_NOT_SUPPORTED The environment says QUO_WAIT=pthread or QUO_WAIT=mpi; otherwise as
 *                               QUO_barrier().
 */
int
QUO_barrier_timed(QUO_context q,
                  double seconds);

/**
 * Chooses the ranks that work when a phase needs fewer ranks than there are: at most a given number
 * per object.
 *
 * Collective over the node. No binding is changed. The same bindings always give the same choice.
 *
 * @param[in]  q                     A context.
 * @param[in]  distrib_over_this     Type of object to spread over; the same on every rank.
 * @param[in]  max_qids_per_res_type Most ranks per object, at least 1; the same on every rank.
 * @param[out] out_selected          1 when the caller was chosen, else 0.
 * @retval QUO_SUCCESS         Done.
 * @retval QUO_ERR_INVLD_ARG   The type is unknown, the number is below 1, or a pointer is NULL.
 * @retval QUO_ERR_NOT_FOUND   The machine has no object of the type.
 * @retval QUO_ERR_DISAGREE    The ranks gave different arguments.
 * @retval QUO_ERR_DEAD_MEMBER A rank of the node has ended.
 *
 * @code{.c}
 * int selected = 0;
 * QUO_auto_distrib(q, QUO_OBJ_PACKAGE, 1, &selected);
 * @endcode
 */
int
QUO_auto_distrib(QUO_context q,
                 QUO_obj_type_t distrib_over_this,
                 int max_qids_per_res_type,
                 int *out_selected);

/**
 * As QUO_auto_distrib(), with a choice of rule. Since quo 0.1.
 *
 * @param[in]  q                     A context.
 * @param[in]  distrib_over_this     As for QUO_auto_distrib().
 * @param[in]  max_qids_per_res_type As for QUO_auto_distrib().
 * @param[in]  policy                The same on every rank.
 * @param[out] out_selected          As for QUO_auto_distrib().
 * @retval QUO_ERR_INVLD_ARG The policy is unknown; otherwise as QUO_auto_distrib().
 */
int
QUO_auto_distrib_with_policy(QUO_context q,
                             QUO_obj_type_t distrib_over_this,
                             int max_qids_per_res_type,
                             QUO_distrib_policy_t policy,
                             int *out_selected);

/**
 * Makes a communicator of the ranks of the node that share an object with the caller.
 *
 * Collective over the context. Ranks of a node are together when their bindings lie on the same
 * object of the type; a binding that spans several counts for the first of them. #QUO_OBJ_MACHINE
 * gives all ranks of the node. The order is that of the qids.
 *
 * @param[in]  q           A context.
 * @param[in]  target_type Type of object; the same on every rank.
 * @param[out] out_comm    A new communicator, to be freed with MPI_Comm_free().
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The type is unknown, or a pointer is NULL.
 * @retval QUO_ERR_NOT_FOUND The binding of some rank lies on no object of the type.
 * @retval QUO_ERR_DISAGREE  The ranks gave different types.
 * @retval QUO_ERR_MPI       MPI failed.
 *
 * @code{.c}
 * MPI_Comm node;
 * QUO_get_mpi_comm_by_type(q, QUO_OBJ_MACHINE, &node);
 * MPI_Comm_free(&node);
 * @endcode
 */
int
QUO_get_mpi_comm_by_type(QUO_context q,
                         QUO_obj_type_t target_type,
                         MPI_Comm *out_comm);

/** @} */
/** @name Members that leave and return. Since quo 0.1. */
/** @{ */

/**
 * Leaves the barriers of the node: the other ranks no longer wait for the caller, and a barrier
 * that waits only for it completes. The caller keeps its handle; local functions work as before.
 *
 * Local. What is collective over the node returns #QUO_ERR_DETACHED to the caller until
 * QUO_attach(); named barriers have to be made again after that.
 *
 * @param[in] q A context.
 * @retval QUO_SUCCESS              Done.
 * @retval QUO_SUCCESS_ALREADY_DONE The caller had detached before.
 * @retval QUO_ERR_NOT_SUPPORTED    The environment says QUO_WAIT=pthread.
 */
int
QUO_detach(QUO_context q);

/**
 * Returns to the barriers after QUO_detach(): from the next barrier on the other ranks wait for the
 * caller again.
 *
 * Local. Agree with the other ranks when to return, for example by a message, or the caller waits
 * in a barrier that they have left.
 *
 * @param[in] q A context.
 * @retval QUO_SUCCESS              Done.
 * @retval QUO_SUCCESS_ALREADY_DONE The caller is attached.
 * @retval QUO_ERR_NOT_SUPPORTED    The environment says QUO_WAIT=pthread.
 */
int
QUO_attach(QUO_context q);

/**
 * Lists the ranks of the node that ended without freeing the context.
 *
 * Local.
 *
 * @param[in]  q         A context.
 * @param[out] out_nqids How many there are.
 * @param[out] out_qids  Their qids, ascending; NULL when there is none. Free with free().
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A pointer is NULL.
 */
int
QUO_dead_qids(QUO_context q,
              int *out_nqids,
              int **out_qids);

/**
 * Removes a dead rank, so that barriers and selections work without it.
 *
 * Local; every rank that is left calls it before its next collective call.
 *
 * @param[in] q   A context.
 * @param[in] qid The dead rank.
 * @retval QUO_SUCCESS              Done.
 * @retval QUO_SUCCESS_ALREADY_DONE Another rank has removed it.
 * @retval QUO_ERR_INVLD_ARG        There is no such qid, or that rank is alive.
 */
int
QUO_expel(QUO_context q,
          int qid);

/**
 * Takes a context to another set of ranks: same handle, new members. Barriers, plans and selections are
 * of the new ranks afterwards. Contexts over the communicator of an elastic world (quo-elastic.h) go
 * along by themselves. Since quo 0.1.
 *
 * Collective over comm. Ranks of it that do not have the context get it from QUO_create(); ranks that
 * have it and are not in comm call QUO_retire().
 *
 * @param[in] q    A context.
 * @param[in] comm An intracommunicator, which is duplicated.
 * @retval QUO_SUCCESS          Done.
 * @retval QUO_ERR_BUSY         On every rank when one has a phase open, a binding pushed, or another
 *                              thread that waits in the context; nothing has changed.
 * @retval QUO_ERR_INVLD_ARG    comm is MPI_COMM_NULL or an intercommunicator.
 * @retval QUO_ERR_DISAGREE     The ranks have different contexts.
 * @retval QUO_ERR_TIMEOUT      Not all ranks came.
 */
int
QUO_adapt(QUO_context q,
          MPI_Comm comm);

/**
 * Leaves the ranks of a context and keeps the handle: the others no longer wait for this rank. What
 * needs others is refused with #QUO_ERR_DETACHED; queries and bindings work. QUO_adapt() over a
 * communicator with this rank brings it back. Local. Since quo 0.1.
 *
 * @param[in] q A context.
 * @retval QUO_SUCCESS              Done.
 * @retval QUO_SUCCESS_ALREADY_DONE It had retired before.
 * @retval QUO_ERR_BUSY             A phase is open, a binding is pushed, or another thread waits.
 */
int
QUO_retire(QUO_context q);

/** @} */
/** @name Devices of the node. Since quo 0.1. */
/** @{ */

/** A kind of device, by its class on the PCI bus. */
typedef enum {
    /** A display controller or an accelerator. */
    QUO_DEVICE_GPU = 0,
    /** A network controller. */
    QUO_DEVICE_NETWORK,
    /** A storage controller. */
    QUO_DEVICE_STORAGE
} QUO_device_kind_t;

/**
 * Counts the devices of a kind on the caller's node, without GPUs that the environment hides from
 * the caller (CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK).
 *
 * Local.
 *
 * @param[in]  q            A context.
 * @param[in]  kind         Kind of device.
 * @param[out] out_ndevices How many there are; 0 when the machine has none.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The kind is unknown, or the pointer is NULL.
 */
int
QUO_ndevices(QUO_context q,
             QUO_device_kind_t kind,
             int *out_ndevices);

/**
 * Returns a device's place on the bus and the CPUs near it.
 *
 * Local.
 *
 * @param[in]  q        A context.
 * @param[in]  kind     Kind of device.
 * @param[in]  index    Index of the device, below QUO_ndevices(), in the order of the bus.
 * @param[out] out_bus  Its place, such as "0000:3b:00.0". Free with free().
 * @param[out] out_list CPUs near it, as a list such as "0-3,8"; the whole machine where the system
 *                      does not report nearness. Free with free().
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The kind is unknown, there is no such device, or a pointer is NULL.
 * @retval QUO_ERR_OOR       No memory.
 */
int
QUO_device(QUO_context q,
           QUO_device_kind_t kind,
           int index,
           char **out_bus,
           char **out_list);

/**
 * Returns whether a device is near a CPU that the caller is bound to.
 *
 * Local.
 *
 * @param[in]  q        A context.
 * @param[in]  kind     Kind of device.
 * @param[in]  index    Index of the device.
 * @param[out] out_near 1 if it is, else 0.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The kind is unknown, there is no such device, or the pointer is NULL.
 */
int
QUO_device_is_near(QUO_context q,
                   QUO_device_kind_t kind,
                   int index,
                   int *out_near);

/**
 * Returns whether a device is near an object, such as a NUMA node.
 *
 * Local.
 *
 * @param[in]  q             A context.
 * @param[in]  kind          Kind of device.
 * @param[in]  index         Index of the device.
 * @param[in]  type          Type of object.
 * @param[in]  in_type_index Index of the object.
 * @param[out] out_near      1 if they have a near CPU in common, else 0.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The kind or type is unknown, there is no such device or object, or the
 *                           pointer is NULL.
 */
int
QUO_device_in_type(QUO_context q,
                   QUO_device_kind_t kind,
                   int index,
                   QUO_obj_type_t type,
                   int in_type_index,
                   int *out_near);

/**
 * Distributes the devices of a kind over the ranks of the node: the numbers of ranks per device
 * differ by one at most, and within that limit near devices come first. Nothing is bound or hidden.
 *
 * Collective over the node.
 *
 * @param[in]  q         A context.
 * @param[in]  kind      Kind of device; the same on every rank.
 * @param[out] out_index Index of the caller's device; -1 when there is none.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The kind is unknown, or the pointer is NULL.
 * @retval QUO_ERR_DISAGREE  The ranks gave different kinds, or one of them a wrong argument.
 *
 * @code{.c}
 * int gpu = -1;
 * char *variables = NULL;
 * QUO_assign_device(q, QUO_DEVICE_GPU, &gpu);
 * if (gpu >= 0) QUO_visible_devices(q, gpu, &variables);
 * @endcode
 */
int
QUO_assign_device(QUO_context q,
                  QUO_device_kind_t kind,
                  int *out_index);

/**
 * Writes the environment variables by which a program that is started with them sees one GPU only,
 * such as "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1".
 *
 * Local. Nothing is set.
 *
 * @param[in]  q             A context.
 * @param[in]  gpu           Index of the GPU, below QUO_ndevices().
 * @param[out] out_variables The variables with a space between them; empty for a maker without such
 *                           a variable. Free with free().
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG There is no such GPU, or the pointer is NULL.
 * @retval QUO_ERR_OOR       No memory.
 */
int
QUO_visible_devices(QUO_context q,
                    int gpu,
                    char **out_variables);

/** @} */
/** @name Memory on the NUMA nodes of bindings. Since quo 0.1. */
/** @{ */

/** NUMA nodes from which the kernel takes pages when they are first written. */
typedef enum {
    /** As the kernel does without quo. */
    QUO_MEMORY_KEEP = 0,
    /** The node of the CPU that writes: pages follow the threads. */
    QUO_MEMORY_FOLLOW,
    /** Only the nodes of the CPUs given. */
    QUO_MEMORY_BIND,
    /** The nodes of the CPUs given, in turns. */
    QUO_MEMORY_INTERLEAVE
} QUO_memory_policy_t;

/** In place of a NUMA node in QUO_memory_on_node(): bytes that have no page. */
#define QUO_MEMORY_ABSENT (-1)

/**
 * Applies a memory policy to the caller's later pushes and phases: pages that the calling thread,
 * and threads that it starts, write first come from the NUMA nodes of the pushed CPUs. The pop of
 * the last push restores the thread's own policy, and #QUO_MEMORY_KEEP ends this. Existing threads
 * keep their policies, and existing pages stay, see QUO_memory_place().
 *
 * Local; by the thread that pushes.
 *
 * @param[in] q      A context.
 * @param[in] policy The policy.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The policy is unknown.
 * @retval QUO_ERR_NOT_SUPPORTED The machine is simulated.
 * @retval QUO_ERR_SYS       The kernel refuses, as containers may.
 *
 * @code{.c}
 * QUO_set_memory_policy(q, QUO_MEMORY_BIND);
 * QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_NUMANODE, 0);
 * @endcode
 */
int
QUO_set_memory_policy(QUO_context q,
                      QUO_memory_policy_t policy);

/**
 * Places memory on the NUMA nodes of an object: existing pages move, others are allocated there
 * when they are first written. Whole pages are placed, also where the memory has only a part of
 * one.
 *
 * Local.
 *
 * @param[in] q         A context.
 * @param[in] memory    The memory.
 * @param[in] bytes     Its length.
 * @param[in] type      Type of the object.
 * @param[in] obj_index Index of the object.
 * @param[in] policy    #QUO_MEMORY_BIND, #QUO_MEMORY_INTERLEAVE or #QUO_MEMORY_FOLLOW.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A type or policy is unknown, or there is no such object or memory.
 * @retval QUO_ERR_NOT_SUPPORTED The machine is simulated.
 * @retval QUO_ERR_SYS       The kernel refuses, or not all pages could move: pages that other
 *                           processes also map stay.
 */
int
QUO_memory_place(QUO_context q,
                 void *memory,
                 size_t bytes,
                 QUO_obj_type_t type,
                 int obj_index,
                 QUO_memory_policy_t policy);

/**
 * Asks the kernel for the bytes of memory that are on a NUMA node.
 *
 * Local.
 *
 * @param[in]  q         A context.
 * @param[in]  memory    The memory.
 * @param[in]  bytes     Its length.
 * @param[in]  numanode  Index of the node, or #QUO_MEMORY_ABSENT for bytes that have no page.
 * @param[out] out_bytes The bytes.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG There is no such node or memory, or the pointer is NULL.
 * @retval QUO_ERR_NOT_SUPPORTED The machine is simulated.
 * @retval QUO_ERR_SYS       The kernel refuses.
 */
int
QUO_memory_on_node(QUO_context q,
                   const void *memory,
                   size_t bytes,
                   int numanode,
                   long long *out_bytes);

/** @} */
/** @name CPUs of waiting ranks, lent to threaded ones. Since quo 0.1. */
/** @{ */

/**
 * Lends the caller's CPUs to other ranks of its node until QUO_reclaim(). To be called before a wait
 * that uses next to no CPU, such as one for another component. CPUs that another rank is bound to as
 * well are lent only while that rank lends them too.
 *
 * Local; never waits. Two calls of one process lend once.
 *
 * @param[in] q A context.
 * @retval QUO_SUCCESS              Done.
 * @retval QUO_SUCCESS_ALREADY_DONE The caller lends already.
 * @retval QUO_ERR_DETACHED         The caller has detached or retired.
 *
 * @code{.c}
 * QUO_lend(q);
 * wait_for_the_other_component();
 * QUO_reclaim(q);
 * @endcode
 */
int
QUO_lend(QUO_context q);

/**
 * Takes the caller's CPUs back, without waiting for a rank that has borrowed them: until that rank
 * looks with QUO_borrow_wanted() and gives back, both run on the same CPUs.
 *
 * Local; never waits.
 *
 * @param[in] q A context.
 * @retval QUO_SUCCESS              Done.
 * @retval QUO_SUCCESS_ALREADY_DONE The caller lends nothing.
 */
int
QUO_reclaim(QUO_context q);

/**
 * Borrows the CPUs that waiting ranks of the node lend, and binds the caller to its own CPUs and
 * these, as a push does. With nothing to borrow nothing is bound. A CPU is borrowed by one rank at a
 * time, and only when every rank that is bound to it lends it; a rank that ends has given back.
 *
 * Local; never waits. For the begin of a threaded region.
 *
 * @param[in]  q            A context.
 * @param[out] out_borrowed Number of CPUs that were borrowed, may be 0.
 * @param[out] out_threads  Number of threads that fills the caller's own CPUs and these.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A pointer is NULL; nothing is borrowed.
 * @retval QUO_ERR_BUSY      The caller has borrowed and not given back.
 * @retval QUO_ERR_DETACHED  The caller has detached or retired.
 *
 * @code{.c}
 * int borrowed, threads, wanted = 0;
 * QUO_borrow(q, &borrowed, &threads);
 * while (more_work() && !wanted) {
 *     chunk(threads);
 *     QUO_borrow_wanted(q, &wanted);
 * }
 * QUO_give_back(q);
 * @endcode
 */
int
QUO_borrow(QUO_context q,
           int *out_borrowed,
           int *out_threads);

/**
 * Returns whether a rank that the caller borrowed from has taken its CPUs back.
 *
 * Local; never waits. Cheap enough for every chunk of a loop.
 *
 * @param[in]  q          A context.
 * @param[out] out_wanted 1 if the caller should give back, else 0; 0 when it has borrowed nothing.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The pointer is NULL.
 */
int
QUO_borrow_wanted(QUO_context q,
                  int *out_wanted);

/**
 * Gives everything back that QUO_borrow() got, and undoes its push.
 *
 * Local; never waits.
 *
 * @param[in] q A context.
 * @retval QUO_SUCCESS              Done.
 * @retval QUO_SUCCESS_ALREADY_DONE The caller has borrowed nothing.
 * @retval QUO_ERR_BUSY             Bindings that were pushed since have not been popped; nothing is
 *                                  given back.
 */
int
QUO_give_back(QUO_context q);

/**
 * Counts the other ranks of the node that lend now, whether or not their CPUs are borrowed. One
 * load from memory for each rank of the node.
 *
 * Local; never waits. A program that has borrowed gets more only when this number has grown.
 *
 * @param[in]  q           A context.
 * @param[out] out_lenders Number of ranks, without the caller.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The pointer is NULL.
 *
 * @code{.c}
 * int lenders, borrowed, threads;
 * QUO_lenders(q, &lenders);
 * if (lenders > 0) QUO_borrow(q, &borrowed, &threads);
 * @endcode
 */
int
QUO_lenders(QUO_context q,
            int *out_lenders);

/** @} */
/** @name Named barriers: several independent ones per node. Since quo 0.1. */
/** @{ */

/** A named barrier; its contents are private. */
typedef struct QUO_named_barrier_t QUO_named_barrier_t;
/** Handle of a named barrier. */
typedef QUO_named_barrier_t *QUO_named_barrier;

/**
 * Makes, or opens, a barrier among some ranks of the node.
 *
 * Collective over the named qids.
 *
 * @param[in]  q           A context.
 * @param[in]  name        1 to 63 bytes; the same on every member.
 * @param[in]  qids        The members, the caller among them; NULL means all ranks of the node.
 * @param[in]  nqids       How many members; ignored when qids is NULL.
 * @param[out] out_barrier The barrier, to be freed with QUO_named_barrier_free(); NULL on failure.
 * @retval QUO_SUCCESS           Done.
 * @retval QUO_ERR_INVLD_ARG     The name is empty or too long, a qid is unknown or given twice, the
 *                               caller is not a member, or a pointer is NULL.
 * @retval QUO_ERR_OOR           No barrier is left in the context.
 *
 * @code{.c}
 * QUO_named_barrier io = NULL;
 * int members[] = {0, 1};
 * QUO_named_barrier_create(q, "io", members, 2, &io);
 * QUO_named_barrier_wait(io);
 * QUO_named_barrier_free(io);
 * @endcode
 */
int
QUO_named_barrier_create(QUO_context q,
                         const char *name,
                         const int *qids,
                         int nqids,
                         QUO_named_barrier *out_barrier);

/** As QUO_barrier(), among the members. Collective over the members. */
int
QUO_named_barrier_wait(QUO_named_barrier barrier);

/** As QUO_barrier_timed(), among the members. Collective over the members. */
int
QUO_named_barrier_wait_timed(QUO_named_barrier barrier,
                             double seconds);

/**
 * Frees the handle of a named barrier. Local.
 *
 * @param[in] barrier A named barrier. NULL is allowed and does nothing.
 * @retval QUO_SUCCESS          Done.
 * @retval QUO_ERR_INVLD_HANDLE It was freed before or is not a named barrier.
 * @retval QUO_ERR_BUSY         Another thread is inside a call on it.
 */
int
QUO_named_barrier_free(QUO_named_barrier barrier);

/** @} */
/** @name Phases: select, push, set threads, run, pop, wake. Since quo 0.1. */
/** @{ */

/** A phase; its contents are private. */
typedef struct QUO_phase_t QUO_phase_t;
/** Handle of a phase. */
typedef QUO_phase_t *QUO_phase;

/** Handling of thread counts in a phase. */
typedef enum {
    /** Nothing: the program sets them itself. */
    QUO_THREADS_KEEP = 0,
    /** Sets the thread count of every OpenMP runtime and every known BLAS library of the process,
        whatever loaded them, to the worker's share while the phase runs, and back to what they were
        at its end. Binds the OpenMP threads that a runtime pins elsewhere to the worker's CPUs
        meanwhile. The default. */
    QUO_THREADS_OPENMP
} QUO_threads_t;

/** The CPUs that each OpenMP thread of a worker may use while a phase runs that sets thread counts. */
typedef enum {
    /** As the variables say that pin a runtime's threads (OMP_PROC_BIND, OMP_PLACES,
        GOMP_CPU_AFFINITY, KMP_AFFINITY), but on the worker's CPUs: one thread per CPU, close or
        spread. All of the worker's CPUs for each thread where they say nothing. The default. */
    QUO_PINNING_ENVIRONMENT = 0,
    /** All of the worker's CPUs for each thread, whatever the variables say. */
    QUO_PINNING_NONE,
    /** One thread per CPU, in the order of the machine: neighbours share a core or a cache. */
    QUO_PINNING_CLOSE,
    /** One thread per CPU, at even distances: fewer threads than CPUs are far from each other. */
    QUO_PINNING_SPREAD
} QUO_pinning_t;

/** Which cores of a hybrid processor a phase uses. */
typedef enum {
    /** All. Workers of one object share the fast cores and the slow ones evenly, by their speeds. */
    QUO_CORES_ALL = 0,
    /** Cores of the fastest kind that the worker's object has. */
    QUO_CORES_FASTEST
} QUO_cores_t;

/** Conduct of a phase towards phases of other contexts and jobs that want the same CPUs. All
    phases that are to avoid each other's CPUs must say so. */
typedef enum {
    /** Runs at once, and shares CPUs with any other phase there. The default. */
    QUO_SHARING_OVERLAP = 0,
    /** Waits until all its CPUs are free, and has them alone while it runs. */
    QUO_SHARING_WAIT,
    /** Takes its free CPUs, and has them alone while it runs; waits only while some
        worker would have none. */
    QUO_SHARING_LEFT
} QUO_sharing_t;

/** Specification of a phase. Start from #QUO_PHASE_SPEC_INIT. The same on every rank. */
typedef struct QUO_phase_spec_t {
    /** sizeof(QUO_phase_spec_t), so that fields can be appended. */
    size_t size;
    /** Type of object to spread workers over. On a machine that shows no packages, as some virtual
        ones do, #QUO_OBJ_PACKAGE stands for the machine as a whole. */
    QUO_obj_type_t type;
    /** Most workers per object, at least 1. */
    int max_per_object;
    /** One of #QUO_threads_t. */
    int threads;
    /** A name for traces (the variable QUO_TRACE); NULL for none. */
    const char *name;
    /** One of #QUO_cores_t. */
    int cores;
    /** One of #QUO_sharing_t. Other than #QUO_SHARING_OVERLAP, workers must not share CPUs, and
        QUO_phase_begin() is collective over the node. */
    int sharing;
    /** Seconds to wait for the CPUs, after which QUO_phase_end() returns #QUO_ERR_TIMEOUT on every
        rank; 0 for the limit of QUO_create() (the variable QUO_CREATE_TIMEOUT). */
    double sharing_limit;
    /** One of #QUO_pinning_t. The phase then starts with an empty region in each OpenMP runtime,
        whose threads it pins until it ends. Threads that start later, such as those of inner teams,
        call QUO_phase_pin_thread(). A pinned thread hands its CPU on to threads that it starts. */
    int pinning;
} QUO_phase_spec_t;

/** Initialiser: one worker per package, whose thread counts follow its binding; no name. */
#define QUO_PHASE_SPEC_INIT                                                                        \
    {                                                                                              \
        sizeof(QUO_phase_spec_t), QUO_OBJ_PACKAGE, 1, QUO_THREADS_OPENMP, NULL, QUO_CORES_ALL,     \
            QUO_SHARING_OVERLAP, 0, QUO_PINNING_ENVIRONMENT                                        \
    }

/** Assignment of a worker of a phase. */
typedef struct QUO_worker_t {
    /** Threads to run: the worker's share of the CPUs, or fewer as QUO_phase_begin() has them. */
    int threads;
    /** First of the qids that this worker does the work of; they are contiguous. */
    int first_qid;
    /** Number of qids, the worker's own among them. */
    int nqids;
    /** The CPUs the worker is bound to, as a list; valid while the phase runs. */
    const char *cpuset;
} QUO_worker_t;

/** Cost of the last run of a phase for this rank. Set size before asking. */
typedef struct QUO_phase_metrics_t {
    /** sizeof(QUO_phase_metrics_t), so that fields can be appended. */
    size_t size;
    /** 1 when this rank was selected. */
    int selected;
    /** Threads this rank ran; 0 when it was not selected. */
    int threads;
    /** Seconds at work, changes of binding and thread counts included. */
    double run_seconds;
    /** Seconds this rank slept. */
    double quiesced_seconds;
    /** Seconds spent on moving data between ranks; 0 unless the library moves it. */
    double remap_seconds;
} QUO_phase_metrics_t;

/** Work of a phase: called on selected ranks, with the data given to QUO_phase_run(). Must return:
    not by longjmp, exception or thread exit. */
typedef void (*QUO_phase_work_t)(const QUO_worker_t *worker, void *data);

/**
 * Selects the workers of a phase. A phase can be run any number of times.
 *
 * Collective over the node.
 *
 * @param[in]  q         A context.
 * @param[in]  spec      What is wanted; NULL means #QUO_PHASE_SPEC_INIT.
 * @param[out] out_phase The phase, to be freed with QUO_phase_free(); NULL on failure.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A field is out of range, or a pointer is NULL.
 * @retval QUO_ERR_NOT_FOUND The machine has no object of the type.
 * @retval QUO_ERR_DISAGREE  The ranks gave different specifications.
 *
 * @code{.c}
 * QUO_phase_spec_t spec = QUO_PHASE_SPEC_INIT;
 * QUO_phase phase = NULL;
 * int selected, threads;
 * QUO_phase_create(q, &spec, &phase);
 * QUO_phase_begin(phase, &selected, &threads);
 * if (selected) threaded_solver(threads);
 * QUO_phase_end(phase);
 * QUO_phase_free(phase);
 * @endcode
 */
int
QUO_phase_create(QUO_context q,
                 const QUO_phase_spec_t *spec,
                 QUO_phase *out_phase);

/**
 * Starts a run: a selected rank gets its wider binding; the others get selected 0 and call
 * QUO_phase_end(), where they sleep. A selected rank that cannot be bound gets selected 0 too, and
 * QUO_phase_end() then fails on every rank.
 *
 * Local; always followed by QUO_phase_end() on the same thread. Collective over the node in the first
 * run after QUO_adapt(), and after a change of the CPUs that ranks of the node may use (control group,
 * CPU offline): the ranks then plan the phase again for the present CPUs.
 *
 * @param[in]  phase    A phase.
 * @param[out] selected 1 when the caller works, else 0.
 * @param[out] threads  Threads to run: the worker's CPUs, or fewer where an OpenMP runtime gives a
 *                      region fewer (OMP_DYNAMIC, OMP_THREAD_LIMIT), of which QUO_explain() says
 *                      why; 0 when not selected. May be NULL.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_BUSY      A run of this phase has begun and not ended.
 * @retval QUO_ERR_INVLD_ARG A pointer is NULL.
 */
int
QUO_phase_begin(QUO_phase phase,
                int *selected,
                int *threads);

/**
 * Returns the ranks that the caller does the work of in this phase: first .. first + count - 1 of
 * the node.
 *
 * Local.
 *
 * @param[in]  phase A phase.
 * @param[out] first The first qid.
 * @param[out] count How many; 0 when the caller is not selected.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A pointer is NULL.
 */
int
QUO_phase_qids(QUO_phase phase,
               int *first,
               int *count);

/**
 * Binds the calling thread, one of several that work at once, to one CPU of the worker until the
 * run ends; then its mask is restored, unless it was changed meanwhile. The order is that of the
 * phase's #QUO_pinning_t, else close; more threads than CPUs share them.
 *
 * Local; by any thread of a rank that works in a run. For threads of inner teams, in their region, and
 * of other pools. Without effect on a simulated machine.
 *
 * @param[in] phase  A phase.
 * @param[in] number The thread's number among them, from 0.
 * @param[in] count  How many they are, on this rank.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG number is not below count, or the caller's rank does not work in a run of
 *                           this phase now.
 * @retval QUO_ERR_SYS       The system refuses.
 *
 * @code{.c}
 * #pragma omp parallel num_threads(2)
 * {
 *     int outer = omp_get_thread_num();
 * #pragma omp parallel num_threads(3)
 *     QUO_phase_pin_thread(phase, 3 * outer + omp_get_thread_num(), 6);
 * }
 * @endcode
 */
int
QUO_phase_pin_thread(QUO_phase phase,
                     int number,
                     int count);

/**
 * Ends a run: workers get their bindings and thread counts back and wake the others; the others
 * sleep here until then.
 *
 * Collective over the node.
 *
 * @param[in] phase A phase.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_NOT_BEGUN   No run has begun on this thread.
 * @retval QUO_ERR_INVLD_ARG   phase is NULL.
 * @retval QUO_ERR_WORK_FAILED A rank called QUO_phase_fail(): the same on all ranks.
 * @return As QUO_bind_push() when a worker could not be bound, the same on every rank; otherwise as
 *         QUO_barrier().
 */
int
QUO_phase_end(QUO_phase phase);

/**
 * Makes the run of a phase fail on all ranks of the node: QUO_phase_end(), or QUO_phase_run(), then
 * returns #QUO_ERR_WORK_FAILED on each of them, and QUO_last_error() names the rank and the reason.
 *
 * Local. Called between QUO_phase_begin() and QUO_phase_end(), or inside the work of
 * QUO_phase_run(), by any thread of any rank, selected or not; the run continues to its end as
 * usual, and the next run begins without the failure. Of several reasons of one rank the first
 * counts, of several ranks that of the lowest.
 *
 * @param[in] phase  A phase.
 * @param[in] reason Text for the other ranks, of which about 200 bytes reach them; NULL for none.
 * @retval QUO_SUCCESS       The run will fail.
 * @retval QUO_ERR_NOT_BEGUN No run has begun.
 * @retval QUO_ERR_INVLD_ARG phase is NULL, or reason is not UTF-8; in the last case the run still
 *                           fails, without the reason.
 *
 * @code{.c}
 * QUO_phase_begin(phase, &selected, &threads);
 * if (selected && 0 != threaded_solver(threads)) QUO_phase_fail(phase, "the solver diverged");
 * code = QUO_phase_end(phase); // QUO_ERR_WORK_FAILED on all ranks of the node
 * @endcode
 */
int
QUO_phase_fail(QUO_phase phase,
               const char *reason);

/**
 * Runs the phase once: begin, work on selected ranks, end. The binding is restored whatever
 * happens.
 *
 * Collective over the node. The work may call any function on the context but QUO_free() and
 * functions that are collective over ranks outside the workers.
 *
 * @param[in] phase A phase.
 * @param[in] work  Called on selected ranks by the calling thread.
 * @param[in] data  Handed to work.
 * @retval QUO_SUCCESS         As QUO_phase_begin() and QUO_phase_end().
 * @retval QUO_ERR_WORK_FAILED The work of a rank called QUO_phase_fail(): the same on all ranks.
 *
 * @code{.c}
 * static void solve(const QUO_worker_t *worker, void *data) {
 *     threaded_solver(data, worker->threads);
 * }
 * QUO_phase_run(phase, solve, &problem);
 * @endcode
 */
int
QUO_phase_run(QUO_phase phase,
              QUO_phase_work_t work,
              void *data);

/**
 * Returns the costs of the last run for the caller.
 *
 * Local.
 *
 * @param[in]     phase   A phase.
 * @param[in,out] metrics Set size; the rest is written. All zero before the first run.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG size is too small, or a pointer is NULL.
 */
int
QUO_phase_metrics(QUO_phase phase,
                  QUO_phase_metrics_t *metrics);

/**
 * Frees a phase. Local.
 *
 * @param[in] phase A phase. NULL is allowed and does nothing.
 * @retval QUO_SUCCESS          Done.
 * @retval QUO_ERR_INVLD_HANDLE It was freed before or is not a phase.
 * @retval QUO_ERR_BUSY         A run of it has begun and not ended.
 */
int
QUO_phase_free(QUO_phase phase);

/** @} */
/** @name Scopes: parts of the hardware for components that run at the same time. Since quo 0.1. */
/** @{ */

/**
 * Splits the hardware of each node in proportion to weights, and makes a context of the ranks that
 * name the same part, confined to it: a scope.
 *
 * Collective over the context. Parts are disjoint, of whole objects, and together all that the ranks
 * of the node may use; fast and slow cores count by their speeds. The rank is bound inside its part
 * until the scope is freed. A scope is a context: phases, pushes, barriers and queries take it, wait
 * for its ranks and know its hardware only, and it can be split in turn. The context that was split
 * works on. Free scopes before QUO_adapt() or a resize of the world; QUO_adapt() and QUO_retire()
 * refuse them.
 *
 * @param[in]  q         A context.
 * @param[in]  type      Type of the objects that are not cut; the same on every rank.
 * @param[in]  nparts    How many parts; the same on every rank.
 * @param[in]  weights   What each part is in proportion to, at least 1; the same on every rank. NULL
 *                       for equal parts.
 * @param[in]  part      The caller's part, from 0.
 * @param[out] out_scope The scope, to be freed with QUO_free(); NULL on failure.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG An argument is out of range on some rank, some node has fewer objects than
 *                           parts, or a pointer is NULL.
 * @retval QUO_ERR_NOT_FOUND The machine has no object of the type.
 * @retval QUO_ERR_DISAGREE  The ranks gave different splits.
 *
 * @code{.c}
 * const int weights[] = {3, 1};
 * int ocean = 0;
 * QUO_context scope = NULL;
 * if (QUO_SUCCESS == QUO_split_by_weight(q, QUO_OBJ_CORE, 2, weights, ocean, &scope)) {
 *     QUO_barrier(scope);
 *     QUO_free(scope);
 * }
 * @endcode
 */
int
QUO_split_by_weight(QUO_context q,
                    QUO_obj_type_t type,
                    int nparts,
                    const int *weights,
                    int part,
                    QUO_context *out_scope);

/**
 * As QUO_split_by_weight(), with a number of objects for each part. Since quo 0.1.
 *
 * Collective over the context. Objects that are left over belong to no part.
 *
 * @param[in]  q         A context.
 * @param[in]  type      Type of the objects; the same on every rank.
 * @param[in]  nparts    How many parts; the same on every rank.
 * @param[in]  counts    How many objects each part gets, at least 1; the same on every rank.
 * @param[in]  part      The caller's part, from 0.
 * @param[out] out_scope The scope, to be freed with QUO_free(); NULL on failure.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG As QUO_split_by_weight(), and when some node has fewer objects than the
 *                           parts need.
 * @retval QUO_ERR_NOT_FOUND The machine has no object of the type.
 * @retval QUO_ERR_DISAGREE  The ranks gave different splits.
 *
 * @code{.c}
 * const int counts[] = {1, 1};
 * QUO_context scope = NULL;
 * QUO_split_by_count(q, QUO_OBJ_PACKAGE, 2, counts, 0, &scope);
 * QUO_free(scope);
 * @endcode
 */
int
QUO_split_by_count(QUO_context q,
                   QUO_obj_type_t type,
                   int nparts,
                   const int *counts,
                   int part,
                   QUO_context *out_scope);

/**
 * As QUO_split_by_weight(), with a part for each device that some rank of the node names: the
 * objects near it. Since quo 0.1.
 *
 * Collective over the context. Objects near several of these devices are divided among them, as
 * evenly as nearness allows; objects near none belong to no part. Ranks that name the same device
 * of their node share a scope, and so do ranks of several nodes whose devices have the same place
 * in the order of the bus, counting devices that the environment hides.
 *
 * @param[in]  q         A context.
 * @param[in]  type      Type of the objects that are not cut; the same on every rank.
 * @param[in]  kind      Kind of device; the same on every rank.
 * @param[in]  index     The caller's device, below QUO_ndevices(); QUO_assign_device() finds one
 *                       for each rank.
 * @param[out] out_scope The scope, to be freed with QUO_free(); NULL on failure.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG An argument is out of range on some rank, or a device has no object near
 *                           it that the ranks may use.
 * @retval QUO_ERR_NOT_FOUND The machine has no object of the type.
 * @retval QUO_ERR_DISAGREE  The ranks gave different types or kinds.
 *
 * @code{.c}
 * int gpu = -1;
 * QUO_context scope = NULL;
 * QUO_assign_device(q, QUO_DEVICE_GPU, &gpu);
 * if (QUO_SUCCESS == QUO_split_by_device(q, QUO_OBJ_CORE, QUO_DEVICE_GPU, gpu, &scope)) {
 *     QUO_barrier(scope);
 *     QUO_free(scope);
 * }
 * @endcode
 */
int
QUO_split_by_device(QUO_context q,
                    QUO_obj_type_t type,
                    QUO_device_kind_t kind,
                    int index,
                    QUO_context *out_scope);

/** @} */
/** @name For Fortran: communicators as integers */
/** @{ */

/** QUO_create() for a Fortran communicator handle. */
int
QUO_create_f2c(QUO_t **q,
               QUO_fint_t comm);

/** QUO_create_with_flags() for a Fortran communicator handle. */
int
QUO_create_with_flags_f2c(QUO_t **q,
                          QUO_fint_t comm,
                          int flags);

/** QUO_create_with_options() for a Fortran communicator handle. Since quo 0.1. */
int
QUO_create_with_options_f2c(QUO_t **q,
                            QUO_fint_t comm,
                            const QUO_create_options_t *options);

/** QUO_get_mpi_comm_by_type() for a Fortran communicator handle. */
int
QUO_get_mpi_comm_by_type_f2c(QUO_t *q,
                             QUO_obj_type_t target_type,
                             QUO_fint_t *out_comm);

/**
 * Returns 1 for the handle of a context, phase, named barrier or memory that is in use, else 0; no other
 * answer is a failure. Local. Since quo 0.1.
 */
int
QUO_handle_in_use_f2c(const void *handle);

/** QUO_phase_free(), after QUO_phase_end() where a run has begun on this thread. Since quo 0.1. */
int
QUO_phase_release_f2c(QUO_phase phase);

/**
 * Frees memory that the library returned, as free() does. Local. May be called at any time.
 *
 * @param[in] p Such memory, or NULL.
 * @retval QUO_SUCCESS Always.
 */
int
QUO_ptr_free(void *p);

/**
 * Sets the text that QUO_last_error() returns, so that a library in another language on top of this
 * one can report its own errors there. Local to the thread. May be called at any time. Since quo
 * 0.1.
 *
 * @param[in] code A return code, for the caller's convenience.
 * @param[in] text What went wrong; copied.
 * @return code, also when text is NULL.
 */
int
QUO_set_last_error(int code,
                   const char *text);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
