//! Message of a rank in an exchange of its node: a header with the call and its arguments, and a
//! body.

use smallvec::SmallVec;

use super::record::require_agreement;
use crate::error::{Error, ErrorKind};
use crate::plan::Policy;
use crate::topology::ObjectType;

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 64;
/// Bytes after the header that mark whether a CPU set follows or an error.
pub(super) const MASK_BYTES: usize = 8;
/// Bytes of an exchange that carries the text of an error.
pub(super) const TEXT_BYTES: usize = 256;

/// A message, with capacity for the text of an error without an allocation.
pub(super) type Message = SmallVec<[u8; TEXT_BYTES]>;

/// Collective call of an exchange, so that mismatched calls are detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    Distribute = 1,
    PhaseBegin = 2,
    PhaseEnd = 3,
    Renew = 4,
    Devices = 5,
    Hold = 6,
}

/// Collective call of an exchange and the arguments that must be the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Number of the [`Operation`].
    pub operation: u8,
    /// As [`kind_number`].
    pub object_type: u8,
    pub policy: Policy,
    /// Number of [`Cores`](crate::phase::Cores).
    pub cores: u8,
    /// Number of the [`DeviceKind`](crate::topology::DeviceKind).
    pub device_kind: u8,
    pub max_per_object: i64,
}

impl Header {
    pub(super) fn new(operation: Operation) -> Self {
        Self {
            operation: operation as u8,
            object_type: 0,
            policy: Policy::Spread,
            cores: 0,
            device_kind: 0,
            max_per_object: 0,
        }
    }

    /// Encodes the header; unused bytes are zero.
    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let literal = u8::from(self.policy == Policy::LibquoCompat);
        let numbers = [self.operation, self.object_type, literal, self.cores, self.device_kind];
        let mut bytes = [0; HEADER_BYTES];
        bytes[..numbers.len()].copy_from_slice(&numbers);
        bytes[8..16].copy_from_slice(&self.max_per_object.to_ne_bytes());
        bytes
    }

    /// Decodes the header of a message; `None` if the message is too short.
    pub(super) fn decode(message: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = message.first_chunk()?;
        let &[operation, object_type, literal, cores, device_kind, ..] = header;
        let policy = if literal == 1 { Policy::LibquoCompat } else { Policy::Spread };
        let max_per_object = header[8..16].try_into().map_or(0, i64::from_ne_bytes);
        Some(Self { operation, object_type, policy, cores, device_kind, max_per_object })
    }
}

/// Returns the number of an object type in a header.
pub(crate) fn kind_number(kind: ObjectType) -> u8 {
    ObjectType::ALL.iter().position(|&known| known == kind).map_or(u8::MAX, |index| index as u8)
}

/// Returns the name of a [`kind_number`], for errors.
pub(super) fn kind_name(number: u8) -> String {
    let kind = ObjectType::ALL.get(usize::from(number));
    kind.map_or_else(|| "no object type".to_owned(), ToString::to_string)
}

/// Appends the reason why a rank has no set, truncated to fit.
pub(super) fn encode_trouble(message: &mut Message, kind: ErrorKind, text: &str) {
    let mut end = text.len().min(TEXT_BYTES - HEADER_BYTES - 2);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    message.extend([1, kind as u8]);
    message.extend_from_slice(&text.as_bytes()[..end]);
}

/// Returns the error of ranks whose headers differ: the first differing argument, with its values.
pub(super) fn disagreement(call: &'static str, headers: &[(usize, Header)]) -> Error {
    fn check<T: PartialEq>(
        call: &'static str,
        what: &'static str,
        headers: &[(usize, Header)],
        value: impl Fn(&Header) -> T,
        show: impl Fn(&T) -> String,
    ) -> Result<(), Error> {
        let values: Vec<(usize, T)> =
            headers.iter().map(|(rank, header)| (*rank, value(header))).collect();
        require_agreement(call, what, &values, show)
    }
    let operation = |number: &u8| {
        match *number {
            1 => "auto_distrib",
            2 => "the start of a phase",
            3 => "the end of a phase",
            4 => "the start of a phase after a change of the allowed CPUs",
            5 => "the choice of devices",
            6 => "the start of a phase that has its hardware alone",
            _ => "another call",
        }
        .to_owned()
    };
    let policy = |policy: &Policy| match policy {
        Policy::LibquoCompat => "libquo".to_owned(),
        _ => "spread".to_owned(),
    };
    let cores = |cores: &u8| if *cores == 1 { "the fastest" } else { "all" }.to_owned();
    let checked = check(call, "the call they make", headers, |it| it.operation, operation)
        .and_then(|()| {
            check(call, "the object type", headers, |it| it.object_type, |kind| kind_name(*kind))
        })
        .and_then(|()| check(call, "the policy", headers, |it| it.policy, policy))
        .and_then(|()| check(call, "the cores of the phase", headers, |it| it.cores, cores))
        .and_then(|()| {
            let what = "the most ranks per object";
            check(call, what, headers, |it| it.max_per_object, i64::to_string)
        })
        .and_then(|()| {
            check(call, "the kind of device", headers, |it| it.device_kind, u8::to_string)
        });
    checked.err().unwrap_or_else(|| Error::Disagreement {
        call,
        what: "the bytes of the exchange",
        values: "the arguments of all ranks are the same".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_header_decodes_to_itself() {
        let header = Header {
            object_type: kind_number(ObjectType::Core),
            policy: Policy::LibquoCompat,
            cores: 1,
            device_kind: 2,
            max_per_object: -3,
            ..Header::new(Operation::Devices)
        };
        assert_eq!(Header::decode(&header.encode()), Some(header));
        assert_eq!(Header::decode(&header.encode()[1..]), None);
    }

    #[test]
    fn each_differing_argument_is_named_with_its_values() {
        let all = Header::new(Operation::Distribute);
        let named = |other: Header| disagreement("select", &[(0, all), (4, other)]).to_string();
        let text = named(Header { object_type: kind_number(ObjectType::Pu), ..all });
        assert!(text.contains("the object type") && text.contains("rank 4"), "{text}");
        let text = named(Header { max_per_object: 7, ..all });
        assert!(text.contains("the most ranks per object") && text.contains('7'), "{text}");
        let text = named(Header { device_kind: 1, ..all });
        assert!(text.contains("the kind of device"), "{text}");
        let text = named(Header::new(Operation::PhaseEnd));
        assert!(text.contains("the end of a phase"), "{text}");
    }
}
