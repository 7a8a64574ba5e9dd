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
  !> over `all`, whose blocks are in the order of ranks.
  subroutine fill_ghost_rows(part, all)
    type(block_of_rows), intent(inout) :: part
    type(ranks), intent(in) :: all

    call toward(edge_below, all%rank - 1, all%rank + 1)
    call toward(edge_above, all%rank + 1, all%rank - 1)

  contains

    !> Tells the rank `to`, beyond `edge`, of our row there, and hears of that of the rank `from`.
    subroutine toward(edge, to, from)
      integer, intent(in) :: edge, to, from
      real(real64) :: message(part%grid%nx, conserved_values), answer(part%grid%nx, conserved_values)
      integer :: opposite

      opposite = edge_below + edge_above - edge
      call part%pack_edge(edge, message)
      call all%exchange(message, to, answer, from)
      if (from >= 0 .and. from < all%size) then
        call part%unpack_edge(opposite, answer)
      else
        call part%wall(opposite)
      end if
    end subroutine toward

  end subroutine fill_ghost_rows

end module flow_halo
