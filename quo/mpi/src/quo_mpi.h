/* Interface of the MPI layer. mpi.c defines it and raw.rs declares it again: keep the three in step.
 *
 * A communicator is passed as a word of 64 bits, whatever its C type (an int in MPICH, a pointer in Open MPI);
 * only mpi.c knows the type. Functions that return an undocumented `int` return MPI's code, 0 for success. */
#ifndef QUO_MPI_LAYER_H
#define QUO_MPI_LAYER_H

#include <stddef.h>
#include <stdint.h>

/* A non-blocking operation. MPI writes into it until it has completed, so an abandoned operation is never freed. */
typedef struct quo_mpi_operation quo_mpi_operation;

/* The MPI whose header this was compiled with, one of QUO_MPI_*, and its version. */
enum {
    QUO_MPI_OTHER = 0,
    QUO_MPI_OPEN_MPI = 1,
    QUO_MPI_MPICH = 2,
    QUO_MPI_INTEL = 3,
    QUO_MPI_MVAPICH = 4,
    QUO_MPI_CRAY = 5,
    QUO_MPI_STANDARD = 6
};
int quo_mpi_built_family(void);
const char *quo_mpi_built_version(void);

/* Version text of the running MPI; `text` has room for that of any MPI, not only the header's. The file
 * that provides the call. Nonzero if it offers MPI 5's binary interface in the version of the header. */
int quo_mpi_library_version(char *text);
void quo_mpi_library_file(char *text, size_t bytes);
int quo_mpi_offers_standard(void);

/* Nonzero if MPI has been initialised, or finalised. May be called at any time. */
int quo_mpi_is_initialized(void);
int quo_mpi_is_finalized(void);

/* Writes the text of a code to `text`, which has at least quo_mpi_text_length() bytes; returns its length. */
int quo_mpi_text_length(void);
int quo_mpi_error_text(int code, char *text);

/* Size of the MPI's handle, in bytes. */
int quo_mpi_handle_size(void);

/* MPI_UNDEFINED. */
int quo_mpi_undefined(void);

/* The word of the null communicator, and a test for it, which ignores the bits beyond the handle. */
uint64_t quo_mpi_comm_null(void);
int quo_mpi_is_comm_null(uint64_t comm);

int quo_mpi_comm_test_inter(uint64_t comm, int *inter);
int quo_mpi_comm_rank(uint64_t comm, int *rank);
int quo_mpi_comm_size(uint64_t comm, int *size);

/* Makes errors on it return from now on, or end the job, which is MPI's default. */
int quo_mpi_comm_let_errors_return(uint64_t comm);
int quo_mpi_comm_let_errors_end(uint64_t comm);

/* Splits a communicator; a negative colour means no part. */
int quo_mpi_comm_split(uint64_t comm, int colour, int key, uint64_t *part);
int quo_mpi_comm_free(uint64_t comm);

/* Start operations. The buffers belong to MPI until the operation has completed. */
int quo_mpi_comm_idup(uint64_t comm, quo_mpi_operation **operation);
int quo_mpi_igather(uint64_t comm, const void *mine, void *all, int bytes, quo_mpi_operation **operation);
/* Sets `own` to the sum of what all ranks have in `marks` for this rank; `marks` has a number for each rank. */
int quo_mpi_icount(uint64_t comm, const int *marks, int *own, quo_mpi_operation **operation);
/* Sets each number of `all` to the smallest one of all ranks. */
int quo_mpi_imin(uint64_t comm, const int64_t *mine, int64_t *all, int count, quo_mpi_operation **operation);

int quo_mpi_test(quo_mpi_operation *operation, int *done);

/* Frees a completed operation; returns the communicator of a duplication, otherwise null. */
uint64_t quo_mpi_operation_end(quo_mpi_operation *operation);

int quo_mpi_gatherv(uint64_t comm, const void *mine, int bytes, void *all, const int *counts, const int *starts);
int quo_mpi_barrier(uint64_t comm);

/* Returns the word of a Fortran handle, which is itself passed in a word. */
uint64_t quo_mpi_comm_from_fortran(uint64_t fortran);

/* Read an MPI_Comm of the caller's, write one, and write its number for Fortran to an MPI_Fint. */
uint64_t quo_mpi_load_comm(const void *place);
void quo_mpi_store_comm(uint64_t comm, void *place);
void quo_mpi_store_fortran(uint64_t comm, void *place);

/* Start messages; the buffers belong to MPI until the operations have completed. */
int quo_mpi_isend(uint64_t comm, const void *bytes, int count, int to, int tag, quo_mpi_operation **operation);
int quo_mpi_irecv(uint64_t comm, void *bytes, int count, int from, int tag, quo_mpi_operation **operation);
/* Sets `from` to the sender of a message of this tag that may be received; to -1 if there is none. */
int quo_mpi_iprobe(uint64_t comm, int tag, int *from);
int quo_mpi_ibarrier(uint64_t comm, quo_mpi_operation **operation);
int quo_mpi_ibcast(uint64_t comm, void *bytes, int count, int root, quo_mpi_operation **operation);

/* Membership (members.c). The rank in MPI_COMM_WORLD of each of the `count` ranks, negative if it is not in it. */
int quo_mpi_world_ranks(uint64_t comm, int count, int *ranks);
/* Creates a subset of a communicator, called only by its ranks, in the order of the list. */
int quo_mpi_comm_part(uint64_t comm, const int *ranks, int count, int tag, uint64_t *part);
/* Connects two groups through `peer`, where `other` is the rank of the other side's leader. */
int quo_mpi_intercomm(uint64_t local, int leader, uint64_t peer, int other, int tag, uint64_t *inter);
int quo_mpi_merge(uint64_t inter, int high, uint64_t *merged);
int quo_mpi_comm_remote_size(uint64_t inter, int *size);
int quo_mpi_comm_disconnect(uint64_t comm);
/* MPI_COMM_SELF's duplicate, errors return. */
int quo_mpi_comm_self(uint64_t *self);
/* The intercommunicator to the parents of this process, null if it was launched. */
int quo_mpi_parent(uint64_t *parent);
int quo_mpi_spawn(uint64_t self, const char *command, char **arguments, int count, const char *const *keys,
    const char *const *values, int pairs, uint64_t *inter);
int quo_mpi_port_length(void);
int quo_mpi_open_port(char *port);
int quo_mpi_close_port(const char *port);
int quo_mpi_accept(const char *port, uint64_t local, uint64_t *inter);
int quo_mpi_connect(const char *port, uint64_t local, uint64_t *inter);
/* MPI_UNIVERSE_SIZE, or -1 if it is not set. */
int quo_mpi_universe(int *size);
/* The thread level with which MPI was initialised: 0 single, 1 funneled, 2 serialized, 3 multiple. */
int quo_mpi_thread_level(int *level);
/* A word of 64 bits that duplicates of the communicator inherit; 0 if there is none. */
int quo_mpi_mark(uint64_t comm, uint64_t mark);
uint64_t quo_mpi_marked(uint64_t comm);

/* For the project's own programs. */
int quo_mpi_init_threads(int level);
int quo_mpi_init(void);
int quo_mpi_finalize(void);
uint64_t quo_mpi_comm_world(void);

/* Calls a function when MPI_Finalize begins; once per process. */
int quo_mpi_at_finalize(void (*call)(void));

/* Ends all processes of the job with a status. */
void quo_mpi_abort(int status);

#endif
