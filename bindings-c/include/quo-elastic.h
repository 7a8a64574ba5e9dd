/**
 * @file quo-elastic.h
 * The elastic world: a job has more or fewer ranks while it runs. Since quo 0.1.
 *
 * Part of libquo. The rules of quo.h hold here; all ranks of the world make a *collective* call, in
 * the same order. One thread at a time, which may be any, uses a world: a call while another thread
 * is inside one fails with QUO_ERR_BUSY.
 *
 * A structure that starts with its size may be that of an earlier header: absent fields have their
 * defaults. One of a later header is accepted if the fields that this version does not know are zero.
 *
 * @code{.c}
 * QUO_world w = NULL;
 * QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
 * int status, enters, more, step = 0;
 * options.initial_ranks = 2;
 * QUO_world_create(&w, &options);
 * QUO_world_status(w, &status);
 * if (QUO_WORLD_NEW == status) initialise(w); // arrays, contexts: the first probe may bring a resize
 * for (;;) {
 *     QUO_world_status(w, &status);
 *     if (QUO_WORLD_ENDED == status) break;
 *     if (QUO_WORLD_PARKED == status) {
 *         QUO_world_wait(w, &more);
 *         if (!more) break;
 *         status = QUO_WORLD_JOINING;
 *     }
 *     enters = 0;
 *     if (QUO_WORLD_JOINING != status) {
 *         QUO_world_report_iteration(w, step); // for plans
 *         QUO_world_probe(w, &enters);
 *     }
 *     if (enters || QUO_WORLD_JOINING == status) {
 *         QUO_world_begin(w);
 *         QUO_window_broadcast(w, &step, sizeof(step));
 *         QUO_world_commit(w);
 *         continue;
 *     }
 *     if (100 == step) break;
 *     compute(w);
 *     ++step;
 * }
 * QUO_world_end(w);
 * @endcode
 */

#ifndef QUO_ELASTIC_H_INCLUDED
#define QUO_ELASTIC_H_INCLUDED

#include "quo.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A world; its contents are private. */
struct QUO_world_t;
/** Short for struct QUO_world_t. */
typedef struct QUO_world_t QUO_world_t;
/** Handle of a world. */
typedef QUO_world_t *QUO_world;

/** Status of a process in the world. */
typedef enum {
    /** A rank since the beginning of the job. */
    QUO_WORLD_NEW = 0,
    /** Called in: QUO_world_begin() is next. */
    QUO_WORLD_JOINING,
    /** A rank after a resize. */
    QUO_WORLD_STAYING,
    /** A rank in a resize with which it leaves: until the commit. */
    QUO_WORLD_LEAVING,
    /** No rank: QUO_world_wait() is next. */
    QUO_WORLD_PARKED,
    /** The job is over for this process: QUO_world_end() is next, then the end of the process. */
    QUO_WORLD_ENDED
} QUO_world_status_t;

/** Decides which sizes the program can have: returns nonzero for a valid size, and always the same
    for a size. Called on rank 0, also by threads of the library, until QUO_world_end(); it must call
    no function of this header. */
typedef int (*QUO_size_allowed_t)(void *data, int size);

/** Options of Slurm. Start from #QUO_SLURM_OPTIONS_INIT. Times are in seconds. */
typedef struct QUO_slurm_options_t {
    /** sizeof(QUO_slurm_options_t), so that fields can be appended. */
    size_t size;
    /** Time for a growth to get its nodes, after which it fails; 0: 60. */
    double wait;
    /** Time for each of Slurm's commands; 0: 20. */
    double command_limit;
    /** Time before the end of a job at which its nodes are left, and its end is an event; 0: 120. */
    double grace;
    /** Time for leavers to end before their node is returned; 0: 5. */
    double linger;
    /** Time between two looks of a job that holds nodes for the world's own job, in whole seconds; 0: 10. */
    double watch;
    /** If less than this time is left before the end of the job, growth on new nodes is refused;
        0: 120. */
    double least;
    /** More options for sbatch, such as --constraint=fast, a line each; NULL: none. */
    const char *submit;
} QUO_slurm_options_t;

/** Initialiser: the default times. */
#define QUO_SLURM_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(QUO_slurm_options_t), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, NULL                            \
    }

/** Options of a world. Start from #QUO_WORLD_OPTIONS_INIT. initial_ranks and max_ranks are the same
    on all processes; for the rest, rank 0's values count. Texts and the structure itself are copied. */
typedef struct QUO_world_options_t {
    /** sizeof(QUO_world_options_t), so that fields can be appended. */
    size_t size;
    /** Initial number of ranks, the other processes are parked; 0: all launched processes. */
    int initial_ranks;
    /** Maximum number of ranks: beyond the launched ones, processes are started if the MPI can; 0:
        as many as were launched. Needs MPI_THREAD_MULTIPLE. */
    int max_ranks;
    /** Most processes that are started together and leave together; 0: all of one growth. */
    int processes_per_spawn;
    /** Nonzero: more processes may be started than the launcher has slots for. */
    int allow_oversubscribe;
    /** Nonzero: the job listens for the command quo-elastic. */
    int control;
    /** Nonzero: arrays are sent in MPI messages even between ranks of a node. */
    int messages;
    /** Seconds that processes may take from their start to being ready; 0: a minute. */
    double start_timeout;
    /** Name by which the job is known; NULL: the PID of rank 0. */
    const char *name;
    /** File to which every event is appended, as a line of JSON; NULL: none. */
    const char *log;
    /** A plan of the world's sizes over time, in the plan language; NULL: none. */
    const char *plan;
    /** Nonzero: ranks may use process sets, and rank 0 listens for them. */
    int process_sets;
    /** Nonzero: rank 0 starts processes itself even if that blocks it (with MPICH), instead of a
        separate process that starts them. */
    int no_spawn_helper;
    /** The fewest ranks that the program can have: requests for fewer are refused; 0: one. */
    int min_size;
    /** The most ranks that the program can have; 0: as many as there can be. */
    int max_size;
    /** The number of ranks is a multiple of this; 0: any. Only one of step, allowed_sizes and allows is
        given. */
    int step;
    /** The numbers of ranks that the program can have, such as "1,2,4,6"; "power-of-two" or "square";
        NULL: all. */
    const char *allowed_sizes;
    /** Decides which numbers of ranks the program can have; NULL: all. */
    QUO_size_allowed_t allows;
    /** Passed to allows. */
    void *allows_data;
    /** Hosts that the world may grow onto if they are named, by the launcher's names, and the number of
        processes each takes: "n1:4,n2:4". Requests for more there are refused, unless allow_oversubscribe. NULL:
        as the launcher knows. */
    const char *hosts;
    /** Seconds within which a named host must answer before a process is started there; 0: three;
        negative: no check, for networks that drop connections silently. */
    double connect_timeout;
    /** A remote shell by which a named host is checked as well, such as "ssh -o BatchMode=yes"; NULL:
        none. */
    const char *remote_shell;
    /** Program and arguments of started processes, a line each; NULL: this program with its own
        arguments. */
    const char *spawn_command;
    /** Keys and values for the launcher with every start: KEY=VALUE, a line each; NULL:
        none. */
    const char *spawn_info;
    /** Folder of the control socket, closed to other users; NULL: the default one. Only with
        control. */
    const char *control_folder;
    /** How nodes are gained and returned with ranks in a job of Slurm; ignored elsewhere. NULL:
        without Slurm, unless the launch has set QUO_ELASTIC_SLURM=1. */
    const QUO_slurm_options_t *slurm;
    /** Nonzero: the job ends when a rank has ended without QUO_world_end(): killed, crashed, or by exit().
        MPI waits for it forever in a collective call, and not every launcher ends a job with a process
        that was started later. A thread of every process checks for this at least twice a second; the
        first that detects it writes the rank to standard error, and all processes of the world end by
        _exit(3), without a call of MPI. A parked process that has ended does not end the job. */
    int abort_on_death;
    /** Nonzero: the first SIGTERM to rank 0's process is a notice that the job ends in this many
        seconds, or at the end of its job in Slurm (SLURM_JOB_END_TIME) if that is sooner. It is an event
        QUO_EVENT_NOTICE with QUO_CAUSE_DEADLINE, and the world shrinks to the fewest ranks that it can
        have, within that time. The first SIGTERM to another process has no effect. An earlier handler is
        called each time; without one, a second SIGTERM ends the process. The earlier handling is
        restored at QUO_world_end(). Given on all processes. */
    double term_notice;
    /** A folder of notices: files NAME.notice, renamed to that when complete, each with a call of
        the control socket such as {"call":"shrink","ranks":2,"grace_ms":30000}. The job renames them to
        NAME.claimed, and at the end to NAME.done, NAME.failed or NAME.refused with its answer. The folder
        is created if missing, must be closed to other users, and serves one job only; NULL: none. */
    const char *notice_folder;
    /** Order in which hosts get joiners, for parked ones, for ones started on named hosts, and, where
        hosts are given, for all that are started: "stack" (one host after the other), "round-robin" (one to
        each in turn, from where the last growth stopped) or "least-loaded" (by the mean load of a minute).
        NULL: parked ones as a stack, others in turn on named hosts, or in the launcher's order. */
    const char *placement;
} QUO_world_options_t;

/** Initialiser: all launched processes are ranks, and there is no external manager. */
#define QUO_WORLD_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(QUO_world_options_t), 0, 0, 0, 0, 0, 0, 0.0, NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, \
            NULL, NULL, NULL, 0.0, NULL, NULL, NULL, NULL, NULL, 0, 0.0, NULL, NULL                \
    }

/** State of a request. */
typedef enum {
    /** It was accepted and has not ended. */
    QUO_REQUEST_OPEN = 0,
    /** Its resize is done. */
    QUO_REQUEST_DONE,
    /** It was refused or aborted; the world is unchanged. */
    QUO_REQUEST_FAILED
} QUO_request_state_t;

/** Kind of a request. */
typedef enum {
    /** A total number of ranks. Drops requests that still wait. */
    QUO_REQUEST_SIZE = 0,
    /** A number of additional ranks. */
    QUO_REQUEST_GROW,
    /** A number of ranks to remove. Drops growth that still waits. */
    QUO_REQUEST_SHRINK,
    /** No ranks on the hosts of from. Drops growth that still waits. */
    QUO_REQUEST_LEAVE,
    /** The same number of ranks; ranks on the hosts of from move to the hosts of on. */
    QUO_REQUEST_MOVE
} QUO_request_kind_t;

