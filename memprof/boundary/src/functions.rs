//! MPI functions: their names and the number of machine words that each takes.

/// The functions and their words, in the form that the assembler reads.
pub(crate) const TEXT: &str = include_str!("functions.s");

const fn count(text: &[u8]) -> usize {
    let (mut index, mut count, mut start) = (0, 0, true);
    while index < text.len() {
        if start && text[index] == b'm' {
            count += 1;
        }
        start = text[index] == b'\n';
        index += 1;
    }
    count
}

/// Number of functions.
pub const COUNT: usize = count(TEXT.as_bytes());

/// Name and number of words of each function.
pub(crate) static FUNCTIONS: [(&str, u8); COUNT] = {
    let text = TEXT.as_bytes();
    let mut functions = [("", 0); COUNT];
    let (mut index, mut count) = (0, 0);
    while index < text.len() {
        let mut end = index;
        while end < text.len() && text[end] != b'\n' {
            end += 1;
        }
        if text[index] == b'm' {
            // `memprof_mpi NAME, WORDS`
            let mut comma = index + 12;
            while text[comma] != b',' {
                comma += 1;
            }
            let (_, rest) = TEXT.split_at(index + 12);
            let (name, _) = rest.split_at(comma - index - 12);
            let mut words = 0;
            let mut digit = comma + 2;
            while digit < end {
                words = words * 10 + text[digit] - b'0';
                digit += 1;
            }
            functions[count] = (name, words);
            count += 1;
        }
        index = end + 1;
    }
    functions
};

/// Number of words of each function, for entries that look it up.
pub(crate) static WORDS: [u8; COUNT] = {
    let mut words = [0; COUNT];
    let mut index = 0;
    while index < COUNT {
        words[index] = FUNCTIONS[index].1;
        index += 1;
    }
    words
};

/// Index of `MPI_Pcontrol`, which has no entry here but is an MPI function.
pub const PCONTROL: usize = COUNT;

/// An entry: a function and one of its two names.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Index of the function.
    pub function: usize,
    /// True for its `PMPI_` name.
    pub profiling: bool,
}

impl Name {
    pub(crate) const fn slot(self) -> usize {
        self.function * 2 + self.profiling as usize
    }
}

/// Returns the function with this name (`MPI_Send`, `PMPI_Send`).
#[must_use]
pub fn find(symbol: &[u8]) -> Option<Name> {
    let (name, profiling) = match symbol.strip_prefix(b"P") {
        Some(name) => (name, true),
        None => (symbol, false),
    };
    if !name.starts_with(b"MPI") {
        return None;
    }
    let function = FUNCTIONS.binary_search_by(|entry| entry.0.as_bytes().cmp(name)).ok()?;
    Some(Name { function, profiling })
}

/// Returns the name of a function by its index, including `MPI_Pcontrol`.
#[must_use]
pub fn name(function: usize) -> &'static str {
    match FUNCTIONS.get(function) {
        Some((name, _)) => name,
        None if function == PCONTROL => "MPI_Pcontrol",
        None => "",
    }
}

/// Returns the number of machine words that a function takes.
#[must_use]
pub fn words(function: usize) -> usize {
    FUNCTIONS.get(function).map_or(0, |(_, words)| usize::from(*words))
}

/// Purpose of a function, for sums of times.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Sends, receives and probes, including nonblocking ones.
    PointToPoint = 0,
    /// Collective operations on a communicator, including nonblocking ones.
    Collective = 1,
    /// Windows, and access to the memory of other ranks.
    OneSided = 2,
    /// File operations.
    File = 3,
    /// Completion of requests: `MPI_Wait`, `MPI_Test` and their relatives.
    Wait = 4,
    /// Anything else: communicators, datatypes, start and end of MPI.
    Other = 5,
}

impl Kind {
    /// All kinds, by number.
    pub const ALL: [Kind; 6] =
        [Kind::PointToPoint, Kind::Collective, Kind::OneSided, Kind::File, Kind::Wait, Kind::Other];
}

/// Collective operations in lower case, without the prefix of nonblocking ones.
const COLLECTIVES: [&str; 17] = [
    "allgather",
    "allgatherv",
    "allreduce",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "barrier",
    "bcast",
    "exscan",
    "gather",
    "gatherv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_block",
    "scan",
    "scatter",
    "scatterv",
];

/// Operations between two ranks, in the same form.
const POINT_TO_POINT: [&str; 19] = [
    "bsend",
    "improbe",
    "iprobe",
    "mprobe",
    "mrecv",
    "parrived",
    "precv",
    "pready",
    "pready_list",
    "pready_range",
    "probe",
    "psend",
    "recv",
    "rsend",
    "send",
    "sendrecv",
    "sendrecv_replace",
    "ssend",
    "start",
];

