//! Jobs as CSV: in this crate's columns, and in those of Batsim's `jobs.csv`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use quo_terminal::csv;

use crate::simulate::{Ending, Outcome, Record};
use crate::workload::Workload;
use elastic_policy::nodes::Interval;

/// Writes one line for each job.
///
/// # Errors
///
/// Writing fails.
pub fn jobs(outcome: &Outcome, workload: &Workload, into: &mut dyn Write) -> io::Result<()> {
    writeln!(
        into,
        "job,class,priority,submitted_s,started_s,ended_s,wait_s,execution_s,walltime_s,\
         nodes_asked,nodes_start,nodes_largest,resizes,node_s,ending"
    )?;
    for (record, spec) in outcome.records.iter().zip(&workload.jobs) {
        let started = record.started.map_or(String::new(), |time| time.as_seconds().to_string());
        let ending = match record.ending {
            Ending::Completed => "completed",
            Ending::TimedOut => "timed_out",
            Ending::Rejected => "rejected",
            Ending::Stopped => "stopped",
        };
        writeln!(
            into,
            "{},{},{},{},{started},{},{},{},{},{},{},{},{},{},{ending}",
            csv(&spec.name.to_string()),
            format!("{:?}", record.class).to_lowercase(),
            record.priority,
            record.submitted.as_seconds(),
            record.ended.as_seconds(),
            record.wait().as_seconds(),
            record.execution().as_seconds(),
            record.walltime.as_seconds(),
            record.asked,
            record.started_on,
            record.largest,
            record.resizes,
            record.node_time as f64 / 1000.0,
        )?;
    }
    Ok(())
}

/// Writes the columns of Batsim's `jobs.csv`, which evalys reads. The resources of a job are all nodes it ever had; they
/// are empty unless the simulation kept nodes.
///
/// # Errors
///
/// Writing fails.
pub fn batsim(outcome: &Outcome, workload: &Workload, into: &mut dyn Write) -> io::Result<()> {
    let mut nodes: BTreeMap<u32, Vec<Interval>> = BTreeMap::new();
    for piece in &outcome.pieces {
        nodes.entry(piece.job).or_default().push(piece.nodes);
    }
    writeln!(
        into,
        "job_id,workload_name,profile,submission_time,requested_number_of_resources,\
         requested_time,success,final_state,starting_time,execution_time,finish_time,\
         waiting_time,turnaround_time,stretch,allocated_resources,consumed_energy,metadata"
    )?;
    for (place, (record, spec)) in outcome.records.iter().zip(&workload.jobs).enumerate() {
        let state = match record.ending {
            Ending::Completed => "COMPLETED_SUCCESSFULLY",
            Ending::TimedOut => "COMPLETED_WALLTIME_REACHED",
            Ending::Rejected => "REJECTED",
            Ending::Stopped => "COMPLETED_KILLED",
        };
        let held = u32::try_from(place).ok().and_then(|place| nodes.get(&place));
        let Some(started) = record.started else { continue };
        writeln!(
            into,
            "{},w0,{},{},{},{},{},{state},{},{},{},{},{},{},{},-1,",
            csv(&spec.name.to_string()),
            format!("{:?}", record.class).to_lowercase(),
            record.submitted.as_seconds(),
            record.asked,
            record.walltime.as_seconds(),
            u8::from(record.ending == Ending::Completed),
            started.as_seconds(),
            record.execution().as_seconds(),
            record.ended.as_seconds(),
            record.wait().as_seconds(),
            record.completion().as_seconds(),
            stretch(record),
            held.map_or(String::new(), |held| joined(held)),
        )?;
    }
    Ok(())
}

fn stretch(record: &Record) -> f64 {
    let execution = record.execution().as_seconds();
    if execution > 0.0 { record.completion().as_seconds() / execution } else { 1.0 }
}

/// Returns intervals as Batsim writes them, sorted and joined: `0-3 8`.
fn joined(held: &[Interval]) -> String {
    let mut sorted = held.to_vec();
    sorted.sort_unstable();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for part in sorted {
        match ranges.last_mut() {
            Some(last) if part.first <= last.1 => last.1 = last.1.max(part.end()),
            _ => ranges.push((part.first, part.end())),
        }
    }
    let words: Vec<String> = ranges
        .into_iter()
        .map(|(first, end)| match end - first {
            1 => first.to_string(),
            _ => format!("{first}-{}", end - 1),
        })
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_sorted_and_joined() {
        let part = |first, count| Interval { first, count };
        let held = [part(8, 1), part(0, 2), part(2, 2), part(1, 2), part(20, 3)];
        assert_eq!(joined(&held), "0-3 8 20-22");
    }
}
