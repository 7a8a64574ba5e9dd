/* A sparse matrix in compressed rows goes from each number of ranks to each other one and back: `mpirun -n 4 compressed
 * --initial-ranks 1`. Each rank checks its values, columns and row pointers after each resize. */

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "quo-program.h"

enum { ROWS = 53, MOST = 64 };

static size_t index_of[ROWS + 1];

static struct walk {
    int next, asked;
    int count, sizes[MOST];
} walk;

static int
init(QUO_world w, int argc, char **argv, void **data)
{
    int status, most;
    void *values, *columns;
    (void)argc;
    (void)argv;
    *data = &walk;
    for (size_t row = 0; row < ROWS; ++row) index_of[row + 1] = index_of[row] + row * row % 7;
    if (QUO_world_status(w, &status) || QUO_world_capacity(w, &most)) return 1;
    for (int p = 2; p <= most; ++p) {
        walk.sizes[walk.count++] = p;
        for (int q = 1; q < p; ++q) {
            walk.sizes[walk.count++] = q;
            walk.sizes[walk.count++] = p;
        }
    }
    if (QUO_WORLD_NEW != status) return 0;
    size_t wrong[] = {0, 2, 1};
    if (QUO_ERR_INVLD_ARG != QUO_world_array_add_compressed(w, "wrong", 8, 2, wrong)) return 2;
    if (QUO_ERR_INVLD_ARG != QUO_world_array_add_compressed(w, "wrong", 8, 2, NULL)) return 2;
    if (QUO_world_array_add_compressed(w, "values", sizeof(double), ROWS, index_of)) return 1;
    if (QUO_world_array_add_compressed(w, "columns", sizeof(int), ROWS, index_of)) return 1;
    if (QUO_world_array(w, "values", &values, NULL, NULL)) return 1;
    if (QUO_world_array(w, "columns", &columns, NULL, NULL)) return 1;
    for (size_t at = 0; at < index_of[ROWS]; ++at) {
        ((double *)values)[at] = (double)at * 1.5;
        ((int *)columns)[at] = (int)(at * at % 101);
    }
    return 0;
}

static int
check(QUO_world w, int rank, int size)
{
    size_t first, lines, each = (ROWS + (size_t)size - 1) / (size_t)size, columns;
    const size_t *pointers;
    void *values, *places;
    if (QUO_world_array_lines(w, "values", &first, &lines, &pointers)) return 1;
    if (QUO_world_array(w, "values", &values, NULL, &columns) || QUO_world_array(w, "columns", &places, NULL, NULL)) return 1;
    size_t right = (size_t)rank * each < ROWS ? (size_t)rank * each : ROWS;
    if (first != right || first + lines > ROWS || pointers[lines] - pointers[0] != columns) return 2;
    if (memcmp(pointers, index_of + first, (lines + 1) * sizeof(size_t))) return 3;
    for (size_t at = pointers[0]; at < pointers[lines]; ++at) {
        size_t here = at - pointers[0];
        if (((double *)values)[here] != (double)at * 1.5 || ((int *)places)[here] != (int)(at * at % 101)) return 4;
    }
    return 0;
}

static int
go(QUO_world w, void *data)
{
    int rank, size;
    (void)data;
    if (QUO_world_rank(w, &rank) || QUO_world_size(w, &size)) return 1;
    if (size == walk.sizes[walk.next]) {
        ++walk.next;
        walk.asked = 0;
        return check(w, rank, size);
    }
    if (!walk.asked && 0 == rank && QUO_world_request(w, walk.sizes[walk.next], NULL)) return 1;
    walk.asked = 1;
    sched_yield();
    return 0;
}

static int
again(void *data)
{
    (void)data;
    return walk.next < walk.count;
}

static int
tell(QUO_world w, void *data)
{
    (void)data;
    return QUO_window_broadcast(w, &walk, 2 * sizeof(int));
}

static int
report(QUO_world w, void *data)
{
    int rank;
    (void)data;
    if (QUO_world_rank(w, &rank)) return 1;
    if (0 == rank) printf("ok\n");
    return 0;
}

int
main(int argc, char **argv)
{
    static const QUO_element_t elements[] = {
        {QUO_ELEMENT_INIT, "init", init, NULL, NULL, NULL, NULL},
        {QUO_ELEMENT_ELASTIC, "walk", NULL, go, tell, again, NULL},
        {QUO_ELEMENT_RIGID, "report", NULL, report, NULL, NULL, NULL},
    };
    const QUO_program_t program = QUO_PROGRAM(elements);
    int code = QUO_program_main(&program, argc, argv);
    if (QUO_SUCCESS != code) fprintf(stderr, "%d: %s\n", code, QUO_last_error());
    return QUO_SUCCESS != code;
}
