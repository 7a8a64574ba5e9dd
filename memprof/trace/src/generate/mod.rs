//! Traces of jobs that never ran, to see how reports look, and how long they take, at sizes that
//! are not available. Every file is written by the [`crate::write::Writer`] that ranks use.

mod rank;
mod reseal;
mod times;

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::layout::Geometry;
use crate::write::Buffer;
use rank::Rank;
pub use reseal::reseal;

/// Shape of a generated job. Equal shapes yield equal files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobShape {
    /// Ranks; at least one.
    pub ranks: u32,
    /// Nodes, which get equal shares of the ranks; at least one.
    pub nodes: u32,
    /// Samples of each rank, four per second.
    pub samples: u32,
    /// Components of each rank; 12 to 128.
    pub components: u32,
    /// Segments that the ranks of a node share; at most 32.
    pub segments: u32,
    /// Bytes of each file; see [`Geometry::for_file`].
    pub file_size: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Generate times inside and outside of MPI and loops too, as `memprof run --mpi-time --loops`
    /// records them.
    pub times: bool,
    /// Additional memory of one component compared with a job of otherwise equal shape.
    pub more: Option<More>,
}

/// A known difference from another job.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct More {
    /// Number of the component, as in traces.
    pub component: u16,
    /// Number of the phase in which it holds more.
    pub phase: usize,
    /// Number of the affected node.
    pub node: u32,
    /// Additional bytes in each of its ranks; whole pages.
    pub bytes: u64,
}

impl Default for JobShape {
    /// Returns the shape of a job of two minutes with sixteen ranks on two nodes.
    fn default() -> Self {
        Self {
            ranks: 16,
            nodes: 2,
            samples: 480,
            components: 24,
            segments: 3,
            file_size: Geometry::DEFAULT_FILE,
            seed: 1,
            times: false,
            more: None,
        }
    }
}

impl JobShape {
    fn checked(&self) -> io::Result<(Self, Geometry)> {
        let geometry = Geometry::for_file(self.file_size).ok_or_else(|| {
            let least = Geometry::SMALLEST_FILE;
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a trace has at least {least} bytes"),
            )
        })?;
        let shape = Self {
            ranks: self.ranks.max(1),
            nodes: self.nodes.clamp(1, self.ranks.max(1)),
            components: self.components.clamp(rank::FEWEST_COMPONENTS, 128),
            segments: self.segments.min(32),
            ..self.clone()
        };
        Ok((shape, geometry))
    }
}

/// Writes a trace for each rank into `folder`, which is created if necessary, and returns their
/// names. Calls `progress` after each with the number done and the total.
///
/// # Errors
/// If the shape is impossible, or the folder or a trace cannot be written.
pub fn job(
    folder: &Path,
    shape: &JobShape,
    progress: &mut dyn FnMut(u32, u32),
) -> io::Result<Vec<PathBuf>> {
    let (shape, geometry) = shape.checked()?;
    fs::create_dir_all(folder)?;
    let mut buffer = Buffer::new(shape.file_size);
    let mut files = Vec::with_capacity(shape.ranks as usize);
    for number in 0..shape.ranks {
        buffer.clear();
        let rank = Rank::new(&shape, number);
        rank.write(&mut buffer, &geometry)?;
        let path = folder.join(rank.file_name());
        save(&path, buffer.bytes())?;
        files.push(path);
        progress(number + 1, shape.ranks);
    }
    Ok(files)
}

