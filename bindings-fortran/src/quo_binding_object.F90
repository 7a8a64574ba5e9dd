!> A binding that is popped automatically.
module quo_binding_object
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_ptr
  use quo_context_object, only: quo_context
  use quo_bindings, only: quo_bind_push, quo_bind_push_cpuset
  use quo_constants, only: QUO_SUCCESS
  use quo_ownership, only: A_BINDING, free, held, let_go, own, share
  implicit none
  private

  !> A push that is undone when the variable goes out of scope, for example at the end of a BLOCK.
  !> Bindings of one context are a stack: undo them in the reverse order. Assigning one to another
  !> undoes what the left side had pushed, and no more.
  type, public :: quo_binding
    private
    type(held) :: held
  contains
    procedure :: push => binding_push
    procedure :: push_cpuset => binding_push_cpuset
    procedure :: pop => binding_pop
    generic :: assignment(=) => assign
    procedure, private :: assign => binding_assign
    final :: binding_finalise
  end type quo_binding

contains

  !> Binds the process to an object; what this variable had pushed before is undone first. Local.
  subroutine binding_push(self, context, policy, obj_type, obj_index, ierr)
    class(quo_binding), target, intent(inout) :: self
    class(quo_context), intent(in) :: context
    !> One of `QUO_BIND_PUSH_...`.
    integer(c_int), intent(in) :: policy
    !> Type of the object.
    integer(c_int), intent(in) :: obj_type
    !> Index of the object; ignored with `QUO_BIND_PUSH_OBJ`.
    integer(c_int), intent(in) :: obj_index
    !> As for [[quo_bind_push]].
    integer(c_int), intent(out) :: ierr
    call let_go(self%held, A_BINDING)
    call quo_bind_push(context%handle(), policy, obj_type, obj_index, ierr)
    if (ierr == QUO_SUCCESS) call own(self%held, context%handle())
  end subroutine binding_push

  !> As `push`, for any set of CPUs. Local.
  subroutine binding_push_cpuset(self, context, list, ierr)
    class(quo_binding), target, intent(inout) :: self
    class(quo_context), intent(in) :: context
    !> Physical CPU numbers such as `0-3,8`.
    character(len=*, kind=c_char), intent(in) :: list
    !> As for [[quo_bind_push_cpuset]].
    integer(c_int), intent(out) :: ierr
    call let_go(self%held, A_BINDING)
    call quo_bind_push_cpuset(context%handle(), list, ierr)
    if (ierr == QUO_SUCCESS) call own(self%held, context%handle())
  end subroutine binding_push_cpuset

  !> Undoes the push now. Local.
  subroutine binding_pop(self, ierr)
    class(quo_binding), target, intent(inout) :: self
    !> As for [[quo_bind_pop]]; `QUO_ERR_INVLD_ARG` when this variable has pushed nothing.
    integer(c_int), intent(out) :: ierr
    call free(self%held, A_BINDING, ierr)
  end subroutine binding_pop

  impure elemental subroutine binding_assign(to, from)
    class(quo_binding), target, intent(inout) :: to
    type(quo_binding), target, intent(in) :: from
    call share(to%held, from%held, A_BINDING)
  end subroutine binding_assign

  impure elemental subroutine binding_finalise(self)
    type(quo_binding), target, intent(inout) :: self
    call let_go(self%held, A_BINDING)
  end subroutine binding_finalise
end module quo_binding_object
