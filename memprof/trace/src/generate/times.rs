//! Times and loops of a rank that never ran.

use super::rank::Random;
use crate::layout::{Geometry, LoopRow, NONE, TimeRow};
use crate::write::Writer;

/// Rows of the loops.
const LOOPS: u32 = 3;
/// Kinds of MPI functions, by their index in [`TimeRow::mpi_ns`].
const POINT_TO_POINT: usize = 0;
const COLLECTIVE: usize = 1;
const WAIT: usize = 4;
const OTHER: usize = 5;
/// Address of the outer loop's call in the program's file.
const OUTER: u64 = 0x2340;

/// Returns a geometry with room for the whole, for the phases, and for the loops.
pub(super) fn room(geometry: Geometry, phases: u32) -> Geometry {
    Geometry { times: phases + 1, loops: LOOPS, ..geometry }
}

/// Kind of a region, by the part of the time that its ranks spend outside of MPI.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Region {
    /// MPI begins or ends in it.
    Edge,
    /// Ranks compute and wait for the slowest.
    Work,
    /// One rank in eight computes with threads; the others lend it their processors.
    Lent,
}

/// Generates the time of a rank in a region of this length.
pub(super) fn of(region: Region, rank: u32, elapsed: u64, random: &mut Random) -> TimeRow {
    let mut row = TimeRow { elapsed_ns: elapsed, time: elapsed, ..TimeRow::default() };
    let share = |of: u64| (u128::from(elapsed) * u128::from(of) / 1000) as u64;
    // The first rank reads for all others; every sixteenth has a larger part of the mesh.
    let useful = share(match region {
        Region::Edge => 20 + random.below(20),
        Region::Work if rank == 0 => 900,
        Region::Work if rank.is_multiple_of(16) => 780 + random.below(40),
        Region::Work => 520 + random.below(120),
        Region::Lent if rank.is_multiple_of(8) => 950,
        Region::Lent => 0,
    });
    row.openmp_ns = if region == Region::Edge { 0 } else { useful * 3 / 5 };
    row.openmp_regions = row.openmp_ns / 1_000_000;
    if region == Region::Lent && useful == 0 {
        (row.lent_ns, row.lent_calls) = (share(940), 1);
    }
    let mpi = elapsed - useful - row.lent_ns;
    if region == Region::Edge {
        row.mpi_ns[OTHER] = mpi;
        return row;
    }
    row.mpi_ns[POINT_TO_POINT] = mpi / 5;
    row.mpi_ns[WAIT] = mpi / 5;
    row.mpi_ns[COLLECTIVE] = mpi - mpi / 5 * 2;
    for kind in [POINT_TO_POINT, WAIT, COLLECTIVE] {
        row.calls[kind] = row.mpi_ns[kind] / 50_000;
    }
    row
}

/// Writes a loop with an inner loop, in which even ranks send and odd ones receive.
pub(super) fn write_loops(writer: &mut Writer<'_>, rank: u32, main: &TimeRow) {
    let turns = 1000;
    let mpi: u64 = main.mpi_ns.iter().sum();
    let (function, offset) = match rank % 2 {
        0 => ("MPI_Send", OUTER + 0x40),
        _ => ("MPI_Recv", OUTER + 0x80),
    };
    let sites = [
        ("MPI_Allreduce", OUTER, NONE, COLLECTIVE, turns, main.elapsed_ns, mpi),
        (function, offset, 0, POINT_TO_POINT, 8 * turns, main.elapsed_ns / 2, mpi / 4),
        ("MPI_Waitall", offset + 0x100, 1, WAIT, 8 * turns, 0, 0),
    ];
    for (index, (function, offset, around, kind, calls, time, mpi)) in (0..).zip(sites) {
        let row = LoopRow {
            object: 0,
            function: writer.intern(function),
            offset,
            around,
            kind: kind as u32,
            is_head: u32::from(time > 0),
            calls,
            spent_ns: main.mpi_ns[kind],
            turns: if time > 0 { calls } else { 0 },
            time_ns: time,
            mpi_ns: mpi,
            recent_time_ns: time / 10,
            recent_mpi_ns: mpi / 10,
            time: main.elapsed_ns,
            ..LoopRow::default()
        };
        writer.set_loop(main.elapsed_ns, index, &row);
    }
}
