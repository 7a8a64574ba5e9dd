/* Words, handles and started operations, shared by the C files. */
#ifndef QUO_MPI_HANDLE_H
#define QUO_MPI_HANDLE_H

#include "quo_mpi.h"

#include <mpi.h>
#include <stdlib.h>

struct quo_mpi_operation {
    MPI_Request request;
    MPI_Comm duplicate;
};

_Static_assert(sizeof(MPI_Comm) <= sizeof(uint64_t), "a communicator fits into a word");

/* Only the handle's own bits count: if it is an int, the others are undefined when it is passed by value. */
static inline MPI_Comm handle(uint64_t word) { return (MPI_Comm)(intptr_t)word; }

static inline uint64_t word(MPI_Comm comm) { return (uint64_t)(intptr_t)comm; }

static inline quo_mpi_operation *quo_mpi_begin(void)
{
    quo_mpi_operation *operation = malloc(sizeof *operation);
    if (operation != NULL) {
        operation->request = MPI_REQUEST_NULL;
        operation->duplicate = MPI_COMM_NULL;
    }
    return operation;
}

/* Frees an operation that did not start. */
static inline int quo_mpi_begun(int code, quo_mpi_operation *operation, quo_mpi_operation **out)
{
    if (code != MPI_SUCCESS) {
        free(operation);
        operation = NULL;
    }
    *out = operation;
    return code;
}

#endif
