/**
 * @file quo-program.h
 * Programs as arrays of elements, run by a driver over the elastic world: elastic-phase oriented programming
 * (EPOP). Since quo 0.1.
 *
 * Part of libquo. The rules of quo.h hold here. The driver owns the calls of the world: probe, wait, begin,
 * tell and commit. A joiner enters at the element of the other ranks.
 *
 * @code{.c}
 * static int init(QUO_world w, int argc, char **argv, void **data);  // arrays and data of a process
 * static int sweep(QUO_world w, void *data);                         // a round
 * static int tell_step(QUO_world w, void *data);                     // QUO_window_broadcast(w, ...)
 * static int again(void *data);                                      // not 0: another round
 *
 * static const QUO_element_t elements[] = {
 *     {QUO_ELEMENT_INIT, "init", init, NULL, NULL, NULL, NULL},
 *     {QUO_ELEMENT_ELASTIC, "sweep", NULL, sweep, tell_step, again, NULL},
 *     {QUO_ELEMENT_RIGID, "report", NULL, report, NULL, NULL, NULL},
 * };
 * const QUO_program_t QUO_program = QUO_PROGRAM(elements);
 *
 * int main(int argc, char **argv)  // or no main, and a shared object for `quo-elastic run`
 * {
 *     int code = QUO_program_main(&QUO_program, argc, argv);
 *     if (QUO_SUCCESS != code) fprintf(stderr, "%s\n", QUO_last_error());
 *     return QUO_SUCCESS != code;
 * }
 * @endcode
 */

#ifndef QUO_PROGRAM_H_INCLUDED
#define QUO_PROGRAM_H_INCLUDED

#include "quo-elastic.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Kind of an element. */
typedef enum {
    /** Makes the data of a process: the first element, and only that one. */
    QUO_ELEMENT_INIT = 0,
    /** A phase in which the ranks do not change. */
    QUO_ELEMENT_RIGID,
    /** A phase before each round of which the ranks may change. */
    QUO_ELEMENT_ELASTIC,
    /** Names the element that follows. */
    QUO_ELEMENT_BRANCH
} QUO_element_type_t;

/** Error numbers of a program, in addition to the codes of quo.h. */
enum {
    /** An element that a program cannot have. */
    QUO_PROGRAM_BAD_ELEMENT = -1,
    /** A branch to INIT, or to no element. */
    QUO_PROGRAM_BAD_BRANCH = -2
};

/** Makes the data of a process, which all other blocks get. Every process runs it once, even if it is parked or
    joins later; only processes with the status #QUO_WORLD_NEW add arrays. Nonzero: an error, which ends the program. */
typedef int (*QUO_block_init_t)(QUO_world w, int argc, char **argv, void **data);

/** A round of a phase, or the redistribution of an elastic one. Nonzero: an error, which ends the program in a round;
    in a redistribution it aborts the resize, and the program continues with the old ranks. */
typedef int (*QUO_block_t)(QUO_world w, void *data);

/** The loop condition of a phase, evaluated after each round, alike on all ranks. Nonzero: another round. */
typedef int (*QUO_block_again_t)(void *data);

/** Gets the position of its branch, and returns the next one, alike on all ranks. */
typedef int (*QUO_block_branch_t)(int position, void *data);

/** An element of a program. Blocks that its kind does not have are NULL. */
typedef struct QUO_element_t {
    /** One of #QUO_element_type_t. */
    int type;
    /** Its name in reports of memprof, in traces and errors; NULL: its position. */
    const char *name;
    /** Of #QUO_ELEMENT_INIT. */
    QUO_block_init_t init;
    /** Of phases. */
    QUO_block_t compute;
    /** Of #QUO_ELEMENT_ELASTIC, run by stayers, leavers and joiners between begin and commit: with
        QUO_window_broadcast() joiners learn what they need. Arrays of the world move automatically.
        NULL: nothing else is moved. */
    QUO_block_t redistribute;
    /** Of phases; NULL, only of #QUO_ELEMENT_RIGID: one round. */
    QUO_block_again_t again;
    /** Of #QUO_ELEMENT_BRANCH. */
    QUO_block_branch_t branch;
} QUO_element_t;

