//! Record that every rank sends to every other one when a context is created, and the conclusions
//! from all records.
//!
//! Pure: from the records of all ranks each rank derives the same nodes and the same verdict.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::launcher::Launcher;
use super::options::{Settings, Wait};
use super::peer_identity::{PeerProcess, Place, digest};
use super::quota::Quotas;
use crate::environment;
use crate::error::{Error, with_causes};
use crate::plan::Policy;

/// Bytes of a record on the wire; the same on every rank.
pub(super) const RECORD_BYTES: usize = 192;

/// Must be changed whenever records or their use change.
pub(super) const PROTOCOL: u32 = 5;

/// One rank's part of the first exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub protocol: u32,
    pub role: Role,
    pub no_smt: bool,
    pub wait: u8,
    /// Policy of distributions, for ranks that take over the settings of the others.
    pub literal: bool,
    /// True if a trace will be written, which makes the release collective.
    pub trace: bool,
    /// True if the rank does not take part; its options are then ignored.
    pub refuses: bool,
    /// Digest of the settings that determine the machine: `QUO_TOPOLOGY` and `QUO_BINDING`.
    pub machine: u64,
    pub place: Place,
    pub process: PeerProcess,
    /// Digest of the control group that determines the CPUs the process may use.
    pub confinement: u64,
    pub launcher: Launcher,
    /// CPU quotas around the rank, unless it ignores them.
    pub quotas: Quotas,
    /// True if OpenMP bound the rank before it made the context.
    pub bound_by_openmp: bool,
    /// Secret of the segment's name if this rank leads its node.
    pub token: [u8; 16],
}

/// Role of the rank: creator, or member of a context that adapts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    /// Creates a context, or takes one over from ranks that adapt theirs.
    Creates,
    /// Takes a context over.
    Joins,
    /// Has a context, of this identity.
    Adapts(u64),
}

impl Role {
    pub fn adapts(self) -> bool {
        matches!(self, Self::Adapts(_))
    }

    /// Returns the name of the call that the rank made.
    pub fn call(self) -> &'static str {
        match self {
            Self::Creates => "create",
            Self::Joins => "join",
            Self::Adapts(_) => "adapt",
        }
    }
}

/// Returns the call that errors on all ranks name.
pub(super) fn call(records: &[Record]) -> &'static str {
    if records.iter().any(|record| record.role.adapts()) { "adapt" } else { "create" }
}

/// Returns the identity of the context on all its ranks: its old one, or a new one.
pub(super) fn identity(records: &[Record]) -> u64 {
    let known = records.iter().find_map(|record| match record.role {
        Role::Adapts(identity) => Some(identity),
        Role::Creates | Role::Joins => None,
    });
    let new = || digest(records.iter().flat_map(|record| record.token));
    known.unwrap_or_else(new)
}

/// Takes over the context's settings, for a rank that joins.
pub(super) fn adopt(records: &[Record], role: Role, settings: &mut Settings) {
    let theirs = records.iter().find(|record| record.role.adapts() && !record.refuses);
    let (Role::Joins, Some(theirs)) = (role, theirs) else { return };
    settings.no_smt = theirs.no_smt;
    settings.wait = WAITS.get(usize::from(theirs.wait)).map_or(settings.wait, |&(_, wait)| wait);
    settings.policy = if theirs.literal { Policy::LibquoCompat } else { Policy::Spread };
    settings.trace = match settings.trace.take() {
        // Rank 0 writes the trace, and is not among the ranks that join.
        None if theirs.trace => Some(PathBuf::new()),
        trace => trace.filter(|_| theirs.trace),
    };
}

impl Record {
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        // A record is far shorter than its slot; if it were not, peers would refuse the empty one.
        let _ = postcard::to_slice(self, &mut bytes);
        bytes
    }

    pub fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, Error> {
        bytes
            .chunks_exact(RECORD_BYTES)
            .enumerate()
            .map(|(rank, bytes)| match postcard::take_from_bytes::<Self>(bytes) {
                Ok((record, _)) if record.protocol == PROTOCOL => Ok(record),
                _ => Err(Error::Disagreement {
                    call: "create",
                    what: "the version of the library",
                    values: format!("rank {rank} runs another one"),
                }),
            })
            .collect()
    }
}

