/* Calls a libquo that was built for the MPI of this program (`which_mpi works`) or for another one
 * (`which_mpi refused`). Every rank prints one line, which begins with `ok` if all results are right. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "quo.h"

/* The standard's binary interface has other names for Fortran's handles. */
#if defined(MPI_ABI_VERSION) && MPI_ABI_VERSION > 0
#define TO_FORTRAN MPI_Comm_toint
#define FROM_FORTRAN MPI_Comm_fromint
#else
#define TO_FORTRAN MPI_Comm_c2f
#define FROM_FORTRAN MPI_Comm_f2c
#endif

static int failures;

static void
expect(const char *call, int is, int should_be)
{
    if (is == should_be) return;
    ++failures;
    printf("%s returned %d, not %d: %s\n", call, is, should_be, QUO_last_error());
}

static QUO_context
dirty(void)
{
    static int object;
    return (QUO_context)(void *)&object;
}

/* Each entry that takes a communicator. */
static void
refused(void)
{
    const int refusal = QUO_ERR_NOT_SUPPORTED;
    const QUO_fint_t fortran = TO_FORTRAN(MPI_COMM_WORLD);
    QUO_context q = dirty();
    expect("QUO_create", QUO_create(&q, MPI_COMM_WORLD), refusal);
    if (NULL != q) expect("a handle after a refusal", 1, 0);
    expect("QUO_create", QUO_create(&q, MPI_COMM_NULL), refusal);
    expect("QUO_create_with_flags", QUO_create_with_flags(&q, MPI_COMM_SELF, QUO_CREATE_NO_MT), refusal);
    expect("QUO_create_with_options", QUO_create_with_options(&q, MPI_COMM_WORLD, NULL), refusal);
    q = dirty();
    expect("QUO_create_f2c", QUO_create_f2c(&q, fortran), refusal);
    if (NULL != q) expect("a handle after a refusal", 1, 0);
    expect("QUO_create_with_flags_f2c", QUO_create_with_flags_f2c(&q, fortran, 0), refusal);
    expect("QUO_free", QUO_free(NULL), QUO_SUCCESS);
}

/* The communicator as a whole register: where it is an int, with garbage in the upper half. */
typedef int create_by_register(QUO_context *, uint64_t);

static void
works(void)
{
    create_by_register *by_register = (create_by_register *)(void (*)(void))QUO_create;
    uint64_t word = 0;
    MPI_Comm world = MPI_COMM_WORLD, part = MPI_COMM_NULL;
    QUO_fint_t fortran = 0;
    QUO_context q = NULL;
    int size = 0, ranks = 0, count = -1, same = MPI_UNEQUAL;

    memcpy(&word, &world, sizeof world);
    if (sizeof world < sizeof word) word |= UINT64_C(0xdeadbeef00000000);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    expect("QUO_create", by_register(&q, word), QUO_SUCCESS);
    expect("QUO_nqids", QUO_nqids(q, &ranks), QUO_SUCCESS);
    expect("the number of ranks", ranks, size);
    expect("QUO_get_mpi_comm_by_type", QUO_get_mpi_comm_by_type(q, QUO_OBJ_MACHINE, &part), QUO_SUCCESS);
    MPI_Comm_size(part, &count);
    expect("the ranks of the machine", count, size);
    MPI_Comm_free(&part);
    expect("QUO_get_mpi_comm_by_type_f2c", QUO_get_mpi_comm_by_type_f2c(q, QUO_OBJ_MACHINE, &fortran),
           QUO_SUCCESS);
    part = FROM_FORTRAN(fortran);
    MPI_Comm_compare(part, MPI_COMM_WORLD, &same);
    expect("as many in Fortran's", MPI_CONGRUENT == same || MPI_SIMILAR == same, 1);
    expect("QUO_barrier", QUO_barrier(q), QUO_SUCCESS);
    expect("QUO_free", QUO_free(q), QUO_SUCCESS);
    expect("QUO_create_f2c", QUO_create_f2c(&q, TO_FORTRAN(part)), QUO_SUCCESS);
    expect("QUO_free", QUO_free(q), QUO_SUCCESS);
    MPI_Comm_free(&part);
    expect("QUO_create", QUO_create(&q, MPI_COMM_NULL), QUO_ERR_INVLD_ARG);
}

int
main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 1 && 0 == strcmp(argv[1], "works")) {
        char version[MPI_MAX_LIBRARY_VERSION_STRING];
        int length = 0;
        MPI_Get_library_version(version, &length);
        works();
        printf("%s works with %.*s\n", 0 == failures ? "ok" : "bad", (int)strcspn(version, "\n"), version);
    }
    else {
        QUO_context q = NULL;
        refused();
        QUO_create(&q, MPI_COMM_WORLD);
        printf("%s %s\n", 0 == failures ? "ok" : "bad", QUO_last_error());
    }
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0 == failures ? 0 : 1;
}
