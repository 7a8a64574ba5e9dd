//! Processes that are missing in a report: ranks that could not write a trace, helper programs that
//! ranks started, programs that were replaced by others.

use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Processes left out of a job, and the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MissingRanks {
    /// Ranks that could not write a trace, in ascending order.
    pub refused: Vec<Refused>,
    /// Ranks with forked children that held memory and were not recorded, in ascending order;
    /// `None` for a process without a rank.
    pub forked: Vec<Option<u32>>,
    /// Traces of other programs around the ranks that never called MPI: not counted.
    pub helpers: usize,
}

/// A process that could not write a trace, from the report it left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Its rank, if it had one.
    pub rank: Option<u32>,
    /// Name of the machine.
    pub host: String,
    /// Number of the process.
    pub pid: u32,
    /// The system's error.
    pub why: String,
}

/// Returns the ranks without a trace, from empty files in a folder named
/// `HOST.PID.START.RANK.ERROR.missing`, in containers
/// `HOST.PID-NAMESPACE.START.RANK.ERROR.missing`.
pub fn refused(folder: &Path) -> Vec<Refused> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut refused: Vec<Refused> = names.filter_map(|name| word(&name)).collect();
    refused.sort_by_key(|word| (word.rank.is_none(), word.rank, word.pid));
    refused
}

/// Returns the ranks whose children were not recorded, from empty files named
/// `HOST.PID.START.RANK.children`.
pub fn forked(folder: &Path) -> Vec<Option<u32>> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let rank = |name: String| {
        let rank: i32 = name.strip_suffix(".children")?.rsplit('.').next()?.parse().ok()?;
        Some(u32::try_from(rank).ok())
    };
    let mut ranks: Vec<Option<u32>> = names.filter_map(rank).collect();
    ranks.sort_unstable_by_key(|rank| (rank.is_none(), *rank));
    ranks.dedup();
    ranks
}

/// Returns a sentence about children that were not recorded; `None` if there are none.
pub fn forked_told(forked: &[Option<u32>]) -> Option<String> {
    let ranks: Vec<String> = forked.iter().flatten().take(8).map(u32::to_string).collect();
    let more = if forked.iter().flatten().count() > ranks.len() { ", ..." } else { "" };
    let who = match (forked.len(), ranks.len()) {
        (0, _) => return None,
        (_, 0) => "the process".to_owned(),
        (_, 1) => format!("rank {}", ranks[0]),
        _ => format!("ranks {}{more}", ranks.join(", ")),
    };
    Some(format!(
        "children that {who} forked held memory that is not counted here; memprof run --all records them"
    ))
}

/// Returns sentences about these ranks, one for each reason.
pub fn told(refused: &[Refused]) -> Vec<String> {
    let sentence = |group: &[Refused]| {
        let ranks: Vec<String> =
            group.iter().filter_map(|word| word.rank).map(|rank| rank.to_string()).collect();
        let more = if ranks.len() > 8 { ", ..." } else { "" };
        let of = match ranks.is_empty() {
            true => String::new(),
            false => format!(" in rank {}{more}", ranks[..ranks.len().min(8)].join(", ")),
        };
        format!("no trace could be made{of}: {}", group[0].why)
    };
    refused.chunk_by(|a, b| a.why == b.why).map(sentence).collect()
}

fn word(name: &str) -> Option<Refused> {
    let mut parts = name.strip_suffix(".missing")?.rsplitn(5, '.');
    let error: i32 = parts.next()?.parse().ok()?;
    let rank: i32 = parts.next()?.parse().ok()?;
    let _start: u64 = parts.next()?.parse().ok()?;
    let pid = parts.next()?;
    let pid = pid.split_once('-').map_or(pid, |(pid, _)| pid).parse().ok()?;
    let host = parts.next()?.to_owned();
    let why = std::io::Error::from_raw_os_error(error).to_string();
    Some(Refused { rank: u32::try_from(rank).ok(), host, pid, why })
}

/// Identity that distinguishes the processes of a job, and the programs of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Boot of the machine, number and start of the process.
    pub process: ([u8; 16], u32, u64),
    /// Number of the process that started it.
    pub parent: u32,
    /// Number of the program among those of the process.
    pub image: u32,
    /// Name of the job and number in it.
    pub rank: Option<(String, u32)>,
    /// True if MPI was called.
    pub mpi: bool,
    /// True if every process was to be recorded.
    pub all: bool,
}

