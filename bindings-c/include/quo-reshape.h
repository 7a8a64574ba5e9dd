/**
 * @file quo-reshape.h
 * Resize points: the calls of ReSHAPE over the elastic world. Since quo 0.1.
 *
 * Part of libquo. The rules of quo.h hold here. A program has one world of this kind, and no handle of it.
 * All functions have ReSHAPE's names as well, which are defined at the end.
 *
 * A process that leaves sleeps in QUO_reshape_resize() until it is called in again or the job is
 * over; processes that are no ranks at first sleep in QUO_reshape_init(). QUO_reshape_seat() says
 * which.
 *
 * @code{.c}
 * QUO_reshape_topology_t topology = QUO_RESHAPE_TOPOLOGY_INIT;
 * double *matrix = NULL;
 * size_t count = 0;
 * int seat, loop, d;
 * topology.kind = RESHAPE_RECTANGULAR;
 * topology.ndims = 2;
 * topology.dims[1] = 2;
 * reshape_Init(&topology);
 * reshape_getSeat(&seat);
 * if (RESHAPE_STAYS == seat) matrix = my_part(&count);
 * reshape_getIterCount(&loop);
 * while (loop < 400 && RESHAPE_ENDED != seat) {
 *     reshape_getSchedulerDecision(&d);
 *     if (REMAP_EXPAND == d) reshape_Redistribute2D((void **)&matrix, &count, 8, 200, 100, 10, 0);
 *     double begun = MPI_Wtime();
 *     iterate(matrix, count, RESHAPE_COMM_WORLD);
 *     if (0 == loop % 20) {
 *         reshape_ContactScheduler(MPI_Wtime() - begun, loop, &d);
 *         if (REMAP_SHRINK == d) reshape_Redistribute2D((void **)&matrix, &count, 8, 200, 100, 10, 0);
 *         reshape_Resize(d);
 *         reshape_getSeat(&seat);
 *         if (RESHAPE_JOINS == seat) {
 *             reshape_getIterCount(&loop);
 *             continue;
 *         }
 *     }
 *     ++loop;
 * }
 * reshape_Exit();
 * @endcode
 *
 * Source: dissertation of R. Sudarsan (Virginia Tech, 2009), sections 2.3 and 3.3. Differences:
 * the redistributions get the address of the pointer and of the count, since a rank's part changes its
 * size, and the bytes of an element in place of an MPI_Datatype. QUO_reshape_rearrange() gets the dimensions
 * of the arrangement in place of a communicator of the program.
 */

#ifndef QUO_RESHAPE_H_INCLUDED
#define QUO_RESHAPE_H_INCLUDED

#include "quo-elastic.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which numbers of processors are possible, and how they grow. */
typedef enum {
    /** Any number, which grows by increment. */
    QUO_RESHAPE_ARBITRARY = 0,
    /** A power of two, which doubles. */
    QUO_RESHAPE_POWER_OF_TWO,
    /** A grid of rows and columns; the smaller dimension grows. */
    QUO_RESHAPE_RECTANGULAR
} QUO_reshape_kind_t;

/** Next action of a program on its data. */
typedef enum {
    /** Nothing. */
    QUO_RESHAPE_CONTINUE = 0,
    /** The world has grown: redistribute to all. */
    QUO_RESHAPE_EXPAND,
    /** The world is going to shrink: redistribute to the stayers. */
    QUO_RESHAPE_SHRINK
} QUO_reshape_decision_t;

/** State of a process after QUO_reshape_init() or QUO_reshape_resize(). */
typedef enum {
    /** A rank, as before. */
    QUO_RESHAPE_STAYS = 0,
    /** A new rank: it continues with QUO_reshape_iteration(). */
    QUO_RESHAPE_JOINS,
    /** No longer a rank: the job is over. */
    QUO_RESHAPE_ENDED
} QUO_reshape_seat_t;

/** First arrangement of a program's processors. Start from #QUO_RESHAPE_TOPOLOGY_INIT. */
typedef struct QUO_reshape_topology_t {
    /** sizeof(QUO_reshape_topology_t), so that fields can be appended. */
    size_t size;
    /** One of #QUO_reshape_kind_t. */
    int kind;
    /** 1 or 2. */
    int ndims;
    /** Rows and columns, if ndims is 2. */
    int dims[2];
    /** Number of processors, if ndims is 1. */
    int total;
    /** Number by which #QUO_RESHAPE_ARBITRARY grows. */
    int increment;
} QUO_reshape_topology_t;

