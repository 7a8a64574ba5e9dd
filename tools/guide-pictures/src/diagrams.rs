//! The diagrams of the guide.

use crate::diagram::{Arrow, Diagram, Shape};

const fn shape(
    at: (f64, f64),
    size: (f64, f64),
    class: &'static str,
    lines: &'static [&'static str],
) -> Shape {
    Shape { at, size, class, lines }
}

const fn arrow(along: &'static [(f64, f64)], text: &'static str, shift: (f64, f64)) -> Arrow {
    Arrow { along, text, shift }
}

/// A push and its pop: masks of four ranks on the cores of a package.
const PUSH: Diagram = Diagram {
    name: "push",
    title: "A push widens a binding, its pop restores it",
    label: "Four ranks on four cores: bound to a core each; then rank 0 has pushed the package and \
            runs four threads while the others sleep; then the pop has restored the first state",
    height: 250.0,
    shapes: &[
        shape((20.0, 60.0), (230.0, 130.0), "box", &[]),
        shape((26.0, 75.0), (54.0, 100.0), "own", &["core 0", "rank 0"]),
        shape((81.0, 75.0), (54.0, 100.0), "own", &["core 1", "rank 1"]),
        shape((136.0, 75.0), (54.0, 100.0), "own", &["core 2", "rank 2"]),
        shape((191.0, 75.0), (54.0, 100.0), "own", &["core 3", "rank 3"]),
        shape((20.0, 195.0), (230.0, 40.0), "", &["a core for each rank", "one thread each"]),
        shape((310.0, 60.0), (230.0, 130.0), "box", &[]),
        shape((320.0, 75.0), (210.0, 70.0), "work", &["rank 0", "4 threads, cores 0-3"]),
        shape((320.0, 152.0), (210.0, 24.0), "sleep", &["ranks 1 to 3 sleep"]),
        shape((310.0, 195.0), (230.0, 40.0), "", &["package pushed", "the threads move, too"]),
        shape(
            (600.0, 60.0),
            (180.0, 130.0),
            "box",
            &["as before", "every thread has", "its own mask again"],
        ),
    ],
    arrows: &[
        arrow(&[(252.0, 120.0), (307.0, 120.0)], "push", (0.0, -8.0)),
        arrow(&[(542.0, 120.0), (597.0, 120.0)], "pop", (0.0, -8.0)),
    ],
};

/// Memory that ranks share, as a worker sees it.
const SHARED: Diagram = Diagram {
    name: "shared",
    title: "A worker reads and writes the parts of its ranks in place",
    label: "One segment of memory with the parts of four ranks; each rank views its own part, and \
            the worker of ranks 0 and 1 views the parts of both as one array",
    height: 270.0,
    shapes: &[
        shape((110.0, 60.0), (140.0, 44.0), "own", &["rank 0, worker"]),
        shape((255.0, 60.0), (140.0, 44.0), "sleep", &["rank 1 sleeps"]),
        shape((400.0, 60.0), (140.0, 44.0), "own", &["rank 2, worker"]),
        shape((545.0, 60.0), (140.0, 44.0), "sleep", &["rank 3 sleeps"]),
        shape((110.0, 160.0), (140.0, 44.0), "box", &["part of rank 0"]),
        shape((250.0, 160.0), (145.0, 44.0), "box", &["part of rank 1"]),
        shape((395.0, 160.0), (145.0, 44.0), "box", &["part of rank 2"]),
        shape((540.0, 160.0), (145.0, 44.0), "box", &["part of rank 3"]),
        shape(
            (110.0, 212.0),
            (575.0, 40.0),
            "",
            &[
                "one segment of the node's memory",
                "the parts follow each other without gaps: two of them are one array",
            ],
        ),
    ],
    arrows: &[
        arrow(&[(180.0, 104.0), (180.0, 157.0)], "", (0.0, 0.0)),
        arrow(&[(200.0, 104.0), (310.0, 157.0)], "view of both", (70.0, -4.0)),
        arrow(&[(470.0, 104.0), (470.0, 157.0)], "", (0.0, 0.0)),
        arrow(&[(490.0, 104.0), (600.0, 157.0)], "view of both", (70.0, -4.0)),
    ],
};

/// States of a process of an elastic world.
const WORLD: Diagram = Diagram {
    name: "world",
    title: "A process of an elastic world, and the window of a resize",
    label: "A process is launched or started; it is parked or a rank; joiners enter the window of a \
            resize and become ranks at its commit; leavers are parked again or end",
    height: 300.0,
    shapes: &[
        shape((20.0, 70.0), (150.0, 54.0), "box", &["launched", "by mpirun or srun"]),
        shape((20.0, 190.0), (150.0, 54.0), "box", &["started", "during the run"]),
        shape((230.0, 190.0), (130.0, 54.0), "sleep", &["parked", "sleeps, no core"]),
        shape((230.0, 70.0), (130.0, 54.0), "own", &["rank", "computes"]),
        shape(
            (430.0, 60.0),
            (190.0, 194.0),
            "box",
            &[
                "window",
                "old and new ranks",
                "exchange the arrays",
                "all accept: commit",
                "or all keep the old world",
            ],
        ),
        shape((670.0, 70.0), (110.0, 54.0), "own", &["rank", "next epoch"]),
        shape((670.0, 190.0), (110.0, 54.0), "box", &["leaver", "parks or ends"]),
    ],
    arrows: &[
        arrow(&[(172.0, 97.0), (227.0, 97.0)], "", (0.0, 0.0)),
        arrow(&[(150.0, 124.0), (232.0, 187.0)], "", (0.0, 0.0)),
        arrow(&[(172.0, 217.0), (227.0, 217.0)], "", (0.0, 0.0)),
        arrow(&[(362.0, 97.0), (427.0, 97.0)], "begin", (0.0, -8.0)),
        arrow(&[(362.0, 217.0), (427.0, 217.0)], "called in", (0.0, -8.0)),
        arrow(&[(622.0, 97.0), (667.0, 97.0)], "", (0.0, 0.0)),
        arrow(&[(622.0, 217.0), (667.0, 217.0)], "", (0.0, 0.0)),
        arrow(&[(725.0, 246.0), (725.0, 280.0), (295.0, 280.0), (295.0, 247.0)], "", (0.0, 0.0)),
    ],
};

