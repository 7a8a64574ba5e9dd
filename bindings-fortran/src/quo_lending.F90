!> CPUs of waiting ranks, lent to threaded ones. All procedures are local and never wait.
module quo_lending
  use, intrinsic :: iso_c_binding, only: c_int, c_ptr
  use quo_text, only: truth
  implicit none
  private

  public :: quo_borrow, quo_borrow_wanted, quo_give_back, quo_lend, quo_lenders, quo_reclaim

  interface
    function c_lend(q) result(ierr) bind(c, name="QUO_lend")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int) :: ierr
    end function c_lend

    function c_reclaim(q) result(ierr) bind(c, name="QUO_reclaim")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int) :: ierr
    end function c_reclaim

    function c_borrow(q, out_borrowed, out_threads) result(ierr) bind(c, name="QUO_borrow")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: out_borrowed
      integer(c_int), intent(inout) :: out_threads
      integer(c_int) :: ierr
    end function c_borrow

    function c_borrow_wanted(q, out_wanted) result(ierr) bind(c, name="QUO_borrow_wanted")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: out_wanted
      integer(c_int) :: ierr
    end function c_borrow_wanted

    function c_lenders(q, out_lenders) result(ierr) bind(c, name="QUO_lenders")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), intent(inout) :: out_lenders
      integer(c_int) :: ierr
    end function c_lenders

    function c_give_back(q) result(ierr) bind(c, name="QUO_give_back")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int) :: ierr
    end function c_give_back
  end interface

contains

  !> Lends the caller's CPUs to other ranks of its node until [[quo_reclaim]]. To be called before a
  !> wait that uses next to no CPU, such as one for another component. Local.
  subroutine quo_lend(q, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> `QUO_SUCCESS_ALREADY_DONE` when the caller lends already, `QUO_ERR_DETACHED`.
    integer(c_int), intent(out) :: ierr
    ierr = c_lend(q)
  end subroutine quo_lend

  !> Takes the caller's CPUs back, without waiting for a rank that has borrowed them: until that rank
  !> looks with [[quo_borrow_wanted]] and gives back, both run on the same CPUs. Local.
  subroutine quo_reclaim(q, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> `QUO_SUCCESS_ALREADY_DONE` when the caller lends nothing.
    integer(c_int), intent(out) :: ierr
    ierr = c_reclaim(q)
  end subroutine quo_reclaim

  !> Borrows the CPUs that waiting ranks of the node lend, and binds the caller to its own CPUs and
  !> these, as a push does. With nothing to borrow nothing is bound. Local.
  subroutine quo_borrow(q, borrowed, threads, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Number of CPUs that were borrowed, may be 0.
    integer(c_int), intent(out) :: borrowed
    !> Number of threads that fills the caller's own CPUs and these.
    integer(c_int), intent(out) :: threads
    !> `QUO_ERR_BUSY` when the caller has borrowed and not given back, `QUO_ERR_DETACHED`.
    integer(c_int), intent(out) :: ierr
    borrowed = 0
    threads = 1
    ierr = c_borrow(q, borrowed, threads)
  end subroutine quo_borrow

  !> Returns true in `wanted` if a rank that the caller borrowed from has taken its CPUs back. Local.
  subroutine quo_borrow_wanted(q, wanted, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> True if the caller should give back; false when it has borrowed nothing.
    logical, intent(out) :: wanted
    !> Return code.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_borrow_wanted(q, answer)
    wanted = truth(answer)
  end subroutine quo_borrow_wanted

  !> Counts the other ranks of the node that lend now, whether or not their CPUs are borrowed.
  !> Local.
  subroutine quo_lenders(q, lenders, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Number of ranks, without the caller.
    integer(c_int), intent(out) :: lenders
    !> Return code.
    integer(c_int), intent(out) :: ierr
    lenders = 0
    ierr = c_lenders(q, lenders)
  end subroutine quo_lenders

  !> Gives everything back that [[quo_borrow]] got, and undoes its push. Local.
  subroutine quo_give_back(q, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> `QUO_SUCCESS_ALREADY_DONE` when the caller has borrowed nothing, `QUO_ERR_BUSY` when bindings
    !> that were pushed since have not been popped.
    integer(c_int), intent(out) :: ierr
    ierr = c_give_back(q)
  end subroutine quo_give_back
end module quo_lending
