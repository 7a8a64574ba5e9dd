//! Measurements that a program reports of its main loop, for decisions about its size.

use serde::{Deserialize, Serialize};

/// Report of rank 0 after an iteration, for [`World::report`](crate::World::report).
///
/// ```
/// use elastic::Progress;
/// let progress = Progress { mpi_ratio: Some(0.04), ..Progress::new(20, 1.5) };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// The number of the iteration, as in [`World::report_iteration`](crate::World::report_iteration).
    pub iteration: u64,
    /// The time of an iteration in seconds: of the last one, or the mean since the report before.
    pub iteration_seconds: f64,
    /// The time in MPI divided by the time of computing since the previous report. If it is `None`,
    /// the memory profiler measures it on rank 0 if it takes times.
    pub mpi_ratio: Option<f64>,
    /// The seconds until the program ends on its present ranks, if known.
    pub remaining_seconds: Option<f64>,
    /// The memory in bytes of the rank that uses most, if the program measures it, for example by
    /// the memory profiler's `memprof_api::totals`. A manager with `--memory` shrinks the job only
    /// if its data fit.
    pub bytes_per_rank: Option<u64>,
}

impl Progress {
    /// Makes a report of an iteration and its time.
    #[must_use]
    pub fn new(iteration: u64, iteration_seconds: f64) -> Self {
        Self { iteration, iteration_seconds, ..Self::default() }
    }

    /// Checks that all measurements are finite and not negative.
    ///
    /// # Errors
    /// [`ProgressError`] with the first invalid measurement.
    pub fn check(&self) -> Result<(), ProgressError> {
        let measured = [
            ("iteration_seconds", Some(self.iteration_seconds)),
            ("mpi_ratio", self.mpi_ratio),
            ("remaining_seconds", self.remaining_seconds),
        ];
        let is_wrong = |value: f64| !value.is_finite() || value < 0.0;
        for (field, value) in measured {
            if let Some(value) = value.filter(|&value| is_wrong(value)) {
                return Err(ProgressError { field, value });
            }
        }
        Ok(())
    }
}

/// An invalid measurement; nothing was recorded.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("report: {field} is {value}: it has to be finite and not negative")]
pub struct ProgressError {
    /// The field of [`Progress`].
    pub field: &'static str,
    /// Value of the field.
    pub value: f64,
}

/// The latest report of a job, in the answer to a status call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatestReport {
    /// The number of the iteration.
    pub iteration: u64,
    /// The time of an iteration in seconds.
    pub iteration_seconds: f64,
    /// The mean of all iteration times reported since the last resize.
    pub mean_seconds: f64,
    /// Number of reports since the last resize.
    pub reports: u64,
    /// The number of ranks that these times were measured on.
    pub size: u64,
    /// The seconds that the ranks spent in the last resize, from its begin to the end of its
    /// commit, measured by the library. `None` before the first resize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redistribution_seconds: Option<f64>,
    /// The time in MPI divided by the time of computing in the last report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi_ratio: Option<f64>,
    /// Mean of the ratio over all reports with one since the last resize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi_ratio_total: Option<f64>,
    /// The seconds until the program ends on these ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_seconds: Option<f64>,
    /// The memory in bytes of the rank that uses most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_rank: Option<u64>,
}

/// The reports of a program on its present ranks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reports {
    latest: Option<Progress>,
    /// The epoch of the world and its size at the latest report.
    measured_at: (u64, u64),
    count: u64,
    mean_seconds: f64,
    /// The seconds in MPI and in computing, of the reports with a ratio.
    in_mpi: f64,
    computing: f64,
}

impl Reports {
    /// Records a [checked](Progress::check) report. The first one of another epoch resets the
    /// means.
    pub(crate) fn record(&mut self, progress: Progress, epoch: u64, size: u64) {
        if self.measured_at != (epoch, size) {
            *self = Self { measured_at: (epoch, size), ..Self::default() };
        }
        self.count += 1;
        self.mean_seconds += (progress.iteration_seconds - self.mean_seconds) / self.count as f64;
        if let Some(ratio) = progress.mpi_ratio {
            let computing = progress.iteration_seconds / (1.0 + ratio);
            self.computing += computing;
            self.in_mpi += computing * ratio;
        }
        self.latest = Some(progress);
    }

