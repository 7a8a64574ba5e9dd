//! Messages of the machine to the host, in frames: a letter, the length as four bytes with the
//! lowest first, the content. `guest/init.c` writes them.

use anyhow::{Result, bail};

/// A message of the machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The machine waits for the command.
    Ready,
    /// The command wrote this to its standard output.
    Output(Vec<u8>),
    /// The command wrote this to its standard error.
    Complaint(Vec<u8>),
    /// The command ended with this status.
    Exited(i32),
    /// A signal ended the command.
    Killed(i32),
    /// The command could not be started.
    Failed(String),
}

/// Maximum length of a frame's content.
const LONGEST: usize = 1 << 16;

/// Assembles frames from pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    waiting: Vec<u8>,
}

impl Decoder {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
    }

    /// Returns the next complete frame.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>> {
        let &[kind, a, b, c, d, ref rest @ ..] = self.waiting.as_slice() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > LONGEST {
            bail!("the machine sent {length} bytes at once: that is not its first process");
        }
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let frame = decode(kind, content)?;
        self.waiting.drain(..5 + length);
        Ok(Some(frame))
    }
}

fn decode(kind: u8, content: &[u8]) -> Result<Frame> {
    let text = || String::from_utf8_lossy(content).into_owned();
    let number = || match text().parse() {
        Ok(number) => Ok(number),
        Err(_) => bail!("the machine sent `{}` where a number was to be", text()),
    };
    Ok(match kind {
        b'r' => Frame::Ready,
        b'o' => Frame::Output(content.to_vec()),
        b'e' => Frame::Complaint(content.to_vec()),
        b'x' => Frame::Exited(number()?),
        b'k' => Frame::Killed(number()?),
        b'f' => Frame::Failed(text()),
        other => bail!("the machine sent a frame of kind {other}: that is not its first process"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(content);
        bytes
    }

    #[test]
    fn frames_come_whole_however_they_were_cut() {
        let sent =
            [frame(b'r', b""), frame(b'o', b"a\nb"), frame(b'e', b"c"), frame(b'x', b"3")].concat();
        for size in 1..sent.len() {
            let mut decoder = Decoder::default();
            let mut got = Vec::new();
            for piece in sent.chunks(size) {
                decoder.feed(piece);
                while let Some(frame) = decoder.next().unwrap() {
                    got.push(frame);
                }
            }
            let expected = [
                Frame::Ready,
                Frame::Output(b"a\nb".to_vec()),
                Frame::Complaint(b"c".to_vec()),
                Frame::Exited(3),
            ];
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for bytes in [frame(b'?', b""), frame(b'x', b"three"), vec![b'o', 255, 255, 255, 255]] {
            let mut decoder = Decoder::default();
            decoder.feed(&bytes);
            assert!(decoder.next().is_err(), "{bytes:?}");
        }
    }
}
