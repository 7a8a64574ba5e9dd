!> Devices of the node, without GPUs that the environment hides from the caller. All procedures but
!> [[quo_assign_device]] are local.
module quo_devices
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_null_ptr, c_ptr
  use quo_text, only: take_text, truth
  implicit none
  private

  public :: quo_assign_device, quo_device, quo_device_in_type, quo_device_is_near, quo_ndevices, &
    quo_visible_devices

  interface
    function c_ndevices(q, kind, out_ndevices) result(ierr) bind(c, name="QUO_ndevices")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: kind
      integer(c_int), intent(inout) :: out_ndevices
      integer(c_int) :: ierr
    end function c_ndevices

    function c_device(q, kind, index, out_bus, out_list) result(ierr) bind(c, name="QUO_device")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: kind
      integer(c_int), value :: index
      type(c_ptr), intent(inout) :: out_bus
      type(c_ptr), intent(inout) :: out_list
      integer(c_int) :: ierr
    end function c_device

    function c_device_is_near(q, kind, index, out_near) result(ierr) &
      bind(c, name="QUO_device_is_near")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: kind
      integer(c_int), value :: index
      integer(c_int), intent(inout) :: out_near
      integer(c_int) :: ierr
    end function c_device_is_near

    function c_device_in_type(q, kind, index, type, in_type_index, out_near) result(ierr) &
      bind(c, name="QUO_device_in_type")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: kind
      integer(c_int), value :: index
      integer(c_int), value :: type
      integer(c_int), value :: in_type_index
      integer(c_int), intent(inout) :: out_near
      integer(c_int) :: ierr
    end function c_device_in_type

    function c_assign_device(q, kind, out_index) result(ierr) bind(c, name="QUO_assign_device")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: kind
      integer(c_int), intent(inout) :: out_index
      integer(c_int) :: ierr
    end function c_assign_device

    function c_visible_devices(q, gpu, out_variables) result(ierr) &
      bind(c, name="QUO_visible_devices")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: q
      integer(c_int), value :: gpu
      type(c_ptr), intent(inout) :: out_variables
      integer(c_int) :: ierr
    end function c_visible_devices
  end interface

contains

  !> Counts the devices of a kind. Local.
  subroutine quo_ndevices(q, kind, n, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> One of `QUO_DEVICE_...`.
    integer(c_int), value :: kind
    !> Their number; 0 when the machine has none.
    integer(c_int), intent(out) :: n
    !> `QUO_ERR_INVLD_ARG` for an unknown kind.
    integer(c_int), intent(out) :: ierr
    n = 0
    ierr = c_ndevices(q, kind, n)
  end subroutine quo_ndevices

  !> Returns a device's place on the bus and the CPUs near it. Local.
  subroutine quo_device(q, kind, index, bus, list, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> One of `QUO_DEVICE_...`.
    integer(c_int), value :: kind
    !> Index of the device, from 0, in the order of the bus.
    integer(c_int), value :: index
    !> Its place, such as `0000:3b:00.0`.
    character(len=:, kind=c_char), allocatable, intent(out) :: bus
    !> CPUs near it, as a list such as `0-3,8`; the whole machine where the system does not report
    !> nearness.
    character(len=:, kind=c_char), allocatable, intent(out) :: list
    !> `QUO_ERR_INVLD_ARG` when there is no such device; `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: place, cpus
    place = c_null_ptr
    cpus = c_null_ptr
    ierr = c_device(q, kind, index, place, cpus)
    call take_text(place, bus, ierr)
    call take_text(cpus, list, ierr)
  end subroutine quo_device

  !> Returns whether a device is near a CPU that the caller is bound to. Local.
  subroutine quo_device_is_near(q, kind, index, near, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> One of `QUO_DEVICE_...`.
    integer(c_int), value :: kind
    !> Index of the device.
    integer(c_int), value :: index
    !> True if it is.
    logical, intent(out) :: near
    !> `QUO_ERR_INVLD_ARG` when there is no such device.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_device_is_near(q, kind, index, answer)
    near = truth(answer)
  end subroutine quo_device_is_near

  !> Returns whether a device is near an object, such as a NUMA node. Local.
  subroutine quo_device_in_type(q, kind, index, obj_type, type_index, near, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> One of `QUO_DEVICE_...`.
    integer(c_int), value :: kind
    !> Index of the device.
    integer(c_int), value :: index
    !> Type of the object.
    integer(c_int), value :: obj_type
    !> Index of the object, from 0.
    integer(c_int), value :: type_index
    !> True if they have a near CPU in common.
    logical, intent(out) :: near
    !> `QUO_ERR_INVLD_ARG` when there is no such device or object.
    integer(c_int), intent(out) :: ierr
    integer(c_int) :: answer
    answer = 0
    ierr = c_device_in_type(q, kind, index, obj_type, type_index, answer)
    near = truth(answer)
  end subroutine quo_device_in_type

  !> Distributes the devices of a kind over the ranks of the node: the numbers of ranks per device
  !> differ by one at most, and within that limit near devices come first. Nothing is bound or
  !> hidden. Collective over the node.
  subroutine quo_assign_device(q, kind, index, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> One of `QUO_DEVICE_...`; the same on every rank.
    integer(c_int), value :: kind
    !> Index of the caller's device; -1 when there is none.
    integer(c_int), intent(out) :: index
    !> `QUO_ERR_INVLD_ARG` for an unknown kind, `QUO_ERR_DISAGREE`.
    integer(c_int), intent(out) :: ierr
    index = -1
    ierr = c_assign_device(q, kind, index)
  end subroutine quo_assign_device

  !> Writes the environment variables by which a program that is started with them sees one GPU only.
  !> Local; nothing is set.
  subroutine quo_visible_devices(q, gpu, variables, ierr)
    !> A context.
    type(c_ptr), value :: q
    !> Index of the GPU.
    integer(c_int), value :: gpu
    !> The variables with a space between them, such as
    !> `CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1`.
    character(len=:, kind=c_char), allocatable, intent(out) :: variables
    !> `QUO_ERR_INVLD_ARG` when there is no such GPU; `QUO_ERR_OOR`.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: text
    text = c_null_ptr
    ierr = c_visible_devices(q, gpu, text)
    call take_text(text, variables, ierr)
  end subroutine quo_visible_devices
end module quo_devices