/// Kinds of waiting by number, with their names.
const WAITS: [(&str, Wait); 3] =
    [("futex", Wait::Futex), ("pthread", Wait::Pthread), ("mpi", Wait::Mpi)];

pub(super) fn wait_number(wait: Wait) -> u8 {
    WAITS.iter().position(|&(_, known)| known == wait).map_or(0, |number| number as u8)
}

/// Checks that an argument has the same value on all ranks, given one value per rank.
///
/// # Errors
/// [`Error::Disagreement`] that lists values with the ranks that passed them, the same
/// everywhere.
pub(super) fn require_agreement<T: PartialEq>(
    call: &'static str,
    what: &'static str,
    values: &[(usize, T)],
    show: impl Fn(&T) -> String,
) -> Result<(), Error> {
    const SHOWN: usize = 4;
    let Some((_, first)) = values.first() else { return Ok(()) };
    if values.iter().all(|(_, value)| value == first) {
        return Ok(());
    }
    let mut kinds: Vec<(&T, Vec<usize>)> = Vec::new();
    for (rank, value) in values {
        match kinds.iter_mut().find(|(known, _)| *known == value) {
            Some((_, ranks)) => ranks.push(*rank),
            None => kinds.push((value, vec![*rank])),
        }
    }
    let mut texts: Vec<String> = kinds
        .iter()
        .take(SHOWN)
        .map(|(value, ranks)| {
            let shown: Vec<_> = ranks.iter().take(SHOWN).map(ToString::to_string).collect();
            let more = if ranks.len() > SHOWN { ", ..." } else { "" };
            format!("{} on rank {}{more}", show(value), shown.join(", "))
        })
        .collect();
    if kinds.len() > SHOWN {
        texts.push(format!("{} other values", kinds.len() - SHOWN));
    }
    Err(Error::Disagreement { call, what, values: texts.join("; ") })
}

/// Checks that all ranks asked for the same context.
pub(super) fn check(records: &[Record]) -> Result<(), Error> {
    let call = call(records);
    let adapting = records.iter().any(|record| record.role.adapts());
    if !adapting && let Some(rank) = records.iter().position(|r| r.role == Role::Joins) {
        let reason = format!("rank {rank} joins, and no rank of the group adapts a context");
        return Err(Error::InvalidArgument { call: "join", reason });
    }
    let rows = |asked: fn(&Record) -> bool, value: fn(&Record) -> u64| -> Vec<(usize, u64)> {
        let asked = records.iter().enumerate().filter(|(_, record)| asked(record));
        asked.map(|(rank, record)| (rank, value(record))).collect()
    };
    let identity = rows(
        |record| record.role.adapts(),
        |record| if let Role::Adapts(identity) = record.role { identity } else { 0 },
    );
    require_agreement(call, "the context that is adapted", &identity, |identity| {
        format!("context {identity:016x}")
    })?;
    // Joining ranks take over the existing settings; the settings of ranks that refuse are ignored.
    let column = |value| rows(|record| record.role != Role::Joins && !record.refuses, value);
    require_agreement(call, "the no-SMT flag", &column(|r| u64::from(r.no_smt)), |value| {
        (if *value == 1 { "set" } else { "not set" }).to_owned()
    })?;
    require_agreement(call, "the way to wait", &column(|r| u64::from(r.wait)), |value| {
        WAITS.get(*value as usize).map_or("another", |(name, _)| name).to_owned()
    })?;
    require_agreement(call, "the trace", &column(|r| u64::from(r.trace)), |value| {
        (if *value == 1 { "wanted" } else { "not wanted" }).to_owned()
    })
}

