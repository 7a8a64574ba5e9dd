!> The fields a run ends with: the file that `coupled-demo compare` reads, and a checksum of all bits.
module coupled_fields
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use flow_block, only: block_of_rows, conserved_values
  use flow_mesh, only: first_row, mesh
  use message_passing, only: ranks
  implicit none
  private
  public :: gather_fields, write_fields, checksum, total

  integer(int64), parameter :: half = int(z'ffffffff', int64)

contains

  !> All fields of the mesh on the first rank, by column, row and quantity; nothing on the others.
  !> Collective.
  subroutine gather_fields(part, all, fields)
    type(block_of_rows), intent(in) :: part
    type(ranks), intent(in) :: all
    real(real64), allocatable, intent(out) :: fields(:, :, :)
    real(real64) :: own(part%grid%nx, part%rows)
    integer :: counts(all%size), field, k

    associate (nx => part%grid%nx, ny => part%grid%ny)
      counts = [(nx * (first_row(ny, k, all%size) - first_row(ny, k - 1, all%size)), k=1, all%size)]
      allocate (fields(merge(nx, 0, all%rank == 0), merge(ny, 0, all%rank == 0), conserved_values))
      do field = 1, conserved_values
        own = part%conserved(1:nx, field, 1:part%rows)
        call all%gather(own, counts, fields(:, :, field))
      end do
    end associate
  end subroutine gather_fields

  !> Writes a field file; `status` is 0 or says with `message` that it could not be done.
  subroutine write_fields(file, fields, status, message)
    character(len=*), intent(in) :: file
    real(real64), intent(in) :: fields(:, :, :)
    integer, intent(out) :: status
    character(len=*), intent(inout) :: message
    integer :: unit

    open (newunit=unit, file=file, access='stream', form='unformatted', status='replace', &
      action='write', iostat=status, iomsg=message)
    if (status /= 0) return
    write (unit, iostat=status, iomsg=message) 'QUOFLD1', new_line('a'), &
      int(size(fields, 1), int64), int(size(fields, 2), int64), fields
    if (status == 0) close (unit, iostat=status, iomsg=message)
  end subroutine write_fields

  !> A checksum of all bits, in hexadecimal: the one of the Rust program (64-bit FNV-1a over the
  !> halves of the values' words). The hash is kept as two halves, since integers of Fortran must
  !> not overflow.
  pure character(len=16) function checksum(fields)
    real(real64), intent(in) :: fields(:, :, :)
    integer(int64) :: high, low, word
    integer :: i, j, field

    high = int(z'cbf29ce4', int64)
    low = int(z'84222325', int64)
    do field = 1, size(fields, 3)
      do j = 1, size(fields, 2)
        do i = 1, size(fields, 1)
          word = transfer(fields(i, j, field), word)
          call add(shiftr(word, 32), high, low)
          call add(iand(word, half), high, low)
        end do
      end do
    end do
    write (checksum, '(2z8.8)') high, low
    do i = 1, len(checksum)
      if (lge(checksum(i:i), 'A')) checksum(i:i) = achar(iachar(checksum(i:i)) + 32)
    end do
  end function checksum

  !> hash = (hash xor bits) * (2**40 + 435), modulo 2**64
  pure subroutine add(bits, high, low)
    integer(int64), intent(in) :: bits
    integer(int64), intent(inout) :: high, low
    integer(int64) :: product

    low = ieor(low, bits)
    product = low * 435
    high = iand(high * 435 + shiftr(product, 32) + shiftl(low, 8), half)
    low = iand(product, half)
  end subroutine add

  !> Sum of one field over all cells, row by row.
  pure real(real64) function total(field)
    real(real64), intent(in) :: field(:, :)
    real(real64) :: row
    integer :: i, j

    total = 0
    do j = 1, size(field, 2)
      row = 0
      do i = 1, size(field, 1)
        row = row + field(i, j)
      end do
      total = total + row
    end do
  end function total

end module coupled_fields