/** A request. Start from #QUO_REQUEST_SPEC_INIT. */
typedef struct QUO_request_spec_t {
    /** sizeof(QUO_request_spec_t), so that fields can be appended. */
    size_t size;
    /** One of #QUO_request_kind_t. */
    int kind;
    /** Number of ranks, at least 1; ignored for #QUO_REQUEST_LEAVE and #QUO_REQUEST_MOVE. */
    int ranks;
    /** Number of new nodes, which the resource manager adds to the job. */
    int nodes;
    /** Hosts to grow on, or to move to, separated by commas; NULL: any. */
    const char *on;
    /** Hosts to leave, separated by commas; NULL: the highest ranks leave. */
    const char *from;
    /** Most seconds from the announcement until the resize is done; 0: any time. */
    double grace;
    /** Origin of the request, as in the event log; NULL: application. */
    const char *origin;
} QUO_request_spec_t;

/** Initialiser: the number of ranks is still to be set. */
#define QUO_REQUEST_SPEC_INIT                                                                      \
    {                                                                                              \
        sizeof(QUO_request_spec_t), QUO_REQUEST_SIZE, 0, 0, NULL, NULL, 0.0, NULL                  \
    }

/** Measurements of an iteration, reported on rank 0. Start from #QUO_PROGRESS_INIT. */
typedef struct QUO_progress_t {
    /** sizeof(QUO_progress_t), so that fields can be appended. */
    size_t size;
    /** Number of the iteration, not negative. */
    long long iteration;
    /** Time of an iteration in seconds: of the last one, or the mean since the last report. */
    double iteration_seconds;
    /** Time in MPI divided by the time of computing since the last report; -1: not measured: rank 0's ratio
        is taken if the program runs under `memprof run --mpi-time`. */
    double mpi_ratio;
    /** Seconds until the program ends on its current ranks; -1: unknown. */
    double remaining_seconds;
    /** Bytes of memory of the largest rank, by which `quo-elastic manage --memory` shrinks only where the data
        fit; -1: not measured. */
    long long bytes_per_rank;
} QUO_progress_t;

/** Initialiser: the iteration is still to be set. */
#define QUO_PROGRESS_INIT                                                                          \
    {                                                                                              \
        sizeof(QUO_progress_t), 0, 0.0, -1.0, -1.0, -1                                             \
    }

/** Kind of an event. From #QUO_EVENT_REQUESTED on these are the steps of a request, of which
    refused, finalized and aborted are ends. */
typedef enum {
    /** The world began. */
    QUO_EVENT_STARTED = 0,
    /** Notice of a resource manager or of the program: a job that ends soon, a command that failed. */
    QUO_EVENT_NOTICE,
    /** The grace time of a resize is over, and it has not ended. */
    QUO_EVENT_OVERDUE,
    /** The resize was requested. */
    QUO_EVENT_REQUESTED,
    /** End: the resize was refused. */
    QUO_EVENT_REFUSED,
    /** The request waits for its turn. */
    QUO_EVENT_ACCEPTED,
    /** Processes that query learn of the resize. */
    QUO_EVENT_ANNOUNCED,
    /** Joiners are being started. */
    QUO_EVENT_LAUNCHED,
    /** All joiners are ready. */
    QUO_EVENT_READY,
    /** The ranks have named the joiners' set. */
    QUO_EVENT_PENDING,
    /** All joiners have read the set. */
    QUO_EVENT_CONFIRMED,
    /** The probe at which all enter is known. */
    QUO_EVENT_AGREED,
    /** The window is open. */
    QUO_EVENT_BEGUN,
    /** Data are in place for the new world. */
    QUO_EVENT_MOVED,
    /** End: the resize is done. */
    QUO_EVENT_FINALIZED,
    /** End: the resize was aborted, and the world is unchanged. */
    QUO_EVENT_ABORTED
} QUO_event_kind_t;

/** Cause of a refusal, of an abort or of a notice. */
typedef enum {
    /** There is no cause. */
    QUO_CAUSE_NONE = 0,
    /** No slots, nodes or cores. */
    QUO_CAUSE_NO_CAPACITY,
    /** A size that the program cannot have, or a rank or node that may not leave. */
    QUO_CAUSE_NOT_ALLOWED,
    /** The MPI in use cannot do it. */
    QUO_CAUSE_UNSUPPORTED,
    /** A host does not answer. */
    QUO_CAUSE_UNREACHABLE,
    /** Processes could not be started. */
    QUO_CAUSE_SPAWN_FAILED,
    /** A joiner ended, or was not ready in time. */
    QUO_CAUSE_JOINER_LOST,
    /** A rank ended. */
    QUO_CAUSE_MEMBER_LOST,
    /** Data could not be moved. */
    QUO_CAUSE_DATA_LOST,
    /** A rank rejected the resize at the commit. */
    QUO_CAUSE_REJECTED,
    /** The grace time is over. */
    QUO_CAUSE_DEADLINE,
    /** A later request made it pointless. */
    QUO_CAUSE_SUPERSEDED,
    /** It was cancelled. */
    QUO_CAUSE_CANCELLED,
    /** The resource manager refused. */
    QUO_CAUSE_MANAGER,
    /** Any other cause, which the text gives. */
    QUO_CAUSE_OTHER
} QUO_cause_t;

/** An event of the world. Set size to sizeof. */
typedef struct QUO_event_t {
    /** sizeof(QUO_event_t), so that fields can be appended. */
    size_t size;
    /** Counts all events from 0 without gaps; a missing event was too old to be kept. */
    long long number;
    /** Seconds since the job began. */
    double time;
    /** One of #QUO_event_kind_t. */
    int kind;
    /** One of #QUO_cause_t. */
    int cause;
    /** Number of the request; 0: none. */
    long long request;
    /** The epoch from this event on. */
    long long epoch;
    /** The number of ranks from this event on. */
    long long ranks;
    /** Number of ranks to which the request leads; -1 before that is decided. */
    long long target;
    /** For announced: number of joiners; otherwise -1. */
    long long joining;
    /** For announced: number of leavers; otherwise -1. */
    long long leaving;
    /** For agreed: the probe at which all enter; otherwise -1. */
    long long round;
    /** For moved: bytes sent from one rank to another; otherwise -1. */
    long long bytes;
    /** Text of the cause; empty without one. */
    const char *text;
    /** The whole event as a line of JSON, as in the log: also the late ranks, the request, and when
        each step was reached. */
    const char *json;
} QUO_event_t;

/** Receives an event, which is valid until the function returns. It may call functions of this header
    on the world, except collective ones and QUO_world_end(). */
typedef void (*QUO_event_handler_t)(void *data, const QUO_event_t *event);

/** Operation on two process sets. */
typedef enum {
    /** Members of either. */
    QUO_PSET_UNION = 0,
    /** Members of the first and not of the second. */
    QUO_PSET_DIFFERENCE,
    /** Members of both. */
    QUO_PSET_INTERSECTION
} QUO_pset_op_t;

/** Kind of a resize that a process learns of. */
typedef enum {
    /** There is none. */
    QUO_PSET_NO_CHANGE = 0,
    /** Processes join. */
    QUO_PSET_ADD,
    /** Processes leave. */
    QUO_PSET_SUB,
    /** Some join and some leave. */
    QUO_PSET_REPLACE
} QUO_pset_change_kind_t;

/** Changes of the attributes that a process set has or inherits. Start from
    #QUO_PSET_CHANGE_INIT. */
typedef struct QUO_pset_change_t {
    /** sizeof(QUO_pset_change_t), so that fields can be appended. */
    size_t size;
    /** 1: only the program changes the members; -1: resizes change them as well; 0: unchanged. */
    int active;
    /** Hints for managers, a line each: KEY=VALUE to set one, KEY to remove it. Keys
        begin with mpi_ps_sched_. NULL: as they are. */
    const char *hints;
} QUO_pset_change_t;

/** Initialiser: everything is inherited. */
#define QUO_PSET_CHANGE_INIT                                                                       \
    {                                                                                              \
        sizeof(QUO_pset_change_t), 0, NULL                                                         \
    }

/** A process set, as a process sees it. Set size to sizeof. */
typedef struct QUO_pset_info_t {
    /** sizeof(QUO_pset_info_t), so that fields can be appended. */
    size_t size;
    /** 1: only the program changes the members; 0: resizes change them as well. */
    int active;
    /** 1: this process joined while the job was running; otherwise 0. */
    int dynamic;
    /** 1: this process is in the set; otherwise 0. */
    int included;
    /** Number of members of the set. */
    long long members;
    /** Number of changes of its members. */
    long long version;
    /** Number of the last resize that changed it, counted from 1; 0: none. */
    long long epoch;
} QUO_pset_info_t;

/** A current resize, as shown to a process. Set size to sizeof. */
typedef struct QUO_pset_view_t {
    /** sizeof(QUO_pset_view_t), so that fields can be appended. */
    size_t size;
    /** One of #QUO_pset_change_kind_t. */
    int kind;
    /** 1: this process joins or leaves; otherwise 0. */
    int included;
    /** #QUO_EVENT_ANNOUNCED or #QUO_EVENT_PENDING; 0 without a change. */
    int step;
    /** The request; 0 without a change. */
    long long request;
} QUO_pset_view_t;

/** Result of QUO_world_accept(). */
typedef enum {
    /** Not everything is ready: compute, and accept again. */
    QUO_ACCEPT_PENDING = 0,
    /** All ranks have reached the resize: QUO_world_begin() is next. */
    QUO_ACCEPT_ENTERS,
    /** The resize was aborted; the world is unchanged. */
    QUO_ACCEPT_ABORTED
} QUO_acceptance_t;

