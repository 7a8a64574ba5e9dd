!> Exchange of ghost rows between ranks.
module flow_halo
  use, intrinsic :: iso_fortran_env, only: real64
  use flow_block, only: block_of_rows, conserved_values, edge_above, edge_below
  use message_passing, only: ranks
  implicit none
  private
  public :: fill_ghost_rows

contains

  !> Fills the ghost rows of `part` from the ranks below and above, walls at the ends. Collective
  !> over `all`, with blocks in the order of ranks.
  subroutine fill_ghost_rows(part, all)
    type(block_of_rows), intent(inout) :: part
    type(ranks), intent(in) :: all

    real(real64), dimension(part%grid%nx, conserved_values) :: down, up, from_below, from_above

    call part%pack_edge(edge_below, down)
    call part%pack_edge(edge_above, up)
    call all%exchange(down, from_below, up, from_above)
    if (all%rank > 0) then
      call part%unpack_edge(edge_below, from_below)
    else
      call part%wall(edge_below)
    end if
    if (all%rank + 1 < all%size) then
      call part%unpack_edge(edge_above, from_above)
    else
      call part%wall(edge_above)
    end if
  end subroutine fill_ghost_rows

end module flow_halo
