!> Changing the binding: a stack of bindings per context. All procedures are local.
module quo_bindings
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_ptr
  use quo_c, only: c_bind_pop, c_bind_push, c_bind_push_cpuset
  use quo_text, only: out_of_memory, to_c
  implicit none
  private

  public :: quo_bind_pop, quo_bind_push, quo_bind_push_cpuset

contains

  !> Binds the process to an object and remembers the binding it had. Threads of the process whose
  !> binding equals the one being replaced move along; a thread with another binding is left alone.
  !> Only CPUs that the system lets the process use are taken. Local.
  subroutine quo_bind_push(q, policy, obj_type, obj_index, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> One of `QUO_BIND_PUSH_...`.
    integer(c_int), value :: policy
    !> Type of the object.
    integer(c_int), value :: obj_type
    !> Index of the object, from 0; ignored with `QUO_BIND_PUSH_OBJ` (-1 is customary).
    integer(c_int), value :: obj_index
    !> `QUO_ERR_INVLD_ARG` for an unknown policy or type, or when there is no object with that
    !> index; `QUO_ERR_NOT_FOUND` when no object of the type shares a CPU with the binding;
    !> `QUO_ERR_NOT_SUPPORTED` when the object has no CPU that may be used; `QUO_ERR_SYS`.
    integer(c_int), intent(out) :: ierr
    ierr = c_bind_push(q, policy, obj_type, obj_index)
  end subroutine quo_bind_push

  !> As [[quo_bind_push]], for any set of CPUs. Local.
  subroutine quo_bind_push_cpuset(q, list, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Physical CPU numbers such as `0-3,8`; blanks at the end do not count.
    character(len=*, kind=c_char), intent(in) :: list
    !> `QUO_ERR_INVLD_ARG` when the list is none, is empty, or names a CPU the machine does not
    !> have; `QUO_ERR_NOT_SUPPORTED` when not all of the CPUs may be used; otherwise as
    !> [[quo_bind_push]].
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(list, bytes)
    if (allocated(bytes)) then
      ierr = c_bind_push_cpuset(q, bytes)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_bind_push_cpuset

  !> Undoes the last push: every thread gets back the binding it had then. Local.
  subroutine quo_bind_pop(q, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> `QUO_ERR_POP` when nothing is pushed, and nothing was changed; `QUO_ERR_SYS`.
    integer(c_int), intent(out) :: ierr
    ierr = c_bind_pop(q)
  end subroutine quo_bind_pop
end module quo_bindings
