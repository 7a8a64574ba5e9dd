//! Counters of a trace over time.

use super::sites::objects;
use super::{DETAIL, Names, end_of, open};
use crate::model::{Counted, Counter, Course, Frame, Object};
use memprof_trace::layout::{Moments, NONE, phase};
use memprof_trace::read::Trace;
use std::path::Path;
use std::sync::Arc;

/// Returns the values of a row at the moments of the whole trace; empty for an older trace.
pub fn course(trace: &Trace, moments: &Moments) -> Course {
    if moments.used == 0 {
        return Course::default();
    }
    let end = end_of(trace);
    let shift = Moments::shift_of(end).max(moments.shift);
    let values = (0..=end >> shift).map(|at| moments.at(at << shift));
    Course { step_ns: 1 << shift, values: values.collect() }
}

/// Reads the outermost loops and the program's phases of a trace, and the objects that the places
/// of loops refer to.
pub fn read(file: &Path) -> Result<(Vec<Object>, Vec<Counter>), String> {
    let trace = open(file, DETAIL)?;
    let (objects, numbers, _) = objects(&trace);
    let names = Names::of(&trace);
    let heads = trace.loops.iter().map(|of| &of.row);
    let heads = heads.filter(|row| row.is_head == 1 && row.around == NONE && row.calls > 0);
    let loops = heads.map(|row| Counter {
        counted: Counted::Loop {
            function: trace.function(row.function).map_or_else(|| "MPI".into(), Arc::from),
            frame: Frame {
                object: numbers.get(&row.object).copied().unwrap_or(NONE),
                offset: row.offset,
            },
        },
        total: row.calls,
        time_ns: row.time_ns,
        course: course(&trace, &row.moments),
    });
    let phases = trace.phases.iter().filter(|of| of.row.kind != phase::AUTOMATIC);
    let phases = phases.map(|of| Counter {
        counted: Counted::Phase { name: names.phase(of.index).unwrap_or_default() },
        total: of.row.entries,
        time_ns: of.row.total_ns,
        course: course(&trace, &of.row.moments),
    });
    let counters = loops.chain(phases).collect();
    Ok((objects, counters))
}