/// How the profiler classes a page or a block.
const CLASSES: Diagram = Diagram {
    name: "memory-classes",
    title: "How memprof attributes a resident page",
    label: "Resident memory of a rank is divided: blocks belong to the component that allocated \
            them, free memory of the allocator is slack, mapped files and segments belong to their \
            object, stacks to their thread, and what is left is unattributed",
    height: 330.0,
    shapes: &[
        shape((250.0, 50.0), (300.0, 44.0), "box", &["resident pages of a rank"]),
        shape((20.0, 150.0), (170.0, 62.0), "work", &["block of malloc", "or of mmap"]),
        shape((215.0, 150.0), (170.0, 62.0), "sleep", &["free memory", "of the allocator"]),
        shape((410.0, 150.0), (170.0, 62.0), "other", &["file or segment", "that is mapped"]),
        shape((605.0, 150.0), (175.0, 62.0), "box", &["stack", "of a thread"]),
        shape((20.0, 260.0), (170.0, 54.0), "", &["owner", "the calling object"]),
        shape((215.0, 260.0), (170.0, 54.0), "", &["slack", "by its last owner"]),
        shape((410.0, 260.0), (170.0, 54.0), "", &["shared", "once per node"]),
        shape((605.0, 260.0), (175.0, 54.0), "", &["stacks", "the rest: unattributed"]),
    ],
    arrows: &[
        arrow(&[(300.0, 94.0), (110.0, 147.0)], "", (0.0, 0.0)),
        arrow(&[(360.0, 94.0), (300.0, 147.0)], "", (0.0, 0.0)),
        arrow(&[(440.0, 94.0), (495.0, 147.0)], "", (0.0, 0.0)),
        arrow(&[(500.0, 94.0), (690.0, 147.0)], "", (0.0, 0.0)),
        arrow(&[(105.0, 212.0), (105.0, 262.0)], "", (0.0, 0.0)),
        arrow(&[(300.0, 212.0), (300.0, 262.0)], "", (0.0, 0.0)),
        arrow(&[(495.0, 212.0), (495.0, 262.0)], "", (0.0, 0.0)),
        arrow(&[(692.0, 212.0), (692.0, 262.0)], "", (0.0, 0.0)),
    ],
};

/// The packages, with what each uses below it.
const PACKAGES: Diagram = Diagram {
    name: "packages",
    title: "Packages: each uses those below it",
    label: "From the top: commands; bindings for C, C++, Fortran and Python; elastic with tasks, \
            programs and ReSHAPE; quo-mpi; quo. Next to them memprof with its preloaded object",
    height: 400.0,
    shapes: &[
        shape((20.0, 60.0), (165.0, 50.0), "other", &["quo-info, quo-run"]),
        shape((195.0, 60.0), (165.0, 50.0), "other", &["quo-elastic"]),
        shape((20.0, 130.0), (340.0, 54.0), "box", &["bindings", "C, C++, Fortran, Python"]),
        shape(
            (370.0, 60.0),
            (150.0, 124.0),
            "box",
            &["elastic-lab", "simulations", "over elastic-policy"],
        ),
        shape((20.0, 204.0), (500.0, 50.0), "box", &["elastic/program, tasks, reshape"]),
        shape((20.0, 264.0), (325.0, 54.0), "work", &["elastic", "worlds, resizes, managers"]),
        shape((355.0, 264.0), (165.0, 54.0), "box", &["elastic-layout", "pure"]),
        shape((20.0, 328.0), (160.0, 54.0), "box", &["quo-mpi", "communicators"]),
        shape((190.0, 328.0), (330.0, 54.0), "work", &["quo", "contexts, bindings, phases"]),
        shape((560.0, 60.0), (220.0, 50.0), "other", &["memprof (command)"]),
        shape((560.0, 130.0), (220.0, 54.0), "box", &["memprof-time, -sweep", "guests"]),
        shape((560.0, 204.0), (220.0, 50.0), "work", &["memprof", "analysis and reports"]),
        shape((560.0, 264.0), (220.0, 54.0), "box", &["memprof-trace", "the file format"]),
        shape((560.0, 328.0), (220.0, 54.0), "box", &["memprof-preload", "inside of the program"]),
    ],
    arrows: &[],
};

/// Returns the diagrams with their names.
pub fn all() -> Vec<(&'static str, String)> {
    [&PUSH, &SHARED, &WORLD, &CLASSES, &PACKAGES].map(|it| (it.name, it.draw())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_into_their_shapes() {
        let wrong: Vec<String> = [&PUSH, &SHARED, &WORLD, &CLASSES, &PACKAGES]
            .into_iter()
            .flat_map(Diagram::misfits)
            .collect();
        assert_eq!(wrong, [""; 0]);
    }
}