    /// Returns the latest report with the duration of the last resize.
    pub(crate) fn latest(&self, redistribution_seconds: Option<f64>) -> Option<LatestReport> {
        let Progress { iteration, iteration_seconds, mpi_ratio, remaining_seconds, bytes_per_rank } =
            self.latest?;
        // Without iteration times the ratio has no weight.
        let total = if self.computing > 0.0 { Some(self.in_mpi / self.computing) } else { None };
        Some(LatestReport {
            iteration,
            iteration_seconds,
            mean_seconds: self.mean_seconds,
            reports: self.count,
            size: self.measured_at.1,
            redistribution_seconds,
            mpi_ratio,
            mpi_ratio_total: total.filter(|total| total.is_finite()).or(mpi_ratio),
            remaining_seconds,
            bytes_per_rank,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_that_is_no_measurement_is_refused_by_field() {
        let good = Progress { mpi_ratio: Some(0.0), ..Progress::new(1, 0.0) };
        assert_eq!(good.check(), Ok(()));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1e-9] {
            let wrong = [
                (Progress { iteration_seconds: bad, ..good }, "iteration_seconds"),
                (Progress { mpi_ratio: Some(bad), ..good }, "mpi_ratio"),
                (Progress { remaining_seconds: Some(bad), ..good }, "remaining_seconds"),
            ];
            for (progress, field) in wrong {
                let error = progress.check().unwrap_err();
                let text =
                    format!("report: {field} is {bad}: it has to be finite and not negative");
                assert_eq!(error.to_string(), text);
            }
        }
    }

    #[test]
    fn means_and_ratios_begin_anew_at_a_resize() {
        let mut reports = Reports::default();
        assert_eq!(reports.latest(None), None);
        reports.record(Progress { mpi_ratio: Some(1.0), ..Progress::new(1, 2.0) }, 0, 4);
        reports.record(Progress { mpi_ratio: Some(0.0), ..Progress::new(2, 1.0) }, 0, 4);
        reports.record(Progress::new(3, 6.0), 0, 4);
        let latest = reports.latest(None).unwrap();
        assert_eq!((latest.iteration, latest.iteration_seconds, latest.size), (3, 6.0, 4));
        assert_eq!((latest.mean_seconds, latest.reports), (3.0, 3));
        assert_eq!((latest.mpi_ratio, latest.mpi_ratio_total), (None, Some(0.5)));
        // The same size as before, but after two resizes.
        reports.record(Progress::new(4, 5.0), 2, 4);
        let latest = reports.latest(Some(0.25)).unwrap();
        assert_eq!((latest.mean_seconds, latest.reports, latest.mpi_ratio_total), (5.0, 1, None));
        assert_eq!((latest.redistribution_seconds, latest.bytes_per_rank), (Some(0.25), None));
        // Without a time only the ratio itself is known.
        let sparse =
            Progress { mpi_ratio: Some(0.2), bytes_per_rank: Some(7), ..Progress::new(0, 0.0) };
        reports.record(sparse, 3, 1);
        let latest = reports.latest(None).unwrap();
        assert_eq!((latest.mpi_ratio_total, latest.bytes_per_rank), (Some(0.2), Some(7)));
    }

    #[test]
    fn largest_measurements_stay_numbers_in_the_latest_report() {
        let mut reports = Reports::default();
        for _ in 0..3 {
            let largest = Progress { mpi_ratio: Some(f64::MAX), ..Progress::new(1, f64::MAX) };
            reports.record(largest, 0, 1);
        }
        let latest = reports.latest(None).unwrap();
        let text = serde_json::to_string(&latest).unwrap();
        assert_eq!(serde_json::from_str::<LatestReport>(&text).unwrap(), latest);
    }
}
