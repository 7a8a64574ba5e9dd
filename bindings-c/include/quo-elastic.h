/**
 * @file quo-elastic.h
 * The elastic world: a job has more or fewer ranks while it runs. Since quo 0.1.
 *
 * Part of libquo. The rules of quo.h hold here; what is said to be *collective* is made by all ranks
 * of the world, in the same order.
 *
 * @code{.c}
 * QUO_world w = NULL;
 * QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
 * int status, enters, more, step = 0;
 * options.start = 2;
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
 *     if (QUO_WORLD_JOINING != status) QUO_world_probe(w, &enters);
 *     if (enters || QUO_WORLD_JOINING == status) {
 *         QUO_world_begin(w);
 *         QUO_window_tell(w, &step, sizeof(step));
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

/** What a process is to the world. */
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
    /** The job is over for this process: QUO_world_end() is next, and the end of the process. */
    QUO_WORLD_ENDED
} QUO_world_status_t;

/** What a world begins with. Start from #QUO_WORLD_OPTIONS_INIT. start and most are the same on all
    processes; of the rest, what rank 0 says counts. */
typedef struct QUO_world_options_t {
    /** sizeof(QUO_world_options_t), so that fields can be appended. */
    size_t size;
    /** Ranks at first, the other processes are parked; 0: all that were launched. */
    int start;
    /** Ranks that there can be: beyond the launched ones, processes are started where the MPI can; 0:
        as many as were launched. Needs MPI_THREAD_MULTIPLE. */
    int most;
    /** Processes that are started together and leave together, at most; 0: all of one growth. */
    int unit;
    /** Not 0: more processes may be started than the launcher has slots for. */
    int crowded;
    /** Not 0: the job listens for the command quo-elastic. */
    int control;
    /** Not 0: arrays go in messages of MPI also between ranks of a node. */
    int messages;
    /** Seconds that processes may take from their start to being ready; 0: a minute. */
    double start_limit;
    /** The name by which the job is known; NULL: the number of the process of rank 0. */
    const char *name;
    /** A file that every event is appended to, as a line of JSON; NULL: none. */
    const char *log;
    /** A plan: when the world is to have which size, in the language of plans; NULL: none. */
    const char *plan;
    /** Not 0: the job ends when a rank has ended without QUO_world_end(): killed, crashed, or by exit().
        MPI waits for it for ever in a collective call, and not every launcher ends a job with a process
        that was started later. A thread of every process looks for it twice a second or more often; the
        first that finds it writes the rank to standard error, and all processes of the world end by
        _exit(3), without a call of MPI. A parked process that has ended does not end the job. */
    int abort_on_death;
} QUO_world_options_t;

/** Initialiser: all launched processes are ranks, and nobody from outside decides. */
#define QUO_WORLD_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(QUO_world_options_t), 0, 0, 0, 0, 0, 0, 0.0, NULL, NULL, NULL, 0                    \
    }

/** What has become of a request. */
typedef enum {
    /** It was accepted, and has not ended. */
    QUO_REQUEST_OPEN = 0,
    /** Its resize is done. */
    QUO_REQUEST_DONE,
    /** It was refused or given up; the world is what it was. */
    QUO_REQUEST_FAILED
} QUO_request_state_t;

/** Communicators of a resize. */
typedef enum {
    /** All who stay, leave or join: the old ranks first, in their order. */
    QUO_WINDOW_EVERYBODY = 0,
    /** The world as it was; MPI_COMM_NULL for one who joins. */
    QUO_WINDOW_OLD,
    /** The world as it will be; MPI_COMM_NULL for one who leaves. */
    QUO_WINDOW_NEW,
    /** An intercommunicator between the old ranks and those who join; MPI_COMM_NULL when nobody does. */
    QUO_WINDOW_BETWEEN
} QUO_window_comm_t;