/// Returns true if the ranks that take part have different settings of the machine. The same on
/// every rank.
pub(super) fn machines_differ(records: &[Record]) -> bool {
    let mut settings = records.iter().filter(|it| !it.refuses).map(|record| record.machine);
    let first = settings.next();
    settings.any(|other| Some(other) != first)
}

/// Bytes of a [`MachineSettings`] on the wire.
pub(super) const MACHINE_BYTES: usize = 640;
/// Maximum number of characters of a setting that an error shows.
const SHOWN_CHARACTERS: usize = 60;

/// One rank's settings of the machine, exchanged only if their digests differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MachineSettings {
    topology: Setting,
    binding: Setting,
}

/// A value, shortened for the wire, with a digest of the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Setting {
    text: String,
    digest: u64,
}

impl MachineSettings {
    /// Creates the settings from the values of `QUO_TOPOLOGY` and `QUO_BINDING`, empty if not set.
    pub fn new([topology, binding]: &[String; 2]) -> Self {
        Self { topology: Setting::new(topology), binding: Setting::new(binding) }
    }

    pub fn encode(&self) -> [u8; MACHINE_BYTES] {
        let mut bytes = [0; MACHINE_BYTES];
        // Shortened texts fit; if they did not, peers would read unset values.
        let _ = postcard::to_slice(self, &mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        postcard::take_from_bytes(bytes).map(|(settings, _)| settings).unwrap_or_default()
    }
}

impl Setting {
    fn new(whole: &str) -> Self {
        let digest = digest(whole.bytes());
        let characters: Vec<char> = whole.chars().collect();
        if characters.len() <= SHOWN_CHARACTERS {
            return Self { text: whole.to_owned(), digest };
        }
        // Long values are usually paths, which differ in the middle or at the end.
        let kept = (SHOWN_CHARACTERS - 3) / 2;
        let (start, end) = (&characters[..kept], &characters[characters.len() - kept..]);
        let text = start.iter().chain(&['.'; 3]).chain(end).collect();
        Self { text, digest }
    }

    fn show(&self) -> String {
        if self.text.is_empty() { "not set".to_owned() } else { format!("{:?}", self.text) }
    }
}

/// Returns the error for settings of the machine that differ: names the setting, with the values of
/// the ranks that take part. The same on every rank.
pub(super) fn machine_disagreement(records: &[Record], settings: &[u8]) -> Error {
    let call = call(records);
    let rows: Vec<(usize, MachineSettings)> = settings
        .chunks_exact(MACHINE_BYTES)
        .map(MachineSettings::decode)
        .enumerate()
        .filter(|(rank, _)| records.get(*rank).is_some_and(|record| !record.refuses))
        .collect();
    let column = |value: fn(&MachineSettings) -> &Setting| -> Vec<(usize, &Setting)> {
        rows.iter().map(|(rank, settings)| (*rank, value(settings))).collect()
    };
    for (variable, values) in [
        (&environment::TOPOLOGY, column(|settings| &settings.topology)),
        (&environment::BINDING, column(|settings| &settings.binding)),
    ] {
        if let Err(error) =
            require_agreement(call, variable.name, &values, |setting| setting.show())
        {
            return error;
        }
    }
    // The digests of the records differ, so this requires a library of another version.
    let what = "QUO_TOPOLOGY or QUO_BINDING";
    Error::Disagreement { call, what, values: "the values are not known".to_owned() }
}

/// Nodes of a context: which ranks share memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nodes {
    /// Ranks of the context by node, each ascending; nodes in the order of their first rank.
    pub members: Vec<Vec<usize>>,
}

impl Nodes {
    pub fn of(records: &[Record]) -> Self {
        let mut known = std::collections::HashMap::new();
        let mut members: Vec<Vec<usize>> = Vec::new();
        for (rank, record) in records.iter().enumerate() {
            let node = *known.entry(record.place).or_insert_with(|| {
                members.push(Vec::new());
                members.len() - 1
            });
            members[node].push(rank);
        }
        Self { members }
    }

