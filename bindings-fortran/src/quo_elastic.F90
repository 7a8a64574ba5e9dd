!> The elastic world: a job has more or fewer ranks while it runs. quo-elastic.h has the whole text of each
!> procedure; the rules of `quo_errors` hold. All ranks of the world make *collective* calls in the
!> same order.
module quo_elastic
  use quo_elastic_types
  use quo_world
  use quo_world_requests, not_for_programs => forget_events
  use quo_world_arrays
  use quo_world_matrices
  use quo_world_lists
  use quo_world_checkpoints
  use quo_psets
  implicit none
  public
  private :: not_for_programs
end module quo_elastic
