/* Included once by each object, so that the calls are made from the code of that object. The files
 * are compiled without tail calls and without knowledge of malloc. */
#ifndef CARRY_OUT_H
#define CARRY_OUT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "orders.h"

#ifdef __cplusplus
#include <new>
extern "C" void *__libc_malloc(size_t size);
#else
extern void *__libc_malloc(size_t size);
#endif

/* Longer than any requested string; in libboth.so, filled by the interpreter. */
#define STRING_LIMIT 65536
extern
#ifdef __cplusplus
    "C"
#endif
    char *the_string;

static void *carry_out_map_file(int file, size_t size)
{
    if (file < 0) return NULL;
    void *mapped = MAP_FAILED;
    if (ftruncate(file, (off_t)size) == 0)
        mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return mapped == MAP_FAILED ? NULL : mapped;
}

static void *carry_out_shm_open(size_t size)
{
    char name[64];
    static unsigned number;
    unsigned mine = __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED);
    snprintf(name, sizeof name, "/memprof-test-%d-%p-%u", (int)getpid(), (void *)&number, mine);
    int file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file >= 0) shm_unlink(name);
    return carry_out_map_file(file, size);
}

static void *carry_out_sysv(size_t size)
{
    int segment = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
    if (segment < 0) return NULL;
    void *mapped = shmat(segment, NULL, 0);
    shmctl(segment, IPC_RMID, NULL);
    return mapped == (void *)-1 ? NULL : mapped;
}

static void *carry_out_string(const struct order *order)
{
    /* size includes the terminating byte, and the string ends where its memory ends. */
    if (order->kind == KIND_STRNDUP) return strndup(the_string, order->size - 1);
    return strdup(the_string + STRING_LIMIT - order->size);
}

static void *carry_out_get(const struct order *order)
{
    size_t size = order->size;
    void *block = NULL;
    switch (order->kind) {
    case KIND_MALLOC: return malloc(size);
    case KIND_CALLOC: return size % 8 ? calloc(size, 1) : calloc(size / 8, 8);
    case KIND_REALLOC_NULL: return realloc(NULL, size);
    case KIND_REALLOCARRAY: return reallocarray(NULL, size, 1);
    case KIND_MEMALIGN: return memalign(order->alignment, size);
    case KIND_ALIGNED_ALLOC: return aligned_alloc(order->alignment, size);
    case KIND_POSIX_MEMALIGN:
        if (posix_memalign(&block, order->alignment < 8 ? 8 : order->alignment, size)) block = NULL;
        return block;
    case KIND_VALLOC: return valloc(size);
    case KIND_PVALLOC: return pvalloc(size);
    case KIND_STRDUP:
    case KIND_STRNDUP: return carry_out_string(order);
    case KIND_UNTAGGED: return __libc_malloc(size);
#ifdef __cplusplus
    case KIND_NEW: return ::operator new(size);
    case KIND_NEW_ARRAY: return ::operator new[](size);
    case KIND_NEW_ALIGNED: return ::operator new(size, std::align_val_t(order->alignment));
    case KIND_NEW_NOTHROW: return ::operator new(size, std::nothrow);
#endif
    case KIND_MAP:
    case KIND_MAP_SHARED:
    case KIND_HUGE: {
        int how = order->kind == KIND_MAP_SHARED ? MAP_SHARED : MAP_PRIVATE;
        if (order->kind == KIND_HUGE) how |= MAP_HUGETLB;
        block = mmap(NULL, size, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);
        return block == MAP_FAILED ? NULL : block;
    }
    case KIND_MEMFD: return carry_out_map_file(memfd_create("memprof-test", MFD_CLOEXEC), size);
    case KIND_SHM_OPEN: return carry_out_shm_open(size);
    case KIND_SYSV: return carry_out_sysv(size);
    default: return NULL;
    }
}

static void carry_out_give_back(const struct order *order)
{
    switch (order->kind) {
#ifdef __cplusplus
    case KIND_NEW: ::operator delete(order->pointer, order->length); return;
    case KIND_NEW_ARRAY: ::operator delete[](order->pointer); return;
    case KIND_NEW_ALIGNED:
        ::operator delete(order->pointer, std::align_val_t(order->alignment));
        return;
    case KIND_NEW_NOTHROW: ::operator delete(order->pointer, std::nothrow); return;
#endif
    case KIND_SYSV: shmdt(order->pointer); return;
    default:
        if (KIND_IS_HEAP(order->kind)) {
            errno = 77;
            free(order->pointer);
            if (errno != 77) abort(); /* glibc promises it since 2.33 */
        } else {
            munmap(order->pointer, order->length);
        }
    }
}

static void *carry_out_resize(const struct order *order)
{
    if (KIND_IS_HEAP(order->kind)) return realloc(order->pointer, order->size);
    void *moved = mremap(order->pointer, order->length, order->size, MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? NULL : moved;
}

/* None of this may succeed, and none of it may appear in a ledger. */
static int carry_out_failures(const struct order *order)
{
    void *block = NULL;
    volatile size_t huge = SIZE_MAX - order->size % 64;
    int wrong = 0;
    errno = 0;
    wrong |= (block = malloc(huge)) != NULL || errno != ENOMEM;
    free(block);
    wrong |= (block = malloc((size_t)PTRDIFF_MAX)) != NULL;
    free(block);
    wrong |= (block = calloc(huge / 2, 4)) != NULL;
    free(block);
    wrong |= (block = reallocarray(NULL, huge / 2, 4)) != NULL;
    free(block);
    wrong |= (block = memalign(64, huge)) != NULL;
    free(block);
    block = NULL;
    wrong |= posix_memalign(&block, 24, 100) != EINVAL || block != NULL;
    wrong |= posix_memalign(&block, 64, huge) != ENOMEM || block != NULL;
    wrong |= mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
    wrong |= munmap((void *)1, 4096) == 0;
    wrong |= shmdt((void *)&block) == 0;
    free(NULL);
    return wrong;
}

static void carry_out_order(struct order *order)
{
    switch (order->act) {
    case ACT_GET:
        order->pointer = carry_out_get(order);
        order->failed = order->pointer == NULL;
        break;
    case ACT_GIVE_BACK: carry_out_give_back(order); break;
    case ACT_RESIZE: {
        void *moved = carry_out_resize(order);
        order->failed = moved == NULL;
        if (moved) order->pointer = moved;
        break;
    }
    case ACT_UNMAP: munmap(order->pointer, order->length); break;
    case ACT_REPLACE:
        order->failed = mmap(order->pointer, order->length, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED;
        break;
    case ACT_FAIL: order->failed = carry_out_failures(order); break;
    default: order->failed = 1;
    }
}

#endif
