!> Working together on a node: barriers, the choice of workers, communicators.
module quo_together
  use, intrinsic :: iso_c_binding, only: c_double, c_int, c_ptr
  use quo_c, only: c_auto_distrib, c_auto_distrib_with_policy, c_barrier, c_barrier_timed, &
    c_get_mpi_comm_by_type
  use quo_constants, only: QUO_SUCCESS
  use quo_text, only: truth
  implicit none
  private

  public :: quo_auto_distrib, quo_auto_distrib_with_policy, quo_barrier, quo_barrier_timed, &
    quo_get_mpi_comm_by_type

  !> Makes a communicator for mpif.h or `use mpi`; `quo_mpi_f08` adds those of mpi_f08.
  interface quo_get_mpi_comm_by_type
    module procedure quo_get_mpi_comm_by_type
  end interface quo_get_mpi_comm_by_type

contains

  !> Waits until every rank of the node has called. Waiting ranks sleep and leave their cores to the
  !> others, which is what makes it different from MPI_Barrier. Collective over the node.
  subroutine quo_barrier(q, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> `QUO_ERR_DEAD_MEMBER` when a rank has ended and can never enter, `QUO_ERR_TIMEOUT` when the
    !> time of a rank in [[quo_barrier_timed]] ran out, `QUO_ERR_DETACHED` when the caller has
    !> detached.
    integer(c_int), intent(out) :: ierr
    ierr = c_barrier(q)
  end subroutine quo_barrier

  !> As [[quo_barrier]], but waits no longer than given. When the time of one rank runs out, the
  !> barrier fails for every rank that is in it or enters it later; the next one works again.
  !> Collective over the node.
  subroutine quo_barrier_timed(q, seconds, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Seconds to wait; 0 only looks whether everyone else is there.
    real(c_double), value :: seconds
    !> `QUO_ERR_TIMEOUT`; `QUO_ERR_INVLD_ARG` when the seconds are negative or not a number;
    !> `QUO_ERR_NOT_SUPPORTED` when the environment says QUO_WAIT=pthread or QUO_WAIT=mpi;
    !> otherwise as [[quo_barrier]].
    integer(c_int), intent(out) :: ierr
    ierr = c_barrier_timed(q, seconds)
  end subroutine quo_barrier_timed

  !> Chooses the ranks that work when a phase needs fewer ranks than there are: at most a given
  !> number per object. No binding is changed, and the same bindings always give the same choice.
  !> Collective over the node.
  subroutine quo_auto_distrib(q, distrib_over_this, max_qids_per_res_type, oselected, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Type of object to spread over; the same on every rank.
    integer(c_int), value :: distrib_over_this
    !> Most ranks per object, at least 1; the same on every rank.
    integer(c_int), value :: max_qids_per_res_type
    !> True if the caller was chosen.
    logical, intent(out) :: oselected
    !> `QUO_ERR_INVLD_ARG` for an unknown type or a number below 1, `QUO_ERR_NOT_FOUND` when the
    !> machine has no object of the type, `QUO_ERR_DISAGREE` when the ranks gave different
    !> arguments, `QUO_ERR_DEAD_MEMBER`.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_auto_distrib(q, distrib_over_this, max_qids_per_res_type, answer)
    oselected = truth(answer)
  end subroutine quo_auto_distrib

  !> As [[quo_auto_distrib]], with a choice of rule. Collective over the node.
  subroutine quo_auto_distrib_with_policy(q, distrib_over_this, max_qids_per_res_type, policy, &
      oselected, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> As for [[quo_auto_distrib]].
    integer(c_int), value :: distrib_over_this
    !> As for [[quo_auto_distrib]].
    integer(c_int), value :: max_qids_per_res_type
    !> One of `QUO_DISTRIB_...`, the same on every rank.
    integer(c_int), value :: policy
    !> True if the caller was chosen.
    logical, intent(out) :: oselected
    !> `QUO_ERR_INVLD_ARG` for an unknown policy; otherwise as [[quo_auto_distrib]].
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_auto_distrib_with_policy(q, distrib_over_this, max_qids_per_res_type, policy, answer)
    oselected = truth(answer)
  end subroutine quo_auto_distrib_with_policy

  !> Makes a communicator of the ranks of the node that share an object with the caller. A binding
  !> that spans several objects counts for the first of them; `QUO_OBJ_MACHINE` gives all ranks of
  !> the node. The order is that of the qids. Collective over the context.
  subroutine quo_get_mpi_comm_by_type(q, target_type, comm, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Type of object; the same on every rank.
    integer(c_int), value :: target_type
    !> A new communicator, to be freed with MPI_Comm_free; undefined after a failure.
    integer, intent(out) :: comm
    !> `QUO_ERR_INVLD_ARG` for an unknown type, `QUO_ERR_NOT_FOUND` when the binding of some rank
    !> lies on no object of the type, `QUO_ERR_DISAGREE` when the ranks gave different types,
    !> `QUO_ERR_MPI`.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: handle
    ierr = c_get_mpi_comm_by_type(q, target_type, handle)
    if (ierr == QUO_SUCCESS) comm = int(handle)
  end subroutine quo_get_mpi_comm_by_type
end module quo_together
