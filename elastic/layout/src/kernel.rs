//! The loops that move bytes: from strided memory to dense memory, back, and from strided to
//! strided. Short runs of common widths are moves of a known size, long ones are `copy_from_slice`.

/// Number of repetitions, and their distances at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    pub count: usize,
    pub from: usize,
    pub to: usize,
}

/// Largest number of levels: one of layers, and three for each of two axes.
pub(super) const LEVELS: usize = 7;

/// Loops around a contiguous run of bytes: the innermost level is the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LoopNest {
    levels: [Level; LEVELS],
    depth: usize,
    /// Number of contiguous bytes on the sides that count.
    pub run: usize,
}

impl LoopNest {
    /// Orders the levels so that both ends of a message agree, and drops levels without repetition.
    pub fn new(levels: [Level; LEVELS], element: usize) -> Self {
        let mut nest = Self { levels, depth: 0, run: element };
        for level in levels {
            if level.count != 1 {
                nest.levels[nest.depth] = level;
                nest.depth += 1;
            }
        }
        let depth = nest.depth;
        nest.levels[..depth].sort_by_key(|level| std::cmp::Reverse((level.from, level.to)));
        nest
    }

    pub fn levels(&self) -> &[Level] {
        &self.levels[..self.depth]
    }

    /// Number of bytes moved.
    pub fn bytes(&self) -> usize {
        self.levels().iter().map(|level| level.count).product::<usize>() * self.run
    }

    /// Number of runs moved.
    pub fn runs(&self) -> usize {
        self.levels().iter().map(|level| level.count).product()
    }

    /// Joins consecutive levels; `joins` returns true if an outer level continues where `length`
    /// bytes, repeated within, have ended.
    fn joined(&self, joins: impl Fn(&Level, (usize, usize)) -> bool) -> Self {
        let mut nest = Self { levels: [Level::default(); LEVELS], depth: 0, run: self.run };
        let mut inner_first = [Level::default(); LEVELS];
        let mut depth = 0;
        for level in self.levels().iter().rev() {
            if depth == 0 && joins(level, (nest.run, nest.run)) {
                nest.run *= level.count;
                continue;
            }
            if depth > 0 {
                let inner: &mut Level = &mut inner_first[depth - 1];
                if joins(level, (inner.from * inner.count, inner.to * inner.count)) {
                    inner.count *= level.count;
                    continue;
                }
            }
            inner_first[depth] = *level;
            depth += 1;
        }
        for (level, inner) in nest.levels.iter_mut().zip(inner_first[..depth].iter().rev()) {
            *level = *inner;
        }
        nest.depth = depth;
        nest
    }

    /// Returns the loops with levels joined that are contiguous at the source.
    pub fn at_source(&self) -> Self {
        self.joined(|level, (from, _)| level.from == from)
    }

    /// Returns the loops with levels joined that are contiguous at the target.
    pub fn at_target(&self) -> Self {
        self.joined(|level, (_, to)| level.to == to)
    }

    /// Returns the loops with levels joined that are contiguous at both ends.
    pub fn at_both(&self) -> Self {
        self.joined(|level, (from, to)| level.from == from && level.to == to)
    }
}

/// Copies strided to dense memory. `out` is as long as the moved data.
pub(super) fn gather(nest: &LoopNest, memory: &[u8], out: &mut [u8]) {
    match nest.levels() {
        [] => out.copy_from_slice(&memory[..nest.run]),
        levels => gather_levels(levels, nest.run, memory, out),
    }
}

fn gather_levels(levels: &[Level], run: usize, memory: &[u8], out: &mut [u8]) {
    match levels {
        [] => {}
        [level] => {
            let memory = &memory[..(level.count - 1) * level.from + run];
            match run {
                1 => gather_run::<1>(level.from, memory, out),
                2 => gather_run::<2>(level.from, memory, out),
                4 => gather_run::<4>(level.from, memory, out),
                8 => gather_run::<8>(level.from, memory, out),
                16 => gather_run::<16>(level.from, memory, out),
                32 => gather_run::<32>(level.from, memory, out),
                64 => gather_run::<64>(level.from, memory, out),
                128 => gather_run::<128>(level.from, memory, out),
                _ => {
                    for (out, run) in out.chunks_exact_mut(run).zip(memory.chunks(level.from)) {
                        out.copy_from_slice(&run[..out.len()]);
                    }
                }
            }
        }
        [outer, inner @ ..] => {
            let part = out.len() / outer.count;
            for (number, out) in out.chunks_exact_mut(part).enumerate() {
                gather_levels(inner, run, &memory[number * outer.from..], out);
            }
        }
    }
}

