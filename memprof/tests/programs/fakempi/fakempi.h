/* An MPI library that passes no messages: its calls carry out requests about memory. Names and
 * numbers of arguments are MPI's, since the profiler depends on them. */
#ifndef FAKEMPI_H
#define FAKEMPI_H

#include <stddef.h>

#include "orders.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *MPI_Comm;
typedef void *MPI_Datatype;
typedef void *MPI_Info;
typedef void *MPI_Op;
typedef void *MPI_Win;
typedef long MPI_Aint;
typedef void MPI_User_function(void *in, void *inout, int *count, MPI_Datatype *type);

#define MPI_COMM_WORLD NULL
#define MPI_INFO_NULL NULL
#define MPI_THREAD_MULTIPLE 3

int MPI_Init(int *argc, char ***argv);
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPI_Finalize(void);
/* In libfakempi.so. */
int MPI_Send(const void *order, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
/* In libfakempi_dep.so. */
int MPI_Recv(void *order, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, void *status);
/* In the plugin, which the first call loads. */
int MPI_Bcast(void *order, int count, MPI_Datatype type, int root, MPI_Comm comm);
/* In libboth.so. */
int MPI_Ssend(const void *order, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
/* In the thread that MPI_Init starts. */
int MPI_Rsend(const void *order, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
/* Whatever the function does: MPI calls it with `in` and `inout`. */
int MPI_Op_create(MPI_User_function *function, int commute, MPI_Op *op);
int MPI_Op_free(MPI_Op *op);
int MPI_Reduce_local(const void *in, void *inout, int count, MPI_Datatype type, MPI_Op op);
/* Sizes above 1 MiB are mapped, others are allocated by malloc. */
int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *baseptr);
int MPI_Free_mem(void *base);
int MPI_Win_allocate(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win);
int MPI_Win_free(MPI_Win *win);
/* Unloads the plugin. */
int MPI_T_finalize(void);
/* Does nothing: the profiler acts on its calls. */
int MPI_Pcontrol(const int level, ...);
/* Does nothing: for measurements. */
int MPI_Comm_rank(MPI_Comm comm, int *rank);

#ifdef __cplusplus
}
#endif

#endif