/** Communicators of a resize. */
typedef enum {
    /** All stayers, leavers and joiners: the old ranks first, in their order. */
    QUO_WINDOW_ALL_RANKS = 0,
    /** The old world; MPI_COMM_NULL on joiners. */
    QUO_WINDOW_OLD,
    /** The next world; MPI_COMM_NULL on leavers. */
    QUO_WINDOW_NEW,
    /** An intercommunicator between old ranks and joiners; MPI_COMM_NULL without joiners. */
    QUO_WINDOW_BETWEEN
} QUO_window_comm_t;

/** Kind of an array: how it is distributed. */
typedef enum {
    /** A vector in one block for each rank. */
    QUO_ARRAY_BLOCK = 0,
    /** A vector in blocks of block_columns elements, distributed round robin. */
    QUO_ARRAY_BLOCK_CYCLIC,
    /** A matrix in one block of rows for each rank. */
    QUO_ARRAY_BLOCK_ROWS,
    /** A matrix in one block of columns for each rank. */
    QUO_ARRAY_BLOCK_COLUMNS,
    /** A matrix in one block for each place of a grid of ranks. */
    QUO_ARRAY_BLOCK_GRID,
    /** A matrix in blocks of block_rows x block_columns, distributed cyclically over a grid of
        ranks. */
    QUO_ARRAY_CHECKERBOARD,
    /** A replicated vector: every rank has all of it. */
    QUO_ARRAY_REPLICATED,
    /** A vector, a matrix or an array of layers in one block for each place of a grid of ranks, as
        equal as possible, with ghost cells around each block. */
    QUO_ARRAY_HALO
} QUO_array_kind_t;

/** Order in which a rank stores its part of a matrix. */
typedef enum {
    /** Row by row, as in C. */
    QUO_ARRAY_BY_ROWS = 0,
    /** Column by column, as in Fortran. */
    QUO_ARRAY_BY_COLUMNS
} QUO_array_storage_t;

/** Ghost cells along one dimension. Inside the array they are copies of cells of other ranks, which
    QUO_world_exchange_halo() brings up to date. At the ends of a dimension that is not periodic they
    are the edge of the array: the first and the last rank own them, they keep their values, and a
    resize moves them with the block. */
typedef struct QUO_halo_t {
    /** Ghost cells before the block of a rank. */
    size_t before;
    /** Ghost cells after it. */
    size_t after;
    /** Nonzero: the last cell of the dimension is followed by the first one. */
    size_t periodic;
} QUO_halo_t;

/** An array of the world, the same on every rank. Start from #QUO_ARRAY_SPEC_INIT. */
typedef struct QUO_array_spec_t {
    /** sizeof(QUO_array_spec_t), so that fields can be appended. */
    size_t size;
    /** One of #QUO_array_kind_t. */
    int kind;
    /** One of #QUO_array_storage_t. */
    int storage;
    /** Bytes of an element. */
    size_t element;
    /** Rows of a matrix; a vector has one. */
    size_t rows;
    /** Columns of a matrix; number of elements of a vector. */
    size_t columns;
    /** Rows of a block, of #QUO_ARRAY_CHECKERBOARD. */
    size_t block_rows;
    /** Columns of a block, of #QUO_ARRAY_CHECKERBOARD; elements of one, of #QUO_ARRAY_BLOCK_CYCLIC. */
    size_t block_columns;
    /** Rows of the grid of ranks; 0, with grid_columns: as close to square as each number of
        ranks allows. */
    size_t grid_rows;
    /** Columns of the grid. With a grid the array is for as many ranks as the grid has places, until
        QUO_world_array_lay_out() sets another distribution. With #QUO_ARRAY_HALO each number of the
        grid may be 0, and then follows from the number of ranks. */
    size_t grid_columns;
    /** Layers, of #QUO_ARRAY_HALO with three dimensions; 0: one. */
    size_t layers;
    /** Layers of the grid of ranks, of #QUO_ARRAY_HALO; 0: as the number of ranks allows. */
    size_t grid_layers;
    /** Ghost cells before the first and after the last layer, of #QUO_ARRAY_HALO. */
    QUO_halo_t halo_layers;
    /** Ghost cells before the first and after the last row, of #QUO_ARRAY_HALO. */
    QUO_halo_t halo_rows;
    /** Ghost cells before the first and after the last column, of #QUO_ARRAY_HALO. */
    QUO_halo_t halo_columns;
} QUO_array_spec_t;

/** Initialiser: an empty vector of doubles in one block for each rank. */
#define QUO_ARRAY_SPEC_INIT                                                                        \
    {                                                                                              \
        sizeof(QUO_array_spec_t), QUO_ARRAY_BLOCK, QUO_ARRAY_BY_ROWS, sizeof(double), 1, 0, 1, 1,  \
            0, 0, 0, 0, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}                                            \
    }

/** A rank's part of an array: its block, and the ghost cells around it. Set size to sizeof. In memory the
    layers follow each other, each by rows or by columns as the array is stored. */
typedef struct QUO_array_part_t {
    /** sizeof(QUO_array_part_t), so that fields can be appended. */
    size_t size;
    /** The beginning of the memory, with the ghost cells. */
    void *data;
    /** Layers of the block, without ghost cells and edges. */
    size_t layers;
    /** Rows of the block; 0 on a rank without cells. */
    size_t rows;
    /** Columns of the block. */
    size_t columns;
    /** Number of the block's first layer in the array, from 0, without the edge. */
    size_t first_layer;
    /** Number of its first row. */
    size_t first_row;
    /** Number of its first column. */
    size_t first_column;
    /** Layers in memory, with ghost cells. */
    size_t all_layers;
    /** Rows of a layer in memory, with ghost cells. */
    size_t all_rows;
    /** Columns in memory, with ghost cells: by rows, the distance of two rows in elements. */
    size_t all_columns;
    /** Layers of ghost cells before the block. */
    size_t before_layers;
    /** Rows of ghost cells before the block. */
    size_t before_rows;
    /** Columns of ghost cells before the block. */
    size_t before_columns;
    /** Bytes of an element. */
    size_t element;
} QUO_array_part_t;

/** Initialiser: everything is still to be filled in. */
#define QUO_ARRAY_PART_INIT                                                                        \
    {                                                                                              \
        sizeof(QUO_array_part_t), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                      \
    }

/** Rows of a sparse matrix on a rank. Set size to sizeof. Pointers, columns and ghost columns count from 0 or
    1, as they did when the matrix was added; first_row counts from 0. */
typedef struct QUO_matrix_part_t {
    /** sizeof(QUO_matrix_part_t), so that fields can be appended. */
    size_t size;
    /** Number of rows of this rank. */
    size_t rows;
    /** Number of the first one in the matrix, from 0. */
    size_t first_row;
    /** Number of ghost columns: columns of these rows that other ranks own. */
    size_t ghosts;
    /** Beginning of the elements of each row, and the end of the last one's: rows + 1 numbers. */
    const size_t *pointers;
    /** Column of each element, as index in this rank's part of a vector of the matrix: its own elements
        first, the ghosts after them. */
    const int *columns;
    /** Value of each element, to be read and written. */
    void *values;
    /** Number in the matrix of each ghost column, ascending. */
    const size_t *ghost_columns;
    /** Bytes of a value. */
    size_t element;
} QUO_matrix_part_t;

/** Initialiser: everything is still to be filled in. */
#define QUO_MATRIX_PART_INIT                                                                       \
    {                                                                                              \
        sizeof(QUO_matrix_part_t), 0, 0, 0, NULL, NULL, NULL, NULL, 0                              \
    }

/** Returns the owner of an item: one of the ranks 0 to ranks - 1, the same on whichever rank it is called. Must
    call no function of this header. */
typedef int (*QUO_owner_t)(void *data, const void *item, int ranks);

/** Sets the owners of count items, which lie one after the other, as #QUO_owner_t returns them. Returns 0, or
    another number to fail the migration or the commit on all ranks. Must call no function of this header. */
typedef int (*QUO_owners_t)(void *data, const void *items, size_t count, int ranks, int *owners);

/** Result of the last committed move of arrays, in bytes. Set size to sizeof. */
typedef struct QUO_move_metrics_t {
    /** sizeof(QUO_move_metrics_t), so that fields can be appended. */
    size_t size;
    /** Number of arrays and callbacks. */
    size_t arrays;
    /** Steps of all schedules. */
    size_t steps;
    /** Bytes of this process for others. */
    size_t sent;
    /** Bytes that this process has copied from the memory of others. */
    size_t shared;
    /** Bytes that stayed here and were copied to their new place. */
    size_t kept;
    /** Bytes of all processes for others. */
    size_t all_sent;
    /** Part of these bytes that went through shared memory. */
    size_t all_shared;
    /** Bytes that stayed in place, on all processes. */
    size_t all_kept;
    /** Time from the beginning until all had agreed that the move is done. */
    double seconds;
} QUO_move_metrics_t;

/** Old and new ranks. */
typedef struct QUO_seats_t {
    /** Number of old ranks. */
    int old_size;
    /** Number of new ranks. */
    int new_size;
    /** Rank of this process among the old ones; -1 on joiners. */
    int old_rank;
    /** Rank among the new ones; -1 on leavers. */
    int new_rank;
} QUO_seats_t;

/** A step of the loop of QUO_world_run(). Gets the world and the data. Returns 1 for another step, 0 after
    the last one, alike on all ranks; a negative number is an error of this rank. */
typedef int (*QUO_step_t)(QUO_world w, void *data);

/** On old ranks: calls QUO_carry_give() for each new rank that gets data, its own included. The
    process's data stay unchanged until the end of the resize. */
typedef int (*QUO_carry_give_t)(void *data, const QUO_seats_t *seats);

/** On new ranks: data from an old rank, in the order of old ranks. Not in use until the end of the
    resize. */
typedef int (*QUO_carry_take_t)(void *data, const QUO_seats_t *seats, int old_rank,
                                const void *bytes, size_t length);

/** The resize is over: data that were taken are now in use (1), or dropped (0). */
typedef void (*QUO_carry_end_transfer_t)(void *data, int committed);

/** Data that the program moves itself. Each function may be NULL; give and take return 0, or the move
    fails on all. They must call no function of this header except QUO_carry_give(). Start from
    #QUO_CARRY_INIT. */