/// Role of a trace in the job.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A rank, or a requested process.
    Member,
    /// A program around the ranks that never called MPI and was not requested: one that a rank
    /// started, with the rank's variables, or one around a launcher.
    Helper,
    /// The process became another program, which has a trace too.
    Replaced,
}

/// Determines the role of each trace of a job.
pub fn parts(all: &[Who]) -> Vec<Part> {
    let ranks: HashSet<_> =
        all.iter().filter(|who| who.mpi).filter_map(|who| who.rank.as_ref()).collect();
    // In separate PID namespaces, several ranks of a machine can be process 1.
    let process = |who: &Who| (who.process, who.rank.clone());
    let mut last: HashMap<_, u32> = HashMap::new();
    for who in all {
        let image = last.entry(process(who)).or_default();
        *image = who.image.max(*image);
    }
    let part = |who: &Who| {
        let beside = match &who.rank {
            Some(rank) => ranks.contains(rank),
            None => !ranks.is_empty(),
        };
        if !who.mpi && !who.all && beside {
            Part::Helper
        } else if who.image < last.get(&process(who)).copied().unwrap_or_default() {
            Part::Replaced
        } else {
            Part::Member
        }
    };
    all.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(pid: u32, rank: Option<u32>, mpi: bool) -> Who {
        let rank = rank.map(|rank| ("job".to_owned(), rank));
        Who { process: ([1; 16], pid, 7), parent: 1, image: 0, rank, mpi, all: false }
    }

    #[test]
    fn helper_of_a_rank_is_told_from_a_missing_rank() {
        let all = [who(1, Some(0), true), who(2, Some(0), false), who(3, Some(1), false)];
        assert_eq!(parts(&all), [Part::Member, Part::Helper, Part::Member]);
        let asked: Vec<Who> = all.iter().map(|who| Who { all: true, ..who.clone() }).collect();
        assert!(parts(&asked).iter().all(|part| *part == Part::Member));
        // A script around the launcher; and a program of a job without MPI.
        assert_eq!(parts(&[who(1, Some(0), true), who(2, None, false)])[1], Part::Helper);
        assert_eq!(parts(&[who(1, None, false), who(2, None, false)]), [Part::Member; 2]);
        let other = Who { rank: Some(("another".to_owned(), 0)), ..who(2, None, false) };
        assert_eq!(parts(&[who(1, Some(0), true), other])[1], Part::Member);
    }

    #[test]
    fn last_program_of_a_process_stands_for_it() {
        let second = Who { image: 1, ..who(1, Some(0), true) };
        let other = Who { process: ([2; 16], 1, 7), ..who(1, Some(1), true) };
        let all = [who(1, Some(0), true), second, other];
        assert_eq!(parts(&all), [Part::Replaced, Part::Member, Part::Member]);
        let beside = Who { image: 1, ..who(1, Some(1), true) };
        assert_eq!(parts(&[who(1, Some(0), true), beside]), [Part::Member, Part::Member]);
    }

    #[test]
    fn words_on_children_are_told_by_rank() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(forked_told(&forked(folder.path())), None);
        for name in ["h.7.0.-1.children", "h.7.0.4.children", "h.b.9.0.4.children", "x.children"] {
            std::fs::write(folder.path().join(name), "").expect("written");
        }
        let ranks = forked(folder.path());
        assert_eq!(ranks, [Some(4), None]);
        let told = forked_told(&ranks).expect("a sentence");
        assert!(told.starts_with("children that rank 4 forked held memory"), "{told}");
        let many: Vec<_> = (0..9).map(Some).collect();
        let told = forked_told(&many).expect("a sentence");
        assert!(told.contains("ranks 0, 1, 2, 3, 4, 5, 6, 7, ... forked"), "{told}");
    }

    #[test]
    fn words_are_read_and_other_files_are_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in [
            "node.7.example.org.4711.99.3.28.missing",
            "node.12-4026532837.99.-1.13.missing",
            "x.missing",
            "a.b.c.d.e.missing",
            "1.2.3.4.memprof",
        ] {
            std::fs::write(folder.path().join(name), "").expect("written");
        }
        let refused = refused(folder.path());
        assert_eq!(refused.len(), 2, "{refused:?}");
        assert_eq!((refused[0].rank, &*refused[0].host), (Some(3), "node.7.example.org"));
        assert!(refused[0].why.contains("No space left"), "{}", refused[0].why);
        assert_eq!((refused[1].rank, refused[1].pid), (None, 12));
    }
}
