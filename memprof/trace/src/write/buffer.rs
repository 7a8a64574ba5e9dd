//! Owned memory to write a trace into.

/// Zeroed memory with the alignment that a [`super::Writer`] requires, for traces that become files
/// when they are complete.
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    const ALIGNMENT: usize = 8;

    /// Creates a buffer of that many bytes.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let bytes = vec![0; length + Self::ALIGNMENT - 1];
        let start = bytes.as_ptr().align_offset(Self::ALIGNMENT).min(Self::ALIGNMENT - 1);
        Self { bytes, start, length }
    }

    /// Sets all bytes to zero.
    pub fn clear(&mut self) {
        self.bytes.fill(0);
    }

    /// Returns the bytes written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..][..self.length]
    }

    /// Returns the memory for the writer.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.length]
    }
}
