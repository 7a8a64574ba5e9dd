//! The parts of the wire format of protocol buffers that are needed for writing.

/// A message under construction.
#[derive(Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Appends a number.
    pub fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// Appends a text.
    pub fn text(self, field: u32, text: &str) -> Self {
        self.block(field, text.as_bytes())
    }

    /// Appends a nested message.
    pub fn message(self, field: u32, inner: Message) -> Self {
        self.block(field, &inner.bytes)
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn block(mut self, field: u32, bytes: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_wire_formats_own_description_come_out() {
        assert_eq!(Message::default().number(1, 150).bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().text(2, "testing").bytes(), b"\x12\x07testing");
        let inner = Message::default().number(1, 150);
        assert_eq!(Message::default().message(3, inner).bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
    }
}