typedef struct QUO_carry_t {
    /** sizeof(QUO_carry_t), so that fields can be appended. */
    size_t size;
    /** Gives this process's data. */
    QUO_carry_give_t give;
    /** Takes data that others gave. */
    QUO_carry_take_t take;
    /** Called with the outcome of the resize. */
    QUO_carry_end_transfer_t end_transfer;
    /** Passed to the functions. */
    void *data;
} QUO_carry_t;

/** Initialiser: nothing is moved. */
#define QUO_CARRY_INIT                                                                             \
    {                                                                                              \
        sizeof(QUO_carry_t), NULL, NULL, NULL, NULL                                                \
    }

/** @name Worlds */
/** @{ */

/**
 * Makes the world.
 *
 * Collective over all processes that were launched, or started for a growth, together; after MPI_Init.
 * A process that is started for a growth returns when the ranks have reached the resize, or if it
 * is not needed.
 *
 * @param[out] w       The world, to be ended with QUO_world_end(); NULL on failure.
 * @param[in]  options NULL means #QUO_WORLD_OPTIONS_INIT.
 * @retval QUO_SUCCESS              Done.
 * @retval QUO_ERR_INVLD_ARG        w is NULL, or an option is out of range or no plan.
 * @retval QUO_ERR_DISAGREE         Processes gave different numbers for initial_ranks or max_ranks, or
 *                                  another one has a wrong argument.
 * @retval QUO_ERR_DEAD_MEMBER      A rank of this host has ended before the world was made.
 * @retval QUO_ERR_CALL_BEFORE_INIT MPI_Init was not called; other codes as QUO_create().
 */
int
QUO_world_create(QUO_world *w,
                 const QUO_world_options_t *options);

/**
 * Ends the world: parked processes wake up and learn of the end. A resize that has begun is aborted.
 *
 * Collective over the ranks, and made by processes that are parked or have ended as well; before
 * MPI_Finalize. Contexts over the world are freed before it.
 *
 * @param[in] w A world; NULL is allowed and does nothing. No longer valid afterwards, whatever is
 *              returned.
 * @retval QUO_SUCCESS          Done.
 * @retval QUO_ERR_INVLD_HANDLE w is no world, or was ended before.
 * @retval QUO_ERR_BUSY         Another thread is inside a call; nothing has changed.
 * @retval QUO_ERR_MPI          MPI failed.
 */
int
QUO_world_end(QUO_world w);

/**
 * Gives the status of this process in the world. Local.
 *
 * @param[in]  w          A world.
 * @param[out] out_status One of #QUO_world_status_t.
 */
int
QUO_world_status(QUO_world w,
                 int *out_status);

/**
 * Gives this process's rank. Local. A process that is parked, has ended, or joins and has not committed yet is
 * no rank.
 *
 * @param[in]  w        A world.
 * @param[out] out_rank The rank, or MPI_UNDEFINED for a process that is no rank.
 */
int
QUO_world_rank(QUO_world w,
               int *out_rank);

/**
 * Gives the number of ranks; on a process that is no rank, as of the last resize it saw. Local.
 *
 * @param[in]  w        A world.
 * @param[out] out_size The number.
 */
int
QUO_world_size(QUO_world w,
               int *out_size);

/**
 * Gives the most ranks that the world can have. Local.
 *
 * @param[in]  w        A world.
 * @param[out] out_most The number.
 */
int
QUO_world_capacity(QUO_world w,
                   int *out_most);

/**
 * Returns whether this process was started for a growth, and so ends when it leaves; launched ones are parked.
 * Local.
 *
 * @param[in]  w           A world.
 * @param[out] out_started 1 or 0.
 */
int
QUO_world_was_started(QUO_world w,
                      int *out_started);

/**
 * Gives the number of resizes that have been committed. Local.
 *
 * @param[in]  w         A world.
 * @param[out] out_epoch The number.
 */
int
QUO_world_epoch(QUO_world w,
                long long *out_epoch);

/**
 * Gives the number of the node of this process, the same for all processes there. Local. Better than
 * MPI_Comm_split_type, which fails on Open MPI 4 where processes were started later.
 *
 * @param[in]  w        A world.
 * @param[out] out_node The number, from 0.
 */
int
QUO_world_node(QUO_world w,
               int *out_node);

/**
 * Gives the MPI's means to resize this world, and how they were found, in a line. Local.
 *
 * @param[in]  w        A world.
 * @param[out] out_text To be freed with free().
 */
int
QUO_world_back_end(QUO_world w,
                   char **out_text);

/**
 * Gives the communicator of the world until the next commit. Local.
 *
 * Contexts made over it, or over a duplicate of it, follow every resize: on a joiner QUO_create()
 * returns the contexts of the other ranks, in the order of their creation.
 *
 * @param[in]  w        A world.
 * @param[out] out_comm Owned by the world, not to be freed; MPI_COMM_NULL on a process that is no
 *                      rank.
 */
int
QUO_world_comm(QUO_world w,
               MPI_Comm *out_comm);

/**
 * Returns whether all ranks have reached a resize: QUO_world_begin() is next. All ranks call it in
 * the same places of the program; it does not wait for the progress of another rank.
 *
 * @param[in]  w          A world.
 * @param[out] out_enters 1 or 0.
 * @retval QUO_ERR_STATE     This process is no rank, or in a resize.
 * @retval QUO_ERR           The order of the resize cannot be read.
 * @retval QUO_ERR_DEAD_MEMBER A process of this node has ended.
 */
int
QUO_world_probe(QUO_world w,
                int *out_enters);

/**
 * Sleeps, without a core, until this process is called in or the job is over. Local.
 *
 * @param[in]  w         A world.
 * @param[out] out_joins 1: QUO_world_begin() is next; 0: the job is over.
 * @retval QUO_ERR_STATE This process is a rank.
 * @retval QUO_ERR_DEAD_MEMBER A process of this node has ended.
 */
int
QUO_world_wait(QUO_world w,
               int *out_joins);

/**
 * Owns the main loop: calls a function until it returns 0, on all ranks in the same step, and takes part in every
 * resize between two steps. Arrays and contexts follow by themselves; the state is broadcast from rank 0
 * in each resize, so that joiners continue where the others are. A process without a rank sleeps in this
 * call. Returns on ranks after the last step and on other processes when the job is over; then
 * QUO_world_rank() tells them apart, and QUO_world_end() is next. Steps are the iterations of plans. The step may
 * make all calls with the world but QUO_world_probe(), QUO_world_wait(), QUO_world_begin(),
 * QUO_world_commit(), QUO_world_abort() and QUO_world_end().
 *
 * Collective over all processes of the world, parked ones too, right after QUO_world_create() and the
 * registration of arrays.
 *
 * @code{.c}
 * static int step(QUO_world w, void *data)
 * {
 *     int *done = data;
 *     QUO_world_exchange_halo(w, "heat");
 *     compute(w);
 *     return ++*done < 100;
 * }
 *
 * int done = 0; // joiners get its value
 * QUO_world_run(w, step, &done, &done, sizeof(done));
 * @endcode
 *
 * @param[in]     w      A world.
 * @param[in]     step   The function.
 * @param[in]     data   Passed to it.
 * @param[in,out] state  What joiners receive from rank 0; NULL with a length of 0.
 * @param[in]     length Number of its bytes, the same on all processes.
 * @retval QUO_SUCCESS         The loop is over.
 * @retval QUO_ERR_INVLD_ARG   step is NULL, or state is NULL with a length.
 * @retval QUO_ERR_WORK_FAILED step returned a negative number. The other ranks may continue: the process
 *                             must end without MPI_Finalize().
 * @retval QUO_ERR_ABORTED     Processes have different lengths of the state.
 * @retval QUO_ERR_DEAD_MEMBER A process of this node has ended.
 */
int
QUO_world_run(QUO_world w,
              QUO_step_t step,
              void *data,
              void *state,
              size_t length);

/**
 * Reports the iteration that the program begins, for plans that count them. Only rank 0's report counts. Local.
 *
 * @param[in] w      A world.
 * @param[in] number The iteration, not negative.
 */
int
QUO_world_report_iteration(QUO_world w,
                           long long number);

/**
 * Reports the progress of the main loop to managers: the status of its control socket and
 * QUO_world_job_status() show it, with the time that the last resize took. Counts as
 * QUO_world_report_iteration() too. Only rank 0's report counts. Local.
 *
 * @param[in] w        A world.
 * @param[in] progress The iteration and its measurements.
 * @retval QUO_ERR_INVLD_ARG A measurement is negative, infinite or no number; nothing was recorded.
 */
int
QUO_world_report_progress(QUO_world w,
                          const QUO_progress_t *progress);

/**
 * Requests another number of ranks. Local, on rank 0; answered at once. The resize happens at one
 * of the next probes.
 *
 * @param[in]  w           A world.
 * @param[in]  size        The number, at least 1.
 * @param[out] out_request The number of the request; NULL is allowed.
 * @retval QUO_ERR_REFUSED   It cannot be: QUO_last_error() says why.
 * @retval QUO_ERR_INVLD_ARG size is less than 1.
 * @retval QUO_ERR_STATE     This is not rank 0.
 */
int
QUO_world_request(QUO_world w,
                  int size,
                  long long *out_request);

/**
 * Requests any resize. Local, on rank 0; answered at once. Processes are started while the ranks
 * compute, which enter at one of their next probes; one event ends the request.
 *
 * @param[in]  w           A world.
 * @param[in]  spec        The resize.
 * @param[out] out_request The number of the request, also of one that is refused; NULL is allowed.
 * @param[out] out_after   The request that must end before this one starts, 0 for none; NULL is
 *                         allowed.
 * @retval QUO_ERR_REFUSED   It cannot be, and nothing has changed: QUO_last_error() says why.
 * @retval QUO_ERR_INVLD_ARG spec is NULL, or a field is out of range.
 * @retval QUO_ERR_STATE     This is not rank 0.
 */
int
QUO_world_ask(QUO_world w,
              const QUO_request_spec_t *spec,
              long long *out_request,
              long long *out_after);

/**
 * Withdraws a request that waits for its turn. Local, on rank 0.
 *
 * @param[in] w       A world.
 * @param[in] request The number of a request.
 * @retval QUO_ERR_REFUSED   It has ended, or its resize is under way.
 * @retval QUO_ERR_NOT_FOUND No such request is known, or it ended long ago.
 * @retval QUO_ERR_STATE     This is not rank 0.
 */
