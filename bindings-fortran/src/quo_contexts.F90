!> Contexts: making and freeing them.
module quo_contexts
  use, intrinsic :: iso_c_binding, only: c_int, c_ptr, c_sizeof
  use quo_c, only: &
    c_create, c_create_options, c_create_with_flags, c_create_with_options, c_free
  use quo_types, only: quo_create_options_t
  implicit none
  private

  public :: quo_create, quo_create_with_flags, quo_create_with_options, quo_free

  !> Makes a context over a communicator of mpif.h or `use mpi`; `quo_mpi_f08` adds those of
  !> mpi_f08.
  interface quo_create
    module procedure quo_create
  end interface quo_create

  !> As [[quo_create]], with flags.
  interface quo_create_with_flags
    module procedure quo_create_with_flags
  end interface quo_create_with_flags

  !> As [[quo_create]], with all options.
  interface quo_create_with_options
    module procedure quo_create_with_options
  end interface quo_create_with_options

contains

  !> Makes a context over a communicator, which is duplicated. Collective over the communicator,
  !> between MPI_Init and MPI_Finalize. The first context of a process discovers the machine
  !> (milliseconds, once per node); later ones reuse what is known.
  subroutine quo_create(q, comm, ierr)
    !> The context, to be freed with [[quo_free]].
    type(c_ptr), intent(out) :: q
    !> An intracommunicator.
    integer, value :: comm
    !> `QUO_ERR_INVLD_ARG` for a null or intercommunicator, `QUO_ERR_CALL_BEFORE_INIT`,
    !> `QUO_ERR_CALL_AFTER_FINALIZE`, `QUO_ERR_TOPO`, `QUO_ERR_DISAGREE`, `QUO_ERR_OOR`,
    !> `QUO_ERR_SYS`, `QUO_ERR_MPI`.
    integer(c_int), intent(out) :: ierr
    ierr = c_create(q, int(comm, c_int))
  end subroutine quo_create

  !> As [[quo_create]], with flags that change what the context shows.
  subroutine quo_create_with_flags(q, comm, flags, ierr)
    !> As for [[quo_create]].
    type(c_ptr), intent(out) :: q
    !> As for [[quo_create]].
    integer, value :: comm
    !> A combination of `QUO_CREATE_...`, the same on every rank.
    integer(c_int), value :: flags
    !> `QUO_ERR_INVLD_ARG` for an unknown flag; otherwise as [[quo_create]].
    integer(c_int), intent(out) :: ierr
    ierr = c_create_with_flags(q, int(comm, c_int), flags)
  end subroutine quo_create_with_flags

  !> As [[quo_create]], with all options.
  subroutine quo_create_with_options(q, comm, options, ierr)
    !> As for [[quo_create]].
    type(c_ptr), intent(out) :: q
    !> As for [[quo_create]].
    integer, value :: comm
    !> The same on every rank.
    type(quo_create_options_t), intent(in) :: options
    !> `QUO_ERR_INVLD_ARG` for an unknown option; otherwise as [[quo_create]].
    integer(c_int), intent(out) :: ierr
    type(c_create_options) :: wanted
    wanted%size = c_sizeof(wanted)
    wanted%flags = options%flags
    ierr = c_create_with_options(q, int(comm, c_int), wanted)
  end subroutine quo_create_with_options

  !> Frees a context; bindings that are still pushed are restored first. Collective over the
  !> context, before MPI_Finalize, by one thread. Phases and named barriers made from it must be
  !> freed first; cross-process memory may outlive it.
  subroutine quo_free(q, ierr)
    !> A context; `c_null_ptr` is allowed and does nothing. No longer valid after success.
    type(c_ptr), value :: q
    !> `QUO_ERR_INVLD_HANDLE` when it was freed before or is no context, `QUO_ERR_BUSY` when phases
    !> or barriers of it are left or another thread uses it, `QUO_ERR_CALL_AFTER_FINALIZE`.
    integer(c_int), intent(out) :: ierr
    ierr = c_free(q)
  end subroutine quo_free
end module quo_contexts