fn gather_run<const WIDTH: usize>(stride: usize, memory: &[u8], out: &mut [u8]) {
    for (out, run) in out.chunks_exact_mut(WIDTH).zip(memory.chunks(stride)) {
        out.copy_from_slice(&run[..WIDTH]);
    }
}

/// Copies dense to strided memory. `dense` is as long as the moved data.
pub(super) fn scatter(nest: &LoopNest, dense: &[u8], memory: &mut [u8]) {
    match nest.levels() {
        [] => memory[..nest.run].copy_from_slice(dense),
        [.., outer, inner] if outer.to == nest.run && inner.to > outer.to && nest.run <= 16 => {
            scatter_turned(nest, dense, memory);
        }
        levels => scatter_levels(levels, nest.run, dense, memory),
    }
}

fn scatter_levels(levels: &[Level], run: usize, dense: &[u8], memory: &mut [u8]) {
    match levels {
        [] => {}
        [level] => {
            let memory = &mut memory[..(level.count - 1) * level.to + run];
            match run {
                1 => scatter_run::<1>(level.to, dense, memory),
                2 => scatter_run::<2>(level.to, dense, memory),
                4 => scatter_run::<4>(level.to, dense, memory),
                8 => scatter_run::<8>(level.to, dense, memory),
                16 => scatter_run::<16>(level.to, dense, memory),
                32 => scatter_run::<32>(level.to, dense, memory),
                64 => scatter_run::<64>(level.to, dense, memory),
                128 => scatter_run::<128>(level.to, dense, memory),
                _ => {
                    for (run, memory) in dense.chunks_exact(run).zip(memory.chunks_mut(level.to)) {
                        memory[..run.len()].copy_from_slice(run);
                    }
                }
            }
        }
        [outer, inner @ ..] => {
            let part = dense.len() / outer.count;
            for (number, dense) in dense.chunks_exact(part).enumerate() {
                scatter_levels(inner, run, dense, &mut memory[number * outer.to..]);
            }
        }
    }
}

fn scatter_run<const WIDTH: usize>(stride: usize, dense: &[u8], memory: &mut [u8]) {
    for (run, memory) in dense.chunks_exact(WIDTH).zip(memory.chunks_mut(stride)) {
        memory[..WIDTH].copy_from_slice(run);
    }
}

/// Turns rows into columns: adjacent elements are moved far apart. Squares that fit in a cache are
/// turned one after the other.
fn scatter_turned(nest: &LoopNest, dense: &[u8], memory: &mut [u8]) {
    let (levels, run) = (nest.levels(), nest.run);
    let (around, turned) = levels.split_at(levels.len() - 2);
    let (outer, inner) = (turned[0], turned[1]);
    let part = outer.count * inner.count * run;
    let mut dense = dense.chunks_exact(part);
    each(around, 0, &mut |start| {
        if let Some(dense) = dense.next() {
            let source = Level { from: run, ..inner };
            let lines = Level { from: inner.count * run, ..outer };
            turn(run, (lines, source), dense, &mut memory[start..]);
        }
    });
}

/// Calls `call` with the target offset of each iteration of the levels.
fn each(levels: &[Level], start: usize, call: &mut impl FnMut(usize)) {
    match levels {
        [] => call(start),
        [outer, inner @ ..] => {
            for number in 0..outer.count {
                each(inner, start + number * outer.to, call);
            }
        }
    }
}

/// Edge of the squares, in elements.
pub(super) const SQUARE: usize = 64;
/// Distance between two lines of a square.
const PITCH: usize = SQUARE + 1;

fn turn(run: usize, levels: (Level, Level), from: &[u8], to: &mut [u8]) {
    match run {
        4 => turn_run::<4>(levels, from, to),
        8 => turn_run::<8>(levels, from, to),
        16 => turn_run::<16>(levels, from, to),
        _ => turn_any(run, levels, from, to),
    }
}

/// Turns through a separate square, because lines at distances of a power of two would evict each
/// other from the cache.
fn turn_run<const WIDTH: usize>((outer, inner): (Level, Level), from: &[u8], to: &mut [u8]) {
    let mut square = [[0; WIDTH]; SQUARE * PITCH];
    for first in (0..inner.count).step_by(SQUARE) {
        let numbers = SQUARE.min(inner.count - first);
        for line in (0..outer.count).step_by(SQUARE) {
            let lines = SQUARE.min(outer.count - line);
            for index in 0..lines {
                let from = &from[(line + index) * outer.from + first * inner.from..];
                let from = &from[..(numbers - 1) * inner.from + WIDTH];
                let column = square[index..].iter_mut().step_by(PITCH);
                for (element, from) in column.zip(from.chunks(inner.from)) {
                    element.copy_from_slice(&from[..WIDTH]);
                }
            }
            for index in 0..numbers {
                let to = &mut to[(first + index) * inner.to + line * outer.to..][..lines * WIDTH];
                for (to, element) in to.chunks_exact_mut(WIDTH).zip(&square[index * PITCH..]) {
                    to.copy_from_slice(element);
                }
            }
        }
    }
}

