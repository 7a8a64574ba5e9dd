/* Memory operations that the interpreter requests from the objects of a program, and these objects. */
#ifndef ORDERS_H
#define ORDERS_H

#include <stddef.h>
#include <stdint.h>

/* Ways to get memory. */
enum kind {
    KIND_MALLOC,
    KIND_CALLOC,
    KIND_REALLOC_NULL, /* realloc(NULL, n) */
    KIND_REALLOCARRAY,
    KIND_MEMALIGN,
    KIND_ALIGNED_ALLOC,
    KIND_POSIX_MEMALIGN,
    KIND_VALLOC,
    KIND_PVALLOC,
    KIND_STRDUP,  /* libc allocates for its caller */
    KIND_STRNDUP,
    KIND_UNTAGGED, /* __libc_malloc: passes the ledger by, and free must let it pass too */
    KIND_NEW,
    KIND_NEW_ARRAY,
    KIND_NEW_ALIGNED,
    KIND_NEW_NOTHROW,
    KIND_MAP,        /* private, anonymous */
    KIND_MAP_SHARED, /* shared, anonymous */
    KIND_MEMFD,
    KIND_SHM_OPEN,
    KIND_SYSV,
    KIND_HUGE, /* hugetlb */
    KIND_COUNT
};

#define KIND_IS_HEAP(kind) ((kind) <= KIND_NEW_NOTHROW)
#define KIND_IS_NEW(kind) ((kind) >= KIND_NEW && (kind) <= KIND_NEW_NOTHROW)
#define KIND_IS_NEUTRAL(kind) ((kind) == KIND_STRDUP || (kind) == KIND_STRNDUP)
#define KIND_IS_SHARED(kind) ((kind) >= KIND_MAP_SHARED && (kind) <= KIND_SYSV)

/* Actions. */
enum act {
    ACT_GET,
    ACT_GIVE_BACK,
    ACT_RESIZE,    /* realloc, mremap */
    ACT_UNMAP,     /* a part of a mapping */
    ACT_REPLACE,   /* mmap(MAP_FIXED) over a part of a mapping */
    ACT_FAIL,      /* calls that must fail and change nothing */
    ACT_THROW,     /* C++: leave everything between here and the catch */
    ACT_JUMP       /* the same by longjmp */
};

struct order {
    int act;
    int kind;
    size_t size;
    size_t alignment; /* a power of two */
    void *pointer;    /* in and out */
    size_t length;    /* bytes of the block at `pointer` */
    int failed;
};

#ifdef __cplusplus
extern "C" {
#endif

typedef void carry_out_function(struct order *order);

/* One in each object, which the profiler sees as the caller. */
void part_carry_out(struct order *order);    /* libpart.so: only the program needs it */
void both_carry_out(struct order *order);    /* libboth.so: the program and the MPI need it */
void dep_carry_out(struct order *order);     /* libfakempi_dep.so: only the MPI needs it, C++ */
void dep_both_carry_out(struct order *order); /* libboth.so, called from there */
void plugin_carry_out(struct order *order);  /* the plugins export this name; found with dlsym */

#ifdef __cplusplus
}
#endif

#endif
