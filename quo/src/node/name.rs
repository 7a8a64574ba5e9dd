//! Names of segments: unguessable, and bound to a user.

use std::fmt;
use std::str::FromStr;

use super::NodeError;

/// Bytes of a name's unguessable part.
pub(super) const SECRET_BYTES: usize = 16;

/// The name of a segment file: `quo-<uid>-<32 hexadecimal digits>`.
///
/// The digits are random, so no one can create a file of that name beforehand. The creator chooses
/// the name and sends it to the other members over MPI.
///
/// ```
/// use quo::node::SegmentName;
/// let name = SegmentName::random()?;
/// assert_eq!(name.to_string().parse::<SegmentName>()?, name);
/// # Ok::<(), quo::node::NodeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SegmentName {
    secret: [u8; SECRET_BYTES],
}

impl SegmentName {
    /// Returns an unguessable name. Local.
    ///
    /// # Errors
    /// [`NodeError::System`] if the kernel provides no random numbers.
    pub fn random() -> Result<Self, NodeError> {
        let mut secret = [0; SECRET_BYTES];
        let mut filled = 0;
        while filled < SECRET_BYTES {
            match rustix::rand::getrandom(
                &mut secret[filled..],
                rustix::rand::GetRandomFlags::empty(),
            ) {
                Ok(more) => filled += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(source) => {
                    return Err(NodeError::system("getrandom", "a segment name", source));
                }
            }
        }
        Ok(Self { secret })
    }

    /// Returns the name with this secret, which another process generated. Local.
    pub(crate) fn from_secret(secret: [u8; SECRET_BYTES]) -> Self {
        Self { secret }
    }

    /// Returns the unguessable part, for the other members only. Local.
    pub(crate) fn secret(&self) -> &[u8; SECRET_BYTES] {
        &self.secret
    }

    /// Derives a name, one for each `key`, that cannot be computed without knowing this one.
    pub(super) fn derive(&self, key: &[u64]) -> Self {
        let mut secret = [0; SECRET_BYTES];
        for (half, seed) in secret.chunks_exact_mut(8).zip([0x51_u64, 0xa7]) {
            let mut hash = Fingerprint::new(seed);
            hash.bytes(&self.secret);
            for word in key {
                hash.bytes(&word.to_le_bytes());
            }
            half.copy_from_slice(&hash.finish().to_le_bytes());
        }
        Self { secret }
    }
}

/// Hash that every build of this library computes identically.
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) fn new(seed: u64) -> Self {
        Self(0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(super) fn finish(&self) -> u64 {
        let mut hash = self.0;
        for multiplier in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
            hash = (hash ^ hash >> 33).wrapping_mul(multiplier);
        }
        hash ^ hash >> 33
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "quo-{}-", user())?;
        self.secret.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl FromStr for SegmentName {
    type Err = NodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |reason| NodeError::InvalidName { name: text.to_owned(), reason };
        let rest =
            text.strip_prefix("quo-").ok_or_else(|| refuse("it does not begin with quo-"))?;
        let (owner, digits) = rest.split_once('-').ok_or_else(|| refuse("it has no user"))?;
        if owner != user().to_string() {
            return Err(refuse("it belongs to another user"));
        }
        let lower_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != 2 * SECRET_BYTES || !digits.as_bytes().iter().all(lower_hex) {
            return Err(refuse("it does not end in 32 hexadecimal digits"));
        }
        let mut secret = [0; SECRET_BYTES];
        for (index, byte) in secret.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16)
                .map_err(|_| refuse("it does not end in 32 hexadecimal digits"))?;
        }
        Ok(Self { secret })
    }
}

/// Returns the user that owns the files this process creates.
pub(super) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_repeat_and_their_bits_are_even() {
        const NAMES: usize = 4_096;
        let names: std::collections::HashSet<_> =
            (0..NAMES).map(|_| SegmentName::random().unwrap()).collect();
        assert_eq!(names.len(), NAMES);
        for bit in 0..8 * SECRET_BYTES {
            let ones = names.iter().filter(|name| name.secret[bit / 8] >> (bit % 8) & 1 == 1);
            // More than six standard deviations from one half.
            assert!((1_850..=2_246).contains(&ones.count()), "bit {bit}");
        }
    }

    #[test]
    fn derived_names_depend_on_the_secret_and_on_the_key() {
        let (a, b) = (SegmentName::random().unwrap(), SegmentName::random().unwrap());
        assert_eq!(a.derive(&[1, 2]), a.derive(&[1, 2]));
        assert_ne!(a.derive(&[1, 2]), a.derive(&[2, 1]));
        assert_ne!(a.derive(&[1]), b.derive(&[1]));
        assert_ne!(a.derive(&[]), a);
    }

    #[test]
    fn only_names_of_this_user_without_tricks_are_taken() {
        let good = SegmentName::random().unwrap().to_string();
        let foreign = good.replacen(&format!("-{}-", user()), "-4294967294-", 1);
        let long = format!("{good}0");
        let slash = format!("../{good}");
        for text in [&foreign, &long, &slash, &good[1..], &good.to_uppercase(), "", "quo-", "quo--"]
        {
            let error = text.parse::<SegmentName>().unwrap_err().to_string();
            assert!(error.contains("is not a segment name"), "{error}");
        }
        assert!(good.parse::<SegmentName>().is_ok());
    }
}
