!> Contexts as objects.
!>
!> The methods have the names of the procedures without `quo_`, the same arguments, and `ierr` last.
!> Queries are functions with an optional `ierr`: their result shows a failure, and
!> `quo_last_error()` gives the cause.
module quo_context_object
  use, intrinsic :: iso_c_binding, only: c_int, c_ptr
#ifndef QUO_NO_MPI_F08
  use mpi_f08, only: MPI_Comm
#endif
  use quo_context_calls, only: quo_context_calls_t
  use quo_contexts, only: quo_create_with_options
  use quo_ownership, only: A_CONTEXT, free, held, kept, let_go, own, refer, share
  use quo_scopes, only: quo_split_by_count, quo_split_by_device, quo_split_by_weight
  use quo_together, only: quo_get_mpi_comm_by_type
  use quo_types, only: quo_create_options_t
  implicit none
  private

  !> A context. `call context%create(comm, ierr)` makes one, `call context%free(ierr)` frees it.
  !>
  !> A context that was not freed is freed when the last variable that owns it is finalised: the one
  !> it was created in, and those it was assigned to. That is local unless a trace is written, so a
  !> rank that leaves a procedure early does not hang; but variables of the main program and of
  !> modules are never finalised, and after MPI_Finalize nothing is freed. Call `free` to have it on
  !> record, and to see errors. Assigning never makes a second context.
  type, extends(quo_context_calls_t), public :: quo_context
    private
    type(held) :: held
  contains
    generic :: create => create_integer, create_integer_options
#ifndef QUO_NO_MPI_F08
    generic :: create => create_f08, create_f08_options
    procedure, private :: create_f08 => context_create_f08
    procedure, private :: create_f08_options => context_create_f08_options
#endif
    procedure, private :: create_integer => context_create
    procedure, private :: create_integer_options => context_create_options
    procedure :: free => context_free
    procedure :: split_by_weight => context_split_by_weight
    procedure :: split_by_count => context_split_by_count
    procedure :: split_by_device => context_split_by_device
    procedure :: handle => context_handle
    generic :: get_mpi_comm_by_type => get_integer
#ifndef QUO_NO_MPI_F08
    generic :: get_mpi_comm_by_type => get_f08
    procedure, private :: get_f08 => context_get_f08
#endif
    procedure, private :: get_integer => context_get_integer
    generic :: assignment(=) => assign
    procedure, private :: assign => context_assign
    final :: context_finalise
  end type quo_context

  !> `context = quo_context(comm, ierr)` makes a context that the left side owns.
  !> `context = quo_context(handle)` stands for a context that other code frees.
  interface quo_context
    module procedure new_integer
    module procedure new_from_handle
#ifndef QUO_NO_MPI_F08
    module procedure new_f08
#endif
  end interface quo_context