/// Access to the memory of other ranks.
const ONE_SIDED: [&str; 10] = [
    "accumulate",
    "compare_and_swap",
    "fetch_and_op",
    "get",
    "get_accumulate",
    "put",
    "raccumulate",
    "rget",
    "rget_accumulate",
    "rput",
];

/// Completion of requests.
const WAITS: [&str; 8] =
    ["wait", "waitall", "waitany", "waitsome", "test", "testall", "testany", "testsome"];

/// Returns the kind of a function by its name, without the `P` of the profiling interface.
#[must_use]
pub fn kind_of(name: &str) -> Kind {
    let mut text = [0; 64];
    let Some(rest) = name.split_once('_').map(|(_, rest)| rest.as_bytes()) else {
        return Kind::Other;
    };
    let Some(lower) = text.get_mut(..rest.len()) else { return Kind::Other };
    lower.copy_from_slice(rest);
    lower.make_ascii_lowercase();
    let mut short = core::str::from_utf8(lower).unwrap_or("");
    // Suffixes of large counts, of stream and thread extensions, and of persistent operations.
    for end in ["_c", "_enqueue", "_init"] {
        short = short.strip_suffix(end).unwrap_or(short);
    }
    if short.starts_with("file_") || short == "register_datarep" {
        return Kind::File;
    }
    if short.starts_with("win_") || ONE_SIDED.contains(&short) {
        return Kind::OneSided;
    }
    if WAITS.contains(&short) {
        return Kind::Wait;
    }
    let blocking = short.strip_prefix('i').unwrap_or(short);
    let neighbours = blocking.strip_prefix("neighbor_").unwrap_or(blocking);
    if COLLECTIVES.contains(&neighbours) {
        return Kind::Collective;
    }
    let is_direct = [short, blocking].iter().any(|name| POINT_TO_POINT.contains(name));
    if is_direct || short == "startall" { Kind::PointToPoint } else { Kind::Other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_sorted_and_found_by_both_names() {
        assert!(FUNCTIONS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        const { assert!(COUNT > 600) };
        for (index, (text, words)) in FUNCTIONS.iter().enumerate() {
            assert!(*words <= 13, "{text}");
            assert_eq!(find(text.as_bytes()), Some(Name { function: index, profiling: false }));
            let profiling = format!("P{text}");
            assert_eq!(find(profiling.as_bytes()), Some(Name { function: index, profiling: true }));
            assert_eq!(name(index), *text);
        }
        for absent in ["MPI_Wtime", "MPI_Wtick", "MPI_Pcontrol", "MPI_Sen", "PPMPI_Send", "", "P"] {
            assert_eq!(find(absent.as_bytes()), None, "{absent}");
        }
        assert_eq!(name(PCONTROL), "MPI_Pcontrol");
    }

    #[test]
    fn functions_have_the_kinds_of_their_names() {
        for (names, kind) in [
            (
                "MPI_Send MPI_Isend MPI_Issend_c MPI_Recv_init MPI_Sendrecv_replace",
                Kind::PointToPoint,
            ),
            ("MPI_Iprobe MPI_Improbe MPI_Imrecv MPI_Start MPI_Startall", Kind::PointToPoint),
            ("MPI_Psend_init MPI_Isendrecv MPI_Parrived", Kind::PointToPoint),
            (
                "MPI_Barrier MPI_Iallreduce_c MPI_Bcast_init_c MPI_Ineighbor_alltoallw",
                Kind::Collective,
            ),
            ("MPI_Exscan MPI_Reduce_scatter_block MPI_Neighbor_allgather", Kind::Collective),
            ("MPI_Put MPI_Rget_c MPI_Win_fence MPI_Win_allocate_shared_c", Kind::OneSided),
            ("MPI_Fetch_and_op MPI_Compare_and_swap", Kind::OneSided),
            ("MPI_File_open MPI_File_iwrite_at_all_c MPI_Register_datarep", Kind::File),
            ("MPI_Wait MPI_Waitall MPI_Testsome", Kind::Wait),
            ("MPI_Init MPI_Finalize MPI_Comm_split MPI_Reduce_local MPI_Get_count", Kind::Other),
            ("MPI_Info_set MPI_Test_cancelled MPI_Initialized MPI_Cart_create", Kind::Other),
        ] {
            for name in names.split(' ') {
                assert!(find(name.as_bytes()).is_some(), "{name}");
                assert_eq!(kind_of(name), kind, "{name}");
            }
        }
    }
}