    /// Returns the node of a rank and the rank's number there.
    pub fn locate(&self, rank: usize) -> (usize, usize) {
        for (node, members) in self.members.iter().enumerate() {
            if let Ok(node_rank) = members.binary_search(&rank) {
                return (node, node_rank);
            }
        }
        (0, 0)
    }
}

/// Returns true if ranks of any one node are in different control groups. The same on every rank.
pub(super) fn confinements_differ(records: &[Record], nodes: &Nodes) -> bool {
    let of = |rank: usize| records[rank].confinement;
    nodes.members.iter().any(|members| members.iter().any(|&rank| of(rank) != of(members[0])))
}

/// Bytes of a verdict on the wire.
pub(super) const STATUS_BYTES: usize = 512;
const ALL_WELL: u8 = u8::MAX;

/// Encodes one rank's success or failure for the wire.
pub(super) fn encode_status(failure: Option<&Error>) -> [u8; STATUS_BYTES] {
    let mut bytes = [0; STATUS_BYTES];
    match failure {
        None => bytes[0] = ALL_WELL,
        Some(error) => {
            bytes[0] = error.kind() as u8;
            let text = with_causes(error);
            let mut length = text.len().min(STATUS_BYTES - 3);
            while !text.is_char_boundary(length) {
                length -= 1;
            }
            bytes[1..3].copy_from_slice(&(length as u16).to_ne_bytes());
            bytes[3..3 + length].copy_from_slice(&text.as_bytes()[..length]);
        }
    }
    bytes
}

