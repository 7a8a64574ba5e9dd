!> Methods of contexts that act: bindings, barriers, devices, lending, and members that leave and
!> return.
module quo_context_calls
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int
  use quo_bindings, only: quo_bind_pop, quo_bind_push, quo_bind_push_cpuset
  use quo_context_queries, only: quo_context_queries_t
  use quo_devices, only: quo_assign_device, quo_device, quo_device_in_type, quo_device_is_near, &
    quo_ndevices, quo_visible_devices
  use quo_lending, only: quo_borrow, quo_borrow_wanted, quo_give_back, quo_lend, quo_lenders, &
    quo_reclaim
  use quo_members, only: quo_attach, quo_detach, quo_expel
  use quo_together, only: quo_auto_distrib, quo_auto_distrib_with_policy, quo_barrier, &
    quo_barrier_timed
  implicit none
  private

  !> An object that has the handle of a context, with what can be done with it: subroutines, with
  !> `ierr` last.
  type, abstract, extends(quo_context_queries_t), public :: quo_context_calls_t
  contains
    procedure :: bind_push => context_bind_push
    procedure :: bind_push_cpuset => context_bind_push_cpuset
    procedure :: bind_pop => context_bind_pop
    procedure :: barrier => context_barrier
    procedure :: barrier_timed => context_barrier_timed
    procedure :: auto_distrib => context_auto_distrib
    procedure :: auto_distrib_with_policy => context_auto_distrib_with_policy
    procedure :: ndevices => context_ndevices
    procedure :: device => context_device
    procedure :: device_is_near => context_device_is_near
    procedure :: device_in_type => context_device_in_type
    procedure :: assign_device => context_assign_device
    procedure :: visible_devices => context_visible_devices
    procedure :: lend => context_lend
    procedure :: reclaim => context_reclaim
    procedure :: borrow => context_borrow
    procedure :: borrow_wanted => context_borrow_wanted
    procedure :: lenders => context_lenders
    procedure :: give_back => context_give_back
    procedure :: detach => context_detach
    procedure :: attach => context_attach
    procedure :: expel => context_expel
  end type quo_context_calls_t