int
QUO_world_cancel(QUO_world w,
                 long long request);

/**
 * Makes an event #QUO_EVENT_NOTICE, which starts nothing. Local, on rank 0.
 *
 * @param[in] w     A world.
 * @param[in] cause One of #QUO_cause_t but #QUO_CAUSE_NONE.
 * @param[in] text  Text of the notice.
 * @retval QUO_ERR_INVLD_ARG cause is none of them, or text is NULL.
 * @retval QUO_ERR_STATE This is not rank 0.
 */
int
QUO_world_note(QUO_world w,
               int cause,
               const char *text);

/**
 * Gives the latest step of a request. Local, on rank 0.
 *
 * @param[in]  w        A world.
 * @param[in]  request  The number of a request.
 * @param[out] out_step One of #QUO_event_kind_t, from #QUO_EVENT_REQUESTED on.
 * @retval QUO_ERR_NOT_FOUND No such request is known, or it ended long ago.
 * @retval QUO_ERR_STATE This is not rank 0.
 */
int
QUO_world_request_step(QUO_world w,
                       long long request,
                       int *out_step);

/**
 * Gives the state of a request. Local, on rank 0.
 *
 * @param[in]  w         A world.
 * @param[in]  request   The number of a request.
 * @param[out] out_state One of #QUO_request_state_t.
 * @param[out] out_cause Why it has failed, to be freed with free(), empty if it has not; NULL is allowed.
 * @retval QUO_ERR_NOT_FOUND No such request is known, or it ended long ago.
 * @retval QUO_ERR_STATE This is not rank 0.
 */
int
QUO_world_request_state(QUO_world w,
                        long long request,
                        int *out_state,
                        char **out_cause);

/**
 * Gives the next event that this function has not given yet, from the beginning of the job on;
 * the latest 4096 are kept. Local, on rank 0.
 *
 * @param[in]     w         A world.
 * @param[in,out] out_event Set its size first. Its texts are valid until the next call of this function,
 *                          or the end of the world.
 * @param[out]    out_found 1, or 0 without an event: out_event is then unchanged.
 * @retval QUO_ERR_STATE This is not rank 0.
 */
int
QUO_world_next_event(QUO_world w,
                     QUO_event_t *out_event,
                     int *out_found);

/**
 * Passes all events to a function, from the first kept event on. Local; on other ranks than 0 the function
 * is never called.
 *
 * It is called by the thread that is in QUO_world_probe(), QUO_world_commit(), QUO_world_abort() or
 * QUO_world_end(), before these return (QUO_world_end(): before it begins), with all events until
 * then. With a handler, a probe on rank 0 takes a lock.
 *
 * @param[in] w       A world.
 * @param[in] handler The function, which replaces an earlier one; NULL: none.
 * @param[in] data    Passed to it.
 */
int
QUO_world_on_event(QUO_world w,
                   QUO_event_handler_t handler,
                   void *data);

/**
 * Gives the current state of the job, as a JSON object: job, epoch, size, capacity, waiting, under_way and
 * step (of a resize that is under way), next_event, up_us, hosts (host, slots, ranks), limits (sizes
 * that it can have), report (of QUO_world_report_progress()), log_trouble. Local, on rank 0.
 *
 * @param[in]  w        A world.
 * @param[out] out_json To be freed with free(); NULL on failure.
 * @retval QUO_ERR_STATE This is not rank 0.
 */
int
QUO_world_job_status(QUO_world w,
                 char **out_json);

/** @} */
/** @name Resizes */
/** @{ */

/**
 * Opens the window in which data move. Collective over all stayers, leavers and joiners.
 *
 * @param[in] w A world.
 * @retval QUO_ERR_STATE No resize is pending, or one has begun.
 */
int
QUO_world_begin(QUO_world w);

/**
 * Returns a communicator of the window. Local; #QUO_WINDOW_BETWEEN is collective over all in the
 * window.
 *
 * @param[in]  w        A world.
 * @param[in]  which    One of #QUO_window_comm_t.
 * @param[out] out_comm Valid until the commit and not to be freed; #QUO_WINDOW_BETWEEN belongs to
 *                      the caller, to be freed with MPI_Comm_free() before.
 * @retval QUO_ERR_STATE No resize has begun.
 */
int
QUO_window_comm(QUO_world w,
                int which,
                MPI_Comm *out_comm);

/**
 * Gives the numbers of ranks that stay, leave and join. Local. Each output may be NULL.
 *
 * @param[in]  w         A world.
 * @param[out] out_stay  Number of stayers.
 * @param[out] out_leave Number of leavers.
 * @param[out] out_join  Number of joiners.
 * @retval QUO_ERR_STATE No resize has begun.
 */
int
QUO_window_counts(QUO_world w,
                  int *out_stay,
                  int *out_leave,
                  int *out_join);

/**
 * Broadcasts the bytes of rank 0, such as the number of the step. Collective over all in the
 * window.
 *
 * @param[in]     w      A world.
 * @param[in,out] data   What rank 0 gives, and the others get.
 * @param[in]     length Number of bytes, the same for all.
 * @retval QUO_ERR_DISAGREE  Rank 0 gives another number of bytes; nothing is written.
 * @retval QUO_ERR_STATE     No resize has begun.
 */
int
QUO_window_broadcast(QUO_world w,
                void *data,
                size_t length);

/**
 * Moves all arrays now; otherwise the commit does. The new ranks have them with the commit, until
 * then the old ones. Collective over all in the window.
 *
 * @param[in] w A world.
 * @retval QUO_ERR_DISAGREE  Ranks have registered different data; the resize can only be aborted.
 * @retval QUO_ERR           A rank could not do its part; likewise.
 * @retval QUO_ERR_STATE     No resize has begun, or arrays have been moved in it.
 */
int
QUO_window_move_data(QUO_world w);

/**
 * Begins to move all arrays; QUO_window_move_test() continues the move while the program computes.
 * Until the move has ended, of this world only QUO_window_move_test(), QUO_window_move_end(),
 * QUO_world_commit(), QUO_world_abort(), QUO_world_array() and QUO_world_array_origin() can be
 * called, other calls are QUO_ERR_STATE; arrays are read and not written, and communicators
 * obtained before stay valid. Collective over all in the window.
 *
 * @param[in] w A world.
 * @retval QUO_ERR_DISAGREE  Ranks have registered different data; the resize can only be aborted.
 * @retval QUO_ERR           A rank could not do its part, or has no memory for it; likewise.
 * @retval QUO_ERR_STATE     No resize has begun, or arrays have been moved in it.
 */
int
QUO_window_move_begin(QUO_world w);

/**
 * Moves what can be moved without waiting, at most a few megabytes. Local.
 *
 * @param[in]  w        A world.
 * @param[out] out_done 1 when this process has nothing left to do, else 0.
 * @retval QUO_ERR_STATE     No move has begun.
 * @retval QUO_ERR_MPI       MPI failed.
 */
int
QUO_window_move_test(QUO_world w,
                     int *out_done);

/**
 * Waits until all arrays have been moved on all processes. The world uses them from the commit on,
 * which makes this call if it was not made. Collective over all in the window.
 *
 * @param[in] w A world.
 * @retval QUO_ERR           A rank could not do its part; the resize can only be aborted.
 * @retval QUO_ERR_STATE     No move has begun.
 */
int
QUO_window_move_end(QUO_world w);

/**
 * Ends the resize: the world is the new one if all processes commit. Arrays are moved and contexts
 * adapted. Collective over all in the window; processes that refuse call QUO_world_abort().
 *
 * @param[in] w A world.
 * @retval QUO_SUCCESS       The world is the new one. Leavers are parked, or have ended if they were
 *                           started.
 * @retval QUO_ERR_ABORTED  A process refused: the same on all. The world is unchanged.
 * @retval QUO_ERR_STATE     No resize has begun.
 */
int
QUO_world_commit(QUO_world w);

/**
 * Aborts the resize on all processes: the world is unchanged. Collective over all in the window,
 * like QUO_world_commit().
 *
 * @param[in] w      A world.
 * @param[in] reason Text for the other processes; NULL is allowed.
 * @retval QUO_SUCCESS       The world is unchanged.
 * @retval QUO_ERR_STATE     No resize has begun.
 */
int
QUO_world_abort(QUO_world w,
                const char *reason);

/** @} */
/** @name Arrays */
/** @{ */

/**
 * Adds an array of zeros to the world: it is moved with every commit, and joiners have it then. Local;
 * made alike by all ranks, outside of resizes.
 *
 * @param[in] w    A world.
 * @param[in] name A name that no other array or callback has.
 * @param[in] spec How it is distributed.
 * @retval QUO_ERR_INVLD_ARG The name is taken, or the distribution does not fit the ranks.
 * @retval QUO_ERR_OOR       No memory is left.
 * @retval QUO_ERR_STATE     This process is no rank, or in a resize.
 */
int
QUO_world_array_add(QUO_world w,
                    const char *name,
                    const QUO_array_spec_t *spec);

/**
 * Gives this rank's part of an array. Local.
 *
 * @param[in]  w           A world.
 * @param[in]  name        The array.
 * @param[out] out_data    Its address, until the next commit that succeeds, or its removal.
 * @param[out] out_rows    Its rows, of all layers and with ghost cells; NULL is allowed.
 * @param[out] out_columns Its columns, or the elements of a vector, with ghost cells; NULL is allowed.
 * @retval QUO_ERR_NOT_FOUND There is no such array, or this process is no rank.
 */
int
QUO_world_array(QUO_world w,
                const char *name,
                void **out_data,
                size_t *out_rows,
                size_t *out_columns);