/// Writes a file without its empty pages.
fn save(path: &Path, bytes: &[u8]) -> io::Result<()> {
    const PAGE: usize = 4096;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_len(bytes.len() as u64)?;
    let is_empty = |page: usize| {
        let page = &bytes[page * PAGE..bytes.len().min((page + 1) * PAGE)];
        page.iter().all(|byte| *byte == 0)
    };
    let pages = bytes.len().div_ceil(PAGE);
    let mut page = 0;
    while page < pages {
        let begin = page;
        while page < pages && !is_empty(page) {
            page += 1;
        }
        let range = begin * PAGE..bytes.len().min(page * PAGE);
        file.write_all_at(&bytes[range.clone()], range.start as u64)?;
        while page < pages && is_empty(page) {
            page += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{flags, sample};
    use crate::read::Trace;
    use std::collections::BTreeMap;

    fn made(shape: &JobShape) -> Vec<Trace> {
        let folder = tempfile::tempdir().unwrap();
        let files = job(folder.path(), shape, &mut |_, _| {}).unwrap();
        files.iter().map(|file| Trace::open(file).unwrap()).collect()
    }

    #[test]
    fn every_generated_rank_is_read_without_faults_and_balances() {
        let shape = JobShape { ranks: 6, samples: 200, ..JobShape::default() };
        let traces = made(&shape);
        for (number, trace) in traces.iter().enumerate() {
            assert_eq!(trace.faults, []);
            assert_eq!(usize::try_from(trace.identity.rank), Ok(number));
            assert!(trace.has(flags::CLOSED | flags::FINALIZED));
            let full = trace.history.samples().filter(|(head, _)| head.flags & sample::FULL != 0);
            let mut greatest = 0;
            for (head, rows) in full {
                let sum: u64 = rows.iter().map(|row| row.resident).sum();
                assert_eq!(sum, head.walked);
                assert!(rows.iter().all(|row| row.resident <= row.owned));
                greatest = greatest.max(sum);
            }
            let summary = trace.summary.as_ref().unwrap();
            assert_eq!(summary.head.peak, greatest);
            let at_peak: u64 = summary.rows.iter().map(|row| row.resident_at_peak).sum();
            assert_eq!(at_peak, greatest);
            assert_eq!(trace.timeline.iter().map(|bin| bin.head.total_max).max(), Some(greatest));
            assert!(trace.component_name(16).starts_with("app.exe"));
            assert!(trace.phases.len() >= 3 && trace.phase_peaks.len() == trace.phases.len());
        }
    }

    #[test]
    fn times_and_loops_are_made_where_asked_for() {
        let shape = JobShape { ranks: 17, samples: 40, times: true, ..JobShape::default() };
        for (rank, trace) in (0..).zip(made(&shape)) {
            assert_eq!(trace.faults, []);
            assert_eq!(trace.times.len(), trace.phases.len() + 1);
            for time in &trace.times {
                let mpi: u64 = time.row.mpi_ns.iter().sum();
                assert!(mpi > 0 && mpi + time.row.lent_ns <= time.row.elapsed_ns, "{time:?}");
                assert!(time.row.openmp_ns <= time.row.elapsed_ns - mpi);
            }
            let names: Vec<String> =
                trace.loops.iter().filter_map(|row| trace.function(row.row.function)).collect();
            let message = if rank % 2 == 0 { "MPI_Send" } else { "MPI_Recv" };
            assert_eq!(names, ["MPI_Allreduce", message, "MPI_Waitall"]);
        }
        assert!(made(&JobShape { ranks: 1, ..JobShape::default() })[0].times.is_empty());
    }

    #[test]
    fn ranks_share_segments_within_a_node_only() {
        let traces = made(&JobShape { ranks: 6, nodes: 2, samples: 8, ..JobShape::default() });
        let mut holders: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for trace in &traces {
            for segment in &trace.segments {
                let key = (trace.identity.boot_id, segment.row.row.device, segment.row.row.inode);
                holders.entry(key).or_default().push(trace.identity.rank);
                let bits: u32 = segment.row.bitmap.iter().map(|byte| byte.count_ones()).sum();
                let granule = 1_u64 << segment.row.row.granule_shift;
                assert_eq!(u64::from(bits) * granule, segment.row.row.present);
            }
        }
        assert_eq!(holders.len(), 6);
        assert!(holders.values().all(|ranks| ranks.len() == 3));
    }

    #[test]
    fn equal_shapes_give_equal_traces_and_other_seeds_others() {
        let shape = JobShape { ranks: 2, samples: 20, ..JobShape::default() };
        assert_eq!(made(&shape), made(&shape));
        assert_ne!(made(&shape), made(&JobShape { seed: 2, ..shape }));
    }
}
