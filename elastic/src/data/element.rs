//! Elements of arrays.
#![allow(unsafe_code)]

/// A type that can be copied to another process byte by byte: numbers, and structures of numbers
/// without gaps.
///
/// ```
/// #[repr(C)]
/// #[derive(Clone, Copy)]
/// struct Particle {
///     place: [f64; 3],
///     charge: f64,
/// }
/// // SAFETY: four numbers, without gaps.
/// unsafe impl elastic::data::Element for Particle {}
/// ```
///
/// # Safety
/// Any bytes are a value of the type, every byte of a value is initialised, and a value contains no
/// address. Its alignment is at most that of a page.
pub unsafe trait Element: Copy + 'static {}

macro_rules! elements {
    ($($number:ty),*) => {$(
        // SAFETY: a primitive number has no invalid bytes and no address.
        unsafe impl Element for $number {}
    )*};
}

elements!(u8, i8, u16, i16, u32, i32, u64, i64, u128, i128, usize, isize, f32, f64);

// SAFETY: elements without gaps between them.
unsafe impl<T: Element, const N: usize> Element for [T; N] {}

/// Returns the elements in these bytes, which begin at a page.
pub(super) fn elements<T: Element>(bytes: &[u8]) -> &[T] {
    // SAFETY: any bytes are elements.
    let (before, elements, _) = unsafe { bytes.align_to() };
    debug_assert!(before.is_empty(), "a page is aligned for everything");
    elements
}

/// Returns the elements as [`elements`] does, for writing.
pub(super) fn elements_mut<T: Element>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: any bytes are elements, and elements are initialised bytes.
    let (before, elements, _) = unsafe { bytes.align_to_mut() };
    debug_assert!(before.is_empty(), "a page is aligned for everything");
    elements
}
