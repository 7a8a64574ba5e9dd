!> Procedures that take or give a communicator, for the handles of the module mpi_f08. Empty under
!> QUO_NO_MPI_F08, for an MPI that has no such module.
module quo_mpi_f08
#ifndef QUO_NO_MPI_F08
  use, intrinsic :: iso_c_binding, only: c_int, c_ptr
  use mpi_f08, only: MPI_Comm
  use quo_contexts, only: create => quo_create, create_with_flags => quo_create_with_flags, &
    create_with_options => quo_create_with_options
  use quo_members, only: adapt => quo_adapt
  use quo_together, only: get_mpi_comm_by_type => quo_get_mpi_comm_by_type
  use quo_types, only: quo_create_options_t
  implicit none
  private

  public :: quo_adapt, quo_create, quo_create_with_flags, quo_create_with_options, &
    quo_get_mpi_comm_by_type

  !> [[quo_contexts:quo_create]] for `type(MPI_Comm)`.
  interface quo_create
    module procedure quo_create_f08
  end interface quo_create

  !> [[quo_contexts:quo_create_with_flags]] for `type(MPI_Comm)`.
  interface quo_create_with_flags
    module procedure quo_create_with_flags_f08
  end interface quo_create_with_flags

  !> [[quo_contexts:quo_create_with_options]] for `type(MPI_Comm)`.
  interface quo_create_with_options
    module procedure quo_create_with_options_f08
  end interface quo_create_with_options

  !> [[quo_members:quo_adapt]] for `type(MPI_Comm)`.
  interface quo_adapt
    module procedure quo_adapt_f08
  end interface quo_adapt

  !> [[quo_together:quo_get_mpi_comm_by_type]] for `type(MPI_Comm)`.
  interface quo_get_mpi_comm_by_type
    module procedure quo_get_mpi_comm_by_type_f08
  end interface quo_get_mpi_comm_by_type

contains

  subroutine quo_create_f08(q, comm, ierr)
    type(c_ptr), intent(out) :: q
    type(MPI_Comm), intent(in) :: comm
    integer(c_int), intent(out) :: ierr
    call create(q, comm%MPI_VAL, ierr)
  end subroutine quo_create_f08

  subroutine quo_create_with_flags_f08(q, comm, flags, ierr)
    type(c_ptr), intent(out) :: q
    type(MPI_Comm), intent(in) :: comm
    integer(c_int), value :: flags
    integer(c_int), intent(out) :: ierr
    call create_with_flags(q, comm%MPI_VAL, flags, ierr)
  end subroutine quo_create_with_flags_f08

  subroutine quo_create_with_options_f08(q, comm, options, ierr)
    type(c_ptr), intent(out) :: q
    type(MPI_Comm), intent(in) :: comm
    type(quo_create_options_t), intent(in) :: options
    integer(c_int), intent(out) :: ierr
    call create_with_options(q, comm%MPI_VAL, options, ierr)
  end subroutine quo_create_with_options_f08

  subroutine quo_adapt_f08(q, comm, ierr)
    type(c_ptr), value :: q
    type(MPI_Comm), intent(in) :: comm
    integer(c_int), intent(out) :: ierr
    call adapt(q, comm%MPI_VAL, ierr)
  end subroutine quo_adapt_f08

  subroutine quo_get_mpi_comm_by_type_f08(q, target_type, comm, ierr)
    type(c_ptr), value :: q
    integer(c_int), value :: target_type
    type(MPI_Comm), intent(out) :: comm
    integer(c_int), intent(out) :: ierr
    call get_mpi_comm_by_type(q, target_type, comm%MPI_VAL, ierr)
  end subroutine quo_get_mpi_comm_by_type_f08
#endif
end module quo_mpi_f08