/** Initialiser: one processor, and any number. */
#define QUO_RESHAPE_TOPOLOGY_INIT                                                                  \
    {                                                                                              \
        sizeof(QUO_reshape_topology_t), QUO_RESHAPE_ARBITRARY, 1, {1, 1}, 1, 1                     \
    }

/** Returns how many processors the program should have, given its current number, the completed iteration, and
    the seconds that iterations took. Called on rank 0. */
typedef int (*QUO_reshape_scheduler_t)(void *data, int size, int iteration, double seconds);

/** Returns 1 if the program can work with this many rows and columns of processors, otherwise 0. */
typedef int (*QUO_reshape_valid_t)(void *data, int rows, int columns);

/** @name Resize points */
/** @{ */

/**
 * Makes the world with the topology's number of ranks, and a scheduler that grows it as long as that makes
 * iterations faster. Collective over all launched processes; processes that are no ranks sleep in
 * it.
 *
 * @param[in] topology Initial arrangement of the processors, the same everywhere.
 * @retval QUO_ERR_INVLD_ARG topology is NULL or impossible.
 * @retval QUO_ERR_REFUSED   There are fewer processes.
 * @retval QUO_ERR_STATE     The program already has a world. Other codes as QUO_world_create().
 */
int
QUO_reshape_init(const QUO_reshape_topology_t *topology);

/**
 * As QUO_reshape_init(), with options of the world and the program's own scheduler.
 *
 * @param[in] topology As there.
 * @param[in] options  NULL means #QUO_WORLD_OPTIONS_INIT; its initial_ranks is ignored.
 * @param[in] decide   NULL means the scheduler of QUO_reshape_init().
 * @param[in] data     Passed to it.
 */
int
QUO_reshape_init_with(const QUO_reshape_topology_t *topology,
                      const QUO_world_options_t *options,
                      QUO_reshape_scheduler_t decide,
                      void *data);

/**
 * Sets which arrangements the program can work with: others are not chosen, and a resize to one by
 * another request is aborted. Local, and the same on all ranks.
 *
 * @param[in] valid NULL: all.
 * @param[in] data  Passed to it.
 */
int
QUO_reshape_accept(QUO_reshape_valid_t valid,
                   void *data);

/**
 * Ends the program's world. All processes call it, before MPI_Finalize.
 *
 * @retval QUO_ERR_STATE The program has no world. Other codes as QUO_world_end().
 */
int
QUO_reshape_exit(void);

/**
 * A resize point: reports the time of each of the last iterations, and gets one decision on all
 * ranks. Collective.
 *
 * @param[in]  seconds      The time.
 * @param[in]  iteration    The iteration that is done.
 * @param[out] out_decision One of #QUO_reshape_decision_t.
 * @retval QUO_ERR_INVLD_ARG An argument is no time or number, or NULL.
 */
int
QUO_reshape_contact(double seconds,
                    int iteration,
                    int *out_decision);

/**
 * Carries out the decision: afterwards joiners are ranks, or leavers are parked. Without a decision nothing happens.
 * Collective.
 *
 * @param[in] decision The decision of the contact. Ignored: the library knows it.
 * @retval QUO_ERR_ABORTED A process refused: the ranks are the old ones, and data that have left
 *                          some of them are redistributed back where QUO_reshape_decision() returns
 *                          #QUO_RESHAPE_EXPAND.
 */
int
QUO_reshape_resize(int decision);

/**
 * Gives the state of this process. Local.
 *
 * @param[out] out_seat One of #QUO_reshape_seat_t.
 */
int
QUO_reshape_seat(int *out_seat);

/**
 * Gives the next action on data: #QUO_RESHAPE_EXPAND once after the world has grown, on all ranks.
 * Local.
 *
 * @param[out] out_decision One of #QUO_reshape_decision_t.
 */
int
QUO_reshape_decision(int *out_decision);

/**
 * Gives the next iteration: 0 at first, for joiners the one that the others begin. Local.
 *
 * @param[out] out_iteration The iteration.
 */
int
QUO_reshape_iteration(int *out_iteration);

/**
 * Gives the arrangement before the last resize; a line has one column. Local.
 *
 * @param[out] out_rows    Rows.
 * @param[out] out_columns Columns.
 */
int
QUO_reshape_old_dimensions(int *out_rows,
                           int *out_columns);

/**
 * Gives the current arrangement. Local.
 *
 * @param[out] out_rows    Rows.
 * @param[out] out_columns Columns.
 */
