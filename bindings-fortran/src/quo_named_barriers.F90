!> Named barriers: several independent ones per node.
module quo_named_barriers
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_loc, c_null_ptr, c_ptr
  use quo_c, only: c_named_barrier_create, c_named_barrier_free, c_named_barrier_wait, &
    c_named_barrier_wait_timed
  use quo_text, only: out_of_memory, to_c
  implicit none
  private

  public :: quo_named_barrier_create, quo_named_barrier_free, quo_named_barrier_wait, &
    quo_named_barrier_wait_timed

  !> Makes, or opens, a barrier among the ranks of the node or some of them.
  interface quo_named_barrier_create
    module procedure create_among_all
    module procedure create_among_some
  end interface quo_named_barrier_create

contains

  !> Makes, or opens, a barrier among all ranks of the node. Collective over the node.
  subroutine create_among_all(q, name, barrier, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> 1 to 63 bytes, the same on every member; blanks at the end do not count.
    character(len=*, kind=c_char), intent(in) :: name
    !> The barrier, to be freed with [[quo_named_barrier_free]].
    type(c_ptr), intent(out) :: barrier
    !> `QUO_ERR_INVLD_ARG` when the name is empty or too long, `QUO_ERR_OOR` when no barrier is left
    !> in the context.
    integer(c_int), intent(out) :: ierr
    call create(q, name, c_null_ptr, 0_c_int, barrier, ierr)
  end subroutine create_among_all

  !> Makes, or opens, a barrier among some ranks of the node. Collective over the named qids.
  subroutine create_among_some(q, name, qids, barrier, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> 1 to 63 bytes, the same on every member; blanks at the end do not count.
    character(len=*, kind=c_char), intent(in) :: name
    !> The members, the caller among them.
    integer(c_int), contiguous, target, intent(in) :: qids(:)
    !> The barrier, to be freed with [[quo_named_barrier_free]].
    type(c_ptr), intent(out) :: barrier
    !> `QUO_ERR_INVLD_ARG` when the name is empty or too long, a qid is unknown or given twice, or
    !> the caller is not a member; `QUO_ERR_OOR` when no barrier is left in the context.
    integer(c_int), intent(out) :: ierr
    integer(c_int), target :: nobody(1)
    if (size(qids) > 0) then
      call create(q, name, c_loc(qids), size(qids, kind=c_int), barrier, ierr)
    else
      ! An empty list, not an absent one.
      call create(q, name, c_loc(nobody), 0_c_int, barrier, ierr)
    end if
  end subroutine create_among_some

  subroutine create(q, name, qids, nqids, barrier, ierr)
    type(c_ptr), intent(in) :: q
    character(len=*, kind=c_char), intent(in) :: name
    type(c_ptr), intent(in) :: qids
    integer(c_int), intent(in) :: nqids
    type(c_ptr), intent(out) :: barrier
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    barrier = c_null_ptr
    call to_c(name, bytes)
    if (allocated(bytes)) then
      ierr = c_named_barrier_create(q, bytes, qids, nqids, barrier)
    else
      ierr = out_of_memory()
    end if
  end subroutine create

  !> As `quo_barrier`, among the members. Collective over the members.
  subroutine quo_named_barrier_wait(barrier, ierr)
    !> A named barrier.
    type(c_ptr), value :: barrier
    !> As for `quo_barrier`.
    integer(c_int), intent(out) :: ierr
    ierr = c_named_barrier_wait(barrier)
  end subroutine quo_named_barrier_wait

  !> As `quo_barrier_timed`, among the members. Collective over the members.
  subroutine quo_named_barrier_wait_timed(barrier, seconds, ierr)
    !> A named barrier.
    type(c_ptr), value :: barrier
    !> Seconds to wait; 0 only looks whether everyone else is there.
    real(c_double), value :: seconds
    !> As for `quo_barrier_timed`.
    integer(c_int), intent(out) :: ierr
    ierr = c_named_barrier_wait_timed(barrier, seconds)
  end subroutine quo_named_barrier_wait_timed

  !> Frees the handle of a named barrier. Local.
  subroutine quo_named_barrier_free(barrier, ierr)
    !> A named barrier; `c_null_ptr` is allowed and does nothing.
    type(c_ptr), value :: barrier
    !> `QUO_ERR_INVLD_HANDLE` when it was freed before or is none, `QUO_ERR_BUSY` when another
    !> thread is inside a call on it.
    integer(c_int), intent(out) :: ierr
    ierr = c_named_barrier_free(barrier)
  end subroutine quo_named_barrier_free
end module quo_named_barriers
