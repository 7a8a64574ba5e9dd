/* The one file of quo that is compiled against an MPI; see quo_mpi.h. It makes no decisions: it converts words to
 * handles and forwards the calls. */
#define _GNU_SOURCE /* dladdr */
#include "quo_mpi.h"

#include "handle.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x

/* A negative version in an MPI's own header means that it does not have the standard's binary interface. */
#if defined(MPI_ABI_VERSION) && MPI_ABI_VERSION > 0
#define IS_STANDARD 1
#else
#define IS_STANDARD 0
#endif

/* MPIs derived from MPICH define its macros too. Some versions are strings and some are bare numbers. */
#if IS_STANDARD
#define FAMILY QUO_MPI_STANDARD
#define VERSION TEXT(MPI_ABI_VERSION) "." TEXT(MPI_ABI_SUBVERSION)
#elif defined(I_MPI_VERSION)
#define FAMILY QUO_MPI_INTEL
#define VERSION I_MPI_VERSION
#elif defined(CRAY_MPICH_VERSION)
#define FAMILY QUO_MPI_CRAY
#define VERSION TEXT(CRAY_MPICH_VERSION)
#elif defined(MVAPICH2_VERSION)
#define FAMILY QUO_MPI_MVAPICH
#define VERSION MVAPICH2_VERSION
#elif defined(MVAPICH_VERSION)
#define FAMILY QUO_MPI_MVAPICH
#define VERSION MVAPICH_VERSION
#elif defined(MPICH_VERSION)
#define FAMILY QUO_MPI_MPICH
#define VERSION MPICH_VERSION
#elif defined(OPEN_MPI)
#define FAMILY QUO_MPI_OPEN_MPI
#define VERSION TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(OMPI_RELEASE_VERSION)
#else
#define FAMILY QUO_MPI_OTHER
#define VERSION "an MPI of version " TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION)
#endif

_Static_assert(MPI_SUCCESS == 0, "the layer takes 0 for success");
/* MPI 5's own binary interface leaves Fortran's integers to Fortran and converts handles to ints. */
#if IS_STANDARD
typedef int fortran_integer;
#define FROM_FORTRAN MPI_Comm_fromint
#define TO_FORTRAN MPI_Comm_toint
#else
typedef MPI_Fint fortran_integer;
#define FROM_FORTRAN MPI_Comm_f2c
#define TO_FORTRAN MPI_Comm_c2f
#endif

_Static_assert(sizeof(fortran_integer) <= sizeof(uint64_t), "an integer of Fortran fits into a word");

int quo_mpi_built_family(void) { return FAMILY; }

const char *quo_mpi_built_version(void) { return VERSION; }

int quo_mpi_library_version(char *text)
{
    int length = 0;
    text[0] = '\0';
    return MPI_Get_library_version(text, &length) == MPI_SUCCESS ? length : 0;
}

/* In ISO C, function pointers are not object pointers; POSIX allows copying them. */
#define FILE_OF(function, info) (memcpy(&(info).dli_saddr, &(function), sizeof(void *)), dladdr((info).dli_saddr, &(info)))

void quo_mpi_library_file(char *text, size_t bytes)
{
    Dl_info info = {0};
    int (*asked)(char *, int *) = MPI_Get_library_version;
    int found = FILE_OF(asked, info) != 0 && info.dli_fname != NULL;
    snprintf(text, bytes, "%s", found ? info.dli_fname : "");
}

int quo_mpi_offers_standard(void)
{
#if IS_STANDARD
    /* If the running MPI does not have the call, it may resolve to another library that does. */
    Dl_info runs = {0}, answers = {0};
    int (*run)(int *) = MPI_Initialized;
    int (*answer)(int *, int *) = MPI_Abi_get_version;
    int version = -1, subversion = -1;
    if (FILE_OF(run, runs) == 0 || FILE_OF(answer, answers) == 0 || runs.dli_fbase != answers.dli_fbase) return 0;
    return MPI_Abi_get_version(&version, &subversion) == MPI_SUCCESS && version == MPI_ABI_VERSION;
#else
    return 0;
#endif
}

