/* QUO_get_mpi_comm_by_type: a communicator of the ranks that share an object, for every type. */
#include "check.h"

CHECK_CONTEXT(q)
{
    MPI_Comm comm = MPI_COMM_NULL;
    int nqids = check_nqids(q), qid = check_qid(q), size = 0, rank = 0, world = 0, result = 0;
    struct check_pus pus;

    MPI_Comm_size(MPI_COMM_WORLD, &world);
    pus = check_usable(q);

    CHECK_OK(QUO_get_mpi_comm_by_type(q, QUO_OBJ_MACHINE, &comm));
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    CHECK_INT(size, nqids);
    CHECK_INT(rank, qid);
    if (nqids == world) {
        MPI_Comm_compare(comm, MPI_COMM_WORLD, &result);
        CHECK_INT(result, MPI_CONGRUENT);
    }
    MPI_Comm_free(&comm);

    /* With each rank on a separate PU, the groups are those of the objects around the PUs. */
    CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_PU, pus.index[qid % pus.count]));
    for (int i = 0; i < CHECK_COUNT(check_types); ++i) {
        int home = -1, expected = 0, before = 0, *homes = NULL, out = 0;
        int count = check_nobjs(q, check_types[i]);
        MPI_Comm node = MPI_COMM_NULL;
        int nowhere = 0;
        for (int index = 0; index < count; ++index) {
            CHECK_OK(QUO_cpuset_in_type(q, check_types[i], index, &out));
            if (out) home = index;
        }
        /* A rank that is on no object of the type, because there is none or none around it. */
        MPI_Allreduce(&home, &nowhere, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (nowhere < 0) {
            CHECK_CODE_EVERYWHERE(QUO_get_mpi_comm_by_type(q, check_types[i], &comm),
                                  QUO_ERR_NOT_FOUND);
            continue;
        }
        CHECK_OK(QUO_get_mpi_comm_by_type(q, QUO_OBJ_MACHINE, &node));
        homes = calloc((size_t)nqids, sizeof(*homes));
        MPI_Allgather(&home, 1, MPI_INT, homes, 1, MPI_INT, node);
        MPI_Comm_free(&node);
        for (int other = 0; other < nqids; ++other) {
            if (homes[other] != home) continue;
            ++expected;
            if (other < qid) ++before;
        }
        free(homes);
        CHECK_OK(QUO_get_mpi_comm_by_type(q, check_types[i], &comm));
        MPI_Comm_size(comm, &size);
        MPI_Comm_rank(comm, &rank);
        CHECK_INT(size, expected);
        CHECK_INT(rank, before);
        MPI_Comm_free(&comm);
    }
    CHECK_OK(QUO_bind_pop(q));

    for (int i = 0; i < CHECK_COUNT(check_not_types); ++i) {
        CHECK_CODE_EVERYWHERE(
            QUO_get_mpi_comm_by_type(q, (QUO_obj_type_t)check_not_types[i], &comm),
            QUO_ERR_INVLD_ARG);
    }
    CHECK_CODE_EVERYWHERE(QUO_get_mpi_comm_by_type(q, QUO_OBJ_MACHINE, NULL), QUO_ERR_INVLD_ARG);
    if (world > 1) {
        CHECK_FAILS_EVERYWHERE(QUO_get_mpi_comm_by_type(
            q, 0 == check_rank ? QUO_OBJ_MACHINE : QUO_OBJ_PU, &comm));
        CHECK_FAILS_EVERYWHERE(QUO_get_mpi_comm_by_type(
            q, 0 == check_rank ? (QUO_obj_type_t)99 : QUO_OBJ_PU, &comm));
    }
    CHECK_REFUSES_BAD_HANDLES(QUO_get_mpi_comm_by_type(bad, QUO_OBJ_MACHINE, &comm));
}
