/* QUO_create_f2c, QUO_create_with_flags_f2c, QUO_create_with_options_f2c,
 * QUO_get_mpi_comm_by_type_f2c, QUO_ptr_free. */
#include "check.h"

CHECK_PROGRAM
{
    QUO_create_options_t options = QUO_CREATE_OPTIONS_INIT;
    QUO_context q = NULL;
    MPI_Fint world = 0, handle = 0;
    MPI_Comm comm = MPI_COMM_NULL;
    int nqids = 0, size = 0;

    world = MPI_Comm_c2f(MPI_COMM_WORLD);

    CHECK_OK(QUO_create_with_flags_f2c(&q, world, QUO_CREATE_NO_MT));
    CHECK_INT(check_nobjs(q, QUO_OBJ_PU), check_nobjs(q, QUO_OBJ_CORE));
    CHECK_OK(QUO_free(q));
    CHECK_CODE_EVERYWHERE(QUO_create_with_flags_f2c(&q, world, 77), QUO_ERR_INVLD_ARG);
    CHECK(NULL == q);

    options.flags = QUO_CREATE_NO_MT;
    CHECK_OK(QUO_create_with_options_f2c(&q, world, &options));
    CHECK_INT(check_nobjs(q, QUO_OBJ_PU), check_nobjs(q, QUO_OBJ_CORE));
    CHECK_OK(QUO_free(q));
    CHECK_OK(QUO_create_with_options_f2c(&q, world, NULL));
    CHECK_OK(QUO_free(q));
    options.flags = 77;
    CHECK_CODE_EVERYWHERE(QUO_create_with_options_f2c(&q, world, &options), QUO_ERR_INVLD_ARG);
    CHECK(NULL == q);

    CHECK_OK(QUO_create_f2c(&q, world));
    CHECK_OK(QUO_nqids(q, &nqids));
    CHECK_OK(QUO_get_mpi_comm_by_type_f2c(q, QUO_OBJ_MACHINE, &handle));
    comm = MPI_Comm_f2c(handle);
    MPI_Comm_size(comm, &size);
    CHECK_INT(size, nqids);
    MPI_Comm_free(&comm);
    CHECK_CODE_EVERYWHERE(QUO_get_mpi_comm_by_type_f2c(q, (QUO_obj_type_t)99, &handle),
                          QUO_ERR_INVLD_ARG);
    CHECK_CODE_EVERYWHERE(QUO_get_mpi_comm_by_type_f2c(q, QUO_OBJ_MACHINE, NULL),
                          QUO_ERR_INVLD_ARG);
    CHECK_OK(QUO_free(q));

    CHECK_CODE(QUO_create_f2c(NULL, world), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_create_with_flags_f2c(NULL, world, 0), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_create_with_options_f2c(NULL, world, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_create_f2c(&q, MPI_Comm_c2f(MPI_COMM_NULL)), QUO_ERR_INVLD_ARG);
    CHECK_REFUSES_BAD_HANDLES(QUO_get_mpi_comm_by_type_f2c(bad, QUO_OBJ_MACHINE, &handle));

    CHECK_OK(QUO_ptr_free(malloc(16)));
    CHECK_OK(QUO_ptr_free(NULL));
}