contains

  !> Binds the process to an object and remembers the binding it had. Local. A [[quo_binding]] is
  !> undone by itself.
  subroutine context_bind_push(self, policy, obj_type, obj_index, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> One of `QUO_BIND_PUSH_...`.
    integer(c_int), intent(in) :: policy
    !> One of `QUO_OBJ_...`.
    integer(c_int), intent(in) :: obj_type
    !> Index of the object; ignored with `QUO_BIND_PUSH_OBJ`.
    integer(c_int), intent(in) :: obj_index
    !> As for [[quo_bind_push]].
    integer(c_int), intent(out) :: ierr
    call quo_bind_push(self%handle(), policy, obj_type, obj_index, ierr)
  end subroutine context_bind_push

  !> As `bind_push`, for any set of CPUs. Local.
  subroutine context_bind_push_cpuset(self, list, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> Physical CPU numbers such as `0-3,8`.
    character(len=*, kind=c_char), intent(in) :: list
    !> As for [[quo_bind_push_cpuset]].
    integer(c_int), intent(out) :: ierr
    call quo_bind_push_cpuset(self%handle(), list, ierr)
  end subroutine context_bind_push_cpuset

  !> Undoes the last push. Local.
  subroutine context_bind_pop(self, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> As for [[quo_bind_pop]].
    integer(c_int), intent(out) :: ierr
    call quo_bind_pop(self%handle(), ierr)
  end subroutine context_bind_pop

  !> Waits, asleep, until every rank of the node has called. Collective over the node.
  subroutine context_barrier(self, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> As for [[quo_barrier]].
    integer(c_int), intent(out) :: ierr
    call quo_barrier(self%handle(), ierr)
  end subroutine context_barrier

  !> As `barrier`, but waits no longer than given. Collective over the node.
  subroutine context_barrier_timed(self, seconds, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> Seconds to wait; 0 only looks.
    real(c_double), intent(in) :: seconds
    !> As for [[quo_barrier_timed]].
    integer(c_int), intent(out) :: ierr
    call quo_barrier_timed(self%handle(), seconds, ierr)
  end subroutine context_barrier_timed

  !> Chooses the ranks that work: at most a given number per object. Collective over the node.
  subroutine context_auto_distrib(self, distrib_over_this, max_qids_per_res_type, selected, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> Type of object to spread over.
    integer(c_int), intent(in) :: distrib_over_this
    !> Most ranks per object, at least 1.
    integer(c_int), intent(in) :: max_qids_per_res_type
    !> True if the caller was chosen.
    logical, intent(out) :: selected
    !> As for [[quo_auto_distrib]].
    integer(c_int), intent(out) :: ierr
    call quo_auto_distrib(self%handle(), distrib_over_this, max_qids_per_res_type, selected, ierr)
  end subroutine context_auto_distrib

  !> As `auto_distrib`, with a choice of rule. Collective over the node.
  subroutine context_auto_distrib_with_policy(self, distrib_over_this, max_qids_per_res_type, &
      policy, selected, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> Type of object to spread over.
    integer(c_int), intent(in) :: distrib_over_this
    !> Most ranks per object, at least 1.
    integer(c_int), intent(in) :: max_qids_per_res_type
    !> One of `QUO_DISTRIB_...`.
    integer(c_int), intent(in) :: policy
    !> True if the caller was chosen.
    logical, intent(out) :: selected
    !> As for [[quo_auto_distrib_with_policy]].
    integer(c_int), intent(out) :: ierr
    call quo_auto_distrib_with_policy(self%handle(), distrib_over_this, &
      max_qids_per_res_type, policy, selected, ierr)
  end subroutine context_auto_distrib_with_policy

  !> Counts the devices of a kind. Local.
  subroutine context_ndevices(self, kind, n, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> One of `QUO_DEVICE_...`.
    integer(c_int), intent(in) :: kind
    !> Their number.
    integer(c_int), intent(out) :: n
    !> As for [[quo_ndevices]].
    integer(c_int), intent(out) :: ierr
    call quo_ndevices(self%handle(), kind, n, ierr)
  end subroutine context_ndevices

  !> Returns a device's place on the bus and the CPUs near it. Local.
  subroutine context_device(self, kind, index, bus, list, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> One of `QUO_DEVICE_...`.
    integer(c_int), intent(in) :: kind
    !> Index of the device, from 0.
    integer(c_int), intent(in) :: index
    !> Its place.
    character(len=:, kind=c_char), allocatable, intent(out) :: bus
    !> CPUs near it.
    character(len=:, kind=c_char), allocatable, intent(out) :: list
    !> As for [[quo_device]].
    integer(c_int), intent(out) :: ierr
    call quo_device(self%handle(), kind, index, bus, list, ierr)
  end subroutine context_device

  !> Returns whether a device is near the caller's binding. Local.
  subroutine context_device_is_near(self, kind, index, near, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> One of `QUO_DEVICE_...`.
    integer(c_int), intent(in) :: kind
    !> Index of the device, from 0.
    integer(c_int), intent(in) :: index
    !> True if it is.
    logical, intent(out) :: near
    !> As for [[quo_device_is_near]].
    integer(c_int), intent(out) :: ierr
    call quo_device_is_near(self%handle(), kind, index, near, ierr)
  end subroutine context_device_is_near

  !> Returns whether a device is near an object. Local.
  subroutine context_device_in_type(self, kind, index, obj_type, type_index, near, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> One of `QUO_DEVICE_...`.
    integer(c_int), intent(in) :: kind
    !> Index of the device, from 0.
    integer(c_int), intent(in) :: index
    !> Type of the object.
    integer(c_int), intent(in) :: obj_type
    !> Index of the object, from 0.
    integer(c_int), intent(in) :: type_index
    !> True if it is.
    logical, intent(out) :: near
    !> As for [[quo_device_in_type]].
    integer(c_int), intent(out) :: ierr
    call quo_device_in_type(self%handle(), kind, index, obj_type, type_index, near, ierr)
  end subroutine context_device_in_type

  !> Shares devices out among the ranks of the node. Collective over the node.
  subroutine context_assign_device(self, kind, index, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> One of `QUO_DEVICE_...`.
    integer(c_int), intent(in) :: kind
    !> Index of the caller's device; -1 when there is none.
    integer(c_int), intent(out) :: index
    !> As for [[quo_assign_device]].
    integer(c_int), intent(out) :: ierr
    call quo_assign_device(self%handle(), kind, index, ierr)
  end subroutine context_assign_device

  !> Writes the variables by which a program sees one GPU only. Local.
  subroutine context_visible_devices(self, gpu, variables, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> Index of the GPU.
    integer(c_int), intent(in) :: gpu
    !> The variables with a space between them.
    character(len=:, kind=c_char), allocatable, intent(out) :: variables
    !> As for [[quo_visible_devices]].
    integer(c_int), intent(out) :: ierr
    call quo_visible_devices(self%handle(), gpu, variables, ierr)
  end subroutine context_visible_devices

  !> Lends the caller's CPUs until `reclaim`. Local.
  subroutine context_lend(self, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> As for [[quo_lend]].
    integer(c_int), intent(out) :: ierr
    call quo_lend(self%handle(), ierr)
  end subroutine context_lend

  !> Takes the caller's CPUs back. Local.
  subroutine context_reclaim(self, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> As for [[quo_reclaim]].
    integer(c_int), intent(out) :: ierr
    call quo_reclaim(self%handle(), ierr)
  end subroutine context_reclaim

  !> Borrows the CPUs that waiting ranks of the node lend. Local.
  subroutine context_borrow(self, borrowed, threads, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> Number of CPUs that were borrowed, may be 0.
    integer(c_int), intent(out) :: borrowed
    !> Number of threads that fills the caller's own CPUs and these.
    integer(c_int), intent(out) :: threads
    !> As for [[quo_borrow]].
    integer(c_int), intent(out) :: ierr
    call quo_borrow(self%handle(), borrowed, threads, ierr)
  end subroutine context_borrow

  !> Returns whether the caller should give back. Local.
  subroutine context_borrow_wanted(self, wanted, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> True if it should.
    logical, intent(out) :: wanted
    !> As for [[quo_borrow_wanted]].
    integer(c_int), intent(out) :: ierr
    call quo_borrow_wanted(self%handle(), wanted, ierr)
  end subroutine context_borrow_wanted

  !> Counts the other ranks of the node that lend now. Local.
  subroutine context_lenders(self, lenders, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> Number of ranks, without the caller.
    integer(c_int), intent(out) :: lenders
    !> As for [[quo_lenders]].
    integer(c_int), intent(out) :: ierr
    call quo_lenders(self%handle(), lenders, ierr)
  end subroutine context_lenders

  !> Gives back what `borrow` got. Local.
  subroutine context_give_back(self, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> As for [[quo_give_back]].
    integer(c_int), intent(out) :: ierr
    call quo_give_back(self%handle(), ierr)
  end subroutine context_give_back

  !> Leaves the barriers of the node. Local.
  subroutine context_detach(self, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> As for [[quo_detach]].
    integer(c_int), intent(out) :: ierr
    call quo_detach(self%handle(), ierr)
  end subroutine context_detach

  !> Returns to the barriers after `detach`. Local.
  subroutine context_attach(self, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> As for [[quo_attach]].
    integer(c_int), intent(out) :: ierr
    call quo_attach(self%handle(), ierr)
  end subroutine context_attach

  !> Removes a dead rank; every rank that is left calls it. Local.
  subroutine context_expel(self, qid, ierr)
    class(quo_context_calls_t), intent(in) :: self
    !> The dead rank.
    integer(c_int), intent(in) :: qid
    !> As for [[quo_expel]].
    integer(c_int), intent(out) :: ierr
    call quo_expel(self%handle(), qid, ierr)
  end subroutine context_expel
end module quo_context_calls