fn turn_any(run: usize, (outer, inner): (Level, Level), from: &[u8], to: &mut [u8]) {
    for number in 0..inner.count {
        for line in 0..outer.count {
            let to = &mut to[number * inner.to + line * outer.to..][..run];
            to.copy_from_slice(&from[number * inner.from + line * outer.from..][..run]);
        }
    }
}

/// Copies strided to strided memory.
pub(super) fn copy(nest: &LoopNest, from: &[u8], to: &mut [u8]) {
    match nest.levels() {
        [.., outer, inner] if outer.to == nest.run && inner.to > outer.to && nest.run <= 16 => {
            let levels = nest.levels();
            copy_around(&levels[..levels.len() - 2], from, to, &|from, to| {
                turn(nest.run, (*outer, *inner), from, to);
            });
        }
        [around @ .., level] => {
            copy_around(around, from, to, &|from, to| copy_level(level, nest.run, from, to));
        }
        [] => to[..nest.run].copy_from_slice(&from[..nest.run]),
    }
}

fn copy_around(levels: &[Level], from: &[u8], to: &mut [u8], call: &impl Fn(&[u8], &mut [u8])) {
    match levels {
        [] => call(from, to),
        [outer, inner @ ..] => {
            for number in 0..outer.count {
                let (from, to) = (&from[number * outer.from..], &mut to[number * outer.to..]);
                copy_around(inner, from, to, call);
            }
        }
    }
}

fn copy_level(level: &Level, run: usize, from: &[u8], to: &mut [u8]) {
    let from = &from[..(level.count - 1) * level.from + run];
    let to = &mut to[..(level.count - 1) * level.to + run];
    match run {
        4 => copy_run::<4>(level, from, to),
        8 => copy_run::<8>(level, from, to),
        16 => copy_run::<16>(level, from, to),
        32 => copy_run::<32>(level, from, to),
        64 => copy_run::<64>(level, from, to),
        128 => copy_run::<128>(level, from, to),
        _ => {
            for (to, from) in to.chunks_mut(level.to).zip(from.chunks(level.from)) {
                to[..run].copy_from_slice(&from[..run]);
            }
        }
    }
}

fn copy_run<const WIDTH: usize>(level: &Level, from: &[u8], to: &mut [u8]) {
    for (to, from) in to.chunks_mut(level.to).zip(from.chunks(level.from)) {
        to[..WIDTH].copy_from_slice(&from[..WIDTH]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(count: usize, from: usize, to: usize) -> Level {
        Level { count, from, to }
    }

    fn around(levels: [Level; 3], element: usize) -> LoopNest {
        let once = level(1, 0, 0);
        LoopNest::new([levels[0], levels[1], levels[2], once, once, once, once], element)
    }

    #[test]
    fn levels_that_follow_on_are_joined_on_each_side() {
        // Two groups of three runs of four elements; dense at the source, apart at the target.
        let nest = around([level(2, 96, 400), level(3, 32, 100), level(4, 8, 8)], 8);
        assert_eq!((nest.bytes(), nest.runs()), (192, 24));
        let source = nest.at_source();
        assert_eq!((source.levels(), source.run), (&[][..], 192));
        let target = nest.at_target();
        assert_eq!(
            (target.levels(), target.run),
            (&[level(2, 96, 400), level(3, 32, 100)][..], 32)
        );
        assert_eq!((nest.at_both().levels(), nest.at_both().run), (target.levels(), 32));
        assert_eq!((target.bytes(), target.runs()), (192, 6));
    }

    #[test]
    fn outer_levels_are_joined_around_runs_apart() {
        let nest = around([level(2, 48, 90), level(3, 16, 30), level(5, 200, 100)], 8);
        let order = [level(5, 200, 100), level(2, 48, 90), level(3, 16, 30)];
        assert_eq!(nest.levels(), order);
        let both = nest.at_both();
        assert_eq!((both.levels(), both.run), (&[level(5, 200, 100), level(6, 16, 30)][..], 8));
        let apart = around([level(2, 19, 33), level(3, 16, 30), level(1, 0, 0)], 8);
        assert_eq!(apart.at_both().levels(), apart.levels());
    }
}
