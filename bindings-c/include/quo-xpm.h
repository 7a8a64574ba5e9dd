/**
 * @file quo-xpm.h
 * Cross-process memory: one block per rank of the node, all mapped by all of them, without copies.
 *
 * The blocks lie behind each other in the order of the qids, without gaps, so that the data of
 * neighbouring ranks can be worked on as one array. The memory starts as zeros.
 *
 * The general rules of quo.h hold.
 */

#ifndef QUO_XPM_H_INCLUDED
#define QUO_XPM_H_INCLUDED

#include <stdlib.h>

#include "quo.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Cross-process memory; its contents are private. */
struct quo_xpm_t;
/** Short for struct quo_xpm_t. */
typedef struct quo_xpm_t quo_xpm_t;
/** Handle of cross-process memory. */
typedef quo_xpm_t *QUO_xpm_context;

/** A piece of cross-process memory as mapped in the calling process. */
typedef struct QUO_xpm_view_t {
    /** First byte. */
    void *base;
    /** Its length in bytes. */
    size_t extent;
} QUO_xpm_view_t;

/**
 * Allocates memory that all ranks of the node share.
 *
 * Collective over the node.
 *
 * @param[in]  qc         A context.
 * @param[in]  local_size Bytes of the caller's block; may differ between ranks, may be 0.
 * @param[out] new_xpm    The memory, to be freed with QUO_xpm_free(); NULL on failure.
 * @retval QUO_SUCCESS         Done.
 * @retval QUO_ERR_INVLD_ARG   A pointer is NULL.
 * @retval QUO_ERR_OOR         There is not that much shared memory.
 * @retval QUO_ERR_DEAD_MEMBER A rank of the node has ended.
 *
 * @code{.c}
 * QUO_xpm_context xpm = NULL;
 * QUO_xpm_view_t mine;
 * QUO_xpm_allocate(q, count * sizeof(double), &xpm);
 * QUO_xpm_view_local(xpm, &mine);
 * double *values = mine.base;
 * @endcode
 */
int
QUO_xpm_allocate(QUO_context qc,
                 size_t local_size,
                 QUO_xpm_context *new_xpm);

/**
 * As QUO_xpm_allocate(), among some ranks of the node only.
 *
 * Collective over the named qids.
 *
 * @param[in]  qc         A context.
 * @param[in]  qids       The ranks, the caller among them; the same on each of them.
 * @param[in]  nqids      How many.
 * @param[in]  local_size As for QUO_xpm_allocate().
 * @param[out] new_xpm    As for QUO_xpm_allocate().
 * @retval QUO_ERR_INVLD_ARG A qid is unknown or given twice, the caller is not among them, or a
 *                           pointer is NULL; otherwise as QUO_xpm_allocate().
 */
int
QUO_xpm_allocate_by_qids(QUO_context qc,
                         int *qids,
                         int nqids,
                         size_t local_size,
                         QUO_xpm_context *new_xpm);

/**
 * Unmaps the memory from the calling process. It is freed when the last rank has done so.
 *
 * Local. Views of it become invalid.
 *
 * @param[in] xpm The memory. NULL is allowed and does nothing.
 * @retval QUO_SUCCESS          Done.
 * @retval QUO_ERR_INVLD_HANDLE It was freed before or is not cross-process memory.
 */
int
QUO_xpm_free(QUO_xpm_context xpm);

/**
 * The caller's block. Local.
 *
 * @param[in]  xpm  The memory.
 * @param[out] view Where it is; base is NULL and extent 0 on failure.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG A pointer is NULL.
 */
int
QUO_xpm_view_local(QUO_xpm_context xpm,
                   QUO_xpm_view_t *view);

/**
 * The block of one rank. Local.
 *
 * @param[in]  xpm  The memory.
 * @param[in]  qid  One of the ranks that share the memory.
 * @param[out] view Where it is; base is NULL and extent 0 on failure.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG That rank does not share the memory, or a pointer is NULL.
 */
int
QUO_xpm_view_by_qid(QUO_xpm_context xpm,
                    int qid,
                    QUO_xpm_view_t *view);

/**
 * The blocks of a range of ranks, as one. Local.
 *
 * @param[in]  xpm       The memory.
 * @param[in]  qid_start The first rank.
 * @param[in]  qid_end   The last rank, included; not before the first.
 * @param[out] view      Where it is; base is NULL and extent 0 on failure.
 * @retval QUO_SUCCESS       Done.
 * @retval QUO_ERR_INVLD_ARG The range is reversed or names a rank that does not share the memory,
 *                           or a pointer is NULL.
 */
int
QUO_xpm_view_by_qid_range(QUO_xpm_context xpm,
                          int qid_start,
                          int qid_end,
                          QUO_xpm_view_t *view);

#ifdef __cplusplus
}
#endif

#endif
