!> The ranks of a run and their messages: the only file that depends on the MPI module.
!> `COUPLED_NO_MPI_F08` stands for an MPI without the module mpi_f08.
module message_passing
  use, intrinsic :: iso_fortran_env, only: real64
#ifdef COUPLED_NO_MPI_F08
  use mpi
#else
  use mpi_f08
#endif
  implicit none
  private

#ifdef COUPLED_NO_MPI_F08
#define COMMUNICATOR integer
#define REQUEST integer
#else
#define COMMUNICATOR type(MPI_Comm)
#define REQUEST type(MPI_Request)
#endif

  !> Some ranks, in an order.
  type, public :: ranks
    COMMUNICATOR :: communicator = MPI_COMM_NULL !! as the MPI module in use has it
    integer :: rank = 0 !! of the caller, from 0
    integer :: size = 0 !! how many there are; 0 on ranks that are not among them
  contains
    procedure :: handle
    procedure :: exchange
    procedure :: largest
    procedure :: worst
    procedure :: total
    procedure :: all_of
    procedure :: told_by_first
    procedure :: tell_first
    procedure :: gather
    procedure :: barrier
    procedure :: among
    procedure :: free
  end type ranks

  public :: start, finish, by_node

contains

  !> Initialises MPI and returns all ranks.
  subroutine start(world)
    type(ranks), intent(out) :: world
    integer :: provided, ierr

    call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierr)
    call MPI_Comm_dup(MPI_COMM_WORLD, world%communicator, ierr)
    call look(world)
  end subroutine start

  !> Finalises MPI.
  subroutine finish()
    integer :: ierr

    call MPI_Finalize(ierr)
  end subroutine finish

  !> The ranks of `world` in an order in which those of a node are consecutive, so that the blocks
  !> of a node's ranks are contiguous rows; and the ranks of the caller's node. Collective.
  subroutine by_node(world, ordered, node)
    type(ranks), intent(in) :: world
    type(ranks), intent(out) :: ordered, node
    integer :: heads(world%size), head, ierr

    call MPI_Comm_split_type(world%communicator, MPI_COMM_TYPE_SHARED, world%rank, MPI_INFO_NULL, &
      node%communicator, ierr)
    call look(node)
    head = world%rank
    call MPI_Bcast(head, 1, MPI_INTEGER, 0, node%communicator, ierr)
    call MPI_Allgather(head, 1, MPI_INTEGER, heads, 1, MPI_INTEGER, world%communicator, ierr)
    ! Ranks on earlier nodes come first, then the ranks of this node.
    call MPI_Comm_split(world%communicator, 0, count(heads < head) + node%rank, ordered%communicator, ierr)
    call look(ordered)
  end subroutine by_node

  subroutine look(self)
    type(ranks), intent(inout) :: self
    integer :: ierr

    if (self%communicator == MPI_COMM_NULL) return
    call MPI_Comm_rank(self%communicator, self%rank, ierr)
    call MPI_Comm_size(self%communicator, self%size, ierr)
  end subroutine look

  !> The communicator as an integer, which every MPI module and C can take.
  pure integer function handle(self)
    class(ranks), intent(in) :: self

#ifdef COUPLED_NO_MPI_F08
    handle = self%communicator
#else
    handle = self%communicator%MPI_VAL