contains

  !> Makes a context over a communicator of mpif.h or `use mpi`. What the object stood for before is
  !> let go. Collective over the communicator.
  subroutine context_create(self, comm, ierr)
    class(quo_context), target, intent(inout) :: self
    !> An intracommunicator.
    integer, intent(in) :: comm
    !> As for [[quo_create]].
    integer(c_int), intent(out) :: ierr
    call self%create(comm, quo_create_options_t(), ierr)
  end subroutine context_create

  !> As above, with options.
  subroutine context_create_options(self, comm, options, ierr)
    class(quo_context), target, intent(inout) :: self
    !> An intracommunicator.
    integer, intent(in) :: comm
    !> The same on every rank.
    type(quo_create_options_t), intent(in) :: options
    !> As for [[quo_create_with_options]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: q
    call let_go(self%held, A_CONTEXT)
    call quo_create_with_options(q, comm, options, ierr)
    call own(self%held, q)
  end subroutine context_create_options

  function new_integer(comm, ierr) result(new)
    integer, intent(in) :: comm
    integer(c_int), intent(out) :: ierr
    type(quo_context) :: new
    type(c_ptr) :: q
    call quo_create_with_options(q, comm, quo_create_options_t(), ierr)
    call refer(new%held, q, in_transit=.true.)
  end function new_integer

  function new_from_handle(handle) result(new)
    type(c_ptr), intent(in) :: handle
    type(quo_context) :: new
    call refer(new%held, handle, in_transit=.false.)
  end function new_from_handle

#ifndef QUO_NO_MPI_F08
  subroutine context_create_f08(self, comm, ierr)
    class(quo_context), target, intent(inout) :: self
    type(MPI_Comm), intent(in) :: comm
    integer(c_int), intent(out) :: ierr
    call self%create(comm%MPI_VAL, ierr)
  end subroutine context_create_f08

  subroutine context_create_f08_options(self, comm, options, ierr)
    class(quo_context), target, intent(inout) :: self
    type(MPI_Comm), intent(in) :: comm
    type(quo_create_options_t), intent(in) :: options
    integer(c_int), intent(out) :: ierr
    call self%create(comm%MPI_VAL, options, ierr)
  end subroutine context_create_f08_options

  function new_f08(comm, ierr) result(new)
    type(MPI_Comm), intent(in) :: comm
    integer(c_int), intent(out) :: ierr
    type(quo_context) :: new
    type(c_ptr) :: q
    call quo_create_with_options(q, comm%MPI_VAL, quo_create_options_t(), ierr)
    call refer(new%held, q, in_transit=.true.)
  end function new_f08

  subroutine context_get_f08(self, target_type, comm, ierr)
    class(quo_context), intent(in) :: self
    integer(c_int), intent(in) :: target_type
    type(MPI_Comm), intent(out) :: comm
    integer(c_int), intent(out) :: ierr
    call self%get_mpi_comm_by_type(target_type, comm%MPI_VAL, ierr)
  end subroutine context_get_f08
#endif

  !> Makes a communicator of the ranks of the node that share an object with the caller. Collective
  !> over the context.
  subroutine context_get_integer(self, target_type, comm, ierr)
    class(quo_context), intent(in) :: self
    !> Type of object; the same on every rank.
    integer(c_int), intent(in) :: target_type
    !> A new communicator, to be freed with MPI_Comm_free; undefined after a failure.
    integer, intent(out) :: comm
    !> As for [[quo_get_mpi_comm_by_type]].
    integer(c_int), intent(out) :: ierr
    call quo_get_mpi_comm_by_type(self%handle(), target_type, comm, ierr)
  end subroutine context_get_integer

  !> Makes the object a scope of another context: the ranks that name the same part, confined to it.
  !> The object's previous context is released. Collective over the other context.
  subroutine context_split_by_weight(self, context, obj_type, weights, part, ierr)
    class(quo_context), target, intent(inout) :: self
    !> The context to split; not the same object.
    type(quo_context), intent(in) :: context
    !> As for [[quo_split_by_weight]].
    integer(c_int), intent(in) :: obj_type
    !> As for [[quo_split_by_weight]].
    integer(c_int), contiguous, intent(in) :: weights(:)
    !> The caller's part, from 0.
    integer(c_int), intent(in) :: part
    !> As for [[quo_split_by_weight]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: scope
    call let_go(self%held, A_CONTEXT)
    call quo_split_by_weight(context%handle(), obj_type, weights, part, scope, ierr)
    call own(self%held, scope)
  end subroutine context_split_by_weight

  !> As above, with a number of objects for each part.
  subroutine context_split_by_count(self, context, obj_type, counts, part, ierr)
    class(quo_context), target, intent(inout) :: self
    !> The context to split; not the same object.
    type(quo_context), intent(in) :: context
    !> As for [[quo_split_by_count]].
    integer(c_int), intent(in) :: obj_type
    !> As for [[quo_split_by_count]].
    integer(c_int), contiguous, intent(in) :: counts(:)
    !> The caller's part, from 0.
    integer(c_int), intent(in) :: part
    !> As for [[quo_split_by_count]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: scope
    call let_go(self%held, A_CONTEXT)
    call quo_split_by_count(context%handle(), obj_type, counts, part, scope, ierr)
    call own(self%held, scope)
  end subroutine context_split_by_count

  !> As above, with a part for each device that some rank of the node names: the objects near it.
  subroutine context_split_by_device(self, context, obj_type, kind, index, ierr)
    class(quo_context), target, intent(inout) :: self
    !> The context to split; not the same object.
    type(quo_context), intent(in) :: context
    !> As for [[quo_split_by_device]].
    integer(c_int), intent(in) :: obj_type
    !> One of `QUO_DEVICE_...`.
    integer(c_int), intent(in) :: kind
    !> The caller's device, from 0.
    integer(c_int), intent(in) :: index
    !> As for [[quo_split_by_device]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: scope
    call let_go(self%held, A_CONTEXT)
    call quo_split_by_device(context%handle(), obj_type, kind, index, scope, ierr)
    call own(self%held, scope)
  end subroutine context_split_by_device

  !> Frees the context, even if other variables own it. Collective over the context.
  subroutine context_free(self, ierr)
    class(quo_context), target, intent(inout) :: self
    !> As for [[quo_free]]; an object that stands for nothing is allowed and does nothing.
    integer(c_int), intent(out) :: ierr
    call free(self%held, A_CONTEXT, ierr)
  end subroutine context_free

  !> The handle for the procedures; `c_null_ptr` when the object stands for nothing. The object
  !> still owns it.
  pure function context_handle(self) result(handle)
    class(quo_context), intent(in) :: self
    type(c_ptr) :: handle
    handle = kept(self%held)
  end function context_handle

  impure elemental subroutine context_assign(to, from)
    class(quo_context), target, intent(inout) :: to
    type(quo_context), target, intent(in) :: from
    call share(to%held, from%held, A_CONTEXT)
  end subroutine context_assign

  impure elemental subroutine context_finalise(self)
    type(quo_context), target, intent(inout) :: self
    call let_go(self%held, A_CONTEXT)
  end subroutine context_finalise
end module quo_context_object