/** How an array is dealt out. */
typedef enum {
    /** A vector in one block for each rank. */
    QUO_ARRAY_BLOCK = 0,
    /** A vector in blocks of block_columns elements that are dealt out in turns. */
    QUO_ARRAY_BLOCK_CYCLIC,
    /** A matrix in one block of rows for each rank. */
    QUO_ARRAY_BLOCK_ROWS,
    /** A matrix in one block of columns for each rank. */
    QUO_ARRAY_BLOCK_COLUMNS,
    /** A matrix in one block for each place of a grid of ranks. */
    QUO_ARRAY_BLOCK_GRID,
    /** A matrix in blocks of block_rows x block_columns that are dealt out over a grid of ranks. */
    QUO_ARRAY_CHECKERBOARD,
    /** A vector of which every rank has all. */
    QUO_ARRAY_REPLICATED
} QUO_array_kind_t;

/** How a rank stores its part of a matrix. */
typedef enum {
    /** Row by row, as in C. */
    QUO_ARRAY_BY_ROWS = 0,
    /** Column by column, as in Fortran. */
    QUO_ARRAY_BY_COLUMNS
} QUO_array_storage_t;

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
    /** Columns of a matrix; how many elements a vector has. */
    size_t columns;
    /** Rows of a block, of #QUO_ARRAY_CHECKERBOARD. */
    size_t block_rows;
    /** Columns of a block, of #QUO_ARRAY_CHECKERBOARD; elements of one, of #QUO_ARRAY_BLOCK_CYCLIC. */
    size_t block_columns;
    /** Rows of the grid of ranks; 0, with grid_columns: as nearly square as each number of ranks can be. */
    size_t grid_rows;
    /** Columns of it. With a grid the array is for as many ranks as that has places, until
        QUO_world_array_lay_out() says how it lies on others. */
    size_t grid_columns;
} QUO_array_spec_t;

/** Initialiser: a vector of no doubles in one block for each rank. */
#define QUO_ARRAY_SPEC_INIT                                                                        \
    {                                                                                              \
        sizeof(QUO_array_spec_t), QUO_ARRAY_BLOCK, QUO_ARRAY_BY_ROWS, sizeof(double), 1, 0, 1, 1,  \
            0, 0                                                                                   \
    }

/** What the last committed move of arrays has moved, in bytes. Set size to sizeof. */
typedef struct QUO_move_metrics_t {
    /** sizeof(QUO_move_metrics_t), so that fields can be appended. */
    size_t size;
    /** How many arrays and callbacks. */
    size_t arrays;
    /** Steps of all schedules. */
    size_t steps;
    /** What this process had for others. */
    size_t sent;
    /** What this process has copied from the memory of others. */
    size_t shared;
    /** What stayed here and was copied to its new place. */
    size_t kept;
    /** What all processes had for others. */
    size_t all_sent;
    /** What of that went through memory. */
    size_t all_shared;
    /** What stayed where it was, on all processes. */
    size_t all_kept;
    /** From the beginning to when all had agreed that it is done. */
    double seconds;
} QUO_move_metrics_t;

/** Who was a rank, and who will be. */
typedef struct QUO_seats_t {
    /** How many ranks there were. */
    int old_size;
    /** How many there will be. */
    int new_size;
    /** Which of the old ones this process is; -1 for one who joins. */
    int old_rank;
    /** Which of the new ones; -1 for one who leaves. */
    int new_rank;
} QUO_seats_t;

/** On old ranks: calls QUO_carry_give() for each new rank that gets something, its own included. What the
    process has stays as it is until the end of the resize. */
typedef int (*QUO_carry_give_t)(void *data, const QUO_seats_t *seats);

/** On new ranks: what came from an old rank; these come in their order. Not in use until the end of the
    resize. */
typedef int (*QUO_carry_take_t)(void *data, const QUO_seats_t *seats, int old_rank,
                                const void *bytes, size_t length);

/** The resize is over: what was taken is in use now (1), or forgotten (0). */
typedef void (*QUO_carry_settle_t)(void *data, int committed);

/** Data that the program moves itself. Each function may be NULL; give and take return 0, or the move
    fails on all. They call no function of this header but QUO_carry_give(). Start from
    #QUO_CARRY_INIT. */
