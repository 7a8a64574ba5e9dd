!> Members that come and go. All procedures are local.
module quo_members
  use, intrinsic :: iso_c_binding, only: c_int, c_null_ptr, c_ptr
  use quo_c, only: c_attach, c_dead_qids, c_detach, c_expel
  use quo_text, only: take_list
  implicit none
  private

  public :: quo_attach, quo_dead_qids, quo_detach, quo_expel

contains

  !> Leaves the barriers of the node: the others go on without the caller, and those who wait only
  !> for it are let go. What is collective over the node gives the caller `QUO_ERR_DETACHED` until
  !> [[quo_attach]]; named barriers have to be made again after that. Local.
  subroutine quo_detach(q, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> `QUO_SUCCESS_ALREADY_DONE` when the caller had detached before, `QUO_ERR_NOT_SUPPORTED` when
    !> the context waits with `QUO_WAIT_PTHREAD`.
    integer(c_int), intent(out) :: ierr
    ierr = c_detach(q)
  end subroutine quo_detach

  !> Comes back after [[quo_detach]]: from the next barrier on the others wait for the caller again.
  !> Agree with the others when to come back, for example by a message. Local.
  subroutine quo_attach(q, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> `QUO_SUCCESS_ALREADY_DONE` when the caller is attached, `QUO_ERR_NOT_SUPPORTED` when the
    !> context waits with `QUO_WAIT_PTHREAD`.
    integer(c_int), intent(out) :: ierr
    ierr = c_attach(q)
  end subroutine quo_attach

  !> Lists the ranks of the node that ended without freeing the context. Local.
  subroutine quo_dead_qids(q, qids, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Their qids, ascending; of size 0 when there is none.
    integer(c_int), allocatable, intent(out) :: qids(:)
    !> `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: count
    type(c_ptr) :: list
    count = 0
    list = c_null_ptr
    ierr = c_dead_qids(q, count, list)
    call take_list(list, count, qids, ierr)
  end subroutine quo_dead_qids

  !> Removes a dead rank, so that barriers and selections work without it. Local; every rank that is
  !> left calls it before its next collective call.
  subroutine quo_expel(q, qid, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> The dead rank.
    integer(c_int), value :: qid
    !> `QUO_SUCCESS_ALREADY_DONE` when another rank has removed it, `QUO_ERR_INVLD_ARG` when there
    !> is no such qid or that rank is alive.
    integer(c_int), intent(out) :: ierr
    ierr = c_expel(q, qid)
  end subroutine quo_expel
end module quo_members
