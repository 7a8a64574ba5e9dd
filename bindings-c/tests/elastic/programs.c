/* Programs with mistakes, on two ranks of which one sleeps: each is refused with its number and words. */

#include <stdio.h>
#include <string.h>

#include "quo-program.h"

static int wrong = 0;

static void
check(int code, int right, const char *words)
{
    if (code == right && NULL != strstr(QUO_last_error(), words)) return;
    printf("%d with \"%s\" in place of %d with \"%s\"\n", code, QUO_last_error(), right, words);
    ++wrong;
}

static int rounds = 0;

static int
init(QUO_world w, int argc, char **argv, void **data)
{
    (void)w;
    (void)argc;
    (void)argv;
    *data = &rounds;
    return 0;
}

static int
compute(QUO_world w, void *data)
{
    int size;
    ++*(int *)data;
    return QUO_world_size(w, &size);
}

static int
fail(QUO_world w, void *data)
{
    (void)w;
    (void)data;
    return 7;
}

static int
once(void *data)
{
    (void)data;
    return 0;
}

static int
to_init(int position, void *data)
{
    (void)data;
    return position - position;
}

#define INIT {QUO_ELEMENT_INIT, "init", init, NULL, NULL, NULL, NULL}
#define ELASTIC {QUO_ELEMENT_ELASTIC, "elastic", NULL, compute, NULL, once, NULL}

int
main(int argc, char **argv)
{
    static const QUO_element_t no_init[] = {ELASTIC};
    static const QUO_element_t two_inits[] = {INIT, ELASTIC, INIT};
    static const QUO_element_t unknown[] = {INIT, {9, "odd", NULL, NULL, NULL, NULL, NULL}};
    static const QUO_element_t no_block[] = {INIT, {QUO_ELEMENT_RIGID, "empty", NULL, NULL, NULL, NULL, NULL}};
    static const QUO_element_t no_end[] = {INIT, {QUO_ELEMENT_ELASTIC, "x", NULL, compute, NULL, NULL, NULL}};
    static const QUO_element_t branch[] = {
        INIT, ELASTIC, {QUO_ELEMENT_BRANCH, "back", NULL, NULL, NULL, NULL, to_init}};
    static const QUO_element_t failing[] = {INIT, {QUO_ELEMENT_RIGID, "solve", NULL, fail, NULL, NULL, NULL}};
    static const QUO_element_t right[] = {INIT, ELASTIC};
    const QUO_program_t programs[] = {QUO_PROGRAM(no_init), QUO_PROGRAM(two_inits), QUO_PROGRAM(unknown),
        QUO_PROGRAM(no_block), QUO_PROGRAM(no_end), QUO_PROGRAM(branch), QUO_PROGRAM(failing), QUO_PROGRAM(right)};
    QUO_program_t other = programs[7];
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    int rank;

    /* Without MPI. */
    check(QUO_program_serial(NULL, 0, NULL), QUO_ERR_INVLD_ARG, "program is NULL");
    check(QUO_program_serial(&programs[5], 0, NULL), QUO_PROGRAM_BAD_BRANCH, "element 2 goes to 0");
    check(QUO_program_serial(&programs[6], 0, NULL), QUO_ERR_WORK_FAILED, "`solve`: its block compute returned 7");
    other.element = 8;
    check(QUO_program_serial(&other, 0, NULL), QUO_ERR_INVLD_ARG, "QUO_PROGRAM()");
    rounds = 0;
    if (QUO_SUCCESS != QUO_program_serial(&programs[7], 0, NULL) || 1 != rounds) ++wrong;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    options.initial_ranks = 1;
    check(QUO_program_run(&programs[0], &options, 0, NULL), QUO_PROGRAM_BAD_ELEMENT, "element 0: the first element");
    check(QUO_program_run(&programs[1], &options, 0, NULL), QUO_PROGRAM_BAD_ELEMENT, "element 2: INIT");
    check(QUO_program_run(&programs[2], &options, 0, NULL), QUO_PROGRAM_BAD_ELEMENT, "type 9");
    check(QUO_program_run(&programs[3], &options, 0, NULL), QUO_PROGRAM_BAD_ELEMENT, "block compute is NULL");
    check(QUO_program_run(&programs[4], &options, 0, NULL), QUO_PROGRAM_BAD_ELEMENT, "block again is NULL");
    /* Rank 0 gets the error of the branch, and the sleeping one is notified of the end. */
    int code = QUO_program_run(&programs[5], &options, 0, NULL);
    if (0 == rank) check(code, QUO_PROGRAM_BAD_BRANCH, "element 2 goes to 0");
    if (0 != rank && QUO_SUCCESS != code) ++wrong;
    rounds = 0;
    if (QUO_SUCCESS != QUO_program_run(&programs[7], &options, 0, NULL) || (0 == rank) != rounds) ++wrong;
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (0 == rank && 0 == wrong) printf("ok\n");
    return MPI_Finalize();
}