int quo_mpi_is_initialized(void)
{
    int flag = 0;
    MPI_Initialized(&flag);
    return flag;
}

int quo_mpi_is_finalized(void)
{
    int flag = 0;
    MPI_Finalized(&flag);
    return flag;
}

int quo_mpi_text_length(void) { return MPI_MAX_ERROR_STRING + 1; }

int quo_mpi_error_text(int code, char *text)
{
    int length = 0;
    text[0] = '\0';
    return MPI_Error_string(code, text, &length) == MPI_SUCCESS ? length : 0;
}

int quo_mpi_handle_size(void) { return (int)sizeof(MPI_Comm); }

int quo_mpi_undefined(void) { return MPI_UNDEFINED; }

uint64_t quo_mpi_comm_null(void) { return word(MPI_COMM_NULL); }

int quo_mpi_is_comm_null(uint64_t comm) { return handle(comm) == MPI_COMM_NULL; }

int quo_mpi_comm_test_inter(uint64_t comm, int *inter) { return MPI_Comm_test_inter(handle(comm), inter); }

int quo_mpi_comm_rank(uint64_t comm, int *rank) { return MPI_Comm_rank(handle(comm), rank); }

int quo_mpi_comm_size(uint64_t comm, int *size) { return MPI_Comm_size(handle(comm), size); }

int quo_mpi_comm_let_errors_end(uint64_t comm) { return MPI_Comm_set_errhandler(handle(comm), MPI_ERRORS_ARE_FATAL); }

int quo_mpi_comm_let_errors_return(uint64_t comm) { return MPI_Comm_set_errhandler(handle(comm), MPI_ERRORS_RETURN); }

int quo_mpi_comm_split(uint64_t comm, int colour, int key, uint64_t *part)
{
    MPI_Comm made = MPI_COMM_NULL;
    int code = MPI_Comm_split(handle(comm), colour < 0 ? MPI_UNDEFINED : colour, key, &made);
    *part = word(made);
    return code;
}

int quo_mpi_comm_free(uint64_t comm)
{
    MPI_Comm freed = handle(comm);
    return MPI_Comm_free(&freed);
}

int quo_mpi_comm_idup(uint64_t comm, quo_mpi_operation **out)
{
    quo_mpi_operation *made = quo_mpi_begin();
    if (made == NULL) return MPI_ERR_NO_MEM;
    return quo_mpi_begun(MPI_Comm_idup(handle(comm), &made->duplicate, &made->request), made, out);
}

int quo_mpi_igather(uint64_t comm, const void *mine, void *all, int bytes, quo_mpi_operation **out)
{
    quo_mpi_operation *made = quo_mpi_begin();
    if (made == NULL) return MPI_ERR_NO_MEM;
    int code = MPI_Igather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, 0, handle(comm), &made->request);
    return quo_mpi_begun(code, made, out);
}

int quo_mpi_icount(uint64_t comm, const int *marks, int *own, quo_mpi_operation **out)
{
    quo_mpi_operation *made = quo_mpi_begin();
    if (made == NULL) return MPI_ERR_NO_MEM;
    int code = MPI_Ireduce_scatter_block(marks, own, 1, MPI_INT, MPI_SUM, handle(comm), &made->request);
    return quo_mpi_begun(code, made, out);
}

int quo_mpi_imin(uint64_t comm, const int64_t *mine, int64_t *all, int count, quo_mpi_operation **out)
{
    quo_mpi_operation *made = quo_mpi_begin();
    if (made == NULL) return MPI_ERR_NO_MEM;
    int code = MPI_Iallreduce(mine, all, count, MPI_INT64_T, MPI_MIN, handle(comm), &made->request);
    return quo_mpi_begun(code, made, out);
}

int quo_mpi_test(quo_mpi_operation *operation, int *done)
{
    return MPI_Test(&operation->request, done, MPI_STATUS_IGNORE);
}