/// Returns the first failure in rank order, the same on every rank.
pub(super) fn first_failure(call: &'static str, statuses: &[u8]) -> Result<(), Error> {
    for (rank, status) in statuses.chunks_exact(STATUS_BYTES).enumerate() {
        if status[0] != ALL_WELL {
            let length = usize::from(u16::from_ne_bytes([status[1], status[2]]));
            let text = status.get(3..3 + length).unwrap_or_default();
            return Err(Error::Agreed {
                call,
                rank,
                kind: crate::error::ErrorKind::from_number(status[0]),
                text: String::from_utf8_lossy(text).into_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::quota::Quota;

    fn record(device: u64) -> Record {
        let place = Place { boot: [7; 16], device, inode: u64::MAX, hint: u64::MAX };
        let process = PeerProcess { id: i32::MAX, namespace: u64::MAX, started: u64::MAX };
        Record {
            protocol: PROTOCOL,
            role: Role::Adapts(u64::MAX),
            no_smt: true,
            literal: true,
            refuses: false,
            wait: wait_number(Wait::Mpi),
            trace: true,
            machine: u64::MAX,
            place,
            process,
            confinement: u64::MAX,
            launcher: Launcher::OpenMpi,
            quotas: [Some(Quota { group: u64::MAX, hundredths: u32::MAX }); 3],
            bound_by_openmp: true,
            token: [255; 16],
        }
    }

    #[test]
    fn the_longest_record_fits_its_place_and_comes_back() {
        let records: Vec<_> = [1, u64::MAX].map(record).to_vec();
        let bytes: Vec<u8> = records.iter().flat_map(Record::encode).collect();
        assert_eq!(Record::decode_all(&bytes).unwrap(), records);
    }

    #[test]
    fn a_foreign_record_is_a_disagreement_that_names_the_rank() {
        let mut bytes = record(1).encode().to_vec();
        bytes.extend([0; RECORD_BYTES]);
        let error = Record::decode_all(&bytes).unwrap_err().to_string();
        assert!(error.contains("rank 1"), "{error}");
    }

    #[test]
    fn ranks_are_grouped_by_reachable_memory_in_appearance_order() {
        let records: Vec<_> = [4, 9, 4, 9, 4].map(record).to_vec();
        let nodes = Nodes::of(&records);
        assert_eq!(nodes.members, [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(nodes.locate(4), (0, 2));
        assert_eq!(nodes.locate(3), (1, 1));
    }

    #[test]
    fn control_groups_are_compared_within_nodes_only() {
        let mut records: Vec<_> = [4, 9, 4].map(record).to_vec();
        records[1].confinement = 1;
        assert!(!confinements_differ(&records, &Nodes::of(&records)));
        records[2].confinement = 2;
        assert!(confinements_differ(&records, &Nodes::of(&records)));
    }

    #[test]
    fn a_disagreement_lists_each_value_with_its_ranks() {
        let mut records: Vec<_> = [1, 1, 1].map(record).to_vec();
        records[1].no_smt = false;
        let error = check(&records).unwrap_err().to_string();
        assert!(error.contains("set on rank 0, 2; not set on rank 1"), "{error}");
    }

    /// Returns the error for ranks with these values of `QUO_TOPOLOGY` and `QUO_BINDING`.
    fn told(values: &[[&str; 2]]) -> String {
        let settings =
            values.iter().flat_map(|pair| MachineSettings::new(&pair.map(str::to_owned)).encode());
        let settings: Vec<u8> = settings.collect();
        let records: Vec<_> = values.iter().map(|_| record(1)).collect();
        machine_disagreement(&records, &settings).to_string()
    }

    #[test]
    fn differing_machine_settings_are_named_with_their_ranks() {
        let error = told(&[["pack:2", "core"], ["pack:4", "core"], ["pack:2", "core"], ["", ""]]);
        let expected =
            "QUO_TOPOLOGY: \"pack:2\" on rank 0, 2; \"pack:4\" on rank 1; not set on rank 3";
        assert!(error.ends_with(expected), "{error}");
        let error = told(&[["pack:2", "core"], ["pack:2", ""]]);
        assert!(error.ends_with("QUO_BINDING: \"core\" on rank 0; not set on rank 1"), "{error}");
    }

    #[test]
    fn long_machine_settings_are_shortened_and_still_differ() {
        // Four bytes each, the longest on the wire.
        let path = |middle: &str| format!("{}{middle}{}", "𝄞".repeat(40), "𝄢".repeat(40));
        let (one, other) = (path("one"), path("other"));
        let error = told(&[[&one, &one], [&other, &one]]);
        let shown = format!("{}...{}", "𝄞".repeat(28), "𝄢".repeat(28));
        let expected = format!("QUO_TOPOLOGY: {shown:?} on rank 0; {shown:?} on rank 1");
        assert!(error.ends_with(&expected), "{error}");
    }

    #[test]
    fn more_than_four_values_are_counted() {
        let values: Vec<_> = (0..7).map(|rank| (rank, rank)).collect();
        let error = require_agreement("create", "x", &values, ToString::to_string).unwrap_err();
        assert!(error.to_string().ends_with("3 on rank 3; 3 other values"), "{error}");
    }

    #[test]
    fn the_cause_travels_with_the_failure() {
        let source = std::io::Error::from_raw_os_error(28);
        let call = "open";
        let failure = crate::node::NodeError::System { call, object: "a file".to_owned(), source };
        let verdict = first_failure("create", &encode_status(Some(&Error::from(failure))));
        let text = verdict.unwrap_err().to_string();
        assert!(text.contains("open failed on a file: No space left on device"), "{text}");
    }

    #[test]
    fn first_failing_rank_is_the_verdict_with_a_cut_text() {
        let long = "é".repeat(400);
        let failure = Error::InvalidArgument { call: "create", reason: long };
        let mut statuses = encode_status(None).to_vec();
        assert!(first_failure("create", &statuses).is_ok());
        statuses.extend(encode_status(Some(&failure)));
        match first_failure("create", &statuses).unwrap_err() {
            Error::Agreed { rank: 1, kind, text, .. } => {
                assert_eq!(kind, crate::error::ErrorKind::InvalidArgument);
                assert!(text.ends_with('é'));
            }
            other => panic!("{other}"),
        }
    }
}
