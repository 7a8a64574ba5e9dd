//! massif.out: one process for `ms_print` and massif-visualizer. Bytes are resident bytes; the tree
//! of groups and components replaces call stacks.

use super::{History, Kind, Point, Row};
use crate::model::{Group, Rank};
use std::io::{self, Write};

/// Maximum number of snapshots, about as many as Massif itself keeps.
const MOST_SNAPSHOTS: usize = 100;
/// One in this many snapshots has its tree, and so has the peak.
const DETAILED_EVERY: usize = 10;

pub(super) fn rank(out: &mut impl Write, rank: &Rank, history: &History) -> io::Result<()> {
    writeln!(out, "desc: memprof: resident memory of {}", line(&rank.label()))?;
    writeln!(out, "cmd: {}", line(&rank.identity.program))?;
    writeln!(out, "time_unit: ms")?;
    let peak = lost_peak(rank, history);
    let mut points: Vec<&Point> = history.points.iter().chain(&peak).collect();
    points.sort_by_key(|point| point.time_ns);
    let points = thinned(&points);
    let peak =
        points.iter().enumerate().max_by_key(|(at, point)| (point.total, std::cmp::Reverse(*at)));
    let peak = peak.map(|(at, _)| at);
    for (at, point) in points.iter().enumerate() {
        let stacks: u64 = bytes_of(history, point, |group| group == Group::Stack);
        let others: u64 = bytes_of(history, point, |group| group != Group::Stack);
        writeln!(out, "#-----------\nsnapshot={at}\n#-----------")?;
        writeln!(out, "time={}", point.time_ns / 1_000_000)?;
        writeln!(out, "mem_heap_B={others}\nmem_heap_extra_B=0\nmem_stacks_B={stacks}")?;
        if Some(at) == peak {
            writeln!(out, "heap_tree=peak")?;
        } else if at % DETAILED_EVERY == 0 {
            writeln!(out, "heap_tree=detailed")?;
        } else {
            writeln!(out, "heap_tree=empty")?;
            continue;
        }
        tree(out, history, point, others)?;
    }
    Ok(())
}

fn bytes_of(history: &History, point: &Point, wanted: impl Fn(Group) -> bool) -> u64 {
    let rows = point.rows.iter().filter(|row| wanted(Group::of(&history.names[row.component])));
    rows.fold(0u64, |sum, row| sum.saturating_add(row.resident))
}

fn tree(out: &mut impl Write, history: &History, point: &Point, total: u64) -> io::Result<()> {
    let mut groups: Vec<_> = Group::ALL
        .into_iter()
        .filter(|group| *group != Group::Stack)
        .map(|group| {
            let named = point.rows.iter().map(|row| (row.resident, &*history.names[row.component]));
            let mut members: Vec<_> =
                named.filter(|(bytes, name)| *bytes > 0 && Group::of(name) == group).collect();
            members.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
            (members.iter().fold(0u64, |sum, member| sum.saturating_add(member.0)), group, members)
        })
        .filter(|(bytes, ..)| *bytes > 0)
        .collect();
    groups.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    writeln!(out, "n{}: {total} (resident memory by component)", groups.len())?;
    for (bytes, group, members) in groups {
        writeln!(out, " n{}: {bytes} 0x0: {} (group)", members.len(), group.label())?;
        for (bytes, name) in members {
            writeln!(out, "  n0: {bytes} 0x0: {} (component)", line(name))?;
        }
    }
    Ok(())
}

/// Returns the moment of the peak if only a bin is left of that time: a bin has means.
fn lost_peak(rank: &Rank, history: &History) -> Option<Point> {
    let most = history.points.iter().map(|point| point.total).max()?;
    if most >= rank.peak.bytes {
        return None;
    }
    let place = |name: &str| history.names.iter().position(|known| &**known == name);
    let held = rank.held.iter().filter(|held| held.resident_at_peak > 0);
    let rows = held.filter_map(|held| {
        let bytes = held.resident_at_peak;
        Some(Row { component: place(&held.name)?, resident: bytes, ..Row::default() })
    });
    let rows: Vec<Row> = rows.collect();
    Some(Point {
        time_ns: rank.peak.time_ns.saturating_add(rank.offset_ns),
        kind: Kind::Sample,
        total: rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.resident)),
        kernel: 0,
        rows,
    })
}

/// Returns at most [`MOST_SNAPSHOTS`] points, evenly over time, each the largest of its neighbours.
fn thinned<'a>(points: &[&'a Point]) -> Vec<&'a Point> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let span = last.time_ns.saturating_sub(first.time_ns).max(1);
    let slot = |point: &Point| {
        u128::from(point.time_ns.saturating_sub(first.time_ns)) * (MOST_SNAPSHOTS as u128 - 1)
            / u128::from(span)
    };
    let mut kept: Vec<&Point> = Vec::new();
    for &point in points {
        match kept.last_mut() {
            Some(last) if points.len() > MOST_SNAPSHOTS && slot(last) == slot(point) => {
                if point.total > last.total {
                    *last = point;
                }
            }
            _ => kept.push(point),
        }
    }
    kept
}

/// Returns text that cannot end a line or begin a comment, as `#` does in this format.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '#' { '_' } else { c }).collect()
}
