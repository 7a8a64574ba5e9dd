!> quo for Fortran: the QUO 1.4.1 interface, and what quo adds to it.
!>
!> Procedures have the names of the C functions, their arguments in the same order, and the return
!> code last; `quo_errors` states the rules that hold for all of them. In addition there are
!> objects: `quo_context`, `quo_binding`, `quo_phase`, `quo_named_barrier` and `quo_memory`.
module quo
  ! Programs written for QUO rely on the kinds coming along.
  use, intrinsic :: iso_c_binding
  use quo_barrier_object
  use quo_binding_object
  use quo_bindings
  use quo_constants
  use quo_context_object
  use quo_contexts
  use quo_devices
  use quo_errors
  use quo_lending
  use quo_machine
  use quo_members
  use quo_memory_object
  use quo_memory_policy
  use quo_mpi_f08
  use quo_named_barriers
  use quo_phase_object
  use quo_phases
  use quo_ranks
  use quo_scopes
  use quo_together
  use quo_types
  use quo_xpm
  use quo_xpm_views
  implicit none
  public
end module quo
