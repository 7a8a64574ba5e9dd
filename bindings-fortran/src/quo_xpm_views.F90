!> Views of cross-process memory: as address and length, or as an array pointer of the type that the
!> caller passes. A pointer of rank 1 can be given a shape: `field(1:n, 1:m) => view`.
module quo_xpm_views
  use, intrinsic :: iso_c_binding, only: c_double, c_double_complex, c_f_pointer, c_float, &
    c_float_complex, c_int, c_int32_t, c_int64_t, c_int8_t, c_intptr_t, c_ptr, c_size_t
  use quo_c, only: c_xpm_view_by_qid, c_xpm_view_by_qid_range, c_xpm_view_local
  use quo_constants, only: QUO_SUCCESS
  use quo_text, only: refuse, sentence
  use quo_types, only: quo_xpm_view_t
  implicit none
  private

  public :: quo_xpm_view_by_qid, quo_xpm_view_by_qid_range, quo_xpm_view_local

  !> The caller's block: `call quo_xpm_view_local(xpm, view, ierr)`. Local.
  !>
  !> The view is a `type(quo_xpm_view_t)`, or a pointer to an array of rank 1 of
  !> `integer(c_int8_t)` (bytes), `integer(c_int32_t)`, `integer(c_int64_t)`, `real(c_float)`,
  !> `real(c_double)`, `complex(c_float_complex)` or `complex(c_double_complex)`. For a pointer,
  !> `QUO_ERR_INVLD_ARG` when the length of the block is no multiple of an element's, or the block
  !> begins where no such element may lie since blocks follow each other without gaps.
  interface quo_xpm_view_local
    module procedure local_raw
    module procedure local_int8
    module procedure local_int32
    module procedure local_int64
    module procedure local_real32
    module procedure local_real64
    module procedure local_complex32
    module procedure local_complex64
  end interface quo_xpm_view_local

  !> The block of one rank: `call quo_xpm_view_by_qid(xpm, qid, view, ierr)`. Local. As for
  !> [[quo_xpm_view_local]]; `QUO_ERR_INVLD_ARG` when that rank does not share the memory.
  interface quo_xpm_view_by_qid
    module procedure by_qid_raw
    module procedure by_qid_int8
    module procedure by_qid_int32
    module procedure by_qid_int64
    module procedure by_qid_real32
    module procedure by_qid_real64
    module procedure by_qid_complex32
    module procedure by_qid_complex64
  end interface quo_xpm_view_by_qid

  !> The blocks of a range of ranks, as one:
  !> `call quo_xpm_view_by_qid_range(xpm, qid_start, qid_end, view, ierr)`. Local. The last rank is
  !> included. As for [[quo_xpm_view_local]]; `QUO_ERR_INVLD_ARG` when the range is reversed or
  !> names a rank that does not share the memory.
  interface quo_xpm_view_by_qid_range
    module procedure range_raw
    module procedure range_int8
    module procedure range_int32
    module procedure range_int64
    module procedure range_real32
    module procedure range_real64
    module procedure range_complex32
    module procedure range_complex64
  end interface quo_xpm_view_by_qid_range

contains

  subroutine local_raw(xpm, view, ierr)
    type(c_ptr), value :: xpm
    type(quo_xpm_view_t), intent(out) :: view
    integer(c_int), intent(out) :: ierr
    ierr = c_xpm_view_local(xpm, view)
  end subroutine local_raw

  subroutine by_qid_raw(xpm, qid, view, ierr)
    type(c_ptr), value :: xpm
    integer(c_int), value :: qid
    type(quo_xpm_view_t), intent(out) :: view
    integer(c_int), intent(out) :: ierr
    ierr = c_xpm_view_by_qid(xpm, qid, view)
  end subroutine by_qid_raw

  subroutine range_raw(xpm, qid_start, qid_end, view, ierr)
    type(c_ptr), value :: xpm
    integer(c_int), value :: qid_start
    integer(c_int), value :: qid_end
    type(quo_xpm_view_t), intent(out) :: view
    integer(c_int), intent(out) :: ierr
    ierr = c_xpm_view_by_qid_range(xpm, qid_start, qid_end, view)
  end subroutine range_raw

  !> Number of elements of `bytes` bytes in a block, or its fault.
  subroutine count_elements(block, bytes, alignment, count, ierr)
    type(quo_xpm_view_t), intent(in) :: block
    integer(c_size_t), intent(in) :: bytes
    integer(c_size_t), intent(in) :: alignment
    integer(c_size_t), intent(out) :: count
    integer(c_int), intent(inout) :: ierr
    type(sentence) :: why
    integer(c_intptr_t) :: address
    count = 0
    if (ierr /= QUO_SUCCESS) return
    address = transfer(block%base, address)
    if (mod(block%extent, bytes) /= 0) then
      call why%say("quo_xpm_view: a block of ")
      call why%number(block%extent)
      call why%say(" bytes is no array of elements of ")
      call why%number(bytes)
      call why%say(" bytes")
      ierr = refuse(why)
    else if (block%extent > 0 .and. iand(address, int(alignment - 1, c_intptr_t)) /= 0) then
      call why%say("quo_xpm_view: the block does not begin at a multiple of ")
      call why%number(alignment)
      call why%say(" bytes: the blocks before it are of other lengths")
      ierr = refuse(why)
    else
      count = block%extent / bytes
    end if
  end subroutine count_elements

  ! One include per type: its name, the alignment of an element, and the names of its procedures.

#define ELEMENT integer(c_int8_t)
#define ALIGNMENT 1_c_size_t
#define AS_POINTER as_int8
#define LOCAL local_int8
#define BY_QID by_qid_int8
#define RANGE range_int8
#include "quo_xpm_views.inc"

#define ELEMENT integer(c_int32_t)
#define ALIGNMENT 4_c_size_t
#define AS_POINTER as_int32
#define LOCAL local_int32
#define BY_QID by_qid_int32
#define RANGE range_int32
#include "quo_xpm_views.inc"

#define ELEMENT integer(c_int64_t)
#define ALIGNMENT 8_c_size_t
#define AS_POINTER as_int64
#define LOCAL local_int64
#define BY_QID by_qid_int64
#define RANGE range_int64
#include "quo_xpm_views.inc"

#define ELEMENT real(c_float)
#define ALIGNMENT 4_c_size_t
#define AS_POINTER as_real32
#define LOCAL local_real32
#define BY_QID by_qid_real32
#define RANGE range_real32
#include "quo_xpm_views.inc"

#define ELEMENT real(c_double)
#define ALIGNMENT 8_c_size_t
#define AS_POINTER as_real64
#define LOCAL local_real64
#define BY_QID by_qid_real64
#define RANGE range_real64
#include "quo_xpm_views.inc"

#define ELEMENT complex(c_float_complex)
#define ALIGNMENT 4_c_size_t
#define AS_POINTER as_complex32
#define LOCAL local_complex32
#define BY_QID by_qid_complex32
#define RANGE range_complex32
#include "quo_xpm_views.inc"

#define ELEMENT complex(c_double_complex)
#define ALIGNMENT 8_c_size_t
#define AS_POINTER as_complex64
#define LOCAL local_complex64
#define BY_QID by_qid_complex64
#define RANGE range_complex64
#include "quo_xpm_views.inc"
end module quo_xpm_views