int
QUO_reshape_new_dimensions(int *out_rows,
                           int *out_columns);

/**
 * Arranges the current processors in another way. Local; on all ranks alike.
 *
 * @param[in] rows    Rows.
 * @param[in] columns Columns.
 * @retval QUO_ERR_INVLD_ARG Another number of processors.
 */
int
QUO_reshape_rearrange(int rows,
                      int columns);

/**
 * Returns the communicator of the current ranks. Local.
 *
 * @return The world's, until the next resize and not to be freed; MPI_COMM_NULL when there is none.
 */
MPI_Comm
QUO_reshape_world(void);

/** @} */
/** @name Data. Collective over the present ranks; after a decision to shrink from all to the
 * stayers, else from the old ranks to all. */
/** @{ */

/**
 * Moves a vector in blocks, distributed round robin.
 *
 * @param[in,out] data    This rank's part, from malloc(); another block afterwards. NULL for joiners.
 * @param[in,out] count   Number of elements there.
 * @param[in]     element Bytes of an element: 1, 2, 4, 8 or 16.
 * @param[in]     length  Elements of the whole vector.
 * @param[in]     block   Elements of a block.
 * @retval QUO_ERR_DISAGREE  A rank has a part of another length; all keep what they have.
 * @retval QUO_ERR_INVLD_ARG An argument is out of range or NULL. The others get QUO_ERR_DISAGREE.
 */
int
QUO_reshape_redistribute_1d(void **data,
                            size_t *count,
                            size_t element,
                            size_t length,
                            size_t block);

/** As QUO_reshape_redistribute_1d(), for a vector in one block for each rank. */
int
QUO_reshape_redistribute_uniform_block(void **data,
                                       size_t *count,
                                       size_t element,
                                       size_t length);

/**
 * As QUO_reshape_redistribute_1d(), for a matrix in square blocks over the grid of processors.
 *
 * @param[in,out] data    As there.
 * @param[in,out] count   As there.
 * @param[in]     element As there.
 * @param[in]     rows    Rows of the matrix.
 * @param[in]     columns Columns of it.
 * @param[in]     block   Rows, and columns, of a block.
 * @param[in]     storage One of #QUO_array_storage_t.
 */
int
QUO_reshape_redistribute_2d(void **data,
                            size_t *count,
                            size_t element,
                            size_t rows,
                            size_t columns,
                            size_t block,
                            int storage);

/** @} */

/** As QUO_reshape_world(), for Fortran's handles. */
int
QUO_reshape_world_f2c(QUO_fint_t *out_comm);

/* ReSHAPE's names. */

#define RESHAPE_COMM_WORLD (QUO_reshape_world())
#define RESHAPE_ARBITRARY QUO_RESHAPE_ARBITRARY
#define RESHAPE_POWER_OF_TWO QUO_RESHAPE_POWER_OF_TWO
#define RESHAPE_RECTANGULAR QUO_RESHAPE_RECTANGULAR
#define REMAP_CONTINUE QUO_RESHAPE_CONTINUE
#define REMAP_EXPAND QUO_RESHAPE_EXPAND
#define REMAP_SHRINK QUO_RESHAPE_SHRINK
#define RESHAPE_STAYS QUO_RESHAPE_STAYS
#define RESHAPE_JOINS QUO_RESHAPE_JOINS
#define RESHAPE_ENDED QUO_RESHAPE_ENDED
#define ProcessorTopology QUO_reshape_topology_t
#define reshape_Init QUO_reshape_init
#define reshape_InitWith QUO_reshape_init_with
#define reshape_Exit QUO_reshape_exit
#define reshape_ContactScheduler QUO_reshape_contact
#define reshape_Resize QUO_reshape_resize
#define reshape_Redistribute1D QUO_reshape_redistribute_1d
#define reshape_RedistributeUniformBlock QUO_reshape_redistribute_uniform_block
#define reshape_Redistribute2D QUO_reshape_redistribute_2d
#define reshape_setDimensions QUO_reshape_rearrange
#define reshape_getSeat QUO_reshape_seat
#define reshape_getSchedulerDecision QUO_reshape_decision
#define reshape_getIterCount QUO_reshape_iteration
#define reshape_getOldProcessorDimensions QUO_reshape_old_dimensions
#define reshape_getNewProcessorDimensions QUO_reshape_new_dimensions

#ifdef __cplusplus
}
#endif

#endif
