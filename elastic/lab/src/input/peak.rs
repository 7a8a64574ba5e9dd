//! Peak of the nodes and processors that the jobs of a log held at the same time, by the log's own
//! times.

/// Peak of the nodes, and peak of the processors, held by jobs at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// The nodes; a node counts once for each job on it, even if the job holds only part of it.
    pub nodes: u64,
    /// The processors, as the log counts them.
    pub processors: u64,
}

/// The starts and ends of the jobs of a log.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// Instants with the nodes and processors that jobs gain or lose.
    changes: Vec<(i64, i32, i32)>,
}

impl Times {
    /// Adds the time of a job.
    pub(super) fn add(&mut self, from: i64, to: i64, nodes: u32, processors: u32) {
        if from >= to {
            return;
        }
        let [nodes, processors] =
            [nodes, processors].map(|count| i32::try_from(count).unwrap_or(i32::MAX));
        self.changes.extend([(from, nodes, processors), (to, -nodes, -processors)]);
    }

    /// Returns the peak of each kind. At an instant, ends of jobs count before starts.
    pub(super) fn peak(mut self) -> Peak {
        // Losses before gains.
        self.changes.sort_unstable();
        let (mut peak, mut nodes, mut processors) = (Peak::default(), 0_i64, 0_i64);
        for (_, of_nodes, of_processors) in self.changes {
            nodes += i64::from(of_nodes);
            processors += i64::from(of_processors);
            peak.nodes = peak.nodes.max(u64::try_from(nodes).unwrap_or(0));
            peak.processors = peak.processors.max(u64::try_from(processors).unwrap_or(0));
        }
        peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_counts_jobs_that_overlap_and_none_that_follow() {
        let mut times = Times::default();
        times.add(0, 10, 2, 8);
        times.add(10, 20, 3, 3);
        times.add(15, 16, 1, 9);
        times.add(5, 5, 99, 99);
        assert_eq!(times.peak(), Peak { nodes: 4, processors: 12 });
        assert_eq!(Times::default().peak(), Peak::default());
    }
}
