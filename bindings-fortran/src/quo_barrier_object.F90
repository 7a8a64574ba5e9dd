!> Named barriers as objects.
module quo_barrier_object
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_ptr
  use quo_context_object, only: quo_context
  use quo_named_barriers, only: quo_named_barrier_create, quo_named_barrier_wait, &
    quo_named_barrier_wait_timed
  use quo_ownership, only: A_NAMED_BARRIER, free, held, kept, let_go, own, share
  implicit none
  private

  !> A barrier among the ranks of a node, or some of them, in addition to the context's. Freed when
  !> the last variable that owns it is finalised.
  type, public :: quo_named_barrier
    private
    type(held) :: held
  contains
    generic :: create => create_among_all, create_among_some
    procedure, private :: create_among_all => named_barrier_create
    procedure, private :: create_among_some => named_barrier_create_among
    procedure :: wait => named_barrier_wait
    procedure :: wait_timed => named_barrier_wait_timed
    procedure :: free => named_barrier_free
    procedure :: handle => named_barrier_handle
    generic :: assignment(=) => assign
    procedure, private :: assign => named_barrier_assign
    final :: named_barrier_finalise
  end type quo_named_barrier

contains

  !> Makes, or opens, a barrier among all ranks of the node. The object's previous barrier is
  !> released. Collective over the node.
  subroutine named_barrier_create(self, context, name, ierr)
    class(quo_named_barrier), target, intent(inout) :: self
    !> Stays in use until the barrier is freed.
    class(quo_context), intent(in) :: context
    !> 1 to 63 bytes, the same on every member.
    character(len=*, kind=c_char), intent(in) :: name
    !> As for [[quo_named_barrier_create]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: barrier
    call let_go(self%held, A_NAMED_BARRIER)
    call quo_named_barrier_create(context%handle(), name, barrier, ierr)
    call own(self%held, barrier)
  end subroutine named_barrier_create

  !> As above, among some ranks. Collective over the named qids.
  subroutine named_barrier_create_among(self, context, name, qids, ierr)
    class(quo_named_barrier), target, intent(inout) :: self
    !> Stays in use until the barrier is freed.
    class(quo_context), intent(in) :: context
    !> 1 to 63 bytes, the same on every member.
    character(len=*, kind=c_char), intent(in) :: name
    !> The members, the caller among them.
    integer(c_int), contiguous, target, intent(in) :: qids(:)
    !> As for [[quo_named_barrier_create]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: barrier
    call let_go(self%held, A_NAMED_BARRIER)
    call quo_named_barrier_create(context%handle(), name, qids, barrier, ierr)
    call own(self%held, barrier)
  end subroutine named_barrier_create_among

  !> Waits, asleep, until every member has called. Collective over the members.
  subroutine named_barrier_wait(self, ierr)
    class(quo_named_barrier), intent(in) :: self
    !> As for [[quo_named_barrier_wait]].
    integer(c_int), intent(out) :: ierr
    call quo_named_barrier_wait(self%handle(), ierr)
  end subroutine named_barrier_wait

  !> As `wait`, but waits no longer than given. Collective over the members.
  subroutine named_barrier_wait_timed(self, seconds, ierr)
    class(quo_named_barrier), intent(in) :: self
    !> Seconds to wait; 0 only looks.
    real(c_double), intent(in) :: seconds
    !> As for [[quo_named_barrier_wait_timed]].
    integer(c_int), intent(out) :: ierr
    call quo_named_barrier_wait_timed(self%handle(), seconds, ierr)
  end subroutine named_barrier_wait_timed

  !> Frees it, even if other variables own it. Local.
  subroutine named_barrier_free(self, ierr)
    class(quo_named_barrier), target, intent(inout) :: self
    !> As for the procedure; an object that stands for nothing is allowed and does nothing.
    integer(c_int), intent(out) :: ierr
    call free(self%held, A_NAMED_BARRIER, ierr)
  end subroutine named_barrier_free

  !> The handle for the procedures; `c_null_ptr` when the object stands for nothing.
  pure function named_barrier_handle(self) result(handle)
    class(quo_named_barrier), intent(in) :: self
    type(c_ptr) :: handle
    handle = kept(self%held)
  end function named_barrier_handle

  impure elemental subroutine named_barrier_assign(to, from)
    class(quo_named_barrier), target, intent(inout) :: to
    type(quo_named_barrier), target, intent(in) :: from
    call share(to%held, from%held, A_NAMED_BARRIER)
  end subroutine named_barrier_assign

  impure elemental subroutine named_barrier_finalise(self)
    type(quo_named_barrier), target, intent(inout) :: self
    call let_go(self%held, A_NAMED_BARRIER)
  end subroutine named_barrier_finalise
end module quo_barrier_object