#endif
  end function handle

  !> Sends a message each to the ranks before and after the caller, and fills the answers from
  !> theirs. At the ends there is no neighbour, and the answer is unchanged.
  subroutine exchange(self, to_before, from_before, to_after, from_after)
    class(ranks), intent(in) :: self
    real(real64), intent(in), contiguous, asynchronous :: to_before(:, :), to_after(:, :)
    real(real64), intent(inout), contiguous, asynchronous :: from_before(:, :), from_after(:, :)
    REQUEST :: requests(4)
    integer :: before, after, ierr

    before = merge(self%rank - 1, MPI_PROC_NULL, self%rank > 0)
    after = merge(self%rank + 1, MPI_PROC_NULL, self%rank + 1 < self%size)
    call MPI_Irecv(from_before, size(from_before), MPI_DOUBLE_PRECISION, before, 0, &
      self%communicator, requests(1), ierr)
    call MPI_Irecv(from_after, size(from_after), MPI_DOUBLE_PRECISION, after, 0, &
      self%communicator, requests(2), ierr)
    call MPI_Isend(to_before, size(to_before), MPI_DOUBLE_PRECISION, before, 0, &
      self%communicator, requests(3), ierr)
    call MPI_Isend(to_after, size(to_after), MPI_DOUBLE_PRECISION, after, 0, &
      self%communicator, requests(4), ierr)
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierr)
  end subroutine exchange

  !> The largest of all ranks' values. Collective.
  real(real64) function largest(self, value)
    class(ranks), intent(in) :: self
    real(real64), intent(in) :: value
    integer :: ierr

    call MPI_Allreduce(value, largest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, self%communicator, ierr)
  end function largest

  !> The largest of all ranks' codes. Collective.
  integer function worst(self, code)
    class(ranks), intent(in) :: self
    integer, intent(in) :: code
    integer :: ierr

    call MPI_Allreduce(code, worst, 1, MPI_INTEGER, MPI_MAX, self%communicator, ierr)
  end function worst

  !> The sum of all ranks' numbers. Collective.
  integer function total(self, number)
    class(ranks), intent(in) :: self
    integer, intent(in) :: number
    integer :: ierr

    call MPI_Allreduce(number, total, 1, MPI_INTEGER, MPI_SUM, self%communicator, ierr)
  end function total

  !> Gathers the numbers of all ranks, by rank. Collective.
  function all_of(self, number) result(numbers)
    class(ranks), intent(in) :: self
    integer, intent(in) :: number
    integer :: numbers(0:self%size - 1)
    integer :: ierr

    call MPI_Allgather(number, 1, MPI_INTEGER, numbers, 1, MPI_INTEGER, self%communicator, ierr)
  end function all_of

  !> Broadcasts the first rank's lines; every rank has the same number of them. Collective.
  subroutine told_by_first(self, lines)
    class(ranks), intent(in) :: self
    character(len=*), intent(inout), contiguous :: lines(:)
    integer :: ierr

    call MPI_Bcast(lines, len(lines) * size(lines), MPI_CHARACTER, 0, self%communicator, ierr)
  end subroutine told_by_first

  !> Gathers the lines of all ranks on the first rank, by rank. Collective; `lines` matters there
  !> only.
  subroutine tell_first(self, line, lines)
    class(ranks), intent(in) :: self
    character(len=*), intent(in) :: line
    character(len=*), intent(inout), contiguous :: lines(:)
    integer :: ierr

    call MPI_Gather(line, len(line), MPI_CHARACTER, lines, len(line), MPI_CHARACTER, 0, &
      self%communicator, ierr)
  end subroutine tell_first

  !> Gathers the values of all ranks on the first rank, `counts(rank)` from each, in the order of
  !> ranks. Collective; `everything` matters on the first rank only.
  subroutine gather(self, own, counts, everything)
    class(ranks), intent(in) :: self
    real(real64), intent(in), contiguous :: own(:, :)
    integer, intent(in) :: counts(:)
    real(real64), intent(inout), contiguous :: everything(:, :)
    integer :: starts(self%size), k, ierr

    starts = [(sum(counts(:k - 1)), k=1, self%size)]
    call MPI_Gatherv(own, size(own), MPI_DOUBLE_PRECISION, everything, counts, starts, &
      MPI_DOUBLE_PRECISION, 0, self%communicator, ierr)
  end subroutine gather

  !> Waits for all. Collective.
  subroutine barrier(self)
    class(ranks), intent(in) :: self
    integer :: ierr

    call MPI_Barrier(self%communicator, ierr)
  end subroutine barrier

  !> The ranks that say `member`, in the same order; none on the others. Collective.
  subroutine among(self, member, members)
    class(ranks), intent(in) :: self
    logical, intent(in) :: member
    type(ranks), intent(out) :: members
    integer :: ierr

    call MPI_Comm_split(self%communicator, merge(0, MPI_UNDEFINED, member), self%rank, &
      members%communicator, ierr)
    call look(members)
  end subroutine among

  !> Gives the communicator back. Collective over its ranks.
  subroutine free(self)
    class(ranks), intent(inout) :: self
    integer :: ierr

    if (self%communicator /= MPI_COMM_NULL) call MPI_Comm_free(self%communicator, ierr)
    self%size = 0
  end subroutine free

end module message_passing