uint64_t quo_mpi_operation_end(quo_mpi_operation *operation)
{
    uint64_t duplicate = word(operation->duplicate);
    free(operation);
    return duplicate;
}

int quo_mpi_gatherv(uint64_t comm, const void *mine, int bytes, void *all, const int *counts, const int *starts)
{
    return MPI_Gatherv(mine, bytes, MPI_BYTE, all, counts, starts, MPI_BYTE, 0, handle(comm));
}

int quo_mpi_barrier(uint64_t comm) { return MPI_Barrier(handle(comm)); }

uint64_t quo_mpi_comm_from_fortran(uint64_t fortran) { return word(FROM_FORTRAN((fortran_integer)fortran)); }

uint64_t quo_mpi_load_comm(const void *place) { return word(*(const MPI_Comm *)place); }

void quo_mpi_store_comm(uint64_t comm, void *place) { *(MPI_Comm *)place = handle(comm); }

void quo_mpi_store_fortran(uint64_t comm, void *place) { *(fortran_integer *)place = TO_FORTRAN(handle(comm)); }

int quo_mpi_isend(uint64_t comm, const void *bytes, int count, int to, int tag, quo_mpi_operation **out)
{
    quo_mpi_operation *made = quo_mpi_begin();
    if (made == NULL) return MPI_ERR_NO_MEM;
    return quo_mpi_begun(MPI_Isend(bytes, count, MPI_BYTE, to, tag, handle(comm), &made->request), made, out);
}

int quo_mpi_irecv(uint64_t comm, void *bytes, int count, int from, int tag, quo_mpi_operation **out)
{
    quo_mpi_operation *made = quo_mpi_begin();
    if (made == NULL) return MPI_ERR_NO_MEM;
    return quo_mpi_begun(MPI_Irecv(bytes, count, MPI_BYTE, from, tag, handle(comm), &made->request), made, out);
}

int quo_mpi_iprobe(uint64_t comm, int tag, int *from)
{
    int found = 0;
    MPI_Status status;
    int code = MPI_Iprobe(MPI_ANY_SOURCE, tag, handle(comm), &found, &status);
    *from = MPI_SUCCESS == code && found ? status.MPI_SOURCE : -1;
    return code;
}

int quo_mpi_ibarrier(uint64_t comm, quo_mpi_operation **out)
{
    quo_mpi_operation *made = quo_mpi_begin();
    if (made == NULL) return MPI_ERR_NO_MEM;
    return quo_mpi_begun(MPI_Ibarrier(handle(comm), &made->request), made, out);
}

int quo_mpi_ibcast(uint64_t comm, void *bytes, int count, int root, quo_mpi_operation **out)
{
    quo_mpi_operation *made = quo_mpi_begin();
    if (made == NULL) return MPI_ERR_NO_MEM;
    return quo_mpi_begun(MPI_Ibcast(bytes, count, MPI_BYTE, root, handle(comm), &made->request), made, out);
}

int quo_mpi_init(void) { return MPI_Init(NULL, NULL); }

int quo_mpi_finalize(void) { return MPI_Finalize(); }

uint64_t quo_mpi_comm_world(void) { return word(MPI_COMM_WORLD); }

/* Called when MPI_Finalize begins, before any part of MPI has ended. */
static void (*ending)(void);

static int call_ending(MPI_Comm comm, int key, void *value, void *state)
{
    (void)comm, (void)key, (void)value, (void)state;
    if (ending) ending();
    return MPI_SUCCESS;
}

int quo_mpi_at_finalize(void (*call)(void))
{
    int key = MPI_KEYVAL_INVALID;
    int code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, call_ending, &key, NULL);
    if (code != MPI_SUCCESS) return code;
    ending = call;
    code = MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    /* The attribute keeps the key. */
    MPI_Comm_free_keyval(&key);
    return code;
}

void quo_mpi_abort(int status) { MPI_Abort(MPI_COMM_WORLD, status); }