/** A program, the same in all processes. Made by #QUO_PROGRAM. Elements are not changed while it runs; positions
    count from 0, which is INIT. */
typedef struct QUO_program_t {
    /** sizeof(QUO_program_t), so that fields can be appended. */
    size_t size;
    /** sizeof(QUO_element_t). */
    size_t element;
    /** Number of elements. */
    size_t count;
    /** The elements. */
    const QUO_element_t *elements;
} QUO_program_t;

/** Initialiser: the program of an array of elements. */
#define QUO_PROGRAM(array)                                                                         \
    {                                                                                              \
        sizeof(QUO_program_t), sizeof(QUO_element_t), sizeof(array) / sizeof(QUO_element_t), array \
    }

/** @name Drivers */
/** @{ */

/**
 * Runs a program in an elastic world that is made with these options and has ended afterwards. Collective over all
 * processes that were launched together, after MPI has been initialised. The rounds of elastic phases are the iterations
 * of plans. Blocks may make all calls with the world but QUO_world_probe(), QUO_world_wait(), QUO_world_begin(),
 * QUO_world_commit(), QUO_world_abort() and QUO_world_end(), which are the driver's.
 *
 * After an error other than #QUO_PROGRAM_BAD_ELEMENT and #QUO_PROGRAM_BAD_BRANCH the other ranks may
 * continue: the process must end without MPI_Finalize().
 *
 * @param[in] program A program.
 * @param[in] options Options of the world; NULL: the defaults.
 * @param[in] argc    Given to INIT.
 * @param[in] argv    Given to INIT.
 * @retval QUO_PROGRAM_BAD_ELEMENT An element has an unknown type or lacks a block, or INIT is not the first one and the
 *                                 only one. Nothing was run.
 * @retval QUO_PROGRAM_BAD_BRANCH  A branch goes to INIT, or to no element. The world has ended.
 * @retval QUO_ERR_WORK_FAILED     A block returned an error.
 */
int
QUO_program_run(const QUO_program_t *program,
                const QUO_world_options_t *options,
                int argc,
                char **argv);

/**
 * Runs a program in this process alone, without MPI: one rank and no resizes. QUO_world_comm() gives
 * MPI_COMM_NULL. Local.
 *
 * @param[in] program A program.
 * @param[in] argc    Given to INIT.
 * @param[in] argv    Given to INIT.
 * @retval QUO_PROGRAM_BAD_ELEMENT As QUO_program_run().
 * @retval QUO_PROGRAM_BAD_BRANCH  As there.
 * @retval QUO_ERR_WORK_FAILED     As there.
 */
int
QUO_program_serial(const QUO_program_t *program,
                   int argc,
                   char **argv);

/**
 * Runs a program as its arguments say, from the initialisation of MPI to its end: the whole main function. Arguments
 * before "--" are the driver's, the rest is passed to INIT after the name of the program.
 *
 * - `--serial`: as QUO_program_serial(), without MPI;
 * - `--initial-ranks N`: ranks at first; `--max-ranks N`: ranks that there can be;
 *   `--oversubscribe`: more than there is room for;
 * - `--plan FILE`: a plan; `--name NAME`: the job has a control socket under this name; `--log FILE`: the events;
 * - `--trace FILE`: each process writes its actions to FILE with its number.
 *
 * @param[in] program A program.
 * @param[in] argc    Of main.
 * @param[in] argv    Of main.
 * @retval QUO_ERR_INVLD_ARG       A word is no option of the driver.
 * @retval QUO_PROGRAM_BAD_ELEMENT As QUO_program_run().
 * @retval QUO_PROGRAM_BAD_BRANCH  As there.
 * @retval QUO_ERR_WORK_FAILED     As there. MPI is not finalised then: the end of the process ends the job.
 */
int
QUO_program_main(const QUO_program_t *program,
                 int argc,
                 char **argv);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