/**
 * Gives this rank's part of an array with its place in the whole array and its ghost cells. Local.
 *
 * @code{.c}
 * QUO_array_part_t part = QUO_ARRAY_PART_INIT; // of a matrix with one ghost cell on each side
 * QUO_world_array_part(w, "heat", &part);
 * double *heat = part.data;
 * for (size_t row = 1; row <= part.rows; ++row)
 *     for (size_t column = 1; column <= part.columns; ++column)
 *         heat[row * part.all_columns + column] = start(part.first_row + row - 1, part.first_column + column - 1);
 * @endcode
 *
 * @param[in]     w        A world.
 * @param[in]     name     The array. Of elements in several blocks the first one counts.
 * @param[in,out] out_part Set its size first. Its address is valid until the next commit that
 *                         succeeds, a swap, or the removal of the array.
 * @retval QUO_ERR_INVLD_ARG out_part is NULL, or its size is too small.
 * @retval QUO_ERR_NOT_FOUND There is no such array, or this process is no rank.
 */
int
QUO_world_array_part(QUO_world w,
                     const char *name,
                     QUO_array_part_t *out_part);

/**
 * Fills the ghost cells of an array of #QUO_ARRAY_HALO with the cells of the ranks that own them, corners
 * included; edges keep their values. Fills the ghosts of a vector of a matrix with the elements of the ranks
 * that own them. Does nothing for other arrays. Ghost cells and ghosts are zero from a resize to the next
 * exchange. Collective over the world; waits for neighbours as long as they compute. The first exchange after
 * a resize makes a communicator, and for a vector the list of elements that ranks send each other.
 *
 * @param[in] w    A world.
 * @param[in] name The array or the vector.
 * @retval QUO_SUCCESS         Ghost cells have the values of their owners.
 * @retval QUO_ERR_INVLD_ARG   A rank needs a row of the matrix that no rank has; the same on all ranks.
 * @retval QUO_ERR_DISAGREE    Ranks have added the matrix with different numbers of rows; the same on all ranks.
 * @retval QUO_ERR_OOR         A rank has no memory for the list of elements; the same on all ranks.
 * @retval QUO_ERR_NOT_FOUND   There is no such array.
 * @retval QUO_ERR_STATE       This process is no rank, or in a resize, or an exchange of the array has begun.
 * @retval QUO_ERR_DEAD_MEMBER A rank of this node has ended.
 * @retval QUO_ERR_MPI         MPI failed.
 */
int
QUO_world_exchange_halo(QUO_world w,
                        const char *name);

/**
 * Begins an exchange as QUO_world_exchange_halo(): sends the cells of this rank as they are now. The program
 * may compute, and change its own cells, until QUO_world_exchange_halo_end(); ghost cells are filled
 * there. Exchanges of several arrays may be under way at once. Collective over the world.
 *
 * @code{.c}
 * QUO_world_exchange_halo_begin(w, "heat");
 * compute_inside(w);  // cells without ghost cells as neighbours
 * QUO_world_exchange_halo_end(w, "heat");
 * compute_outside(w);
 * @endcode
 *
 * @param[in] w    A world.
 * @param[in] name The array or the vector.
 * @retval QUO_SUCCESS         Cells are on their way; ghost cells have no values yet.
 * @retval QUO_ERR_INVLD_ARG   As QUO_world_exchange_halo(), like the next two.
 * @retval QUO_ERR_DISAGREE    Ranks have added the matrix with different numbers of rows.
 * @retval QUO_ERR_OOR         A rank has no memory for the list of elements.
 * @retval QUO_ERR_NOT_FOUND   There is no such array.
 * @retval QUO_ERR_STATE       This process is no rank, or in a resize, or an exchange of the array has begun.
 * @retval QUO_ERR_DEAD_MEMBER A rank of this node has ended.
 * @retval QUO_ERR_MPI         MPI failed.
 */
int
QUO_world_exchange_halo_begin(QUO_world w,
                              const char *name);

/**
 * Ends an exchange that has begun: waits for the cells of other ranks and writes them into the ghost cells.
 * Comes before the next resize, which is aborted otherwise. Collective over the world.
 *
 * @param[in] w    A world.
 * @param[in] name The array or the vector.
 * @retval QUO_SUCCESS         Ghost cells have the values of their owners.
 * @retval QUO_ERR_NOT_FOUND   There is no such array.
 * @retval QUO_ERR_STATE       No exchange of the array has begun, or this process is in a resize.
 * @retval QUO_ERR_DEAD_MEMBER A rank of this node has ended.
 * @retval QUO_ERR_MPI         MPI failed.
 */
int
QUO_world_exchange_halo_end(QUO_world w,
                            const char *name);

/**
 * Swaps the elements of two arrays of the same distribution, as solvers do with the old and the new time step.
 * Nothing is copied. Local; made alike by all ranks, outside of resizes.
 *
 * @param[in] w     A world.
 * @param[in] name  An array.
 * @param[in] other Another array.
 * @retval QUO_ERR_INVLD_ARG Their distributions or elements differ.
 * @retval QUO_ERR_NOT_FOUND There is no such array.
 * @retval QUO_ERR_STATE     An exchange of one of them has begun, or this process is in a resize.
 */
int
QUO_world_array_swap(QUO_world w,
                     const char *name,
                     const char *other);

/**
 * Gives the element of the whole array at an offset in this rank's part. Local. Rows and columns count from the
 * edge of the array, if it has one; rows of several layers are numbered one layer after the other.
 *
 * @param[in]  w          A world.
 * @param[in]  name       The array.
 * @param[in]  offset     The offset, in elements.
 * @param[out] out_row    Its row; NULL is allowed.
 * @param[out] out_column Its column; NULL is allowed.
 * @retval QUO_ERR_INVLD_ARG This rank's part has no such offset, or it is that of a ghost cell.
 * @retval QUO_ERR_NOT_FOUND There is no such array, or this process is no rank.
 */
int
QUO_world_array_origin(QUO_world w,
                       const char *name,
                       size_t offset,
                       size_t *out_row,
                       size_t *out_column);

/**
 * Sets the distribution of an array from the next resize on: the same elements, in another way. Local; called
 * alike by all ranks that have the array.
 *
 * @param[in] w    A world.
 * @param[in] name The array.
 * @param[in] spec The distribution; its element is ignored.
 * @retval QUO_ERR_INVLD_ARG Another number of elements, or not an array.
 * @retval QUO_ERR_NOT_FOUND There is no such array, or this process is no rank.
 * @retval QUO_ERR_STATE     The data of a resize have been moved, and the commit is due.
 */
int
QUO_world_array_lay_out(QUO_world w,
                        const char *name,
                        const QUO_array_spec_t *spec);

/**
 * Adds an array of zeros with an element for each nonzero of a sparse matrix in compressed rows (CSR) or columns (CSC):
 * its values, or the indices of their columns or rows. The lines of the matrix, which are its rows or columns, lie in one
 * block for each rank. The array moves with every commit, and joiners learn the pointers. Local; made alike by all ranks.
 *
 * @param[in] w        A world.
 * @param[in] name     A name that no other array or callback has.
 * @param[in] element  Bytes of an element.
 * @param[in] lines    Number of lines of the whole matrix.
 * @param[in] pointers Where the nonzeros of each line of the whole matrix begin, ascending from 0, and at the end how many
 *                     there are: lines + 1 numbers, which are copied.
 * @retval QUO_ERR_INVLD_ARG pointers descend, or the name is taken.
 * @retval QUO_ERR_OOR       No memory is left.
 * @retval QUO_ERR_STATE     This process is no rank, or in a resize.
 */
int
QUO_world_array_add_compressed(QUO_world w,
                               const char *name,
                               size_t element,
                               size_t lines,
                               const size_t *pointers);

/**
 * Gives the lines of a sparse matrix for which this rank has the nonzeros. Local.
 *
 * @param[in]  w            A world.
 * @param[in]  name         An array that was added with QUO_world_array_add_compressed().
 * @param[out] out_first    The first line, from 0. NULL is allowed.
 * @param[out] out_lines    How many there are. NULL is allowed.
 * @param[out] out_pointers Where they begin in the whole matrix, and the end of the last one: out_lines + 1 numbers, until
 *                          the next commit. An element of line i lies in this rank's part at its number minus the first of
 *                          these. NULL is allowed.
 * @retval QUO_ERR_NOT_FOUND There is no such array.
 */
int
QUO_world_array_lines(QUO_world w,
                      const char *name,
                      size_t *out_first,
                      size_t *out_lines,
                      const size_t **out_pointers);

/**
 * Adds a square sparse matrix in compressed rows (CSR), of which each rank gives its rows. They move with every commit, and
 * joiners have theirs then. Rank i has the rows from i * each on, where each is the number of rows divided by that of
 * ranks, rounded up; the last ranks may have fewer. Local; made by all ranks in the same order, outside of resizes.
 *
 * @code{.c}
 * QUO_world_matrix_add(w, "A", sizeof(double), n, rows, pointers, columns, values); // copies the last three
 * QUO_world_vector_add(w, "x", sizeof(double), "A");
 *
 * QUO_matrix_part_t a = QUO_MATRIX_PART_INIT; // a and x: again after each resize
 * QUO_world_matrix(w, "A", &a);
 * QUO_world_array(w, "x", &data, NULL, NULL);
 * QUO_world_exchange_halo(w, "x");
 * const double *x = data, *values = a.values;
 * for (size_t row = 0; row < a.rows; ++row)
 *     for (size_t at = a.pointers[row]; at < a.pointers[row + 1]; ++at)
 *         product[row] += values[at] * x[a.columns[at]];
 * @endcode
 *
 * @param[in] w        A world.
 * @param[in] name     A name that no other array, matrix or callback has.
 * @param[in] element  Bytes of a value.
 * @param[in] rows     Number of rows of the whole matrix, and of its columns.
 * @param[in] own_rows Number of rows of this rank.
 * @param[in] pointers Beginning of the elements of each row of this rank, and the end of the last one's: own_rows + 1
 *                     numbers, ascending from 0, or from 1 if columns count from 1 too.
 * @param[in] columns  Column of each element, numbered as in the whole matrix. NULL if there are none.
 * @param[in] values   Value of each element. NULL if there are none.
 * @retval QUO_ERR_INVLD_ARG The name is taken, or these are not the rows of this rank.
 * @retval QUO_ERR_OOR       No memory is left.
 * @retval QUO_ERR_STATE     This process is no rank, or in a resize.
 */
int
QUO_world_matrix_add(QUO_world w,
                     const char *name,
                     size_t element,
                     size_t rows,
                     size_t own_rows,
                     const size_t *pointers,
                     const size_t *columns,
                     const void *values);

