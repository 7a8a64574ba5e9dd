//! Protocol buffers, parsed by their wire format alone.

/// Returns the fields of a message: number, and a value or the bytes inside.
pub fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = bytes.split_first().expect("a whole number");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        let (inner, rest) = match key & 7 {
            0 => (&[][..], bytes),
            2 => bytes.split_at(value as usize),
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, value, inner));
        bytes = rest;
    }
    found
}

/// Returns a field's number, if the field is present.
pub fn number(message: &[u8], field: u64) -> Option<u64> {
    fields(message).into_iter().find(|found| found.0 == field).map(|found| found.1)
}

/// Returns a field's bytes, if the field is present.
pub fn inner(message: &[u8], field: u64) -> Option<&[u8]> {
    fields(message).into_iter().find(|found| found.0 == field).map(|found| found.2)
}
