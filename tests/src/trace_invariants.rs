//! Invariants of every trace of the memory profiler.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use memprof_trace::layout::{Class, flags, sample};
use memprof_trace::read::{Sample, Summary, Trace};
use memprof_trace::write::ComponentSample;

const MEBI: f64 = 1024.0 * 1024.0;

/// A trace and its path.
#[derive(Debug)]
pub struct CheckedTrace {
    /// The trace as read.
    pub trace: Trace,
    name: String,
}

/// Selects the components of a sum.
pub type Which = fn(Class) -> bool;

/// Memory of the application.
pub const APPLICATION: Which = |class| class.group() == "application";
/// Memory of MPI.
pub const MPI: Which = |class| class.group() == "mpi";

impl CheckedTrace {
    /// Reads a trace that must be undamaged.
    ///
    /// # Errors
    ///
    /// The trace cannot be read completely.
    pub fn open(path: &Path) -> Result<CheckedTrace> {
        let trace = Trace::open(path).with_context(|| path.display().to_string())?;
        let name = path.display().to_string();
        ensure!(trace.faults.is_empty(), "{name}: {:?}", trace.faults);
        Ok(CheckedTrace { trace, name })
    }

    /// Returns the last summary.
    ///
    /// # Errors
    ///
    /// The process ended before its first summary.
    pub fn summary(&self) -> Result<&Summary> {
        self.trace.summary.as_ref().with_context(|| format!("{}: no summary", self.name))
    }

    /// Returns the class of a component, by its number.
    #[must_use]
    pub fn class(&self, component: u16) -> Class {
        self.trace.component(usize::from(component)).map_or(Class::Unattributed, |row| row.class())
    }

    /// Returns the samples that looked at everything.
    pub fn full(&self) -> impl Iterator<Item = (&Sample, &[ComponentSample])> {
        self.trace.history.samples().filter(|(sample, _)| sample.flags & sample::FULL != 0)
    }

    /// Returns the resident bytes of some components in one sample.
    #[must_use]
    pub fn resident(&self, rows: &[ComponentSample], which: Which) -> u64 {
        let those = rows.iter().filter(|row| which(self.class(row.component)));
        those.map(|row| row.resident).sum()
    }

    /// Returns the most that the kernel reported as resident at any sample, including samples that
    /// looked at nothing else.
    #[must_use]
    pub fn seen(&self) -> u64 {
        let samples = self.trace.history.samples();
        samples.map(|(sample, _)| sample.kernel_resident).max().unwrap_or(0)
    }

    /// Returns the greatest sum of the resident memory of some components over all samples.
    #[must_use]
    pub fn peak(&self, which: Which) -> u64 {
        self.full().map(|(_, rows)| self.resident(rows, which)).max().unwrap_or(0)
    }

    /// Returns the most that some components owned, and had resident, during a phase.
    ///
    /// # Errors
    ///
    /// There is no such phase, or it has no figures.
    pub fn phase_peaks(&self, name: &str, which: Which) -> Result<(u64, u64)> {
        let phases = &self.trace.phases;
        let phase = phases.iter().find(|phase| phase.row.name.to_string() == name);
        let names = || phases.iter().map(|phase| phase.row.name.to_string()).collect::<Vec<_>>();
        let phase = phase.with_context(|| format!("no {name} among {:?}", names()))?;
        let peaks = self.trace.phase_peaks.iter().find(|peaks| peaks.index == phase.index);
        let peaks = peaks.with_context(|| format!("{}: no peaks of {name}", self.name))?;
        let those = peaks.row.iter().enumerate();
        let those = those.filter(|(index, _)| which(self.class(*index as u16)));
        Ok(those.fold((0, 0), |sum, (_, peak)| (sum.0 + peak.owned, sum.1 + peak.resident)))
    }

    /// Returns the bytes of the objects of some components.
    #[must_use]
    pub fn image(&self, which: Which) -> u64 {
        let objects = self.trace.objects.iter().map(|object| &object.row);
        let those = objects.filter(|object| which(self.class(object.component as u16)));
        those.map(|object| object.size).sum()
    }

    /// Returns the sum of the owned peaks of some components.
    ///
    /// # Errors
    ///
    /// There is no summary.
    pub fn owned_peak(&self, which: Which) -> Result<u64> {
        let rows = self.summary()?.rows.iter().enumerate();
        Ok(rows.filter(|row| which(self.class(row.0 as u16))).map(|row| row.1.owned_peak).sum())
    }