/**
 * Adds a vector of zeros with an element for each row of a matrix. QUO_world_array() gives this rank's part: the elements of
 * its rows, and after them its ghosts, which QUO_world_exchange_halo() fills with the elements of other ranks. A commit
 * moves the elements; ghosts are zero afterwards. Local; made alike by all ranks, outside of resizes.
 *
 * @param[in] w       A world.
 * @param[in] name    A name that no other array, matrix or callback has.
 * @param[in] element Bytes of an element.
 * @param[in] matrix  The matrix.
 * @retval QUO_ERR_INVLD_ARG The name is taken.
 * @retval QUO_ERR_NOT_FOUND There is no such matrix.
 * @retval QUO_ERR_OOR       No memory is left.
 * @retval QUO_ERR_STATE     This process is no rank, or in a resize.
 */
int
QUO_world_vector_add(QUO_world w,
                     const char *name,
                     size_t element,
                     const char *matrix);

/**
 * Gives this rank's rows of a matrix. Local.
 *
 * @param[in]     w        A world.
 * @param[in]     name     The matrix.
 * @param[in,out] out_part Set its size first. Its addresses are valid until the next commit that succeeds, or
 *                         the removal of the matrix.
 * @retval QUO_ERR_INVLD_ARG out_part is NULL, or its size is too small.
 * @retval QUO_ERR_NOT_FOUND There is no such matrix, or this process is no rank.
 */
int
QUO_world_matrix(QUO_world w,
                 const char *name,
                 QUO_matrix_part_t *out_part);

/**
 * Adds a list of items, such as particles. Each rank holds any number of them, none at first. A commit moves each item to
 * its owner among the new ranks; QUO_world_migrate() moves each item to its owner among the present ranks. Local; all
 * processes that can become ranks make the same call, parked ones included.
 *
 * @code{.c}
 * static int owner(void *data, const void *item, int ranks) // a slab of the box for each rank
 * {
 *     const int rank = (int)(((const particle_t *)item)->x * ranks); // x is from 0 to 1
 *     return rank < ranks ? rank : ranks - 1;
 * }
 *
 * QUO_world_items_add(w, "particles", sizeof(particle_t), owner, NULL);
 * if (QUO_WORLD_NEW == status) QUO_world_items_resize(w, "particles", count); // and set them
 *
 * QUO_world_migrate(w, "particles"); // in each step
 * QUO_world_items(w, "particles", &items, &count);
 * @endcode
 *
 * @param[in] w       A world.
 * @param[in] name    A name that no array, matrix, callback or other list has.
 * @param[in] element Bytes of an item, which has no addresses in it. The same everywhere: otherwise migrations and
 *                    commits fail on all.
 * @param[in] owner   Called for each item until QUO_world_array_remove().
 * @param[in] data    Passed to it.
 * @retval QUO_ERR_INVLD_ARG The name is taken, owner is NULL, or element is 0.
 * @retval QUO_ERR_STATE     The data of a resize have been moved, and the commit is due.
 */
int
QUO_world_items_add(QUO_world w,
                    const char *name,
                    size_t element,
                    QUO_owner_t owner,
                    void *data);

/**
 * Adds a list of items as QUO_world_items_add(), with a function that sets the owners of all items of this rank in one
 * call. Local; all processes that can become ranks make the same call, parked ones included.
 *
 * @param[in] w       A world.
 * @param[in] name    As there.
 * @param[in] element As there.
 * @param[in] owners  Called in each migration and each move of a resize until QUO_world_array_remove().
 * @param[in] data    Passed to it.
 * @retval QUO_ERR_INVLD_ARG The name is taken, owners is NULL, or element is 0.
 * @retval QUO_ERR_STATE     The data of a resize have been moved, and the commit is due.
 */
int
QUO_world_items_add_with_owners(QUO_world w,
                                const char *name,
                                size_t element,
                                QUO_owners_t owners,
                                void *data);

/**
 * Gives the items of this rank. Local.
 *
 * @param[in]  w         A world.
 * @param[in]  name      The list.
 * @param[out] out_items Address of the first item, valid until the next migration, commit or change of their number.
 *                       Without items it is not NULL, and must not be read.
 * @param[out] out_count Number of items.
 * @retval QUO_ERR_NOT_FOUND There is no such list.
 */
int
QUO_world_items(QUO_world w,
                const char *name,
                void **out_items,
                size_t *out_count);

/**
 * Sets the number of items of this rank: the first ones stay, new ones are zero. Local, outside of resizes;
 * a probe that has returned 1 begins none, so a program whose items are in structures of its own copies them
 * between QUO_world_probe() and QUO_world_begin().
 *
 * @param[in] w     A world.
 * @param[in] name  The list.
 * @param[in] count Number of items.
 * @retval QUO_ERR_NOT_FOUND There is no such list.
 * @retval QUO_ERR_OOR       No memory is left; nothing has changed.
 * @retval QUO_ERR_STATE     This process is no rank, or in a resize.
 */
int
QUO_world_items_resize(QUO_world w,
                       const char *name,
                       size_t count);

/**
 * Moves each item of a list to its owner. Afterwards the items of a rank are sorted by the rank that they come from; items
 * that come from one rank keep their order. Collective over the world; waits for other ranks as long as they compute.
 *
 * @param[in] w    A world.
 * @param[in] name The list.
 * @retval QUO_ERR_INVLD_ARG   An owner is no rank, or another rank has no such list.
 * @retval QUO_ERR_DISAGREE    Ranks have registered items of different sizes.
 * @retval QUO_ERR_OOR         A rank has no memory for its items. These three are the same on all ranks, and no item
 *                             has moved.
 * @retval QUO_ERR_NOT_FOUND   There is no such list.
 * @retval QUO_ERR_STATE       This process is no rank, or in a resize.
 * @retval QUO_ERR_DEAD_MEMBER A rank of this node has ended.
 * @retval QUO_ERR_MPI         MPI failed.
 */
int
QUO_world_migrate(QUO_world w,
                  const char *name);

/**
 * Writes all arrays, matrices, vectors and lists of items to a folder, with the state of rank 0, such as the number of
 * the step. Each rank writes its own part. The folder is made if it does not exist, for this user only, and has one
 * checkpoint: the one before is removed once the new one is complete and on the storage device. If the call fails, or a
 * process or the machine does, the one before remains, unless the error says that the new one is written. Ranks on
 * several nodes need a folder that all nodes share.
 * Collective over the world; waits for other ranks as long as they compute.
 *
 * @code{.c}
 * int step = 0, restored = 0;
 * QUO_world_status(w, &status);
 * if (QUO_WORLD_NEW == status) {
 *     QUO_world_restore(w, "checkpoints", &step, sizeof(step), &restored); // of any number of ranks
 *     if (!restored) initialise(w); // adds arrays and sets their values
 * }
 * // ... and in the loop
 * if (0 == step % 100) QUO_world_checkpoint(w, "checkpoints", &step, sizeof(step));
 * @endcode
 *
 * @param[in] w      A world.
 * @param[in] folder The same for all ranks.
 * @param[in] state  Bytes of rank 0, which QUO_world_restore() gives to all. NULL if length is 0.
 * @param[in] length Number of bytes.
 * @retval QUO_SUCCESS         The checkpoint is complete.
 * @retval QUO_ERR_SYS         A file cannot be written, such as on a full disk, or another job uses the folder.
 * @retval QUO_ERR_INVLD_ARG   An argument is NULL, there are callbacks of QUO_world_carry(), whose data only the program
 *                             knows, or an exchange of ghost cells has begun.
 * @retval QUO_ERR_DISAGREE    Ranks have added different data. These three are the same on all ranks.
 * @retval QUO_ERR_STATE       This process is no rank, or in a resize.
 * @retval QUO_ERR_DEAD_MEMBER A rank of this node has ended.
 * @retval QUO_ERR_MPI         MPI failed.
 */
int
QUO_world_checkpoint(QUO_world w,
                     const char *folder,
                     const void *state,
                     size_t length);

/**
 * Reads the data of a checkpoint that any number of ranks has written. Arrays, matrices and vectors that this world does
 * not have are added, as on a joiner; those that it has get the values of the checkpoint, in the layout that they have
 * here. Lists of items are added before, because they need the function of their owners; items go to their owners.
 * Ghost cells are zero afterwards, and addresses from before are not valid. Collective over the world; waits for other
 * ranks as long as they compute.
 *
 * @param[in]  w            A world.
 * @param[in]  folder       The same for all ranks.
 * @param[out] state        The state of the checkpoint; unchanged without one. NULL if length is 0.
 * @param[in]  length       Number of its bytes, as in QUO_world_checkpoint().
 * @param[out] out_restored 1, or 0 if the folder has no complete checkpoint or does not exist: nothing has changed.
 * @retval QUO_SUCCESS         out_restored says whether there was a checkpoint.
 * @retval QUO_ERR_SYS         A file cannot be read, is missing, or was changed, or a rank has no memory for its data.
 * @retval QUO_ERR_INVLD_ARG   An argument is NULL, length is not that of the checkpoint, a list of the checkpoint has not
 *                             been added, data of this world differ from the checkpoint or are not in it, there are
 *                             callbacks of QUO_world_carry(), an exchange of ghost cells has begun, or an owner is no rank.
 * @retval QUO_ERR_DISAGREE    Ranks have added different data.
 * @retval QUO_ERR_OOR         A rank has no memory for its items. These four are the same on all ranks, and nothing has
 *                             changed.
 * @retval QUO_ERR_STATE       This process is no rank, or in a resize.
 * @retval QUO_ERR_DEAD_MEMBER A rank of this node has ended.
 * @retval QUO_ERR_MPI         MPI failed.
 */
int
QUO_world_restore(QUO_world w,
                  const char *folder,
                  void *state,
                  size_t length,
                  int *out_restored);

/**
 * Removes an array, a matrix, a list of items or callbacks. Local; called alike by all, outside of resizes.
 *
 * @param[in] w    A world.
 * @param[in] name Its name.
 * @retval QUO_ERR_NOT_FOUND There is no array, matrix, list or callback of that name.
 * @retval QUO_ERR_STATE     The matrix has vectors: remove them first.
 */
