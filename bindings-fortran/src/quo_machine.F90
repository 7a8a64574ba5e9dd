!> Objects of the machine. All procedures are local and count the objects of the caller's node.
module quo_machine
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_null_ptr, c_ptr
  use quo_c, only: c_core_kind, c_cpuset_of_type, c_ncore_kinds, c_ncores, c_nnodes, c_nnumanodes, c_nobjs_by_type, &
    c_nobjs_in_type_by_type, c_npus, c_nsockets
  use quo_text, only: take_text
  implicit none
  private

  public :: quo_core_kind, quo_cpuset_of_type, quo_ncore_kinds, quo_ncores, quo_nnodes, quo_nnumanodes, quo_nobjs_by_type, &
    quo_nobjs_in_type_by_type, quo_npus, quo_nsockets

contains

  !> Counts the objects of a type. Local.
  subroutine quo_nobjs_by_type(q, target_type, out_nobjs, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> One of `QUO_OBJ_...`.
    integer(c_int), value :: target_type
    !> Their number; 0 when the machine has none.
    integer(c_int), intent(out) :: out_nobjs
    !> `QUO_ERR_INVLD_ARG` for an unknown type.
    integer(c_int), intent(out) :: ierr
    out_nobjs = 0
    ierr = c_nobjs_by_type(q, target_type, out_nobjs)
  end subroutine quo_nobjs_by_type

  !> Counts the objects of one type inside an object of another, for example the cores of a package.
  !> An object is inside another when all of its CPUs are. Local.
  subroutine quo_nobjs_in_type_by_type(q, in_type, type_index, obj_type, oresult, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Type of the outer object.
    integer(c_int), value :: in_type
    !> Index of the outer object, from 0.
    integer(c_int), value :: type_index
    !> Type of the objects to count.
    integer(c_int), value :: obj_type
    !> Their number.
    integer(c_int), intent(out) :: oresult
    !> `QUO_ERR_INVLD_ARG` for an unknown type, or when there is no object with that index.
    integer(c_int), intent(out) :: ierr
    oresult = 0
    ierr = c_nobjs_in_type_by_type(q, in_type, type_index, obj_type, oresult)
  end subroutine quo_nobjs_in_type_by_type

  !> Returns the CPUs of an object. Local.
  subroutine quo_cpuset_of_type(q, obj_type, type_index, list, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Type of the object.
    integer(c_int), value :: obj_type
    !> Index of the object, from 0.
    integer(c_int), value :: type_index
    !> Physical CPU numbers as a list such as `0-3,8`; empty for a NUMA node without CPUs.
    character(len=:, kind=c_char), allocatable, intent(out) :: list
    !> `QUO_ERR_INVLD_ARG` for an unknown type, or when there is no object with that index;
    !> `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: text
    text = c_null_ptr
    ierr = c_cpuset_of_type(q, obj_type, type_index, text)
    call take_text(text, list, ierr)
  end subroutine quo_cpuset_of_type

  !> Counts the kinds of cores: more than 1 on a hybrid processor with fast and slow ones. Local.
  subroutine quo_ncore_kinds(q, n, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Number of kinds, at least 1.
    integer(c_int), intent(out) :: n
    !> Return code.
    integer(c_int), intent(out) :: ierr
    n = 0
    ierr = c_ncore_kinds(q, n)
  end subroutine quo_ncore_kinds

  !> Returns the CPUs and the speed of a kind of cores. Local.
  subroutine quo_core_kind(q, kind_index, speed, list, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Index of the kind, from 0, the slowest.
    integer(c_int), value :: kind_index
    !> Speed of a core relative to the other kinds: the kernel's capacity of a CPU, or the highest
    !> frequency in MHz; 0 where unknown.
    integer(c_int), intent(out) :: speed
    !> Physical CPU numbers as a list such as `0-3,8`.
    character(len=:, kind=c_char), allocatable, intent(out) :: list
    !> `QUO_ERR_INVLD_ARG` when there is no kind with that index; `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: text
    text = c_null_ptr
    speed = 0
    ierr = c_core_kind(q, kind_index, speed, text)
    call take_text(text, list, ierr)
  end subroutine quo_core_kind

  !> Counts the NUMA nodes. Local.
  subroutine quo_nnumanodes(q, n, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Their number.
    integer(c_int), intent(out) :: n
    !> Return code.
    integer(c_int), intent(out) :: ierr
    n = 0
    ierr = c_nnumanodes(q, n)
  end subroutine quo_nnumanodes

  !> Counts the packages. Local.
  subroutine quo_nsockets(q, n, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Their number.
    integer(c_int), intent(out) :: n
    !> Return code.
    integer(c_int), intent(out) :: ierr
    n = 0
    ierr = c_nsockets(q, n)
  end subroutine quo_nsockets

  !> Counts the cores. Local.
  subroutine quo_ncores(q, n, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Their number.
    integer(c_int), intent(out) :: n
    !> Return code.
    integer(c_int), intent(out) :: ierr
    n = 0
    ierr = c_ncores(q, n)
  end subroutine quo_ncores

  !> Counts the processing units (hardware threads). Local.
  subroutine quo_npus(q, n, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Their number.
    integer(c_int), intent(out) :: n
    !> Return code.
    integer(c_int), intent(out) :: ierr
    n = 0
    ierr = c_npus(q, n)
  end subroutine quo_npus

  !> Counts the nodes of the context: machines, not NUMA nodes. Local.
  subroutine quo_nnodes(q, n, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Their number.
    integer(c_int), intent(out) :: n
    !> Return code.
    integer(c_int), intent(out) :: ierr
    n = 0
    ierr = c_nnodes(q, n)
  end subroutine quo_nnodes
end module quo_machine