typedef struct QUO_carry_t {
    /** sizeof(QUO_carry_t), so that fields can be appended. */
    size_t size;
    /** Gives what this process has. */
    QUO_carry_give_t give;
    /** Takes what others gave. */
    QUO_carry_take_t take;
    /** Is told how it ended. */
    QUO_carry_settle_t settle;
    /** Passed to them. */
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
 * A process that is started for a growth returns when the ranks have come for it, or it is not needed.
 *
 * @param[out] w       The world, to be ended with QUO_world_end(); NULL on failure.
 * @param[in]  options NULL means #QUO_WORLD_OPTIONS_INIT.
 * @retval QUO_SUCCESS              Done.
 * @retval QUO_ERR_INVLD_ARG        w is NULL, or an option is out of range or no plan.
 * @retval QUO_ERR_DISAGREE         Processes gave different numbers for start or most, or another one
 *                                  has a wrong argument.
 * @retval QUO_ERR_CALL_BEFORE_INIT MPI_Init was not called; other codes as QUO_create().
 */
int
QUO_world_create(QUO_world *w,
                 const QUO_world_options_t *options);

/**
 * Ends the world: who sleeps wakes up and is told. A resize that has begun is given up.
 *
 * Collective over the ranks, and made by processes that are parked or have ended as well; before
 * MPI_Finalize. Contexts over the world are freed before it.
 *
 * @param[in] w A world; NULL is allowed and does nothing. Not valid any more afterwards, whatever is
 *              returned.
 * @retval QUO_SUCCESS          Done.
 * @retval QUO_ERR_INVLD_HANDLE w is no world, or was ended before.
 * @retval QUO_ERR_BUSY         Another thread is inside a call; nothing has changed.
 * @retval QUO_ERR_MPI          MPI failed.
 */
int
QUO_world_end(QUO_world w);

/**
 * What this process is to the world. Local.
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
 * How many ranks there are; for one who is none, as of the last resize it saw. Local.
 *
 * @param[in]  w        A world.
 * @param[out] out_size The number.
 */
int
QUO_world_size(QUO_world w,
               int *out_size);

/**
 * How many ranks there can be. Local.
 *
 * @param[in]  w        A world.
 * @param[out] out_most The number.
 */
int
QUO_world_capacity(QUO_world w,
                   int *out_most);

/**
 * Whether this process was started for a growth, and so ends when it leaves; launched ones are parked.
 * Local.
 *
 * @param[in]  w           A world.
 * @param[out] out_started 1 or 0.
 */
int
QUO_world_was_started(QUO_world w,
                      int *out_started);

/**
 * How many resizes have been committed. Local.
 *
 * @param[in]  w         A world.
 * @param[out] out_epoch The number.
 */
int
QUO_world_epoch(QUO_world w,
                long long *out_epoch);

/**
 * What the MPI can do for this world, and how that was found, in a line. Local.
 *
 * @param[in]  w        A world.
 * @param[out] out_text To be freed with free().
 */
int
QUO_world_back_end(QUO_world w,
                   char **out_text);

/**
 * The communicator of the world until the next commit. Local.
 *
 * Contexts made over it, or over a duplicate of it, go along with every resize: QUO_create() gives a
 * joiner those that the others have, in the order of their creation.
 *
 * @param[in]  w        A world.
 * @param[out] out_comm The world's still, not to be freed; MPI_COMM_NULL for one who is no rank.
 */
int
QUO_world_comm(QUO_world w,
               MPI_Comm *out_comm);

/**
 * Whether all ranks have come to a resize: QUO_world_begin() is next. Made by all ranks in the same
 * places of the program; nobody waits for the progress of another in it.
 *
 * @param[in]  w          A world.
 * @param[out] out_enters 1 or 0.
 * @retval QUO_ERR_MISPLACED This process is no rank, or in a resize.
 * @retval QUO_ERR           What the ranks are told cannot be read.
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
 * @retval QUO_ERR_MISPLACED This process is a rank.
 * @retval QUO_ERR_DEAD_MEMBER A process of this node has ended.
 */
int
QUO_world_wait(QUO_world w,
               int *out_joins);

/**
 * Says which iteration the program begins, for plans that count them. What rank 0 says counts. Local.
 *
 * @param[in] w      A world.
 * @param[in] number The iteration, not negative.
 */
int
QUO_world_report_iteration(QUO_world w,
                           long long number);

/**
 * Asks for another number of ranks. Local, on rank 0; answered at once. The resize comes at one of the
 * next probes.
 *
 * @param[in]  w           A world.
 * @param[in]  size        The number, at least 1.
 * @param[out] out_request The number of the request; NULL is allowed.
 * @retval QUO_ERR_REFUSED   It cannot be: QUO_last_error() says why.
 * @retval QUO_ERR_INVLD_ARG size is less than 1.
 * @retval QUO_ERR_MISPLACED This is not rank 0.
 */
int
QUO_world_request(QUO_world w,
                  int size,
                  long long *out_request);

/**
 * What has become of a request. Local, on rank 0.
 *
 * @param[in]  w         A world.
 * @param[in]  request   The number of a request.
 * @param[out] out_state One of #QUO_request_state_t.
 * @param[out] out_cause Why it has failed, to be freed with free(), empty if it has not; NULL is allowed.
 * @retval QUO_ERR_NOT_FOUND No such request is known, or it ended long ago.
 * @retval QUO_ERR_MISPLACED This is not rank 0.
 */
int
QUO_world_request_state(QUO_world w,
                        long long request,
                        int *out_state,
                        char **out_cause);

/** @} */
/** @name Resizes */
/** @{ */

/**
 * Opens the window in which data move. Collective over all who stay, leave or join.
 *
 * @param[in] w A world.
 * @retval QUO_ERR_MISPLACED No resize is pending, or one has begun.
 */
int
QUO_world_begin(QUO_world w);

/**
 * A communicator of the window. Local; #QUO_WINDOW_BETWEEN collective over everybody.
 *
 * @param[in]  w        A world.
 * @param[in]  which    One of #QUO_window_comm_t.
 * @param[out] out_comm Good until the commit and not to be freed; #QUO_WINDOW_BETWEEN is the caller's,
 *                      who frees it with MPI_Comm_free() before.
 * @retval QUO_ERR_MISPLACED No resize has begun.
 */
int
QUO_window_comm(QUO_world w,
                int which,
                MPI_Comm *out_comm);

/**
 * How many ranks stay, leave and join. Local. Each output may be NULL.
 *
 * @param[in]  w         A world.
 * @param[out] out_stay  How many stay.
 * @param[out] out_leave How many leave.
 * @param[out] out_join  How many join.
 * @retval QUO_ERR_MISPLACED No resize has begun.
 */
int
QUO_window_counts(QUO_world w,
                  int *out_stay,
                  int *out_leave,
                  int *out_join);

/**
 * Gives everybody the bytes that rank 0 has, such as the number of the step. Collective over everybody.
 *
 * @param[in]     w      A world.
 * @param[in,out] data   What rank 0 gives, and the others get.
 * @param[in]     length How many bytes, the same for all.
 * @retval QUO_ERR_DISAGREE  Rank 0 gives another number of bytes; nothing is written.
 * @retval QUO_ERR_MISPLACED No resize has begun.
 */
int
QUO_window_tell(QUO_world w,
                void *data,
                size_t length);

/**
 * Moves all arrays now; the commit does it otherwise. They lie on the new ranks with the commit, and until
 * then where they were. Collective over everybody.
 *
 * @param[in] w A world.
 * @retval QUO_ERR_DISAGREE  Ranks have registered different things; the resize can only be given up.
 * @retval QUO_ERR           A rank could not do its part; likewise.
 * @retval QUO_ERR_MISPLACED No resize has begun, or arrays have been moved in it.
 */
int
QUO_window_move(QUO_world w);

/**
 * Ends the resize: the world is the new one if everybody commits. Arrays are moved and contexts adapted.
 * Collective over everybody, with QUO_world_abort() for those who do not want it.
 *
 * @param[in] w A world.
 * @retval QUO_SUCCESS       The world is the new one. Leavers are parked, or have ended if they were
 *                           started.
 * @retval QUO_ERR_GIVEN_UP  Somebody does not want it: the same on all. The world is what it was.
 * @retval QUO_ERR_MISPLACED No resize has begun.
 */
int
QUO_world_commit(QUO_world w);

/**
 * Gives the resize up, on all: the world is what it was. Collective over everybody, as QUO_world_commit().
 *
 * @param[in] w      A world.
 * @param[in] reason What the others are told; NULL is allowed.
 * @retval QUO_SUCCESS       The world is what it was.
 * @retval QUO_ERR_MISPLACED No resize has begun.
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
 * @param[in] spec How it is dealt out.
 * @retval QUO_ERR_INVLD_ARG There is one of that name, or it cannot lie on the ranks like that.
 * @retval QUO_ERR_OOR       No memory is left.
 * @retval QUO_ERR_MISPLACED This process is no rank, or in a resize.
 */
int
QUO_world_array_add(QUO_world w,
                    const char *name,
                    const QUO_array_spec_t *spec);

/**
 * This rank's part of an array. Local.
 *
 * @param[in]  w           A world.
 * @param[in]  name        The array.
 * @param[out] out_data    Where it is, until the next commit that succeeds, or its removal.
 * @param[out] out_rows    Its rows; NULL is allowed.
 * @param[out] out_columns Its columns, or the elements of a vector; NULL is allowed.
 * @retval QUO_ERR_NOT_FOUND There is no such array, or this process is no rank.
 */
int
QUO_world_array(QUO_world w,
                const char *name,
                void **out_data,
                size_t *out_rows,
                size_t *out_columns);

/**
 * Which element of the whole array a place in this rank's part is. Local.
 *
 * @param[in]  w          A world.
 * @param[in]  name       The array.
 * @param[in]  offset     The place, in elements.
 * @param[out] out_row    Its row; NULL is allowed.
 * @param[out] out_column Its column; NULL is allowed.
 * @retval QUO_ERR_INVLD_ARG This rank's part has no such place.
 * @retval QUO_ERR_NOT_FOUND There is no such array, or this process is no rank.
 */
int
QUO_world_array_origin(QUO_world w,
                       const char *name,
                       size_t offset,
                       size_t *out_row,
                       size_t *out_column);

/**
 * How an array is to be dealt out from the next resize on: the same elements, in another way. Local; made
 * alike by all ranks that have the array.
 *
 * @param[in] w    A world.
 * @param[in] name The array.
 * @param[in] spec How; its element is not looked at.
 * @retval QUO_ERR_INVLD_ARG Another number of elements, or not an array.
 * @retval QUO_ERR_NOT_FOUND There is no such array, or this process is no rank.
 */
int
QUO_world_array_lay_out(QUO_world w,
                        const char *name,
                        const QUO_array_spec_t *spec);

/**
 * Forgets an array or callbacks. Local; made alike by all, outside of resizes.
 *
 * @param[in] w    A world.
 * @param[in] name The array, or the callbacks.
 * @retval QUO_ERR_NOT_FOUND There is none of that name.
 */
int
QUO_world_array_remove(QUO_world w,
                       const char *name);

/**
 * Has data of the program's own kind moved by it. Local; made alike by all processes that can be ranks,
 * also by those that are none yet.
 *
 * @param[in] w         A world.
 * @param[in] name      A name that no other array or callback has.
 * @param[in] callbacks Called in the moves of resizes until QUO_world_array_remove().
 * @retval QUO_ERR_INVLD_ARG There is one of that name.
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
 * @param[in] length   How many.
 * @retval QUO_ERR_MISPLACED Not inside such a callback.
 */
int
QUO_carry_give(int new_rank,
               const void *data,
               size_t length);

/**
 * What the last committed move of arrays has moved. Local.
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
/** @name For Fortran */
/** @{ */

/** As QUO_adapt(), for Fortran's handles. */
int
QUO_adapt_f2c(QUO_t *q,
              MPI_Fint comm);

/** As QUO_world_comm(), for Fortran's handles. */
int
QUO_world_comm_f2c(QUO_world w,
                   MPI_Fint *out_comm);

/** As QUO_window_comm(), for Fortran's handles. */
int
QUO_window_comm_f2c(QUO_world w,
                    int which,
                    MPI_Fint *out_comm);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