int
QUO_world_array_remove(QUO_world w,
                       const char *name);

/**
 * Registers functions of the program that move its other data. Local; all processes that can be
 * ranks make the same call, also parked ones.
 *
 * @param[in] w         A world.
 * @param[in] name      A name that no other array or callback has.
 * @param[in] callbacks Called in the moves of resizes until QUO_world_array_remove().
 * @retval QUO_ERR_INVLD_ARG The name is taken.
 * @retval QUO_ERR_STATE     The data of a resize have been moved, and the commit is due.
 */
int
QUO_world_carry(QUO_world w,
                const char *name,
                const QUO_carry_t *callbacks);

/**
 * In the callback give: gives a new rank some bytes, which are copied. What is given to one rank in
 * several calls arrives as one piece.
 *
 * @param[in] new_rank The rank.
 * @param[in] data     The bytes.
 * @param[in] length   Number of bytes.
 * @retval QUO_ERR_STATE Not inside such a callback.
 */
int
QUO_carry_give(int new_rank,
               const void *data,
               size_t length);

/**
 * Gives the figures of the last committed move of arrays. Local.
 *
 * @param[in]     w           A world.
 * @param[in,out] out_metrics Set its size first.
 * @retval QUO_ERR_NOT_FOUND Nothing has been moved yet.
 * @retval QUO_ERR_INVLD_ARG out_metrics is NULL, or its size is too small.
 */
int
QUO_world_last_move(QUO_world w,
                    QUO_move_metrics_t *out_metrics);

/** @} */
/** @name Process sets
 *
 * A process set has a name: mpi://WORLD for all ranks, mpi://SELF for the caller, mpi://app/NAME for the job
 * of that name, and below that the names of the program's sets. Rank 0 keeps the sets; every call is local
 * and waits for rank 0 only, and calls of several processes have one order. They need the option
 * process_sets. A resize is a set too, of its joiners or leavers: a delta.
 *
 * Errors of all of these calls: QUO_ERR_STATE without process_sets, QUO_ERR_INVLD_ARG for an invalid name,
 * QUO_ERR_NOT_FOUND for an unknown set, QUO_ERR_REFUSED for an operation that the sets do not allow
 * and in a parked process, QUO_ERR_SYS if rank 0 cannot be reached. */
/** @{ */

/**
 * Gives the id of this process, which no other process ever has. Local; also in a parked process.
 *
 * @param[in]  w          A world.
 * @param[out] out_member The id; -1 while it is parked.
 */
int
QUO_pset_member(QUO_world w,
                long long *out_member);

/**
 * Gives the names of the sets that are visible to this process, mpi://WORLD and mpi://SELF first.
 * Local.
 *
 * @param[in]  w         A world.
 * @param[out] out_names The names, one a line, to be freed with free(); NULL on failure.
 */
int
QUO_pset_names(QUO_world w,
               char **out_names);

/**
 * Gives the attributes of a set. Local.
 *
 * @param[in]     w        A world.
 * @param[in]     set      Its name.
 * @param[in,out] out_info Set its size first.
 */
int
QUO_pset_info(QUO_world w,
              const char *set,
              QUO_pset_info_t *out_info);

/**
 * Gives a hint of a set. Local.
 *
 * @param[in]  w         A world.
 * @param[in]  set       Its name.
 * @param[in]  key       The key of the hint.
 * @param[out] out_value The value, to be freed with free(); NULL on failure.
 * @retval QUO_ERR_NOT_FOUND There is no such set, or it has no such hint.
 */
int
QUO_pset_hint(QUO_world w,
              const char *set,
              const char *key,
              char **out_value);

/**
 * Gives the ids of the members of a set, in order. Local.
 *
 * @param[in]  w           A world.
 * @param[in]  set         Its name.
 * @param[out] out_members The ids, to be freed with free(); NULL for none, and on failure.
 * @param[out] out_count   Their number.
 */
int
QUO_pset_members(QUO_world w,
                 const char *set,
                 long long **out_members,
                 int *out_count);

/**
 * Creates a set from two, or a new version of the first. Local.
 *
 * @param[in]  w          A world.
 * @param[in]  op         One of #QUO_pset_op_t.
 * @param[in]  first      A set.
 * @param[in]  second     Another one.
 * @param[in]  target     The name of the new set, or first for a new version of it; NULL: a name is made.
 * @param[in]  attributes Attributes that are not inherited from first; NULL: none.
 * @param[out] out_set    The name, to be freed with free(); NULL on failure. NULL is allowed.
 * @retval QUO_ERR_REFUSED The result has no member, the name is taken or not the program's.
 */
int
QUO_pset_operate(QUO_world w,
                 int op,
                 const char *first,
                 const char *second,
                 const char *target,
                 const QUO_pset_change_t *attributes,
                 char **out_set);

/**
 * Changes the attributes of a set. Local.
 *
 * @param[in] w          A world.
 * @param[in] set        Its name.
 * @param[in] attributes The changes.
 */
int
QUO_pset_update(QUO_world w,
                const char *set,
                const QUO_pset_change_t *attributes);

/**
 * Splits a set into parts, in the order of its members. Local.
 *
 * @param[in]  w         A world.
 * @param[in]  set       Its name.
 * @param[in]  sizes     Number of members of each part.
 * @param[in]  count     Number of parts.
 * @param[in]  below     Name below which the parts are named.
 * @param[out] out_names The names, one a line, to be freed with free(); NULL is allowed.
 * @retval QUO_ERR_INVLD_ARG The parts are not the set.
 */
int
QUO_pset_split(QUO_world w,
               const char *set,
               const long long *sizes,
               int count,
               const char *below,
               char **out_names);

/**
 * Removes the name of a set that has lost its last member. Local.
 *
 * @param[in] w   A world.
 * @param[in] set Its name.
 * @retval QUO_ERR_REFUSED It has members.
 */
int
QUO_pset_prune(QUO_world w,
               const char *set);

/**
 * Publishes bytes under a key of a set, for QUO_pset_lookup(). Local.
 *
 * @param[in]  w           A world.
 * @param[in]  set         Its name; not mpi://SELF.
 * @param[in]  key         The key, of at most 255 bytes.
 * @param[in]  data        The bytes, at most 65,536, which are copied.
 * @param[in]  length      Number of bytes.
 * @param[out] out_version Number of this value under the key, from 1; NULL is allowed.
 */
int
QUO_pset_publish(QUO_world w,
                 const char *set,
                 const char *key,
                 const void *data,
                 size_t length,
                 long long *out_version);

/**
 * Removes the value under a key of a set. Local.
 *
 * @param[in] w   A world.
 * @param[in] set Its name.
 * @param[in] key The key.
 */
int
QUO_pset_withdraw(QUO_world w,
                  const char *set,
                  const char *key);

/**
 * Gives the value under a key of a set, and waits until there is one. Local.
 *
 * @param[in]  w             A world.
 * @param[in]  set           Its name.
 * @param[in]  key           The key.
 * @param[in]  wait          Seconds to wait; 0: not at all.
 * @param[out] out_data      The bytes, to be freed with free(); NULL on failure.
 * @param[out] out_length    Number of bytes.
 * @param[out] out_version   Number of this value under the key; NULL is allowed.
 * @param[out] out_publisher The id of the process that published it; NULL is allowed.
 * @retval QUO_ERR_TIMEOUT No value was published in this time.
 */
int
QUO_pset_lookup(QUO_world w,
                const char *set,
                const char *key,
                double wait,
                void **out_data,
                size_t *out_length,
                long long *out_version,
                long long *out_publisher);

/**
 * Returns the current resize, if there is one; its absence is no error. Local.
 *
 * @param[in]     w         A world.
 * @param[in]     bound     The set that is resized, such as mpi://WORLD; mpi://SELF: a resize in which this
 *                          process joins or leaves.
 * @param[in,out] out_view  Set its size first.
 * @param[out]    out_delta The name of the delta that concerns this process, empty without a change, to be
 *                          freed with free(); NULL on failure. NULL is allowed.
 */
int
QUO_pset_query(QUO_world w,
               const char *bound,
               QUO_pset_view_t *out_view,
               char **out_delta);

/**
 * Accepts a resize, and probes. Collective over the ranks, in the same places as probes; does not wait for
 * joiners. Only rank 0's delta, set and wait count.
 *
 * @param[in]  w              A world.
 * @param[in]  delta          The delta of the resize.
 * @param[in]  set            The set that the new world will be.
 * @param[in]  wait           Seconds for which to repeat while the resize is pending; 0: once.
 * @param[out] out_acceptance One of #QUO_acceptance_t.
 * @param[out] out_set        The set, on all, where all enter, else empty; to be freed with free(); NULL on
 *                            failure. NULL is allowed.
 * @retval QUO_ERR_STATE     This process is no rank, or in a resize.
 * @retval QUO_ERR_REFUSED   The sets of rank 0 do not allow it: the same on all.
 */
int
QUO_world_accept(QUO_world w,
                 const char *delta,
                 const char *set,
                 double wait,
                 int *out_acceptance,
                 char **out_set);

/**
 * Returns the name of the set that this process joins. Local, in the status #QUO_WORLD_JOINING,
 * before QUO_world_begin(); waits until the ranks have accepted.
 *
 * @param[in]  w       A world.
 * @param[in]  wait    Seconds to wait.
 * @param[out] out_set The name, to be freed with free(); NULL on failure.
 * @retval QUO_ERR_STATE    This process does not join.
 * @retval QUO_ERR_ABORTED  The resize has ended, or the ranks did not accept in time.
 */
int
QUO_world_confirm(QUO_world w,
                  double wait,
                  char **out_set);

/** @} */
/** @name For Fortran */
/** @{ */

/** As QUO_adapt(), for Fortran's handles. */
int
QUO_adapt_f2c(QUO_t *q,
              QUO_fint_t comm);

/** As QUO_world_comm(), for Fortran's handles. */
int
QUO_world_comm_f2c(QUO_world w,
                   QUO_fint_t *out_comm);

/** As QUO_window_comm(), for Fortran's handles. */
int
QUO_window_comm_f2c(QUO_world w,
                    int which,
                    QUO_fint_t *out_comm);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
