!> Cross-process memory: one block per rank of the node, all mapped by all of them, without copies.
!> The blocks lie behind each other in the order of the qids, without gaps, so that the data of
!> neighbouring ranks can be worked on as one array. The memory starts as zeros.
module quo_xpm
  use, intrinsic :: iso_c_binding, only: c_int, c_null_ptr, c_ptr, c_size_t
  use quo_c, only: c_xpm_allocate, c_xpm_allocate_by_qids, c_xpm_free
  implicit none
  private

  public :: quo_xpm_allocate, quo_xpm_allocate_by_qids, quo_xpm_free

contains

  !> Allocates memory that all ranks of the node share. Collective over the node.
  subroutine quo_xpm_allocate(qc, local_size, new_xpm, ierr)
    !> A context.
    type(c_ptr), value :: qc
    !> Bytes of the caller's block; may differ between ranks, may be 0. `storage_size(x) / 8` is
    !> what an element like `x` takes.
    integer(c_size_t), value :: local_size
    !> The memory, to be freed with [[quo_xpm_free]].
    type(c_ptr), intent(out) :: new_xpm
    !> `QUO_ERR_OOR` when there is not that much shared memory (a negative size is more than there
    !> is), `QUO_ERR_DEAD_MEMBER` when a rank of the node is gone.
    integer(c_int), intent(out) :: ierr
    new_xpm = c_null_ptr
    ierr = c_xpm_allocate(qc, local_size, new_xpm)
  end subroutine quo_xpm_allocate

  !> As [[quo_xpm_allocate]], among some ranks of the node only. Collective over the named qids.
  subroutine quo_xpm_allocate_by_qids(qc, qids, local_size, new_xpm, ierr)
    !> A context.
    type(c_ptr), value :: qc
    !> The ranks, the caller among them; the same on each of them.
    integer(c_int), contiguous, intent(in) :: qids(:)
    !> As for [[quo_xpm_allocate]].
    integer(c_size_t), value :: local_size
    !> As for [[quo_xpm_allocate]].
    type(c_ptr), intent(out) :: new_xpm
    !> `QUO_ERR_INVLD_ARG` when a qid is unknown or given twice or the caller is not among them;
    !> otherwise as [[quo_xpm_allocate]].
    integer(c_int), intent(out) :: ierr
    new_xpm = c_null_ptr
    ierr = c_xpm_allocate_by_qids(qc, qids, size(qids, kind=c_int), local_size, new_xpm)
  end subroutine quo_xpm_allocate_by_qids

  !> Unmaps the memory from the calling process. It is gone when the last rank has done so. Views of
  !> it must not be used any more. Local.
  subroutine quo_xpm_free(xpm, ierr)
    !> The memory; `c_null_ptr` is allowed and does nothing.
    type(c_ptr), value :: xpm
    !> `QUO_ERR_INVLD_HANDLE` when it was freed before or is none.
    integer(c_int), intent(out) :: ierr
    ierr = c_xpm_free(xpm)
  end subroutine quo_xpm_free
end module quo_xpm