    /// Returns the texts of the notes.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.trace.notes.iter().map(|note| note.row.text.to_string()).collect()
    }

    /// Returns a table of all components, for a failure message.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!("{}\n", self.name);
        let Some(summary) = &self.trace.summary else { return text + "  no summary\n" };
        for (index, row) in summary.rows.iter().enumerate() {
            if row.owned_peak > 0 || row.resident_peak > 0 {
                text += &format!(
                    "  {:<40} owned {:>9.3} peak {:>9.3} resident {:>9.3} peak {:>9.3} MiB\n",
                    self.trace.component_name(index),
                    row.owned as f64 / MEBI,
                    row.owned_peak as f64 / MEBI,
                    row.resident as f64 / MEBI,
                    row.resident_peak as f64 / MEBI,
                );
            }
        }
        let head = &summary.head;
        let (full, before) = (head.samples_full, head.samples_release);
        text += &format!("  {full} samples, {before} before releases, ");
        text += &format!("{} left out\n", head.releases_skipped);
        text + &format!("  notes {:?}\n", self.notes())
    }

    /// Checks that the run is complete: MPI began and ended, and the process closed its trace.
    ///
    /// # Errors
    ///
    /// The missing part.
    pub fn expect_whole_run(&self) -> Result<&CheckedTrace> {
        for (flag, what) in [
            (flags::MPI_SEEN, "saw no MPI"),
            (flags::INITIALIZED, "saw no MPI_Init"),
            (flags::FINALIZED, "saw no MPI_Finalize"),
            (flags::CLOSED, "saw no end"),
        ] {
            ensure!(self.trace.has(flag), "{what}\n{}", self.table());
        }
        Ok(self)
    }

    /// Checks that until a process ended, at `end` by the machine's clock, there was never more
    /// than a second without a sample, and that the summary is no older. `excused` returns the time
    /// between two moments of that clock in which the profiler's thread could not run, and counts
    /// only within the gap.
    ///
    /// # Errors
    ///
    /// The longest gap.
    pub fn expect_fresh(
        &self,
        end: Duration,
        excused: impl Fn(Duration, Duration) -> Duration,
    ) -> Result<&CheckedTrace> {
        let began = Duration::from_nanos(self.trace.identity.monotonic_ns);
        let at = |time: u64| began + Duration::from_nanos(time);
        let mut times: Vec<Duration> =
            self.trace.history.samples().map(|(sample, _)| at(sample.time)).collect();
        ensure!(!times.is_empty(), "no samples\n{}", self.table());
        times.push(end);
        let gaps = times.windows(2).map(|pair| (pair[0], pair[1]));
        for (from, until) in gaps.chain([(at(self.summary()?.head.time), end)]) {
            let (gap, excused) = (until.saturating_sub(from), excused(from, until));
            ensure!(
                gap <= Duration::from_secs(1) + excused,
                "{gap:?} without a sample from {:?} on, of which {excused:?} are excused\n{}",
                from.saturating_sub(began),
                self.table()
            );
        }
        Ok(self)
    }

    /// Returns the samples that the program requested.
    pub fn asked(&self) -> impl Iterator<Item = (&Sample, &[ComponentSample])> {
        self.full().filter(|(sample, _)| sample.flags & sample::ASKED != 0)
    }

    /// Returns the functions of MPI in which the main thread was at the peak of the process or of a
    /// component.
    #[must_use]
    pub fn functions_at_peaks(&self) -> Vec<String> {
        let Some(summary) = &self.trace.summary else { return Vec::new() };
        let rows = summary.rows.iter().map(|row| row.resident_peak_function);
        let fields = rows.chain([summary.head.peak_function]);
        fields.filter_map(|field| self.trace.function(field)).collect()
    }

    /// Checks that the profiler itself has 8 MiB at most, not counting its bytes at each block.
    ///
    /// # Errors
    ///
    /// It has more.
    pub fn expect_small_tool(&self) -> Result<&CheckedTrace> {
        let rows = self.summary()?.rows.iter().enumerate();
        let mut tools = rows.filter(|row| self.class(row.0 as u16) == Class::Tool);
        let (_, tool) = tools.next().context("no profiler")?;
        let most = (8 << 20) + tool.owned_peak;
        ensure!(tool.resident_peak <= most, "the profiler itself has too much\n{}", self.table());
        Ok(self)
    }

    /// Checks that in every sample the owners add up to all bytes found, and nearly no byte is
    /// unattributed.
    ///
    /// # Errors
    ///
    /// The first sample that violates this.
    pub fn expect_all_attributed(&self) -> Result<&CheckedTrace> {
        let mut gaps = Vec::new();
        for (sample, rows) in self.full() {
            let found = self.resident(rows, |_| true);
            ensure!(
                found == sample.walked,
                "{} B were found, {found} B have owners\n{}",
                sample.walked,
                self.table()
            );
            let nobody = self.resident(rows, |class| class == Class::Unattributed);
            ensure!(
                nobody * 100 < sample.walked,
                "{nobody} of {} B are unattributed at {} ns\n{}",
                sample.walked,
                sample.time,
                self.table()
            );
            let kernel = self.resident(rows, |class| class == Class::Kernel);
            let gap = sample.walked.saturating_sub(kernel).abs_diff(sample.kernel_resident);
            gaps.push(gap as f64 / sample.kernel_resident.max(1) as f64);
        }
        ensure!(!gaps.is_empty(), "no full sample\n{}", self.table());
        // The process runs during a look, so single samples may be off.
        gaps.sort_by(f64::total_cmp);
        let median = gaps[gaps.len() / 2];
        ensure!(median < 0.01, "{:.2} % off the kernel's total\n{}", median * 100.0, self.table());
        self.expect_small_tool()?.expect_phases_within_the_process()?.expect_no_more_than_owned()
    }

    /// Checks that no phase had more resident than the process, or than its components together,
    /// and that the phase of the process's peak had all of that.
    fn expect_phases_within_the_process(&self) -> Result<&CheckedTrace> {
        let head = &self.summary()?.head;
        // Rows and peaks of a killed process may be of different moments.
        let phases = if self.trace.has(flags::CLOSED) { &self.trace.phases[..] } else { &[] };
        for phase in phases {
            let total = u64::from(phase.row.resident_kib) << 10;
            let peaks = self.trace.phase_peaks.iter().find(|peaks| peaks.index == phase.index);
            let residents =
                peaks.into_iter().flat_map(|peaks| &peaks.row).map(|peak| peak.resident);
            let (largest, sum) = residents.fold((0, 0), |(m, s), peak| (peak.max(m), peak + s));
            let most =
                if phase.index == head.peak_phase { head.peak..=head.peak } else { 0..=head.peak };
            ensure!(
                most.contains(&total) && (largest..=sum).contains(&total),
                "{}: {total} B, components {largest} to {sum} B, the process {} B in phase {}",
                phase.row.name,
                head.peak,
                head.peak_phase
            );
        }
        Ok(self)
    }

    /// Checks that no sample has more resident than the owned peak: in blocks, in mappings, and as
    /// code and data of objects; and that the last one has no more than is owned then. Blocks of
    /// one page may be counted as whole pages, within the error that the trace states.
    fn expect_no_more_than_owned(&self) -> Result<&CheckedTrace> {
        let summary = self.summary()?;
        for (sample, rows) in self.full() {
            for found in rows {
                let (index, class) = (usize::from(found.component), self.class(found.component));
                let Some(row) = summary.rows.get(index) else { continue };
                let objects = self.trace.objects.iter().map(|object| &object.row);
                let images = objects.filter(|object| object.component as usize == index);
                let images: u64 = images.map(|object| object.size).sum();
                // A library that was closed during the look has no row with its size.
                if images == 0 && matches!(class, Class::AppLibrary | Class::MpiDependency) {
                    continue;
                }
                let last = sample.flags & sample::LAST != 0;
                let owned = if last { found.owned } else { row.owned_peak };
                // Blocks count by the byte, and their pages by the bytes of blocks in them;
                // everything else is whole pages on both sides. Only a peak is an upper bound at
                // every moment: at the end, threads that MPI leaves may free pending amounts
                // between the walk and the sums.
                let between = if last { 64 * 1024 } else { 0 };
                let allowed = owned + images + row.error + between;
                ensure!(
                    !(APPLICATION(class) || MPI(class)) || found.resident <= allowed,
                    "{} has more resident ({} B) than it owns ({owned} B, error {} B) at {} ns\n{}",
                    self.trace.component_name(index),
                    found.resident,
                    row.error,
                    sample.time,
                    self.table()
                );
            }
        }
        Ok(self)
    }
}
