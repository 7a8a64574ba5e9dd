!> Members that leave and return. All procedures but [[quo_adapt]] are local.
module quo_members
  use, intrinsic :: iso_c_binding, only: c_int, c_null_ptr, c_ptr
  use quo_c, only: c_adapt, c_attach, c_dead_qids, c_detach, c_expel, c_retire
  use quo_text, only: take_list
  implicit none
  private

  public :: quo_adapt, quo_attach, quo_dead_qids, quo_detach, quo_expel, quo_retire

  !> Takes a context to the ranks of a communicator of mpif.h or `use mpi`; `quo_mpi_f08` adds those
  !> of mpi_f08.
  interface quo_adapt
    module procedure quo_adapt
  end interface quo_adapt

contains

  !> Leaves the barriers of the node: the other ranks no longer wait for the caller, and a barrier
  !> that waits only for it completes. Calls that are collective over the node return
  !> `QUO_ERR_DETACHED` to the caller until [[quo_attach]]; named barriers must be made again after
  !> that. Local.
  subroutine quo_detach(q, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> `QUO_SUCCESS_ALREADY_DONE` when the caller had detached before, `QUO_ERR_NOT_SUPPORTED` when
    !> the environment says QUO_WAIT=pthread.
    integer(c_int), intent(out) :: ierr
    ierr = c_detach(q)
  end subroutine quo_detach

  !> Returns to the barriers after [[quo_detach]]: from the next barrier on the other ranks wait for
  !> the caller again. Agree with them when to return, for example by a message. Local.
  subroutine quo_attach(q, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> `QUO_SUCCESS_ALREADY_DONE` when the caller is attached, `QUO_ERR_NOT_SUPPORTED` when the
    !> environment says QUO_WAIT=pthread.
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

  !> Takes a context to another set of ranks: same handle, new members. Contexts over the communicator
  !> of an elastic world go along by themselves. Collective over the communicator; ranks of it that do
  !> not have the context get it from `quo_create`.
  subroutine quo_adapt(q, comm, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> An intracommunicator, which is duplicated.
    integer, value :: comm
    !> `QUO_ERR_BUSY` on every rank when one has a phase open, a binding pushed, or another thread that
    !> waits in the context; `QUO_ERR_INVLD_ARG`, `QUO_ERR_DISAGREE`, `QUO_ERR_TIMEOUT`.
    integer(c_int), intent(out) :: ierr
    ierr = c_adapt(q, int(comm, c_int))
  end subroutine quo_adapt

  !> Leaves the ranks of a context and keeps the handle: the others no longer wait for this rank,
  !> and what needs others is refused with `QUO_ERR_DETACHED`. [[quo_adapt]] over a communicator
  !> with this rank brings it back. Local.
  subroutine quo_retire(q, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> `QUO_SUCCESS_ALREADY_DONE` when it had retired before, `QUO_ERR_BUSY` while a phase is open, a
    !> binding is pushed, or another thread waits.
    integer(c_int), intent(out) :: ierr
    ierr = c_retire(q)
  end subroutine quo_retire
end module quo_members
