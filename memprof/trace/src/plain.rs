//! Structures with a fixed offset for every field, and their conversion to bytes.

use std::fmt;

/// A value of fixed size, little endian in files whatever the machine.
pub(crate) trait Field: Copy {
    const SIZE: usize;
    /// Writes to the first `SIZE` bytes of `out`.
    fn put(&self, out: &mut [u8]);
    /// Reads the first `SIZE` bytes of `bytes`.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! integer_field {
    ($($type:ty),*) => {$(
        impl Field for $type {
            const SIZE: usize = size_of::<$type>();
            #[inline]
            fn put(&self, out: &mut [u8]) {
                out[..Self::SIZE].copy_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn get(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$type>()];
                own.copy_from_slice(&bytes[..Self::SIZE]);
                <$type>::from_le_bytes(own)
            }
        }
    )*};
}

integer_field!(u8, u16, u32, u64, i32);

impl<T: Field + Default, const N: usize> Field for [T; N] {
    const SIZE: usize = N * T::SIZE;
    #[inline]
    fn put(&self, out: &mut [u8]) {
        for (value, place) in self.iter().zip(out.chunks_exact_mut(T::SIZE)) {
            value.put(place);
        }
    }
    #[inline]
    fn get(bytes: &[u8]) -> Self {
        let mut own = [T::default(); N];
        for (value, place) in own.iter_mut().zip(bytes.chunks_exact(T::SIZE)) {
            *value = T::get(place);
        }
        own
    }
}

/// Text of at most `N` bytes, padded with zeros. It holds no zero byte and, made from a `str`, is
/// never cut inside a character.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// Returns the beginning of `text`, as much as fits.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut end = text.len().min(N);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self::bytes(&text.as_bytes()[..end])
    }

    /// Returns the beginning of `bytes`, up to the first zero byte: for names that may not be
    /// UTF-8.
    #[must_use]
    pub fn bytes(bytes: &[u8]) -> Self {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()).min(N);
        let mut own = [0; N];
        own[..end].copy_from_slice(&bytes[..end]);
        Self(own)
    }

    /// Returns the path; only its end, after `...`, if it is too long: file names are more
    /// informative than top folders.
    #[must_use]
    pub fn path(path: &[u8]) -> Self {
        let path = &path[..path.iter().position(|byte| *byte == 0).unwrap_or(path.len())];
        if path.len() <= N || N < 4 {
            return Self::bytes(path);
        }
        let mut own = [b'.'; N];
        own[3..].copy_from_slice(&path[path.len() - (N - 3)..]);
        Self(own)
    }

    /// Returns the bytes without the padding.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(N);
        &self.0[..end]
    }

    /// Returns true if there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> From<&str> for Text<N> {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// Bytes that are not UTF-8 are shown as replacement characters, control characters as `?`: the
/// text of a file must not control a terminal.
impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for chunk in self.as_bytes().utf8_chunks() {
            for character in chunk.valid().chars() {
                out.write_char(if character.is_control() { '?' } else { character })?;
            }
            if !chunk.invalid().is_empty() {
                out.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "\"{self}\"")
    }
}

impl<const N: usize> Field for Text<N> {
    const SIZE: usize = N;
    #[inline]
    fn put(&self, out: &mut [u8]) {
        out[..N].copy_from_slice(&self.0);
    }
    #[inline]
    fn get(bytes: &[u8]) -> Self {
        Self::bytes(&bytes[..N])
    }
}

/// Position of a field: name, first byte, number of bytes.
pub type FieldPlace = (&'static str, usize, usize);

/// Declares a structure whose fields are at the given offsets; a gap, an overlap or a wrong total
/// does not compile.
macro_rules! plain {
    (
        $(#[$meta:meta])*
        pub struct $name:ident [$total:literal] {
            $( $(#[$field_meta:meta])* $offset:literal $field:ident : $type:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[allow(missing_docs, reason = "a field that has no line is what its name says")]
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $name {
            /// Bytes in a file.
            pub const SIZE: usize = $total;

            /// Every field, in the order of its bytes.
            pub const FIELDS: &'static [$crate::plain::FieldPlace] = &[
                $( (stringify!($field), $offset, <$type as $crate::plain::Field>::SIZE), )*
            ];

            /// Types of these fields, as declared.
            pub const TYPES: &'static [&'static str] = &[ $( stringify!($type), )* ];

            /// Returns the bytes as in a file.
            #[must_use]
            pub fn to_bytes(&self) -> [u8; $total] {
                let mut out = [0; $total];
                $( $crate::plain::Field::put(&self.$field, &mut out[$offset..]); )*
                out
            }

            /// Reads the structure from a file; returns `None` if there are too few bytes.
            #[must_use]
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                Some($crate::plain::Field::get(bytes.get(..$total)?))
            }
        }

        impl $crate::plain::Field for $name {
            const SIZE: usize = $total;
            #[inline]
            fn put(&self, out: &mut [u8]) {
                out[..$total].copy_from_slice(&self.to_bytes());
            }
            #[inline]
            fn get(bytes: &[u8]) -> Self {
                Self { $( $field: $crate::plain::Field::get(&bytes[$offset..]), )* }
            }
        }

        impl Default for $name {
            /// Returns a structure of zeros.
            fn default() -> Self {
                $crate::plain::Field::get(&[0; $total])
            }
        }

        const _: () = {
            let mut next = 0;
            let mut index = 0;
            while index < $name::FIELDS.len() {
                let (_, offset, size) = $name::FIELDS[index];
                assert!(offset == next, "a field is not where the one before it ends");
                next = offset + size;
                index += 1;
            }
            assert!(next == $total, "the fields do not make up the size");
        };
    };
}

pub(crate) use plain;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters_and_shows_no_control_characters() {
        assert_eq!(Text::<4>::new("aäöü").as_bytes(), "aä".as_bytes());
        assert_eq!(Text::<8>::bytes(b"a\x1b[2J\xff\0rest").to_string(), "a?[2J\u{fffd}");
        assert_eq!(Text::<8>::path(b"/usr/lib/libm.so").to_string(), "...bm.so");
        assert_eq!(Text::<3>::path(b"/usr").to_string(), "/us");
    }
}
