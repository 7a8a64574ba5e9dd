!> Places and bindings of ranks. All procedures are local; they ask the kernel for bindings each
!> time, so the answers are current.
module quo_ranks
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_null_ptr, c_ptr
  use quo_c, only: c_bound, c_cpuset_in_type, c_explain, c_id, c_nqids, c_qids_in_type, &
    c_stringify_cbind, c_stringify_cbind_of
  use quo_text, only: take_list, take_text, truth
  implicit none
  private

  public :: quo_bound, quo_cpuset_in_type, quo_explain, quo_id, quo_nqids, quo_qids_in_type, &
    quo_stringify_cbind, quo_stringify_cbind_of

contains

  !> Counts the context's ranks on the caller's node, with the caller. Local.
  subroutine quo_nqids(q, n, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Their number.
    integer(c_int), intent(out) :: n
    !> Return code.
    integer(c_int), intent(out) :: ierr
    n = 0
    ierr = c_nqids(q, n)
  end subroutine quo_nqids

  !> Returns the caller's qid: its number among the context's ranks on the same node. Local.
  subroutine quo_id(q, n, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> 0 to `quo_nqids` - 1, in the order of the ranks in the communicator.
    integer(c_int), intent(out) :: n
    !> Return code.
    integer(c_int), intent(out) :: ierr
    n = -1
    ierr = c_id(q, n)
  end subroutine quo_id

  !> Returns whether the caller's binding shares a CPU with an object. A rank that may run anywhere is
  !> in every object. Local.
  subroutine quo_cpuset_in_type(q, obj_type, type_index, oresult, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Type of the object.
    integer(c_int), value :: obj_type
    !> Index of the object, from 0.
    integer(c_int), value :: type_index
    !> True if it does.
    logical, intent(out) :: oresult
    !> `QUO_ERR_INVLD_ARG` for an unknown type, or when there is no object with that index;
    !> `QUO_ERR_SYS`.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_cpuset_in_type(q, obj_type, type_index, answer)
    oresult = truth(answer)
  end subroutine quo_cpuset_in_type

  !> Lists the ranks of the node whose binding shares a CPU with an object. Local.
  subroutine quo_qids_in_type(q, obj_type, type_index, qids, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Type of the object.
    integer(c_int), value :: obj_type
    !> Index of the object, from 0.
    integer(c_int), value :: type_index
    !> Their qids, ascending; of size 0 when there is none.
    integer(c_int), allocatable, intent(out) :: qids(:)
    !> `QUO_ERR_INVLD_ARG` for an unknown type, or when there is no object with that index;
    !> `QUO_ERR_DEAD_MEMBER` when a rank of the node is gone; `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: count
    type(c_ptr) :: list
    count = 0
    list = c_null_ptr
    ierr = c_qids_in_type(q, obj_type, type_index, count, list)
    call take_list(list, count, qids, ierr)
  end subroutine quo_qids_in_type

  !> Returns whether the caller is bound: whether its binding leaves out CPUs that its control group
  !> (container, job step) lets it use. A process that may use one CPU only is never bound. Local.
  subroutine quo_bound(q, bound, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> True if it is.
    logical, intent(out) :: bound
    !> `QUO_ERR_SYS` when the kernel refuses to answer.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_bound(q, answer)
    bound = truth(answer)
  end subroutine quo_bound

  !> Returns the caller's binding as text. Local.
  subroutine quo_stringify_cbind(q, cbind_str, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Physical CPU numbers as a list such as `0-3,8`.
    character(len=:, kind=c_char), allocatable, intent(out) :: cbind_str
    !> `QUO_ERR_SYS`, `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: text
    text = c_null_ptr
    ierr = c_stringify_cbind(q, text)
    call take_text(text, cbind_str, ierr)
  end subroutine quo_stringify_cbind

  !> Returns the binding of a rank of the caller's node as text. Local.
  subroutine quo_stringify_cbind_of(q, qid, cbind_str, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> 0 to `quo_nqids` - 1.
    integer(c_int), value :: qid
    !> As for [[quo_stringify_cbind]].
    character(len=:, kind=c_char), allocatable, intent(out) :: cbind_str
    !> `QUO_ERR_INVLD_ARG` when there is no such qid, `QUO_ERR_DEAD_MEMBER` when that rank is gone;
    !> otherwise as [[quo_stringify_cbind]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: text
    text = c_null_ptr
    ierr = c_stringify_cbind_of(q, qid, text)
    call take_text(text, cbind_str, ierr)
  end subroutine quo_stringify_cbind_of

  !> Explains the bindings of the node: what is bound where, by what, and why, read back from the
  !> kernel. The text says so when the machine is simulated. Local.
  subroutine quo_explain(q, json, text, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> False: text for people, in lines that end with `new_line('a')`; true: one JSON object.
    logical, intent(in) :: json
    !> The explanation.
    character(len=:, kind=c_char), allocatable, intent(out) :: text
    !> `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: explanation
    explanation = c_null_ptr
    ierr = c_explain(q, merge(1_c_int, 0_c_int, json), explanation)
    call take_text(explanation, text, ierr)
  end subroutine quo_explain
end module quo_ranks
